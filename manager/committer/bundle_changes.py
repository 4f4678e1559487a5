"""The change that a bundle brings: several dataflows submitted at once, all or none."""

import hashlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlmodel import Session

from dags import Catalogue, Dataflow, Problem
from manager.answers import OperationKind, Start
from manager.committed.sources import Registered
from manager.committed.state import CommittedState
from manager.committer.committer import Committer
from manager.committer.dataflow_rows import dataflow_of, take_origin
from manager.committer.draft import Draft
from manager.committer.rows import (
    UNBOUNDED,
    dataflow_row,
    write_dataflow,
    write_idempotency,
    write_operation,
    write_running,
)
from manager.problem import Conflict, InvalidDataflow
from manager.store.database import Store
from manager.store.tables import DataflowRow, IdempotencyRow
from manager.submissions.bundle import of_document, problems_of_documents
from manager.submissions.canonical_document import canonical
from manager.submissions.confinement import confined
from manager.submissions.preview import unhosted_refused
from manager.submissions.publish_loops import check_loops
from manager.submissions.published_code import published_in
from manager.submissions.quota import check_from_earliest, check_rate, check_size
from manager.submissions.written_document import WrittenDocument
from manager.transitions.scope import TransitionScope
from merge import JobId, Step, Submit, decide


class BundleDocument(NamedTuple):
    """One document of a bundle."""

    document: bytes
    """The plain one that runs."""
    origin: WrittenDocument | None = None
    """Of what it was made, if it was."""


class _Read(NamedTuple):
    dataflows: tuple[Dataflow, ...]
    sources: Mapping[str, Registered]
    """The sources as they were when the documents were read."""


class _Stale(Exception):
    """The sources have changed since the documents were read."""


class _Known(Exception):
    """The idempotency key has been used for the same bundle."""

    def __init__(self, rows: tuple[DataflowRow, ...]) -> None:
        super().__init__()
        self.rows = rows


