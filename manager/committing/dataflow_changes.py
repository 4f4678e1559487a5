"""The changes that dataflows bring: submitted, replaced, drained and removed; and what a submission would change."""

import hashlib
import secrets
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import bindparam, select

from dags import Dataflow, InvalidDocument, canonicalise
from manager.answers import OperationKind, Start
from manager.committing.confining import confined
from manager.committing.connecting import reading_the_same
from manager.committing.draft import Draft
from manager.committing.foretelling import Foretold, foretell, submit
from manager.committing.generators import check_no_generators
from manager.committing.move_changes import MoveChanges
from manager.committing.publishing import check_topics
from manager.committing.quota import check_rate, check_size
from manager.committing.sources import Readable
from manager.committing.state import State, running_id
from manager.committing.taking import dataflow_of, running_dataflow, take
from manager.committing.wanted import Draining
from manager.committing.writing import OPERATOR, dataflow_row, write_dataflow, write_down, write_idempotency
from manager.planning import Delivered, public_id
from manager.problem import Conflict, InvalidDataflow
from manager.store.tables import DataflowRow, IdempotencyRow, table_of


class Submission(NamedTuple):
    """What a submission led to."""

    row: DataflowRow
    again: bool
    """Whether it was submitted before under the same idempotency key."""


class DataflowChanges(MoveChanges):
    """What is done with dataflows."""

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
        with self._calm(lambda: self._canonical(tenant, name, raw, start)):
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

        def checked() -> Dataflow:
            with self._store.read() as session:
                found = running_dataflow(session, dataflow)
                tenant, start = found.tenant, Start(found.start)
            return self._canonical(tenant, dataflow, raw, start)

        with self._calm(checked):
            edited = checked()
            with self._changing() as (session, draft):
                row = running_dataflow(session, dataflow)
                if row.draining is not None:
                    raise Conflict(f"the dataflow {dataflow!r} drains, and is removed after that; submit it anew")
                if who != OPERATOR:
                    check_rate(session, row.tenant, draft.now)
                check_size(session, row.tenant, dataflows=0, tasks=len(edited.tasks) - row.tasks)
                self._swap(draft, row, edited, raw)
                session.add(row)
                write_down(session, draft, OperationKind.REPLACE, who=who, subject=dataflow, begun=begun)
        self._told()
        return row

    def remove(self, dataflow: str, *, who: str) -> DataflowRow:
        """Remove a dataflow at once."""
        begun = time.monotonic()
        with self._changing() as (session, draft):
            row = running_dataflow(session, dataflow)
            take(session, draft, row)
            write_down(session, draft, OperationKind.REMOVE, who=who, subject=dataflow, begun=begun)
        self._told()
        return row

    def drain(self, dataflow: str, *, who: str) -> DataflowRow:
        """Have a dataflow removed once what its sources have sent by now is worked off."""
        begun = time.monotonic()
        with self._changing() as (session, draft):
            row = running_dataflow(session, dataflow)
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

    def explain(self, tenant: str, raw: bytes, *, start: Start = Start.LATEST) -> Foretold:
        """What submitting a document would do."""
        with self._lock:
            dataflow = self._canonical(tenant, "explained", raw, start)
            return foretell(self._current(), self._ground, dataflow, raw, start, now=datetime.now(UTC))

    def _canonical(self, tenant: str, dataflow: str, raw: bytes, start: Start = Start.LATEST) -> Dataflow:
        state = self._current()
        sources = Readable(tenant, state.sources)
        try:
            found = canonicalise(raw, dataflow=dataflow, tenant=tenant, catalogue=self._catalogue, sources=sources)
        except InvalidDocument as error:
            raise InvalidDataflow(error.problems) from error
        check_no_generators(found, raw)
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
            return dataflow_of(session, known.dataflow)

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


_IDEMPOTENCY = table_of(IdempotencyRow).c
_KNOWN = select(_IDEMPOTENCY.digest, _IDEMPOTENCY.dataflow).where(
    _IDEMPOTENCY.tenant == bindparam("tenant"), _IDEMPOTENCY.key == bindparam("key")
)


def _draining(state: State, dataflow: str) -> Draining:
    running = state.running
    dags = reading_the_same(running, running.dags_of(dataflow))
    sources = [source for source, dag in running.running_dags.of_source.items() if dag in dags]
    return Draining(
        dataflow=public_id(dataflow),
        since=state.draining[dataflow],
        streams=frozenset(state.sources[running.tasks[each].config["source"]].supplied.stream for each in sources),
        instances=frozenset(each for each in running.dataflow(dataflow).instances if running.tasks[each].inputs),
    )
