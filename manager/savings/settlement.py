"""The settlement of a time: the share of each dataflow, the operator's overhead, and the baselines without sharing.

A dataflow's share is its part of tasks, batches and bridges, up to the cap in `manager.savings.bill_cap`. The rest of
the measured CPU is the operator's overhead: the idle JVM and driver, the broker, paused tasks, and what the cap takes
off. Shares and overhead add up to the measured whole, to the nanosecond.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from manager.savings.bill_cap import capped
from manager.savings.cost_split import CostSplit, DataflowUsage
from manager.savings.cpu_estimate import CpuEstimate, estimate_of
from manager.savings.prices import FittedPrices, Price, fit
from manager.savings.separate_execution import baseline, launched_groups, packed_groups, stand_alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The nanoseconds that tasks took, and those that they would have taken without sharing; both are measured."""

    done: int = 0
    alone: int = 0

    def plus(self, more: "Work") -> "Work":
        """Add two amounts of work."""
        return Work(done=self.done + more.done, alone=self.alone + more.alone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of a dataflow and its stand-alone estimate, in nanoseconds; made by `settle`."""

    tenant: str
    cpu: int
    alone: CpuEstimate
    saving: CpuEstimate
    """The difference. Both depend on the same prices, so it is more precise than either."""
    work: Work = field(default_factory=Work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The shares, the overhead and the baselines of a time, in nanoseconds; made by `settle`."""

    seconds: float
    cpu: Mapping[str, int]
    """The measured CPU by part; the sum is the measured whole."""
    shares: Mapping[str, Share] = field(default_factory=dict)
    """The shares of all dataflows that took CPU, or would have alone."""
    overhead: int
    launched: CpuEstimate
    """The baseline with a job for each dataflow."""
    packed: CpuEstimate
    """The baseline with as few jobs as can hold all dataflows, without sharing."""
    work: Work = field(default_factory=Work)


def settle(split: CostSplit, price: Price) -> Settlement:
    """Settle a time."""
    likely = fit(split, price, price.batch)
    extremes = [fit(split, price, batch) for batch in (price.batch_low, price.batch_high)]
    shares = {
        dataflow: share
        for dataflow, taken in split.dataflows.items()
        if (share := _share(split.tenants[dataflow], taken, likely, extremes)).cpu or share.alone.high
    }
    return Settlement(
        seconds=split.seconds,
        cpu=split.cpu,
        shares=shares,
        overhead=sum(split.cpu.values()) - sum(share.cpu for share in shares.values()),
        launched=baseline(split, likely, extremes, launched_groups(split)),
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
    """Return the share and the stand-alone cost."""
    alone = stand_alone(taken, prices, batches_alone)
    share = prices.tasks(taken.tasks) + prices.batches(taken.batches) + prices.bridges(taken.bridges)
    return capped(share, alone), alone
