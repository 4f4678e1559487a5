"""Wheels: which are taken, what they say of themselves, and what code in cells imports from them."""

import hashlib
import stat
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.code.store import WheelStore
from engine.code.wheel_file import MOST_WHEEL_BYTES, UnfitWheel, Wheel, read_wheel
from tests.engine.code.publication import Publication, numbers, wheel

OTHER = f"{sys.version_info[0]}.{sys.version_info[1] + 1}"


def refusal(content: bytes) -> str:
    """The code of the problem of a wheel."""
    with pytest.raises(UnfitWheel) as refused:
        read_wheel(content)
    assert refused.value.remedy
    return refused.value.code


def changed(change: Callable[[zipfile.ZipFile], None], content: bytes = b"") -> bytes:
    """A wheel to which something is added."""
    made = BytesIO(content or wheel())
    with zipfile.ZipFile(made, "a") as archive:
        change(archive)
    return made.getvalue()


def entry(name: str, kind: int = stat.S_IFREG) -> Callable[[zipfile.ZipFile], None]:
    """Adds an entry of a kind."""
    info = zipfile.ZipInfo("placeholder")
    info.filename = name
    info.external_attr = (kind | 0o644) << 16
    return lambda archive: archive.writestr(info, b"content")


def test_a_wheel_says_what_it_is_and_what_it_needs() -> None:
    """In normal forms; what only an extra or another Python needs is left out."""
    requires = ("Small.Thing>=1,<3", "tests; extra == 'dev'", "old; python_version < '3'", "here; python_version > '3'")
    assert Wheel("my-package", "1.0.post2", ("Small.Thing<3,>=1", "here")) == read_wheel(
        wheel("My_Package", "1.0.post2", requires=requires)
    )


@pytest.mark.parametrize("tags", [("py3-none-any",), ("py2-none-any", "py3-none-any")])
def test_wheels_of_pure_python_are_taken(tags: tuple[str, ...]) -> None:
    """For Python 3 alone, or for 2 as well; with packages, data and folders."""
    files = {"tiny/": "", "tiny/__init__.py": "", "tiny/data.txt": "x", "tiny-1.0.data/scripts/run": "#!python"}
    assert ("tiny", "1.0", ()) == read_wheel(wheel(files=files, tags=tags))


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "not-a-wheel"),
        (b"PK\x05\x06" + bytes(18), "not-a-wheel"),
        (b"x" * (MOST_WHEEL_BYTES + 1), "wheel-too-large"),
        (wheel(files={"zeros.py": bytes(70_000_000)}), "wheel-too-large"),
        (wheel(files={f"f{at}.py": "" for at in range(5_001)}), "wheel-too-large"),
        (wheel(tags=("cp311-cp311-linux_x86_64",)), "not-pure-python"),
        (wheel(tags=("py2-none-any",)), "not-pure-python"),
        (wheel(tags=()), "not-pure-python"),
        (wheel(pure=False), "not-pure-python"),
        (wheel(files={"tiny/fast.SO": ""}), "not-pure-python"),
        (wheel(files={"tiny-1.0.data/purelib/tiny.py": ""}), "not-pure-python"),
        (wheel(folder="other-1.0.dist-info"), "wrong-metadata"),
        (wheel(folder="tiny-1.1.dist-info"), "wrong-metadata"),
        (wheel(version="new"), "wrong-metadata"),
        (wheel(more="Version: 2\n"), "wrong-metadata"),
        (wheel(requires=("not a requirement!",)), "wrong-metadata"),
        (wheel(requires=("a",) * 101), "wrong-metadata"),
        (wheel(more="Requires-Python: about 3\n"), "wrong-metadata"),
        (wheel(more=f"Requires-Python: >={OTHER}\n"), "another-python"),
        (wheel(files={"json.py": ""}), "module-name-taken"),
        (wheel(files={"engine/__init__.py": ""}), "module-name-taken"),
        (changed(entry("../outside.py")), "unsafe-archive"),
        (changed(entry("/etc/passwd")), "unsafe-archive"),
        (changed(entry("a/../../b.py")), "unsafe-archive"),
        (changed(entry("./a.py")), "unsafe-archive"),
        (changed(entry("a//b.py")), "unsafe-archive"),
        (changed(entry("c:\\b.py")), "unsafe-archive"),
        (changed(entry("a\x00b.py")), "unsafe-archive"),
        (changed(entry("link.py", stat.S_IFLNK)), "unsafe-archive"),
        (changed(entry("device.py", stat.S_IFCHR)), "unsafe-archive"),
        (changed(lambda archive: archive.writestr("a.py", b"x" * 99, zipfile.ZIP_BZIP2)), "unsafe-archive"),
        (changed(entry("second-1.0.dist-info/METADATA")), "not-a-wheel"),
    ],
)
def test_what_is_unfit_is_refused(content: bytes, code: str) -> None:
    """By a code that the documentation has, with a remedy."""
    assert code == refusal(content)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_no_file_is_there_twice() -> None:
    """Else one reader of the archive would see another content than the next."""
    assert "unsafe-archive" == refusal(changed(entry("tiny.py")))


