"""Tasks over the time of events: windows, and joins, which combine several events into one.

Time is that of the latest event so far, of any key or id. A window closes when time exceeds its end by the allowed
lateness. An event whose window is closed is late.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.values import (
    TIMESTAMP_TYPE,
    Floating,
    Keyed,
    Numbers,
    check_finite,
    check_present,
    events_by_key,
    floats,
    keyed,
    moments,
    one_port,
    plain,
    restored,
)
from engine.records.state import Staged
from engine.tasks import windows as described

_CLOCK = ("clock",)
"""The state's key for the latest time, and for the start and number of keys of each open window, in order."""
_START = "window_start"
_SUMMED = pa.schema(
    {
        _START: TIMESTAMP_TYPE,
        "window_end": TIMESTAMP_TYPE,
        "count": pa.int64(),
        "sum": pa.float64(),
        "mean": pa.float64(),
        "min": pa.float64(),
        "max": pa.float64(),
    }
)


class _Closed(NamedTuple):
    """The result of a window for a key."""

    at: int
    """The event that closes it."""
    start: int
    key: Sequence[Any]
    count: int  # type: ignore[assignment]  # hides the tuple's method, which is not used
    total: float
    least: float | None
    most: float | None


def _tumbling_window(config: described.TumblingWindowConfig) -> Behaviour:
    """Emits one event per window and key, ordered by window, then by the first event of the key.

    Nulls are not summarised, but their events advance time and open windows: a window of nulls has the count 0, the sum
    0 and no mean. A time that is null is refused. Late events leave at the port `late`. One event far in the future
    closes every window and makes the events after it late. Values are added in the order of events. The state is four
    numbers per open window and key. Windows are open for `size_ms` plus `lateness_ms` of event time.
    After a reconfiguration to more lateness, a window that was already emitted may be emitted again, for the events
    that were too late before.

    >>> from datetime import UTC, datetime
    >>> noon = datetime(2026, 5, 4, 12, tzinfo=UTC)
    >>> rows = [{"at": noon, "t": 20.0}, {"at": noon, "t": 22.0}, {"at": noon.replace(minute=1), "t": 9.0}]
    >>> (window,) = try_out("tumbling_window", {"time": "at", "field": "t"}, rows)["out"]
    >>> window["window_end"].isoformat(), window["count"], window["mean"]
    ('2026-05-04T12:01:00+00:00', 2, 21.0)
    """
    by = tuple(dict.fromkeys(config.by))

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        times = moments(events, config.time)
        read = floats(events, config.field)
        latest, open_windows = state.get(_CLOCK) or (None, ())
        windows: dict[int, int] = dict(open_windows)
        reached = np.maximum.accumulate(times) if latest is None else np.maximum(np.maximum.accumulate(times), latest)
        starts = times - times % config.size_ms
        closing = starts + config.size_ms + config.lateness_ms
        late = closing <= reached
        timely = np.flatnonzero(~late)
        keys = pa.record_batch({_START: pa.array(starts)} | {name: events.column(name) for name in by})
        groups = keyed(keys.take(pa.array(timely)), (_START, *by))
        _fold(groups, Floating(read.values[timely], read.present[timely]), windows, state)
        closed = list(_closed(windows, reached, config, state))
        if len(times):
            state.put(_CLOCK, [int(reached[-1]), sorted(windows.items())])
        rows = _rows(closed, by, events.schema, config.size_ms)
        return {
            "out": PortEmission(rows, np.array([window.at for window in closed], np.int64)),
            "late": PortEmission(events.filter(pa.array(late)), np.flatnonzero(late)),
        }

    return behave


def _fold(groups: Keyed, read: Floating, windows: dict[int, int], state: Staged) -> None:
    """Add events to their windows. A key that is new to a window gets a number."""
    values, present = read.values.tolist(), read.present.tolist()
    new: list[tuple[int, int, list[Any]]] = []
    for (start, *key), places in events_by_key(groups):
        name = ("sum", start, *key)
        kept = state.get(name)
        if kept is None:
            new.append((start, places[0], key))
        count, total, least, most = kept or (0, 0.0, None, None)
        for place in places:
            if present[place]:
                value = values[place]
                count += 1
                total += value
                least = value if least is None or value < least else least
                most = value if most is None or value > most else most
        state.put(name, [count, total, least, most])
    for start, _, key in sorted(new, key=lambda start_and_place: start_and_place[:2]):
        number = windows.get(start, 0)
        windows[start] = number + 1
        state.put(("key", start, number), key)


