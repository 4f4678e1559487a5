"""Windows over the time of events.

Time is that of the latest event so far, of any key. A window closes when time exceeds its end by the allowed lateness.
An event whose window is closed is late.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.blocks import each_key
from engine.implementations.keys import Keyed, Numbers, keyed
from engine.implementations.values import TIMESTAMP_TYPE, Floating, floats, moments, restored
from engine.records.state import Staged
from engine.tasks.windows import TUMBLING_WINDOW, TumblingWindowConfig

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


class _Clock(NamedTuple):
    """The latest time, and the open windows with their numbers of keys."""

    latest: int | None
    windows: dict[int, int]


def _tumbling_window(config: TumblingWindowConfig) -> Behaviour:
    """Emits one event per window and key, ordered by window, then by the first event of the key.

    Nulls are not summarised, but their events advance time and open windows: a window of nulls has the count 0, the sum
    0 and no mean. A time that is null is refused. Late events leave at the port `late`. One event far in the future
    closes every window and makes the events after it late. Values are added in the order of events. The state is four
    numbers per open window and key. Windows are open for `size_ms` plus `lateness_ms` of event time.
    After a reconfiguration to more lateness, a window that was already emitted may be emitted again, for the events
    that were too late before.

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
    """Add events to their windows. A key that is new to a window gets a number."""
    values, present = read.values.tolist(), read.present.tolist()
    new: list[tuple[int, int, list[Any]]] = []
    for (start, *key), places in each_key(groups):
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
    for start, _, key in sorted(new, key=lambda each: each[:2]):
        number = windows.get(start, 0)
        windows[start] = number + 1
        state.put(("key", start, number), key)


def _closed(
    windows: dict[int, int], reached: Numbers, config: TumblingWindowConfig, state: Staged
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
