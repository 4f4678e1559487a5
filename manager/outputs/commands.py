"""The commands for events and dead letters: `braid send`, `braid tail`, `braid dead-letters`."""

import json
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer
from rich.text import Text

from manager.answers.base import FieldProblem
from manager.answers.dataflows import DataflowAnswer, OutputEvent
from manager.cli import Shown, WrongUsage, client_command, complain, counted, fields, group, listing
from manager.client.client import Client
from manager.client.errors import NotDone, Refused
from manager.client.requests import ONE_TIME_PREFIX

_MOST_BYTES = 500_000
"""The most bytes of events in one request; a longer line is sent alone."""
_MOST_EVENTS = 5_000
"""The most events in one request."""
_NOT_FOUND = 404


@client_command
def send(
    client: Client,
    source: Annotated[str, typer.Argument(help="The name of a source.")],
    file: Annotated[Path, typer.Argument(help="Its events, as JSON lines; - is standard input.")] = Path("-"),
    producer: Annotated[
        str | None,
        typer.Option(help="A name under which events are numbered; with it, an interrupted file can be sent again."),
    ] = None,
) -> Shown:
    """Send events to a source, each exactly once; when the command ends, they are in its spool."""
    name = producer or f"{ONE_TIME_PREFIX}{secrets.token_hex(8)}"
    there = client.producer(source, name).next if producer else 0
    following = there
    with _opened(file) as opened:
        for chunk in _chunks(opened, skipped=there):
            try:
                following = client.send_events(source, chunk.body, producer=name, first=following).next
            except NotDone as error:
                again = "" if isinstance(error, Refused) and error.errors else f"; continue with --producer '{name}'"
                complain(f"{following - there:,} events were sent before this{again}")
                raise _located(error, str(file), chunk) from error
    counted = f"sent {following - there:,} events to {source}"
    skipped = f"; the first {there:,} were there already" if there else ""
    data = {"source": source, "producer": name, "sent": following - there, "there": there, "next": following}
    return Shown(data=data, text=Text(f"{counted}{skipped}"))


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


@dataclass(slots=True)
class _Chunk:
    """Events that are sent in one request."""

    lines: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Their line numbers in the file."""
    size: int = 0

    @property
    def body(self) -> bytes:
        return b"\n".join(self.lines)

    def is_full_with(self, line: bytes) -> bool:
        return bool(self.lines) and (self.size + len(line) >= _MOST_BYTES or len(self.lines) >= _MOST_EVENTS)

    def add(self, number: int, line: bytes) -> None:
        self.lines.append(line)
        self.numbers.append(number)
        self.size += len(line) + 1


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    if str(path) == "-":
        # A stream of bytes with a buffer, which its type does not say.
        yield cast("BufferedIOBase", sys.stdin.buffer)
        return
    try:
        opened = path.open("rb")
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}; name a readable file") from None
    with opened:
        yield opened


def _chunks(opened: BufferedIOBase, *, skipped: int) -> Iterator[_Chunk]:
    """The events of a file in chunks, without the first ones, which were sent before."""
    chunk, number, events = _Chunk(), 0, 0
    for lines in _arriving(opened):
        for line in lines:
            number += 1
            if not line.strip():
                continue
            events += 1
            if events <= skipped:
                continue
            if chunk.is_full_with(line):
                yield chunk
                chunk = _Chunk()
            chunk.add(number, line)
        # The events of a slow writer do not wait until the chunk is full.
        if chunk.lines:
            yield chunk
            chunk = _Chunk()


def _arriving(opened: BufferedIOBase) -> Iterator[list[bytes]]:
    """The lines of a file as they arrive, at most as many as fit into a chunk."""
    rest = b""
    while part := opened.read1(_MOST_BYTES):
        *lines, rest = (rest + part).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _located(error: NotDone, file: str, chunk: _Chunk) -> NotDone:
    """The error with the lines of the file instead of those of the chunk."""
    if not isinstance(error, Refused) or not error.errors:
        return error
    located = copy(error)
    located.errors = tuple(_of_file(problem, file, chunk) for problem in error.errors)
    return located


def _of_file(problem: FieldProblem, file: str, chunk: _Chunk) -> FieldProblem:
    _, place, *_ = [*problem.pointer.split("/"), ""]
    if not place.isdecimal() or int(place) >= len(chunk.numbers):
        return problem
    said = f"line {int(place) + 1}"
    message = problem.message.replace(f"{said}: ", "", 1).replace(f"{said} ", "it ", 1)
    pointer = f"{file}, line {chunk.numbers[int(place)]}"
    return problem.model_copy(update={"pointer": pointer, "message": message})


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
