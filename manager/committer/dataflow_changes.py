"""The changes that dataflows bring: submitted, replaced and removed; and previews of these."""

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import bindparam, select
from sqlmodel import Session

from dags import Catalogue, Dataflow, Scope
from dags.canonical import NO_HISTORIES
from manager.answers import OperationKind, Start
from manager.committed.sources import Registered
from manager.committed.state import CommittedState, running_id
from manager.committer.committer import Committer
from manager.committer.dataflow_rows import dataflow_of, histories_of, running_dataflow, take_away, take_origin
from manager.committer.draft import Draft
from manager.committer.rows import UNBOUNDED, dataflow_row, write_dataflow, write_down, write_idempotency
from manager.planner import Delivered
from manager.problem import Conflict
from manager.store.database import Store
from manager.store.tables import DataflowRow, IdempotencyRow, table_of
from manager.submissions.canonical_document import canonical
from manager.submissions.confinement import confined
from manager.submissions.preview import SubmissionPreview, preview, unhosted_refused
from manager.submissions.publish_loops import check_loops
from manager.submissions.published_code import published_in
from manager.submissions.quota import check_from_earliest, check_rate, check_size
from manager.submissions.written_document import WrittenDocument
from manager.transitions.scope import TransitionScope
from merge import Replace, Step, Submit, decide


class Submission(NamedTuple):
    """The outcome of a submission."""

    row: DataflowRow
    again: bool
    """Whether it was submitted before under the same idempotency key."""


class _Document(NamedTuple):
    tenant: str
    dataflow: str
    """The id that it gets, or has."""
    raw: bytes
    start: Start
    histories: Mapping[str, Scope] = NO_HISTORIES


class _Read(NamedTuple):
    dataflow: Dataflow
    sources: Mapping[str, Registered]
    """The sources as they were when it was read."""


class _Decided(NamedTuple):
    dataflow: Dataflow
    step: Step


class _Stale(Exception):
    """The sources have changed since the document was read."""


class _Known(Exception):
    """The idempotency key has been used for the same submission."""

    def __init__(self, row: DataflowRow) -> None:
        super().__init__(row.id)
        self.row = row


