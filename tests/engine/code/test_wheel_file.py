"""Wheels as files: which are taken, what they say of themselves, and that nothing in one harms its reader."""

import stat
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.code.wheel_file import MOST_WHEEL_BYTES, UnfitWheel, Wheel, read_wheel
from tests.engine.code.wheels import wheel

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
