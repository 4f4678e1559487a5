"""The fetch interval: how long the messages of a stream stay at the broker before they are fetched.

Fetching, spooling and acknowledging costs nearly the same for one message and for a hundred. So a stream is fetched
once for each batch, just before it may begin; after a quiet while, what comes within the shortest interval is fetched
together. Fetched messages are spooled at once; until then the broker keeps them.

A broker may hand out only so many before they are acknowledged. So the next fetch is soon after one that brought many,
or after one that brought as many as any before and was acknowledged just before the next message came.
"""

from collections.abc import Callable
from typing import NamedTuple

SHORTEST_FETCH_INTERVAL = 0.05
"""Seconds between the beginnings of two fetches, at least."""
LONGEST_FETCH_INTERVAL = 1.0
"""Seconds that messages wait at most."""
FETCH_AHEAD = 0.01
"""Seconds between a fetch and the batch that it is for, at least."""
PART_AHEAD = 0.05
"""The part of its wait by which a fetch is early: what comes too late for its batch waits for a whole pace more."""
LEEWAY = 1.5
"""Multiple of the time that spooling the last fetch took, if that is more: a disk may be slow, or far away."""
MANY_MESSAGES = 200
"""Messages in one fetch after which the next one does not wait for a batch."""
SMALLEST_WINDOW = 10
"""Messages that any broker hands out before one is acknowledged."""
AT_ONCE = 0.02
"""Seconds after an acknowledgement within which a broker sends what has waited for that."""


class Fetch(NamedTuple):
    """The time and size of a fetch."""

    begun: float = 0.0
    """When it began, in seconds of `time.monotonic`."""
    messages: int = 0
    """The number of messages."""
    acknowledged: float = 0.0
    """Seconds from its beginning until its messages were spooled and acknowledged."""
    most: int = 0
    """The most messages of any fetch before it over the same connection."""

    def is_full(self, now: float) -> bool:
        """Whether the broker may have more, given when the first message after this fetch came."""
        at_once = now - self.begun - self.acknowledged < AT_ONCE
        return self.messages >= MANY_MESSAGES or (at_once and self.messages >= max(self.most, SMALLEST_WINDOW))


Grouping = Callable[[Fetch], float]
"""Computes, from the last fetch, the seconds that the next one waits once a message has come."""


def next_batch_after(before: Fetch) -> float:
    """The time after which a batch has to be due for another fetch to be in time for it."""
    return before.begun + SHORTEST_FETCH_INTERVAL + FETCH_AHEAD


def ungrouped(_before: Fetch) -> float:
    """Fetch at once."""
    return 0.0


def fetch_wait(due: float, *, now: float, before: Fetch) -> float:
    """Seconds that a fetch waits, given when the next batch of the stream's readers may begin.

    >>> few = Fetch(begun=7.0, messages=25, most=32)
    >>> [round(fetch_wait(7.2, now=now, before=few), 2) for now in (7.0, 7.18, 7.3)]
    [0.19, 0.01, 0.05]
    >>> [round(fetch_wait(due, now=7.0, before=few), 2) for due in (6.0, 9.0)]
    [0.05, 1.0]
    >>> round(fetch_wait(7.2, now=7.0, before=few._replace(messages=32)), 2)
    0.05
    """
    earliest = before.begun + SHORTEST_FETCH_INTERVAL
    if not before.is_full(now):
        ahead = max(FETCH_AHEAD, PART_AHEAD * (due - now), LEEWAY * before.acknowledged)
        earliest = max(earliest, due - ahead)
    return min(earliest - now if earliest > now else SHORTEST_FETCH_INTERVAL, LONGEST_FETCH_INTERVAL)
