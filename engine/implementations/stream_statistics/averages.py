"""Folds over the values of a key, one after the other in the order of events.

So the last digit does not depend on the boundaries of batches. `sum` may round in another way, and is not used.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.blocks import blocks, each_key
from engine.implementations.keys import Numbers, keyed
from engine.implementations.values import Floats, check_finite, floats, nullable, plain, replaced
from engine.records.state import Staged
from engine.tasks.stream_statistics import (
    ACCUMULATE,
    BLOCK_WINDOW_AVERAGE,
    INTERPOLATE,
    KALMAN_FILTER,
    AccumulateConfig,
    BlockWindowAverageConfig,
    InterpolateConfig,
    KalmanFilterConfig,
)


def _block_window_average(config: BlockWindowAverageConfig) -> Behaviour:
    """Emits the mean at the event that completes a block.

    Integers are added as floats. The state is a count and a sum per key.

    >>> from engine.trial import try_out
    >>> rows = [{"t": 20.0}, {"t": None}, {"t": 21.0}, {"t": 5.0}]
    >>> try_out("block_window_average", {"field": "t", "window": 2}, rows)
    {'out': [{'t': 20.5}]}
    """
    by = tuple(dict.fromkeys(config.by))

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        values, there = floats(events, config.field)
        present = np.flatnonzero(there)
        known = events if len(present) == events.num_rows else events.take(pa.array(present))
        ends, means = _means(known, values[present], by, config.window, state)
        sorting = np.argsort(ends)
        ends = ends[sorting]
        at = pa.array(ends)
        columns = {field: known.column(field).take(at) for field in by} | {config.field: pa.array(means[sorting])}
        return {"out": PortEmission(pa.record_batch(columns), present[ends])}

    return behave


def _means(
    events: pa.RecordBatch, numbers: Floats, by: tuple[str, ...], window: int, state: Staged
) -> tuple[Numbers, Floats]:
    """The indexes of the events that complete a block, and the means, key by key."""
    groups = keyed(events, by)
    values = numbers[groups.order].tolist()
    ends: list[int] = []
    means: list[float] = []
    for key, begin, end in zip(groups.keys, groups.bounds[:-1].tolist(), groups.bounds[1:].tolist(), strict=True):
        size, total = before = state.get(key) or [0, 0.0]
        first = begin
        while first < end:
            # A block kept under a longer window may be complete already; the next event ends it.
            piece = values[first : min(end, first + max(window - size, 1))]
            for value in piece:
                total += value
            first += len(piece)
            size += len(piece)
            if size >= window:
                ends.append(first - 1)
                means.append(total / size)
                size, total = 0, 0.0
        if size:
            state.put(key, [size, total])
        elif before[0]:
            state.delete(key)
    return groups.order[np.array(ends, np.int64)], np.array(means, np.float64)


def _kalman_filter(config: KalmanFilterConfig) -> Behaviour:
    """Estimates a drifting value from a noisy sensor. The first estimate is 0.

    The state is the estimate and its variance, per key.

    >>> from engine.trial import try_out
    >>> out = try_out("kalman_filter", {"field": "t"}, [{"t": 10.0}, {"t": 12.0}, {"t": None}])["out"]
    >>> [each["t"] and round(each["t"], 3) for each in out]
    [9.895, 11.116, None]
    """
    process, sensor = config.process_noise, config.sensor_noise

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        values, present = floats(events, config.field)
        known = np.flatnonzero(present)
        groups = keyed(events.take(pa.array(known)), config.by)
        measured: list[float] = values[known].tolist()
        estimates = measured.copy()
        for key, places in each_key(groups):
            estimate, error = state.get(key) or [0.0, config.estimated_error]
            for place in places:
                error += process
                gain = error / (error + sensor)
                estimate += gain * (measured[place] - estimate)
                error *= 1 - gain
                estimates[place] = estimate
            state.put(key, [estimate, error])
        found = np.zeros(len(values))
        found[known] = estimates
        return {"out": PortEmission(replaced(events, config.field, nullable(found, present)))}

    return behave


def _interpolate(config: InterpolateConfig) -> Behaviour:
    """Nulls are not values. The state is the last `window` values per key.

    >>> from engine.trial import try_out
    >>> try_out("interpolate", {"field": "t"}, [{"t": 20.0}, {"t": 21.0}, {"t": None}])["out"][-1]
    {'t': 20.5}
    """

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        read, there = floats(events, config.field)
        values: list[float | None] = [
            value if is_there else None for value, is_there in zip(read.tolist(), there.tolist(), strict=True)
        ]
        for key, places in each_key(keyed(events, config.by)):
            last: list[float] = (state.get(key) or [])[-config.window :]
            for place in places:
                value = values[place]
                if value is None:
                    values[place] = _mean(last)
                else:
                    last.append(value)
                    del last[: -config.window]
            if last:
                state.put(key, last)
        return {"out": PortEmission(replaced(events, config.field, pa.array(values, pa.float64())))}

    return behave


def _newest(_old: InterpolateConfig, new: InterpolateConfig, _key: tuple[Any, ...], values: list[float]) -> list[float]:
    """The state for a smaller window."""
    return values[-new.window :]


def _estimated(
    _old: Mapping[str, Any], _new: InterpolateConfig, _key: tuple[Any, ...], state: list[float]
) -> list[float]:
    """The estimate of a Kalman filter as the last value."""
    return state[:1]


def _measured(
    _old: Mapping[str, Any], new: KalmanFilterConfig, _key: tuple[Any, ...], values: list[float]
) -> list[float] | None:
    """The mean of the last values as the estimate; its error is that of so many measurements."""
    mean = _mean(values)
    return None if mean is None else [mean, new.sensor_noise / len(values)]


def _mean(values: list[float]) -> float | None:
    total = 0.0
    for value in values:
        total += value
    return total / len(values) if values else None


def _accumulate(config: AccumulateConfig) -> Behaviour:
    """Emits an event at the last of `window` events, with each field as a JSON array.

    A timestamp is written as milliseconds since 1970. The state is the values of the incomplete window, per key.

    >>> from engine.trial import try_out
    >>> rows = [{"t": 20.0, "room": "a"}, {"t": 21.5, "room": "b"}]
    >>> try_out("accumulate", {"fields": ["t", "room"], "window": 2}, rows)
    {'out': [{'t': '[20.0,21.5]', 'room': '["a","b"]'}]}
    """
    fields = tuple(dict.fromkeys(config.fields))
    by = tuple(dict.fromkeys(field for field in config.by if field not in fields))

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        for field in fields:
            check_finite(events, field)
        columns = [plain(events.column(field)) for field in fields]
        found = blocks(keyed(events, config.by), columns, config.window, state)
        ends = np.array([block.end for block in found], np.int64)
        arrays = {
            field: pa.array(_arrays(block.columns[at] for block in found), pa.string())
            for at, field in enumerate(fields)
        }
        kept = {field: events.column(field).take(pa.array(ends)) for field in by}
        return {"out": PortEmission(pa.record_batch(kept | arrays), ends)}

    return behave


def _arrays(lists: Iterable[list[Any]]) -> list[str]:
    return [msgspec.json.encode(values).decode() for values in lists]


accumulate = Implementation(type=ACCUMULATE, make=_accumulate)
block_window_average = Implementation(type=BLOCK_WINDOW_AVERAGE, make=_block_window_average)
interpolate = Implementation(
    type=INTERPOLATE, make=_interpolate, transform=_newest, continues={"kalman_filter": _estimated}
)
kalman_filter = Implementation(type=KALMAN_FILTER, make=_kalman_filter, continues={"interpolate": _measured})
