"""Counts of events and of distinct values, and the evenness of values."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, NoBehaviour, PortEmission
from engine.implementations.blocks import each_key
from engine.implementations.keys import Keyed, key_columns, keyed
from engine.implementations.values import check_finite, plain, replaced
from engine.records.state import Staged, packed_key
from engine.tasks.stream_statistics import (
    COUNT,
    DISTINCT_APPROX_COUNT,
    SECOND_ORDER_MOMENT,
    CountConfig,
    DistinctApproxCountConfig,
    SecondOrderMomentConfig,
)

if TYPE_CHECKING:
    from datasketches import hll_sketch

Matrix = npt.NDArray[np.int64]


def _count(config: CountConfig) -> Behaviour:
    """The event itself is included. Null is a key like any other.

    The state is the number per key.

    >>> from engine.trial import try_out
    >>> try_out("count", {"by": ["room"]}, [{"room": "a"}, {"room": "b"}, {"room": "a"}])["out"][-1]
    {'room': 'a', 'count': 2}
    """

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        groups = keyed(events, config.by)
        sizes = np.diff(groups.bounds)
        before = np.fromiter((state.get(key) or 0 for key in groups.keys), np.int64, len(groups.keys))
        for key, count in zip(groups.keys, (before + sizes).tolist(), strict=True):
            state.put(key, count)
        counts = np.empty(events.num_rows, np.int64)
        counts[groups.order] = np.arange(1, len(counts) + 1) + np.repeat(before - groups.bounds[:-1], sizes)
        return {"out": PortEmission(key_columns(events, config.by, "count", pa.array(counts)))}

    return behave


def _second_order_moment(config: SecondOrderMomentConfig) -> Behaviour:
    """Each counter adds a random sign of every value.

    The signs of a value are bits of its digest, so that equal values always have equal signs. The estimate is the mean
    of the counters' squares. A null does not count, and its event gets the estimate so far. The state is the counters
    per key.

    >>> from engine.trial import try_out
    >>> try_out("second_order_moment", {"field": "t"}, 3 * [{"t": 20.0}])["out"][-1]
    {'t': 20.0, 'second_order_moment': 9.0}
    """
    none = np.zeros(config.counters, np.int64)

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        check_finite(events, config.field)
        groups = keyed(events, config.by)
        before = np.array([state.get(key) or none for key in groups.keys], np.int64).reshape(-1, config.counters)
        counters = _running(groups, _signs(events.column(config.field), config.counters)[groups.order], before)
        for key, after in zip(groups.keys, counters[groups.bounds[1:] - 1].tolist(), strict=True):
            state.put(key, after)
        moments = np.empty(events.num_rows)
        moments[groups.order] = _mean_square(counters)
        return {"out": PortEmission(replaced(events, "second_order_moment", pa.array(moments)))}

    return behave


def _first_counters(
    _old: SecondOrderMomentConfig, new: SecondOrderMomentConfig, _key: tuple[Any, ...], counters: list[int]
) -> list[int]:
    """The state for fewer counters. They do not depend on each other."""
    return counters[: new.counters]


def _signs(column: pa.Array, counters: int) -> Matrix:
    """The sign of every event for each counter; 0 for nulls."""
    encoded = column.dictionary_encode()
    values = plain(encoded.dictionary)
    digests = b"".join(blake2b(packed_key((value,)), digest_size=64).digest() for value in values)
    bits = np.unpackbits(np.frombuffer(digests, np.uint8).reshape(-1, 64), axis=1)[:, :counters]
    # One more row, for nulls.
    signs = np.concatenate([2 * bits.astype(np.int64) - 1, np.zeros((1, counters), np.int64)])
    found: Matrix = signs[encoded.indices.fill_null(len(values)).to_numpy()]
    return found


def _running(groups: Keyed, steps: Matrix, before: Matrix) -> Matrix:
    """The counters after every event, in the order of the groups."""
    sums = np.cumsum(np.concatenate([np.zeros_like(steps[:1], shape=(1, steps.shape[1])), steps]), axis=0)
    found: Matrix = sums[1:] + np.repeat(before - sums[groups.bounds[:-1]], np.diff(groups.bounds), axis=0)
    return found


def _mean_square(counters: Matrix) -> npt.NDArray[np.float64]:
    # One after the other, because the rounding of a sum over an axis may depend on the number of rows.
    total: npt.NDArray[np.float64] = np.zeros(len(counters))
    for column in counters.T.astype(np.float64):
        total += column * column
    total /= counters.shape[1]
    return total


def _distinct_approx_count(config: DistinctApproxCountConfig) -> Behaviour:
    """Estimates by a HyperLogLog sketch of Apache DataSketches, with one byte per bucket.

    A null does not count, and its event gets the estimate so far. The state is the sketch per key, which takes a little
    more bytes than it has buckets.

    >>> from engine.trial import try_out
    >>> out = try_out("distinct_approx_count", {"field": "room"}, [{"room": "a"}, {"room": "b"}, {"room": "a"}])["out"]
    >>> [round(each["distinct"]) for each in out]
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
        values = [_sketched(value) for value in plain(events.column(config.field))]
        found = np.empty(len(values))
        for key, places in each_key(keyed(events, config.by)):
            seen = sketch(state.get(key))
            for place in places:
                value = values[place]
                if value is not None:
                    seen.update(value)
                found[place] = seen.get_estimate()
            # As in memory: the compact form would come back in another order.
            state.put(key, bytes(seen.serialize_updatable()))
        return {"out": PortEmission(replaced(events, "distinct", pa.array(found)))}

    return behave


def _coarser(
    _old: DistinctApproxCountConfig, new: DistinctApproxCountConfig, _key: tuple[Any, ...], kept: bytes
) -> bytes:
    """The state for fewer buckets."""
    from datasketches import hll_sketch, hll_union, tgt_hll_type  # noqa: PLC0415 - as above

    union = hll_union(_log(new))
    union.update(hll_sketch.deserialize(kept))
    return bytes(union.get_result(tgt_hll_type.HLL_8).serialize_updatable())


def _log(config: DistinctApproxCountConfig) -> int:
    return config.buckets.bit_length() - 1


def _sketched(value: Any) -> Any:
    """A value for a sketch, which would skip an empty text."""
    return f"={value}" if isinstance(value, str) else value


count = Implementation(type=COUNT, make=_count)
distinct_approx_count = Implementation(type=DISTINCT_APPROX_COUNT, make=_distinct_approx_count, transform=_coarser)
second_order_moment = Implementation(type=SECOND_ORDER_MOMENT, make=_second_order_moment, transform=_first_counters)
