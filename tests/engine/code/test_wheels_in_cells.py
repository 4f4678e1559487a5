"""Code that imports from wheels: it gets what it pins, nobody else gets that, and a cell reads no other file."""

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from engine.code.store import WheelStore
from tests.engine.code.publication import Publication, numbers
from tests.engine.code.wheels import wheel

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
