"""The snapshot of a reconfiguration: its documents edited and read while others commit, and decided on later."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from dags import Catalogue, Dataflow, Problem, Scope, State, fits
from manager.answers.dataflows import Start
from manager.documents.canonical import Published, canonical, published_in, runs_already
from manager.documents.edited import patched, rerouted, shape_problems, streams_of
from manager.documents.preview import check_loops, confined
from manager.kernel.committer import Committer
from manager.kernel.dataflow_rows import histories_of, running_dataflow
from manager.kernel.registered_sources import Registered, as_submitted
from manager.kernel.state import CommittedState, running_id
from manager.kernel.transitions import HAS_SWITCHED
from manager.problem import Conflict, InvalidDataflow
from manager.reconfigurations.decision import (
    ReconfigurationDecision,
    decide_reconfiguration,
    overfilled,
    unchanged,
    undeclared,
    unoffered,
    unplaceable,
    untrusted,
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
    by: Dataflow
    affected: frozenset[str]
    unfit: frozenset[str]
    stateless: frozenset[str]
    """The tasks without state that would be shared if they had just been submitted."""


class ReconfigurationSnapshot(NamedTuple):
    """A request, read against a snapshot of the committed state."""

    sources: Mapping[str, Registered]
    readings: tuple[DataflowReading, ...]


class StaleSnapshot(Exception):
    """The committed state has changed since the documents were read."""


class ReconfigurationReader:
    """Reads the documents of reconfigurations; any thread may call it."""

    def __init__(self, committer: Committer, store: Store, catalogue: Catalogue) -> None:
        self._committer = committer
        self._store = store
        self._catalogue = catalogue
        self._published = published_in(store)

    def read(self, wanted: ReconfigurationRequest) -> ReconfigurationSnapshot:
        """Read the documents while others commit."""
        token = f"~{secrets.token_hex(6)}"
        with self._store.read() as session:
            rows = [running_dataflow(session, name) for name in wanted.dataflows]
        for row in rows:
            if row.draining is not None:
                raise Conflict(f"the dataflow {row.id!r} drains, and is removed after that")
            if wanted.revisions.get(row.id, row.revision) != row.revision:
                raise Conflict(f"the dataflow {row.id!r} has changed since this was made for it; make it anew")
        with self._committer.looking() as state:
            sources = state.sources
            known = state.running.dataflows
            runs = [known.get(running_id(row.id, row.revision)) for row in rows]
            if None in runs:
                raise StaleSnapshot
            found = [each for each in runs if each is not None]
            tasks = [{task: state.running.tasks[place] for task, place in each.places.items()} for each in found]
        reads = (
            self._read(row, was, these, as_submitted(sources, these.values()), wanted, token)
            for row, was, these in zip(rows, found, tasks, strict=True)
        )
        return ReconfigurationSnapshot(sources, tuple(reads))

    def _read(  # noqa: PLR0913, PLR0917 - a dataflow as it is, and what is wanted of it
        self,
        row: DataflowRow,
        was: Submitted,
        tasks: Mapping[str, RunningTask],
        sources: Mapping[str, Registered],
        wanted: ReconfigurationRequest,
        token: str,
    ) -> DataflowReading:
        document = wanted.documents.get(row.id)
        if document is None:
            document, problems = patched(row.document, wanted.patches)
            if problems:
                raise InvalidDataflow(problems)
        known = histories_of(row)

        edited = self._canonical(row, document, sources, known)
        if problems := tuple(shape_problems(row.document, document)):
            raise InvalidDataflow(problems)
        changed = changed_ids(tasks, edited) | rerouted(row.document, document)
        affected = below(streams_of(document), changed)
        by = self._canonical(row, document, sources, known | histories(tasks, affected, token))
        unfit = self._unfit(row, sources, by, affected)
        shared = self._canonical(row, document, sources, {}) if known else edited
        stateless = frozenset(
            task
            for task in affected - wanted.fresh
            if (each := shared.tasks[shared.places[task]]).key.scope is None
            # What a sink has numbered for one dataflow is its state.
            and each.type.state is State.NONE
            and not each.type.is_sink
        )
        return DataflowReading(row, was, tasks, document, by, affected, unfit, stateless)

    def _unfit(
        self, row: DataflowRow, sources: Mapping[str, Registered], by: Dataflow, affected: frozenset[str]
    ) -> frozenset[str]:
        """The tasks whose states do not go with the events that reach them after the change."""
        after = {task: by.tasks[by.places[task]] for task in affected}
        try:
            before = self._canonical(row, row.document, sources, {}, runs_already)
        except InvalidDataflow:
            # A type of it is gone, so nobody knows any more which events its states were made from.
            return frozenset(task for task, each in after.items() if each.type.state is not State.NONE)
        return frozenset(
            task
            for task, each in after.items()
            if task in before.places and not fits(before.tasks[before.places[task]], each)
        )

    def _canonical(
        self,
        row: DataflowRow,
        document: str,
        sources: Mapping[str, Registered],
        scopes: Mapping[str, Scope],
        published: Published | None = None,
    ) -> Dataflow:
        return canonical(
            document.encode(),
            dataflow=row.id,
            tenant=row.tenant,
            catalogue=self._catalogue,
            sources=sources,
            histories=scopes,
            published=published or self._published,
        )


def decided_on(  # noqa: PLR0913 - what runs, what is wanted, and what it may follow
    state: CommittedState,
    now: datetime,
    snapshot: ReconfigurationSnapshot,
    wanted: ReconfigurationRequest,
    hosts: Iterable[Host],
    *,
    follows: bool = False,
) -> ReconfigurationDecision:
    """The decision of a request, by the state as it is. Raises `StaleSnapshot` if it was read against another.

    What `follows` others of its dataflows, which wait, may change nothing so far.
    """
    if state.sources is not snapshot.sources:
        raise StaleSnapshot
    if not any(read.affected for read in snapshot.readings) and not follows:
        raise Conflict("nothing would change; edit a task, or insert or take out one between others")
    edits = []
    for read in snapshot.readings:
        if state.running.dataflows.get(read.was.id) is not read.was:
            raise StaleSnapshot
        if any(state.running.tasks.get(task.instance) is not task for task in read.tasks.values()):
            raise StaleSnapshot
        check_loops(read.by, read.document, state)
        by = confined(read.by, state, Start(read.row.start))
        by = replace(by, id=running_id(read.row.id, read.row.revision + 1))
        apart = wanted.apart.get(read.row.id, frozenset())
        edits.append(Edit(read.was.id, by, read.affected, read.unfit, apart))
    stateless = [read.stateless for read in snapshot.readings]
    decided = decide_reconfiguration(
        state.running,
        state.jobs,
        joined(state.running, state.jobs, edits, stateless),
        now,
        fresh=wanted.fresh,
        earlier=changed_lately(state),
        scheduler=wanted.scheduler,
    )
    problems: tuple[Problem, ...] = ()
    if not wanted.lenient:
        problems = (*undeclared(decided.tasks, decided.alteration), *untrusted(decided))
    problems += tuple(unchanged(decided.tasks, decided.alteration, wanted.fresh))
    problems += tuple(unoffered(decided, hosts))
    problems += (*unplaceable(decided), *overfilled(decided, state.jobs))
    if problems:
        raise InvalidDataflow(problems)
    return decided


def changed_lately(state: CommittedState) -> frozenset[Instance]:
    """The tasks of reconfigurations after whose switch older events may still be under way."""
    switched = (each.changed for each in state.reconfigurations.values() if each.phase in HAS_SWITCHED)
    return frozenset[Instance]().union(*switched)
