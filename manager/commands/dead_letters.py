"""Dead letters, which are events that tasks could not take: list, replay, discard."""

from typing import Annotated

import typer

from manager.client.client import Client
from manager.commands.asking import NoUse, asks
from manager.commands.showing import Shown, table

app = typer.Typer(no_args_is_help=True, add_completion=False)
_EITHER = "name either the id of a dead letter, or a dataflow with --dataflow"


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
def replay(
    client: Client,
    id: Annotated[int | None, typer.Argument(help="The id of one dead letter.", min=0)] = None,  # noqa: A002 - its public name
    dataflow: Annotated[str | None, typer.Option(help="All of one dataflow, instead of one by its id.")] = None,
) -> Shown:
    """Feed one dead letter to its task again, or all of a dataflow: once, and the oldest first."""
    if (id is None) == (dataflow is None):
        raise NoUse(_EITHER)
    answer = client.replay_dead_letters(dataflow) if dataflow is not None else client.replay_dead_letter(id or 0)
    text = f"{answer.dead_letters} dead letters with {answer.events} events are replayed"
    return Shown(data=answer, text=f"{text}; {answer.left} are left: {answer.why_left}" if answer.left else text)


@app.command()
@asks
def discard(
    client: Client,
    id: Annotated[int | None, typer.Argument(help="The id of one dead letter.", min=0)] = None,  # noqa: A002 - its public name
    dataflow: Annotated[str | None, typer.Option(help="All of one dataflow, instead of one by its id.")] = None,
) -> Shown:
    """Discard one dead letter, or all of a dataflow; an operator discards them for everybody."""
    if (id is None) == (dataflow is None):
        raise NoUse(_EITHER)
    answer = client.discard_dead_letters(dataflow) if dataflow is not None else client.discard_dead_letter(id or 0)
    return Shown(data=answer, text=f"{answer.dead_letters} dead letters are discarded")
