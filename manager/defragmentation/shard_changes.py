"""Changes of shards: which job gets another number of them now. Pure.

Another number has to be right for a while. Figures are means over a minute, and those from before a change say nothing
about the job after it. So each job is given the same while again after each change. Jobs change one at a time.
"""

from collections.abc import Iterable, Mapping

from merge import JobId, Rescale

SHARDS_HOLD = 60.0
"""Seconds for which a job must need more shards, or fewer."""
Wanted = Mapping[tuple[JobId, bool], float]
"""Since when each job has needed more shards (true) or fewer, without a break."""


def due(
    wanted: Wanted, found: Iterable[Rescale], shards: Mapping[JobId, int], now: float
) -> tuple[Wanted, Rescale | None]:
    """Return the state for the next look, and the change to make now, if there is one; the first of the found counts.

    `shards` has the present number for each job.
    """
    needs = {(each.job, each.shards > shards[each.job]): each for each in found}
    since = {need: wanted.get(need, now) for need in needs}
    ripe = next((need for need in needs if now - since[need] >= SHARDS_HOLD), None)
    if ripe is None:
        return since, None
    return {need: at for need, at in since.items() if need != ripe}, needs[ripe]
