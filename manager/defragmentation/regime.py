"""The regime of what runs here and now, by what was measured of it and what things were found to cost. Pure."""

from collections.abc import Mapping

from merge import Costs, Fragmentation, Instance, Regime


def regime_here(costs: Costs, found: Fragmentation, users: Mapping[Instance, int], dataflows: int) -> Regime:
    """What runs, as far as it says what saves most; `users` has how many dataflows use each running task.

    Which jobs sharing alone would spare is not known where they are packed too, so none is counted.
    """
    # In order, because a sum's last digit depends on it.
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
