"""The balance of key groups: which shard of a job has which, so that all have about as much to do.

A group that moves takes its state along, so few move: the hot ones, and only where that makes a difference.
"""

from collections.abc import Sequence

UNEVEN = 1.25
"""How much more than the mean the fullest shard has to do before groups move."""
EVEN = 1.05
"""How much more it may have afterwards, so that no more groups move than need to."""
BETTER = 0.9
"""The part of its load that the fullest shard may keep at most; for less than that nothing moves."""


def loads_of(groups: Sequence[int], loads: Sequence[float], shards: int) -> list[float]:
    """The load of each shard.

    >>> loads_of((0, 0, 1), (1.0, 2.0, 4.0), 2)
    [3.0, 4.0]
    """
    found = [0.0] * shards
    for group, load in enumerate(loads):
        found[groups[group]] += load
    return found


def balanced(groups: tuple[int, ...], loads: Sequence[float], shards: int) -> tuple[int, ...]:
    """The shard of each key group, given that of each now and its load; as now where that is good enough or unknown."""
    found = list(groups)
    full = loads_of(groups, loads, shards)
    before, mean = max(full), sum(full) / shards
    if before <= UNEVEN * mean:
        return groups
    for _ in groups:
        if max(full) <= EVEN * mean:
            break
        fullest, emptiest = full.index(max(full)), full.index(min(full))
        gap = full[fullest] - full[emptiest]
        # Both have less than the fullest had, as long as what moves is less than the gap; best is half of it.
        moves = [group for group, shard in enumerate(found) if shard == fullest and 0.0 < loads[group] < gap]
        if not moves:
            break
        group = min(moves, key=lambda each: (abs(loads[each] - gap / 2), each))
        found[group] = emptiest
        full[fullest] -= loads[group]
        full[emptiest] += loads[group]
    return tuple(found) if max(full) <= BETTER * before else groups
