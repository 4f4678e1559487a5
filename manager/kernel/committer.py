"""The committer: makes one change after the other, each decided in memory and written in one transaction.

Only the leader commits. A manager that finds in the transaction that it does not lead any more, or that its memory is
not what was committed, changes nothing.
"""

import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import select, update
from sqlmodel import Session

from bridge.traces import span
from dags import Catalogue
from manager.kernel.draft import DecisionGround, Draft
from manager.kernel.state import CommittedState, load
from manager.kernel.transitions import (
    REASONS,
    Comer,
    Drain,
    Resolution,
    Transition,
    TransitionEvent,
    TransitionKind,
    TransitionScope,
    Turn,
    meeting,
)
from manager.problem import Conflict, StateNotReady
from manager.store.database import Store
from manager.store.tables import Leadership, table_of
from merge import NoHost

MOST_WAITED = 10.0
"""Seconds that a change waits for a transition that it meets."""
Decided = TypeVar("Decided")
TakeTurn: TypeAlias = Callable[[Session, Draft, Turn], None]
"""Takes a transition on, in a transaction."""


class OpenChange(NamedTuple, Generic[Decided]):
    """A change that is decided and may be made, in an open transaction."""

    session: Session
    draft: Draft
    decided: Decided
    is_queued: bool
    """Whether it may only be written down as one that waits."""


