"""The command that looks for problems on this machine: `braid doctor`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from manager.commands.client_command import AsJson, SettingsFile, exit_on_error
from manager.commands.display import Shown, table
from manager.commands.exit_codes import ExitCode
from manager.process.settings import read_client_settings, read_settings, settings_file


def doctor(
    *,
    root: Annotated[Path | None, typer.Option(help="The root folder to examine. Default: from the settings.")] = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Look for problems on this machine, with a remedy for each."""
    with exit_on_error(as_json=as_json):
        values, client = read_settings({"root": root}, settings), read_client_settings({"root": root}, settings)
        from manager.process.cell_check import published_code  # noqa: PLC0415 - it imports much of the engine
        from manager.process.certificate_checks import certificates  # noqa: PLC0415 - as above
        from manager.process.doctor import DOCTOR_CHECKS, examine, private  # noqa: PLC0415 - it imports much of the service
        from manager.process.finding import FindingState  # noqa: PLC0415 - as above
        from manager.process.machine_checks import copies_reach, service_clock  # noqa: PLC0415 - as above

        of_machine = (partial(each, client) for each in (service_clock, copies_reach, certificates))
        of_settings = partial(private, settings_file(settings))
        findings = tuple(examine(values, (*DOCTOR_CHECKS, *of_machine, published_code, of_settings)))
        rows = ((each.what, each.state, each.told, each.remedy) for each in findings)
        Shown(data=findings, text=table("what", "state", "found", "remedy", rows=rows, empty="")).print(as_json=as_json)
        raise typer.Exit(
            ExitCode.UNWELL if any(each.state is FindingState.WRONG for each in findings) else ExitCode.WELL
        )
