"""The settlement of a time: the share of each dataflow, the operator's overhead, and the baselines without sharing.

The cost split divides the work between two looks. The CPU of a task is divided equally among the dataflows that use it
at that moment, the batches of a job among those that have tasks in it, and a bridge among those whose events it
carries. This is the Shapley value of the game in which a group of dataflows costs what its tasks, batches and bridges
cost together: a dataflow that uses nothing pays nothing, equals pay the same, and the order of arrival does not matter.
Remainders of integer divisions are left over, so that no dataflow is favoured.

Separate execution is the CPU that the same dataflows would have taken without sharing: the overhead of a host too,
each task once for every dataflow that uses it, and batches. There are two baselines: `launched` has a job for each
dataflow, `packed` as few jobs as can hold them.

No dataflow pays more than it would likely take alone. The rest of the measured CPU is the operator's overhead: the idle
JVM and driver, the broker, paused tasks, and what that cap takes off. Shares and overhead add up to the measured whole,
to the nanosecond.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from manager.savings.counters import SECOND, CounterGrowth, Usage, Users, usage_between
from merge import Costs, work_saved

MILLION = 1_000_000
"""The smallest amounts in a unit of the currency, and the rounding of core hours."""
_NANOSECONDS_PER_HOUR = 3_600 * SECOND


def rate(price: float) -> Fraction:
    """Return the millionths for a nanosecond, exact to the decimal digits of the price of a core hour."""
    return Fraction(str(price)) * MILLION / _NANOSECONDS_PER_HOUR


def money(millionths: int) -> Decimal:
    """Return an amount in units of the currency.

    >>> str(money(12_345_000))
    '12.345000'
    """
    return Decimal(millionths).scaleb(-6)


def core_hours(cpu: int) -> Decimal:
    """Return nanoseconds as core hours, rounded to a millionth.

    >>> str(core_hours(1_800_000_000_000))
    '0.500000'
    """
    return money(round(Fraction(cpu * MILLION, _NANOSECONDS_PER_HOUR)))


def cap_amount(alone: int, price: float) -> int:
    """Return the most that a dataflow pays, in millionths of a currency, rounded up."""
    return math.ceil(alone * rate(price))


class CpuEstimate(NamedTuple):
    """The nanoseconds that separate execution would have taken, with a lower and an upper bound."""

    low: int = 0
    likely: int = 0
    high: int = 0

    def plus(self, more: "CpuEstimate") -> "CpuEstimate":
        """Add two estimates. They depend on the same prices, so their errors have the same sign and bounds add up."""
        return CpuEstimate(*map(int.__add__, self, more))

    def less(self, nanoseconds: int) -> "CpuEstimate":
        """Subtract what was measured."""
        return CpuEstimate(*(bound - nanoseconds for bound in self))


NO_CPU = CpuEstimate()


def estimate_of(likely: int, bounds: Sequence[int]) -> CpuEstimate:
    """Return an estimate whose range contains the likely value and all bounds."""
    return CpuEstimate(low=min(likely, *bounds), likely=likely, high=max(likely, *bounds))


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
    """The fewest batches that a job of its own would do, in millionths; next come the expected number and the most."""
    batches_alone: int = 0
    most_alone: int = 0


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
            name: DataflowUsage(
                tasks[name], batches[name], bridges[name], alone[name], *_alone(name, usage, growth, paces)
            )
            for name in usage.homes
        },
        tenants=usage.tenants,
        homes=usage.homes,
    )


def combined(splits: Iterable[CostSplit]) -> CostSplit:
    """Add up consecutive splits."""
    every = list(splits)
    dataflows: dict[str, DataflowUsage] = {}
    homes: dict[str, frozenset[str]] = {}
    cpu, batches, whole = Counter[str](), Counter[str](), Counter[str]()
    for one in every:
        cpu.update(one.cpu)
        batches.update(one.batches)
        whole.update({"tasks": one.tasks, "bridges": one.bridges, "paused": one.paused})
        for dataflow, more in one.dataflows.items():
            dataflows[dataflow] = DataflowUsage(*map(int.__add__, dataflows.get(dataflow, DataflowUsage()), more))
        for dataflow, jobs in one.homes.items():
            homes[dataflow] = homes.get(dataflow, jobs) | jobs
    return CostSplit(
        seconds=sum(one.seconds for one in every),
        paces=sum(one.paces for one in every),
        cpu=dict(cpu),
        batches=dict(batches),
        dataflows=dataflows,
        tenants={name: tenant for one in every for name, tenant in one.tenants.items()},
        homes=homes,
        **whole,
    )


def _divide(amount: int, users: Users, parts: "Counter[str]") -> None:
    for dataflow in users:
        parts[dataflow] += amount // len(users)


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


_PARTS_OF_CORE = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The prices of everything but tasks, whose CPU is measured; made from the calibration."""

    batch: float
    """Seconds of CPU per batch; the next two are its bounds."""
    batch_low: float
    batch_high: float
    bridge: float
    """Cores per bridge."""
    paused: float
    """Cores per paused task."""
    pace: float
    """Seconds between two batches of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPrices:
    """Prices in whole numbers that together do not exceed the measured CPU; made by `fit`."""

    task_parts: tuple[int, int]
    """The fraction of the tasks' CPU that counts. It is below one only if clocks read at different times disagree."""
    batch: int
    """Nanoseconds per batch."""
    bridge: int
    """Billionths of a core per bridge."""
    rest: int
    """Nanoseconds that tasks, batches, bridges and paused tasks do not account for."""

    def tasks(self, taken: int) -> int:
        """Return the nanoseconds that count for tasks."""
        part, whole = self.task_parts
        return taken * part // whole

    def batches(self, parts: int) -> int:
        """Return the nanoseconds for parts of batches."""
        return parts * self.batch // PART

    def bridges(self, nanoseconds: int) -> int:
        """Return the nanoseconds of CPU for the time that bridges existed."""
        return nanoseconds * self.bridge // _PARTS_OF_CORE


