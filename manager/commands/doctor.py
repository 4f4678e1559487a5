"""The command that looks for what is wrong: `braid doctor`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from manager.commands.asking import AsJson, SettingsFile, ending
from manager.commands.exit_codes import ExitCode
from manager.commands.showing import Shown, table
from manager.settings import read_settings, settings_file


def doctor(
    *,
    root: Annotated[Path | None, typer.Option(help="The root to look at, if it is not that of the settings.")] = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Look for what is wrong on this machine, and say what to do about it."""
    with ending(as_json=as_json):
        told = read_settings({"root": root}, settings)
        from manager.doctor import CHECKS, State, examine, private  # noqa: PLC0415 - it brings much of the service

        found = tuple(examine(told, (*CHECKS, partial(private, settings_file(settings)))))
        rows = ((each.what, each.state, each.told, each.remedy) for each in found)
        Shown(data=found, text=table("what", "state", "found", "remedy", rows=rows, empty="")).print(as_json=as_json)
        raise typer.Exit(ExitCode.UNWELL if any(each.state is State.WRONG for each in found) else ExitCode.WELL)
