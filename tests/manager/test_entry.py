"""The beginning of the command line: help that is kept, and a command that is loaded alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from manager.exit_codes import ExitCode

BEGIN = """
import sys
from manager.entry import main
try:
    main()
finally:
    sys.stdout.flush()
    sys.stderr.write("\\n" + " ".join(sys.modules))
"""


def begun(caches: Path, *words: str, **settings: str) -> tuple[int, str, set[str]]:
    """The exit code of a call, what it printed, and the modules that it loaded."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", BEGIN, *words],
        env={"PATH": "", "HOME": "/nonexistent", "XDG_CACHE_HOME": str(caches), "BRAID_KEY": "x", **settings},
        check=False,
        capture_output=True,
        text=True,
    )
    *_, modules = [line for line in done.stderr.splitlines() if line.startswith("sys ")]
    return done.returncode, done.stdout, set(modules.split())


@pytest.mark.parametrize("words", [["list", "--help"], ["sources", "register", "--help"], ["--help"]])
def test_help_is_shown_again_without_loading_anything(tmp_path: Path, words: list[str]) -> None:
    """The same to the letter."""
    _, made, loaded = begun(tmp_path, *words)
    code, kept, again = begun(tmp_path, *words)
    assert (0, made) == (code, kept)
    assert "Usage: braid" in kept
    assert "typer" in loaded
    assert not {"typer", "rich", "braid_client", "manager.command"} & again


def test_help_is_made_anew_when_packages_or_the_terminal_have_changed(tmp_path: Path) -> None:
    """Another width is another text; and what cannot be read counts as not there."""
    _, made, _ = begun(tmp_path, "jobs", "--help")
    _, wide, loaded = begun(tmp_path, "jobs", "--help", COLUMNS="150")
    assert made != wide
    assert "typer" in loaded
    (kept,) = tmp_path.rglob("jobs.--help")
    for spoilt in (b"", b"no help", kept.read_bytes()[:-40]):
        kept.write_bytes(spoilt)
        assert made == begun(tmp_path, "jobs", "--help")[1]
    packages = tmp_path / "packages"
    packages.mkdir()
    begun(tmp_path, "jobs", "--help", PYTHONPATH=str(packages))
    assert "typer" not in begun(tmp_path, "jobs", "--help", PYTHONPATH=str(packages))[2]
    (packages / "another.py").write_text("")
    assert "typer" in begun(tmp_path, "jobs", "--help", PYTHONPATH=str(packages))[2]


def test_help_is_shown_where_nothing_can_be_kept(tmp_path: Path) -> None:
    """And nothing is kept of words that could lead to another folder, or of a call that went wrong."""
    barred = tmp_path / "a file"
    barred.write_text("")
    assert "Usage: braid list" in begun(barred, "list", "--help")[1]
    assert ExitCode.WRONG_CALL == begun(tmp_path, "../up", "--help")[0]
    assert ExitCode.WRONG_CALL == begun(tmp_path, "nothing", "--help")[0]
    assert [barred] == list(tmp_path.rglob("*"))


def test_a_command_is_loaded_alone(tmp_path: Path) -> None:
    """Neither other commands, nor what only tables, other programs and programs that await need."""
    code, _, loaded = begun(tmp_path, "jobs", BRAID_URL="http://127.0.0.1:1")
    assert ExitCode.UNREACHABLE == code
    assert "manager.jobs.commands" in loaded
    assert not {"asyncio", "pygments", "rich.markdown", "networkx", "rpds", "manager.dataflows.commands"} & loaded
