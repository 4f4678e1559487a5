"""Files of events on the caller's machine, read as JSON lines to be sent.

The name's ending says how a file is read, or an option does. The fields of a CSV file are text, so the source's schema
says what each is: a cell that is of another kind is sent as the text that it is, and the service refuses it with the
reason. An empty cell is a field that the event does not have, and so is a null or NaN in a Parquet file.
"""

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from enum import StrEnum
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any

import msgspec

from dags import Kind

MOST_CHUNK_BYTES = 500_000
"""The most bytes of events in one request; a longer line is sent alone."""
MOST_CHUNK_EVENTS = 5_000
"""The most events in one request."""
_LARGEST_CELL = 4_000_000
Kinds = Mapping[str, Kind]
_Column = tuple[str, Callable[[str], Any]]
"""The name of a column, and what reads a cell of it."""


class FileFormat(StrEnum):
    """The formats of files that can be sent."""

    JSONL = "jsonl"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


TYPED = frozenset({FileFormat.CSV})
"""The formats whose fields are read by the source's schema."""
_ENDINGS = {f".{file_format}": file_format for file_format in FileFormat}


def format_of(path: Path) -> FileFormat:
    """Return the format that a file's name stands for; JSON lines if it has another ending.

    >>> format_of(Path("street.CSV")).value, format_of(Path("-")).value
    ('csv', 'jsonl')
    """
    return _ENDINGS.get(path.suffix.lower(), FileFormat.JSONL)


class UnfitFile(Exception):
    """A file that is not of its format; the message names the line or row."""


@dataclass(frozen=True, slots=True)
class FileEvent:
    """One event of a file."""

    place: str
    """Where it is in the file, such as `line 7`."""
    text: bytes
    """The event as JSON, on one line."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """Events that were read together."""

    events: Sequence[FileEvent]
    done: float
    """How much of the file has been read, from 0 to 1; 0 if its size is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFile:
    """A file that is open, or standard input."""

    stream: BufferedIOBase
    size: int | None
    """Its bytes; None if that is unknown."""

    def lines(self) -> Iterator[tuple[list[bytes], float]]:
        """Yield the lines as they arrive, at most as many as fit into a request, with how much has been read."""
        rest, read = b"", 0
        while part := self.stream.read1(MOST_CHUNK_BYTES):
            *lines, rest = (rest + part).split(b"\n")
            read += len(part)
            if lines:
                yield lines, read / self.size if self.size else 0.0
        if rest:
            yield [rest], 1.0


def read_events(
    opened: OpenedFile, file_format: FileFormat, kinds: Kinds, *, separator: str = ","
) -> Iterator[FilePart]:
    r"""Yield the events of a file in the order of the file; raises `UnfitFile` where it is not of its format.

    >>> text = BytesIO(b"station,t\nhill,21.5\nbay,\n")
    >>> opened = OpenedFile(stream=text, size=None)
    >>> [event.text for part in read_events(opened, FileFormat.CSV, {"t": Kind.FLOAT}) for event in part.events]
    [b'{"station":"hill","t":21.5}', b'{"station":"bay"}']
    """
    if file_format is FileFormat.CSV:
        return _csv(opened, kinds, separator)
    return _READERS[file_format](opened)


def _json_lines(opened: OpenedFile) -> Iterator[FilePart]:
    number = 0
    for lines, done in opened.lines():
        events = [FileEvent(f"line {at}", line) for at, line in enumerate(lines, number + 1) if line.strip()]
        number += len(lines)
        yield FilePart(events, done)


