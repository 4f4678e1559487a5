"""The changes that sources bring: registered, seen by others, and revoked."""

import time
from collections.abc import Iterable

from sqlalchemy import select
from sqlmodel import Session, col

from manager.answers import OperationKind
from manager.committing.draft import Draft
from manager.committing.move_changes import MoveChanges
from manager.committing.publishing import publishing
from manager.committing.sources import Grants, Registered, grant, grants_in, registered
from manager.committing.taking import running_dataflow, take
from manager.committing.writing import OPERATOR, write_down
from manager.planning import public_id
from manager.problem import Conflict, NotFound
from manager.store.tables import SourceRow


class SourceChanges(MoveChanges):
    """What is done with sources."""

    def register(self, row: SourceRow, *, who: str) -> Registered:
        """Register a source."""
        begun = time.monotonic()
        with self._changing() as (session, draft):
            if row.name in draft.state.sources:
                raise Conflict(f"there is a source {row.name!r} already; choose another name, or revoke that one first")
            topic = row.connection.get("topic")
            # One topic feeds one source, so that whoever owns it is the only one to write there.
            if topic is not None:
                _check_free(topic, (each for each in draft.state.sources.values() if each.topic == topic), row, who)
            row.registered = draft.now.timestamp()
            grant(row, Grants(), row.visibility, row.readers, now=row.registered)
            session.add(row)
            session.flush()
            made = registered(row)
            draft.know(made)
            write_down(session, draft, OperationKind.REGISTER, who=who, subject=row.name, begun=begun)
        return made

    def set_visibility(self, source: str, visibility: str, readers: list[str], *, who: str) -> int:
        """Say who may read a source; how many dataflows were removed, of those who may not any more."""
        begun = time.monotonic()
        with self._changing() as (session, draft):
            row = _source_row(session, source)
            grant(row, grants_in(row), visibility, readers, now=draft.now.timestamp())
            session.add(row)
            seen = registered(row)
            draft.know(seen)
            dataflows = draft.state.running.dataflows
            hit = [each for each in _readers(draft, source) if not seen.source.visible_to(dataflows[each].tenant)]
            for each in hit:
                take(session, draft, running_dataflow(session, public_id(each)))
            write_down(session, draft, OperationKind.CHANGE_SOURCE, who=who, subject=source, begun=begun)
        self._told()
        return len(hit)

    def revoke(self, source: str, *, who: str) -> int:
        """Take a source away, with every dataflow that reads it or publishes into it; how many these were."""
        begun = time.monotonic()
        with self._changing() as (session, draft):
            row = _source_row(session, source)
            hit = sorted({*_readers(draft, source), *publishing(draft.state, source)})
            for each in hit:
                take(session, draft, running_dataflow(session, public_id(each)))
            session.delete(row)
            draft.forget(source)
            write_down(session, draft, OperationKind.REVOKE, who=who, subject=source, begun=begun)
        self._told()
        return len(hit)


def _check_free(topic: str, found: Iterable[Registered], row: SourceRow, who: str) -> None:
    """Refuse a topic that feeds a source, without a word about a source of others."""
    for each in found:
        if who == OPERATOR or each.source.owner == row.owner:
            raise Conflict(
                f"the topic {topic!r} feeds the source {each.source.name!r} already; choose another topic, or revoke "
                "that source first"
            )
        raise Conflict(
            f"the topic {topic!r} is not to be had; choose another, best below your name, as {row.owner}/..."
        )


def _source_row(session: Session, source: str) -> SourceRow:
    row = session.scalar(select(SourceRow).where(col(SourceRow.name) == source))
    if row is None:
        raise NotFound("source", source)
    return row


def _readers(draft: Draft, source: str) -> list[str]:
    """The dataflows that read a source, as the running graph calls them; in an order that anybody would get."""
    return sorted(draft.state.readers.get(source, ()))
