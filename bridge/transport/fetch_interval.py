"""The fetch interval: how long the messages of a stream stay at the broker before they are fetched.

Fetching, spooling and acknowledging costs nearly the same for one message and for a hundred. So a stream is fetched
once for each batch, just before it may begin; after a quiet while, what comes within the shortest interval is fetched
together. Fetched messages are spooled at once; until then the broker keeps them.
"""

from collections.abc import Callable
from typing import NamedTuple

SHORTEST_FETCH_INTERVAL = 0.05
"""Seconds between the beginnings of two fetches, at least."""
LONGEST_FETCH_INTERVAL = 0.25
"""Seconds that messages wait at most."""
FETCH_AHEAD = 0.01
"""Seconds between a fetch and the batch that it is for, at least."""
LEEWAY = 1.5
"""Multiple of the time that spooling the last fetch took, if that is more: a disk may be slow, or far away."""
MANY_MESSAGES = 200
"""Messages in one fetch after which the next one does not wait for a batch.

They must stay far fewer than a broker sends without acknowledgements.
"""


class Fetch(NamedTuple):
    """The time and size of a fetch."""

    begun: float = 0.0
    """When it began, in seconds of `time.monotonic`."""
    messages: int = 0
    """The number of messages."""
    acknowledged: float = 0.0
    """Seconds from its beginning until its messages were spooled and acknowledged."""


Grouping = Callable[[Fetch], float]
"""Computes, from the last fetch, the seconds that the next one waits once a message has come."""


def ungrouped(_before: Fetch) -> float:
    """Fetch at once."""
    return 0.0


def fetch_wait(due: float, *, now: float, before: Fetch) -> float:
    """Seconds that a fetch waits, given when the next batch of the stream's readers may begin.

    >>> few = Fetch(begun=7.0, messages=25)
    >>> [round(fetch_wait(7.2, now=now, before=few), 2) for now in (7.0, 7.18, 7.3)]
    [0.19, 0.01, 0.05]
    >>> [round(fetch_wait(due, now=7.0, before=few), 2) for due in (6.0, 9.0)]
    [0.05, 0.25]
    """
    earliest = before.begun + SHORTEST_FETCH_INTERVAL
    if before.messages < MANY_MESSAGES:
        earliest = max(earliest, due - max(FETCH_AHEAD, LEEWAY * before.acknowledged))
    return min(earliest - now if earliest > now else SHORTEST_FETCH_INTERVAL, LONGEST_FETCH_INTERVAL)
