"""The changes that dataflows bring: submitted alone or together, replaced, drained and removed; and their previews."""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import bindparam, insert, select
from sqlmodel import Session

from braid_client.answers.dataflows import Start
from braid_client.answers.overview import OperationKind
from bridge.traces import span
from dags import Catalogue, Dataflow, Problem, Scope
from dags.canonical import NO_HISTORIES, outline
from engine.log_lines import note
from manager.documents.canonical import canonical, of_document, problems_of_documents, published_in
from manager.documents.drafts import DraftPreview, preview_draft
from manager.documents.preview import SubmissionPreview, check_loops, confined, preview, unhosted_refused
from manager.documents.revisions import Tags, check_unchanged
from manager.kernel.committer import Committer, OpenChange
from manager.kernel.dataflow_rows import (
    WrittenDocument,
    dataflow_of,
    histories_of,
    rewriting,
    running_dataflow,
    take_away,
    take_origin,
)
from manager.kernel.draft import (
    UNBOUNDED,
    Draft,
    dataflow_row,
    write_down,
    write_idempotency,
    write_operation,
    write_running,
)
from manager.kernel.registered_sources import Readable, Registered
from manager.kernel.state import CommittedState, running_id
from manager.kernel.transitions import Comer, Drain, TransitionScope
from manager.kernel.wanted import Draining
from manager.moves.changes import reading_the_same
from manager.planner import Delivered, public_id
from manager.problem import Conflict, InvalidDataflow
from manager.store.database import Store
from manager.store.tables import DataflowRow, IdempotencyRow, table_of
from manager.tenants.quotas import check_from_earliest, check_rate, check_size
from merge import JobId, Replace, Step, Submit, decide


class _Document(NamedTuple):
    tenant: str
    dataflow: str
    """The id that it gets, or has."""
    raw: bytes
    start: Start
    histories: Mapping[str, Scope] = NO_HISTORIES


class _Decided(NamedTuple):
    dataflow: Dataflow
    step: Step


class _Stale(Exception):
    """The sources have changed since the documents were read."""


class _Known(Exception):
    """The idempotency key has been used for the same documents."""

    def __init__(self, *rows: DataflowRow) -> None:
        super().__init__()
        self.rows = rows


_ADD_DATAFLOW = insert(table_of(DataflowRow))
_IDEMPOTENCY = table_of(IdempotencyRow).c
_KNOWN = select(_IDEMPOTENCY.digest, _IDEMPOTENCY.dataflow).where(
    _IDEMPOTENCY.tenant == bindparam("tenant"), _IDEMPOTENCY.key == bindparam("key")
)


class _DocumentChanges:
    """The base of changes that read documents against the committed state."""

    def __init__(self, committer: Committer, store: Store, catalogue: Catalogue) -> None:
        self._committer = committer
        self._store = store
        self._catalogue = catalogue
        self._published = published_in(store)

    def _sources(self) -> Mapping[str, Registered]:
        with self._committer.looking() as state:
            return state.sources

    def _canonical(self, document: _Document, sources: Mapping[str, Registered]) -> Dataflow:
        with span("read document", {"braid.dataflow": document.dataflow}):
            return canonical(
                document.raw,
                dataflow=document.dataflow,
                tenant=document.tenant,
                catalogue=self._catalogue,
                sources=sources,
                histories=document.histories,
                published=self._published,
            )


