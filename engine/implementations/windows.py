"""Windows over the time that events tell.

How far time has come is told by the latest event so far, whatever its key. A window closes when that is so much later
than the window's end as lateness is allowed. An event whose window has closed before is late.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.blocks import each_key
from engine.implementations.keys import Keyed, Numbers, keyed
from engine.implementations.values import TIMESTAMP_TYPE, Floating, floats, moments, restored
from engine.records.staged_state import Staged
from engine.tasks.windows import TUMBLING_WINDOW, TumblingWindowConfig

_CLOCK = ("clock",)
"""In the state: the latest time, and for each open window its start and how many keys it has, in order."""
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
    """What is emitted for a window and a key."""

    at: int
    """The event that closes it."""
    start: int
    key: Sequence[Any]
    count: int  # type: ignore[assignment]  # nobody counts in it
    total: float
    least: float | None
    most: float | None


class _Clock(NamedTuple):
    """How far time has come, and what is open."""

    latest: int | None
    windows: dict[int, int]


def _tumbling_window(config: TumblingWindowConfig) -> Behaviour:
    """One event per window and key, in the order of windows, and within one in that in which its keys came first.

    A null neither counts nor weighs, but its event moves time, and opens the window for its key: a window of nulls
    only has the count 0, the sum 0 and no mean. A time that is null is refused. What is late passes on by the port
    `late`; one event that is far ahead of its time closes every window, and makes those behind it late. Values are
    added in the order of events. Of each open window and key four numbers are kept; windows are
    open for `size_ms` and `lateness_ms` of event time.

    >>> from datetime import UTC, datetime
    >>> from engine.trial import try_out
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
        latest, windows = _clock(state)
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
            "out": PortEmission(rows, np.array([each.at for each in closed], np.int64)),
            "late": PortEmission(events.filter(pa.array(late)), np.flatnonzero(late)),
        }

    return behave


def _clock(state: Staged) -> _Clock:
    latest, windows = state.get(_CLOCK) or (None, ())
    return _Clock(latest, dict(windows))


def _fold(groups: Keyed, read: Floating, windows: dict[int, int], state: Staged) -> None:
    """Add events to their windows; a key that is new to one is numbered."""
    told, there = read.values.tolist(), read.present.tolist()
    new: list[tuple[int, int, list[Any]]] = []
    for (start, *key), places in each_key(groups):
        name = ("sum", start, *key)
        kept = state.get(name)
        if kept is None:
            new.append((start, places[0], key))
        count, total, least, most = kept or (0, 0.0, None, None)
        for place in places:
            if there[place]:
                value = told[place]
                count += 1
                total += value
                least = value if least is None or value < least else least
                most = value if most is None or value > most else most
        state.put(name, [count, total, least, most])
    for start, _, key in sorted(new, key=lambda each: each[:2]):
        number = windows.get(start, 0)
        windows[start] = number + 1
        state.put(("key", start, number), key)


def _closed(
    windows: dict[int, int], reached: Numbers, config: TumblingWindowConfig, state: Staged
) -> Iterator[_Closed]:
    """What the events close, taken out of the windows and the state."""
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
    summed: list[list[Any]] = [
        [each.start for each in closed],
        [each.start + size for each in closed],
        [each.count for each in closed],
        [each.total for each in closed],
        [each.total / each.count if each.count else None for each in closed],
        [each.least for each in closed],
        [each.most for each in closed],
    ]
    columns = {field.name: restored(values, field.type) for field, values in zip(_SUMMED, summed, strict=True)}
    keys = {name: restored([each.key[at] for each in closed], schema.field(name).type) for at, name in enumerate(by)}
    return pa.record_batch(keys | columns)


tumbling_window = Implementation(type=TUMBLING_WINDOW, make=_tumbling_window)
"""Sums of what happened in a while."""
