"""The commands about dead letters, the events that tasks could not process: list, group, replay, discard."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

import typer

from manager.client.client import Client
from manager.commands.client_command import WrongUsage, client_command
from manager.commands.display import Shown, counted, table

A = TypeVar("A")

app = typer.Typer(no_args_is_help=True, add_completion=False)
One = Annotated[int | None, typer.Argument(help="The id of one dead letter.", min=0)]
AllAlike = Annotated[bool, typer.Option("--alike", help="With it all of the same task with the same reason.")]
AllOf = Annotated[str | None, typer.Option(help="All of this dataflow, instead of one by its id.")]


@app.command("list")
@client_command
def list_dead_letters(
    client: Client, dataflow: Annotated[str | None, typer.Option(help="Only of this dataflow.")] = None
) -> Shown:
    """List the events that tasks could not process, newest first, with the reasons."""
    found = tuple(client.dead_letters(dataflow=dataflow))
    rows = (
        (each.id, each.at, each.instance, each.port, each.dataflows, len(each.events), each.reason, each.dropped or "")
        for each in found
    )
    columns = ("id", "at", "instance", "port", "dataflows", "events", "reason", "older dropped")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no dead letters"))


@app.command("groups")
@client_command
def list_groups(
    client: Client, dataflow: Annotated[str | None, typer.Option(help="Only of this dataflow.")] = None
) -> Shown:
    """List how many there are by task and reason, with the first and the last time; any id of a group stands for it."""
    found = tuple(client.dead_letter_groups(dataflow=dataflow))
    rows = (
        (each.newest, each.instance, each.dataflows, each.dead_letters, each.first, each.last, each.reason)
        for each in found
    )
    columns = ("newest id", "instance", "dataflows", "dead letters", "first", "last", "reason")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no dead letters"))


@app.command()
@client_command
def replay(
    client: Client,
    id: One = None,  # noqa: A002 - its public name
    dataflow: AllOf = None,
    *,
    alike: AllAlike = False,
) -> Shown:
    """Feed one dead letter to its task again, once, or its group, or all of a dataflow, oldest first."""
    answer = _either(partial(client.replay_dead_letter, alike=alike), id, client.replay_dead_letters, dataflow)
    text = f"replayed {counted(answer.dead_letters, 'dead letter')} with {counted(answer.events, 'event')}"
    return Shown(data=answer, text=f"{text}; {answer.left} left: {answer.why_left}" if answer.left else text)


@app.command()
@client_command
def discard(
    client: Client,
    id: One = None,  # noqa: A002 - its public name
    dataflow: AllOf = None,
    *,
    alike: AllAlike = False,
) -> Shown:
    """Discard one dead letter, or its group, or all of a dataflow; an operator discards them for every tenant."""
    answer = _either(partial(client.discard_dead_letter, alike=alike), id, client.discard_dead_letters, dataflow)
    return Shown(data=answer, text=f"discarded {counted(answer.dead_letters, 'dead letter')}")


def _either(one: Callable[[int], A], letter: int | None, all_of: Callable[[str], A], dataflow: str | None) -> A:
    """Apply one action or the other, by which argument is given."""
    match letter, dataflow:
        case int(number), None:
            return one(number)
        case None, str(name):
            return all_of(name)
        case _:
            raise WrongUsage("name either the id of a dead letter, or a dataflow with --dataflow")
