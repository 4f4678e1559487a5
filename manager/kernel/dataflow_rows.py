"""The rows of dataflows: looked up, taken away, and kept otherwise while nothing that runs changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import bindparam, select
from sqlmodel import Session, col

from dags import Scope
from manager.answers.overview import OperationKind
from manager.kernel.committer import Committer
from manager.kernel.draft import Draft, write_down
from manager.kernel.state import running_id
from manager.problem import Conflict, NotFound
from manager.store.tables import DataflowRow


class WrittenKind(StrEnum):
    """How the document that runs was made."""

    PIPELINE = "pipeline"
    """Planned, since it has open places."""
    DYNAMIC = "dynamic"
    """Resolved, since it has alternates, guarded streams or a policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDocument:
    """A document that does not run as it was written; made where one is planned or resolved."""

    kind: WrittenKind
    written: bytes


_DATAFLOW = select(DataflowRow).where(col(DataflowRow.id) == bindparam("dataflow"))


def take_away(session: Session, draft: Draft, row: DataflowRow) -> None:
    """Remove a dataflow, and have its row say so."""
    draft.state.earliest.pop(row.id, None)
    draft.remove(running_id(row.id, row.revision))
    row.removed = draft.now.timestamp()
    session.add(row)


def take_origin(row: DataflowRow, origin: WrittenDocument | None) -> None:
    """Have a row keep of what its document was made. What failed in another pipeline says nothing about this one."""
    pipeline, dynamic = (
        origin.written.decode() if origin is not None and origin.kind is kind else None for kind in WrittenKind
    )
    if pipeline != row.pipeline:
        row.given_up, row.unplanned = None, ""
    if dynamic != row.dynamic:
        row.policy = None
    row.pipeline, row.dynamic = pipeline, dynamic


def dataflow_of(session: Session, dataflow: str) -> DataflowRow:
    """The row of a dataflow, removed or not."""
    row = session.scalar(_DATAFLOW, {"dataflow": dataflow})
    if row is None:
        raise NotFound("dataflow", dataflow)
    return row


def running_dataflow(session: Session, dataflow: str) -> DataflowRow:
    """The row of a dataflow that is there to be changed."""
    row = dataflow_of(session, dataflow)
    if row.removed is not None:
        raise Conflict(f"the dataflow {dataflow!r} was removed; submit it anew")
    return row


def histories_of(row: DataflowRow) -> dict[str, Scope]:
    """The scopes of those tasks of a dataflow that were reconfigured while they ran, by id."""
    return {task: Scope(*scope) for task, scope in (row.histories or {}).items()}


class RowKeeper:
    """Keeps what is beside a running dataflow. Nothing that runs changes by it."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def _keep(self, dataflow: str, kind: OperationKind, *, who: str, note: str = "", **values: Any) -> DataflowRow:
        """Have its row keep some values; the row as it is then."""
        with self._committer.writing() as (session, draft):
            row = running_dataflow(session, dataflow)
            for name, value in values.items():
                setattr(row, name, value)
            session.add(row)
            write_down(session, draft, kind, who=who, subject=dataflow, note=note)
            return row


class AdaptationChanges(RowKeeper):
    """All that is kept of dynamic dataflows."""

    def keep_policy(self, dataflow: str, policy: bytes, *, who: str) -> DataflowRow:
        """Keep another policy in the place of the document's own."""
        return self._keep(dataflow, OperationKind.SET_POLICY, who=who, policy=policy.decode())

    def keep_pinned(self, dataflow: str, pinned: Mapping[str, str | bool], *, who: str) -> DataflowRow:
        """Keep what is chosen by hand."""
        words = {True: "open", False: "closed"}
        chosen = (f"{name}: {words[pin] if isinstance(pin, bool) else pin}" for name, pin in sorted(pinned.items()))
        note = ", ".join(chosen) or "nothing"
        return self._keep(dataflow, OperationKind.CHOOSE, who=who, note=note, pinned=dict(pinned) or None)

    def note(self, dataflow: str, why: str, *, who: str) -> None:
        """Note in the journal why a dataflow adapts."""
        self._keep(dataflow, OperationKind.ADAPT, who=who, note=why)


class PipelineChanges(RowKeeper):
    """All that is kept of pipelines."""

    def keep(self, dataflow: str, pipeline: WrittenDocument, *, who: str) -> DataflowRow:
        """Keep other goals and places for a dataflow whose document has been planned of them, or soon is."""
        with self._committer.writing() as (session, draft):
            row = running_dataflow(session, dataflow)
            take_origin(row, pipeline)
            session.add(row)
            write_down(session, draft, OperationKind.REPLAN, who=who, subject=dataflow)
            return row

    def keep_given_up(self, dataflow: str, modules: Sequence[Mapping[str, Any]], *, who: str, note: str) -> DataflowRow:
        """Keep which modules failed in a pipeline, and what came of it."""
        return self._keep(dataflow, OperationKind.REPLAN, who=who, note=note, given_up=[*map(dict, modules)])

    def keep_unplanned(self, dataflow: str, why: str, *, who: str) -> DataflowRow:
        """Keep the reason why a pipeline stays as it is, though it was planned anew."""
        note = f"stays as it is: {why}" if why else "can be planned again"
        return self._keep(dataflow, OperationKind.REPLAN, who=who, note=note, unplanned=why)