class DataflowChanges(_DocumentChanges):
    """All that is done with dataflows."""

    def submit(  # noqa: PLR0913 - each is a part of the request
        self,
        tenant: str,
        raw: bytes,
        *,
        who: str,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
        origin: WrittenDocument | None = None,
    ) -> DataflowRow:
        """Submit a document for a tenant, and with it of what it was made, if it was."""
        begun = time.monotonic()
        digest = _digest(raw if origin is None else origin.written, start)
        key = None if idempotency_key is None else _Key(idempotency_key, digest)
        document = _Document(tenant, f"d-{secrets.token_hex(6)}", raw, start)

        def request(dataflow: Dataflow) -> Submit:
            if key is not None and (row := self._known(tenant, key)) is not None:
                raise _Known(row)
            return Submit(dataflow=dataflow, from_earliest=start is Start.EARLIEST)

        try:
            with self._changing(document, request) as (session, draft, decided, _):
                dataflow = decided.dataflow
                if who not in UNBOUNDED:
                    check_rate(session, tenant, draft.now)
                check_size(session, tenant, dataflows=1, tasks=len(dataflow.tasks), streams=dataflow.streams)
                if start is Start.EARLIEST:
                    check_from_earliest(session, tenant)
                draft.take(decided.step, from_earliest=start is Start.EARLIEST)
                row = _written(session, draft, document, decided, origin, key)
                kind = OperationKind.SUBMIT
                write_down(session, draft, kind, who=who, subject=document.dataflow, begun=begun)
                return row
        except _Known as known:
            note(repeated=True)
            return known.rows[0]

    def submitted_before(self, tenant: str, sent: bytes, idempotency_key: str, start: Start) -> DataflowRow | None:
        """Return what the same submission under the same key has made, if there was one."""
        return self._known(tenant, _Key(idempotency_key, _digest(sent, start)))

    def replace(
        self,
        dataflow: str,
        raw: bytes,
        *,
        who: str,
        origin: WrittenDocument | None = None,
        tags: Tags | None = None,
    ) -> DataflowRow:
        """Swap the document of a dataflow for another; what both have in common never stops."""
        begun = time.monotonic()
        before = self._running(dataflow)
        start = Start(before.start)

        def request(edited: Dataflow) -> Replace:
            row = self._running(dataflow, tags)
            if row.draining is not None:
                raise Conflict(f"the dataflow {dataflow!r} drains, and is removed after that; submit it again")
            old, new = (running_id(dataflow, row.revision + more) for more in (0, 1))
            return Replace(dataflow=old, by=replace(edited, id=new), from_earliest=start is Start.EARLIEST)

        document = _Document(before.tenant, dataflow, raw, start, histories_of(before))
        with self._changing(document, request) as (session, draft, decided, _):
            row = running_dataflow(session, dataflow)
            if who not in UNBOUNDED:
                check_rate(session, row.tenant, draft.now)
            tasks, streams = len(decided.dataflow.tasks) - row.tasks, decided.dataflow.streams - row.streams
            check_size(session, row.tenant, dataflows=0, tasks=tasks, streams=streams)
            with rewriting(session, row):
                _swap(draft, row, decided, raw)
                take_origin(row, origin)
            session.add(row)
            write_down(session, draft, OperationKind.REPLACE, who=who, subject=dataflow, begun=begun)
            return row

    def remove(self, dataflow: str, *, who: str, tags: Tags | None = None) -> DataflowRow:
        """Remove a dataflow at once."""

        def touched(state: CommittedState, _now: datetime) -> tuple[TransitionScope, None]:
            revision = self._running(dataflow, tags).revision
            return TransitionScope(jobs=state.jobs_of(running_id(dataflow, revision))), None

        with self._committer.changing(touched) as (session, draft, *_):
            row = running_dataflow(session, dataflow)
            take_away(session, draft, row)
            write_down(session, draft, OperationKind.REMOVE, who=who, subject=dataflow)
            return row

    def explain(self, tenant: str, raw: bytes, *, start: Start = Start.LATEST) -> SubmissionPreview:
        """A preview of a submission."""
        while True:
            sources = self._sources()
            dataflow = self._canonical(_Document(tenant, "explained", raw, start), sources)
            with self._committer.looking() as state:
                if state.sources is not sources:
                    continue
                conditions = self._committer.ground.conditions(state, datetime.now(UTC))
                seen = state.snapshot()
            # Others commit meanwhile: a large document takes as long to decide on as to read.
            check_loops(dataflow, raw, seen)
            return preview(seen, conditions, confined(dataflow, seen, start), raw, start)

    def outline(self, tenant: str, raw: bytes, *, start: Start = Start.LATEST) -> DraftPreview:
        """What is known of a plain document that may have problems. `InvalidDocument` if nothing of it is readable."""
        while True:
            sources = self._sources()
            readable = Readable(tenant, sources)
            drawn = outline(raw, dataflow="explained", tenant=tenant, catalogue=self._catalogue, sources=readable)
            with self._committer.looking() as state:
                if state.sources is not sources:
                    continue
                seen = state.snapshot()
            return preview_draft(seen, drawn, confined(drawn.sound, seen, start))

    @contextmanager
    def _changing(
        self, document: _Document, request: Callable[[Dataflow], Submit | Replace]
    ) -> Iterator[OpenChange[_Decided]]:
        """Read a document while others commit, then decide; read it again if the sources have changed."""
        with ExitStack() as opened:
            while True:
                sources = self._sources()
                dataflow = self._canonical(document, sources)
                decide_on = partial(self._decided, document, request, sources, dataflow)
                with suppress(_Stale):
                    change = opened.enter_context(self._committer.changing(decide_on))
                    break
            yield change

    def _decided(  # noqa: PLR0913, PLR0917 - what was read, and the state to decide by
        self,
        document: _Document,
        request: Callable[[Dataflow], Submit | Replace],
        sources: Mapping[str, Registered],
        dataflow: Dataflow,
        state: CommittedState,
        now: datetime,
    ) -> tuple[TransitionScope, _Decided]:
        if state.sources is not sources:
            raise _Stale
        check_loops(dataflow, document.raw, state)
        asked = request(confined(dataflow, state, document.start))
        conditions = self._committer.ground.conditions(state, now)
        with unhosted_refused(dataflow, document.raw, conditions, self._committer.ground.order):
            step = decide(state.running, state.jobs, asked, conditions)
        made = asked.dataflow if isinstance(asked, Submit) else asked.by
        return TransitionScope(jobs=step.touches), _Decided(made, step)

    def _running(self, dataflow: str, tags: Tags | None = None) -> DataflowRow:
        with self._store.read() as session:
            row = running_dataflow(session, dataflow)
            check_unchanged(session, row, tags)
            return row

    def _known(self, tenant: str, key: "_Key") -> DataflowRow | None:
        with self._store.read() as session:
            known = session.execute(_KNOWN, {"tenant": tenant, "key": key.text}).one_or_none()
            if known is None:
                return None
            if known.digest != key.digest:
                raise Conflict(
                    f"the idempotency key {key.text!r} was used for another document; use a new key for each submission"
                )
            return dataflow_of(session, known.dataflow)


