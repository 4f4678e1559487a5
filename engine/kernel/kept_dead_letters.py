"""The dead letters of a batch that are kept: the newest of each task, as many as the service keeps of it.

A task that can take nothing would otherwise send all its events once more, through a broker and a database that it
shares with others, only to have them dropped there.
"""

from collections.abc import Sequence
from dataclasses import replace

from engine.records.record import Dead

MOST_DEAD_BYTES = 16 * 1024 * 1024
"""Bytes of events of one task in one batch."""
MOST_DEAD = 1_000
"""Groups of neighbours with one reason, of one task in one batch; each is a message."""


def newest(dead: Sequence[Dead], *, most: int = MOST_DEAD, most_bytes: int = MOST_DEAD_BYTES) -> list[Dead]:
    """The last dead letters of one task; of the first that is kept perhaps only its last events, but one at least."""
    kept: list[Dead] = []
    left = most_bytes
    for each in reversed(dead[-most:]):
        size, count = each.events.nbytes, each.events.num_rows
        if size > left:
            fit = count * left // size
            if fit or not kept:
                kept.append(replace(each, events=each.events.slice(count - max(1, fit))))
            break
        left -= size
        kept.append(each)
    return kept[::-1]
