"""The events that enter a batch: the portion of one shard, from streams and, once more, from dead letters.

A `Portion` says which of a batch's events one shard takes, and which key groups of the states are its own.

A spool keeps events as they were declared when they came. A source's schema may be another one by then, or one job may
read by the schema before and another by the one after. Such events are read again, as if they came now.

What is fed from dead letters comes after the events that arrived. Its JSON is turned back into events of the port at
which they were parked. JSON cannot express all values, so these come back as near as possible: NaN is null, and a
timestamp has at most microseconds. What cannot be taken is parked again.
"""

import base64
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa

from bridge.output_messages import event_texts
from bridge.raw_events import REST_COLUMN, arrow_schema, json_columns, rows_in
from dags import Schema
from dags.dataflow import GROUPS, DividedBy
from engine.event_streams import EventStream, Numbers, conformed, nothing
from engine.implementations.values import keyed
from engine.kernel.task_run import reason_of
from engine.offset import Offset
from engine.plan import UNDIVIDED, Division, Entry, Feed, StreamDivision
from engine.records.record import Dead
from engine.records.state import NUMBERS, Staged, packed_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """One shard of a batch."""

    division: Division
    shard: int = 0

    @property
    def is_all(self) -> bool:
        """Whether the batch has one shard."""
        return self.division.shards == 1

    @property
    def is_first(self) -> bool:
        """Whether it is the shard that does what is done once in a batch."""
        return self.shard == 0

    def owns(self, instance: int, group: int) -> bool:
        """Whether a key group of an instance's state is its own. What is known to all shards is."""
        return self.is_all or group == NUMBERS or self.division.owner(instance, group) == self.shard

    def strays(self, instance: int, staged: Staged) -> bool:
        """Whether a task with a divided state has changed a key group that is another shard's."""
        if instance not in self.division.keyed:
            return False
        return not all(self.owns(instance, group) for group in staged.changed_groups())

    def range(self, stream: str, start: Offset, end: Offset, *, whole: bool = False) -> tuple[int, int]:
        """The positions between which its events of a stream are; all of the batch's if the `whole` stream is read."""
        first, last = start.at.get(stream, 0), end.at.get(stream, 0)
        divided = self._of(stream)
        if self.is_all or divided.by is DividedBy.KEY or (whole and divided.by is DividedBy.POSITION):
            return first, last
        if divided.by is DividedBy.NOTHING:
            return (first, last) if self.shard == divided.shard else (last, last)
        shards, length = self.division.shards, last - first
        return first + length * self.shard // shards, first + length * (self.shard + 1) // shards

    def parks(self, stream: str) -> bool:
        """Whether it parks the events of a stream that cannot be read."""
        return self.shard == self._of(stream).shard

    def parks_at(self, stream: str, position: int, start: Offset, end: Offset) -> bool:
        """Whether it parks an event that cannot be read at a position of a batch."""
        if self._of(stream).by is not DividedBy.POSITION:
            return self.parks(stream)
        low, high = self.range(stream, start, end)
        return low <= position < high

    def taken(  # noqa: PLR0913, PLR0917 - events and their place in a batch, and what counts them
        self,
        stream: str,
        positions: Numbers,
        rows: pa.RecordBatch,
        start: Offset,
        end: Offset,
        grouped: Counter[int],
    ) -> Numbers:
        """The indexes of its events among some of a stream at ascending positions.

        Those that are divided by key are counted by their key groups.
        """
        divided = self._of(stream)
        if divided.by is DividedBy.NOTHING:
            return np.arange(len(rows) if self.shard == divided.shard else 0)
        if divided.by is DividedBy.POSITION:
            low, high = self.range(stream, start, end)
            return np.arange(*np.searchsorted(positions, [low, high]))
        groups = groups_of(rows, divided.key)
        own = np.flatnonzero(np.array(self.division.groups)[groups] == self.shard)
        counts = np.bincount(groups[own])
        grouped.update({int(group): int(counts[group]) for group in np.flatnonzero(counts)})
        return own

    def taken_fed(self, streams: frozenset[str], rows: pa.RecordBatch) -> Numbers:
        """The indexes of its events among some that are fed again to a task in the part of some streams."""
        divided = self._of(min(streams, default=""))
        if divided.by is DividedBy.KEY and set(divided.key) <= set(rows.schema.names):
            return np.flatnonzero(np.array(self.division.groups)[groups_of(rows, divided.key)] == self.shard)
        return np.arange(len(rows) if self.shard == divided.shard else 0)

    def _of(self, stream: str) -> StreamDivision:
        return self.division.streams.get(stream, _FIRST)


