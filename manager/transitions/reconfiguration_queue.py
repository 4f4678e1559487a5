"""The queue of reconfigurations: which transitions one that waits lets go first; pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from manager.transitions.life import Phase
from manager.transitions.reconfiguration import Reconfiguration
from manager.transitions.scope import MEETINGS, Comer, Resolution, Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePlace:
    """The place of a reconfiguration that waits; made by `queue_place`."""

    place: int
    """1 if none that waits goes before it."""
    behind: tuple[Reconfiguration, ...]
    """The reconfigurations that it waits for, directly or because one of these does, in the order of the requests."""
    behind_moves: bool
    """Whether tasks that are being moved are in the way as well."""


def ahead(waiting: Reconfiguration, under_way: Iterable[Transition]) -> tuple[Transition, ...]:
    """The transitions that one that waits may have to wait for: all but those that wait since later."""
    return tuple(transition for transition in under_way if not _is_behind(transition, waiting))


def in_the_way(waiting: Reconfiguration, under_way: Iterable[Transition]) -> tuple[Transition, ...]:
    """The transitions that one that waits does wait for."""
    return tuple(
        transition
        for transition in ahead(waiting, under_way)
        if MEETINGS[Comer.RECONFIGURATION, transition.kind][transition.phase] is Resolution.WAIT
        and transition.scope.meets(waiting.scope)
    )


def queue_place(waiting: Reconfiguration, under_way: Iterable[Transition]) -> QueuePlace:
    """The place of one that waits among all that are under way."""
    every = tuple(under_way)
    behind: dict[int, Reconfiguration] = {}
    behind_moves = False
    ends = [waiting]
    while ends:
        for transition in in_the_way(ends.pop(), every):
            if not isinstance(transition, Reconfiguration):
                behind_moves = True
            elif transition.id not in behind:
                behind[transition.id] = transition
                if transition.phase is Phase.WAITING:
                    ends.append(transition)
    return QueuePlace(
        place=1 + sum(transition.phase is Phase.WAITING for transition in behind.values()),
        behind=tuple(behind[number] for number in sorted(behind)),
        behind_moves=behind_moves,
    )


def _is_behind(other: Transition, waiting: Reconfiguration) -> bool:
    return isinstance(other, Reconfiguration) and other.phase is Phase.WAITING and other.id >= waiting.id
