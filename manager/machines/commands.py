"""The commands about machines, which carry hosts, and about the images of these: `braid machines`, `braid images`."""

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from braid_client.answers.jobs import CarriedHostAnswer, ImageForm, MachineAnswer
from braid_client.client import Client
from manager.cli import (
    CLIENT_OPTIONS,
    Shown,
    client_command,
    complain,
    counted,
    fields,
    fill_form,
    group,
    listing,
    progress,
    waited,
    with_options,
)
from manager.exit_codes import ExitCode
from manager.machines.class_commands import classes_app, rentals

_LOOK_EVERY = 1.0
"""Seconds between two looks at a machine that drains."""
_PATIENCE = 15.0
"""Seconds after which the command gives up on hosts that cannot leave."""

machines_app = typer.Typer(add_completion=False, help="List machines, admit, drain and forget them.")
Machine = Annotated[str, typer.Argument(help="The machine.", metavar="NAME")]


@machines_app.command("list")
@client_command
def list_machines(client: Client) -> Shown:
    """List the machines with the hosts that they carry, and the machines that have copies of these."""
    wide = ("zone", "cores", "speed", "of the ring", "shares root with", "keeps", "behind bytes")
    return listing(client.machines(), "no machines", _cells, wide=wide)


def machines(context: typer.Context, **options: Any) -> None:
    """List machines, admit them, drain them, and forget them. Without a command they are listed."""
    if context.invoked_subcommand is None:
        list_machines(**options)


machines_app.callback(invoke_without_command=True)(with_options(machines, CLIENT_OPTIONS))
machines_app.add_typer(classes_app, name="classes")
machines_app.command("rentals")(rentals)


def _cells(machine: MachineAnswer) -> dict[str, object]:
    states = {"waits": bool(machine.waits), "drains": machine.draining}
    behind = [host.behind_bytes for host in machine.hosts if host.behind_bytes is not None]
    return {
        "machine": machine.name,
        "alive": machine.alive,
        "state": [state for state, is_so in states.items() if is_so],
        **fields(machine, "zone", "cores", "speed"),
        "load": None if machine.load is None else round(machine.load, 2),
        "of the ring": None if machine.share is None else f"{machine.share:.0%}",
        "shares root with": machine.shares_root_with,
        "carries": [_host(host) for host in machine.hosts],
        "keeps": machine.keeps,
        "behind bytes": max(behind, default=None),
        "trouble": _troubles(machine),
    }


@machines_app.command()
@client_command
def admit(
    client: Client,
    name: Machine,
    *,
    key: Annotated[str | None, typer.Option("--key", help="Its public key; refused if it has another.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it has reported itself, for two minutes at most.")
    ] = False,
) -> Shown:
    """Admit a machine that waits: it carries hosts and gets copies from now on, and is known by its key."""
    if wait:
        waited(
            list(client.machines()),
            lambda _: list(client.machines()),
            lambda now: None if any(machine.name == name for machine in now) else f"{name} has not reported itself yet",
        )
    return Shown(data=client.admit_machine(name, key=key), text=f"{name} is admitted")


@machines_app.command()
@client_command
def drain(
    client: Client,
    name: Machine,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it carries no host.")] = False,
) -> Shown:
    """Have a machine give up all hosts that it carries, and take none. No event and no state is lost."""
    machine = client.drain_machine(name)
    if wait:
        with progress() as say:
            machine = _waited(client, machine, say)
    count = counted(len(machine.hosts), "host")
    text = f"{name} drains and carries {count}" if machine.hosts else f"{name} carries no host, and may be stopped"
    return Shown(data=machine, text=text)


@machines_app.command()
@client_command
def undrain(client: Client, name: Machine) -> Shown:
    """Let a machine take hosts again; those that are at home there are handed back to it after a minute."""
    return Shown(data=client.undrain_machine(name), text=f"{name} takes hosts again")


