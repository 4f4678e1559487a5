"""Changes of paces: which job gets another one now. Pure.

A job is slowed down once that has been right for a while, one job at a time. It is quick again at once, because
somebody waits for its outputs longer than allowed.
"""

from collections.abc import Iterable, Mapping

from merge import JobId, Repace

PACE_HOLDS = 60.0
"""Seconds for which a slower pace must be right."""
Steady = Mapping[tuple[JobId, float], float]
"""Since when each job should have each pace; minus infinity once that was done or said."""


def steady(known: Steady, found: Iterable[Repace], usual: float, now: float) -> tuple[Steady, Repace | None]:
    """Return the state for the next look, and the change to make now, if there is one.

    What was made and is still found, because it is only previewed, is not made again.
    """
    wanted = {(each.job, each.pace): each for each in found}
    since = {key: known.get(key, now) for key in wanted}
    holds = {key: 0.0 if each.pace <= usual else PACE_HOLDS for key, each in wanted.items()}
    ripe = next((key for key, at in since.items() if at != _DONE and now - at >= holds[key]), None)
    if ripe is None:
        return since, None
    return {**since, ripe: _DONE}, wanted[ripe]


_DONE = float("-inf")
