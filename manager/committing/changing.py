"""How one change is made: decided in memory, written in one transaction, and only by who leads.

Whoever finds in the transaction that it does not lead any more, or that its memory is not what was committed, changes
nothing.
"""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import select, update
from sqlmodel import Session

from dags import Catalogue
from manager.committing.draft import Draft, Ground
from manager.committing.state import State, load
from manager.problem import StateNotReady
from manager.store.database import Store
from manager.store.tables import Leadership, table_of
from merge import NoHost


class Changing:
    """What all families of changes stand on; any thread may call it."""

    def __init__(self, store: Store, catalogue: Catalogue, ground: Ground, *, name: str) -> None:
        """`name` is what this manager is called as a leader."""
        self.name = name
        self._store = store
        self._catalogue = catalogue
        self._ground = ground
        self._lock = threading.RLock()
        self._over = threading.Condition(self._lock)
        """Told when a move is over."""
        self._term = 0
        self._state: State | None = None
        self._tell: list[Callable[[], None]] = []
        self._changes = 0

    def lead(self, term: int) -> None:
        """Commit from now on, under a term that was won."""
        with self._lock, self._store.read() as session:
            self._state, self._term = load(session, self._catalogue), term
            _settle()
        self._told()

    def step_down(self) -> None:
        """Commit no more."""
        with self._lock:
            self._state, self._term = None, 0

    @property
    def leads(self) -> bool:
        """Whether it commits."""
        return self._term > 0

    @property
    def ground(self) -> Ground:
        """What placement goes by."""
        return self._ground

    @contextmanager
    def looking(self) -> Iterator[State]:
        """The committed state, for as long as nothing is committed; not to be changed, and not to be held long."""
        with self._lock:
            yield self._current()

    def on_change(self, tell: Callable[[], None]) -> None:
        """As `Wanting` says."""
        self._tell.append(tell)

    def _current(self) -> State:
        if not self.leads:
            raise StateNotReady("this manager does not lead; ask again in a moment, or ask the one that leads")
        if self._state is None:
            with self._store.read() as session:
                self._state = load(session, self._catalogue)
        return self._state

    @contextmanager
    def _committing(self) -> Iterator[tuple[Session, Draft]]:
        """One change: the transaction, and the draft that goes by the state."""
        with self._lock:
            state = self._current()
            draft = Draft(state=state, ground=self._ground, term=self._term, now=datetime.now(UTC))
            try:
                with self._store.write() as session:
                    self._check_current(session, state)
                    yield session, draft
                    draft.moved = True
                    state.version += 1
                    session.execute(
                        _MOVE_ON,
                        {
                            "version": state.version,
                            "next_instance": state.running.next_instance,
                            "next_job": state.jobs.next_job,
                        },
                    )
            except BaseException as error:
                if draft.moved:
                    # The memory is ahead of the database.
                    self._state = None
                if isinstance(error, NoHost):
                    raise StateNotReady(f"{error}; ask again once one is there", retry_after=5.0) from error
                raise
            if state.move is None:
                self._over.notify_all()
            self._changes += 1
            if self._changes % _SETTLING == 0:
                _settle()

    def _check_current(self, session: Session, state: State) -> None:
        leadership = session.execute(_STANDING).one()
        if (leadership.leader, leadership.term) != (self.name, self._term):
            self.step_down()
            raise StateNotReady("another manager leads by now; ask again in a moment")
        if leadership.version != state.version:
            self._state = None
            raise StateNotReady("the committed state is not the one that this manager knew; ask again in a moment")

    def _told(self) -> None:
        for tell in self._tell:
            tell()


_LEADERSHIP = table_of(Leadership)
_STANDING = select(_LEADERSHIP.c.leader, _LEADERSHIP.c.term, _LEADERSHIP.c.version)
_MOVE_ON = update(_LEADERSHIP)
"""There is one row."""
_SETTLING = 100
"""Changes after which what they left is settled."""


def _settle() -> None:
    """Spare the garbage collector what stays.

    It would stop everything to walk through the whole state now and then: for 0.3 s with a thousand dataflows.
    """
    gc.collect()
    gc.freeze()
