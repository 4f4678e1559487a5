"""`braid serve`: its settings, and its end if it cannot start."""

import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from manager.command import app
from manager.exit_codes import ExitCode
from manager.process.commands import serve
from manager.settings import SECRET_SETTINGS, Settings
from tests.manager.braid_runner import Braid


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, braid: Braid) -> list[Settings]:  # noqa: ARG001 - without settings of others
    """The settings of each service that would run."""
    found: list[Settings] = []
    serving = ModuleType("manager.process.manager")
    setattr(serving, "serve", lambda settings, **_: found.append(settings))  # noqa: B010 - a module of the test's own
    monkeypatch.setitem(sys.modules, "manager.process.manager", serving)
    return found


def test_serve_takes_its_settings_from_flags_environment_and_file(
    served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the secrets can be flags."""
    Path("braid.toml").write_text('database = "postgresql://me:hush@db/braid"\nport = 1')
    monkeypatch.setenv("BRAID_BROKER", "mqtt://me:hush@broker")
    words = "serve --root kept --listen ::1 --port 2 --master local[1] --host none --pace 0.5"
    assert CliRunner().invoke(app, words.split()).exit_code == ExitCode.WELL
    assert served == [
        Settings(
            root=Path("kept"),
            listen="::1",
            port=2,
            broker=SecretStr("mqtt://me:hush@broker"),
            database=SecretStr("postgresql://me:hush@db/braid"),
            master="local[1]",
            host="none",
            pace=0.5,
        )
    ]


def test_serve_needs_no_setting(served: list[Settings]) -> None:
    """Without any it uses the defaults."""
    assert CliRunner().invoke(app, ["serve"]).exit_code == ExitCode.WELL
    assert [Settings()] == served


def test_every_setting_but_the_secrets_has_a_flag() -> None:
    """Every user of the machine can read the arguments of a process."""
    options = inspect.signature(serve).parameters.keys()
    assert Settings.model_fields.keys() - SECRET_SETTINGS == options - {"settings", "as_json"}


def test_serve_does_not_start_with_a_wrong_setting(served: list[Settings]) -> None:
    """The message names the flag."""
    result = CliRunner().invoke(app, ["serve", "--port", "0"])
    assert (ExitCode.PROBLEMS, []) == (result.exit_code, served)
    assert result.stderr.startswith("--port: the value should be greater than or equal to 1")
