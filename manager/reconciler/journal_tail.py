"""The journal's tail: adds every committed operation to the live events, whichever manager committed it."""

from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlmodel import col

from manager.answers import OperationAnswer, OperationKind
from manager.reconciler.live_events import LiveEvents
from manager.store.database import Store
from manager.store.tables import OperationRow

_MOST_READ = 1_000
"""Operations read at once."""

NOT_OF_TENANTS = frozenset(
    {
        *(OperationKind.SUBMIT, OperationKind.REPLACE, OperationKind.REMOVE, OperationKind.ADAPT),
        OperationKind.QUARANTINE,
        *(OperationKind.TAKE_OVER, OperationKind.HAND_OVER, OperationKind.BALANCE, OperationKind.MACHINE_WAITS),
    }
)
"""The operations that change nothing of what tenants may do on the broker."""


class JournalTail:
    """Follows the journal from its present end; used by one thread."""

    def __init__(self, store: Store, events: LiveEvents) -> None:
        self._store = store
        self._events = events
        with store.read() as session:
            self._last = session.scalar(select(func.max(col(OperationRow.id)))) or 0

    def follow(self) -> frozenset[OperationKind]:
        """Add the new operations to the live events, and return their kinds."""
        wanted = select(OperationRow).order_by(col(OperationRow.id)).where(col(OperationRow.id) > self._last)
        with self._store.read() as session:
            rows = session.scalars(wanted.limit(_MOST_READ)).all()
        for row in rows:
            self._events.add_operation(
                OperationAnswer.model_validate(
                    row.model_dump() | {"at": datetime.fromtimestamp(row.at, UTC), "kind": OperationKind(row.kind)}
                )
            )
            self._last = row.id or self._last
        return frozenset(OperationKind(row.kind) for row in rows)
