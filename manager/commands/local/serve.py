"""The command that runs the service: `braid serve`."""

from pathlib import Path
from typing import Annotated

import typer

from manager.commands.client_command import SettingsFile, exit_on_error
from manager.process.settings import Placement, read_settings


def serve(  # noqa: PLR0913 - one for each setting that is no secret
    *,
    root: Annotated[Path | None, typer.Option(help="The folder for everything that is kept.")] = None,
    listen: Annotated[str | None, typer.Option(help="The address to serve on; 127.0.0.1 if not given.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to serve on; 8642 if not given.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master; all cores of this machine if not given.")] = None,
    host: Annotated[
        str | None, typer.Option(help="The name of the host that is run besides; none for no host. local if not given.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="What that host offers to tasks that need it, such as gpu; may be given again."),
    ] = None,
    pace: Annotated[float | None, typer.Option(help="Seconds from one batch to the next; 1 if not given.")] = None,
    placement: Annotated[
        Placement | None,
        typer.Option(
            help="Where new tasks run: in new jobs, with their inputs, or packed together; pack if not given."
        ),
    ] = None,
    defragment: Annotated[
        bool | None,
        typer.Option(help="Whether scattered jobs are consolidated once that is worth it; yes if not given."),
    ] = None,
    defragment_every: Annotated[
        float | None, typer.Option(help="Seconds after which they are besides; no schedule if not given.")
    ] = None,
    price_per_core_hour: Annotated[
        float | None, typer.Option(help="What an hour of a core costs; reports tell no prices if not given.")
    ] = None,
    currency: Annotated[str | None, typer.Option(help="In what that is, such as EUR.")] = None,
    settings: SettingsFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what happens as JSON on standard output, an object on each line.")
    ] = False,
) -> None:
    """Serve: run broker, database, host and REST, until it is told to stop.

    Each option can be given as BRAID_<NAME> too, or in the file of settings. The broker's and the database's URL hold
    secrets, so they are given only there: as BRAID_BROKER and BRAID_DATABASE, or as broker and database.
    """
    flags = {
        "root": root,
        "listen": listen,
        "port": port,
        "master": master,
        "host": host,
        "pace": pace,
        "placement": placement,
        "defragment": defragment,
        "defragment_every": defragment_every,
        "price_per_core_hour": price_per_core_hour,
        "currency": currency,
    }
    with exit_on_error(as_json=as_json):
        told = read_settings({**flags, "tag": tag or None}, settings)
        from manager.process.manager import serve as run  # noqa: PLC0415 - it brings all of the service

        run(told, as_json=as_json)
