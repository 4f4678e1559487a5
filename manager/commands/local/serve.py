"""The command that runs the service: `braid serve`."""

from pathlib import Path
from typing import Annotated

import typer

from manager.commands.client_command import SettingsFile, exit_on_error
from manager.defragmentation.autoscale import Autoscale
from manager.process.settings import AdmissionMode, Placement, read_settings


def serve(  # noqa: PLR0913 - an option for each setting that is not secret
    *,
    root: Annotated[Path | None, typer.Option(help="The folder for all data.")] = None,
    listen: Annotated[str | None, typer.Option(help="The address to serve on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="The port to serve on. Default: 8642.")] = None,
    master: Annotated[str | None, typer.Option(help="The Spark master. Default: all cores of this machine.")] = None,
    host: Annotated[
        str | None, typer.Option(help="The name of the host that runs here too; none for no host. Default: local.")
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="A tag of that host, such as gpu, for tasks that need it; may be repeated."),
    ] = None,
    pace: Annotated[float | None, typer.Option(help="The seconds from one batch to the next. Default: 1.")] = None,
    placement: Annotated[
        Placement | None,
        typer.Option(help="Where new tasks run: in new jobs, with their inputs, or packed together. Default: pack."),
    ] = None,
    defragment: Annotated[
        bool | None,
        typer.Option(help="Consolidate scattered jobs once it pays. Default: yes."),
    ] = None,
    defragment_every: Annotated[
        float | None, typer.Option(help="Consolidate them every so many seconds too. Default: no schedule.")
    ] = None,
    task_state_mb: Annotated[
        int | None, typer.Option(help="The most MB of state that one task may keep. Default: 256.")
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(help="The machines that keep a copy of each host, at most 3. Default: 0."),
    ] = None,
    settled_after: Annotated[
        float | None,
        typer.Option(help="Seconds a machine is there, or loads are uneven, before hosts are moved. Default: 60."),
    ] = None,
    admission: Annotated[
        AdmissionMode | None,
        typer.Option(help="Who admits a new machine. Default: an operator where hosts have copies, else nobody."),
    ] = None,
    autoscale: Annotated[
        Autoscale | None,
        typer.Option(help="Save and add cores by slower jobs and more machines, or only say so. Default: off."),
    ] = None,
    added_machines: Annotated[
        int | None, typer.Option(help="The most machines that autoscaling adds by itself. Default: none.")
    ] = None,
    scale_hook: Annotated[
        str | None,
        typer.Option(help="The command that adds and removes them elsewhere. Default: they are processes here."),
    ] = None,
    replan_failed: Annotated[
        bool | None,
        typer.Option(help="Plan a pipeline without a module that does nothing but fail. Default: no."),
    ] = None,
    price_per_core_hour: Annotated[
        float | None, typer.Option(help="The price of a core for an hour. Default: reports without prices.")
    ] = None,
    currency: Annotated[str | None, typer.Option(help="The currency of the price, such as EUR.")] = None,
    settings: SettingsFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the log as JSON on standard output, an object for each line.")
    ] = False,
) -> None:
    """Run the service until it is stopped: broker, database, host and REST.

    Each option can be set as BRAID_<NAME> too, or in the settings file. The URLs of the broker and the database hold
    secrets, so they can be set only there: as BRAID_BROKER and BRAID_DATABASE, or as broker and database.
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
        "task_state_mb": task_state_mb,
        "replicas": replicas,
        "settled_after": settled_after,
        "admission": admission,
        "autoscale": autoscale,
        "added_machines": added_machines,
        "scale_hook": scale_hook,
        "replan_failed": replan_failed,
        "price_per_core_hour": price_per_core_hour,
        "currency": currency,
    }
    with exit_on_error(as_json=as_json):
        values = read_settings({**flags, "tag": tag or None}, settings)
        from bridge.machine.descriptors import allow_many_descriptors  # noqa: PLC0415 - it imports the bridge
        from manager.process.manager import serve as run  # noqa: PLC0415 - it imports the whole service

        allow_many_descriptors()
        run(values, as_json=as_json)