class _Beyond(Exception):
    """A document leads to a change of jobs that were not cleared for it."""

    def __init__(self, jobs: frozenset[JobId]) -> None:
        super().__init__()
        self.jobs = jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Documents to submit at once."""

    tenant: str
    documents: tuple[BundleDocument, ...]
    sent: bytes
    """The body of the request, which tells one bundle from another under the same key."""
    who: str
    idempotency_key: str | None = None
    start: Start = Start.LATEST


class BundleChanges:
    """Submits bundles."""

    def __init__(self, committer: Committer, store: Store, catalogue: Catalogue) -> None:
        self._committer = committer
        self._store = store
        self._catalogue = catalogue
        self._published = published_in(store)

    def submit(self, bundle: Bundle) -> tuple[DataflowRow, ...]:
        """Submit all documents of a bundle, or none."""
        begun = time.monotonic()
        names = [f"d-{secrets.token_hex(6)}" for _ in bundle.documents]
        cleared = frozenset[JobId]()
        while True:
            read = self._read(bundle, names)

            def decided(
                state: CommittedState, now: datetime, read: _Read = read, cleared: frozenset[JobId] = cleared
            ) -> frozenset[JobId]:
                return cleared | self._touched(state, now, bundle, read)

            def write(
                session: Session, draft: Draft, cleared: frozenset[JobId], read: _Read = read
            ) -> tuple[DataflowRow, ...]:
                return _written(session, draft, bundle, read, cleared, begun)

            try:
                return self._committer.commit(
                    decided, write, scope=lambda _state, touched: TransitionScope(jobs=touched)
                )
            except _Stale:
                continue
            except _Beyond as beyond:
                cleared |= beyond.jobs
            except _Known as known:
                return known.rows

    def _touched(self, state: CommittedState, now: datetime, bundle: Bundle, read: _Read) -> frozenset[JobId]:
        """The jobs that the documents would touch if each came alone. Together it may be decided otherwise."""
        if state.sources is not read.sources:
            raise _Stale
        if bundle.idempotency_key is not None:
            known = self.submitted_before(bundle.tenant, bundle.sent, bundle.idempotency_key, bundle.start)
            if known:
                raise _Known(known)
        conditions = self._committer.ground.conditions(state, now)
        touched = frozenset[JobId]()
        for at, (dataflow, each) in enumerate(zip(read.dataflows, bundle.documents, strict=True)):
            with of_document(at), unhosted_refused(dataflow, each.document, conditions):
                touched |= decide(state.running, state.jobs, _request(dataflow, state, bundle), conditions).touches
        return touched

    def submitted_before(self, tenant: str, sent: bytes, idempotency_key: str, start: Start) -> tuple[DataflowRow, ...]:
        """What the same bundle under the same key has made; nothing if there was none."""
        digest, rows = _digest(sent, start), list[DataflowRow]()
        with self._store.read() as session:
            while (known := session.get(IdempotencyRow, (tenant, _key_of(idempotency_key, len(rows))))) is not None:
                if known.digest != digest:
                    raise Conflict(
                        f"the idempotency key {idempotency_key!r} was used for another bundle; use a new key for each"
                    )
                rows.append(dataflow_of(session, known.dataflow))
        return tuple(rows)

    def started(self, tenant: str, documents: Sequence[bytes], start: Start) -> int:
        """The number of tasks that would start for documents, each once."""
        bundle = Bundle(tenant=tenant, documents=tuple(map(BundleDocument, documents)), sent=b"", who="", start=start)
        read = self._read(bundle, [f"explained-{at}" for at in range(len(documents))])
        with self._committer.looking() as state:
            keys = {task.key for each in read.dataflows for task in confined(each, state, start).tasks}
            return sum(key not in state.running.index for key in keys)

    def _read(self, bundle: Bundle, names: Sequence[str]) -> _Read:
        """The canonical dataflows of documents; refused with the problems of all."""
        with self._committer.looking() as state:
            sources = state.sources
        found: list[Dataflow] = []
        problems: dict[int, Sequence[Problem]] = {}
        for at, (each, name) in enumerate(zip(bundle.documents, names, strict=True)):
            try:
                found.append(
                    canonical(
                        each.document,
                        dataflow=name,
                        tenant=bundle.tenant,
                        catalogue=self._catalogue,
                        sources=sources,
                        published=self._published,
                    )
                )
            except InvalidDataflow as refused:
                problems[at] = refused.errors
        if problems:
            raise InvalidDataflow(problems_of_documents(problems))
        return _Read(tuple(found), sources)


def _written(  # noqa: PLR0913, PLR0917 - a transaction, and what is written in it
    session: Session, draft: Draft, bundle: Bundle, read: _Read, cleared: frozenset[JobId], begun: float
) -> tuple[DataflowRow, ...]:
    if bundle.who not in UNBOUNDED:
        check_rate(session, bundle.tenant, draft.now, submits=len(bundle.documents))
    tasks = sum(len(each.tasks) for each in read.dataflows)
    streams = sum(each.streams for each in read.dataflows)
    check_size(session, bundle.tenant, dataflows=len(bundle.documents), tasks=tasks, streams=streams)
    if bundle.start is Start.EARLIEST:
        check_from_earliest(session, bundle.tenant, len(bundle.documents))
    rows = []
    for at, (dataflow, each) in enumerate(zip(read.dataflows, bundle.documents, strict=True)):
        try:
            # Those before it count, which is why it is not checked any earlier.
            check_loops(dataflow, each.document, draft.state)
        except InvalidDataflow as refused:
            raise InvalidDataflow(problems_of_documents({at: refused.errors})) from refused
        request = _request(dataflow, draft.state, bundle)
        step = _taken(draft, request, cleared)
        row = dataflow_row(draft, request.dataflow, step.change, each.document)
        row.start = str(bundle.start)
        take_origin(row, each.origin)
        write_dataflow(session, row)
        if bundle.idempotency_key is not None:
            write_idempotency(
                session, draft, row, _key_of(bundle.idempotency_key, at), _digest(bundle.sent, bundle.start)
            )
        write_operation(
            session,
            draft,
            OperationKind.SUBMIT,
            who=bundle.who,
            subject=dataflow.id,
            begun=begun,
            started=len(step.change.starts),
            reused=len(step.change.reuses),
            jobs_started=[str(job) for job in step.opens],
        )
        rows.append(row)
    write_running(session, draft)
    return tuple(rows)


def _taken(draft: Draft, request: Submit, cleared: frozenset[JobId]) -> Step:
    """Decide on one document, after those before it, and go on by that."""
    state = draft.state
    step = decide(state.running, state.jobs, request, draft.ground.conditions(state, draft.now))
    if beyond := step.touches - cleared - {*draft.opened, *step.opens}:
        raise _Beyond(beyond)
    draft.take(step, from_earliest=request.from_earliest)
    return step


def _request(dataflow: Dataflow, state: CommittedState, bundle: Bundle) -> Submit:
    return Submit(dataflow=confined(dataflow, state, bundle.start), from_earliest=bundle.start is Start.EARLIEST)


def _key_of(key: str, at: int) -> str:
    # No key that somebody sends has a space.
    return f"{key} {at}"


def _digest(sent: bytes, start: Start) -> str:
    return hashlib.sha256(f"{start} ".encode() + sent).hexdigest()
