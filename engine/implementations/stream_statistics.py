"""Statistics over the events of a stream, per key: averages, counts and their estimates, and fitted lines.

Averages are folds over the values of a key, one after the other in the order of events. So the last digit does not
depend on the boundaries of batches. `sum` may round in another way, and is not used.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, NoBehaviour, PortEmission
from engine.implementations.values import (
    Floats,
    Keyed,
    Numbers,
    blocks,
    check_finite,
    events_by_key,
    floats,
    keyed,
    nullable,
    one_port,
    plain,
    replaced,
)
from engine.records.state import Staged, packed_key
from engine.tasks import stream_statistics as described

if TYPE_CHECKING:
    from datasketches import hll_sketch


def _block_window_average(
    config: described.BlockWindowAverageConfig, events: pa.RecordBatch, state: Staged
) -> PortEmission:
    """Emits the mean at the event that completes a block.

    Integers are added as floats. The state is a count and a sum per key.

    >>> rows = [{"t": 20.0}, {"t": None}, {"t": 21.0}, {"t": 5.0}]
    >>> try_out("block_window_average", {"field": "t", "window": 2}, rows)
    {'out': [{'t': 20.5}]}
    """
    by = tuple(dict.fromkeys(config.by))
    values, is_present = floats(events, config.field)
    present = np.flatnonzero(is_present)
    known = events if len(present) == events.num_rows else events.take(pa.array(present))
    ends, means = _means(known, values[present], by, config.window, state)
    sorting = np.argsort(ends)
    ends = ends[sorting]
    at = pa.array(ends)
    columns = {field: known.column(field).take(at) for field in by} | {config.field: pa.array(means[sorting])}
    return PortEmission(pa.record_batch(columns), present[ends])


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


def _kalman_filter(config: described.KalmanFilterConfig, events: pa.RecordBatch, state: Staged) -> PortEmission:
    """Estimates a drifting value from a noisy sensor. The first estimate is 0.

    The state is the estimate and its variance, per key.

    >>> out = try_out("kalman_filter", {"field": "t"}, [{"t": 10.0}, {"t": 12.0}, {"t": None}])["out"]
    >>> [event["t"] and round(event["t"], 3) for event in out]
    [9.895, 11.116, None]
    """
    process, sensor = config.process_noise, config.sensor_noise
    values, present = floats(events, config.field)
    known = np.flatnonzero(present)
    groups = keyed(events.take(pa.array(known)), config.by)
    measured: list[float] = values[known].tolist()
    estimates = measured.copy()
    for key, places in events_by_key(groups):
        estimate, error = state.get(key) or [0.0, config.estimated_error]
        for place in places:
            error += process
            gain = error / (error + sensor)
            estimate += gain * (measured[place] - estimate)
            error *= 1 - gain
            estimates[place] = estimate
        state.put(key, [estimate, error])
    smooth = np.zeros(len(values))
    smooth[known] = estimates
    return PortEmission(replaced(events, config.field, nullable(smooth, present)))


def _interpolate(config: described.InterpolateConfig, events: pa.RecordBatch, state: Staged) -> PortEmission:
    """Nulls are not values. The state is the last `window` values per key.

    >>> try_out("interpolate", {"field": "t"}, [{"t": 20.0}, {"t": 21.0}, {"t": None}])["out"][-1]
    {'t': 20.5}
    """
    values: list[float | None] = nullable(*floats(events, config.field)).to_pylist()
    for key, places in events_by_key(keyed(events, config.by)):
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
    return PortEmission(replaced(events, config.field, pa.array(values, pa.float64())))


def _mean(values: list[float]) -> float | None:
    total = 0.0
    for value in values:
        total += value
    return total / len(values) if values else None


def _accumulate(config: described.AccumulateConfig, events: pa.RecordBatch, state: Staged) -> PortEmission:
    """Emits an event at the last of `window` events, with each field as a JSON array.

    A timestamp is written as milliseconds since 1970. The state is the values of the incomplete window, per key.

    >>> rows = [{"t": 20.0, "room": "a"}, {"t": 21.5, "room": "b"}]
    >>> try_out("accumulate", {"fields": ["t", "room"], "window": 2}, rows)
    {'out': [{'t': '[20.0,21.5]', 'room': '["a","b"]'}]}
    """
    fields = tuple(dict.fromkeys(config.fields))
    by = tuple(dict.fromkeys(field for field in config.by if field not in fields))
    for field in fields:
        check_finite(events, field)
    columns = [plain(events.column(field)) for field in fields]
    completed = blocks(keyed(events, config.by), columns, config.window, state)
    ends = np.array([block.end for block in completed], np.int64)
    arrays = {
        field: pa.array([msgspec.json.encode(block.columns[at]).decode() for block in completed], pa.string())
        for at, field in enumerate(fields)
    }
    kept = {field: events.column(field).take(pa.array(ends)) for field in by}
    return PortEmission(pa.record_batch(kept | arrays), ends)


accumulate = Implementation(type=described.ACCUMULATE, make=one_port(_accumulate))
block_window_average = Implementation(type=described.BLOCK_WINDOW_AVERAGE, make=one_port(_block_window_average))
interpolate = Implementation(
    type=described.INTERPOLATE,
    make=one_port(_interpolate),
    transform=lambda _old, new, _key, values: values[-new.window :],
    # The estimate is the last value.
    continues={"kalman_filter": lambda _old, _new, _key, state: state[:1]},
)
kalman_filter = Implementation(
    type=described.KALMAN_FILTER,
    make=one_port(_kalman_filter),
    # The mean of the last values is the estimate, and its error is that of so many measurements.
    continues={
        "interpolate": lambda _old, new, _key, values: (
            [_mean(values), new.sensor_noise / len(values)] if values else None
        )
    },
)


def _count(config: described.CountConfig, events: pa.RecordBatch, state: Staged) -> PortEmission:
    """The event itself is included. Null is a key like any other.

    The state is the number per key.

    >>> try_out("count", {"by": ["room"]}, [{"room": "a"}, {"room": "b"}, {"room": "a"}])["out"][-1]
    {'room': 'a', 'count': 2}
    """
    groups = keyed(events, config.by)
    sizes = np.diff(groups.bounds)
    before = np.fromiter((state.get(key) or 0 for key in groups.keys), np.int64, len(groups.keys))
    for key, count in zip(groups.keys, (before + sizes).tolist(), strict=True):
        state.put(key, count)
    counts = np.empty(events.num_rows, np.int64)
    counts[groups.order] = np.arange(1, len(counts) + 1) + np.repeat(before - groups.bounds[:-1], sizes)
    columns = {field: events.column(field) for field in config.by}
    return PortEmission(pa.record_batch(columns | {"count": pa.array(counts)}))


def _second_order_moment(
    config: described.SecondOrderMomentConfig, events: pa.RecordBatch, state: Staged
) -> PortEmission:
    """Each counter adds a random sign of every value.

    The signs of a value are bits of its digest, so that equal values always have equal signs. The estimate is the mean
    of the counters' squares. A null does not count, and its event gets the estimate so far. The state is the counters
    per key.

    >>> try_out("second_order_moment", {"field": "t"}, 3 * [{"t": 20.0}])["out"][-1]
    {'t': 20.0, 'second_order_moment': 9.0}
    """
    none = np.zeros(config.counters, np.int64)
    check_finite(events, config.field)
    groups = keyed(events, config.by)
    before = np.array([state.get(key) or none for key in groups.keys], np.int64).reshape(-1, config.counters)
    counters = _running(groups, _signs(events.column(config.field), config.counters)[groups.order], before)
    for key, after in zip(groups.keys, counters[groups.bounds[1:] - 1].tolist(), strict=True):
        state.put(key, after)
    moments = np.empty(events.num_rows)
    moments[groups.order] = _mean_square(counters)
    return PortEmission(replaced(events, "second_order_moment", pa.array(moments)))


def _signs(column: pa.Array, counters: int) -> Numbers:
    """The sign of every event for each counter; 0 for nulls."""
    encoded = column.dictionary_encode()
    values = plain(encoded.dictionary)
    digests = b"".join(blake2b(packed_key((value,)), digest_size=64).digest() for value in values)
    bits = np.unpackbits(np.frombuffer(digests, np.uint8).reshape(-1, 64), axis=1)[:, :counters]
    # One more row, for nulls.
    signs = np.concatenate([2 * bits.astype(np.int64) - 1, np.zeros((1, counters), np.int64)])
    of_events: Numbers = signs[encoded.indices.fill_null(len(values)).to_numpy()]
    return of_events


def _running(groups: Keyed, steps: Numbers, before: Numbers) -> Numbers:
    """The counters after every event, in the order of the groups."""
    sums = np.cumsum(np.concatenate([np.zeros((1, steps.shape[1]), np.int64), steps]), axis=0)
    counters: Numbers = sums[1:] + np.repeat(before - sums[groups.bounds[:-1]], np.diff(groups.bounds), axis=0)
    return counters


def _mean_square(counters: Numbers) -> Floats:
    # One after the other, because the rounding of a sum over an axis may depend on the number of rows.
    total: Floats = np.zeros(len(counters))
    for column in counters.T.astype(np.float64):
        total += column * column
    total /= counters.shape[1]
    return total


def _distinct_approx_count(config: described.DistinctApproxCountConfig) -> Behaviour:
    """Estimates by a HyperLogLog sketch of Apache DataSketches, with one byte per bucket.

    A null does not count, and its event gets the estimate so far. The state is the sketch per key, which takes a little
    more bytes than it has buckets.

    >>> out = try_out("distinct_approx_count", {"field": "room"}, [{"room": "a"}, {"room": "b"}, {"room": "a"}])["out"]
    >>> [round(event["distinct"]) for event in out]
    [1, 2, 2]
    """
    try:
        from datasketches import hll_sketch, tgt_hll_type  # noqa: PLC0415 - an optional package, for this task only
    except ImportError as error:
        raise NoBehaviour(
            f"distinct_approx_count needs Apache DataSketches ({error}); install braid[sketches] on every worker"
        ) from None
    log = _log(config)

    def sketch(kept: bytes | None) -> "hll_sketch":
        return hll_sketch(log, tgt_hll_type.HLL_8) if kept is None else hll_sketch.deserialize(kept)

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        check_finite(events, config.field)
        # A sketch would skip an empty text.
        values = [f"={value}" if isinstance(value, str) else value for value in plain(events.column(config.field))]
        estimates = np.empty(len(values))
        for key, places in events_by_key(keyed(events, config.by)):
            seen = sketch(state.get(key))
            for place in places:
                value = values[place]
                if value is not None:
                    seen.update(value)
                estimates[place] = seen.get_estimate()
            # As in memory: the compact form would come back in another order.
            state.put(key, bytes(seen.serialize_updatable()))
        return {"out": PortEmission(replaced(events, "distinct", pa.array(estimates)))}

    return behave


def _coarser(
    _old: described.DistinctApproxCountConfig,
    new: described.DistinctApproxCountConfig,
    _key: tuple[Any, ...],
    kept: bytes,
) -> bytes:
    """The state for fewer buckets."""
    from datasketches import hll_sketch, hll_union, tgt_hll_type  # noqa: PLC0415 - as above

    union = hll_union(_log(new))
    union.update(hll_sketch.deserialize(kept))
    return bytes(union.get_result(tgt_hll_type.HLL_8).serialize_updatable())


def _log(config: described.DistinctApproxCountConfig) -> int:
    return config.buckets.bit_length() - 1


count = Implementation(type=described.COUNT, make=one_port(_count))
distinct_approx_count = Implementation(
    type=described.DISTINCT_APPROX_COUNT, make=_distinct_approx_count, transform=_coarser
)
second_order_moment = Implementation(
    type=described.SECOND_ORDER_MOMENT,
    make=one_port(_second_order_moment),
    # Counters do not depend on each other.
    transform=lambda _old, new, _key, counters: counters[: new.counters],
)


def _sliding_linear_regression(config: described.SlidingLinearRegressionConfig) -> Behaviour:
    """The line is that of least squares.

    A null has no running number, and its event no prediction. The state is the last `train` values per key.

    >>> rows = [{"t": 20.0}, {"t": 21.0}, {"t": 22.0}]
    >>> try_out("sliding_linear_regression", {"field": "t", "train": 3, "predict": 2}, rows)["out"][-1]
    {'t': 22.0, 'predicted': 23.5, 'predictions': '[23.0,24.0]'}
    """
    train = config.train
    # The line does not depend on the first number, so the numbers of a window are centred at 0.
    numbers = np.arange(train) - (train - 1) / 2
    spread = float(np.sum(numbers * numbers))
    ahead = (train - 1) / 2 + np.arange(1, config.predict + 1)

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        read, present = floats(events, config.field)
        windows = _windows(events, read, np.flatnonzero(present), config, state)
        # Value after value, for all events at once: the rounding of a matrix product may depend on its shape.
        total, slant = np.zeros(len(windows.ends)), np.zeros(len(windows.ends))
        for at, number in enumerate(numbers.tolist()):
            values = windows.values[windows.ends - (train - 1) + at]
            total += values
            slant += number * values
        mean, slope = total / train, slant / spread
        lines = mean[:, None] + slope[:, None] * ahead
        middle = np.zeros(events.num_rows)
        middle[windows.events] = mean + slope * ((ahead[0] + ahead[-1]) / 2)
        texts: list[str | None] = [None] * events.num_rows
        for event, line in zip(windows.events.tolist(), lines.tolist(), strict=True):
            texts[event] = msgspec.json.encode(line).decode()
        has = np.zeros(events.num_rows, np.bool_)
        has[windows.events] = True
        rows = replaced(events, "predicted", nullable(middle, has))
        return {"out": PortEmission(replaced(rows, "predictions", pa.array(texts, pa.string())))}

    return behave


class _Windows(NamedTuple):
    values: Floats
    """The kept and the new values of a key, then those of the next key."""
    ends: Numbers
    """The indexes in `values` at which a full window ends."""
    events: Numbers
    """The last event of each of these windows."""


def _windows(
    events: pa.RecordBatch, read: Floats, known: Numbers, config: described.SlidingLinearRegressionConfig, state: Staged
) -> _Windows:
    groups = keyed(events.take(pa.array(known)), config.by)
    order = known[groups.order]
    new: list[float] = read[order].tolist()
    values: list[float] = []
    ends: list[int] = []
    came: list[int] = []
    for key, first, end in zip(groups.keys, groups.bounds[:-1].tolist(), groups.bounds[1:].tolist(), strict=True):
        kept: list[float] = (state.get(key) or [])[-config.train :]
        begun = len(values)
        values += kept
        values += new[first:end]
        state.put(key, values[max(begun, len(values) - config.train) :])
        # The number of new values that do not end a full window.
        short = max(config.train - 1 - len(kept), 0)
        ends += range(begun + len(kept) + short, len(values))
        came += range(first + short, end)
    return _Windows(np.array(values), np.array(ends, np.int64), order[np.array(came, np.int64)])


sliding_linear_regression = Implementation(
    type=described.SLIDING_LINEAR_REGRESSION,
    make=_sliding_linear_regression,
    transform=lambda _old, new, _key, values: values[-new.train :],
)
