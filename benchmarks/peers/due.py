"""The events that are sent, and an oracle of the outputs that the dataflows owe for them. Pure.

An event is a function of its number. Values are quarters, so that sums are exact, and every peer finds the same means.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.peers.dataflows import HIGHEST, INPUT_TOPICS, PeerDataflow

SENSORS_PER_TOPIC = 10
"""Of each topic; they send in turn."""
_VALUES: npt.NDArray[np.float64]
_draw = random.Random(1)
# As many as a prime, so that every sensor sends all of them.
_VALUES = np.array([_draw.randrange(int(4 * HIGHEST) + 1) / 4 for _ in range(9_973)])


@dataclass(frozen=True, slots=True, kw_only=True)
class DueOutputs:
    """What one dataflow owes for the first events; made by `due_outputs`."""

    causes: tuple[npt.NDArray[np.int64], ...]
    """By sensor, the numbers of the events at which outputs become due, in their order."""
    means: tuple[npt.NDArray[np.float64], ...]
    """Their values."""


def topic_of(number: int) -> int:
    """The topic of an event."""
    return number % INPUT_TOPICS


def event_payload(number: int, at: float) -> bytes:
    """An event as it is sent at a moment."""
    sensor, value = number // INPUT_TOPICS % SENSORS_PER_TOPIC, _VALUES[number % len(_VALUES)]
    return b'{"n":%d,"sensor":"s%d","value":%.2f,"at":%.6f}' % (number, sensor, value, at)


def due_outputs(dataflow: PeerDataflow, events: int) -> DueOutputs:
    """What a dataflow owes once so many events were sent to all topics."""
    causes, means = [], []
    for sensor in range(SENSORS_PER_TOPIC):
        sent = np.arange(dataflow.topic + INPUT_TOPICS * sensor, events, INPUT_TOPICS * SENSORS_PER_TOPIC)
        plausible = sent[_VALUES[sent % len(_VALUES)] >= dataflow.lowest]
        blocks = plausible[: len(plausible) // dataflow.window * dataflow.window].reshape(-1, dataflow.window)
        averages = _VALUES[blocks % len(_VALUES)].sum(axis=1) / dataflow.window
        notable = averages >= dataflow.lowest_mean
        causes.append(blocks[notable, -1])
        means.append(averages[notable])
    return DueOutputs(causes=tuple(causes), means=tuple(means))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An output that came; made from a message by `Subscriber`."""

    at: float
    sensor: int
    mean: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How the outputs of a dataflow agree with those due; made by `compared`."""

    outputs: int
    """Outputs that were compared."""
    wrong: int
    """Those with another value than is due at their place, and those that are not due at all."""
    latencies: tuple[float, ...]
    """Seconds of each output that is due for an event of the window; infinite for one that did not come."""


def compared(
    due: DueOutputs, arrivals: Iterable[Arrival], sent_at: npt.NDArray[np.float64], window: tuple[float, float]
) -> Comparison:
    """Compare the outputs of a dataflow, from its first event on, with those due; outputs of a sensor keep its order.

    `sent_at` has the moment of each event, `window` two moments.
    """
    came: tuple[list[Arrival], ...] = tuple([] for _ in range(SENSORS_PER_TOPIC))
    for arrival in arrivals:
        came[arrival.sensor].append(arrival)
    wrong, latencies = 0, []
    for causes, means, arrived in zip(due.causes, due.means, came, strict=True):
        right = [arrival.mean == mean for arrival, mean in zip(arrived, means.tolist(), strict=False)]
        wrong += len(arrived) - sum(right)
        for place, at in enumerate(sent_at[causes].tolist()):
            if window[0] <= at < window[1]:
                is_there = place < len(right) and right[place]
                latencies.append(arrived[place].at - at if is_there else float("inf"))
    return Comparison(outputs=sum(map(len, came)), wrong=wrong, latencies=tuple(latencies))


def due_within(due: Iterable[DueOutputs], sent_at: npt.NDArray[np.float64], window: tuple[float, float]) -> int:
    """The outputs that are due for the events of a window."""
    moments = [sent_at[causes] for outputs in due for causes in outputs.causes]
    return sum(int(np.count_nonzero((at >= window[0]) & (at < window[1]))) for at in moments)


def quantile(latencies: Sequence[float], share: float) -> float | None:
    """The latency that a share of outputs do not exceed; None if so many did not come, or none were due.

    >>> quantile([0.1, 0.2, float("inf")], 0.5), quantile([0.1, float("inf")], 0.99)
    (0.2, None)
    """
    if not latencies:
        return None
    value = sorted(latencies)[min(len(latencies) - 1, int(share * len(latencies)))]
    return round(value, 4) if value != float("inf") else None