_FIRST = StreamDivision(by=DividedBy.NOTHING)
EVERYTHING = Portion(division=UNDIVIDED)
"""The portion of the one task of an undivided batch."""


def groups_of(rows: pa.RecordBatch, key: tuple[str, ...]) -> Numbers:
    """The key group of each event. A missing field counts as null."""
    missing = [name for name in key if name not in rows.schema.names]
    for name in missing:
        rows = rows.append_column(name, pa.nulls(len(rows)))
    sorted_rows = keyed(rows, key)
    of_key = np.array([crc32(packed_key(key_values)) % GROUPS for key_values in sorted_rows.keys], np.int64)
    groups = np.empty(len(rows), np.int64)
    groups[sorted_rows.order] = np.repeat(of_key, np.diff(sorted_rows.bounds))
    return groups


class UnfitRows(NamedTuple):
    """Events that do not fit."""

    at: int
    """The index of the first."""
    reason: str
    events: pa.RecordBatch


class EnteringEvents(NamedTuple):
    """Those of some events that fit, and the others."""

    rows: pa.RecordBatch
    kept: Numbers
    """The index of each row among all events."""
    unfit: tuple[UnfitRows, ...] = ()


def entering(batch: pa.RecordBatch, schema: Schema) -> EnteringEvents:
    """The events of a batch with the columns of a schema.

    >>> from dags import Kind
    >>> was = pa.record_batch({"t": [1.5, 2.5], "_rest": ['{"unit":"C"}', '{"unit":5}']})
    >>> now = entering(was, Schema.of(unit=Kind.STRING))
    >>> now.rows.to_pylist(), now.kept.tolist(), [unfit[:2] for unfit in now.unfit]
    ([{'unit': 'C', '_rest': '{"t":1.5}'}], [0], [(1, "the field 'unit' should be of kind string")])
    """
    wanted = arrow_schema(schema)
    if batch.schema.equals(wanted):
        return EnteringEvents(conformed(batch, wanted), np.arange(len(batch)))
    unfit: dict[int, str] = {}

    def note(place: int, error: ValueError) -> None:
        unfit.setdefault(place, str(error))

    rows = rows_in(map(json.loads, event_texts(batch)), schema, on_unfit=note)
    others = (UnfitRows(at, reason, batch.slice(at, 1)) for at, reason in sorted(unfit.items()))
    return EnteringEvents(conformed(rows, wanted), _others(len(batch), unfit), tuple(others))


def from_bridge(batch: pa.RecordBatch, schema: pa.Schema) -> EnteringEvents:
    """The events of a batch from another job with the columns of its stream: all of them, or none."""
    try:
        return EnteringEvents(conformed(batch, schema), np.arange(len(batch)))
    except pa.ArrowException as error:
        return EnteringEvents(nothing(schema), np.empty(0, np.int64), (UnfitRows(0, reason_of(error), batch),))


def _others(count: int, unfit: Collection[int]) -> Numbers:
    """The indexes of those of so many events that fit."""
    return np.array([at for at in range(count) if at not in unfit], np.int64)


_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


def new_feeds(entries: Iterable[Entry], before: Entry | None) -> tuple[Feed, ...]:
    """The feeds of entries that are not in the entry before them, each once."""
    known = {feed.id for feed in before.plan.feeds} if before is not None else set()
    return tuple({feed.id: feed for entry in entries for feed in entry.plan.feeds if feed.id not in known}.values())


def fitting(events: Sequence[Any], schema: pa.Schema) -> EnteringEvents:
    """Convert events of a dead letter to the fields of a port.

    >>> fitting([{"t": 1}, {"t": "warm"}], pa.schema({"t": pa.float64()})).kept.tolist()
    [0]
    """
    try:
        return EnteringEvents(_rows(events, schema), np.arange(len(events)))
    except _UNFIT:
        # Few letters have such events, and only these are checked one by one.
        unfit = {at: why for at, event in enumerate(events) if (why := _why_unfit(event, schema)) is not None}
    kept = _others(len(events), unfit)
    rows = _rows([events[at] for at in kept], schema)
    return EnteringEvents(
        rows, kept, tuple(UnfitRows(at, why, unshaped_rows([events[at]])) for at, why in unfit.items())
    )


