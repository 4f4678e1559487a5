"""Rows of dataflows that are kept otherwise while nothing that runs changes, with an entry in the journal."""

import time
from collections.abc import Callable
from datetime import datetime

from sqlmodel import Session

from manager.answers import OperationKind
from manager.committed.state import CommittedState
from manager.committer.committer import Committer
from manager.committer.dataflow_rows import running_dataflow
from manager.committer.draft import Draft
from manager.committer.rows import write_down
from manager.store.database import Store
from manager.store.tables import DataflowRow
from manager.transitions.scope import TransitionScope


class RowKeeper:
    """Keeps what is beside a running dataflow."""

    def __init__(self, committer: Committer, store: Store) -> None:
        self._committer = committer
        self._store = store

    def keep(
        self, dataflow: str, change: Callable[[DataflowRow], None], kind: OperationKind, *, who: str, note: str = ""
    ) -> DataflowRow:
        """Have its row changed; the row as it is then."""
        begun = time.monotonic()

        def read(_state: CommittedState, _now: datetime) -> DataflowRow:
            with self._store.read() as session:
                return running_dataflow(session, dataflow)

        def write(session: Session, draft: Draft, _row: DataflowRow) -> DataflowRow:
            row = running_dataflow(session, dataflow)
            change(row)
            session.add(row)
            write_down(session, draft, kind, who=who, subject=dataflow, begun=begun, note=note)
            return row

        return self._committer.commit(read, write, scope=lambda _state, _row: TransitionScope())