def fit(split: CostSplit, price: Price, batch: float) -> FittedPrices:
    """Scale prices to the measured CPU; `batch` is the price of a batch."""
    whole = sum(split.cpu.values())
    tasks = min(split.tasks, whole)
    room, done = whole - tasks, sum(split.batches.values())
    wanted = done * batch * SECOND + split.bridges * price.bridge + split.paused * price.paused
    part = min(1.0, room / wanted) if wanted else 1.0
    per_batch, per_bridge = int(batch * SECOND * part), int(price.bridge * _PARTS_OF_CORE * part)
    spent = done * per_batch + split.bridges * per_bridge // _PARTS_OF_CORE + int(split.paused * price.paused * part)
    return FittedPrices(
        task_parts=(tasks, split.tasks) if split.tasks else (1, 1),
        batch=per_batch,
        bridge=per_bridge,
        rest=max(0, room - spent),
    )


def packed_groups(split: CostSplit, price: Price) -> list[list[str]]:
    """Group dataflows for the packed baseline: first fit, the busiest dataflow first."""
    costs = Costs(pace=price.pace, batch=price.batch, busy={})
    span = max(split.seconds, 1e-9) * SECOND
    work = {dataflow: taken.tasks_alone / span for dataflow, taken in split.dataflows.items() if taken.most_alone}
    loads: list[float] = []
    groups: list[list[str]] = []
    for dataflow in sorted(work, key=lambda name: (-work[name], name)):
        place = next((at for at, load in enumerate(loads) if costs.fits(load + work[dataflow])), None)
        if place is None:
            loads.append(work[dataflow])
            groups.append([dataflow])
        else:
            loads[place] += work[dataflow]
            groups[place].append(dataflow)
    return groups


