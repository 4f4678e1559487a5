"""`braid` starts fast: a command imports only what it needs."""

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
def test_client_commands_do_not_import_the_service(words: str) -> None:
    """Nor does the help: no Spark, Arrow, web server or database."""
    assert HEAVY & imported(*words.split()) == set()


def test_help_does_not_import_the_client() -> None:
    """It needs the command line alone."""
    assert {"manager.client", "httpx", "pydantic", "dags"} & imported("--help") == set()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_a_sentence_in_the_help(command: object) -> None:
    """Read without importing the command."""
    assert summary(getattr(command, "target")).endswith(".")  # noqa: B009 - parametrize gives an object


def test_a_command_of_a_broken_package_has_no_sentence() -> None:
    """The other commands are listed all the same."""
    assert [summary("none.such:run"), summary("manager.none:run")] == ["", ""]
