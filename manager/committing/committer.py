"""The committer: turns each request into a committed change, one after the other.

A change is decided in memory and written in one transaction. Only who leads commits; whoever finds in the transaction
that it does not lead any more, or that its memory is not what was committed, changes nothing.
"""

import gc
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import bindparam, delete, select, update
from sqlmodel import Session, col

from dags import Catalogue, Dataflow, InvalidDocument, canonicalise
from engine.plan import Feed
from manager.answers import OperationKind, Start
from manager.committing.confining import confined
from manager.committing.draft import Draft, Ground
from manager.committing.foretelling import Foretold, foretell, submit
from manager.committing.publishing import check_topics, publishing
from manager.committing.quota import check_rate, check_size
from manager.committing.sources import Grants, Readable, Registered, grant, grants_in, registered
from manager.committing.state import State, load, running_id
from manager.committing.wanted import Draining, WantedJob
from manager.committing.writing import dataflow_row, write_dataflow, write_down, write_idempotency, write_plans
from manager.planning import Delivered, public_id
from manager.problem import Conflict, InvalidDataflow, NotFound, StateNotReady
from manager.store.database import Store
from manager.store.tables import DataflowRow, IdempotencyRow, JobRow, Leadership, SourceRow, table_of
from merge import JobId, NoHost

OPERATOR = "operator"
"""Who an operator is in the journal; no tenant may be called so."""


class Submission(NamedTuple):
    """What a submission led to."""

    row: DataflowRow
    again: bool
    """Whether it was submitted before under the same idempotency key."""