def _json(opened: OpenedFile) -> Iterator[FilePart]:
    """Yield the items of an array; anything else is one event."""
    content = opened.stream.read()
    try:
        texts = msgspec.json.decode(content, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        texts = [msgspec.Raw(content)]
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnfitFile(f"it is not JSON: {error}") from None
    # In JSON line breaks stand between values only.
    lines = (bytes(text).replace(b"\n", b" ").replace(b"\r", b" ") for text in texts)
    events = [FileEvent(f"event {number}", line) for number, line in enumerate(lines, 1)]
    for first in range(0, len(events), MOST_CHUNK_EVENTS):
        part = events[first : first + MOST_CHUNK_EVENTS]
        yield FilePart(part, (first + len(part)) / len(events))


class _Texts:
    """The lines of a CSV file as text, and whether more of them have arrived."""

    def __init__(self, opened: OpenedFile) -> None:
        self.waiting = 0
        """The lines that have arrived and were not read yet."""
        self.done = 0.0
        self._opened = opened

    def __iter__(self) -> Iterator[str]:
        number = 0
        for lines, done in self._opened.lines():
            self.waiting, self.done = len(lines), done
            for line in lines:
                self.waiting, number = self.waiting - 1, number + 1
                try:
                    # Spreadsheets begin a file with a mark of its encoding.
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8") + "\n"
                except UnicodeDecodeError as error:
                    raise UnfitFile(f"line {number}: it is not UTF-8: {error.reason}; save the file as UTF-8") from None


def _csv(opened: OpenedFile, kinds: Kinds, separator: str) -> Iterator[FilePart]:
    csv.field_size_limit(_LARGEST_CELL)
    texts = _Texts(opened)
    rows = csv.reader(texts, delimiter=separator, strict=True)
    columns: list[_Column] = []
    events: list[FileEvent] = []
    try:
        for row in filter(None, rows):
            if columns:
                events.append(_event(f"line {rows.line_num}", row, columns))
            else:
                columns = _columns(row, kinds)
            # What a slow writer has written does not wait for what comes later.
            if not texts.waiting:
                yield FilePart(events, texts.done)
                events = []
    except csv.Error as error:
        raise UnfitFile(f"line {rows.line_num}: it is not CSV: {error}") from None
    yield FilePart(events, 1.0)


def _event(place: str, row: Sequence[str], columns: Sequence[_Column]) -> FileEvent:
    if len(row) != len(columns):
        raise UnfitFile(f"{place}: it has {len(row)} cells, and the header has {len(columns)}")
    event = {name: read(cell) for (name, read), cell in zip(columns, row, strict=True) if cell}
    return FileEvent(place, msgspec.json.encode(event))


def _columns(names: Sequence[str], kinds: Kinds) -> list[_Column]:
    for number, name in enumerate(names):
        if not name:
            raise UnfitFile(f"line 1: column {number + 1} has no name; the first line names the columns")
        if name in names[:number]:
            raise UnfitFile(f"line 1: two columns have the name {name!r}; give each a name of its own")
    return [(name, _CELLS[kinds.get(name, Kind.STRING)]) for name in names]


def _number(cell: str) -> float | str:
    """Read a number; what is none stays a text, which the service refuses with the reason."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return value if math.isfinite(value) and "_" not in cell else cell


def _integer(cell: str) -> float | str:
    try:
        value = int(cell)
    except ValueError:
        return _number(cell)
    return value if -(2**63) <= value < 2**63 and "_" not in cell else cell


def _json_cell(cell: str) -> Any:
    try:
        return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(cell)))
    except (msgspec.MsgspecError, RecursionError):
        return cell


_TRUTHS = {"true": True, "false": False}
_CELLS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.BOOLEAN: lambda cell: _TRUTHS.get(cell.strip().lower(), cell),
    Kind.INTEGER: _integer,
    Kind.FLOAT: _number,
    Kind.STRING: str,
    Kind.TIMESTAMP: lambda cell: int(cell) if cell.isascii() and cell.isdigit() and len(cell) <= 15 else cell,  # noqa: PLR2004 - milliseconds of the year 9999 have 15 digits
    Kind.JSON: _json_cell,
}
"""What reads a cell of a column of each kind."""


def _parquet(opened: OpenedFile) -> Iterator[FilePart]:
    # Loading it takes longer than most commands.
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    stream = opened.stream if opened.stream.seekable() else BytesIO(opened.stream.read())
    number = 0
    try:
        with parquet.ParquetFile(stream) as file:
            for batch in file.iter_batches(batch_size=MOST_CHUNK_EVENTS):
                rows = _in_microseconds(batch).to_pylist()
                events = [FileEvent(f"row {at}", _row(at, row)) for at, row in enumerate(rows, number + 1)]
                number += len(events)
                yield FilePart(events, number / file.metadata.num_rows)
    except (pa.ArrowException, OSError, OverflowError) as error:
        raise UnfitFile(f"after row {number}: it cannot be read as Parquet: {error}") from None


def _in_microseconds(batch: Any) -> Any:
    """Return the rows with times that Python can hold."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    fields = [
        field.with_type(pa.timestamp("us", field.type.tz)) if pa.types.is_timestamp(field.type) else field
        for field in batch.schema
    ]
    return pa.Table.from_batches([batch]).cast(pa.schema(fields), safe=False)


def _row(number: int, row: Mapping[str, Any]) -> bytes:
    event = {name: value for name, value in row.items() if value is not None and value == value}  # noqa: PLR0124 - NaN differs from itself
    try:
        return json.dumps(event, ensure_ascii=False, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError) as error:
        raise UnfitFile(f"row {number}: it cannot be written as JSON: {error}; leave such columns out") from None


def _plain(value: Any) -> Any:
    match value:
        # Also with a time of day.
        case date() | time():
            return value.isoformat()
        case Decimal():
            return float(value)
        case _:
            raise TypeError(f"a {type(value).__name__} is no value of JSON")


_READERS: Mapping[FileFormat, Callable[[OpenedFile], Iterator[FilePart]]] = {
    FileFormat.JSONL: _json_lines,
    FileFormat.JSON: _json,
    FileFormat.PARQUET: _parquet,
}


@dataclass(slots=True)
class EventChunk:
    """Events that are sent in one request."""

    events: list[FileEvent]
    done: float = 0.0
    size: int = 0

    @property
    def body(self) -> bytes:
        """The events as JSON lines."""
        return b"\n".join(event.text for event in self.events)

    def is_full_with(self, event: FileEvent) -> bool:
        """True if the event has no room any more."""
        return bool(self.events) and (
            self.size + len(event.text) >= MOST_CHUNK_BYTES or len(self.events) >= MOST_CHUNK_EVENTS
        )

    def add(self, event: FileEvent) -> None:
        """Add an event."""
        self.events.append(event)
        self.size += len(event.text) + 1


def chunks(parts: Iterator[FilePart], *, skipped: int) -> Iterator[EventChunk]:
    """Yield the events in chunks, without the first ones, which were sent before."""
    number = 0
    for part in parts:
        chunk = EventChunk([], part.done)
        for event in part.events:
            number += 1
            if number <= skipped:
                continue
            if chunk.is_full_with(event):
                yield chunk
                chunk = EventChunk([], part.done)
            chunk.add(event)
        # The events of a slow writer do not wait until the chunk is full.
        if chunk.events:
            yield chunk
