"""Events in and out: send them to a source, and see what leaves a dataflow."""

import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.text import Text

from manager.answers import FieldProblem, OutputEvent
from manager.client.client import Client
from manager.client.errors import NotDone, Refused
from manager.client.requests.sources import ONE_TIME_PREFIX
from manager.commands.client_command import WrongUsage, asks
from manager.commands.display import Shown, complain

_MOST_BYTES = 500_000
"""Bytes of events that are sent in one request, as far as lines allow."""
_MOST_EVENTS = 5_000
"""Events that are."""
_NOT_FOUND = 404


@asks
def send(
    client: Client,
    source: Annotated[str, typer.Argument(help="The name of a source.")],
    file: Annotated[Path, typer.Argument(help="Its events, as JSON lines; - is standard input.")] = Path("-"),
    producer: Annotated[
        str | None,
        typer.Option(help="A name for what numbers these events: run again with it, the same file goes on, once each."),
    ] = None,
) -> Shown:
    """Send events to a source, each exactly once; they lie in its spool when the command ends."""
    name = producer or f"{ONE_TIME_PREFIX}{secrets.token_hex(8)}"
    there = client.producer(source, name).next if producer else 0
    following = there
    with _opened(file) as opened:
        for chunk in _chunks(opened, skipped=there):
            try:
                following = client.send_events(source, chunk.body, producer=name, first=following).next
            except NotDone as error:
                again = "" if isinstance(error, Refused) and error.errors else f"; go on with --producer '{name}'"
                complain(f"{following - there:,} events were sent before this{again}")
                raise _located(error, str(file), chunk) from error
    counted = f"sent {following - there:,} events to {source}"
    skipped = f"; the first {there:,} were there already" if there else ""
    told = {"source": source, "producer": name, "sent": following - there, "there": there, "next": following}
    return Shown(data=told, text=Text(f"{counted}{skipped}"))


@asks
def tail(
    client: Client,
    dataflow: Annotated[str, typer.Argument(help="The id of a dataflow, or its name where only one has it.")],
    sink: Annotated[str | None, typer.Argument(help="One of its outputs; all of them, if not given.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    last: Annotated[int, typer.Option(min=0, max=1_000, help="Begin with so many of each that left before.")] = 10,
) -> Iterator[Shown]:
    """Show what leaves a dataflow, an event a line: what left last, as far as it is known, and then all that comes."""
    found, sinks = _dataflow(client, dataflow)
    several = sink is None and len(sinks) > 1
    return _told(client, found, sink, last=last, count=count, several=several)


def _told(  # noqa: PLR0913 - of what, from where, how much and how are six things
    client: Client, dataflow: str, sink: str | None, *, last: int, count: int | None, several: bool
) -> Iterator[Shown]:
    for event in islice(_noticed(client.tail(dataflow, sink, last=last)), count):
        shown = {"sink": event.sink, "event": event.event} if several else event.event
        told = {"sink": event.sink, "epoch": event.epoch, "number": event.number, "event": event.event}
        yield Shown(data=told, text=Text(_written(shown)))


def _noticed(events: Iterator[OutputEvent]) -> Iterator[OutputEvent]:
    """The events; how many were missed is said on standard error."""
    for event in events:
        if event.missed:
            complain(f"{event.missed:,} events of {event.sink} were missed: they came faster than they were read")
        else:
            yield event


def _dataflow(client: Client, named: str) -> tuple[str, tuple[str, ...]]:
    """The id of a dataflow, and its sinks."""
    try:
        found = client.dataflow(named)
    except Refused as error:
        if error.status != _NOT_FOUND:
            raise
        several = tuple(client.dataflows(name=named))
        if len(several) > 1:
            listed = ", ".join(each.id for each in several)
            raise WrongUsage(f"{len(several)} dataflows are called '{named}': {listed}; name one by its id") from None
        if not several:
            raise
        return several[0].id, tuple(each.sink for each in several[0].outputs)
    return found.id, tuple(each.sink for each in found.outputs)


def _written(event: Any) -> str:
    try:
        text = json.dumps(event, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        # Halves of characters.
        return json.dumps(event)
    return text


@dataclass(slots=True)
class _Chunk:
    """Events that are sent together."""

    lines: list[bytes] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """For each the number of its line in the file."""
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
def _opened(path: Path) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = path.open("rb")
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}; name a file that can be read") from None
    with opened:
        yield opened


def _chunks(opened: BinaryIO, *, skipped: int) -> Iterator[_Chunk]:
    """The events of a file in chunks; those that were sent before are skipped."""
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
        # What a program writes now and then is not to wait for more.
        if chunk.lines:
            yield chunk
            chunk = _Chunk()


def _arriving(opened: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a file as they come: as many as there are, and no more than a chunk can hold."""
    rest = b""
    while part := _read(opened):
        *lines, rest = (rest + part).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _read(opened: Any) -> bytes:
    part: bytes = opened.read1(_MOST_BYTES)
    return part


def _located(error: NotDone, file: str, chunk: _Chunk) -> NotDone:
    """An error that names lines of the file, and not of the chunk."""
    if not isinstance(error, Refused) or not error.errors:
        return error
    return Refused(
        status=error.status,
        code=error.code,
        title=error.title,
        detail=error.detail,
        errors=tuple(_of_file(each, file, chunk) for each in error.errors),
        retry_after=error.retry_after,
    )


def _of_file(problem: FieldProblem, file: str, chunk: _Chunk) -> FieldProblem:
    _, place, *_ = [*problem.pointer.split("/"), ""]
    if not place.isdecimal() or int(place) >= len(chunk.numbers):
        return problem
    line = chunk.numbers[int(place)]
    told: Mapping[str, str] = {
        "pointer": f"{file}, line {line}",
        "message": problem.message.replace(f"line {int(place) + 1}: ", "", 1).replace(
            f"line {int(place) + 1} ", "it ", 1
        ),
    }
    return problem.model_copy(update=dict(told))
