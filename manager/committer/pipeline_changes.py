"""The changes of what is kept beside a planned dataflow: its pipeline, and the modules that failed in it."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlmodel import Session

from manager.answers import OperationKind
from manager.committed.state import CommittedState
from manager.committer.committer import Committer
from manager.committer.dataflow_rows import running_dataflow, take_origin
from manager.committer.draft import Draft
from manager.committer.rows import write_down
from manager.store.database import Store
from manager.store.tables import DataflowRow
from manager.submissions.written_document import WrittenDocument
from manager.transitions.scope import TransitionScope


class PipelineChanges:
    """All that is kept of pipelines. Nothing that runs changes by it."""

    def __init__(self, committer: Committer, store: Store) -> None:
        self._committer = committer
        self._store = store

    def keep(self, dataflow: str, pipeline: WrittenDocument, *, who: str) -> DataflowRow:
        """Keep other goals and places for a dataflow whose document has been planned of them, or soon is."""
        return self._noted(dataflow, lambda row: take_origin(row, pipeline), who=who)

    def keep_given_up(self, dataflow: str, modules: Sequence[Mapping[str, Any]], *, who: str, note: str) -> DataflowRow:
        """Keep which modules failed in a pipeline, and what came of it."""

        def keep(row: DataflowRow) -> None:
            row.given_up = [dict(each) for each in modules]

        return self._noted(dataflow, keep, who=who, note=note)

    def keep_unplanned(self, dataflow: str, why: str, *, who: str) -> DataflowRow:
        """Keep the reason why a pipeline stays as it is, though it was planned anew."""

        def keep(row: DataflowRow) -> None:
            row.unplanned = why

        return self._noted(dataflow, keep, who=who, note=f"stays as it is: {why}" if why else "can be planned again")

    def _noted(self, dataflow: str, keep: Callable[[DataflowRow], None], *, who: str, note: str = "") -> DataflowRow:
        begun = time.monotonic()

        def read(_state: CommittedState, _now: datetime) -> DataflowRow:
            with self._store.read() as session:
                return running_dataflow(session, dataflow)

        def write(session: Session, draft: Draft, _row: DataflowRow) -> DataflowRow:
            row = running_dataflow(session, dataflow)
            keep(row)
            session.add(row)
            write_down(session, draft, OperationKind.REPLAN, who=who, subject=dataflow, begun=begun, note=note)
            return row

        return self._committer.commit(read, write, scope=lambda _state, _row: TransitionScope())
