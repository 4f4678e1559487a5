"""Dead letters, which are events that tasks could not take: list, replay, discard."""

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from manager.client.client import Client
from manager.commands.client_command import WrongUsage, asks
from manager.commands.display import Shown, table

A = TypeVar("A")

app = typer.Typer(no_args_is_help=True, add_completion=False)
One = Annotated[int | None, typer.Argument(help="The id of one dead letter.", min=0)]
AllOf = Annotated[str | None, typer.Option(help="All of one dataflow, instead of one by its id.")]


@app.command("list")
@asks
def list_dead_letters(
    client: Client, dataflow: Annotated[str | None, typer.Option(help="Those of one dataflow.")] = None
) -> Shown:
    """List the events that tasks could not take, newest first, with the reason."""
    found = tuple(client.dead_letters(dataflow=dataflow))
    rows = (
        (each.id, each.at, each.instance, each.port, each.dataflows, len(each.events), each.reason, each.dropped or "")
        for each in found
    )
    columns = ("id", "at", "instance", "port", "dataflows", "events", "reason", "older dropped")
    return Shown(data=found, text=table(*columns, rows=rows, empty="no dead letters"))


@app.command()
@asks
def replay(client: Client, id: One = None, dataflow: AllOf = None) -> Shown:  # noqa: A002 - its public name
    """Feed one dead letter to its task again, or all of a dataflow: once, and the oldest first."""
    answer = _either(client.replay_dead_letter, id, client.replay_dead_letters, dataflow)
    text = f"{answer.dead_letters} dead letters with {answer.events} events are replayed"
    return Shown(data=answer, text=f"{text}; {answer.left} are left: {answer.why_left}" if answer.left else text)


@app.command()
@asks
def discard(client: Client, id: One = None, dataflow: AllOf = None) -> Shown:  # noqa: A002 - its public name
    """Discard one dead letter, or all of a dataflow; an operator discards them for everybody."""
    answer = _either(client.discard_dead_letter, id, client.discard_dead_letters, dataflow)
    return Shown(data=answer, text=f"{answer.dead_letters} dead letters are discarded")


def _either(one: Callable[[int], A], letter: int | None, all_of: Callable[[str], A], dataflow: str | None) -> A:
    """Do it to one dead letter or to all of a dataflow, whichever is named."""
    match letter, dataflow:
        case int(number), None:
            return one(number)
        case None, str(name):
            return all_of(name)
        case _:
            raise WrongUsage("name either the id of a dead letter, or a dataflow with --dataflow")
