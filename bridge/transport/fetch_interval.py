"""The fetch interval: how long the messages of a stream stay at the broker before they are fetched.

Fetching, spooling and acknowledging costs nearly the same for one message and for a hundred. So a stream is fetched as
rarely as its readers do not notice: a few times in the shortest of their paces, and just before their batches are due.
Fetched messages are spooled at once; until then the broker keeps them.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

SHORTEST_FETCH_INTERVAL = 0.05
"""Seconds between two fetches if the pace is short, or if longer intervals save nothing."""
_LONGEST = 0.25
"""Seconds between two fetches if the paces are long."""
_FETCHES_PER_PACE = 4
"""Fetches in each pace, at least: only a part of a batch's messages can come too late for it."""
_AHEAD = 0.05
"""Seconds between the last fetch for a batch and the batch, at least."""
LEEWAY = 1.5
"""Multiple of the time that spooling the last fetch took, if that is more: a disk may be slow, or far away."""
PAYING = range(2, 200)
"""Numbers of messages in one fetch after which the next one waits longer than the shortest interval.

If each message comes alone, nothing would be saved, and many streams would be fetched at the same moment. If more
come, they must stay far fewer than a broker sends without acknowledgements.
"""


class Fetch(NamedTuple):
    """The duration and size of a fetch."""

    took: float = 0.0
    """Seconds of reading."""
    messages: int = 0
    """The number of messages."""
    acknowledged: float = 0.0
    """Seconds from its beginning until its messages were spooled and acknowledged."""


Grouping = Callable[[Fetch], float]
"""Computes, from the last fetch, the seconds that the next one waits once a message has come."""


def ungrouped(_before: Fetch) -> float:
    """Fetch at once."""
    return 0.0


def grouped_for(pace: float, *, now: float, before: Fetch) -> float:
    """Seconds that a fetch waits, given the shortest pace of the stream's readers.

    >>> few = Fetch(messages=25)
    >>> [round(grouped_for(1.0, now=now, before=few), 2) for now in (7.0, 7.19, 7.21, 7.96)]
    [0.2, 0.01, 0.24, 0.24]
    >>> [grouped_for(1.0, now=7.0, before=Fetch(messages=messages)) for messages in (1, 200)]
    [0.05, 0.05]
    """
    every = pace / max(_FETCHES_PER_PACE, math.ceil(pace / _LONGEST))
    if every <= SHORTEST_FETCH_INTERVAL or before.messages not in PAYING:
        # A fetch that takes longer groups messages already.
        return max(0.0, SHORTEST_FETCH_INTERVAL - before.took)
    ahead = min(every, max(_AHEAD, LEEWAY * before.acknowledged))
    # Batches are due at multiples of the pace.
    return every - (now + ahead) % every