class _Key(NamedTuple):
    """An idempotency key, and the digest of what was sent with it."""

    text: str
    digest: str


def _written(  # noqa: PLR0913, PLR0917 - a transaction, and what is written in it
    session: Session,
    draft: Draft,
    document: _Document,
    decided: _Decided,
    origin: WrittenDocument | None,
    key: _Key | None,
) -> DataflowRow:
    """Write down a dataflow that is submitted, and its key."""
    row = dataflow_row(draft, decided.dataflow, decided.step.change, document.raw)
    row.start = str(document.start)
    take_origin(row, origin)
    session.execute(_ADD_DATAFLOW, row.model_dump(exclude={"number"}))
    if key is not None:
        write_idempotency(session, draft, row, *key)
    return row


def _digest(sent: bytes, start: Start) -> str:
    return hashlib.sha256(sent if start is Start.LATEST else f"{start} ".encode() + sent).hexdigest()


_OF_A_REVISION = (
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
    "outputs",
)
"""The columns of a dataflow that its next revision may change."""


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
    for name in _OF_A_REVISION:
        setattr(row, name, getattr(made, name))
    row.histories = {
        task: list(scope)
        for task, scope in histories_of(row).items()
        if task in row.task_ids and running.tasks[running.dataflow(new).places[task]].key.scope == scope
    }
    draft.state.epochs |= {Delivered(new, sink): row.epochs[sink] for sink in after if sink in row.epochs}


