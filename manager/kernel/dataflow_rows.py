"""The rows of dataflows: looked up, taken away, and kept otherwise while nothing that runs changes."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import bindparam, delete, select
from sqlmodel import Session, col

from braid_client.answers.overview import OperationKind
from dags import Scope
from manager.kernel.committer import Committer
from manager.kernel.draft import Draft, write_down
from manager.kernel.state import running_id
from manager.problem import Conflict, NotFound
from manager.store.tables import DataflowRow, ReplacedDocumentRow
from merge import Remove, decide


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


MOST_REPLACED = 5
"""The replaced documents that are kept of a dataflow, until it is removed."""
_LONGEST_REPLACED = 262_144
"""The characters of a replaced document that is kept."""
_DATAFLOW = select(DataflowRow).where(col(DataflowRow.id) == bindparam("dataflow"))


def written_in(row: DataflowRow) -> str:
    """The document of a dataflow as it was sent, not as it was planned or resolved."""
    return row.dynamic or row.pipeline or row.document


def document_tag(written: str) -> str:
    """The tag of a document, which stands for what it says, however it is written.

    >>> document_tag('{"a": 1, "b": 2}') == document_tag('{"b":2,"a":1}'), document_tag("{}")
    (True, '44136fa355b3678a1146ad16f7e8649e')
    """
    plain = json.dumps(json.loads(written), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()[:32]


@contextmanager
def rewriting(session: Session, row: DataflowRow) -> Iterator[None]:
    """Keep the document that a row has, if it gets another one within the context."""
    before = written_in(row)
    yield
    if written_in(row) == before or len(before) > _LONGEST_REPLACED:
        return
    kept = ReplacedDocumentRow(dataflow=row.id, tag=document_tag(before), document=before, at=time.time())
    session.merge(kept)
    session.flush()
    own = col(ReplacedDocumentRow.dataflow) == row.id
    newest = select(col(ReplacedDocumentRow.tag)).where(own).order_by(col(ReplacedDocumentRow.at).desc())
    older = newest.offset(MOST_REPLACED)
    session.execute(delete(ReplacedDocumentRow).where(own, col(ReplacedDocumentRow.tag).in_(older)))


def take_away(session: Session, draft: Draft, row: DataflowRow) -> None:
    """Remove a dataflow, and have its row say so."""
    state, gone = draft.state, Remove(dataflow=running_id(row.id, row.revision))
    state.earliest.pop(row.id, None)
    draft.take(decide(state.running, state.jobs, gone, draft.ground.conditions(state, draft.now)))
    row.removed = draft.now.timestamp()
    session.execute(delete(ReplacedDocumentRow).where(col(ReplacedDocumentRow.dataflow) == row.id))
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
        raise Conflict(f"the dataflow {dataflow!r} was removed; submit it again")
    return row


def histories_of(row: DataflowRow) -> dict[str, Scope]:
    """The scopes of those tasks of a dataflow that were reconfigured while they ran, by id."""
    return {task: Scope(*scope) for task, scope in (row.histories or {}).items()}


@contextmanager
def keeping(
    committer: Committer, dataflow: str, kind: OperationKind, *, who: str, note: str = ""
) -> Iterator[DataflowRow]:
    """Open a change of what is kept beside a running dataflow, in its row. Nothing that runs changes by it."""
    with committer.writing() as (session, draft):
        row = running_dataflow(session, dataflow)
        with rewriting(session, row):
            yield row
        session.add(row)
        write_down(session, draft, kind, who=who, subject=dataflow, note=note)