WHOLE = wheel(requires=("small>=1",), more="Requires-Python: >=3\n")


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=6), st.integers(0, len(WHOLE)))
@settings(max_examples=300)
@example([], len(WHOLE))
def test_damaged_wheels_are_read_or_refused(changes: list[tuple[int, int]], end: int) -> None:
    """Whatever is changed or cut off: never with another error, and never as another package."""
    content = bytearray(WHOLE)
    for at, value in changes:
        content[at] = value
    for damaged in (bytes(content), bytes(content[:end])):
        with suppress(UnfitWheel):
            assert read_wheel(damaged).name


@given(st.binary(max_size=300), st.text(max_size=60), st.text(max_size=60))
def test_any_metadata_is_read_or_refused(raw: bytes, one: str, other: str) -> None:
    """Names, versions, requirements and bytes that are no text."""
    head = one.replace("\n", " ").replace("\r", " ")
    text = f"Requires-Dist: {other}\n".encode("utf-8", "surrogatepass") + raw
    for content in (
        wheel(files={}, requires=(head,)),
        wheel(files={}, more=f"Requires-Python: {head}\n"),
        changed(lambda archive: archive.writestr("x-1.dist-info/METADATA", b"Name: x\nVersion: 1\n" + text)),
    ):
        with suppress(UnfitWheel):
            assert read_wheel(content).name


TEXT = {"m": "string"}


def sent(root: Path, *contents: bytes) -> tuple[str, ...]:
    """The digests of some wheels that are in a root."""
    for each in contents:
        WheelStore(root).put(each)
    return tuple(hashlib.sha256(each).hexdigest() for each in contents)


def code(lines: str, wheels: tuple[str, ...], **more: Any) -> Publication:
    """A function of some lines."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return Publication(f"def entry(event):\n{body}", TEXT, wheels=wheels, **more)


@pytest.mark.parametrize("vouched", [False, True])
def test_code_imports_from_its_wheels(tmp_path: Path, *, vouched: bool) -> None:
    """Modules, packages, what lies beside them, and their metadata; in a cell even if an operator vouches for it."""
    files = {"tiny/__init__.py": "from tiny.part import ONE", "tiny/part.py": "ONE = 1", "tiny/data.txt": "some text"}
    wheels = sent(tmp_path, wheel(files=files), wheel("other", "2.5"))
    lines = """