def baseline(
    split: CostSplit, likely: FittedPrices, extremes: Sequence[FittedPrices], groups: Sequence[Sequence[str]]
) -> CpuEstimate:
    """Estimate the CPU of all dataflows, run in one job for each group without sharing."""
    tasks = sum(likely.tasks(taken.tasks_alone) for taken in split.dataflows.values())
    fewest, expected, most = (
        sum(_batches(split, name, group) for group in groups)
        for name in ("fewest_alone", "batches_alone", "most_alone")
    )
    bounds = [prices.rest + tasks + prices.batches(count) for prices in extremes for count in (fewest, most)]
    return estimate_of(likely.rest + tasks + likely.batches(expected), bounds)


def _batches(split: CostSplit, alone_by: str, group: Sequence[str]) -> int:
    """Return the parts of batches that a job with these dataflows would do, by a count of `DataflowUsage`.

    It never does more than their present jobs did together, because the same events would wake it. Nor does it do more
    than its pace allows, unless a present job did.
    """
    alone: int = sum(getattr(split.dataflows[dataflow], alone_by) for dataflow in group)
    if len(group) == 1:
        return alone
    jobs = frozenset[str]().union(*(split.homes[dataflow] for dataflow in group))
    done = [split.batches.get(job, 0) for job in jobs]
    return min(alone, sum(done) * PART, int(max(split.paces, *done, 0) * PART))


class Work(NamedTuple):
    """The nanoseconds that tasks took, and those that they would have taken without sharing; both are measured."""

    done: int = 0
    alone: int = 0

    def plus(self, more: "Work") -> "Work":
        """Add two amounts of work."""
        return Work(*map(int.__add__, self, more))


NO_WORK = Work()


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCpu:
    """What sharing and packing saved; made by `saved_cpu`."""

    work_by_sharing: float | None
    """The part of the work that sharing saved, between 0 and 1; None where no work was shared."""
    by_sharing: int | None
    """That work in nanoseconds; measured."""
    by_packing: CpuEstimate
    """Nanoseconds; below 0 where the layout of jobs costs more than it saves."""


