"""Lines fitted to the last values of a key."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.keys import Numbers, keyed
from engine.implementations.values import Floats, floats, nullable, replaced
from engine.records.state import Staged
from engine.tasks.stream_statistics import SLIDING_LINEAR_REGRESSION, SlidingLinearRegressionConfig


def _sliding_linear_regression(config: SlidingLinearRegressionConfig) -> Behaviour:
    """The line is that of least squares.

    A null has no running number, and its event no prediction. The state is the last `train` values per key.

    >>> from engine.trial import try_out
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
        # The number of new values that do not end a full window.
        short = max(config.train - 1 - len(kept), 0)
        ends += range(begun + len(kept) + short, len(values))
        came += range(first + short, end)
    return _Windows(np.array(values), np.array(ends, np.int64), order[np.array(came, np.int64)])


def _newest(
    _old: SlidingLinearRegressionConfig,
    new: SlidingLinearRegressionConfig,
    _key: tuple[Any, ...],
    values: list[float],
) -> list[float]:
    """The state for fewer values."""
    return values[-new.train :]


sliding_linear_regression = Implementation(
    type=SLIDING_LINEAR_REGRESSION, make=_sliding_linear_regression, transform=_newest
)