def _closed(
    windows: dict[int, int], reached: Numbers, config: described.TumblingWindowConfig, state: Staged
) -> Iterator[_Closed]:
    """Close windows, and remove them from the state."""
    for start in sorted(windows):
        at = int(np.searchsorted(reached, start + config.size_ms + config.lateness_ms))
        if at == len(reached):
            return
        for number in range(windows.pop(start)):
            key = state.get(("key", start, number))
            yield _Closed(at, start, key, *state.get(("sum", start, *key)))
            state.delete(("key", start, number))
            state.delete(("sum", start, *key))


def _rows(closed: Sequence[_Closed], by: tuple[str, ...], schema: pa.Schema, size: int) -> pa.RecordBatch:
    summed = [
        (start, start + size, count, total, total / count if count else None, least, most)
        for _, start, _, count, total, least, most in closed
    ]
    columns = {field.name: restored([row[at] for row in summed], field.type) for at, field in enumerate(_SUMMED)}
    keys = {
        name: restored([window.key[at] for window in closed], schema.field(name).type) for at, name in enumerate(by)
    }
    return pa.record_batch(keys | columns)


tumbling_window = Implementation(type=described.TUMBLING_WINDOW, make=_tumbling_window)


_QUEUE_CLOCK = ("clock",)
"""The state's key for the latest time, the queue's first place and its end, and the number of ids that wait."""
_FLOOR = ("floor",)
"""The state's key for the latest time of an id that was forgotten."""
_Config: TypeAlias = described.JoinByIdConfig | described.SelfJoinConfig


class _Joined(NamedTuple):
    """The joined event of an id."""

    at: int
    """The index of the event at which it is emitted."""
    values: Sequence[Any]


class _Merging(NamedTuple):
    """The values that events add to the joined one."""

    schema: pa.Schema
    """The schema of joined events."""
    rows: Sequence[Sequence[Any]]
    """The values of each event for the first fields of the schema."""
    places: Sequence[int]
    """The index of the field that each event is a measurement of; empty if events are not measurements."""
    values: Sequence[Any]


def _join_by_id(config: described.JoinByIdConfig) -> Behaviour:
    """Emits the merged event at the event that completes it.

    Time is that of the latest event so far. An id expires when time has advanced by `expiry_ms` since its first event
    arrived, or when too many ids wait. Its incomplete event leaves at the port `expired`, and later events of the id
    start again. An id or time that is null is refused, and so is a measurement that is not observed. The state is the
    merged events of the waiting ids, at most `most_waiting`.

    >>> from datetime import UTC, datetime
    >>> at = {"id": "m7", "time": datetime(2026, 5, 4, tzinfo=UTC)}
    >>> rows = [at | {"field": "dust", "value": 200.5}, at | {"field": "light", "value": 1500.0}]
    >>> (joined,) = try_out("join_by_id", {"by": ["id"], "expected": 2, "observed": ["dust", "light"]}, rows)["out"]
    >>> joined["id"], joined["dust"], joined["light"]
    ('m7', 200.5, 1500.0)
    """

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        ids, times, merging = _arrived(events, config)
        waiting = _Waiting(config, state, config.most_waiting)
        whole: list[_Joined] = []
        expired: list[_Joined] = []
        for at, (id_, moment) in enumerate(zip(ids, times, strict=True)):
            expired += [_Joined(at, values) for values in (*waiting.expired(moment), *waiting.crowded_out(id_))]
            values = waiting.merged(id_, at, merging)
            if values is not None:
                whole.append(_Joined(at, values))
        if ids:
            waiting.keep()
        return {"out": _emission(whole, merging.schema), "expired": _emission(expired, merging.schema)}

    return behave


