"""The replay of a file: its rows as events of a schema, and the times at which they are due.

A file is read piece by piece, so its size does not matter. Rows are numbered over all rounds, without unfit ones. A
file that changes while it is replayed breaks the numbering. Columns are converted to the schema: CSV has only text, and
Parquet has its own types.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from bridge.formats.table_rows import table_events
from bridge.generated.generators import MOST_DUE_EVENTS, NEVER, DueEvents, Progress, Replay, offset, offsets, paced
from bridge.raw_events import Unfit, arrow_schema, events_in
from dags import Schema


class Unreplayable(RuntimeError):
    """A file that cannot be replayed: it is missing or malformed, or a value is not of its field's kind."""


def as_events(rows: pa.RecordBatch, schema: Schema, path: Path, before: int) -> pa.RecordBatch:
    """Rows of a file as events; `before` is the number of rows before them, for errors."""
    events, unfit = table_events(rows, schema)
    if unfit:
        raise Unreplayable(
            f"{path}, row {before + unfit[0].row + 1}: {unfit[0].reason}; correct the file or the source's schema"
        )
    return events


_ROWS = 2_000
_MOST_BYTES = 1_000_000
"""The approximate size of the events that are sent at once."""

_MOMENT = re.compile(r"\d{1,15}")

OnUnfit = Callable[[Unfit], None]
"""Called with each line that does not fit the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive rows of a replay; made by `chunks`."""

    first: int
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]]
    """The time at which each event is due, in milliseconds after the start; never decreasing."""
    events: pa.RecordBatch

    @property
    def end(self) -> int:
        """The number after its last event."""
        return self.first + len(self.events)


def due_of(chunk: Chunk, progress: Progress, now: int, most: int = MOST_DUE_EVENTS) -> DueEvents:
    """The events of a chunk, which holds the next number, that are due: at most so many."""
    begin = progress.next - chunk.first
    by = int(np.searchsorted(chunk.offsets, now - progress.start, side="right"))
    rows_of_size = max(1, _MOST_BYTES * len(chunk.events) // max(1, chunk.events.nbytes))
    end = min(by, begin + most, begin + rows_of_size)
    if end <= begin:
        return DueEvents(progress=progress, then=progress.start + int(chunk.offsets[begin]))
    after = replace(progress, next=chunk.first + end)
    # Only the next chunk knows the time after the last event of this one.
    then = progress.start + int(chunk.offsets[min(end, len(chunk.offsets) - 1)])
    return DueEvents(events=chunk.events.slice(begin, end - begin), progress=after, then=then)


def chunks(replay: Replay, number: int, on_unfit: OnUnfit) -> Iterator[Chunk]:
    """The rows of a replay from a number on, round after round."""
    first, base = 0, 0
    while True:
        begun, offsets_of = first, _Offsets(replay)
        for events in _pieces(replay, on_unfit):
            due_at = base + offsets_of(events)
            if first + len(events) > number:
                skipped = max(0, number - first)
                yield Chunk(first=first + skipped, offsets=due_at[skipped:], events=events.slice(skipped))
            first += len(events)
        rows = first - begun
        if not replay.repeat or not rows:
            return
        period = offsets_of.period()
        # Rounds that are over are skipped.
        over = 1 + max(0, number - first) // rows
        first, base = begun + over * rows, base + over * period


class _Offsets:
    """The times at which the events of one round are due, piece by piece, in milliseconds after its beginning."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._rows = 0
        self._origin: int | None = None
        self._latest = 0

    def __call__(self, events: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        count, before = len(events), self._rows
        self._rows += count
        if self._replay.time_field is None:
            return offsets(paced(self._replay.per_second or 0.0), before, count)
        times = events.column(self._replay.time_field).cast(pa.int64())
        known = times.drop_null()
        if self._origin is None and len(known):
            self._origin = known[0].as_py()
        # An event without a time, or with an earlier one than the event before, comes at once after that.
        origin = self._origin or 0
        since = times.fill_null(origin).to_numpy() - origin
        rising = np.maximum.accumulate(np.maximum(since, self._latest))
        if count:
            self._latest = int(rising[-1])
        # Bounded before the cast: a number beyond 64 bits would become negative, and be due at once.
        due_at: np.ndarray[tuple[int], np.dtype[np.int64]] = np.minimum(rising / self._replay.speed, NEVER).astype(
            np.int64
        )
        return due_at

    def period(self) -> int:
        """The duration of a round: until its last event, plus the mean gap before the next round."""
        if self._replay.time_field is None:
            return offset(paced(self._replay.per_second or 0.0), self._rows)
        gaps = max(1, self._rows - 1)
        return max(1, min(NEVER, round(self._latest * (gaps + 1) / gaps / self._replay.speed)))


def _pieces(replay: Replay, on_unfit: OnUnfit) -> Iterator[pa.RecordBatch]:
    path, row = replay.path, 0
    try:
        match path.suffix.lower():
            case ".jsonl" | ".json" | ".ndjson":
                with path.open("rb") as file:
                    yield from _lines(file, replay, on_unfit)
                return
            case ".csv":
                pieces = _csv(path)
            case ".txt" | ".senml":
                pieces = _texts(path, replay)
            case ".parquet":
                pieces = pa.parquet.ParquetFile(path).iter_batches(_ROWS)
            case _:
                raise Unreplayable(
                    f"{path} cannot be replayed: it ends neither in .jsonl, .csv, .parquet, .txt nor .senml; rename it"
                )
        for piece in pieces:
            for begin in range(0, len(piece), _ROWS):
                part = piece.slice(begin, _ROWS)
                yield as_events(part, replay.schema, path, row)
                row += len(part)
    except (OSError, pa.ArrowException) as error:
        raise Unreplayable(f"{path} cannot be replayed after row {row}: {error}") from error


def _csv(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of a CSV file, all as text: the schema has their kinds."""
    # One thread, so that an error can name its row.
    options = pa.csv.ReadOptions(use_threads=False)
    with pa.csv.open_csv(path, read_options=options) as reader:
        names = reader.schema.names
    conversion = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
    )
    with pa.csv.open_csv(path, read_options=options, convert_options=conversion) as reader:
        yield from reader