class BundleDocument(NamedTuple):
    """One document of a bundle."""

    document: bytes
    """The plain one that runs."""
    origin: WrittenDocument | None = None
    """Of what it was made, if it was."""


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


class BundleChanges(_DocumentChanges):
    """Submits bundles."""

    def submit(self, bundle: Bundle) -> tuple[DataflowRow, ...]:
        """Submit all documents of a bundle, or none."""
        begun = time.monotonic()
        names = [f"d-{secrets.token_hex(6)}" for _ in bundle.documents]
        cleared = frozenset[JobId]()
        while True:
            sources = self._sources()
            dataflows = self._read(bundle, names, sources)
            decide_on = partial(self._touched, bundle, sources, dataflows, cleared)
            try:
                with self._committer.changing(decide_on) as (session, draft, touched, _):
                    return _written_bundle(session, draft, bundle, dataflows, touched, begun)
            except _Stale:
                continue
            except _Beyond as beyond:
                cleared |= beyond.jobs
            except _Known as known:
                note(repeated=True)
                return known.rows

    def _touched(  # noqa: PLR0913, PLR0917 - what was read, and the state to decide by
        self,
        bundle: Bundle,
        sources: Mapping[str, Registered],
        dataflows: Sequence[Dataflow],
        cleared: frozenset[JobId],
        state: CommittedState,
        now: datetime,
    ) -> tuple[TransitionScope, frozenset[JobId]]:
        """The jobs that the documents would touch if each came alone. Together it may be decided otherwise."""
        if state.sources is not sources:
            raise _Stale
        if bundle.idempotency_key is not None:
            known = self.submitted_before(bundle.tenant, bundle.sent, bundle.idempotency_key, bundle.start)
            if known:
                raise _Known(*known)
        conditions = self._committer.ground.conditions(state, now)
        touched, order = cleared, self._committer.ground.order
        for at, (dataflow, document) in enumerate(zip(dataflows, bundle.documents, strict=True)):
            with of_document(at), unhosted_refused(dataflow, document.document, conditions, order):
                touched |= decide(state.running, state.jobs, _request(dataflow, state, bundle), conditions).touches
        return TransitionScope(jobs=touched), touched

    def submitted_before(self, tenant: str, sent: bytes, idempotency_key: str, start: Start) -> tuple[DataflowRow, ...]:
        """Return what the same bundle under the same key has made; nothing if there was none."""
        digest, rows = _bundle_digest(sent, start), list[DataflowRow]()
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
        dataflows = self._read(bundle, [f"explained-{at}" for at in range(len(documents))], self._sources())
        with self._committer.looking() as state:
            keys = {task.key for dataflow in dataflows for task in confined(dataflow, state, start).tasks}
            return sum(key not in state.running.index for key in keys)

    def _read(self, bundle: Bundle, names: Sequence[str], sources: Mapping[str, Registered]) -> tuple[Dataflow, ...]:
        """The canonical dataflows of documents; refused with the problems of all."""
        dataflows: list[Dataflow] = []
        problems: dict[int, Sequence[Problem]] = {}
        for at, (document, name) in enumerate(zip(bundle.documents, names, strict=True)):
            try:
                dataflows.append(
                    self._canonical(_Document(bundle.tenant, name, document.document, bundle.start), sources)
                )
            except InvalidDataflow as refused:
                problems[at] = refused.errors
        if problems:
            raise InvalidDataflow(problems_of_documents(problems))
        return tuple(dataflows)


