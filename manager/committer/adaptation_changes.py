"""The changes of what is kept beside a dynamic dataflow: its policy, and what was chosen by hand."""

import time
from collections.abc import Callable, Mapping
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


class AdaptationChanges:
    """All that is kept of dynamic dataflows. Nothing that runs changes by it."""

    def __init__(self, committer: Committer, store: Store) -> None:
        self._committer = committer
        self._store = store

    def keep_policy(self, dataflow: str, policy: bytes, *, who: str) -> DataflowRow:
        """Keep another policy in the place of the document's own."""

        def keep(row: DataflowRow) -> None:
            row.policy = policy.decode()

        return self._noted(dataflow, keep, OperationKind.SET_POLICY, who=who)

    def keep_pinned(self, dataflow: str, pinned: Mapping[str, str | bool], *, who: str) -> DataflowRow:
        """Keep what is chosen by hand."""

        def keep(row: DataflowRow) -> None:
            row.pinned = dict(pinned) or None

        words = {True: "open", False: "closed"}
        chosen = (f"{name}: {words[each] if isinstance(each, bool) else each}" for name, each in sorted(pinned.items()))
        note = ", ".join(chosen) or "nothing"
        return self._noted(dataflow, keep, OperationKind.CHOOSE, who=who, note=note)

    def note(self, dataflow: str, why: str, *, who: str) -> None:
        """Note in the journal why a dataflow adapts."""
        self._noted(dataflow, lambda _row: None, OperationKind.ADAPT, who=who, note=why)

    def _noted(
        self, dataflow: str, keep: Callable[[DataflowRow], None], kind: OperationKind, *, who: str, note: str = ""
    ) -> DataflowRow:
        begun = time.monotonic()

        def read(_state: CommittedState, _now: datetime) -> DataflowRow:
            with self._store.read() as session:
                return running_dataflow(session, dataflow)

        def write(session: Session, draft: Draft, _row: DataflowRow) -> DataflowRow:
            row = running_dataflow(session, dataflow)
            keep(row)
            session.add(row)
            write_down(session, draft, kind, who=who, subject=dataflow, begun=begun, note=note)
            return row

        return self._committer.commit(read, write, scope=lambda _state, _row: TransitionScope())
