"""The present regime: figures that decide which of sharing, packing and defragmenting saves most. Pure."""

from collections.abc import Mapping

from merge import Costs, Fragmentation, Instance, Regime


def regime_here(costs: Costs, found: Fragmentation, users: Mapping[Instance, int], dataflows: int) -> Regime:
    """Return the present regime; `users` has the number of dataflows that use each running task.

    Jobs that sharing alone would save are not counted: they cannot be known if tasks are packed too.
    """
    # Sorted, because the last digit of a sum depends on the order.
    busy = [(costs.busy[instance], users[instance]) for instance in sorted(users)]
    return Regime(
        dataflows=dataflows,
        work=sum(each * many for each, many in busy),
        shared=sum(each for each, _ in busy),
        jobs=found.jobs,
        bridges=found.bridges,
        pace=costs.pace,
        batch=costs.batch,
        bridge=costs.bridge,
    )
