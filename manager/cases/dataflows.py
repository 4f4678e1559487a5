"""Dataflows: submitted, replaced, explained, removed, shown and watched."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from sqlalchemy import bindparam, select
from sqlalchemy.orm import defer
from sqlmodel import col

from bridge import topics
from dags import State as Remembers
from engine.delivery.recent_output import recent_output
from engine.records.job_folder import job_folder
from manager.answers import (
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    EndingStreamAnswer,
    ExplainAnswer,
    OutputAnswer,
    Page,
    RemovalAnswer,
    Start,
    Stop,
    SubmitAnswer,
    TaskAnswer,
)
from manager.cases.base import Base, Caller, Paging, hour, moment, paged, tenant_of
from manager.committed.sources import full_name
from manager.committed.state import State, running_id
from manager.committer.dataflow_rows import running_dataflow
from manager.event_flow.output_look import OutputLook
from manager.event_flow.output_watcher import OutputWatcher
from manager.event_flow.tail import Tail
from manager.observations.figures import output_figures
from manager.observations.measured_costs import measured_costs
from manager.observations.reports import HostSeen
from manager.problem import Conflict, NotFound, StateNotReady
from manager.reconciler.dataflow_life import Need, find
from manager.reconciler.dataflow_needs import needs_of
from manager.savings.forecast import saving
from manager.store.tables import DataflowRow, TenantRow
from manager.submissions.removal_preview import preview_removal
from merge import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """How a dataflow stands in the committed state; made by `_standing`."""

    needs: tuple[Need, ...] = ()
    since: Mapping[int, datetime] = field(default_factory=dict)
    """For each of its tasks with state when it was started, as exactly as a tenant may know."""


_DATAFLOW = select(DataflowRow).where(col(DataflowRow.id) == bindparam("dataflow"))
_SHORT = defer(DataflowRow.document)  # type: ignore[arg-type]  # SQLModel tells the type checker of the value only


class Dataflows(Base):
    """What is done with dataflows."""

    watching: OutputWatcher | None = None
    """Who looks at outputs, where there is a broker."""
    jobs_root: Path | None = None
    """Below which the jobs lie that record what leaves."""

    def submit(
        self,
        caller: Caller,
        raw: bytes,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> SubmitAnswer:
        """Submit a document; an operator says for which tenant. The same key and document get the same answer again."""
        submitted = self._changes.dataflows.submit(
            tenant_of(caller, tenant), raw, who=caller.who, idempotency_key=idempotency_key, start=start
        )
        return self._submit_answer(submitted.row)

    def replace(self, caller: Caller, dataflow: str, raw: bytes) -> SubmitAnswer:
        """Swap a dataflow's document for an edited one, as one change: what both have in common never stops."""
        self._own_row(caller, dataflow)
        return self._submit_answer(self._changes.dataflows.replace(dataflow, raw, who=caller.who))

    def remove(self, caller: Caller, dataflow: str, how: Stop) -> DataflowAnswer:
        """Remove a dataflow."""
        self._own_row(caller, dataflow)
        if how is Stop.DRAIN:
            row = self._changes.drains.begin(dataflow, who=caller.who)
        else:
            row = self._changes.dataflows.remove(dataflow, who=caller.who)
        return self._answer(row, _Standing(), self._hosts())

    def preview_removal(self, caller: Caller, dataflow: str) -> RemovalAnswer:
        """What removing a dataflow would stop, and leave to others; nothing is changed."""
        self._own_row(caller, dataflow)
        with self._committer.looking() as state:
            # Read again now that nobody commits: it may have been replaced meanwhile.
            with self._store.read() as session:
                row = running_dataflow(session, dataflow)
            standing = _standing(state, row)
            removal = preview_removal(state, running_id(row.id, row.revision))
        tasks = self._tasks(row, standing)
        names = {task.instance: task.id for task in reversed(tasks)}
        stops = tuple(task for task in tasks if task.instance in removal.stops)
        return RemovalAnswer(
            dataflow=row.id,
            stops=stops,
            goes_on=len(tasks) - len(stops),
            streams=tuple(
                EndingStreamAnswer(task=names[instance], instance=instance, port=port)
                for instance, port in removal.streams
            ),
        )

    def look(self, caller: Caller, dataflow: str, sink: str) -> AbstractContextManager[OutputLook]:
        """A look at what leaves at an output of the caller's dataflow, or of any where an operator asks."""
        row = self._own_row(caller, dataflow)
        if sink not in row.sinks:
            raise NotFound("output", sink)
        if row.removed is not None:
            raise Conflict(f"the dataflow {dataflow!r} was removed, and nothing leaves it any more; submit it anew")
        if self.watching is None or not self._committer.leads:
            raise StateNotReady("outputs are seen only by a manager that leads and has a broker; ask that one")
        return self.watching.look(caller.who, topics.output(row.tenant, row.id, sink))

    @contextmanager
    def tail(self, caller: Caller, dataflow: str, sink: str | None, *, last: int) -> Iterator[Tail]:
        """All that leaves at an output of the caller's dataflow, or at every one; it begins with what left last."""
        row = self._own_row(caller, dataflow)
        if sink is not None and sink not in row.sinks:
            raise NotFound("output", sink)
        if row.removed is not None:
            raise Conflict(f"the dataflow {dataflow!r} was removed, and nothing leaves it any more; submit it anew")
        if self.watching is None or not self._committer.leads:
            raise StateNotReady("outputs are seen only by a manager that leads and has a broker; ask that one")
        sinks = {topics.output(row.tenant, row.id, each): each for each in row.sinks if sink in {None, each}}
        with self.watching.tail(caller.who, sinks) as tail:
            # Only now that it listens, so that nothing falls between.
            if last and self.jobs_root is not None:
                self._recall(tail, row, sinks, last)
            yield tail

    def _recall(self, tail: Tail, row: DataflowRow, sinks: Mapping[str, str], last: int) -> None:
        """Have a tail begin with what the jobs of its sinks recorded last."""
        with self._committer.looking() as state:
            needs = _standing(state, row).needs
        instances = dict(zip(row.task_ids, row.instances, strict=True))
        for topic, sink in sinks.items():
            for need in needs:
                if self.jobs_root is not None and instances[sink] in need.instances:
                    tail.prepend(topic, recent_output(job_folder(self.jobs_root, need.job), row.id, sink, last), last)

    def explain(
        self, caller: Caller, raw: bytes, *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> ExplainAnswer:
        """What submitting a document would do; nothing is changed."""
        owner = tenant_of(caller, tenant)
        with self._store.read() as session:
            if session.get(TenantRow, owner) is None:
                raise NotFound("tenant", owner)
        preview = self._changes.dataflows.explain(owner, raw, start=start)
        explanation, types = preview.explanation, _types(raw)
        jobs = (plan.job for plan in preview.plans)
        seen = {job: found for job in jobs if (found := self._seeing.job(job)) is not None}
        only = {each for each in preview.instances if each is not None}
        measured = measured_costs(preview.plans, seen, preview.sources, time.monotonic(), only=only)
        return ExplainAnswer(
            reused=tuple(
                TaskAnswer(id=each.task, type=types[each.task], instance=0, reused=True, since=each.since)
                for each in explanation.reuses
            ),
            started=explanation.starts,
            collapsed=explanation.collapses,
            saving=saving(preview.dataflow, preview.instances, measured, opened=preview.opened, job=preview.job_cores),
            start=start,
        )

    def dataflows(  # noqa: PLR0913 - each is a filter
        self,
        caller: Caller,
        paging: Paging,
        *,
        tenant: str | None = None,
        state: DataflowState | None = None,
        name: str | None = None,
        source: str | None = None,
        search: str | None = None,
    ) -> Page[DataflowAnswer]:
        """The caller's dataflows, oldest first; an operator sees all. Removed ones only if that state is asked for."""
        if caller.tenant is not None and tenant not in {None, caller.tenant}:
            return Page(items=())
        # States are seen and not stored, and documents are long: parts are read without, until enough of them fit.
        wanted = select(DataflowRow).order_by(col(DataflowRow.number)).options(_SHORT)
        removed = col(DataflowRow.removed)
        wanted = wanted.where(removed.is_not(None) if state is DataflowState.REMOVED else removed.is_(None))
        if (owner := caller.tenant or tenant) is not None:
            wanted = wanted.where(col(DataflowRow.tenant) == owner)
        if name is not None:
            wanted = wanted.where(col(DataflowRow.name) == name)
        if search is not None:
            in_name = col(DataflowRow.name).icontains(search, autoescape=True)
            wanted = wanted.where(in_name | (col(DataflowRow.id) == search))
        if source is not None and caller.tenant is not None:
            source = full_name(caller.tenant, source)
        found: list[tuple[DataflowRow, DataflowAnswer]] = []
        after = paging.after_number
        while len(found) <= paging.limit:
            with self._store.read() as session:
                rows = session.scalars(wanted.where(col(DataflowRow.number) > after).limit(paging.limit + 1)).all()
            reading = [row for row in rows if source is None or source in row.sources]
            for row, answer in zip(reading, self._answers(reading), strict=True):
                if state in {None, answer.state}:
                    found.append((row, answer))
            if len(rows) <= paging.limit:
                break
            after = rows[-1].number or 0
        return paged(found, paging.limit, cursor=lambda each: each[0].number, answer=lambda each: each[1])

    def dataflow(self, caller: Caller, dataflow: str) -> DataflowDetail:
        """One dataflow with its document and tasks."""
        row = self._own_row(caller, dataflow)
        with self._committer.looking() as state:
            standing = _standing(state, row)
        return DataflowDetail(
            **self._answer(row, standing, self._hosts()).model_dump(),
            tasks=self._tasks(row, standing),
            document=json.loads(row.document),
        )

    def _own_row(self, caller: Caller, dataflow: str) -> DataflowRow:
        with self._store.read() as session:
            row = session.scalar(_DATAFLOW, {"dataflow": dataflow})
        if row is None or caller.tenant not in {None, row.tenant}:
            raise NotFound("dataflow", dataflow)
        return row

    def _submit_answer(self, row: DataflowRow) -> SubmitAnswer:
        standing = None
        # It is committed, so it is answered, even by a manager that does not lead any more.
        with suppress(StateNotReady), self._committer.looking() as state:
            standing = _standing(state, row)
        tasks = self._tasks(row, standing or _Standing())
        return SubmitAnswer(
            **self._answer(row, standing, self._hosts()).model_dump(),
            reused=tuple(task for task in tasks if task.reused),
            started=tuple(task for task in tasks if not task.reused),
        )

    def _answers(self, rows: Iterable[DataflowRow]) -> list[DataflowAnswer]:
        with self._committer.looking() as state:
            standings = [(row, _standing(state, row)) for row in rows]
        hosts = self._hosts()
        return [self._answer(row, standing, hosts) for row, standing in standings]

    def _answer(self, row: DataflowRow, standing: _Standing | None, hosts: Mapping[str, HostSeen]) -> DataflowAnswer:
        state, reason = DataflowState.DEPLOYING, ""
        if row.removed is not None:
            state = DataflowState.REMOVED
        elif row.draining is not None:
            state, reason = DataflowState.DRAINING, "what its sources had sent is being worked off"
        elif standing is not None:
            jobs = {need.job: seen for need in standing.needs if (seen := self._seeing.job(need.job)) is not None}
            found = find(standing.needs, jobs, hosts)
            state, reason = found.state, found.reason
        return DataflowAnswer(
            id=row.id,
            tenant=row.tenant,
            name=row.name,
            revision=row.revision,
            state=state,
            reason=reason,
            submitted=moment(row.submitted),
            start=Start(row.start),
            outputs=tuple(self._outputs(row, standing or _Standing())),
        )

    def _outputs(self, row: DataflowRow, standing: _Standing) -> Iterator[OutputAnswer]:
        instances, now = dict(zip(row.task_ids, row.instances, strict=True)), time.monotonic()
        for sink in row.sinks:
            jobs = (self._seeing.job(need.job) for need in standing.needs if instances[sink] in need.instances)
            measured = next((seen.measured for seen in jobs if seen is not None), ())
            figures = output_figures(measured, row.id, sink, now)
            yield OutputAnswer(sink=sink, topic=topics.output(row.tenant, row.id, sink), **asdict(figures))

    def _hosts(self) -> Mapping[str, HostSeen]:
        return {host.host: host for host in self._seeing.hosts()}

    def _tasks(self, row: DataflowRow, standing: _Standing) -> tuple[TaskAnswer, ...]:
        started, types = set(row.started), _types(row.document)
        failed: dict[int, str] = {}
        for need in standing.needs:
            if (seen := self._seeing.job(need.job)) is not None:
                failed |= {each: seen.failed[each] for each in need.instances & seen.failed.keys()}
        return tuple(
            TaskAnswer(
                id=task,
                type=types[task],
                instance=instance,
                reused=instance not in started,
                since=standing.since.get(instance) if instance not in started else None,
                failed=failed.get(instance, ""),
            )
            for task, instance in zip(row.task_ids, row.instances, strict=True)
        )


def _standing(state: State, row: DataflowRow) -> _Standing:
    if row.removed is not None:
        return _Standing()
    tasks = (state.running.tasks.get(Instance(instance)) for instance in row.instances)
    running = state.running.dataflows.get(running_id(row.id, row.revision))
    return _Standing(
        needs=tuple(needs_of(state, running)) if running is not None else (),
        since={task.instance: hour(task.since) for task in tasks if task and task.type.state is not Remembers.NONE},
    )


def _types(document: bytes | str) -> dict[str, str]:
    """The type of each task of a document that was accepted."""
    return {task["id"]: task["type"] for task in json.loads(document)["tasks"]}
