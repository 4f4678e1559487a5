"""Splitting: how much of what was done is whose.

What a task takes is split equally among the dataflows that use it at that moment, and so are the batches of a job among
the dataflows that have tasks in it, and a bridge among those whose events it carries. That is the Shapley value of the
game in which a group of dataflows costs what its tasks, batches and bridges cost together: who uses nothing pays
nothing, equals pay the same, and it does not matter in which order they came. Beside it stands what each dataflow would
take if it ran alone. Whatever cannot be split into whole parts is left over, so that nobody is favoured.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from manager.savings.counter_growth import SECOND, Grown
from manager.savings.usage import Use, Users, both

PART = 1_000_000
"""Into so many parts a batch is split."""


class DataflowUsage(NamedTuple):
    """What a dataflow took, its part of what it shares, and what it would take alone; made by `split`."""

    tasks: int = 0
    """Its part of the nanoseconds of its tasks."""
    batches: int = 0
    """Its part of batches, in millionths."""
    bridges: int = 0
    """Its part of the nanoseconds for which bridges were there."""
    tasks_alone: int = 0
    """All nanoseconds of its tasks."""
    fewest_alone: int = 0
    """The batches that a job of its own would do, in millionths: at least, as is to be expected, and at most."""
    batches_alone: int = 0
    most_alone: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSplit:
    """What was done in a while, and how much of it is whose; made by `split` and `together`."""

    seconds: float = 0.0
    paces: float = 0.0
    """How many batches a job does in that time at most."""
    cpu: Mapping[str, int] = field(default_factory=dict)
    """Nanoseconds of each part, as `Grown` has it."""
    tasks: int = 0
    """Nanoseconds of all tasks together."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """How many each job did."""
    bridges: int = 0
    """Nanoseconds for which bridges were there, together."""
    paused: int = 0
    """And paused tasks."""
    dataflows: Mapping[str, DataflowUsage] = field(default_factory=dict)
    tenants: Mapping[str, str] = field(default_factory=dict)
    homes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For each dataflow the jobs that had its tasks."""


def split(grown: Grown, before: Use, after: Use, *, pace: float) -> CostSplit:
    """How much of what was done between two looks is whose, by who used what at the second, or else at the first."""
    use = after if before is after else both(before, after)
    elapsed, paces = round(grown.seconds * SECOND), grown.seconds / pace
    tasks, batches, bridges, alone = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for instance, taken in grown.tasks.items():
        users = use.tasks.get(instance, ())
        _divide(taken, users, tasks)
        for dataflow in users:
            alone[dataflow] += taken
    for job, done in grown.batches.items():
        _divide(done * PART, use.jobs.get(job, ()), batches)
    for users in use.bridges:
        _divide(elapsed, users, bridges)
    return CostSplit(
        seconds=grown.seconds,
        paces=paces,
        cpu=grown.cpu,
        tasks=sum(grown.tasks.values()),
        batches=grown.batches,
        bridges=elapsed * len(use.bridges),
        paused=elapsed * use.paused,
        dataflows={
            each: DataflowUsage(
                tasks[each], batches[each], bridges[each], alone[each], *_alone(each, use, grown, paces)
            )
            for each in use.homes
        },
        tenants=use.tenants,
        homes=use.homes,
    )


def together(splits: Iterable[CostSplit]) -> CostSplit:
    """What was done in several whiles, one after the other."""
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


def _alone(dataflow: str, use: Use, grown: Grown, paces: float) -> tuple[int, int, int]:
    """The batches that a job of its own would do: at least, as is to be expected, at most; in millionths.

    Never more than the busiest of its jobs did, nor more than events came in for it: what others send does not wake it.
    Events that come at random fall into fewer batches than there are of them.
    """
    jobs = use.homes[dataflow]
    most = max((grown.batches.get(job, 0) for job in jobs), default=0)
    if all(use.jobs[job] == (dataflow,) for job in jobs):
        return most * PART, most * PART, most * PART
    events = sum(grown.entered.get(stream, 0) for stream in use.streams[dataflow])
    expected = min(most, events) * PART
    by_chance = int(paces * -math.expm1(-events / paces) * PART) if paces else 0
    return min(expected, by_chance), expected, expected