def _self_join(config: described.SelfJoinConfig, events: pa.RecordBatch, state: Staged) -> PortEmission:
    """Emits the merged event at the event that completes it, and drops what comes later of the same id and time.

    Time is that of the latest event so far. An id and time is forgotten when time has advanced by `expiry_ms` since its
    first event arrived, or when too many are remembered. From then on no event of this time or an earlier one is taken
    whose id and time is not remembered, so that nothing is emitted twice; it is dropped. An id or time that is null is
    refused, and so is a measurement that is not observed. The state is the merged events that are incomplete, and the
    ids and times of the others, at most `most_known` together.

    >>> from datetime import UTC, datetime
    >>> at = {"id": "m7", "time": datetime(2026, 5, 4, tzinfo=UTC)}
    >>> rows = [at | {"dust": 200.5, "light": None}, at | {"dust": None, "light": 1500.0}]
    >>> (joined,) = try_out("self_join", {"by": ["id"], "expected": 2}, [*rows, *rows])["out"]
    >>> joined["id"], joined["dust"], joined["light"]
    ('m7', 200.5, 1500.0)
    """
    ids, times, merging = _arrived(events, config)
    known = _Known(config, state, config.most_known)
    whole: list[_Joined] = []
    for at, (id_, moment) in enumerate(zip(ids, times, strict=True)):
        known.expired(moment)
        if known.is_late((*id_, moment)):
            continue
        known.crowded_out((*id_, moment))
        values = known.merged((*id_, moment), at, merging)
        if values is not None:
            whole.append(_Joined(at, values))
    if ids:
        known.keep()
    return _emission(whole, merging.schema)


def _arrived(events: pa.RecordBatch, config: _Config) -> tuple[list[tuple[Any, ...]], list[int], _Merging]:
    """The ids and times of the events of a batch, and what they add."""
    for name in config.by:
        check_present(events, name)
    for name in events.schema.names:
        check_finite(events, name)
    times = moments(events, config.time).tolist()
    ids = list(zip(*(plain(events.column(name)) for name in config.by), strict=True))
    return ids, times, _merging(events, config)


_Join = TypeVar("_Join", described.JoinByIdConfig, described.SelfJoinConfig)


def _postponed(old: _Join, new: _Join, key: tuple[Any, ...], value: list[Any]) -> list[Any]:
    """The state for another time to wait: each id in the queue expires earlier or later."""
    if key[0] != "queue":
        return value
    expires, *id_ = value
    return [expires + new.expiry_ms - old.expiry_ms, *id_]


class _Waiting:
    """The ids that wait, in the order of their first events; made for one batch.

    Under ("id", ...) the state has the id's place in the queue, the number of its events so far, and their values;
    under ("queue", place) the time at which the id expires, and the id.
    """

    def __init__(self, config: _Config, state: Staged, most: int) -> None:
        self._config = config
        self._state = state
        self._most = most
        clock: tuple[int | None, int, int, int] = state.get(_QUEUE_CLOCK) or (None, 0, 0, 0)
        self._latest, self._first, self._end, self._count = clock

    def expired(self, moment: int) -> list[Sequence[Any]]:
        """The ids that expire because of the time of an event."""
        latest = self._latest = moment if self._latest is None else max(self._latest, moment)
        popped = []
        while (head := self._head()) is not None and head[0] <= latest:
            popped.append(self._pop(head))
        return popped

    def crowded_out(self, id_: tuple[Any, ...]) -> list[Sequence[Any]]:
        """The ids that expire because that of an event needs room."""
        popped: list[Sequence[Any]] = []
        if self._count >= self._most and self._state.get(("id", *id_)) is None:
            while self._count >= self._most and (head := self._head()) is not None:
                popped.append(self._pop(head))
        return popped

    def merged(self, id_: tuple[Any, ...], at: int, merging: _Merging) -> Sequence[Any] | None:
        """Add an event; returns the values of its id if they are complete, else None."""
        record = self._state.get(("id", *id_))
        if record is None:
            record = [self._end, 0, [None] * len(merging.schema)]
            self._state.put(("queue", self._end), [(self._latest or 0) + self._config.expiry_ms, *id_])
            self._end += 1
            self._count += 1
        place, came, values = record
        for column, value in enumerate(merging.rows[at]):
            if values[column] is None:
                values[column] = value
        if merging.places and values[merging.places[at]] is None:
            values[merging.places[at]] = merging.values[at]
        if came + 1 < self._config.expected:
            self._state.put(("id", *id_), [place, came + 1, values])
            return None
        self._complete(place, id_)
        return list(values)

    def keep(self) -> None:
        """Save the clock and the queue's bounds to the state."""
        self._state.put(_QUEUE_CLOCK, [self._latest, self._first, self._end, self._count])

    def _head(self) -> list[Any] | None:
        """The first in the queue: the time at which it expires, and its id."""
        while self._first < self._end:
            head: list[Any] | None = self._state.get(("queue", self._first))
            if head is not None:
                return head
            self._first += 1
        return None

    def _pop(self, head: list[Any]) -> Sequence[Any]:
        id_ = tuple(head[1:])
        place, _, values = self._state.get(("id", *id_))
        self._forget(place, id_)
        return list(values)

    def _complete(self, place: int, id_: tuple[Any, ...]) -> None:
        self._forget(place, id_)

    def _forget(self, place: int, id_: tuple[Any, ...]) -> None:
        self._state.delete(("id", *id_))
        self._state.delete(("queue", place))
        self._count -= 1


