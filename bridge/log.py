"""The files of a spool's log: numbered items, and what was expected of their producers after them.

A file is named by its first position and the one after its last, so that whoever reads from a position opens only what
it needs. It is an Arrow IPC file; the expectations lie in its schema's metadata.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from bridge.intake import Expected

_COLUMNS = {"count": pa.int64(), "kind": pa.string(), "stamp": pa.int64(), "payload": pa.binary()}
_EXPECTED = b"braid.expected"
_NAME = re.compile(r"(\d{20})-(\d{20})")


class SpoolDamaged(RuntimeError):
    """A file of a spool cannot be read, or does not follow the one before."""


class ItemKind(StrEnum):
    """What lies in a spool: events, or a marker between them."""

    DATA = "data"
    MARKER = "marker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Events that came together, or a marker; made by receivers and generators."""

    kind: ItemKind = ItemKind.DATA
    count: int
    """How many positions it takes: one for each event, one for a marker."""
    stamp: int
    """When it was spooled, in milliseconds; tasks see no other clock."""
    payload: bytes
    """The events as an Arrow IPC stream, or the marker's name."""


class Placed(NamedTuple):
    """An item with its position."""

    first: int
    item: Item

    @property
    def end(self) -> int:
        """The position after it."""
        return self.first + self.item.count

    def since(self, position: int) -> "Placed":
        """What is left of it from a position on."""
        if position <= self.first:
            return self
        events = unpacked(self.item.payload).slice(position - self.first)
        return Placed(position, replace(self.item, count=events.num_rows, payload=packed(events)))


class LogFile(NamedTuple):
    """One file of the log, by what its name says."""

    first: int
    end: int
    path: Path


def packed(events: pa.RecordBatch) -> bytes:
    """Events as the payload of an item."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, events.schema) as writer:
        writer.write_batch(events)
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def unpacked(payload: bytes) -> pa.RecordBatch:
    """The events in the payload of an item."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()


def log_files(folder: Path) -> list[LogFile]:
    """The files of a log, in order; a hole between them is damage.

    A folder is not listed in one instant: a file that was appended or pruned meanwhile may be absent where a newer or
    an older one is seen. Files are appended and pruned in order, so the next listing does not show that hole again.
    """
    hole = None
    while True:
        matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
        files = sorted(LogFile(int(match[1]), int(match[2]), path) for match, path in matches if match)
        found = next(((before, after) for before, after in pairwise(files) if before.end != after.first), None)
        if found is None:
            return files
        if found == hole:
            before, after = found
            raise SpoolDamaged(f"{after.path} does not follow {before.path}; restore what lay between them")
        hole = found


def log_path(folder: Path, first: int, end: int) -> Path:
    """Where the file of these positions lies."""
    return folder / f"{first:020d}-{end:020d}"


def written(items: Sequence[Item], expected: Mapping[str, Expected]) -> bytes:
    """Items, and what is expected of their producers after them, as the content of a file."""
    schema = pa.schema(_COLUMNS, metadata={_EXPECTED: packed_expected(expected)})
    columns = [pa.array([getattr(item, name) for item in items], kind) for name, kind in _COLUMNS.items()]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def items_in(file: LogFile) -> Iterator[Placed]:
    """The items of a file with their positions."""
    first = file.first
    with damage_named(file.path), _opened(file) as reader:
        batch = reader.get_batch(0)
        # A torn file may hold offsets that lead anywhere.
        batch.validate(full=True)
        rows = batch.to_pylist()
        items = [Item(**{**row, "kind": ItemKind(row["kind"])}) for row in rows]
        if sum(item.count for item in items) != file.end - first:
            raise SpoolDamaged(f"{file.path} does not hold the positions that its name says; restore it")
    for item in items:
        yield Placed(first, item)
        first += item.count


def expected_in(file: LogFile) -> dict[str, Expected]:
    """What was expected of each producer after a file."""
    with damage_named(file.path), _opened(file) as reader:
        return unpacked_expected(reader.schema.metadata[_EXPECTED])


def packed_expected(expected: Mapping[str, Expected]) -> bytes:
    """Expectations as text."""
    return json.dumps({producer: asdict(each) for producer, each in sorted(expected.items())}).encode()


def unpacked_expected(text: bytes) -> dict[str, Expected]:
    """Expectations from text."""
    return {producer: Expected(**each) for producer, each in json.loads(text).items()}


def _opened(file: LogFile) -> "pa.ipc.RecordBatchFileReader":
    return pa.ipc.open_file(pa.memory_map(str(file.path)))


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Whatever cannot be read inside is damage of this file."""
    try:
        yield
    except (pa.ArrowException, KeyError, TypeError, ValueError, OSError) as error:
        raise SpoolDamaged(f"{path} cannot be read: {error}; restore it") from error
