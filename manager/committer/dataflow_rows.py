"""The rows of dataflows: found, checked and taken away."""

from sqlalchemy import bindparam, select
from sqlmodel import Session, col

from dags import Scope
from manager.committed.state import running_id
from manager.committer.draft import Draft
from manager.problem import Conflict, NotFound
from manager.store.tables import DataflowRow
from manager.submissions.written_document import WrittenDocument, WrittenKind

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
