"""The commands for what leaves dataflows, and for dead letters: `braid tail`, `braid dead-letters`."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Annotated, Any, TypeVar

import typer
from rich.text import Text

from manager.answers.dataflows import DataflowAnswer, OutputEvent
from manager.cli import Shown, WrongUsage, client_command, complain, counted, fields, group, listing
from manager.client.client import Client
from manager.client.errors import Refused

_NOT_FOUND = 404


@client_command
def tail(
    client: Client,
    dataflow: Annotated[str, typer.Argument(help="The id of a dataflow, or its name if it is unique.")],
    sink: Annotated[str | None, typer.Argument(help="One of its outputs. Default: all.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    last: Annotated[int, typer.Option(min=0, max=1_000, help="Begin with so many past events of each output.")] = 10,
) -> Iterator[Shown]:
    """Follow the outputs of a dataflow, one event for each line: the last past ones, then new ones."""
    shown_dataflow = _dataflow(client, dataflow)
    several = sink is None and len(shown_dataflow.outputs) > 1
    for event in islice(_without_gaps(client.tail(shown_dataflow.id, sink, last=last)), count):
        shown = {"sink": event.sink, "event": event.event} if several else event.event
        data = {"sink": event.sink, "epoch": event.epoch, "number": event.number, "event": event.event}
        yield Shown(data=data, text=Text(_json(shown)))


def _without_gaps(events: Iterator[OutputEvent]) -> Iterator[OutputEvent]:
    """The events; gaps are reported on standard error."""
    for event in events:
        if event.missed:
            complain(f"missed {event.missed:,} events of {event.sink}: they came faster than they were read")
        else:
            yield event


def _dataflow(client: Client, named: str) -> DataflowAnswer:
    """The dataflow with an id, else the one with a name."""
    try:
        return client.dataflow(named)
    except Refused as error:
        if error.status != _NOT_FOUND:
            raise
        dataflows = tuple(client.dataflows(name=named))
        if len(dataflows) > 1:
            ids = ", ".join(dataflow.id for dataflow in dataflows)
            raise WrongUsage(f"{len(dataflows)} dataflows have the name '{named}': {ids}; use an id") from None
        if not dataflows:
            raise
        return dataflows[0]


def _json(event: Any) -> str:
    try:
        text = json.dumps(event, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        # Lone surrogates.
        return json.dumps(event)
    return text


A = TypeVar("A")

app = group(help="List, group, replay and discard dead letters, the events that tasks could not process.")
OnlyOf = Annotated[str | None, typer.Option(help="Only of this dataflow.")]
One = Annotated[int | None, typer.Argument(help="The id of one dead letter.", min=0)]
AllAlike = Annotated[bool, typer.Option("--alike", help="With it all of the same task with the same reason.")]
AllOf = Annotated[str | None, typer.Option(help="All of this dataflow, instead of one by its id.")]


@app.command("list")
@client_command
def list_dead_letters(client: Client, dataflow: OnlyOf = None) -> Shown:
    """List the events that tasks could not process, newest first, with the reasons."""
    return listing(
        client.dead_letters(dataflow=dataflow),
        "no dead letters",
        lambda letter: {
            **fields(letter, "id", "at", "instance", "port", "dataflows"),
            "events": len(letter.events),
            "reason": letter.reason,
            "older dropped": letter.dropped or "",
        },
    )


@app.command("groups")
@client_command
def list_groups(client: Client, dataflow: OnlyOf = None) -> Shown:
    """List how many there are by task and reason, with the first and the last time; any id of a group stands for it."""
    columns = ("instance", "dataflows", "dead_letters", "first", "last", "reason")
    groups = client.dead_letter_groups(dataflow=dataflow)
    return listing(groups, "no dead letters", lambda alike: {"newest id": alike.newest, **fields(alike, *columns)})


@app.command()
@client_command
def replay(client: Client, id: One = None, dataflow: AllOf = None, *, alike: AllAlike = False) -> Shown:  # noqa: A002 - its public name
    """Feed one dead letter to its task again, once, or its group, or all of a dataflow, oldest first."""
    answer = _either(partial(client.replay_dead_letter, alike=alike), id, client.replay_dead_letters, dataflow)
    text = f"replayed {counted(answer.dead_letters, 'dead letter')} with {counted(answer.events, 'event')}"
    return Shown(data=answer, text=f"{text}; {answer.left} left: {answer.why_left}" if answer.left else text)


@app.command()
@client_command
def discard(client: Client, id: One = None, dataflow: AllOf = None, *, alike: AllAlike = False) -> Shown:  # noqa: A002 - as above
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