def saved_cpu(work: Work, difference: CpuEstimate) -> SavedCpu:
    """Divide the difference between running alone and what was measured, to which both add up.

    Sharing saves work: a task that several dataflows use runs once. Packing saves the rest of what separate jobs would
    take: batches, less what bridges and paused tasks cost.

    >>> saved_cpu(Work(done=6, alone=8), CpuEstimate(low=1, likely=5, high=9))
    SavedCpu(work_by_sharing=0.25, by_sharing=2, by_packing=CpuEstimate(low=-1, likely=3, high=7))
    >>> saved_cpu(Work(done=6, alone=6), CpuEstimate(low=1, likely=5, high=9))
    SavedCpu(work_by_sharing=None, by_sharing=None, by_packing=CpuEstimate(low=1, likely=5, high=9))
    """
    if work.alone <= work.done:
        return SavedCpu(work_by_sharing=None, by_sharing=None, by_packing=difference)
    shared = work.alone - work.done
    part = work_saved(work.done, work.alone)
    return SavedCpu(work_by_sharing=part, by_sharing=shared, by_packing=difference.less(shared))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredShare:
    """A share and its stand-alone estimate, in nanoseconds."""

    cpu: int = 0
    alone: CpuEstimate = NO_CPU
    saving: CpuEstimate = NO_CPU
    """The difference. Both depend on the same prices, so it is more precise than either."""
    work: Work = NO_WORK

    @property
    def saved(self) -> SavedCpu:
        """What sharing and packing saved, against a job of its own."""
        return saved_cpu(self.work, self.saving)

    def plus(self, more: "MeteredShare") -> "MeteredShare":
        """Add more to it."""
        return MeteredShare(
            cpu=self.cpu + more.cpu,
            alone=self.alone.plus(more.alone),
            saving=self.saving.plus(more.saving),
            work=self.work.plus(more.work),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(MeteredShare):
    """The share of a dataflow; made by `shares_of`."""

    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The totals of a time, in nanoseconds."""

    seconds: float = 0.0
    """The part of the time that was metered."""
    cpu: Mapping[str, int] = field(default_factory=dict)
    """The measured CPU by part."""
    overhead: int = 0
    launched: CpuEstimate = NO_CPU
    """The baseline with a job for each dataflow."""
    packed: CpuEstimate = NO_CPU
    """The baseline with as few jobs as can hold all dataflows, without sharing."""
    work: Work = NO_WORK

    @property
    def measured(self) -> int:
        """The CPU of all parts."""
        return sum(self.cpu.values())

    @property
    def saved(self) -> SavedCpu:
        """What sharing and packing saved, against a job for each dataflow."""
        return saved_cpu(self.work, self.launched.less(self.measured))

    def plus(self, more: "Whole") -> "Whole":
        """Add more to it."""
        parts = sorted({*self.cpu, *more.cpu})
        return Whole(
            seconds=self.seconds + more.seconds,
            cpu={part: self.cpu.get(part, 0) + more.cpu.get(part, 0) for part in parts},
            overhead=self.overhead + more.overhead,
            launched=self.launched.plus(more.launched),
            packed=self.packed.plus(more.packed),
            work=self.work.plus(more.work),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement(Whole):
    """The totals of a time with its shares; made by `settle`."""

    shares: Mapping[str, Share] = field(default_factory=dict)
    """The shares of all dataflows that took CPU, or would have alone."""


def shares_of(split: CostSplit, price: Price) -> dict[str, Share]:
    """Return the shares of all dataflows that took CPU, or would have alone."""
    return _shares(split, *_fitted(split, price))


def _shares(split: CostSplit, likely: FittedPrices, *extremes: FittedPrices) -> dict[str, Share]:
    return {
        dataflow: share
        for dataflow, taken in split.dataflows.items()
        if (share := _share(split.tenants[dataflow], taken, likely, extremes)).cpu or share.alone.high
    }


def _fitted(split: CostSplit, price: Price) -> list[FittedPrices]:
    """The prices by the likely cost of a batch, and by its bounds."""
    return [fit(split, price, batch) for batch in (price.batch, price.batch_low, price.batch_high)]


def settle(split: CostSplit, price: Price) -> Settlement:
    """Settle a time."""
    likely, *extremes = _fitted(split, price)
    shares = _shares(split, likely, *extremes)
    return Settlement(
        seconds=split.seconds,
        cpu=split.cpu,
        shares=shares,
        overhead=sum(split.cpu.values()) - sum(share.cpu for share in shares.values()),
        launched=baseline(split, likely, extremes, [[dataflow] for dataflow in split.dataflows]),
        packed=baseline(split, likely, extremes, packed_groups(split, price)),
        work=Work(done=split.tasks, alone=sum(taken.tasks_alone for taken in split.dataflows.values())),
    )


def _share(tenant: str, taken: DataflowUsage, likely: FittedPrices, extremes: Sequence[FittedPrices]) -> Share:
    cpu, alone = _priced(taken, likely, taken.batches_alone)
    counts = (taken.fewest_alone, taken.most_alone)
    bounds = [(cpu, alone), *(_priced(taken, prices, count) for prices in extremes for count in counts)]
    return Share(
        tenant=tenant,
        cpu=cpu,
        alone=estimate_of(alone, [without for _, without in bounds]),
        saving=estimate_of(alone - cpu, [without - share for share, without in bounds]),
        work=Work(done=taken.tasks, alone=taken.tasks_alone),
    )


def _priced(taken: DataflowUsage, prices: FittedPrices, batches_alone: int) -> tuple[int, int]:
    """Return the share, and what the dataflow would take in a job of its own with so many parts of batches."""
    alone = prices.tasks(taken.tasks_alone) + prices.batches(batches_alone)
    share = prices.tasks(taken.tasks) + prices.batches(taken.batches) + prices.bridges(taken.bridges)
    return min(share, alone), alone
