"""The snapshot of a reconfiguration: its documents edited and read while others commit, and decided on later."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

from rpds import HashTrieMap

from braid_client.answers.dataflows import Start
from dags import Catalogue, State, fits
from manager.documents.canonical import canonical, published_in, runs_already
from manager.documents.edited import compared, patched
from manager.documents.preview import check_loops, confined
from manager.kernel.committer import Committer
from manager.kernel.dataflow_rows import histories_of, running_dataflow
from manager.kernel.registered_sources import Registered, as_submitted
from manager.kernel.state import CommittedState, running_id
from manager.kernel.transitions import HAS_SWITCHED
from manager.problem import Conflict, InvalidDataflow
from manager.reconfigurations.decision import (
    AskedEdits,
    ReconfigurationDecision,
    decide_reconfiguration,
    problems_of,
)
from manager.reconfigurations.request import ReconfigurationRequest
from manager.store.database import Store
from manager.store.tables import DataflowRow
from merge import Host, Instance, RunningTask, Submitted
from merge.reconfiguration.alteration import Edit, below, changed_ids, histories, joined


class DataflowReading(NamedTuple):
    """One dataflow of a request, read against a snapshot."""

    row: DataflowRow
    was: Submitted
    tasks: Mapping[str, RunningTask]
    document: str
    edit: Edit
    """Confined, and under its next id, only when it is decided on."""
    stateless: frozenset[str]
    """The tasks without state that would be shared if they had just been submitted."""


class ReconfigurationSnapshot(NamedTuple):
    """A request, read against a snapshot of the committed state."""

    request: ReconfigurationRequest
    sources: HashTrieMap[str, Registered]
    readings: tuple[DataflowReading, ...]


class StaleSnapshot(Exception):
    """The committed state has changed since the documents were read."""


@dataclass(frozen=True, slots=True)
class ReconfigurationReader:
    """Reads the documents of reconfigurations; any thread may call it."""

    committer: Committer
    store: Store
    catalogue: Catalogue

    def read(self, request: ReconfigurationRequest) -> ReconfigurationSnapshot:
        """Read the documents while others commit."""
        token = f"~{secrets.token_hex(6)}"
        with self.store.read() as session:
            rows = [running_dataflow(session, name) for name in request.dataflows]
        for row in rows:
            if row.draining is not None:
                raise Conflict(f"the dataflow {row.id!r} drains, and is removed after that")
            if request.revisions.get(row.id, row.revision) != row.revision:
                raise Conflict(f"the dataflow {row.id!r} has changed since this was made for it; make it again")
        with self.committer.looking() as state:
            sources, running = state.sources, state.running
            try:
                runs = [running.dataflows[running_id(row.id, row.revision)] for row in rows]
            except KeyError:
                raise StaleSnapshot from None
            tasks = [{task: running.tasks[place] for task, place in was.places.items()} for was in runs]
        readings = (
            self._read(row, was, these, sources, request, token)
            for row, was, these in zip(rows, runs, tasks, strict=True)
        )
        return ReconfigurationSnapshot(request, sources, tuple(readings))

    def _read(  # noqa: PLR0913, PLR0917 - a dataflow as it is, and what is wanted of it
        self,
        row: DataflowRow,
        was: Submitted,
        tasks: Mapping[str, RunningTask],
        registered: HashTrieMap[str, Registered],
        request: ReconfigurationRequest,
        token: str,
    ) -> DataflowReading:
        document = request.documents.get(row.id)
        if document is None:
            document, problems = patched(row.document, request.patches)
            if problems:
                raise InvalidDataflow(problems)
        known = histories_of(row)
        canonical_of = partial(
            canonical,
            dataflow=row.id,
            tenant=row.tenant,
            catalogue=self.catalogue,
            sources=as_submitted(registered, tasks.values()),
        )
        edited = canonical_of(document.encode(), histories=known, published=published_in(self.store))
        difference = compared(row.document, document)
        if difference.problem is not None:
            raise InvalidDataflow([difference.problem])
        affected = below(difference.streams, changed_ids(tasks, edited) | difference.rerouted)
        anew = known | histories(tasks, affected, token)
        by = canonical_of(document.encode(), histories=anew, published=runs_already)
        after = {task: by.tasks[by.places[task]] for task in affected}
        try:
            before = canonical_of(row.document.encode(), published=runs_already)
        except InvalidDataflow:
            # A type of it is gone, so nobody knows any more which events its states were made from.
            unfit = frozenset(task for task, becomes in after.items() if becomes.type.state is not State.NONE)
        else:
            # Their states do not go with the events that reach them after the change.
            unfit = frozenset(
                task
                for task, becomes in after.items()
                if task in before.places and not fits(before.tasks[before.places[task]], becomes)
            )
        shared = canonical_of(document.encode(), published=runs_already) if known else edited
        stateless = frozenset(
            task
            for task in affected - request.fresh
            if (alone := shared.tasks[shared.places[task]]).key.scope is None
            # What a sink has numbered for one dataflow is its state.
            and alone.type.state is State.NONE
            and not alone.type.is_sink
        )
        edit = Edit(was.id, by, affected, unfit, request.apart.get(row.id, frozenset()))
        return DataflowReading(row, was, tasks, document, edit, stateless)


def decided_on(
    state: CommittedState, now: datetime, snapshot: ReconfigurationSnapshot, hosts: Iterable[Host], *, follows: bool
) -> ReconfigurationDecision:
    """The decision of a request, by the state as it is. Raises `StaleSnapshot` if it was read against another.

    What `follows` others of its dataflows, which wait, may change nothing so far.
    """
    request, sources, readings = snapshot
    if state.sources is not sources:
        raise StaleSnapshot
    if any(read.edit.by.outputs != read.was.outputs for read in readings):
        # Of the jobs that deliver, some may be none of this transition's.
        raise Conflict("outputs are delivered otherwise in the edited document; replace the document to change that")
    if not any(read.edit.affected for read in readings) and not follows:
        raise Conflict("nothing would change; edit a task, or insert or take out one between others")
    edits = []
    for read in readings:
        if state.running.dataflows.get(read.was.id) is not read.was:
            raise StaleSnapshot
        if any(state.running.tasks.get(task.instance) is not task for task in read.tasks.values()):
            raise StaleSnapshot
        check_loops(read.edit.by, read.document, state)
        by = confined(read.edit.by, state, Start(read.row.start))
        edits.append(read.edit._replace(by=replace(by, id=running_id(read.row.id, read.row.revision + 1))))
    asked = AskedEdits(
        edits=tuple(joined(state.running, state.jobs, edits, [read.stateless for read in readings])),
        fresh=request.fresh,
        earlier=changed_lately(state),
        scheduler=request.scheduler,
    )
    decided = decide_reconfiguration(state.running, state.jobs, asked, now)
    if problems := tuple(problems_of(decided, state.jobs, hosts, lenient=request.lenient)):
        raise InvalidDataflow(problems)
    return decided


def changed_lately(state: CommittedState) -> frozenset[Instance]:
    """The tasks of reconfigurations after whose switch older events may still be under way."""
    switched = (
        reconfiguration.changed
        for reconfiguration in state.reconfigurations.values()
        if reconfiguration.phase in HAS_SWITCHED
    )
    return frozenset[Instance]().union(*switched)
