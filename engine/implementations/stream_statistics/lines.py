"""Lines fitted to the last values of a key."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.keys import Numbers, keyed
from engine.implementations.values import Floats, floats, nullable, replaced
from engine.records.staged_state import Staged
from engine.tasks.stream_statistics import SLIDING_LINEAR_REGRESSION, SlidingLinearRegressionConfig


def _sliding_linear_regression(config: SlidingLinearRegressionConfig) -> Behaviour:
    """At every value the next ones on the line of least squares through the last ones, by their running number.

    A null is no value: it has no number, and its event has no prediction. Of each key the last values are kept.

    >>> from engine.trial import try_out
    >>> rows = [{"t": 20.0}, {"t": 21.0}, {"t": 22.0}]
    >>> try_out("sliding_linear_regression", {"field": "t", "train": 3, "predict": 2}, rows)["out"][-1]
    {'t': 22.0, 'predicted': 23.5, 'predictions': '[23.0,24.0]'}
    """
    train = config.train
    # The line is the same wherever numbers begin, so that those of a window begin at minus its half.
    numbers = np.arange(train) - (train - 1) / 2
    spread = float(np.sum(numbers * numbers))
    ahead = (train - 1) / 2 + np.arange(1, config.predict + 1)

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        read, present = floats(events, config.field)
        windows = _windows(events, read, np.flatnonzero(present), config, state)
        # Value after value, for all events at once: a product of matrices is free to round by their shape.
        total, slant = np.zeros(len(windows.ends)), np.zeros(len(windows.ends))
        for at, number in enumerate(numbers.tolist()):
            values = windows.values[windows.ends - (train - 1) + at]
            total += values
            slant += number * values
        mean, slope = total / train, slant / spread
        lines = mean[:, None] + slope[:, None] * ahead
        middle = np.zeros(events.num_rows)
        middle[windows.events] = mean + slope * ((ahead[0] + ahead[-1]) / 2)
        told: list[str | None] = [None] * events.num_rows
        for event, line in zip(windows.events.tolist(), lines.tolist(), strict=True):
            told[event] = msgspec.json.encode(line).decode()
        has = np.zeros(events.num_rows, np.bool_)
        has[windows.events] = True
        rows = replaced(events, "predicted", nullable(middle, has))
        return {"out": PortEmission(replaced(rows, "predictions", pa.array(told, pa.string())))}

    return behave


class _Windows(NamedTuple):
    values: Floats
    """The values of a key that were kept and those that came, then those of the next key."""
    ends: Numbers
    """Where in them the windows end that are full."""
    events: Numbers
    """For each of these the event that it ends with."""


def _windows(
    events: pa.RecordBatch, read: Floats, known: Numbers, config: SlidingLinearRegressionConfig, state: Staged
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
        # How many of the new ones end no full window yet.
        short = max(config.train - 1 - len(kept), 0)
        ends += range(begun + len(kept) + short, len(values))
        came += range(first + short, end)
    return _Windows(np.array(values), np.array(ends, np.int64), order[np.array(came, np.int64)])


sliding_linear_regression = Implementation(type=SLIDING_LINEAR_REGRESSION, make=_sliding_linear_regression)
"""The next values, as far as a line tells."""
