"""Settling: what a while cost whom, and what separate execution would have taken.

A dataflow's share is its part of tasks, batches and bridges, but never more than it would take alone. What is left of
the measured whole belongs to nobody and is the operator's overhead: the idle JVM and driver, the broker, paused tasks,
and what a job did for dataflows that would not have needed it. Shares and overhead are the measured whole, to the
nanosecond.

Separate execution would have needed the overhead of a host too, each task once for every dataflow that uses it, and
batches: those of a job for each dataflow, as they would be launched one by one, or those of as few jobs as can hold
them, packed but without sharing. What the second takes beyond what was measured is what sharing saved; what the first
takes beyond the second is what packing saved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from manager.savings.cost_split import PART, CostSplit, DataflowUsage
from manager.savings.counter_growth import SECOND
from merge import Costs

PARTS_OF_PRICE = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What is not measured by itself; made of what was calibrated."""

    batch: float
    """Seconds of CPU for a batch."""
    batch_low: float
    """Between this and the next it lies."""
    batch_high: float
    bridge: float
    """Cores for a bridge."""
    paused: float
    """Cores for a paused task."""
    pace: float
    """Seconds between two batches of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Nanoseconds that separate execution would have taken, and between what they lie."""

    low: int = 0
    likely: int = 0
    high: int = 0

    def plus(self, more: "Estimate") -> "Estimate":
        """Both; they hang on the same prices, so they are off to the same side."""
        return Estimate(low=self.low + more.low, likely=self.likely + more.likely, high=self.high + more.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Nanoseconds that tasks took, and would have taken once for each dataflow that used them; measured both."""

    done: int = 0
    alone: int = 0

    def plus(self, more: "Work") -> "Work":
        """Both together."""
        return Work(done=self.done + more.done, alone=self.alone + more.alone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a dataflow pays for, and what it would have taken in a job of its own, in nanoseconds; made by `settle`."""

    tenant: str
    cpu: int
    alone: Estimate
    saving: Estimate
    """What is between the two: both hang on the same prices, so it is known better than either."""
    work: Work = field(default_factory=Work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What a while cost whom; made by `settle`."""

    seconds: float
    cpu: Mapping[str, int]
    """Nanoseconds of each part; their sum is the measured whole."""
    shares: Mapping[str, Share] = field(default_factory=dict)
    """Of each dataflow that took something, or would have."""
    overhead: int
    launched: Estimate
    """What a job for each dataflow would have taken."""
    packed: Estimate
    """What as few jobs as can hold them, without sharing, would have taken."""
    work: Work = field(default_factory=Work)

    @property
    def whole(self) -> int:
        """Everything that was measured."""
        return sum(self.cpu.values())


def settle(split: CostSplit, price: Price) -> Settled:
    """What a while cost whom."""
    likely = _paid(split, price, price.batch)
    extremes = [_paid(split, price, batch) for batch in (price.batch_low, price.batch_high)]
    groups = packed(split, price)
    shares = {dataflow: share for dataflow, share in _shares(split, likely, extremes) if share.cpu or share.alone.high}
    return Settled(
        seconds=split.seconds,
        cpu=split.cpu,
        shares=shares,
        overhead=sum(split.cpu.values()) - sum(share.cpu for share in shares.values()),
        launched=_baseline(split, likely, extremes, [[each] for each in split.dataflows]),
        packed=_baseline(split, likely, extremes, groups),
        work=Work(done=split.tasks, alone=sum(taken.tasks_alone for taken in split.dataflows.values())),
    )


def packed(split: CostSplit, price: Price) -> list[list[str]]:
    """The dataflows in as few jobs as can hold them without sharing: the busiest first, each where it still fits."""
    costs = Costs(pace=price.pace, batch=price.batch, busy={})
    span = max(split.seconds, 1e-9) * SECOND
    work = {dataflow: taken.tasks_alone / span for dataflow, taken in split.dataflows.items() if taken.most_alone}
    loads: list[float] = []
    groups: list[list[str]] = []
    for dataflow in sorted(work, key=lambda each: (-work[each], each)):
        place = next((at for at, load in enumerate(loads) if costs.fits(load + work[dataflow])), None)
        if place is None:
            loads.append(work[dataflow])
            groups.append([dataflow])
        else:
            loads[place] += work[dataflow]
            groups[place].append(dataflow)
    return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paid:
    """What was measured, divided by prices that do not account for more than there was; made by `_paid`."""

    task_parts: tuple[int, int]
    """By which fraction tasks count: all of it, but where clocks that are read one after the other disagree."""
    batch: int
    """Nanoseconds for a batch."""
    bridge: int
    """Cores for a bridge, in billionths."""
    rest: int
    """What neither tasks nor batches, bridges or paused tasks took."""

    def tasks(self, taken: int) -> int:
        part, whole = self.task_parts
        return taken * part // whole

    def batches(self, parts: int) -> int:
        return parts * self.batch // PART

    def bridges(self, nanoseconds: int) -> int:
        return nanoseconds * self.bridge // PARTS_OF_PRICE


def _paid(split: CostSplit, price: Price, batch: float) -> _Paid:
    whole = sum(split.cpu.values())
    tasks = min(split.tasks, whole)
    room, done = whole - tasks, sum(split.batches.values())
    wanted = done * batch * SECOND + split.bridges * price.bridge + split.paused * price.paused
    part = min(1.0, room / wanted) if wanted else 1.0
    per_batch, per_bridge = int(batch * SECOND * part), int(price.bridge * PARTS_OF_PRICE * part)
    spent = done * per_batch + split.bridges * per_bridge // PARTS_OF_PRICE + int(split.paused * price.paused * part)
    return _Paid(
        task_parts=(tasks, split.tasks) if split.tasks else (1, 1),
        batch=per_batch,
        bridge=per_bridge,
        rest=max(0, room - spent),
    )


def _shares(split: CostSplit, likely: _Paid, extremes: Sequence[_Paid]) -> list[tuple[str, Share]]:
    return [
        (dataflow, _share(split.tenants[dataflow], taken, likely, extremes))
        for dataflow, taken in split.dataflows.items()
    ]


def _share(tenant: str, taken: DataflowUsage, likely: _Paid, extremes: Sequence[_Paid]) -> Share:
    cpu, alone = _own(taken, likely, taken.batches_alone)
    counts = (taken.fewest_alone, taken.most_alone)
    bounds = [(cpu, alone), *(_own(taken, paid, count) for paid in extremes for count in counts)]
    return Share(
        tenant=tenant,
        cpu=cpu,
        alone=_estimate(alone, [without for _, without in bounds]),
        saving=_estimate(alone - cpu, [without - share for share, without in bounds]),
        work=Work(done=taken.tasks, alone=taken.tasks_alone),
    )


def _own(taken: DataflowUsage, paid: _Paid, batches_alone: int) -> tuple[int, int]:
    """A share, and what it stands against."""
    alone = paid.tasks(taken.tasks_alone) + paid.batches(batches_alone)
    own = paid.tasks(taken.tasks) + paid.batches(taken.batches) + paid.bridges(taken.bridges)
    return min(own, alone), alone


def _estimate(likely: int, bounds: Sequence[int]) -> Estimate:
    return Estimate(low=min(likely, *bounds), likely=likely, high=max(likely, *bounds))


def _baseline(split: CostSplit, likely: _Paid, extremes: Sequence[_Paid], groups: Sequence[Sequence[str]]) -> Estimate:
    tasks = sum(likely.tasks(taken.tasks_alone) for taken in split.dataflows.values())
    fewest, expected, most = (sum(map(partial(_batches, split, at), groups)) for at in (_FEWEST, _EXPECTED, _MOST))
    value = likely.rest + tasks + likely.batches(expected)
    all_of = [paid.rest + tasks + paid.batches(count) for paid in extremes for count in (fewest, most)]
    return _estimate(value, all_of)


_FEWEST, _EXPECTED, _MOST = (
    DataflowUsage._fields.index(name) for name in ("fewest_alone", "batches_alone", "most_alone")
)


def _batches(split: CostSplit, at: int, group: Sequence[str]) -> int:
    """The batches of a job that holds these dataflows, in millionths.

    Never more than the jobs did together that hold them, because the same events would wake it, nor more than its pace
    allows, unless the jobs that there are did more.
    """
    alone = sum(split.dataflows[dataflow][at] for dataflow in group)
    if len(group) == 1:
        return alone
    done = [split.batches.get(job, 0) for job in frozenset[str]().union(*(split.homes[each] for each in group))]
    return min(alone, sum(done) * PART, int(max(split.paces, *done, 0) * PART))
