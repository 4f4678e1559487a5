"""The changes that sources bring: registered, opened to others, and revoked."""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sqlalchemy import func, select
from sqlmodel import Session, col

from dags import Kind
from manager.answers.overview import OperationKind
from manager.documents.canonical import publishing
from manager.kernel.committer import Committer
from manager.kernel.dataflow_rows import running_dataflow, take_away
from manager.kernel.draft import OPERATOR, Draft, write_down
from manager.kernel.registered_sources import Grants, Registered, grant, grants_in, registered
from manager.kernel.state import CommittedState
from manager.kernel.transitions import TransitionScope
from manager.planner import public_id
from manager.problem import Conflict, Forbidden, NotFound
from manager.store.database import Store
from manager.store.tables import SourceRow, TenantRow
from manager.tenants.quotas import Holding, check_another, check_generated
from merge import JobId


class SourceChanges:
    """All that is done with sources."""

    def __init__(self, committer: Committer, store: Store) -> None:
        self._committer = committer
        self._store = store

    def register(self, row: SourceRow, *, who: str) -> Registered:
        """Register a source."""
        begun = time.monotonic()

        def decide(state: CommittedState, _now: datetime) -> None:
            if row.name in state.sources:
                raise Conflict(f"there is a source {row.name!r} already; choose another name, or revoke that one first")
            topic = row.connection.get("topic")
            # One topic feeds one source, so that its owner is the only one to write there.
            if topic is not None:
                self._check_name(topic, row.owner)
                _check_free(topic, (each for each in state.sources.values() if each.topic == topic), row, who)

        def write(session: Session, draft: Draft, _decided: None) -> Registered:
            owned = select(func.count()).select_from(SourceRow).where(col(SourceRow.owner) == row.owner)
            check_another(session, row.owner, Holding.SOURCES, session.scalar(owned) or 0)
            if who != OPERATOR:
                check_generated(session, row.owner, row.connection)
            row.registered = draft.now.timestamp()
            grant(row, Grants(), row.visibility, row.readers, now=row.registered)
            session.add(row)
            session.flush()
            made = registered(row)
            draft.know(made)
            write_down(session, draft, OperationKind.REGISTER, who=who, subject=row.name, begun=begun)
            return made

        return self._committer.commit(decide, write, scope=lambda _state, _decided: TransitionScope())

    def set_visibility(self, source: str, visibility: str, readers: list[str], *, who: str) -> int:
        """Set who may read a source; the number of dataflows that were removed, of those who may not any more."""
        begun = time.monotonic()

        def hit(state: CommittedState, row: SourceRow) -> list[str]:
            grant(row, grants_in(row), visibility, readers, now=time.time())
            seen, dataflows = registered(row).source, state.running.dataflows
            return [each for each in _readers(state, source) if not seen.visible_to(dataflows[each].tenant)]

        def write(session: Session, draft: Draft, dataflows: list[str]) -> int:
            row = _source_row(session, source)
            grant(row, grants_in(row), visibility, readers, now=draft.now.timestamp())
            session.add(row)
            draft.know(registered(row))
            _take_away(session, draft, dataflows)
            write_down(session, draft, OperationKind.CHANGE_SOURCE, who=who, subject=source, begun=begun)
            return len(dataflows)

        return self._committer.commit(self._reading(source, hit), write, scope=_scope)

    def declare(self, source: str, fields: Mapping[str, Kind], *, who: str) -> Registered:
        """Declare other fields for what is submitted from now on; what runs keeps those that it was submitted with."""
        begun = time.monotonic()

        def write(session: Session, draft: Draft, _dataflows: list[str]) -> Registered:
            row = _source_row(session, source)
            row.fields = {name: str(kind) for name, kind in fields.items()}
            session.add(row)
            made = registered(row)
            draft.know(made)
            note = f"declares {', '.join(f'{name} {kind}' for name, kind in fields.items()) or 'no fields'}"
            write_down(session, draft, OperationKind.CHANGE_SOURCE, who=who, subject=source, begun=begun, note=note)
            return made

        return self._committer.commit(self._reading(source, lambda _state, _row: []), write, scope=_scope)

    def revoke(self, source: str, *, who: str) -> int:
        """Take a source away, with every dataflow that reads it or publishes into it; the number of these."""
        begun = time.monotonic()

        def hit(state: CommittedState, _row: SourceRow) -> list[str]:
            return sorted({*_readers(state, source), *publishing(state, source)})

        def write(session: Session, draft: Draft, dataflows: list[str]) -> int:
            row = _source_row(session, source)
            _take_away(session, draft, dataflows)
            session.delete(row)
            draft.forget(source)
            write_down(session, draft, OperationKind.REVOKE, who=who, subject=source, begun=begun)
            return len(dataflows)

        return self._committer.commit(self._reading(source, hit), write, scope=_scope)

    def _check_name(self, topic: str, owner: str) -> None:
        """Refuse a topic that begins with another tenant's name, whether or not it feeds a source of that tenant."""
        first, _, rest = topic.partition("/")
        with self._store.read() as session:
            if first == owner or session.get(TenantRow, first) is None:
                return
        raise Forbidden(
            f"the topic {topic!r} begins with the name of another tenant, so it is that tenant's; choose one below the "
            f"owner's name, as {owner}/{rest or first}"
        )

    def _reading(
        self, source: str, hit: Callable[[CommittedState, SourceRow], list[str]]
    ) -> Callable[[CommittedState, datetime], list[str]]:
        """The decision which dataflows have to go, by the row of a source, which stays as it is."""

        def decide(state: CommittedState, _now: datetime) -> list[str]:
            with self._store.read() as session:
                row = _source_row(session, source)
            return hit(state, row)

        return decide


def _scope(state: CommittedState, dataflows: list[str]) -> TransitionScope:
    return TransitionScope(jobs=frozenset[JobId]().union(*map(state.jobs_of, dataflows)))


def _take_away(session: Session, draft: Draft, dataflows: Iterable[str]) -> None:
    for each in dataflows:
        take_away(session, draft, running_dataflow(session, public_id(each)))


def _check_free(topic: str, found: Iterable[Registered], row: SourceRow, who: str) -> None:
    """Refuse a topic that feeds a source, without a word about a source of others."""
    for each in found:
        if who == OPERATOR or each.source.owner == row.owner:
            raise Conflict(
                f"the topic {topic!r} feeds the source {each.source.name!r} already; choose another topic, or revoke "
                "that source first"
            )
        raise Conflict(f"the topic {topic!r} is taken; choose one below your name, as {row.owner}/{topic}")


def _source_row(session: Session, source: str) -> SourceRow:
    row = session.scalar(select(SourceRow).where(col(SourceRow.name) == source))
    if row is None:
        raise NotFound("source", source)
    return row


def _readers(state: CommittedState, source: str) -> list[str]:
    """The dataflows that read a source, as the running graph calls them; in an order that is always the same."""
    return sorted(state.readers.get(source, ()))
