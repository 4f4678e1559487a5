"""The commands of this machine: `braid serve`, `entrance`, `backup`, `restore`, `downgrade` and `doctor`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from manager.cli import (
    Notation,
    SettingsFile,
    Shown,
    WrongUsage,
    counted,
    exit_on_error,
    printed,
    table,
    with_options,
)
from manager.exit_codes import ExitCode
from manager.settings import SECRET_SETTINGS, Settings, read_client_settings, read_settings, settings_file


def serve(*, settings: Path | None, as_json: bool, **flags: Any) -> None:
    """Run the service until it is stopped: broker, database, host and REST.

    Each option can be set as BRAID_<NAME> too, or in the settings file. The URLs of the broker and the database hold
    secrets, so they can be set only there: as BRAID_BROKER and BRAID_DATABASE, or as broker and database.
    """
    with exit_on_error(Notation.JSON if as_json else Notation.TABLE):
        values = read_settings({**flags, "tag": flags["tag"] or None}, settings)
        from bridge.machine import allow_many_descriptors  # noqa: PLC0415 - it imports the bridge
        from manager.process.manager import serve as run  # noqa: PLC0415 - it imports the whole service

        allow_many_descriptors()
        run(values, as_json=as_json)


_LogAsJson = Annotated[
    bool, typer.Option("--json", help="Print the log as JSON on standard output, an object for each line.")
]


def _option(name: str, setting: FieldInfo) -> tuple[Any, None]:
    # Tags are given by an option that may be repeated, and a table as a line.
    kind: Any = {"tag": list[str], "oidc_groups": str}.get(name, setting.annotation)
    return Annotated[kind | None, typer.Option(help=setting.description)], None


_options = {name: _option(name, field) for name, field in Settings.model_fields.items() if name not in SECRET_SETTINGS}
with_options(serve, {**_options, "settings": (SettingsFile, None), "as_json": (_LogAsJson, False)})


def entrance(  # noqa: PLR0913 - an option for each of its settings
    access: Annotated[Path, typer.Option(help="The folder of the access lists, which the manager keeps.")],
    socket: Annotated[Path, typer.Option(help="The socket at which mosquitto listens for it.")],
    listen: Annotated[str, typer.Option(help="Where tenants connect, as host:port.")],
    certificate: Annotated[Path | None, typer.Option(help="The certificate, for TLS; with --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="The certificate's key.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print why it cannot begin as JSON.")] = False,
) -> None:
    """Let tenants into a mosquitto of your own.

    It refuses what mosquitto does not: the client ids of other users, and subscriptions to their outputs.
    """
    with exit_on_error(Notation.JSON if as_json else Notation.TABLE):
        host, _, port = listen.rpartition(":")
        if not host or not port.isdecimal():
            raise WrongUsage(f"--listen {listen}: give it as host:port, such as 0.0.0.0:8883")
        if (certificate is None) != (key is None):
            raise WrongUsage("--certificate and --key go together; give both, or neither")
        from bridge.broker_setup import Entrance, relay_command  # noqa: PLC0415 - as above
        from bridge.machine import allow_many_descriptors  # noqa: PLC0415 - as above

        tls = None if certificate is None or key is None else (certificate, key)
        opened = Entrance(folder=access, host=host.strip("[]"), port=int(port), tls=tls)
        command = relay_command(opened, str(socket))
        allow_many_descriptors()
        os.execv(command[0], command)  # noqa: S606 - the command is our own


Root = Annotated[Path | None, typer.Option(help="The root folder. Default: from the settings.")]


@printed
def backup(
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
) -> Shown:
    """Back up the service of this machine into one archive, even while it runs."""
    with _kept(root, settings) as (folder, url):
        from manager.backup import back_up  # noqa: PLC0415 - it imports much of the service

        made = back_up(folder.absolute(), url, file, with_spools=with_spools, with_key=with_key)
        held = f"{counted(made.counts['dataflow'], 'dataflow')} and {counted(made.jobs, 'job')}"
        text = f"{file} holds {held}; keep it where others cannot read it"
        return Shown(data=made.model_dump(mode="json", exclude={"files"}), text=text)


@printed
def restore(
    file: Annotated[Path, typer.Argument(help="The archive that `braid backup` made.")],
    *,
    root: Root = None,
    settings: SettingsFile = None,
) -> Shown:
    """Restore a backup into an empty root and an empty database, before the service is started there."""
    with _kept(root, settings) as (folder, url):
        from manager.backup import restore as fill  # noqa: PLC0415 - as above

        made = fill(file, folder.absolute(), url)
        text = f"{folder} is restored to {made.made:%Y-%m-%d %H:%M:%S} UTC; start it with `braid serve`"
        return Shown(data=made.model_dump(mode="json", exclude={"files"}), text=text)


@printed
def downgrade(
    revision: Annotated[str, typer.Argument(help="The one that the older release asks for when it is started.")],
    *,
    root: Root = None,
    settings: SettingsFile = None,
) -> Shown:
    """Take the database back to an older release, which can be started then. What only newer ones keep is lost."""
    with _kept(root, settings) as (folder, url):
        from manager.store.database import downgrade as take_back  # noqa: PLC0415 - as above

        take_back(url, revision)
        text = f"the database of {folder} has the tables of revision {revision}; start the release that made them"
        return Shown(data={"revision": revision}, text=text)


@contextmanager
def _kept(root: Path | None, settings: Path | None) -> Iterator[tuple[Path, str]]:
    """The root of a service, and the URL of its database; a refused backup inside is a wrong use."""
    values = read_settings({"root": root}, settings)
    from manager.backup import BackupRefused  # noqa: PLC0415 - as above
    from manager.store.database import DatabaseDown, sqlite_url  # noqa: PLC0415 - as above

    database = values.database
    try:
        yield values.root, database.get_secret_value() if database else sqlite_url(values.root.absolute() / "braid.db")
    except (BackupRefused, DatabaseDown) as error:
        raise WrongUsage(str(error)) from None


@printed
def doctor(
    *,
    root: Annotated[Path | None, typer.Option(help="The root folder to examine. Default: from the settings.")] = None,
    settings: SettingsFile = None,
) -> Iterator[Shown]:
    """Look for problems on this machine, with a remedy for each."""
    values, client = read_settings({"root": root}, settings), read_client_settings({"root": root}, settings)
    from manager.process.doctor import (  # noqa: PLC0415 - it imports much of the service
        DOCTOR_CHECKS,
        FindingState,
        certificates,
        copies_reach,
        examine,
        private,
        published_code,
        service_clock,
    )

    of_machine = (partial(check, client) for check in (service_clock, copies_reach, certificates))
    of_settings = partial(private, settings_file(settings))
    findings = tuple(examine(values, (*DOCTOR_CHECKS, *of_machine, published_code, of_settings)))
    rows = ((finding.what, finding.state, finding.detail, finding.remedy) for finding in findings)
    yield Shown(data=findings, text=table("what", "state", "found", "remedy", rows=rows, empty=""))
    wrong = any(finding.state is FindingState.WRONG for finding in findings)
    raise typer.Exit(ExitCode.UNWELL if wrong else ExitCode.WELL)
