"""How many: of events, of distinct values, and how evenly values come."""

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
from engine.records.staged_state import Staged, packed_key
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
    """At every event how many there were for its key, itself included; null is a key like any other.

    Of each key the number is kept.

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
    """The estimate of Alon, Matias and Szegedy: each counter adds up a random sign of every value.

    A value's signs are bits of its digest, so that equal values have equal signs wherever they are seen. The mean of
    the counters' squares is the estimate. A null does not count, and its event tells the estimate so far. Of each key
    the counters are kept.

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


def _signs(column: pa.Array, counters: int) -> Matrix:
    """For every event the sign that it has for each counter; 0 for nulls."""
    encoded = column.dictionary_encode()
    values = plain(encoded.dictionary)
    digests = b"".join(blake2b(packed_key((value,)), digest_size=64).digest() for value in values)
    bits = np.unpackbits(np.frombuffer(digests, np.uint8).reshape(-1, 64), axis=1)[:, :counters]
    # One row more, where nulls point.
    signs = np.concatenate([2 * bits.astype(np.int64) - 1, np.zeros((1, counters), np.int64)])
    found: Matrix = signs[encoded.indices.fill_null(len(values)).to_numpy()]
    return found


def _running(groups: Keyed, steps: Matrix, before: Matrix) -> Matrix:
    """The counters after every event, in the order of the groups."""
    sums = np.cumsum(np.concatenate([np.zeros_like(steps[:1], shape=(1, steps.shape[1])), steps]), axis=0)
    found: Matrix = sums[1:] + np.repeat(before - sums[groups.bounds[:-1]], np.diff(groups.bounds), axis=0)
    return found


def _mean_square(counters: Matrix) -> npt.NDArray[np.float64]:
    # One after the other, because a sum over an axis is free to round by the number of rows.
    total: npt.NDArray[np.float64] = np.zeros(len(counters))
    for column in counters.T.astype(np.float64):
        total += column * column
    total /= counters.shape[1]
    return total


def _distinct_approx_count(config: DistinctApproxCountConfig) -> Behaviour:
    """The estimate of a HyperLogLog sketch of Apache DataSketches, one byte for each bucket.

    A null does not count, and its event tells the estimate so far. Of each key the sketch is kept: as many bytes as
    buckets, and some.

    >>> from engine.trial import try_out
    >>> out = try_out("distinct_approx_count", {"field": "room"}, [{"room": "a"}, {"room": "b"}, {"room": "a"}])["out"]
    >>> [round(each["distinct"]) for each in out]
    [1, 2, 2]
    """
    try:
        from datasketches import hll_sketch, tgt_hll_type  # noqa: PLC0415 - whoever sketches nothing need not have it
    except ImportError as error:
        raise NoBehaviour(
            f"distinct_approx_count needs Apache DataSketches ({error}); install braid[sketches] on every worker"
        ) from None
    log = config.buckets.bit_length() - 1

    def sketch(kept: bytes | None) -> "hll_sketch":
        return hll_sketch(log, tgt_hll_type.HLL_8) if kept is None else hll_sketch.deserialize(kept)

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        check_finite(events, config.field)
        values = [_told(value) for value in plain(events.column(config.field))]
        found = np.empty(len(values))
        for key, places in each_key(keyed(events, config.by)):
            seen = sketch(state.get(key))
            for place in places:
                value = values[place]
                if value is not None:
                    seen.update(value)
                found[place] = seen.get_estimate()
            # As it is in memory: packed tighter, it would come back in another order.
            state.put(key, bytes(seen.serialize_updatable()))
        return {"out": PortEmission(replaced(events, "distinct", pa.array(found)))}

    return behave


def _told(value: Any) -> Any:
    """A value as sketches take it; they would pass over an empty text."""
    return f"={value}" if isinstance(value, str) else value


count = Implementation(type=COUNT, make=_count)
"""How many events there were so far."""
distinct_approx_count = Implementation(type=DISTINCT_APPROX_COUNT, make=_distinct_approx_count)
"""How many values are distinct."""
second_order_moment = Implementation(type=SECOND_ORDER_MOMENT, make=_second_order_moment)
"""How uneven values are."""
