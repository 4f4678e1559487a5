"""Permutations of the applications' tasks: other dataflows with real logic over the same streams.

Each begins with raw measurements like STATS, or with clean ones like ETL, and continues with some of the statistics,
each as a plot or as plain output. Nothing is written to the outside, so everything can be shared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from random import Random
from types import MappingProxyType
from typing import Literal

from workloads.riotbench import common_tasks
from workloads.riotbench.applications import prediction_tasks
from workloads.riotbench.common_tasks import EXPECTED, SINK, VALUE, TypeAndConfig
from workloads.riotbench.datasets import DataSet
from workloads.riotbench.document_builder import Document, document

_SIZES = range(9, 13)
"""Possible numbers of tasks: about as many as in an application."""
HEADS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "raw": ("source", "parse"),
        "clean": ("source", "parse", "range filter", "bloom filter", "interpolate"),
    }
)
"""The tasks before the statistics: those of STATS, and those of ETL."""
STATISTICS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        VALUE: ("average",),
        "predicted": ("kalman", "regression"),
        "second_order_moment": ("moment",),
        "distinct": ("distinct",),
    }
)
"""The possible branches, by the field of their results."""


@dataclass(frozen=True, slots=True, order=True)
class Permutation:
    """One combination of tasks."""

    head: str
    statistics: tuple[str, ...]
    end: Literal["outputs", "plots"]

    def tasks(self) -> Iterator[str]:
        """The tasks' ids, in order."""
        yield from HEADS[self.head]
        for statistic in self.statistics:
            yield from STATISTICS[statistic]
            yield f"{self.end[:-1]} {statistic}"
        if self.end == "plots":
            yield "sink"


def every() -> tuple[Permutation, ...]:
    """All permutations of the right size."""
    ends: tuple[Literal["outputs", "plots"], ...] = ("outputs", "plots")
    found = (
        Permutation(head, chosen, end)
        for head in HEADS
        for many in range(2, len(STATISTICS) + 1)
        for chosen in combinations(STATISTICS, many)
        for end in ends
    )
    return tuple(each for each in found if len(tuple(each.tasks())) in _SIZES)


def drawn(many: int, random: Random) -> tuple[Permutation, ...]:
    """Draw permutations; each differs from an earlier one by one choice, like dataflows that grow from one another."""
    pool = every()
    found = [random.choice(pool)]
    while len(found) < many:
        base = random.choice(found)
        near = [each for each in pool if each not in found and _choices_apart(each, base) == 1]
        found += random.sample(near, 1) if near else []
    return tuple(found)


def _choices_apart(one: Permutation, other: Permutation) -> int:
    """The number of choices in which two permutations differ."""
    added_or_left_out = set(one.statistics) ^ set(other.statistics)
    return (one.head != other.head) + (one.end != other.end) + len(added_or_left_out)


def permuted(data: DataSet, permutation: Permutation) -> Document:
    """The document of a permutation."""
    made: dict[str, TypeAndConfig] = {
        "source": common_tasks.source(data),
        "parse": common_tasks.parse(data, "field"),
        "range filter": common_tasks.range_filter(data),
        "bloom filter": common_tasks.bloom_filter(data, data.known, EXPECTED),
        "interpolate": common_tasks.interpolate(data),
        "average": common_tasks.average(data, VALUE, common_tasks.by(data)),
        "kalman": common_tasks.kalman(data),
        "regression": common_tasks.regression(data),
        "moment": common_tasks.moment(data),
        "distinct": common_tasks.distinct(data),
        "sink": SINK,
        **{f"output {statistic}": SINK for statistic in STATISTICS},
        **{f"plot {statistic}": common_tasks.plot(data, statistic) for statistic in STATISTICS},
    }
    head = HEADS[permutation.head]
    chains = [head]
    for statistic in permutation.statistics:
        end = (f"plot {statistic}", "sink") if permutation.end == "plots" else (f"output {statistic}",)
        chains.append((head[-1], *STATISTICS[statistic], *end))
    return document(
        f"RIoTBench {permutation.head} {' and '.join(permutation.statistics)} as {permutation.end} {data.name}",
        {id_: made[id_] for id_ in permutation.tasks()},
        *chains,
    )


def predicted_rows(data: DataSet) -> Document:
    """PRED with models that arrive as events, and with outputs for its tenant."""
    return document(
        f"RIoTBench PRED by models {data.name}",
        {
            "source": common_tasks.source(data),
            "parse": common_tasks.parse(data, "row"),
            "models": common_tasks.source(data, "learned"),
            **prediction_tasks(data, "model"),
            "classes": SINK,
            "errors": SINK,
        },
        "source > parse > classify > classes",
        "parse > predict > error > errors",
        "parse > average > error:average",
        "models > classify:model",
        "models > predict:model",
    )
