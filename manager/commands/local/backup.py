"""The commands that back up and restore the service of this machine: `braid backup`, `braid restore`."""

from pathlib import Path
from typing import Annotated

import typer

from manager.commands.client_command import AsJson, SettingsFile, WrongUsage, exit_on_error
from manager.commands.display import Shown, counted
from manager.process.settings import Settings, read_settings

Root = Annotated[Path | None, typer.Option(help="The root folder. Default: from the settings.")]


def backup(  # noqa: PLR0913 - each is an option
    file: Annotated[Path, typer.Argument(help="The archive to make; it must not exist.")],
    *,
    root: Root = None,
    with_spools: Annotated[
        bool, typer.Option("--with-spools", help="Include the events that wait in the spools.")
    ] = False,
    with_key: Annotated[
        bool, typer.Option("--with-key", help="Include the first operator's API key, and the key to secrets.")
    ] = False,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Back up the service of this machine into one archive, even while it runs."""
    with exit_on_error(as_json=as_json):
        values = read_settings({"root": root}, settings)
        from manager.backup import BackupRefused, back_up  # noqa: PLC0415 - it imports much of the service
        from manager.store.database import DatabaseDown  # noqa: PLC0415 - as above

        try:
            made = back_up(values.root.absolute(), _url(values), file, with_spools=with_spools, with_key=with_key)
        except (BackupRefused, DatabaseDown) as error:
            raise WrongUsage(str(error)) from None
        held = f"{counted(made.counts['dataflow'], 'dataflow')} and {counted(made.jobs, 'job')}"
        text = f"{file} holds {held}; keep it where others cannot read it"
        Shown(data=made.model_dump(mode="json", exclude={"files"}), text=text).print(as_json=as_json)


def restore(
    file: Annotated[Path, typer.Argument(help="The archive that `braid backup` made.")],
    *,
    root: Root = None,
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into an empty root and an empty database, before the service is started there."""
    with exit_on_error(as_json=as_json):
        values = read_settings({"root": root}, settings)
        from manager.backup import BackupRefused  # noqa: PLC0415 - it imports much of the service
        from manager.backup import restore as fill  # noqa: PLC0415 - as above
        from manager.store.database import DatabaseDown  # noqa: PLC0415 - as above

        try:
            made = fill(file, values.root.absolute(), _url(values))
        except (BackupRefused, DatabaseDown) as error:
            raise WrongUsage(str(error)) from None
        text = f"{values.root} is restored to {made.made:%Y-%m-%d %H:%M:%S} UTC; start it with `braid serve`"
        Shown(data=made.model_dump(mode="json", exclude={"files"}), text=text).print(as_json=as_json)


def _url(settings: Settings) -> str:
    """The URL of the service's database."""
    from manager.store.database import sqlite_url  # noqa: PLC0415 - as above

    if settings.database is not None:
        return settings.database.get_secret_value()
    return sqlite_url(settings.root.absolute() / "braid.db")