def unshaped_rows(events: Sequence[Any]) -> pa.RecordBatch:
    """Rows of events that fit no port, from which a new dead letter gets the same events."""
    return pa.record_batch({REST_COLUMN: pa.array([_json(event) for event in events], pa.string())})


def _why_unfit(event: Any, schema: pa.Schema) -> str | None:
    try:
        _rows([event], schema)
    except _UNFIT as error:
        return f"the event cannot be fed again: {error}"
    return None


def _rows(events: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    if any(not isinstance(event, dict) for event in events):
        raise ValueError("it is not a JSON object")
    if not len(schema):
        # Without fields, only this keeps the number of events.
        return pa.record_batch({"_": pa.nulls(len(events))}).select([])
    declared = frozenset(schema.names) - {REST_COLUMN}
    nested = json_columns(schema)
    columns = [
        pa.array([_rest(event, declared) for event in events], field.type)
        if field.name == REST_COLUMN
        else _column(field, [_json_text(event.get(field.name)) for event in events])
        if field.name in nested
        else _column(field, [event.get(field.name) for event in events])
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def _column(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    kind = field.type
    try:
        if pa.types.is_timestamp(kind):
            return pa.array([_moment(value) for value in values], pa.timestamp("us", tz="UTC")).cast(kind)
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return pa.array([None if value is None else base64.b64decode(value) for value in values], kind)
        if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
            return pa.array(values, pa.string()).cast(kind)
        return pa.array(values, kind)
    except _UNFIT as error:
        raise ValueError(f"its field {field.name!r} should be {kind}") from error


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _rest(event: Mapping[str, Any], declared: frozenset[str]) -> str | None:
    rest = {name: value for name, value in event.items() if name not in declared}
    if rest.keys() == {REST_COLUMN}:
        # It was not an object, and is kept as it was.
        return rest[REST_COLUMN] if isinstance(rest[REST_COLUMN], str) else _json(rest[REST_COLUMN])
    return _json(rest) if rest else None


def _json_text(value: Any) -> str | None:
    return None if value is None else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class _Fed(NamedTuple):
    """The events of one feed."""

    cause: int
    """The cause of the first event."""
    feed: Feed
    events: list[Any]


class FedEvents:
    """What is fed in one batch; made by the kernel. Events that cannot be taken are parked again."""

    def __init__(self, feeds: Sequence[Feed], cause: int, portion: Portion, dead: list[Dead]) -> None:
        """Causes begin with `cause`. Parked events are added to `dead`."""
        self._portion = portion
        self._dead = dead
        self._fed: list[_Fed] = []
        for feed in feeds:
            events = json.loads(feed.events)
            self._fed.append(_Fed(cause, feed, events))
            cause += len(events)

    def places(self) -> Iterator[tuple[int, str, int]]:
        """The cause, stream and position of the first event of each feed."""
        yield from ((fed.cause, f"feed/{fed.feed.id}", 0) for fed in self._fed)

    def park_others(self, running: Collection[int]) -> None:
        """Park the events of instances that do not run."""
        for fed in self._fed:
            if fed.feed.instance not in running and self._portion.is_first:
                self._park(fed.feed, unshaped_rows(fed.events), "its task no longer runs")

    def taken(
        self, instance: int, takes: Mapping[str, pa.Schema], streams: frozenset[str]
    ) -> dict[str, list[EventStream]]:
        """The events for an instance in the part of some streams, at each of its ports."""
        streams_at: dict[str, list[EventStream]] = {}
        if not self._fed:
            return streams_at
        for cause, feed, events in (fed for fed in self._fed if fed.feed.instance == instance):
            parks = self._portion.parks(min(streams, default=""))
            if feed.port not in takes:
                if parks:
                    self._park(feed, unshaped_rows(events), f"no stream enters its task at port {feed.port!r}")
                continue
            fits = fitting(events, takes[feed.port])
            for unfit in fits.unfit if parks else ():
                self._park(feed, unfit.events, unfit.reason)
            whole = EventStream(fits.rows, fits.kept + cause)
            own = whole if self._portion.is_all else whole.take(self._portion.taken_fed(streams, fits.rows))
            streams_at.setdefault(feed.port, []).append(own)
        return streams_at

    def _park(self, feed: Feed, events: pa.RecordBatch, reason: str) -> None:
        self._dead.append(Dead(instance=feed.instance, port=feed.port, reason=reason, events=events))