def _texts(path: Path, replay: Replay) -> Iterator[pa.RecordBatch]:
    """The lines of a file, each with the milliseconds at its beginning, up to a comma, if any."""
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = (line.rstrip("\r\n") for line in file if not line.isspace())
        while piece := list(islice(lines, _ROWS)):
            columns = {"line": pa.array(piece, pa.string())}
            if "time" in replay.schema.fields:
                heads = (line.partition(",")[0].strip() for line in piece)
                columns["time"] = pa.array(
                    [int(head) if _MOMENT.fullmatch(head) else None for head in heads], pa.int64()
                )
            yield pa.record_batch(columns)


def _lines(file: BinaryIO, replay: Replay, on_unfit: OnUnfit) -> Iterator[pa.RecordBatch]:
    """The lines of a file, each one event or an array of events."""
    numbered = ((number, line) for number, line in enumerate(file, 1) if not line.isspace())
    while lines := list(islice(numbered, _ROWS)):
        # Reading all lines at once costs a fraction. Only if any is unfit, each line is read alone.
        events, unfit = events_in([b"[" + b",".join(line for _, line in lines) + b"]"], replay.schema)
        if unfit or len(events) != len(lines):
            alone: list[pa.RecordBatch] = []
            for number, line in lines:
                taken, refused = events_in([line], replay.schema)
                alone.append(taken)
                for line_unfit in refused:
                    on_unfit(replace(line_unfit, reason=f"{replay.path}, row {number}: {line_unfit.reason}"))
            events = pa.Table.from_batches(alone, arrow_schema(replay.schema)).combine_chunks()
            if not len(events):
                continue
            (events,) = events.to_batches()
        yield events
