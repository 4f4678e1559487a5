"""Joins: tasks that combine several events into one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.values import check_finite, check_present, moments, plain, restored
from engine.records.state import Staged
from engine.tasks.join import JOIN_BY_ID, SELF_JOIN, JoinByIdConfig, SelfJoinConfig

_CLOCK = ("clock",)
"""The state's key for the latest time, the queue's first place and its end, and the number of ids that wait."""
_FLOOR = ("floor",)
"""The state's key for the latest time of an id that was forgotten."""


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


class _Arrived(NamedTuple):
    """The events of a batch."""

    ids: Sequence[tuple[Any, ...]]
    times: Sequence[int]
    merging: _Merging


def _join_by_id(config: JoinByIdConfig) -> Behaviour:
    """Emits the merged event at the event that completes it.

    Time is that of the latest event so far. An id expires when time has advanced by `expiry_ms` since its first event
    arrived, or when too many ids wait. Its incomplete event leaves at the port `expired`, and later events of the id
    start again. An id or time that is null is refused, and so is a measurement that is not observed. The state is the
    merged events of the waiting ids, at most `most_waiting`.

    >>> from datetime import UTC, datetime
    >>> from engine.trial import try_out
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


def _self_join(config: SelfJoinConfig) -> Behaviour:
    """Emits the merged event at the event that completes it, and drops what comes later of the same id and time.

    Time is that of the latest event so far. An id and time is forgotten when time has advanced by `expiry_ms` since its
    first event arrived, or when too many are remembered. From then on no event of this time or an earlier one is taken
    whose id and time is not remembered, so that nothing is emitted twice; it is dropped. An id or time that is null is
    refused, and so is a measurement that is not observed. The state is the merged events that are incomplete, and the
    ids and times of the others, at most `most_known` together.

    >>> from datetime import UTC, datetime
    >>> from engine.trial import try_out
    >>> at = {"id": "m7", "time": datetime(2026, 5, 4, tzinfo=UTC)}
    >>> rows = [at | {"dust": 200.5, "light": None}, at | {"dust": None, "light": 1500.0}]
    >>> (joined,) = try_out("self_join", {"by": ["id"], "expected": 2}, [*rows, *rows])["out"]
    >>> joined["id"], joined["dust"], joined["light"]
    ('m7', 200.5, 1500.0)
    """

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
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
        return {"out": _emission(whole, merging.schema)}

    return behave


def _arrived(events: pa.RecordBatch, config: JoinByIdConfig | SelfJoinConfig) -> _Arrived:
    for name in config.by:
        check_present(events, name)
    for name in events.schema.names:
        check_finite(events, name)
    times = moments(events, config.time).tolist()
    ids = list(zip(*(plain(events.column(name)) for name in config.by), strict=True))
    return _Arrived(ids, times, _merging(events, config))


_Join = TypeVar("_Join", JoinByIdConfig, SelfJoinConfig)


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

    def __init__(self, config: JoinByIdConfig | SelfJoinConfig, state: Staged, most: int) -> None:
        """At most `most` ids wait."""
        self._config = config
        self._state = state
        self._most = most
        clock: tuple[int | None, int, int, int] = state.get(_CLOCK) or (None, 0, 0, 0)
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
        self._state.put(_CLOCK, [self._latest, self._first, self._end, self._count])

    def _head(self) -> list[Any] | None:
        """The first in the queue: the time at which it expires, and its id."""
        while self._first < self._end:
            found: list[Any] | None = self._state.get(("queue", self._first))
            if found is not None:
                return found
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

    def __init__(self, config: SelfJoinConfig, state: Staged, most: int) -> None:
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


def _merging(events: pa.RecordBatch, config: JoinByIdConfig | SelfJoinConfig) -> _Merging:
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
    columns = [restored([each.values[at] for each in joined], field.type) for at, field in enumerate(schema)]
    return PortEmission(
        pa.record_batch(columns, schema=schema.remove_metadata()), np.array([each.at for each in joined], np.int64)
    )


join_by_id = Implementation(type=JOIN_BY_ID, make=_join_by_id, transform=_postponed)
self_join = Implementation(type=SELF_JOIN, make=_self_join, transform=_postponed)
