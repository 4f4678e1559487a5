"""The dataflows that every peer runs: source, filter, average by sensor, filter, output. Pure.

A thousand in all, which differ in what they filter and average; a smaller number are the first of them. They are in
the order in which 169 of 250 tasks of the first 50 are distinct.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import product
from typing import Any

from benchmarks.documents import row_document

INPUT_TOPICS = 5
SOURCE_OWNER = "city"
"""The tenant whose sources all others read."""
TENANTS = 20
HIGHEST = 100.0
"""The highest value of a sensor."""
PEER_FIELDS: Mapping[str, str] = {"n": "integer", "sensor": "string", "value": "float", "at": "float"}
_LOWEST = (10.0, 20.0, 30.0, 40.0)
_WINDOWS = (2, 3, 4, 5, 6)
_LOWEST_MEANS = tuple(38.0 + 5.0 * step for step in range(10))
_SEED = 9
"""Draws the order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDataflow:
    """One dataflow; made by `drawn_dataflows`."""

    number: int
    topic: int
    lowest: float
    """Lower values are dropped before they are averaged."""
    window: int
    """The number of values of a sensor in each mean."""
    lowest_mean: float
    """Lower means are dropped."""

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return f"tenant-{self.number % TENANTS}"

    @property
    def output(self) -> str:
        """The topic of its outputs, where a peer lets its users choose."""
        return f"{OUTPUTS}/{self.number}"


OUTPUTS = "peers/out"


def input_topic(topic: int) -> str:
    """The name of one of the five topics."""
    return f"{SOURCE_OWNER}/{topic}"


def drawn_dataflows(count: int) -> tuple[PeerDataflow, ...]:
    """The first of the dataflows.

    >>> [distinct_tasks(drawn_dataflows(count)) for count in (50, 1_000)]
    [169, 2125]
    """
    configs = list(product(range(INPUT_TOPICS), _LOWEST, _WINDOWS, _LOWEST_MEANS))
    if count > len(configs):
        raise ValueError(f"there are {len(configs)} dataflows, not {count}")
    return tuple(
        PeerDataflow(number=number, topic=topic, lowest=lowest, window=window, lowest_mean=lowest_mean)
        for number, (topic, lowest, window, lowest_mean) in enumerate(
            random.Random(_SEED).sample(configs, len(configs))[:count]
        )
    )


def distinct_tasks(dataflows: Sequence[PeerDataflow]) -> int:
    """The tasks that run if equal ones are shared; each output is its dataflow's own."""
    configs = [astuple(dataflow)[1:] for dataflow in dataflows]
    # A task is what it does and what all before it do.
    shareable = {config[:length] for config in configs for length in range(1, len(config) + 1)}
    return len(shareable) + len(dataflows)


def braid_document(dataflow: PeerDataflow) -> dict[str, Any]:
    """A dataflow as its tenant submits it to Braid."""
    bounds = {"field": "value", "max": HIGHEST, "outside": "drop"}
    averaged = {"field": "value", "by": ["sensor"], "window": dataflow.window}
    tasks: dict[str, Any] = {
        "plausible": {"type": "range_filter", "config": {**bounds, "min": dataflow.lowest}},
        "mean": {"type": "block_window_average", "config": averaged},
        "notable": {"type": "range_filter", "config": {**bounds, "min": dataflow.lowest_mean}},
    }
    return row_document(f"peer {dataflow.number}", f"{SOURCE_OWNER}:{source_name(dataflow.topic)}", tasks)


def source_name(topic: int) -> str:
    """What Braid calls the source of a topic."""
    return f"topic-{topic}"
