"""The commands about machines that the service starts: `braid machines classes`, `braid machines rentals`."""

from typing import Annotated, Any

import typer

from braid_client.answers.machines import MachineClassAnswer, MachineClassForm, RentalAnswer, SupplyKind
from braid_client.client import Client
from manager.cli import CLIENT_OPTIONS, Shown, client_command, fields, fill_form, listing, moment, with_options


@client_command
def rentals(client: Client) -> Shown:
    """List the machines that the service started by itself, newest first, with what they cost."""
    return listing(client.rentals(), "no rentals", _rental_cells, wide=("cores", "why"))


def _rental_cells(rental: RentalAnswer) -> dict[str, object]:
    return {
        "machine": rental.machine,
        "class": rental.machine_class,
        "cores": rental.cores,
        "speed": None if rental.speed is None else round(rental.speed, 2),
        **{name: moment(getattr(rental, name)) for name in ("ordered", "ready", "ended")},
        **fields(rental, "hours", "cost", "why"),
    }


classes_app = typer.Typer(add_completion=False, help="List classes of machines that the service starts, set them.")
ClassArgument = Annotated[str, typer.Argument(help="The class.", metavar="NAME")]


@classes_app.command("list")
@client_command
def list_classes(client: Client) -> Shown:
    """List the classes of machines that the service may start, with the machines of each."""
    return listing(client.machine_classes(), "no classes of machines", _cells, wide=("memory GB", "image", "command"))


def classes(context: typer.Context, **options: Any) -> None:
    """List the classes of machines which the service may start, set, remove them. Without a command they are listed."""
    if context.invoked_subcommand is None:
        list_classes(**options)


classes_app.callback(invoke_without_command=True)(with_options(classes, CLIENT_OPTIONS))


def _cells(kind: MachineClassAnswer) -> dict[str, object]:
    nice = f" at nice {kind.nice}" if kind.nice else ""
    return {
        "class": kind.name,
        "cores": kind.cores,
        "speed": None if kind.speed is None else round(kind.speed, 2),
        "memory GB": kind.memory_gb,
        "price/h": kind.price,
        "start s": f"{kind.start_seconds:.0f}{'' if kind.measured else ' (declared)'}",
        "tags": kind.tags,
        "image": kind.image,
        **fields(kind, "least", "most"),
        "supply": f"{kind.supply}{nice}",
        "command": kind.command,
        "machines": kind.machines,
    }


@classes_app.command("set")
@client_command
def set_class(  # noqa: PLR0913, PLR0917 - one for each argument and option
    client: Client,
    name: ClassArgument,
    cores: Annotated[int | None, typer.Option(help="The cores of each machine. Default: 1.")] = None,
    memory_gb: Annotated[float | None, typer.Option("--memory-gb", help="Its memory in GB.")] = None,
    price: Annotated[float | None, typer.Option(help="What a started hour costs. Default: nothing.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="What its hosts offer beside the image, such as gpu; may be repeated.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="The registered image that its hosts are made from.")] = None,
    start: Annotated[
        float | None, typer.Option(help="Seconds until it works, until that was measured. Default: 60.")
    ] = None,
    least: Annotated[int | None, typer.Option(help="How many there always are. Default: none.")] = None,
    most: Annotated[int | None, typer.Option(help="How many there may be. Default: 1.")] = None,
    command: Annotated[
        str | None,
        typer.Option(
            help="The file in the folder `commands` of the service's root that starts and stops them. Default: they "
            "are processes there."
        ),
    ] = None,
    nice: Annotated[int | None, typer.Option(help="How far a process gives way to others, 0 to 19.")] = None,
) -> Shown:
    """Set a class of machines, or change it. While there is a machine of it, what they are stays."""
    form = fill_form(
        MachineClassForm,
        cores=cores,
        memory_gb=memory_gb,
        price=price,
        tags=tag or None,
        image=image,
        start_seconds=start,
        least=least,
        most=most,
        supply=SupplyKind.COMMAND if command else None,
        command=command,
        nice=nice,
    )
    answer = client.put_machine_class(name, form)
    many = f"{answer.least} to {answer.most} machines"
    return Shown(data=answer, text=f"{name} is set: {many} with {answer.cores} cores, at {answer.price:g} an hour")


@classes_app.command("remove")
@client_command
def remove_class(client: Client, name: ClassArgument) -> Shown:
    """Remove a class that no machine is of."""
    return Shown(data=client.remove_machine_class(name), text=f"{name} is removed")
