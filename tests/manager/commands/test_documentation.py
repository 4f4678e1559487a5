"""The pages on commands, exit codes and settings agree with the code."""

import re

import pytest
import typer.main

from manager.command import COMMANDS, app, loaded
from manager.exit_codes import ExitCode
from manager.settings import SECRET_SETTINGS, ClientSettings, Settings
from tests.documentation.pages import page

PAGE = page("docs/commands.md")
SETTINGS = page("docs/settings.md").table("All of them")
GROUPS = {command.name: group for command in COMMANDS if isinstance(group := loaded(command), typer.Typer)}


def names(group: typer.Typer) -> list[str]:
    """The commands of a group, in order."""
    return list(getattr(typer.main.get_command(group), "commands"))  # noqa: B009 - the type of a group is not stable


def test_every_exit_code_is_documented() -> None:
    """With name and meaning, in order."""
    known = [(str(code.value), f"`{code.name}`", code.meaning) for code in ExitCode]
    assert known == [tuple(row) for row in PAGE.table("Exit codes").rows[1:]]


def test_every_command_is_documented() -> None:
    """Also those in groups, in the order of the help."""
    expected = [
        f"{name} {nested}" if nested else name
        for name in names(app)
        for nested in (names(GROUPS[name]) if name in GROUPS else [""])
    ]
    documented = [re.sub(r"( [A-Z]+)+$", "", cell.removeprefix("braid ")) for cell in PAGE.table("Commands").column()]
    assert expected == documented


def test_every_setting_is_documented() -> None:
    """With its variable, its readers, and a mark if it is secret."""
    service, client = Settings.model_fields.keys(), ClientSettings.model_fields.keys()
    expected = [
        (
            f"`{name}`",
            f"`BRAID_{name.upper()}`",
            "both" if name in service and name in client else "service" if name in service else "client",
            name in SECRET_SETTINGS,
        )
        for name in dict.fromkeys([*service, *client])
    ]
    rows = SETTINGS.rows[1:]
    assert expected == [(name, variable, reader, what.endswith("; secret")) for name, variable, reader, what, _ in rows]


@pytest.mark.parametrize("name", ["listen", "port", "host", "pace"])
def test_documented_defaults_are_those_of_the_code(name: str) -> None:
    """For defaults that are plain values."""
    defaults = {row[0].strip("`"): row[4].strip("`") for row in SETTINGS.rows[1:]}
    assert str(Settings.model_fields[name].default) == defaults[name]
