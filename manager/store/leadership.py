"""The lead: one of the managers that share a database leads and commits, under a lease that it renews.

Each take-over raises the term. Plans carry the term, and hosts refuse plans of older ones, so a manager that was
thought dead and comes back can change nothing.
"""

import logging
from collections.abc import Callable

from sqlmodel import Session

from manager.background import Background
from manager.problem import DatabaseAway
from manager.store.database import Store
from manager.store.tables import Leadership

_LOG = logging.getLogger(__name__)

LEASE = 6.0
"""Seconds that a manager leads without renewing the lease."""
RENEW_EVERY = 2.0
"""Seconds between two renewals, and between two attempts to take the lead."""


class Candidate:
    """A manager that leads or waits for the lead, in a thread of its own."""

    def __init__(self, store: Store, name: str, *, won: Callable[[int], None], lost: Callable[[], None]) -> None:
        """`won` is called with the term when it begins to lead, `lost` when it ends; both in its thread."""
        self._store = store
        self._name = name
        self._won = won
        self._lost = lost
        self._term = 0
        """The term that it leads in; 0 if it does not."""
        self._thread = Background(self._run, "leads")

    def start(self) -> None:
        """Start to wait for the lead; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and give the lead back, so that no manager has to wait for the end of the lease."""
        self._thread.stop()

    def look(self) -> None:
        """Renew the lease, or take the lead if it is free."""
        with self._store.write() as session:
            term = self._taken(session)
        if term == self._term:
            return
        if self._term:
            self._term = 0
            self._lost()
        if term:
            self._won(term)
            # Set afterwards, so that it is tried again in another term if `won` failed.
            self._term = term

    def leave(self) -> None:
        """Give the lead back, if this manager has it."""
        if self._term:
            term, self._term = self._term, 0
            self._lost()
            with self._store.write() as session:
                row = session.get_one(Leadership, 1)
                if (row.leader, row.term) == (self._name, term):
                    row.leader, row.until = "", 0.0

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            # After a failure, it is unknown who leads; each commit checks the lease in the database anyway.
            self._attempt(self.look)
            self._thread.stopping.wait(RENEW_EVERY)
        self._attempt(self.leave)

    @staticmethod
    def _attempt(step: Callable[[], None]) -> None:
        try:
            step()
        except DatabaseAway as error:
            # The store has logged the outage already.
            _LOG.debug("the lead waits: %s", error)
        except Exception:  # noqa: BLE001 - the next attempt may succeed after any error
            _LOG.exception("the lead could not be taken, renewed or given back; it is tried again")

    def _taken(self, session: Session) -> int:
        """Renew or take the lease, and return the term; 0 if another manager leads."""
        row, now = session.get_one(Leadership, 1), self._store.now(session)
        mine = self._term > 0 and (row.leader, row.term) == (self._name, self._term)
        if not mine:
            if row.leader and row.until > now:
                return 0
            row.leader, row.term = self._name, row.term + 1
        row.until = now + LEASE
        return row.term