class Committer:
    """One manager's committer; any thread may call it."""

    def __init__(self, store: Store, catalogue: Catalogue, ground: DecisionGround, *, name: str) -> None:
        """`name` is this manager's as a leader."""
        self.name = name
        self.ground = ground
        self._store = store
        self._catalogue = catalogue
        self._lock = threading.RLock()
        self._over = threading.Condition(self._lock)
        """Notified when a transition has entered another phase, or ended."""
        self._term = 0
        self._state: CommittedState | None = None
        self._listeners: list[Callable[[], None]] = []
        self._cancelling: dict[TransitionKind, TakeTurn] = {}
        self._changes = 0

    def lead(self, term: int) -> None:
        """Commit from now on, under a term that was won."""
        with self._lock, self._store.read() as session:
            self._state, self._term = load(session, self._catalogue), term
            _settle()
        self.notify()

    def step_down(self) -> None:
        """Commit no more."""
        with self._lock:
            self._state, self._term = None, 0

    @property
    def leads(self) -> bool:
        """Tell whether this manager commits."""
        return self._term > 0

    @property
    def term(self) -> int:
        """The term in which this manager leads; 0 if it does not."""
        return self._term

    @contextmanager
    def looking(self) -> Iterator[CommittedState]:
        """The committed state, while nothing is committed; not to be changed, and not to be held for long."""
        with self._lock:
            yield self._current()

    @contextmanager
    def beside(self, term: int) -> Iterator[Session]:
        """Open a transaction beside the committed state. Refused unless this manager leads in a term."""
        with self._store.write() as session:
            if self._led_version(session, term) is None:
                # It steps down with the next change, or when its lease is looked at.
                raise StateNotReady(_ANOTHER_LEADS)
            yield session

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a listener called after each commit; from any thread."""
        self._listeners.append(listener)

    def cancel_with(self, kind: TransitionKind, take: TakeTurn) -> None:
        """Have a function cancel transitions of a kind which are only prepared, where they are in a change's way."""
        self._cancelling[kind] = take

    def notify(self) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener()

    @contextmanager
    def writing(self) -> Iterator[tuple[Session, Draft]]:
        """Open a change that meets no transition, but for the one that it takes on; it is committed at the end."""
        begun = time.monotonic()
        with self._lock, self._transaction(self._current(), datetime.now(UTC), begun) as opened:
            yield opened
        self.notify()

    @contextmanager
    def changing(
        self,
        decide: Callable[[CommittedState, datetime], tuple[TransitionScope, Decided]],
        *,
        comer: Comer = Comer.CHANGE,
        waits: bool = True,
        queues: bool = False,
        under_way: Callable[[CommittedState], Iterable[Transition]] = lambda state: state.transitions,
    ) -> Iterator[OpenChange[Decided]]:
        """Open a change: decide it by the state, and clear its scope; it is committed at the end.

        If it has to wait for a transition that it meets, it is opened as one that is queued, waits here, or is refused
        at once if it may not wait. The thread that takes transitions on must not wait for one. `under_way` are those
        that it may meet.

        It is decided anew whenever others were let through meanwhile. Nothing is done where it raises.
        """
        begun = time.monotonic()
        with span("commit", {"braid.change": comer}), self._lock:
            deadline = time.monotonic() + (MOST_WAITED if waits else 0.0)
            while True:
                state, now = self._current(), datetime.now(UTC)
                try:
                    scope, decided = decide(state, now)
                except NoHost as error:
                    raise StateNotReady(f"{error}; ask again once one is there", retry_after=5.0) from error
                met = meeting(comer, scope, under_way(state))
                is_queued = queues and met is not None and met[1] is Resolution.WAIT
                if met is None or is_queued:
                    break
                self._clear(*met, deadline)
            with self._transaction(state, now, begun) as (session, draft):
                yield OpenChange(session, draft, decided, is_queued)
        self.notify()

    def _clear(self, met: Transition, verdict: Resolution, deadline: float) -> None:
        """Get a transition out of the way of a change, or refuse the change."""
        match verdict:
            case Resolution.CANCEL:
                assert not isinstance(met, Drain)  # noqa: S101 - a drain lets everything pass or refuses it
                with self._transaction(self._current(), datetime.now(UTC), time.monotonic()) as (session, draft):
                    turn = Turn(met, TransitionEvent.HINDERED, "something else was asked for meanwhile")
                    self._cancelling[met.kind](session, draft, turn)
            case Resolution.WAIT:
                if not self._over.wait(deadline - time.monotonic()):
                    raise StateNotReady(_BUSY[met.kind], retry_after=1.0)
            case _:
                raise Conflict(REASONS[met.kind])

    def _current(self) -> CommittedState:
        if not self._term:
            raise StateNotReady(_NO_LEADER)
        if self._state is None:
            with self._store.read() as session:
                self._state = load(session, self._catalogue)
        return self._state

    @contextmanager
    def _transaction(self, state: CommittedState, now: datetime, begun: float) -> Iterator[tuple[Session, Draft]]:
        phases = [transition.phase for transition in state.transitions]
        draft = Draft(state=state, ground=self.ground, term=self._term, now=now, begun=begun)
        try:
            with self._store.write() as session:
                self._check_current(session, state)
                yield session, draft
                draft.moved = True
                state.version += 1
                following = {"next_instance": state.running.next_instance, "next_job": state.jobs.next_job}
                session.execute(_MOVE_ON, {"version": state.version, **following})
        except BaseException:
            if draft.moved:
                # The memory is ahead of the database.
                self._state = None
            raise
        if [transition.phase for transition in state.transitions] != phases:
            self._over.notify_all()
        self._changes += 1
        if self._changes % _SETTLING == 0:
            _settle()

    def _check_current(self, session: Session, state: CommittedState) -> None:
        version = self._led_version(session, self._term)
        if version is None:
            self.step_down()
            raise StateNotReady(_ANOTHER_LEADS)
        if version != state.version:
            self._state = None
            raise StateNotReady("the committed state is not the one that this manager knew; ask again in a moment")

    def _led_version(self, session: Session, term: int) -> int | None:
        """The version of what is committed; None if this manager does not lead in a term any more."""
        leadership = session.execute(_STANDING).one()
        return leadership.version if (leadership.leader, leadership.term) == (self.name, term) else None


_NO_LEADER = "this manager does not lead; ask again in a moment, or ask the one that leads"
_ANOTHER_LEADS = "another manager leads by now; ask again in a moment"
_BUSY = {
    TransitionKind.MOVE: "tasks are being moved from job to job; ask again in a moment",
    TransitionKind.RECONFIGURATION: "tasks are being reconfigured; ask again in a moment",
}
_LEADERSHIP = table_of(Leadership)
_STANDING = select(_LEADERSHIP.c.leader, _LEADERSHIP.c.term, _LEADERSHIP.c.version)
_MOVE_ON = update(_LEADERSHIP)  # there is one row
_SETTLING = 100
"""Changes after which the garbage collector is settled."""


def _settle() -> None:
    """Spare the garbage collector what stays.

    It would stop everything to walk through the whole state now and then: for 0.3 s with a thousand dataflows.
    """
    gc.collect()
    gc.freeze()
