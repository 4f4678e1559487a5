"""Generators: sources that make their own events, and the times at which these are due.

A generator's events are numbered, and each number is due so many milliseconds after the start. So which events are due
is a pure decision, and events that a crash cut off are made again unchanged. The start and the next number are kept
with the spool, in the same file as the events.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from bridge.raw_events import ARROW_TYPES
from dags import Kind, Schema

MOST_DUE_EVENTS = 50_000
"""The number of events that a generator makes at once when it is behind."""
NEVER = 2**60
"""An offset that no clock reaches. It stands for all later ones, so that sums of offsets fit into 64 bits."""
_FINEST = 1_000_000
"""Rates are multiples of one event in so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a generator; kept with its spool."""

    start: int
    """The time when number 0 was due, in milliseconds since the epoch."""
    next: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DueEvents:
    """The events that a generator has to send now."""

    events: pa.RecordBatch | None = None
    progress: Progress
    then: int | None
    """The time of the next event, in milliseconds since the epoch; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Numbered events at an even pace."""

    per_second: float

    def __post_init__(self) -> None:
        _check("per_second", self.per_second, 1 / _FINEST, 1e7)

    @property
    def schema(self) -> Schema:
        """The schema of its events."""
        return Schema.of(number=Kind.INTEGER, at=Kind.TIMESTAMP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """One event every so many seconds, the first one at once."""

    seconds: float

    def __post_init__(self) -> None:
        _check("seconds", self.seconds, 0.001, 1e6)

    @property
    def schema(self) -> Schema:
        """The schema of its events."""
        return Schema.of(tick=Kind.INTEGER, at=Kind.TIMESTAMP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The events of a file: JSON lines, CSV, Parquet or lines of text, by its ending; in the order of the file.

    A line of text is the field `line`, and the field `time` has the milliseconds that it begins with, up to a comma.
    """

    path: Path
    schema: Schema
    """The schema of the registered source. Other fields of the file are kept as undeclared ones."""
    time_field: str | None = None
    """The field with the time of each event: the gaps between the events are kept."""
    speed: float = 1.0
    """The factor by which the replay is faster; with a time field."""
    per_second: float | None = None
    """The number of events a second; without a time field."""
    repeat: bool = False
    """True if it begins again after the last event."""

    def __post_init__(self) -> None:
        _check("speed", self.speed, 1e-6, 1e9)
        if (self.time_field is None) == (self.per_second is None):
            raise ValueError("a replay needs either a time_field, whose gaps it keeps, or a rate per_second")
        if self.per_second is not None:
            _check("per_second", self.per_second, 1 / _FINEST, 1e7)
        elif self.schema.fields.get(self.time_field or "") not in {Kind.TIMESTAMP, Kind.INTEGER}:
            raise ValueError(
                f"the schema has no field {self.time_field!r} of kind timestamp or integer (milliseconds); "
                "name one, or give a rate per_second"
            )


Generator = Rate | Timer | Replay


def milliseconds(seconds: float) -> int:
    """A time in seconds, in whole milliseconds."""
    return math.floor(seconds * 1000)


def due(generator: Rate | Timer, progress: Progress, now: int, most: int = MOST_DUE_EVENTS) -> DueEvents:
    """The events that a rate or a timer has to send at a time: at most so many.

    >>> later = due(Rate(per_second=2), Progress(start=1000), 2000)
    >>> later.events.column("number").to_pylist(), later.progress.next, later.then
    ([0, 1, 2], 3, 2500)
    """
    if isinstance(generator, Rate):
        name, pace = "number", paced(generator.per_second)
    else:
        name, pace = "tick", 1 / Fraction(generator.seconds).limit_denominator(1000)
    elapsed = now - progress.start
    count_due = elapsed * pace.numerator // (1000 * pace.denominator) + 1 if elapsed >= 0 else 0
    count = min(most, count_due - progress.next)
    if count <= 0:
        return DueEvents(progress=progress, then=progress.start + offset(pace, progress.next))
    columns = {
        "at": pa.array(progress.start + offsets(pace, progress.next, count), ARROW_TYPES[Kind.TIMESTAMP]),
        name: pa.array(np.arange(progress.next, progress.next + count), ARROW_TYPES[Kind.INTEGER]),
    }
    # In the order of their names, as every source's events are.
    events = pa.record_batch({field: columns[field] for field in generator.schema.names()})
    after = replace(progress, next=progress.next + count)
    return DueEvents(events=events, progress=after, then=after.start + offset(pace, after.next))


@lru_cache(maxsize=1_000)
def paced(rate: float) -> Fraction:
    """A rate as an exact number, so that counts stay exact.

    >>> paced(1 / 3), paced(0.1)
    (Fraction(1, 3), Fraction(1, 10))
    """
    return Fraction(rate).limit_denominator(_FINEST)


def offset(pace: Fraction, number: int) -> int:
    """The first whole millisecond after the start at which a number is due, at most `NEVER`."""
    # With whole numbers: this is called for every group of events, and reducing fractions takes time.
    return min(NEVER, -(-number * 1000 * pace.denominator // pace.numerator))


def offsets(pace: Fraction, first: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The offsets of `count` numbers from `first` on."""
    # The large part is computed once with unbounded integers; the rest fits into 64 bits.
    whole, left = divmod(first * 1000 * pace.denominator, pace.numerator)
    steps = left + np.arange(count, dtype=np.int64) * (1000 * pace.denominator)
    return np.minimum(min(NEVER, whole) - (-steps // pace.numerator), NEVER)


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; give a number between {least:g} and {most:g}")
