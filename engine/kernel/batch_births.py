"""The births of what leaves a job in a batch, from those of what arrived in it.

What a task emits was born when the event was that it was emitted for: its cause says which. Causes never fall along a
stream, so that a few look-ups in them tell the births of all its events, however many these are.
"""

from collections.abc import Iterable

import numpy as np

from bridge.events.births import UNKNOWN, Birth
from engine.kernel.streams import Arrived, Numbers

_MOST = 32
"""Births that are told of one stream in one batch, at most."""


class BatchBirths:
    """When what arrived in a batch was born; made by the kernel."""

    def __init__(self, arrived: Iterable[tuple[int, Arrived]]) -> None:
        """Each item comes with the cause of its first event, in the order of causes."""
        begins, born, cause = [], [], 0
        for first, item in arrived:
            cause = first
            for many, at in item.births or (Birth(item.count, UNKNOWN),):
                begins.append(cause)
                born.append(at)
                cause += many
        # What is fed from dead letters comes behind all that arrived, and nobody knows when it was born.
        self._begins = np.array([*begins, cause], np.int64)
        self._born = np.array([*born, UNKNOWN], np.int64)

    def of(self, causes: Numbers) -> tuple[Birth, ...]:
        """The births of a stream's events, by their causes; where they are too many, neighbours count as the oldest."""
        ends = np.append(np.searchsorted(causes, self._begins[1:]), len(causes))
        many = np.diff(ends, prepend=0)
        filled = many > 0
        return _condensed(many[filled], self._born[filled])


def _condensed(many: Numbers, born: Numbers) -> tuple[Birth, ...]:
    if len(many) > _MOST:
        groups = np.arange(0, len(many), -(-len(many) // _MOST))
        many, born = np.add.reduceat(many, groups), np.minimum.reduceat(born, groups)
    return tuple(map(Birth, many.tolist(), born.tolist()))
