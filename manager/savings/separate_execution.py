"""Separate execution: the CPU that the same dataflows would have taken without sharing.

It would have needed the overhead of a host too, each task once for every dataflow that uses it, and batches. There are
two baselines: `launched` has a job for each dataflow, `packed` as few jobs as can hold them.
"""

from collections.abc import Sequence
from functools import partial

from manager.savings.cost_split import PART, CostSplit, DataflowUsage
from manager.savings.counter_growth import SECOND
from manager.savings.cpu_estimate import CpuEstimate, estimate_of
from manager.savings.prices import FittedPrices, Price
from merge import Costs


def stand_alone(taken: DataflowUsage, prices: FittedPrices, batches: int) -> int:
    """Return the nanoseconds that a dataflow would have taken in a job of its own that did so many parts of batches."""
    return prices.tasks(taken.tasks_alone) + prices.batches(batches)


def launched_groups(split: CostSplit) -> list[list[str]]:
    """Group dataflows for the launched baseline: each in a job of its own."""
    return [[each] for each in split.dataflows]


def packed_groups(split: CostSplit, price: Price) -> list[list[str]]:
    """Group dataflows for the packed baseline: first fit, the busiest dataflow first."""
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


def baseline(
    split: CostSplit, likely: FittedPrices, extremes: Sequence[FittedPrices], groups: Sequence[Sequence[str]]
) -> CpuEstimate:
    """Estimate the CPU of all dataflows, run in one job for each group without sharing."""
    tasks = sum(likely.tasks(taken.tasks_alone) for taken in split.dataflows.values())
    fewest, expected, most = (sum(map(partial(_batches, split, at), groups)) for at in (_FEWEST, _EXPECTED, _MOST))
    bounds = [prices.rest + tasks + prices.batches(count) for prices in extremes for count in (fewest, most)]
    return estimate_of(likely.rest + tasks + likely.batches(expected), bounds)


_FEWEST, _EXPECTED, _MOST = (
    DataflowUsage._fields.index(name) for name in ("fewest_alone", "batches_alone", "most_alone")
)


def _batches(split: CostSplit, at: int, group: Sequence[str]) -> int:
    """Return the parts of batches that a job with these dataflows would do.

    It never does more than their present jobs did together, because the same events would wake it. Nor does it do more
    than its pace allows, unless a present job did.
    """
    alone = sum(split.dataflows[dataflow][at] for dataflow in group)
    if len(group) == 1:
        return alone
    done = [split.batches.get(job, 0) for job in frozenset[str]().union(*(split.homes[each] for each in group))]
    return min(alone, sum(done) * PART, int(max(split.paces, *done, 0) * PART))
