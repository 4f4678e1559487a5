"""Throughput: what a dataflow takes, does and leaves with given cores, in two passes.

The first pass is ideal, with plenty of cores; the second is actual. Relative throughput compares both at the sinks. The
thesis compares a sink with what reaches it, so that one that is starved from above counts as fully served.
"""

from collections.abc import Mapping, Sequence

from provisioning.dataflow_figures import Active, DataflowFigures

Limits = Mapping[tuple[int, int], float]
"""Events a second that fit through the network from one task to another; edges that are not there have no limit."""
NO_LIMITS: Limits = {}


def ideal_rates(dataflow: DataflowFigures, active: Active, rates: Mapping[str, float]) -> list[float]:
    """Events a second that reach each task if all are served."""
    given: list[float] = []
    taken: list[float] = []
    for task, parents, choice in zip(dataflow.tasks, dataflow.parents, active, strict=True):
        rate = rates.get(task.name, 0.0)
        for parent in parents:
            rate += given[parent]
        taken.append(rate)
        given.append(rate * task.alternates[choice].selectivity)
    return taken


def needs(dataflow: DataflowFigures, active: Active, rates: Mapping[str, float]) -> list[float]:
    """The reference cores that each task takes if all events are served."""
    taken = ideal_rates(dataflow, active, rates)
    return [rate * dataflow.alternate(at, active).cost for at, rate in enumerate(taken)]


def served(
    dataflow: DataflowFigures,
    active: Active,
    rates: Mapping[str, float],
    capacity: Sequence[float],
    limits: Limits = NO_LIMITS,
) -> tuple[list[float], list[float]]:
    """Events a second that reach each task, and those that it processes, with so many reference cores for each."""
    given: list[float] = []
    taken: list[float] = []
    done: list[float] = []
    for at, (task, parents, choice) in enumerate(zip(dataflow.tasks, dataflow.parents, active, strict=True)):
        rate = rates.get(task.name, 0.0)
        for parent in parents:
            rate += min(given[parent], limits.get((parent, at), given[parent])) if limits else given[parent]
        alternate = task.alternates[choice]
        taken.append(rate)
        # Compared as cores, since a division would round what is just enough to a little less.
        did = rate if rate * alternate.cost <= capacity[at] else capacity[at] / alternate.cost
        done.append(did)
        given.append(did * alternate.selectivity)
    return taken, done


def omega(
    dataflow: DataflowFigures,
    active: Active,
    rates: Mapping[str, float],
    capacity: Sequence[float],
    limits: Limits = NO_LIMITS,
) -> float:
    """The relative throughput: the mean over sinks and tenants of what is served, of what would ideally be."""
    ideal = ideal_rates(dataflow, active, rates)
    _, done = served(dataflow, active, rates, capacity, limits)
    return mean_share(dataflow, done, ideal)


def mean_share(dataflow: DataflowFigures, done: Sequence[float], ideal: Sequence[float]) -> float:
    """The mean over sinks and tenants of what is done, of what would ideally be; a sink without events is served."""
    total = shares = 0.0
    for at in dataflow.sinks:
        tenants = dataflow.tasks[at].tenants
        total += tenants
        shares += tenants * (min(1.0, done[at] / ideal[at]) if ideal[at] > 0 else 1.0)
    return shares / total if total else 1.0


def local_shares(taken: Sequence[float], done: Sequence[float]) -> list[float]:
    """What each task does of what reaches it; the least is the bottleneck."""
    return [did / rate if rate > 0 else 1.0 for rate, did in zip(taken, done, strict=True)]