class DataflowChanges:
    """All that is done with dataflows."""

    def __init__(self, committer: Committer, store: Store, catalogue: Catalogue) -> None:
        self._committer = committer
        self._store = store
        self._catalogue = catalogue
        self._published = published_in(store)

    def submit(  # noqa: PLR0913 - each is a part of the request
        self,
        tenant: str,
        raw: bytes,
        *,
        who: str,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
        origin: WrittenDocument | None = None,
    ) -> Submission:
        """Submit a document for a tenant, and with it of what it was made, if it was."""
        begun = time.monotonic()
        digest = _digest(raw if origin is None else origin.written, start)
        name = f"d-{secrets.token_hex(6)}"

        def request(dataflow: Dataflow) -> Submit | Replace:
            if idempotency_key is not None and (row := self._known(tenant, idempotency_key, digest)) is not None:
                raise _Known(row)
            return Submit(dataflow=dataflow, from_earliest=start is Start.EARLIEST)

        def write(session: Session, draft: Draft, decided: _Decided) -> DataflowRow:
            if who not in UNBOUNDED:
                check_rate(session, tenant, draft.now)
            dataflow = decided.dataflow
            check_size(session, tenant, dataflows=1, tasks=len(dataflow.tasks), streams=dataflow.streams)
            if start is Start.EARLIEST:
                check_from_earliest(session, tenant)
            draft.take(decided.step, from_earliest=start is Start.EARLIEST)
            row = dataflow_row(draft, decided.dataflow, decided.step.change, raw)
            row.start = str(start)
            take_origin(row, origin)
            write_dataflow(session, row)
            if idempotency_key is not None:
                write_idempotency(session, draft, row, idempotency_key, digest)
            write_down(session, draft, OperationKind.SUBMIT, who=who, subject=name, begun=begun)
            return row

        try:
            return Submission(self._committed(_Document(tenant, name, raw, start), request, write), again=False)
        except _Known as known:
            return Submission(known.row, again=True)

    def submitted_before(self, tenant: str, sent: bytes, idempotency_key: str, start: Start) -> DataflowRow | None:
        """What the same submission under the same key has made, if there was one."""
        return self._known(tenant, idempotency_key, _digest(sent, start))

    def replace(self, dataflow: str, raw: bytes, *, who: str, origin: WrittenDocument | None = None) -> DataflowRow:
        """Swap the document of a dataflow for another; what both have in common never stops."""
        begun = time.monotonic()
        with self._store.read() as session:
            found = running_dataflow(session, dataflow)
            tenant, start, histories = found.tenant, Start(found.start), histories_of(found)

        def request(edited: Dataflow) -> Submit | Replace:
            with self._store.read() as session:
                row = running_dataflow(session, dataflow)
            if row.draining is not None:
                raise Conflict(f"the dataflow {dataflow!r} drains, and is removed after that; submit it anew")
            old, new = (running_id(dataflow, row.revision + more) for more in (0, 1))
            return Replace(dataflow=old, by=replace(edited, id=new), from_earliest=start is Start.EARLIEST)

        def write(session: Session, draft: Draft, decided: _Decided) -> DataflowRow:
            row = running_dataflow(session, dataflow)
            if who not in UNBOUNDED:
                check_rate(session, row.tenant, draft.now)
            tasks, streams = len(decided.dataflow.tasks) - row.tasks, decided.dataflow.streams - row.streams
            check_size(session, row.tenant, dataflows=0, tasks=tasks, streams=streams)
            _swap(draft, row, decided, raw)
            take_origin(row, origin)
            session.add(row)
            write_down(session, draft, OperationKind.REPLACE, who=who, subject=dataflow, begun=begun)
            return row

        return self._committed(_Document(tenant, dataflow, raw, start, histories), request, write)

    def remove(self, dataflow: str, *, who: str) -> DataflowRow:
        """Remove a dataflow at once."""
        begun = time.monotonic()

        def scope(state: CommittedState, row: DataflowRow) -> TransitionScope:
            return TransitionScope(jobs=state.jobs_of(running_id(dataflow, row.revision)))

        def read(_state: CommittedState, _now: datetime) -> DataflowRow:
            with self._store.read() as session:
                return running_dataflow(session, dataflow)

        def write(session: Session, draft: Draft, _row: DataflowRow) -> DataflowRow:
            row = running_dataflow(session, dataflow)
            take_away(session, draft, row)
            write_down(session, draft, OperationKind.REMOVE, who=who, subject=dataflow, begun=begun)
            return row

        return self._committer.commit(read, write, scope=scope)

    def explain(self, tenant: str, raw: bytes, *, start: Start = Start.LATEST) -> SubmissionPreview:
        """A preview of a submission."""
        while True:
            dataflow, sources = self._canonical(_Document(tenant, "explained", raw, start))
            with self._committer.looking() as state:
                if state.sources is not sources:
                    continue
                conditions = self._committer.ground.conditions(state, datetime.now(UTC))
                seen = state.snapshot()
            # Others commit meanwhile: a large document takes as long to decide on as to read.
            check_loops(dataflow, raw, seen)
            return preview(seen, conditions, confined(dataflow, seen, start), raw, start)

    def _committed(
        self,
        document: _Document,
        request: Callable[[Dataflow], Submit | Replace],
        write: Callable[[Session, Draft, _Decided], DataflowRow],
    ) -> DataflowRow:
        """Read a document while others commit, then decide and commit; read it again if the sources have changed."""
        while True:
            read = self._canonical(document)

            def decided(state: CommittedState, now: datetime, read: _Read = read) -> _Decided:
                if state.sources is not read.sources:
                    raise _Stale
                check_loops(read.dataflow, document.raw, state)
                asked = request(confined(read.dataflow, state, document.start))
                conditions = self._committer.ground.conditions(state, now)
                with unhosted_refused(read.dataflow, document.raw, conditions):
                    step = decide(state.running, state.jobs, asked, conditions)
                return _Decided(asked.dataflow if isinstance(asked, Submit) else asked.by, step)

            try:
                return self._committer.commit(
                    decided, write, scope=lambda _state, decided: TransitionScope(jobs=decided.step.touches)
                )
            except _Stale:
                continue

    def _canonical(self, document: _Document) -> _Read:
        with self._committer.looking() as state:
            sources = state.sources
        dataflow = canonical(
            document.raw,
            dataflow=document.dataflow,
            tenant=document.tenant,
            catalogue=self._catalogue,
            sources=sources,
            histories=document.histories,
            published=self._published,
        )
        return _Read(dataflow, sources)

    def _known(self, tenant: str, key: str, digest: str) -> DataflowRow | None:
        with self._store.read() as session:
            known = session.execute(_KNOWN, {"tenant": tenant, "key": key}).one_or_none()
            if known is None:
                return None
            if known.digest != digest:
                raise Conflict(
                    f"the idempotency key {key!r} was used for another document; use a new key for each submission"
                )
            return dataflow_of(session, known.dataflow)


def _digest(sent: bytes, start: Start) -> str:
    return hashlib.sha256(sent if start is Start.LATEST else f"{start} ".encode() + sent).hexdigest()


def _swap(draft: Draft, row: DataflowRow, decided: _Decided, raw: bytes) -> None:
    """Go on with the next revision of a dataflow, and have its row say so."""
    running = draft.state.running
    before = running.produced(running_id(row.id, row.revision))
    draft.take(decided.step, from_earliest=row.start == Start.EARLIEST)
    made = dataflow_row(draft, decided.dataflow, decided.step.change, raw)
    new = decided.dataflow.id
    after = running.produced(new)
    # A sink that goes begins anew as well, should it ever come back.
    anew = {sink for sink, instance in before.items() if after.get(sink) != instance}
    row.epochs = row.epochs | {sink: row.epochs.get(sink, 1) + 1 for sink in anew}
    row.revision += 1
    for name in (
        "name",
        "document",
        "tasks",
        "streams",
        "task_ids",
        "instances",
        "started",
        "sinks",
        "parts",
        "sources",
    ):
        setattr(row, name, getattr(made, name))
    row.histories = {
        task: list(scope)
        for task, scope in histories_of(row).items()
        if task in row.task_ids and running.tasks[running.dataflow(new).places[task]].key.scope == scope
    }
    draft.number_anew((Delivered(new, sink), row.epochs[sink]) for sink in after if sink in row.epochs)


_IDEMPOTENCY = table_of(IdempotencyRow).c
_KNOWN = select(_IDEMPOTENCY.digest, _IDEMPOTENCY.dataflow).where(
    _IDEMPOTENCY.tenant == bindparam("tenant"), _IDEMPOTENCY.key == bindparam("key")
)
