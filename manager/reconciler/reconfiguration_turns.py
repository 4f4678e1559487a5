"""The turns of reconfigurations, taken by whatever keeps them: the committer, or a test."""

import logging
from collections.abc import Iterable
from typing import Protocol

from manager.committed.wanted import Reconfiguring
from manager.reconciler.reconfigurations import ReconfigurationTurn
from manager.transitions.life import TransitionEvent

log = logging.getLogger("braid.reconciler")


class ReconfigurationKeeper(Protocol):
    """The reconfigurations under way; the committer, or a test."""

    def under_way(self) -> Iterable[Reconfiguring]:
        """Return the reconfigurations under way."""

    def proceed(self, reconfiguration: int) -> None:
        """Begin one that has waited: nothing is in its way any more."""

    def interrupt(self, reconfiguration: int) -> None:
        """Have one wait again that a manager prepared which is gone."""

    def switch(self, reconfiguration: int) -> None:
        """Let the heads switch: all that wait are prepared."""

    def prove(self, reconfiguration: int) -> None:
        """Note that all jobs run the new plans."""

    def end(self, reconfiguration: int) -> None:
        """End a reconfiguration that has proven itself."""

    def give_up(self, reconfiguration: int, *, why: str) -> None:
        """Abandon a reconfiguration that waits or is only prepared."""

    def revert(self, reconfiguration: int, *, why: str) -> None:
        """Undo a reconfiguration whose changed tasks fail."""


def take_turn(reconfigurations: ReconfigurationKeeper, turn: ReconfigurationTurn) -> None:
    """Take a reconfiguration on by one event in its life."""
    number = turn.reconfiguration.id
    log.info("the reconfiguration %d: %s%s", number, turn.event, f", because {turn.why}" if turn.why else "")
    match turn.event:
        case TransitionEvent.CLEARED:
            reconfigurations.proceed(number)
        case TransitionEvent.INTERRUPTED:
            reconfigurations.interrupt(number)
        case TransitionEvent.READY:
            reconfigurations.switch(number)
        case TransitionEvent.BEGUN:
            reconfigurations.prove(number)
        case TransitionEvent.PROVEN:
            reconfigurations.end(number)
        case TransitionEvent.HINDERED:
            reconfigurations.give_up(number, why=turn.why)
        case TransitionEvent.FAILED:
            reconfigurations.revert(number, why=turn.why)
