"""The command line: how commands are found, loaded and ended."""

import sys
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner

from manager import command
from manager.command import Command
from manager.exit_codes import ExitCode


def called(function: object, *words: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Call a command that a package adds; return its exit code, output and error output."""
    module = ModuleType("added_commands")
    setattr(module, "added", function)  # noqa: B010 - a module of the test's own has no type for it
    monkeypatch.setitem(sys.modules, "added_commands", module)
    one = Command(name="added", target="added_commands:added", panel="")
    app = typer.Typer()
    app.command("added", add_help_option=False, context_settings=command.PASS_ARGUMENTS)(command.lazy(one))
    app.command("other")(lambda: None)
    result = CliRunner().invoke(app, ["added", *words])
    return result.exit_code, result.stdout, result.stderr


def add(count: int, *, loud: bool = False) -> None:
    typer.echo(f"{count}{'!' if loud else ''}")


def test_a_command_gets_its_own_arguments_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order."""
    assert called(add, "--loud", "3", monkeypatch=monkeypatch) == (0, "3!\n", "")
    assert called(add, "3", "--loud", monkeypatch=monkeypatch) == (0, "3!\n", "")


def test_the_exit_code_of_a_command_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that is not in the table."""

    def end() -> None:
        raise typer.Exit(77)

    assert called(end, monkeypatch=monkeypatch)[0] == 77


def test_an_interrupted_command_ends_with_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is not an error."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    assert called(interrupted, monkeypatch=monkeypatch)[0] == ExitCode.INTERRUPTED


def test_wrong_usage_names_the_whole_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to get its help."""
    code, _, errors = called(add, "three", monkeypatch=monkeypatch)
    assert (ExitCode.WRONG_CALL, True) == (code, " added --help' for help." in errors)


def test_a_command_that_cannot_be_loaded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names it and the remedy, without a traceback."""
    one = Command(name="added", target="no_such_package:added", panel="")
    app = typer.Typer()
    app.command("added", context_settings=command.PASS_ARGUMENTS)(command.lazy(one))
    app.command("other")(lambda: None)
    monkeypatch.delitem(sys.modules, "no_such_package", raising=False)
    result = CliRunner().invoke(app, ["added"])
    assert (ExitCode.FAILED, "") == (result.exit_code, result.stdout)
    assert result.stderr == (
        "braid added cannot be loaded: No module named 'no_such_package'; reinstall the package that provides it\n"
    )