class Committer:
    """One manager's; any thread may call it."""

    def __init__(self, store: Store, catalogue: Catalogue, ground: Ground, *, name: str) -> None:
        """`name` is what this manager is called as a leader."""
        self.name = name
        self._store = store
        self._catalogue = catalogue
        self._ground = ground
        self._lock = threading.RLock()
        self._term = 0
        self._state: State | None = None
        self._tell: list[Callable[[], None]] = []
        self._changes = 0

    def lead(self, term: int) -> None:
        """Commit from now on, under a term that was won."""
        with self._lock, self._store.read() as session:
            self._state, self._term = load(session, self._catalogue), term
            _settle()
        self._told()

    def step_down(self) -> None:
        """Commit no more."""
        with self._lock:
            self._state, self._term = None, 0

    @property
    def leads(self) -> bool:
        """Whether it commits."""
        return self._term > 0

    @contextmanager
    def looking(self) -> Iterator[State]:
        """The committed state, for as long as nothing is committed; not to be changed, and not to be held long."""
        with self._lock:
            yield self._current()

    def wanted(self) -> Mapping[str, WantedJob]:
        """As `Wanting` says."""
        with self._lock:
            if not self.leads:
                return {}
            state = self._current()
            runs = {str(job): WantedJob(job=str(job), host=plan.host, plan=plan) for job, plan in state.plans.items()}
            ends = {str(job): WantedJob(job=str(job), host=plan.host, plan=None) for job, plan in state.stopped.items()}
            return runs | ends

    def on_change(self, tell: Callable[[], None]) -> None:
        """As `Wanting` says."""
        self._tell.append(tell)

    def ended(self, job: str) -> None:
        """A job that was to stop has stopped, as its host says: forget it."""
        with self._lock:
            if not self.leads or JobId(int(job)) not in self._current().stopped:
                return
            with self._changing() as (session, draft):
                session.execute(delete(JobRow).where(col(JobRow.id) == int(job), col(JobRow.stopped)))
                draft.end(JobId(int(job)))

    def submit(
        self,
        tenant: str,
        raw: bytes,
        *,
        who: str,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> Submission:
        """Submit a document for a tenant."""
        begun = time.monotonic()
        digest = hashlib.sha256(raw if start is Start.LATEST else f"{start} ".encode() + raw).hexdigest()
        name = f"d-{secrets.token_hex(6)}"
        with self._lock:
            if idempotency_key is not None and (known := self._known(tenant, idempotency_key, digest)) is not None:
                return Submission(known, again=True)
            dataflow = self._canonical(tenant, name, raw, start)
            with self._changing() as (session, draft):
                if who != OPERATOR:
                    check_rate(session, tenant, draft.now)
                check_size(session, tenant, dataflows=1, tasks=len(dataflow.tasks))
                row = dataflow_row(draft, dataflow, submit(draft, dataflow, raw, start), raw)
                row.start = str(start)
                write_dataflow(session, row)
                if idempotency_key is not None:
                    write_idempotency(session, draft, row, idempotency_key, digest)
                write_down(session, draft, OperationKind.SUBMIT, who=who, subject=name, begun=begun)
        self._told()
        return Submission(row, again=False)

    def replace(self, dataflow: str, raw: bytes, *, who: str) -> DataflowRow:
        """Swap the document of a dataflow for another; what both have in common never stops."""
        begun = time.monotonic()
        with self._lock:
            with self._store.read() as session:
                found = _running_row(session, dataflow)
                tenant, start = found.tenant, Start(found.start)
            edited = self._canonical(tenant, dataflow, raw, start)
            with self._changing() as (session, draft):
                row = _running_row(session, dataflow)
                if row.draining is not None:
                    raise Conflict(f"the dataflow {dataflow!r} drains, and is removed after that; submit it anew")
                if who != OPERATOR:
                    check_rate(session, tenant, draft.now)
                check_size(session, tenant, dataflows=0, tasks=len(edited.tasks) - row.tasks)
                self._swap(draft, row, edited, raw)
                session.add(row)
                write_down(session, draft, OperationKind.REPLACE, who=who, subject=dataflow, begun=begun)
        self._told()
        return row

    def remove(self, dataflow: str, *, who: str) -> DataflowRow:
        """Remove a dataflow at once."""
        begun = time.monotonic()
        with self._changing() as (session, draft):
            row = _running_row(session, dataflow)
            _take(session, draft, row)
            write_down(session, draft, OperationKind.REMOVE, who=who, subject=dataflow, begun=begun)
        self._told()
        return row

    def drain(self, dataflow: str, *, who: str) -> DataflowRow:
        """Have a dataflow removed once what its sources have sent by now is worked off."""
        begun = time.monotonic()
        with self._changing() as (session, draft):
            row = _running_row(session, dataflow)
            if row.draining is None:
                row.draining = draft.now.timestamp()
                session.add(row)
                draft.drain(running_id(dataflow, row.revision))
                write_down(session, draft, OperationKind.DRAIN, who=who, subject=dataflow, begun=begun)
        self._told()
        return row

    def draining(self) -> tuple[Draining, ...]:
        """The dataflows that drain."""
        with self._lock:
            return tuple(_draining(self._current(), each) for each in sorted(self._current().draining))

    def drained(self, dataflow: str) -> None:
        """What the sources of a dataflow had sent is worked off: remove it."""
        with self._lock:
            names = {public_id(each): each for each in self._current().draining}
            # It may have been removed at once meanwhile.
            if dataflow in names:
                self.remove(dataflow, who=self._current().running.dataflow(names[dataflow]).tenant)

    def explain(self, tenant: str, raw: bytes) -> Foretold:
        """What submitting a document would do."""
        with self._lock:
            dataflow = self._canonical(tenant, "explained", raw)
            return foretell(self._current(), self._ground, dataflow, raw, datetime.now(UTC))

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
                _take(session, draft, _running_row(session, public_id(each)))
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
                _take(session, draft, _running_row(session, public_id(each)))
            session.delete(row)
            draft.forget(source)
            write_down(session, draft, OperationKind.REVOKE, who=who, subject=source, begun=begun)
        self._told()
        return len(hit)

    def feed(
        self, choose: Callable[[Session, State], Mapping[JobId, Sequence[Feed]]], *, who: str, subject: str
    ) -> None:
        """Have tasks take events again that they could not take, as is chosen within the transaction."""
        begun = time.monotonic()
        with self._changing() as (session, draft):
            draft.feed(choose(session, draft.state))
            write_down(session, draft, OperationKind.REPLAY, who=who, subject=subject, begun=begun)
        self._told()

    def fed(self, job: str, version: int) -> None:
        """A job has run its plan of a version, as its host says: what that feeds is not to be fed by the next."""
        with self._lock:
            plan = self._current().plans.get(JobId(int(job))) if self.leads else None
            if plan is None or plan.version != version or not plan.feeds:
                return
            with self._changing() as (session, draft):
                draft.feed_no_more(JobId(int(job)))
                write_plans(session, draft)
        self._told()

    def _current(self) -> State:
        if not self.leads:
            raise StateNotReady("this manager does not lead; ask again in a moment, or ask the one that leads")
        if self._state is None:
            with self._store.read() as session:
                self._state = load(session, self._catalogue)
        return self._state

    @contextmanager
    def _changing(self) -> Iterator[tuple[Session, Draft]]:
        """One change: the transaction, and the draft that goes by the state."""
        with self._lock:
            state = self._current()
            draft = Draft(state=state, ground=self._ground, term=self._term, now=datetime.now(UTC))
            try:
                with self._store.write() as session:
                    self._check_current(session, state)
                    yield session, draft
                    draft.moved = True
                    state.version += 1
                    session.execute(
                        _MOVE_ON,
                        {
                            "version": state.version,
                            "next_instance": state.running.next_instance,
                            "next_job": state.jobs.next_job,
                        },
                    )
            except BaseException as error:
                if draft.moved:
                    # The memory is ahead of the database.
                    self._state = None
                if isinstance(error, NoHost):
                    raise StateNotReady(f"{error}; ask again once one is there", retry_after=5.0) from error
                raise
            self._changes += 1
            if self._changes % _SETTLING == 0:
                _settle()

    def _check_current(self, session: Session, state: State) -> None:
        leadership = session.execute(_STANDING).one()
        if (leadership.leader, leadership.term) != (self.name, self._term):
            self.step_down()
            raise StateNotReady("another manager leads by now; ask again in a moment")
        if leadership.version != state.version:
            self._state = None
            raise StateNotReady("the committed state is not the one that this manager knew; ask again in a moment")

    def _canonical(self, tenant: str, dataflow: str, raw: bytes, start: Start = Start.LATEST) -> Dataflow:
        state = self._current()
        sources = Readable(tenant, state.sources)
        try:
            found = canonicalise(raw, dataflow=dataflow, tenant=tenant, catalogue=self._catalogue, sources=sources)
        except InvalidDocument as error:
            raise InvalidDataflow(error.problems) from error
        check_topics(found, raw, state.sources)
        return confined(found, state, start)

    def _known(self, tenant: str, key: str, digest: str) -> DataflowRow | None:
        with self._store.read() as session:
            known = session.execute(_KNOWN, {"tenant": tenant, "key": key}).one_or_none()
            if known is None:
                return None
            if known.digest != digest:
                raise Conflict(
                    f"the idempotency key {key!r} was used for another document; use a new key for each submission"
                )
            return _row(session, known.dataflow)

    @staticmethod
    def _swap(draft: Draft, row: DataflowRow, edited: Dataflow, raw: bytes) -> None:
        """Submit the next revision of a dataflow, remove the one before, and have the row say so."""
        old, new = (running_id(row.id, row.revision + more) for more in (0, 1))
        running = draft.state.running
        before = running.produced(old)
        dataflow = replace(edited, id=new)
        made = dataflow_row(draft, dataflow, submit(draft, dataflow, raw, Start(row.start)), raw)
        after = running.produced(new)
        # A sink that goes begins anew as well, should it ever come back.
        anew = {sink for sink, instance in before.items() if after.get(sink) != instance}
        row.epochs = row.epochs | {sink: row.epochs.get(sink, 1) + 1 for sink in anew}
        row.revision += 1
        for name in ("name", "document", "tasks", "task_ids", "instances", "started", "sinks", "parts", "sources"):
            setattr(row, name, getattr(made, name))
        draft.remove(old)
        draft.number_anew((Delivered(new, sink), row.epochs[sink]) for sink in after if sink in row.epochs)

    def _told(self) -> None:
        for tell in self._tell:
            tell()


_LEADERSHIP = table_of(Leadership)
_STANDING = select(_LEADERSHIP.c.leader, _LEADERSHIP.c.term, _LEADERSHIP.c.version)
_MOVE_ON = update(_LEADERSHIP)
"""There is one row."""
_IDEMPOTENCY = table_of(IdempotencyRow).c
_KNOWN = select(_IDEMPOTENCY.digest, _IDEMPOTENCY.dataflow).where(
    _IDEMPOTENCY.tenant == bindparam("tenant"), _IDEMPOTENCY.key == bindparam("key")
)
_DATAFLOW = select(DataflowRow).where(col(DataflowRow.id) == bindparam("dataflow"))
_SETTLING = 100
"""Changes after which what they left is settled."""


def _settle() -> None:
    """Spare the garbage collector what stays.

    It would stop everything to walk through the whole state now and then: for 0.3 s with a thousand dataflows.
    """
    gc.collect()
    gc.freeze()


def _draining(state: State, dataflow: str) -> Draining:
    running = state.running
    dags = running.dags_of(dataflow)
    sources = [source for source, dag in running.running_dags.of_source.items() if dag in dags]
    return Draining(
        dataflow=public_id(dataflow),
        since=state.draining[dataflow],
        streams=frozenset(state.sources[running.tasks[each].config["source"]].supplied.stream for each in sources),
        instances=frozenset(each for each in running.dataflow(dataflow).instances if running.tasks[each].inputs),
    )


def _take(session: Session, draft: Draft, row: DataflowRow) -> None:
    """Remove a dataflow, and have its row say so."""
    draft.state.earliest.pop(row.id, None)
    draft.remove(running_id(row.id, row.revision))
    row.removed = draft.now.timestamp()
    session.add(row)


def _row(session: Session, dataflow: str) -> DataflowRow:
    row = session.scalar(_DATAFLOW, {"dataflow": dataflow})
    if row is None:
        raise NotFound("dataflow", dataflow)
    return row


def _running_row(session: Session, dataflow: str) -> DataflowRow:
    row = _row(session, dataflow)
    if row.removed is not None:
        raise Conflict(f"the dataflow {dataflow!r} was removed; submit it anew")
    return row


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
