"""The journal's tail: tells every operation that is committed to the live stream, whichever manager committed it."""

from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlmodel import col

from manager.answers import OperationAnswer, OperationKind
from manager.reconciler.live_events import Events
from manager.store.database import Store
from manager.store.tables import OperationRow

_MOST_READ = 1_000
"""Operations that are read at once."""


class JournalTail:
    """Reads on in the journal from where it is now; one thread calls it."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._events = events
        with store.read() as session:
            self._last = session.scalar(select(func.max(col(OperationRow.id)))) or 0

    def follow(self) -> frozenset[OperationKind]:
        """Tell what is new; the kinds of these operations."""
        wanted = select(OperationRow).order_by(col(OperationRow.id)).where(col(OperationRow.id) > self._last)
        with self._store.read() as session:
            rows = session.scalars(wanted.limit(_MOST_READ)).all()
        for row in rows:
            self._events.tell_operation(
                OperationAnswer.model_validate(
                    row.model_dump() | {"at": datetime.fromtimestamp(row.at, UTC), "kind": OperationKind(row.kind)}
                )
            )
            self._last = row.id or self._last
        return frozenset(OperationKind(row.kind) for row in rows)
