"""The commands for events of dataflows, and for dead letters: `braid tail`, `braid events`, `braid dead-letters`."""

import csv
import json
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from io import StringIO
from itertools import islice
from threading import Timer
from typing import Annotated, Any, TypeVar

import typer
from rich.text import Text

from braid_client.answers.dataflows import OutputEvent
from braid_client.client import Client
from manager.cli import (
    Id,
    Shown,
    ShownLine,
    WrongUsage,
    client_command,
    complain,
    counted,
    fields,
    group,
    listing,
    waited,
)
from manager.exit_codes import ExitCode

_QUIET_SECONDS = 2.0
"""Seconds without an event after which a tail says that it waits."""
_LOOK_EVERY = 1.0
"""Seconds between two looks at the events of a task."""


class LineFormat(StrEnum):
    """The formats of a tail for other programs."""

    JSONL = "jsonl"
    CSV = "csv"


@client_command
def tail(  # noqa: PLR0913 - each is an argument or option of the command
    client: Client,
    dataflow: Id,
    sink: Annotated[str | None, typer.Argument(help="One of its outputs. Default: all.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
    last: Annotated[int, typer.Option(min=0, max=1_000, help="Begin with so many past events of each output.")] = 10,
    *,
    line_format: Annotated[
        LineFormat | None, typer.Option("--format", help="Write the events of one output for other programs.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="A column of CSV; may be repeated. Default: the fields of the first event, by name."),
    ] = None,
) -> Iterator[Shown]:
    """Follow the outputs of a dataflow, one event for each line: the last past ones, then new ones."""
    shown_dataflow = client.dataflow(dataflow)
    if column and line_format is not LineFormat.CSV:
        raise WrongUsage("--column is for CSV only; add --format csv")
    followed = islice(announced(client.tail(shown_dataflow.id, sink, last=last), shown_dataflow.name), count)
    if line_format is not None:
        sinks = [output.sink for output in shown_dataflow.outputs]
        if sink is None and len(sinks) > 1:
            raise WrongUsage(f"one file has the events of one output; name one of {', '.join(sinks)}")
        write = _json if line_format is LineFormat.JSONL else CsvLines(column or ()).line
        for event in followed:
            yield ShownLine(data=_numbered(event), text=write(event.event))
        return
    several = sink is None and len(shown_dataflow.outputs) > 1
    for event in followed:
        shown = {"sink": event.sink, "event": event.event} if several else event.event
        yield Shown(data=_numbered(event), text=Text(_json(shown)))


@client_command
def events(
    client: Client,
    dataflow: Id,
    task: Annotated[str, typer.Argument(help="One of its tasks.")],
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many events.")] = None,
) -> Iterator[Shown]:
    """Follow what enters and leaves a running task: up to ten new events of each port a second, one on each line."""
    for event in islice(_port_events(client, dataflow, task), count):
        yield Shown(data=event, text=Text(_json(event)))


def _port_events(client: Client, dataflow: str, task: str) -> Iterator[dict[str, Any]]:
    counts: dict[tuple[str, str], int] = {}
    while True:
        answer = client.task_events(dataflow, task)
        entered = [("entered", port, shown) for port, shown in answer.inputs.items()]
        left = [("left", port, shown) for port, shown in answer.outputs.items()]
        for side, port, shown in entered + left:
            before = counts.get((side, port), 0)
            # Its host has begun to count anew if there are fewer.
            new = shown.count - before if shown.count >= before else shown.count
            counts[side, port] = shown.count
            newest = zip(shown.seen, shown.newest, strict=True)
            for at, event in list(newest)[-new:] if new else ():
                yield {side: port, "at": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z", "event": _read(event)}
        time.sleep(_LOOK_EVERY)


def _read(event: str) -> Any:
    try:
        return json.loads(event)
    except ValueError:
        # It is cut.
        return event


def _numbered(event: OutputEvent) -> dict[str, Any]:
    return {"sink": event.sink, "epoch": event.epoch, "number": event.number, "event": event.event}


class CsvLines:
    r"""Writes events as lines of CSV, the first one after the header.

    >>> lines = CsvLines(())
    >>> lines.line({"t": 21.5, "at": [1]}), lines.line({"t": None, "at": True})
    ('at,t\n[1],21.5', 'true,')
    """

    def __init__(self, columns: Sequence[str]) -> None:
        """Without columns, the fields of the first event are the columns."""
        self._columns = list(columns)
        self._has_begun = False
        self._left_out: set[str] = set()

    def line(self, event: Any) -> str:
        """Write one event; a field without a column is reported once."""
        # An event of a task of one's own may be any JSON.
        values = event if isinstance(event, dict) else {"event": event}
        self._columns = self._columns or sorted(values)
        for name in sorted(values.keys() - {*self._columns} - self._left_out):
            self._left_out.add(name)
            complain(f"the field {name!r} has no column, and is left out; name all columns with --column")
        row = _csv_row([_cell(values.get(name)) for name in self._columns])
        header, self._has_begun = "" if self._has_begun else f"{_csv_row(self._columns)}\n", True
        return f"{header}{row}"


def _csv_row(cells: Sequence[str]) -> str:
    text = StringIO()
    # It quotes a cell for the characters that end lines.
    csv.writer(text).writerow(cells)
    return text.getvalue().removesuffix("\r\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _json(value)


def announced(events: Iterator[OutputEvent], name: str) -> Iterator[OutputEvent]:
    """The events; where none comes at first, that is said on standard error, as are gaps."""
    waits = Timer(_QUIET_SECONDS, complain, [f"no event has left {name} so far; this waits for the next, until Ctrl-C"])
    waits.daemon = True
    waits.start()
    try:
        for event in _without_gaps(events):
            waits.cancel()
            yield event
    finally:
        waits.cancel()


def _without_gaps(events: Iterator[OutputEvent]) -> Iterator[OutputEvent]:
    """The events; gaps are reported on standard error."""
    for event in events:
        if event.missed:
            complain(f"missed {event.missed:,} events of {event.sink}: they came faster than they were read")
        else:
            yield event


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
def list_dead_letters(
    client: Client,
    dataflow: OnlyOf = None,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the first one, for two minutes at most.")] = False,
) -> Iterator[Shown]:
    """List the events that tasks could not process, newest first, with the reasons."""
    letters = list(client.dead_letters(dataflow=dataflow))
    if wait:
        letters = waited(
            letters,
            lambda _: list(client.dead_letters(dataflow=dataflow)),
            lambda now: None if now else "no dead letter yet",
        )
    yield listing(
        letters,
        "no dead letters",
        lambda letter: {
            **fields(letter, "id", "at", "instance", "port", "dataflows"),
            "events": len(letter.events),
            "reason": letter.reason,
            "older dropped": letter.dropped or "",
        },
        wide=("port", "older dropped"),
    )
    if wait and not letters:
        raise typer.Exit(ExitCode.LATER)


@app.command("groups")
@client_command
def list_groups(client: Client, dataflow: OnlyOf = None) -> Shown:
    """List how many there are by task and reason, with the first and the last time; any id of a group stands for it."""
    columns = ("instance", "dataflows", "dead_letters", "first", "last", "reason")
    groups = client.dead_letter_groups(dataflow=dataflow)
    return listing(
        groups,
        "no dead letters",
        lambda alike: {"newest id": alike.newest, **fields(alike, *columns)},
        wide=("instance", "first"),
    )


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
