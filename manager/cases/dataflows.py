"""Dataflows: submitted, replaced, explained, removed, shown and watched."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from sqlalchemy import bindparam, select
from sqlalchemy.orm import defer
from sqlmodel import col

from adaptation.documents.dynamic_reader import dynamic_in
from bridge import topics
from engine.delivery.recent_output import recent_output
from engine.records.job_folder import job_folder
from manager.answers import (
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    EndingStreamAnswer,
    ExplainAnswer,
    GivenUpModule,
    Page,
    PlanAnswer,
    RemovalAnswer,
    Start,
    Stop,
    SubmitAnswer,
    TaskAnswer,
)
from manager.cases.adaptive.resolver import Resolved, Resolver
from manager.cases.base import Base, Caller, Paging, paged, tenant_of
from manager.cases.dataflow_answers import Standing, dataflow_answer, standing_of, task_answers, types_in
from manager.cases.planned.composer import Composed, PipelineComposer, Present, pipeline_in
from manager.cases.planned.fallbacks import fallbacks_of
from manager.cases.planned.plan_answers import plan_answer
from manager.committed.sources import full_name
from manager.committed.state import running_id
from manager.committer.dataflow_rows import running_dataflow
from manager.event_flow.output_look import OutputLook
from manager.event_flow.tail import Tail
from manager.observations.measured_costs import measured_costs
from manager.observations.reports import HostSeen
from manager.problem import Conflict, NotFound, StateNotReady
from manager.savings.forecast import saving
from manager.store.tables import DataflowRow, TenantRow, table_of
from manager.submissions.removal_preview import preview_removal

_DATAFLOW = select(DataflowRow).where(col(DataflowRow.id) == bindparam("dataflow"))
_SHORT = defer(DataflowRow.document)  # type: ignore[arg-type]  # SQLModel tells the type checker of the value only


class Dataflows(Base):
    """Dataflows: submitted, replaced, removed and shown."""

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
        owner = tenant_of(caller, tenant)
        if idempotency_key is not None and (pipeline_in(raw) or dynamic_in(raw)):
            # It is not made again: modules and sources may be others by now.
            row = self._changes.dataflows.submitted_before(owner, raw, idempotency_key, start)
            if row is not None:
                return self.submitted(row)
        made = self._made(owner, raw)
        submitted = self._changes.dataflows.submit(
            owner,
            raw if made is None else made.document,
            who=caller.who,
            idempotency_key=idempotency_key,
            start=start,
            origin=None if made is None else made.origin,
        )
        return self.submitted(submitted.row, made)

    def replace(self, caller: Caller, dataflow: str, raw: bytes) -> SubmitAnswer:
        """Swap a dataflow's document for an edited one, as one change: what both have in common never stops."""
        row = self._own_row(caller, dataflow)
        made = self._made(row.tenant, raw, dataflow)
        if made is None:
            return self.submitted(self._changes.dataflows.replace(dataflow, raw, who=caller.who))
        replaced = self._changes.dataflows.replace(dataflow, made.document, who=caller.who, origin=made.origin)
        return self.submitted(replaced, made)

    def remove(self, caller: Caller, dataflow: str, how: Stop) -> DataflowAnswer:
        """Remove a dataflow."""
        self._own_row(caller, dataflow)
        if how is Stop.DRAIN:
            row = self._changes.drains.begin(dataflow, who=caller.who)
        else:
            row = self._changes.dataflows.remove(dataflow, who=caller.who)
        return self._answer(row, Standing())

    def preview_removal(self, caller: Caller, dataflow: str) -> RemovalAnswer:
        """A preview of a removal: the tasks that stop, and those that run on for others. Nothing is changed."""
        self._own_row(caller, dataflow)
        with self._committer.looking() as state:
            # Read again now that nobody commits: it may have been replaced meanwhile.
            with self._store.read() as session:
                row = running_dataflow(session, dataflow)
            standing = standing_of(state, row)
            removal = preview_removal(state, running_id(row.id, row.revision))
        tasks = task_answers(row, standing, self._seeing)
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
        if (outputs := self._tools.outputs) is None or not self._committer.leads:
            raise StateNotReady("outputs are seen only by a manager that leads and has a broker; ask that one")
        return outputs.look(caller.who, topics.output(row.tenant, row.id, sink))

    @contextmanager
    def tail(self, caller: Caller, dataflow: str, sink: str | None, *, last: int) -> Iterator[Tail]:
        """All that leaves at an output of the caller's dataflow, or at every one; it begins with what left last."""
        row = self._own_row(caller, dataflow)
        if sink is not None and sink not in row.sinks:
            raise NotFound("output", sink)
        if row.removed is not None:
            raise Conflict(f"the dataflow {dataflow!r} was removed, and nothing leaves it any more; submit it anew")
        if (outputs := self._tools.outputs) is None or not self._committer.leads:
            raise StateNotReady("outputs are seen only by a manager that leads and has a broker; ask that one")
        sinks = {topics.output(row.tenant, row.id, each): each for each in row.sinks if sink in {None, each}}
        with outputs.tail(caller.who, sinks) as tail:
            # Only now that it listens, so that nothing falls between.
            if last and (root := self._tools.jobs_root) is not None:
                self._recall(tail, row, sinks, last, root)
            yield tail

    def _recall(self, tail: Tail, row: DataflowRow, sinks: Mapping[str, str], last: int, root: Path) -> None:
        """Have a tail begin with what the jobs of its sinks recorded last."""
        with self._committer.looking() as state:
            needs = standing_of(state, row).needs
        instances = dict(zip(row.task_ids, row.instances, strict=True))
        for topic, sink in sinks.items():
            for need in needs:
                if instances[sink] in need.instances:
                    tail.prepend(topic, recent_output(job_folder(root, need.job), row.id, sink, last), last)

    def explain(
        self, caller: Caller, raw: bytes, *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> ExplainAnswer:
        """A preview of a submission; nothing is changed."""
        owner = tenant_of(caller, tenant)
        with self._store.read() as session:
            if session.get(TenantRow, owner) is None:
                raise NotFound("tenant", owner)
        match self._made(owner, raw):
            case None:
                return self.explained(owner, raw, start)
            case Resolved(document=document):
                return self.explained(owner, document, start)
            case composed:
                return self.explained(owner, composed.document, start, self._previewed(owner, composed))

    def explained(self, owner: str, document: bytes, start: Start, plan: PlanAnswer | None = None) -> ExplainAnswer:
        """A preview of the submission of a plain document, with the plan that it was made by."""
        preview = self._changes.dataflows.explain(owner, document, start=start)
        explanation, types = preview.explanation, types_in(document)
        seen = {each.job: found for each in preview.plans if (found := self._seeing.job(each.job)) is not None}
        # What others' tasks take is theirs to know.
        own = self._instances_of(owner)
        measured = measured_costs(preview.plans, seen, preview.sources, time.monotonic(), only=own)
        return ExplainAnswer(
            reused=tuple(
                TaskAnswer(id=each.task, type=types[each.task], instance=0, reused=True, since=each.since)
                for each in explanation.reuses
            ),
            started=explanation.starts,
            collapsed=explanation.collapses,
            saving=saving(preview.dataflow, preview.instances, measured, opened=preview.opened, job=preview.job_cores),
            start=start,
            plan=plan,
        )

    def _instances_of(self, tenant: str) -> set[int]:
        """The running tasks that a tenant's dataflows use."""
        of = table_of(DataflowRow).c
        wanted = select(of.instances).where(of.tenant == tenant, of.removed.is_(None))
        with self._store.read() as session:
            return {each for instances in session.scalars(wanted) for each in instances}

    def page(  # noqa: PLR0913 - each is a filter
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

    def get(self, caller: Caller, dataflow: str) -> DataflowDetail:
        """One dataflow with its document and tasks."""
        row = self._own_row(caller, dataflow)
        with self._committer.looking() as state:
            standing = standing_of(state, row)
        return DataflowDetail(
            **self._answer(row, standing).model_dump(),
            tasks=task_answers(row, standing, self._seeing),
            document=json.loads(row.document),
            pipeline=None if row.pipeline is None else json.loads(row.pipeline),
            dynamic=None if row.dynamic is None else json.loads(row.dynamic),
            given_up=tuple(map(GivenUpModule.model_validate, row.given_up or ())),
            unplanned=row.unplanned,
        )

    def _made(self, tenant: str, raw: bytes, dataflow: str | None = None) -> Composed | Resolved | None:
        """The plan of a pipeline, or what a dynamic document begins with; None for a plain document."""
        if dynamic_in(raw):
            resolver = Resolver(self._committer, self._store, self._tools.catalogue)
            return resolver.resolved(tenant, raw, dataflow or "resolved")
        if not pipeline_in(raw):
            return None
        return self._composer().composed(tenant, raw, present=None if dataflow is None else Present(dataflow=dataflow))

    def _previewed(self, tenant: str, composed: Composed) -> PlanAnswer:
        fallbacks = fallbacks_of(self._composer(), tenant, composed)
        return plan_answer(composed.planned, with_alternatives=True, fallbacks=fallbacks)

    def _composer(self) -> PipelineComposer:
        return PipelineComposer(self._committer, self._store, self._tools.catalogue)

    def _own_row(self, caller: Caller, dataflow: str) -> DataflowRow:
        with self._store.read() as session:
            row = session.scalar(_DATAFLOW, {"dataflow": dataflow})
        if row is None or caller.tenant not in {None, row.tenant}:
            raise NotFound("dataflow", dataflow)
        return row

    def submitted(self, row: DataflowRow, made: Composed | Resolved | None = None) -> SubmitAnswer:
        """The answer to what was submitted."""
        standing = None
        # It is committed, so it is answered, even by a manager that does not lead any more.
        with suppress(StateNotReady), self._committer.looking() as state:
            standing = standing_of(state, row)
        tasks = task_answers(row, standing or Standing(), self._seeing)
        return SubmitAnswer(
            **self._answer(row, standing).model_dump(),
            reused=tuple(task for task in tasks if task.reused),
            started=tuple(task for task in tasks if not task.reused),
            plan=plan_answer(made.planned) if isinstance(made, Composed) else None,
        )

    def _answers(self, rows: Iterable[DataflowRow]) -> list[DataflowAnswer]:
        with self._committer.looking() as state:
            standings = [(row, standing_of(state, row)) for row in rows]
        hosts = self._hosts()
        return [dataflow_answer(row, standing, self._seeing, hosts) for row, standing in standings]

    def _answer(self, row: DataflowRow, standing: Standing | None) -> DataflowAnswer:
        return dataflow_answer(row, standing, self._seeing, self._hosts())

    def _hosts(self) -> Mapping[str, HostSeen]:
        return {host.host: host for host in self._seeing.hosts()}
