"""Statistics over the events of a stream, for each key."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.behaviour import Behaviour, Emission, Implementation
from engine.implementations.keys import Numbers, key_columns, keyed
from engine.staged import Staged
from engine.tasks.statistics import BLOCK_WINDOW_AVERAGE, COUNT, BlockWindowAverageConfig, CountConfig

Floats = npt.NDArray[np.float64]


def _count(config: CountConfig) -> Behaviour:
    """At every event how many there were for its key, itself included; null is a key like any other."""

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, Emission]:
        groups = keyed(events, config.by)
        sizes = np.diff(groups.bounds)
        before = np.fromiter((state.get(key) or 0 for key in groups.keys), np.int64, len(groups.keys))
        for key, count in zip(groups.keys, (before + sizes).tolist(), strict=True):
            state.put(key, count)
        counts = np.empty(events.num_rows, np.int64)
        counts[groups.order] = np.arange(1, len(counts) + 1) + np.repeat(before - groups.bounds[:-1], sizes)
        return {"out": Emission(key_columns(events, config.by, "count", pa.array(counts)))}

    return behave


def _block_window_average(config: BlockWindowAverageConfig) -> Behaviour:
    """The mean of each block, at the event that completes it.

    A null is passed over: it neither counts nor weighs. Integers are added as floats. Values are added one after the
    other in the order of events, so that the last digit does not hang on where a batch ends.
    """
    by = tuple(dict.fromkeys(config.by))

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, Emission]:
        column = events.column(config.field)
        present = np.flatnonzero(column.is_valid())
        known = events if len(present) == events.num_rows else events.take(pa.array(present))
        ends, means = _blocks(known, config.field, by, config.window, state)
        sorting = np.argsort(ends)
        ends = ends[sorting]
        columns = key_columns(known.take(pa.array(ends)), by, config.field, pa.array(means[sorting]))
        return {"out": Emission(columns, present[ends])}

    return behave


def _blocks(
    events: pa.RecordBatch, field: str, by: tuple[str, ...], window: int, state: Staged
) -> tuple[Numbers, Floats]:
    """The events that complete a block, by index, and the means; key by key."""
    groups = keyed(events, by)
    values = events.column(field).cast(pa.float64(), safe=False).to_numpy()[groups.order].tolist()
    ends: list[int] = []
    means: list[float] = []
    for key, begin, end in zip(groups.keys, groups.bounds[:-1].tolist(), groups.bounds[1:].tolist(), strict=True):
        size, total = before = state.get(key) or [0, 0.0]
        first = begin
        while first < end:
            # A block that was kept under a longer window may be full already; the next event ends it.
            piece = values[first : min(end, first + max(window - size, 1))]
            for value in piece:
                # One after the other: `sum` would be free to round otherwise.
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


count = Implementation(type=COUNT, make=_count)
"""How many events there were so far."""
block_window_average = Implementation(type=BLOCK_WINDOW_AVERAGE, make=_block_window_average)
"""The mean of every block of events."""
