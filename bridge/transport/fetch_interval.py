"""Grouping: how long what has come of a stream lies at the broker before it is fetched.

To fetch, to spool and to acknowledge costs nearly the same for one message and for a hundred. So a stream is fetched as
seldom as those who read it cannot notice: a few times in the shortest of their paces, and just before their batches are
due. What is fetched is spooled at once; until then the broker keeps it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

SHORTEST_FETCH_INTERVAL = 0.05
"""Seconds between two fetches where a pace is short, or nothing is saved by more."""
_LONGEST = 0.25
"""Seconds between two fetches where the paces are long."""
_FETCHES_PER_PACE = 4
"""Times in a pace that a stream is fetched at least: what misses a batch is a part of what it was to have."""
_AHEAD = 0.05
"""Seconds before a batch is due that the last of what it is to have is fetched, at least."""
LEEWAY = 1.5
"""Times as long as the fetch before took to be spooled, where that is more: a disk may be slow, or far away."""
PAYING = range(2, 200)
"""How many messages of one fetch let the next one wait for longer than the shortest while.

Where each comes alone nothing would be saved, and many streams would be fetched at the same moment. Where more come,
they must stay far fewer than a broker sends before some are acknowledged.
"""


class Fetch(NamedTuple):
    """What a fetch was like."""

    took: float = 0.0
    """Seconds that it took to read."""
    messages: int = 0
    """How many it brought."""
    acknowledged: float = 0.0
    """Seconds from its beginning until what it brought was spooled and acknowledged."""


Grouping = Callable[[Fetch], float]
"""Seconds for which the next fetch waits once something has come, by what the one before was like."""


def ungrouped(_before: Fetch) -> float:
    """Nothing is waited for."""
    return 0.0


def grouped_for(pace: float, *, now: float, before: Fetch) -> float:
    """Seconds for which a fetch waits at a moment, where the shortest pace of those who read the stream is so long.

    >>> few = Fetch(messages=25)
    >>> [round(grouped_for(1.0, now=now, before=few), 2) for now in (7.0, 7.19, 7.21, 7.96)]
    [0.2, 0.01, 0.24, 0.24]
    >>> [grouped_for(1.0, now=7.0, before=Fetch(messages=messages)) for messages in (1, 200)]
    [0.05, 0.05]
    """
    every = pace / max(_FETCHES_PER_PACE, math.ceil(pace / _LONGEST))
    if every <= SHORTEST_FETCH_INTERVAL or before.messages not in PAYING:
        # One that takes longer groups by that already.
        return max(0.0, SHORTEST_FETCH_INTERVAL - before.took)
    ahead = min(every, max(_AHEAD, LEEWAY * before.acknowledged))
    # Batches are due at whole paces of the clock.
    return every - (now + ahead) % every