def _written_bundle(  # noqa: PLR0913, PLR0917 - a transaction, and what is written in it
    session: Session,
    draft: Draft,
    bundle: Bundle,
    dataflows: Sequence[Dataflow],
    cleared: frozenset[JobId],
    begun: float,
) -> tuple[DataflowRow, ...]:
    if bundle.who not in UNBOUNDED:
        check_rate(session, bundle.tenant, draft.now, submits=len(bundle.documents))
    tasks = sum(len(dataflow.tasks) for dataflow in dataflows)
    streams = sum(dataflow.streams for dataflow in dataflows)
    check_size(session, bundle.tenant, dataflows=len(bundle.documents), tasks=tasks, streams=streams)
    if bundle.start is Start.EARLIEST:
        check_from_earliest(session, bundle.tenant, len(bundle.documents))
    digest = _bundle_digest(bundle.sent, bundle.start)
    rows = []
    for at, (dataflow, sent) in enumerate(zip(dataflows, bundle.documents, strict=True)):
        with of_document(at):
            # Those before it count, which is why it is not checked any earlier.
            check_loops(dataflow, sent.document, draft.state)
        request = _request(dataflow, draft.state, bundle)
        step = _taken(draft, request, cleared)
        key = None if bundle.idempotency_key is None else _Key(_key_of(bundle.idempotency_key, at), digest)
        document = _Document(bundle.tenant, dataflow.id, sent.document, bundle.start)
        rows.append(_written(session, draft, document, _Decided(request.dataflow, step), sent.origin, key))
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


def _bundle_digest(sent: bytes, start: Start) -> str:
    return hashlib.sha256(f"{start} ".encode() + sent).hexdigest()


class DrainChanges:
    """All that is done with drains."""

    def __init__(self, committer: Committer, store: Store, dataflows: DataflowChanges) -> None:
        self._committer = committer
        self._store = store
        self._dataflows = dataflows

    def begin(self, dataflow: str, *, who: str, tags: Tags | None = None) -> DataflowRow:
        """Have a dataflow removed once what its sources have sent by now is worked off; idempotent."""

        def decide(state: CommittedState, now: datetime) -> tuple[TransitionScope, Drain]:
            with self._store.read() as session:
                row = running_dataflow(session, dataflow)
                check_unchanged(session, row, tags)
            name = running_id(dataflow, row.revision)
            instances = frozenset(state.running.dataflow(name).instances)
            drain = state.drains.get(name) or Drain(dataflow=name, since=now.timestamp(), instances=instances)
            return drain.scope, drain

        with self._committer.changing(decide, comer=Comer.DRAIN) as (session, draft, drain, _):
            row = running_dataflow(session, dataflow)
            if row.draining is None:
                row.draining = drain.since
                session.add(row)
                draft.moved = True
                draft.state.drains[drain.dataflow] = drain
                write_down(session, draft, OperationKind.DRAIN, who=who, subject=dataflow)
            return row

    def under_way(self) -> tuple[Draining, ...]:
        """The dataflows that drain."""
        with self._committer.looking() as state:
            return tuple(_draining(state, drain) for _, drain in sorted(state.drains.items()))

    def drained(self, dataflow: str) -> None:
        """All that the sources of a dataflow had sent is worked off: remove it."""
        with self._committer.looking() as state:
            names = {public_id(drain): drain for drain in state.drains}
            # It may have been removed at once meanwhile.
            if dataflow in names:
                self._dataflows.remove(dataflow, who=state.running.dataflow(names[dataflow]).tenant)


def _draining(state: CommittedState, drain: Drain) -> Draining:
    running = state.running
    dags = reading_the_same(running, running.dags_of(drain.dataflow))
    sources = frozenset(source for source, dag in running.running_dags.of_source.items() if dag in dags)
    return Draining(
        dataflow=public_id(drain.dataflow),
        since=drain.since,
        streams=state.streams_of(sources),
        instances=frozenset(instance for instance in drain.instances if running.tasks[instance].inputs),
    )
