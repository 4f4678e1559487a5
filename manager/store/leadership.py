"""Leading: of the managers that share a database one commits, under a lease that it renews; the others wait.

Each take-over raises the term. Plans carry it, and hosts refuse older ones, so that a manager that was thought dead
and comes back can change nothing any more.
"""

import logging
import threading
from collections.abc import Callable

from sqlmodel import Session

from manager.problem import DatabaseAway
from manager.store.database import Store
from manager.store.tables import Leadership

_LOG = logging.getLogger(__name__)

LEASE = 6.0
"""Seconds for which a leader leads without renewing."""
RENEWING = 2.0
"""Seconds between two renewals, and between two looks of those who wait."""


class Candidate:
    """One manager that would lead; works in a thread of its own."""

    def __init__(self, store: Store, name: str, *, won: Callable[[int], None], lost: Callable[[], None]) -> None:
        """`won` is called with the term when it leads, `lost` when it does not any more; both in its thread."""
        self._store = store
        self._name = name
        self._won = won
        self._lost = lost
        self._term = 0
        """Under which it leads; 0 where it does not."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leads", daemon=True)

    def start(self) -> None:
        """Begin to wait for the lead; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Give the lead back, so that nobody has to wait for the lease to end."""
        self._stopping.set()
        self._thread.join()

    def look(self) -> None:
        """Renew the lease, or take the lead over where nobody has it."""
        with self._store.write() as session:
            term = self._taken(session)
        if term == self._term:
            return
        if self._term:
            self._term = 0
            self._lost()
        if term:
            self._won(term)
            # Not before, so that it is tried again, under another term, if that failed.
            self._term = term

    def leave(self) -> None:
        """Give the lead back, if it has it."""
        if self._term:
            term, self._term = self._term, 0
            self._lost()
            with self._store.write() as session:
                row = session.get_one(Leadership, 1)
                if (row.leader, row.term) == (self._name, term):
                    row.leader, row.until = "", 0.0

    def _run(self) -> None:
        while not self._stopping.is_set():
            # Whether it still leads nobody knows then; each commit asks the database anyway.
            self._tried(self.look)
            self._stopping.wait(RENEWING)
        self._tried(self.leave)

    @staticmethod
    def _tried(step: Callable[[], None]) -> None:
        try:
            step()
        except DatabaseAway as error:
            # The store has said so already, and that once is enough.
            _LOG.debug("the lead waits: %s", error)
        except Exception:  # noqa: BLE001 - whatever it is, the next attempt may succeed
            _LOG.exception("the lead could not be taken, renewed or given back; it is tried again")

    def _taken(self, session: Session) -> int:
        """Under which term it leads now; 0 where another does."""
        row, now = session.get_one(Leadership, 1), self._store.now(session)
        mine = self._term > 0 and (row.leader, row.term) == (self._name, self._term)
        if not mine:
            if row.leader and row.until > now:
                return 0
            row.leader, row.term = self._name, row.term + 1
        row.until = now + LEASE
        return row.term
