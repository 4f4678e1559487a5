"""The cost split: how the work between two looks is divided among dataflows.

The CPU of a task is divided equally among the dataflows that use it at that moment, the batches of a job among those
that have tasks in it, and a bridge among those whose events it carries. This is the Shapley value of the game in which
a group of dataflows costs what its tasks, batches and bridges cost together: a dataflow that uses nothing pays nothing,
equals pay the same, and the order of arrival does not matter. The split also has what each dataflow would take alone.
Remainders of integer divisions are left over, so that no dataflow is favoured.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from manager.savings.counter_growth import SECOND, CounterGrowth
from manager.savings.usage import Usage, Users, usage_between

PART = 1_000_000
"""The parts that a batch is divided into."""


class DataflowUsage(NamedTuple):
    """The usage of a dataflow, shared and alone; made by `split`."""

    tasks: int = 0
    """Its part of the nanoseconds of its tasks."""
    batches: int = 0
    """Its part of batches, in millionths."""
    bridges: int = 0
    """Its part of the nanoseconds for which bridges existed."""
    tasks_alone: int = 0
    """All nanoseconds of its tasks."""
    fewest_alone: int = 0
    """The fewest batches that a job of its own would do, in millionths."""
    batches_alone: int = 0
    """The expected number of these batches."""
    most_alone: int = 0
    """The greatest number of these batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSplit:
    """The work of a time, divided among dataflows; made by `split` and `combined`."""

    seconds: float = 0.0
    paces: float = 0.0
    """The most batches that a job does in that time."""
    cpu: Mapping[str, int] = field(default_factory=dict)
    """Nanoseconds of each part, as in `CounterGrowth`."""
    tasks: int = 0
    """Nanoseconds of all tasks."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """The batches of each job."""
    bridges: int = 0
    """Nanoseconds for which bridges existed, added up."""
    paused: int = 0
    """Nanoseconds for which tasks were paused, added up."""
    dataflows: Mapping[str, DataflowUsage] = field(default_factory=dict)
    tenants: Mapping[str, str] = field(default_factory=dict)
    homes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The jobs that had tasks of each dataflow."""


def split(growth: CounterGrowth, before: Usage, after: Usage, *, pace: float) -> CostSplit:
    """Divide the work between two looks, by the usage at the second, or else at the first."""
    usage = after if before is after else usage_between(before, after)
    elapsed, paces = round(growth.seconds * SECOND), growth.seconds / pace
    tasks, batches, bridges, alone = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for instance, taken in growth.tasks.items():
        users = usage.tasks.get(instance, ())
        _divide(taken, users, tasks)
        for dataflow in users:
            alone[dataflow] += taken
    for job, done in growth.batches.items():
        _divide(done * PART, usage.jobs.get(job, ()), batches)
    for users in usage.bridges:
        _divide(elapsed, users, bridges)
    return CostSplit(
        seconds=growth.seconds,
        paces=paces,
        cpu=growth.cpu,
        tasks=sum(growth.tasks.values()),
        batches=growth.batches,
        bridges=elapsed * len(usage.bridges),
        paused=elapsed * usage.paused,
        dataflows={
            each: DataflowUsage(
                tasks[each], batches[each], bridges[each], alone[each], *_alone(each, usage, growth, paces)
            )
            for each in usage.homes
        },
        tenants=usage.tenants,
        homes=usage.homes,
    )


def combined(splits: Iterable[CostSplit]) -> CostSplit:
    """Add up consecutive splits."""
    every = list(splits)
    dataflows: dict[str, DataflowUsage] = {}
    homes: dict[str, frozenset[str]] = {}
    cpu, batches = Counter[str](), Counter[str]()
    for each in every:
        cpu.update(each.cpu)
        batches.update(each.batches)
        for dataflow, more in each.dataflows.items():
            before = dataflows.get(dataflow)
            dataflows[dataflow] = more if before is None else DataflowUsage(*map(int.__add__, before, more))
        for dataflow, jobs in each.homes.items():
            homes[dataflow] = homes.get(dataflow, jobs) | jobs
    return CostSplit(
        seconds=sum(each.seconds for each in every),
        paces=sum(each.paces for each in every),
        cpu=dict(cpu),
        tasks=sum(each.tasks for each in every),
        batches=dict(batches),
        bridges=sum(each.bridges for each in every),
        paused=sum(each.paused for each in every),
        dataflows=dataflows,
        tenants={name: tenant for each in every for name, tenant in each.tenants.items()},
        homes=homes,
    )


def _divide(amount: int, users: Users, found: "Counter[str]") -> None:
    for dataflow in users:
        found[dataflow] += amount // len(users)


def _alone(dataflow: str, usage: Usage, growth: CounterGrowth, paces: float) -> tuple[int, int, int]:
    """Return the batches that a job of its own would do, in millionths: the fewest, the expected and the most.

    It never does more than the busiest of its present jobs did, nor more than events entered for it. Events at random
    times fall into fewer batches, because several can fall into one.
    """
    jobs = usage.homes[dataflow]
    most = max((growth.batches.get(job, 0) for job in jobs), default=0)
    if all(usage.jobs[job] == (dataflow,) for job in jobs):
        return most * PART, most * PART, most * PART
    events = sum(growth.entered.get(stream, 0) for stream in usage.streams[dataflow])
    expected = min(most, events) * PART
    by_chance = int(paces * -math.expm1(-events / paces) * PART) if paces else 0
    return min(expected, by_chance), expected, expected
