"""The feed of dead letters: turns their JSON events back into events of the port at which they were parked.

JSON cannot express all values, so these come back as near as possible: NaN is null, and a timestamp has at most
microseconds.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from bridge.raw_events import REST_COLUMN, json_columns
from engine.plan import Entry, Feed

_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)


class UnfitEvent(NamedTuple):
    """An event that does not fit the fields of a port."""

    at: int
    reason: str


class Fitting(NamedTuple):
    """The events that fit a port, and those that do not."""

    rows: pa.RecordBatch
    kept: tuple[int, ...]
    """The index of each row among all events."""
    unfit: tuple[UnfitEvent, ...]


def new_feeds(entries: Iterable[Entry], before: Entry | None) -> tuple[Feed, ...]:
    """The feeds of entries that are not in the entry before them, each once."""
    known = {each.id for each in before.plan.feeds} if before is not None else set()
    found = {each.id: each for entry in entries for each in entry.plan.feeds if each.id not in known}
    return tuple(found.values())


def fitting(events: Sequence[Any], schema: pa.Schema) -> Fitting:
    """Convert events of a dead letter to the fields of a port.

    >>> fitting([{"t": 1}, {"t": "warm"}], pa.schema({"t": pa.float64()})).kept
    (0,)
    """
    try:
        return Fitting(_rows(events, schema), tuple(range(len(events))), ())
    except _UNFIT:
        # Few letters have such events, and only these are checked one by one.
        unfit = {at: why for at, event in enumerate(events) if (why := _why_unfit(event, schema)) is not None}
    kept = tuple(at for at in range(len(events)) if at not in unfit)
    rows = _rows([events[at] for at in kept], schema)
    return Fitting(rows, kept, tuple(UnfitEvent(at, why) for at, why in unfit.items()))


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
