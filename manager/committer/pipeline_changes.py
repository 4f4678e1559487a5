"""The changes of what is kept beside a planned dataflow: its pipeline, and the modules that failed in it."""

from collections.abc import Mapping, Sequence
from typing import Any

from manager.answers import OperationKind
from manager.committer.committer import Committer
from manager.committer.dataflow_rows import take_origin
from manager.committer.kept_rows import RowKeeper
from manager.store.database import Store
from manager.store.tables import DataflowRow
from manager.submissions.written_document import WrittenDocument


class PipelineChanges:
    """All that is kept of pipelines. Nothing that runs changes by it."""

    def __init__(self, committer: Committer, store: Store) -> None:
        self._rows = RowKeeper(committer, store)

    def keep(self, dataflow: str, pipeline: WrittenDocument, *, who: str) -> DataflowRow:
        """Keep other goals and places for a dataflow whose document has been planned of them, or soon is."""
        return self._rows.keep(dataflow, lambda row: take_origin(row, pipeline), OperationKind.REPLAN, who=who)

    def keep_given_up(self, dataflow: str, modules: Sequence[Mapping[str, Any]], *, who: str, note: str) -> DataflowRow:
        """Keep which modules failed in a pipeline, and what came of it."""

        def keep(row: DataflowRow) -> None:
            row.given_up = [dict(each) for each in modules]

        return self._rows.keep(dataflow, keep, OperationKind.REPLAN, who=who, note=note)

    def keep_unplanned(self, dataflow: str, why: str, *, who: str) -> DataflowRow:
        """Keep the reason why a pipeline stays as it is, though it was planned anew."""

        def keep(row: DataflowRow) -> None:
            row.unplanned = why

        note = f"stays as it is: {why}" if why else "can be planned again"
        return self._rows.keep(dataflow, keep, OperationKind.REPLAN, who=who, note=note)