import importlib.metadata, importlib.resources, os
import other, tiny
text = importlib.resources.files(tiny).joinpath("data.txt").read_text()
return {"m": f"{tiny.ONE} {other.VERSION} {text} {importlib.metadata.version('tiny')} {len(os.environ)}"}
"""
    given, reasons = code(lines, wheels, vouched=vouched).run(tmp_path, numbers(1))
    assert (["1 2.5 some text 1.0 5"], []) == ([each["m"] for each in given], reasons)


def test_code_per_batch_imports_from_its_wheels(tmp_path: Path) -> None:
    """Likewise."""
    text = "import tiny\nimport pyarrow as pa\n\n\ndef entry(batch):\n"
    text += "    return pa.record_batch({'m': [tiny.VERSION] * len(batch)})\n"
    publication = Publication(text, TEXT, per="batch", wheels=sent(tmp_path, wheel()))
    assert [{"n": 0, "m": "1.0"}, {"n": 1, "m": "1.0"}] == publication.run(tmp_path, numbers(2))[0]


def test_each_code_gets_the_version_that_it_pins(tmp_path: Path) -> None:
    """Of one package, side by side in one worker, and before what is installed there; without a wheel there is none."""
    lines = "import tiny\nreturn {'m': tiny.VERSION}"
    first, second = sent(tmp_path, wheel(), wheel(version="2.0"))
    found = [code(lines, wheels).run(tmp_path, numbers(1)) for wheels in ((first,), (second,), (first,), ())]
    assert ["1.0", "2.0", "1.0"] == [given[0]["m"] for given, _ in found[:3]]
    assert ([], ["ModuleNotFoundError: No module named 'tiny'"]) == found[3]
    pinned = sent(tmp_path, wheel("networkx", "0.1"))
    assert "0.1" == code("import networkx\nreturn {'m': networkx.VERSION}", pinned).run(tmp_path, numbers(1))[0][0]["m"]
    assert "0.1" != version("networkx")


def test_a_cell_reads_its_own_wheels_and_no_others(tmp_path: Path) -> None:
    """Neither another code's, nor the folder in which all of them lie; and it changes none."""
    own, other = sent(tmp_path, wheel(), wheel("other"))
    store = WheelStore(tmp_path)
    for attempt in (
        f"open({store.path(other)!r}, 'rb').read()",
        f"__import__('os').listdir({str(Path(store.path(own)).parent)!r})",
        f"open({store.path(own)!r}, 'ab')",
        f"__import__('zipimport').zipimporter({store.path(other)!r})",
    ):
        given, (reason,) = code(f"{attempt}\nreturn {{'m': 'done'}}", (own,)).run(tmp_path, numbers(1))
        assert ([], True) == (given, reason.startswith(("PermissionError", "ZipImportError"))), reason
    assert 1 == len(
        code(f"return {{'m': str(len(open({store.path(own)!r}, 'rb').read()))}}", (own,)).run(tmp_path, numbers(1))[0]
    )


def test_what_a_wheel_does_when_it_is_imported_is_confined(tmp_path: Path) -> None:
    """As what its code does itself: the worker imports nothing of it."""
    bad = "open('/etc/passwd').read()"
    given, (reason,) = code("import tiny", sent(tmp_path, wheel(files={"tiny.py": bad}))).run(tmp_path, numbers(1))
    assert ([], True) == (given, reason.startswith("PermissionError"))


def test_a_missing_or_damaged_wheel_is_named_and_found_once_it_is_put(tmp_path: Path) -> None:
    """Nothing has to be restarted: the next batch finds it."""
    content = wheel()
    (digest,) = sent(tmp_path, content)
    trial = code("import tiny\nreturn {'m': tiny.VERSION}", (digest,)).trial(tmp_path)
    path = Path(WheelStore(tmp_path).path(digest))
    found = []
    for damage in (path.unlink, lambda: path.write_bytes(content + b"x"), lambda: WheelStore(tmp_path).put(content)):
        damage()
        outcome = trial.take([("in", {"n": 0})])
        found.append(outcome.dead[0].reason if outcome.dead else "")
    assert ["send it again" in each for each in found] == [True, True, False]
    assert f"the wheel {digest} is not in the root" in found[0]
    assert "is damaged" in found[1]
