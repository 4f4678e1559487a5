"""The births of the events that leave a job in a batch, from those of the events that arrived.

An event that a task emits has the birth of its cause. Causes never decrease along a stream, so a few look-ups give the
births of all its events, however many there are.
"""

from collections.abc import Iterable

import numpy as np

from bridge.wire import UNKNOWN_BIRTH, Birth
from engine.event_streams import Arrived, Numbers

_MOST = 32
"""The most births that are kept for one stream in one batch."""


class BatchBirths:
    """The births of the events that arrived in a batch; made by the kernel."""

    def __init__(self, arrived: Iterable[tuple[int, Arrived]]) -> None:
        """Each item comes with the cause of its first event, in the order of causes."""
        begins, born, cause = [], [], 0
        for first, item in arrived:
            cause = first
            for many, at in item.births or (Birth(item.count, UNKNOWN_BIRTH),):
                begins.append(cause)
                born.append(at)
                cause += many
        # Events of dead letters come after all that arrived, and their births are unknown.
        self._begins = np.array([*begins, cause], np.int64)
        self._born = np.array([*born, UNKNOWN_BIRTH], np.int64)

    def of(self, causes: Numbers) -> tuple[Birth, ...]:
        """The births of a stream's events, by their causes. If there are too many, neighbours get the oldest one."""
        ends = np.append(np.searchsorted(causes, self._begins[1:]), len(causes))
        many = np.diff(ends, prepend=0)
        filled = many > 0
        return _condensed(many[filled], self._born[filled])


def _condensed(many: Numbers, born: Numbers) -> tuple[Birth, ...]:
    if len(many) > _MOST:
        groups = np.arange(0, len(many), -(-len(many) // _MOST))
        many, born = np.add.reduceat(many, groups), np.minimum.reduceat(born, groups)
    return tuple(map(Birth, many.tolist(), born.tolist()))
