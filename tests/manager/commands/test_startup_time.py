"""How fast `braid` starts: what a command does not need is not imported."""

import subprocess
import sys

import pytest

from manager.command import COMMANDS, summary

HEAVY = {"pyspark", "pyarrow", "fastapi", "sqlalchemy"}
CALL = """
import sys
from manager.command import app
try:
    app(sys.argv[1:], prog_name="braid")
except SystemExit:
    pass
sys.stderr.write("\\n" + " ".join(sys.modules))
"""


def imported(*words: str) -> set[str]:
    """The modules that a call imports."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", CALL, *words],
        env={"BRAID_URL": "http://127.0.0.1:1", "BRAID_KEY": "x", "PATH": "", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "words", ["--help", "submit --help", "submit /dev/null", "list", "tenants --help", "serve --help", "doctor --help"]
)
def test_what_serves_is_not_imported_to_ask(words: str) -> None:
    """Neither help nor the commands that ask wait for Spark, Arrow, the web server or the database."""
    assert HEAVY & imported(*words.split()) == set()


def test_help_waits_for_no_client_either() -> None:
    """The list of commands needs nothing but the command line."""
    assert {"manager.client", "httpx", "pydantic", "dags"} & imported("--help") == set()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_a_sentence_in_the_help(command: object) -> None:
    """It is found without importing the command."""
    assert summary(getattr(command, "target")).endswith(".")  # noqa: B009 - parametrize gives an object


def test_a_command_of_a_package_that_is_broken_has_no_sentence() -> None:
    """A module that is not there does not keep the others from being listed."""
    assert [summary("none.such:run"), summary("manager.none:run")] == ["", ""]