@machines_app.command()
@client_command
def forget(client: Client, name: Machine) -> Shown:
    """Forget a machine that is gone for good. Hosts without jobs that nobody else carries go with it."""
    return Shown(data=client.forget_machine(name), text=f"{name} is forgotten")


def _waited(client: Client, machine: MachineAnswer, say: Callable[[str], None]) -> MachineAnswer:
    """The machine once it carries no host; ends the command if the hosts that are left cannot leave."""
    stuck_since: float | None = None
    while machine.hosts and machine.draining:
        stays = [f"host {host.name} stays: {host.stays}" for host in machine.hosts if host.stays]
        if len(stays) < len(machine.hosts):
            stuck_since = None
        elif stuck_since is None:
            stuck_since = time.monotonic()
        elif time.monotonic() - stuck_since >= _PATIENCE:
            complain("\n".join(stays))
            raise typer.Exit(ExitCode.CONFLICT)
        say(f"{machine.name} still carries {', '.join(host.name for host in machine.hosts)}")
        time.sleep(_LOOK_EVERY)
        machine = next((now for now in client.machines() if now.name == machine.name), machine)
    return machine


def _host(host: CarriedHostAnswer) -> str:
    copies = f" ({', '.join(host.kept_by)})" if host.kept_by else ""
    heir = f" to {host.heir}" if host.heir else ""
    load = "" if host.load is None else f" at {host.load:.2f}"
    return f"{host.name}{load}{copies}{heir}{' under-replicated' if host.under_replicated else ''}"


def _troubles(machine: MachineAnswer) -> list[str]:
    waits = [f"{machine.waits} (its key is {machine.key})"] if machine.waits else []
    full = [f"copies leave it: {machine.full}"] if machine.full else []
    hosts = [f"{host.name}: {host.stays}" for host in machine.hosts if host.stays]
    copies = [f"copy of {host.name} at {peer}: {why}" for host in machine.hosts for peer, why in host.troubles.items()]
    return waits + full + hosts + copies


images_app = group(help="List the images that hosts are made from, add and remove them.")
Image = Annotated[str, typer.Argument(help="The image.", metavar="NAME")]


@images_app.command("list")
@client_command
def list_images(client: Client) -> Shown:
    """List the registered images with their hosts."""
    return listing(
        client.images(),
        "no images",
        lambda image: {
            "image": image.name,
            **fields(image, "tags", "cores"),
            "start s": image.start,
            "price/h": image.price,
            **fields(image, "most", "hosts"),
        },
    )


@images_app.command()
@client_command
def add(  # noqa: PLR0913, PLR0917 - one for each argument and option
    client: Client,
    name: Image,
    tag: Annotated[
        list[str] | None, typer.Option(help="What each of its hosts offers, such as gpu; may be repeated.")
    ] = None,
    cores: Annotated[float, typer.Option(help="The cores of each host.")] = 1.0,
    start: Annotated[float, typer.Option(help="Seconds until a new host is there.")] = 0.0,
    price: Annotated[float, typer.Option(help="What a host costs for an hour.")] = 0.0,
    most: Annotated[int | None, typer.Option(help="How many hosts there may be; any number if left out.")] = None,
) -> Shown:
    """Register an image, or change it. Start hosts of it with `braid host --image NAME`."""
    form = fill_form(ImageForm, tags=tag or None, cores=cores, start=start, price=price, most=most)
    answer = client.put_image(name, form)
    offers = f"offers {', '.join(answer.tags)}" if answer.tags else "offers no tags"
    return Shown(data=answer, text=f"{answer.name} is registered: it {offers}, and has {answer.cores:g} cores a host")


@images_app.command()
@client_command
def remove(client: Client, name: Image) -> Shown:
    """Remove an image. Its hosts run on, and offer nothing but tags of their own."""
    answer = client.remove_image(name)
    left = f"; {counted(len(answer.hosts), 'host')} of it left" if answer.hosts else ""
    return Shown(data=answer, text=f"{answer.name} is removed{left}")