class _Known(_Waiting):
    """The ids that are remembered, each with its time at the end, complete or not.

    None in place of its values says that an id is complete. All that were forgotten have a time up to the floor.
    """

    def __init__(self, config: described.SelfJoinConfig, state: Staged, most: int) -> None:
        super().__init__(config, state, most)
        self._floor: int | None = state.get(_FLOOR)

    def is_late(self, id_: tuple[Any, ...]) -> bool:
        """Whether an id that is not remembered may have been forgotten."""
        return self._floor is not None and id_[-1] <= self._floor and self._state.get(("id", *id_)) is None

    def merged(self, id_: tuple[Any, ...], at: int, merging: _Merging) -> Sequence[Any] | None:
        record = self._state.get(("id", *id_))
        if record is not None and record[2] is None:
            return None
        return super().merged(id_, at, merging)

    def keep(self) -> None:
        super().keep()
        self._state.put(_FLOOR, self._floor)

    def _complete(self, place: int, id_: tuple[Any, ...]) -> None:
        self._state.put(("id", *id_), [place, self._config.expected, None])

    def _pop(self, head: list[Any]) -> Sequence[Any]:
        _, *id_ = head
        self._floor = id_[-1] if self._floor is None else max(self._floor, id_[-1])
        self._forget(self._first, tuple(id_))
        return ()


def _merging(events: pa.RecordBatch, config: _Config) -> _Merging:
    observed = config.observed
    apart = {config.field, config.value, *observed} if observed else set()
    carried = [field for field in events.schema if field.name not in apart]
    columns = [plain(events.column(field.name)) for field in carried]
    rows = list(zip(*columns, strict=True))
    if not observed:
        return _Merging(pa.schema(carried), rows, (), ())
    value = events.column(config.value)
    known = {name: len(carried) + at for at, name in enumerate(dict.fromkeys(observed))}
    names = events.column(config.field).to_pylist()
    if unknown := [name for name in names if name not in known]:
        message = f"the field {config.field!r} is {unknown[0]!r}, which is not an observed measurement"
        raise ValueError(f"{message}; filter it out, or add it to 'observed'")
    schema = pa.schema([*carried, *(pa.field(name, value.type) for name in known)])
    return _Merging(schema, rows, [known[name] for name in names], plain(value))


def _emission(joined: Sequence[_Joined], schema: pa.Schema) -> PortEmission:
    columns = [restored([event.values[at] for event in joined], field.type) for at, field in enumerate(schema)]
    return PortEmission(
        pa.record_batch(columns, schema=schema.remove_metadata()), np.array([event.at for event in joined], np.int64)
    )


join_by_id = Implementation(type=described.JOIN_BY_ID, make=_join_by_id, transform=_postponed)
self_join = Implementation(type=described.SELF_JOIN, make=one_port(_self_join), transform=_postponed)
