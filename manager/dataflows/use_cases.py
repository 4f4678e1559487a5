"""Dataflows: submitted alone or together, replaced, explained, removed, shown and watched."""

import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import defer
from sqlmodel import col

from adaptation.document_reader import dynamic_in
from braid_client.answers.base import FieldProblem, Page
from braid_client.answers.dataflows import (
    BundleAnswer,
    BundleExplainAnswer,
    DataflowAnswer,
    DataflowDetail,
    DataflowState,
    DataflowTasksAnswer,
    EndingStreamAnswer,
    ExplainAnswer,
    LeftOutAnswer,
    OutputAnswer,
    RemovalAnswer,
    Saving,
    Start,
    Stop,
    SubmitAnswer,
    TaskAnswer,
    TaskPreview,
)
from braid_client.answers.pipelines import GivenUpModule, PlanAnswer
from bridge import topics
from bridge.output_topics import chosen_topic
from dags import InvalidDocument
from dags import State as Remembers
from dags.outputs import OutputSettings
from dags.problems import pointer, quoted
from engine.delivery.publisher import recent_output
from engine.log_lines import note
from engine.plan import Plan
from engine.records.job_folder import job_folder
from manager.adaptation.resolver import Resolved, Resolver
from manager.dataflows.changes import Bundle, BundleDocument
from manager.dataflows.task_figures import task_figures
from manager.documents.canonical import documents_in, of_document
from manager.documents.drafts import task_previews
from manager.documents.preview import preview_removal
from manager.documents.revisions import Tags
from manager.kernel.dataflow_life import DRAINS, Need, find, needs_of
from manager.kernel.dataflow_rows import document_tag, running_dataflow, written_in
from manager.kernel.registered_sources import full_name
from manager.kernel.state import CommittedState, running_id
from manager.observations.figures import measured_costs, output_latency
from manager.observations.reports import HostSeen, Measured, Observations, received_of
from manager.outputs.readers import OutputLook, OutputWatcher, Tail
from manager.pipelines.composer import Composed, PipelineComposer, Present, pipeline_in, plan_answer, previewed
from manager.planner import Supplied
from manager.problem import Conflict, FieldError, InvalidDataflow, NotFound, StateNotReady, invalid
from manager.savings.use_cases import saving
from manager.store.tables import DataflowRow, table_of
from manager.use_case import Base, Caller, Paging, hour, moment, paged, tenant_of
from merge import Instance, MeasuredCosts, estimated

_REJECTS_SHOWN = 3600.0
"""Seconds for which a dataflow says that a source has rejected an event."""
_MOST_NAMESAKES = 5
"""The dataflows of one name that are listed where one is asked for."""
_ID = re.compile(r"d-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A dataflow in the committed state; made by `standing_of`."""

    needs: tuple[Need, ...] = ()
    since: Mapping[int, datetime] = field(default_factory=dict)
    """For each of its tasks with state when it was started, as exactly as a tenant may know."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The stream of each of its sources that belongs to its tenant."""


def standing_of(state: CommittedState, row: DataflowRow) -> Standing:
    """A dataflow of a row in the committed state; empty where it was removed."""
    if row.removed is not None:
        return Standing()
    tasks = (state.running.tasks.get(Instance(instance)) for instance in row.instances)
    running = state.running.dataflows.get(running_id(row.id, row.revision))
    sources = (state.sources.get(name) for name in row.sources)
    return Standing(
        sources={
            source.source.name: source.supplied.stream
            for source in sources
            if source is not None and source.source.owner == row.tenant
        },
        needs=tuple(needs_of(state, running)) if running is not None else (),
        since={task.instance: hour(task.since) for task in tasks if task and task.type.state is not Remembers.NONE},
    )


def dataflow_answer(
    row: DataflowRow, standing: Standing | None, observations: Observations, hosts: Mapping[str, HostSeen]
) -> DataflowAnswer:
    """The answer on a dataflow; `standing` is None where the committed state is not known."""
    state, reason = DataflowState.DEPLOYING, ""
    if row.removed is not None:
        state = DataflowState.REMOVED
    elif row.draining is not None:
        state, reason = DRAINS.state, DRAINS.reason
    elif standing is not None:
        jobs = {need.job: seen for need in standing.needs if (seen := observations.job(need.job)) is not None}
        finding = find(standing.needs, jobs, hosts)
        of_sources = (_unconnected(standing, hosts.values()), _rejecting(standing, hosts.values()))
        state, reason = finding.state, "; ".join(filter(None, (finding.reason, *of_sources)))
    return DataflowAnswer(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        revision=row.revision,
        state=state,
        reason=reason,
        submitted=moment(row.submitted),
        start=Start(row.start),
        outputs=tuple(_output_answers(row, standing or Standing(), observations)),
    )


def _unconnected(standing: Standing, hosts: Collection[HostSeen]) -> str:
    """Say which of its sources are not connected to what is outside Braid, since when and why; empty if all are."""
    receptions = ((name, received_of(stream, hosts)) for name, stream in standing.sources.items())
    links = [(name, received.link) for name, received in receptions if received is not None and received.link]
    return "; ".join(
        f"the source {name} is not connected since {moment(link.since):%Y-%m-%d %H:%M:%S} UTC: {link.error}"
        for name, link in links
        # Without an error it connects for the first time.
        if not link.connected and link.error
    )


def _rejecting(standing: Standing, hosts: Collection[HostSeen]) -> str:
    """Say which of its sources was the last to reject events in the last hour, and why; empty if none did."""
    receptions = ((name, received_of(stream, hosts)) for name, stream in standing.sources.items())
    last, text = time.time() - _REJECTS_SHOWN, ""
    for name, received in receptions:
        if received is not None and received.newest and (newest := received.newest[0]).at > last:
            events = f"{received.rejected:,} of {received.accepted + received.rejected:,} events"
            last, text = newest.at, f"the source {name} has rejected {events}, the last because {newest.reason}"
    return text


def task_answers(row: DataflowRow, standing: Standing, observations: Observations) -> tuple[TaskAnswer, ...]:
    """The answers on the tasks of a dataflow."""
    started, types = set(row.started), types_in(row.document)
    failed: dict[int, str] = {}
    for need in standing.needs:
        if (seen := observations.job(need.job)) is not None:
            failed |= {instance: seen.failed[instance] for instance in need.instances & seen.failed.keys()}
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


def types_in(document: bytes | str) -> dict[str, str]:
    """The type of each task of a document that was accepted."""
    return {task["id"]: task["type"] for task in json.loads(document)["tasks"]}


def _delivered(row: DataflowRow, sink: str) -> dict[str, Any]:
    """How an output is delivered besides, if it is."""
    if (written := (row.outputs or {}).get(sink)) is None:
        return {}
    settings = OutputSettings.model_validate(written, strict=False)
    chosen = chosen_topic(row.tenant, row.id, sink, settings)
    also_on = None if chosen == topics.output(row.tenant, row.id, sink) else chosen
    return {"format": settings.format, "retain": settings.retain, "qos": settings.qos, "also_on": also_on}


def _output_answers(row: DataflowRow, standing: Standing, observations: Observations) -> Iterator[OutputAnswer]:
    instances, now = dict(zip(row.task_ids, row.instances, strict=True)), time.monotonic()
    for sink in row.sinks:
        jobs = (observations.job(need.job) for need in standing.needs if instances[sink] in need.instances)
        measured = next((seen.measured for seen in jobs if seen is not None), ())
        latency = output_latency(measured, row.id, sink, now)
        yield OutputAnswer(
            sink=sink,
            topic=topics.output(row.tenant, row.id, sink),
            **_delivered(row, sink),
            latency_seconds_p50=latency.get("p50"),
            latency_seconds_p99=latency.get("p99"),
            left_out=_left_out(measured, row.id, sink),
        )


def _left_out(measured: Sequence[Measured], dataflow: str, sink: str) -> LeftOutAnswer | None:
    known = measured[-1].left_out.get(dataflow, {}).get(sink) if measured else None
    if known is None:
        return None
    return LeftOutAnswer(count=known.count, at=moment(known.at), reason=known.reason, event=known.event)


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
                note(repeated=True)
                return self.submitted(row)
        made = self._made(owner, raw)
        kept = _kept(raw, made)
        submitted = self._changes.dataflows.submit(
            owner, kept.document, who=caller.who, idempotency_key=idempotency_key, start=start, origin=kept.origin
        )
        self.admit([submitted])
        return self.submitted(submitted, made)

    def replace(self, caller: Caller, dataflow: str, raw: bytes, *, tags: Tags | None = None) -> SubmitAnswer:
        """Swap a dataflow's document for an edited one, as one change: what both have in common never stops.

        It is refused if the dataflow has none of the documents with these tags.
        """
        row = self._own_dataflow(caller, dataflow)
        made = self._made(row.tenant, raw, dataflow)
        kept = _kept(raw, made)
        replaced = self._changes.dataflows.replace(
            dataflow, kept.document, who=caller.who, origin=kept.origin, tags=tags
        )
        self.admit([row, replaced])
        return self.submitted(replaced, made)

    def admit(self, rows: Iterable[DataflowRow]) -> None:
        """Have the broker's access lists follow the topics that outputs have of their own."""
        if any(row.outputs for row in rows):
            self._tools.access_changed()

    def remove(self, caller: Caller, dataflow: str, how: Stop, *, tags: Tags | None = None) -> DataflowAnswer:
        """Remove a dataflow; as for a replacement, by its tags."""
        self._own_dataflow(caller, dataflow)
        if how is Stop.DRAIN:
            row = self._changes.drains.begin(dataflow, who=caller.who, tags=tags)
        else:
            row = self._changes.dataflows.remove(dataflow, who=caller.who, tags=tags)
        return self._answer(row, Standing())

    def preview_removal(self, caller: Caller, dataflow: str) -> RemovalAnswer:
        """A preview of a removal: the tasks that stop, and those that run on for others. Nothing is changed."""
        self._own_dataflow(caller, dataflow)
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
        row, outputs = self._watched(caller, dataflow, sink)
        return outputs.look(caller.who, topics.output(row.tenant, row.id, sink))

    @contextmanager
    def tail(self, caller: Caller, dataflow: str, sink: str | None, *, last: int) -> Iterator[Tail]:
        """All that leaves at an output of the caller's dataflow, or at every one; it begins with what left last."""
        row, outputs = self._watched(caller, dataflow, sink)
        sinks = {topics.output(row.tenant, row.id, name): name for name in row.sinks if sink in {None, name}}
        with outputs.tail(caller.who, sinks) as tail:
            # Only now that it listens, so that nothing falls between.
            if last and (root := self._tools.jobs_root) is not None:
                self._recall(tail, row, sinks, last, root)
            yield tail

    def _watched(self, caller: Caller, dataflow: str, sink: str | None) -> tuple[DataflowRow, OutputWatcher]:
        row = self._own_dataflow(caller, dataflow)
        if sink is not None and sink not in row.sinks:
            raise NotFound("output", sink)
        if row.removed is not None:
            raise Conflict(f"the dataflow {dataflow!r} was removed, and nothing leaves it any more; submit it again")
        if (outputs := self._tools.outputs) is None or not self._committer.leads:
            raise StateNotReady("outputs are seen only by a manager that leads and has a broker; ask that one")
        return row, outputs

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
        self,
        caller: Caller,
        raw: bytes,
        *,
        tenant: str | None = None,
        start: Start = Start.LATEST,
        draft: bool = False,
    ) -> ExplainAnswer:
        """A preview of a submission; nothing is changed. A draft may have problems."""
        owner = self._known_tenant(caller, tenant)
        plain = raw
        problems: Sequence[FieldError] = ()
        try:
            made = self._made(owner, raw)
            plain = _kept(raw, made).document
            plan = previewed(PipelineComposer(self._tools), owner, made) if isinstance(made, Composed) else None
            answer = self.explained(owner, plain, start, plan)
        except InvalidDataflow as refused:
            if not draft:
                raise
            problems = refused.errors
            answer = ExplainAnswer(
                reused=(), started=(), collapsed=(), saving=Saving(tasks=0, cores_by_packing=0.0), start=start
            )
        if not draft:
            return answer
        shown = tuple(FieldProblem.model_validate(problem, from_attributes=True) for problem in problems)
        return answer.model_copy(update={"tasks": self._outlined(owner, plain, start), "problems": shown})

    def _outlined(self, owner: str, document: bytes, start: Start) -> tuple[TaskPreview, ...]:
        """What is known of each task of a plain document, which may have problems."""
        try:
            preview = self._changes.dataflows.outline(owner, document, start=start)
        except InvalidDocument:
            # No part of it is readable, as its problems say.
            return ()
        measured = self._measured(owner, preview.plans, preview.sources)
        return tuple(task_previews(preview, estimated(preview.sound, preview.instances, measured)))

    def _measured(self, owner: str, plans: Sequence[Plan], sources: Mapping[str, Supplied]) -> MeasuredCosts:
        """The costs measured where a tenant's own tasks run; what others' tasks take is theirs to know."""
        seen = {plan.job: report for plan in plans if (report := self._seeing.job(plan.job)) is not None}
        return measured_costs(plans, seen, sources, time.monotonic(), only=self._instances_of(owner))

    def explained(self, owner: str, document: bytes, start: Start, plan: PlanAnswer | None = None) -> ExplainAnswer:
        """A preview of the submission of a plain document, with the plan that it was made by."""
        preview = self._changes.dataflows.explain(owner, document, start=start)
        explanation, types = preview.explanation, types_in(document)
        measured = self._measured(owner, preview.plans, preview.sources)
        return ExplainAnswer(
            reused=tuple(
                TaskAnswer(id=task.task, type=types[task.task], instance=0, reused=True, since=task.since)
                for task in explanation.reuses
            ),
            started=explanation.starts,
            collapsed=explanation.collapses,
            saving=saving(preview.dataflow, preview.instances, measured, opened=preview.opened, job=preview.job_cores),
            start=start,
            plan=plan,
        )

    def _instances_of(self, tenant: str) -> set[int]:
        """The running tasks that a tenant's dataflows use."""
        rows = table_of(DataflowRow).c
        wanted = select(rows.instances).where(rows.tenant == tenant, rows.removed.is_(None))
        with self._store.read() as session:
            return {instance for instances in session.scalars(wanted) for instance in instances}

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
        after = paging.after_number
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
        answers: list[tuple[DataflowRow, DataflowAnswer]] = []
        while len(answers) <= paging.limit:
            with self._store.read() as session:
                rows = session.scalars(wanted.where(col(DataflowRow.number) > after).limit(paging.limit + 1)).all()
            reading = [row for row in rows if source is None or source in row.sources]
            for row, answer in zip(reading, self._answers(reading), strict=True):
                if state in {None, answer.state}:
                    answers.append((row, answer))
            if len(rows) <= paging.limit:
                break
            after = rows[-1].number or 0
        return paged(answers, paging.limit, cursor=lambda pair: pair[0].number, answer=lambda pair: pair[1])

    def id_of(self, caller: Caller, named: str) -> str:
        """The id of the caller's dataflow with an id or a name; unchanged where it names none.

        Operators may write the tenant before a name. In names, a slash and a colon are the same: no path has a slash.
        """
        if _ID.fullmatch(named):
            return named
        name, written = func.replace(col(DataflowRow.name), "/", ":"), named.replace("/", ":")
        wanted = name == written
        if caller.tenant is None:
            wanted |= col(DataflowRow.tenant) + ":" + name == written
        else:
            wanted &= col(DataflowRow.tenant) == caller.tenant
        known = select(col(DataflowRow.id), col(DataflowRow.tenant)).where(wanted, col(DataflowRow.removed).is_(None))
        with self._store.read() as session:
            candidates = session.execute(known.order_by(col(DataflowRow.number)).limit(_MOST_NAMESAKES)).all()
        if len(candidates) > 1:
            listed = ", ".join(f"{dataflow} of {tenant}" for dataflow, tenant in candidates)
            said = f"several dataflows have the name {quoted(named)}: {listed}"
            raise invalid(pointer("path", "id"), "ambiguous-name", said, "use an id")
        return candidates[0][0] if candidates else named

    def get(self, caller: Caller, dataflow: str) -> DataflowDetail:
        """One dataflow with its document and tasks."""
        row = self._own_dataflow(caller, dataflow)
        with self._committer.looking() as state:
            standing = standing_of(state, row)
        return DataflowDetail(
            **dict(self._answer(row, standing)),
            tasks=task_answers(row, standing, self._seeing),
            document=json.loads(row.document),
            pipeline=None if row.pipeline is None else json.loads(row.pipeline),
            dynamic=None if row.dynamic is None else json.loads(row.dynamic),
            given_up=tuple(map(GivenUpModule.model_validate, row.given_up or ())),
            unplanned=row.unplanned,
            tag=document_tag(written_in(row)),
        )

    def tasks(self, caller: Caller, dataflow: str) -> DataflowTasksAnswer:
        """The figures of a dataflow's tasks."""
        with self._committer.looking() as state:
            # Within, so that the row is of the state.
            row = self._own_dataflow(caller, dataflow)
            tasks = task_figures(state, row, self._seeing, time.monotonic())
        return DataflowTasksAnswer(dataflow=row.id, tasks=tasks)

    def plain(self, tenant: str, raw: bytes) -> bytes:
        """The plain document that would run for one that a tenant sends."""
        return _kept(raw, self._made(tenant, raw)).document

    def _made(self, tenant: str, raw: bytes, dataflow: str | None = None) -> Composed | Resolved | None:
        """The plan of a pipeline, or what a dynamic document begins with; None for a plain document."""
        if dynamic_in(raw):
            return Resolver(self._tools).resolved(tenant, raw, dataflow or "resolved")
        if not pipeline_in(raw):
            return None
        present = None if dataflow is None else Present(dataflow=dataflow)
        return PipelineComposer(self._tools).composed(tenant, raw, present=present)

    def submitted(self, row: DataflowRow, made: Composed | Resolved | None = None) -> SubmitAnswer:
        """The answer to what was submitted."""
        standing = None
        # It is committed, so it is answered, even by a manager that does not lead any more.
        with suppress(StateNotReady), self._committer.looking() as state:
            standing = standing_of(state, row)
        tasks = task_answers(row, standing or Standing(), self._seeing)
        return SubmitAnswer(
            **dict(self._answer(row, standing)),
            reused=tuple(task for task in tasks if task.reused),
            started=tuple(task for task in tasks if not task.reused),
            plan=plan_answer(made.planned) if isinstance(made, Composed) else None,
            tag=document_tag(written_in(row)),
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


class Bundles(Base):
    """Documents submitted and explained together."""

    def submit(
        self,
        caller: Caller,
        sent: bytes,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        start: Start = Start.LATEST,
    ) -> BundleAnswer:
        """Submit all documents, or none. The same key and bundle get the same dataflows again."""
        owner = tenant_of(caller, tenant)
        dataflows = Dataflows(self._tools)
        documents = documents_in(sent)
        if idempotency_key is not None:
            # They are not planned again: there may be no plan by now.
            before = self._changes.bundles.submitted_before(owner, sent, idempotency_key, start)
            if before:
                note(repeated=True)
                return BundleAnswer(dataflows=tuple(map(dataflows.submitted, before)))
        made = self._made(owner, documents)
        rows = self._changes.bundles.submit(
            Bundle(
                tenant=owner,
                documents=tuple(map(_kept, documents, made)),
                sent=sent,
                who=caller.who,
                idempotency_key=idempotency_key,
                start=start,
            )
        )
        dataflows.admit(rows)
        return BundleAnswer(dataflows=tuple(map(dataflows.submitted, rows, made)))

    def explain(
        self, caller: Caller, sent: bytes, *, tenant: str | None = None, start: Start = Start.LATEST
    ) -> BundleExplainAnswer:
        """A preview of what submitting the documents together would do; nothing is changed."""
        owner = self._known_tenant(caller, tenant)
        documents = documents_in(sent)
        made = self._made(owner, documents)
        plain = [_kept(raw, one).document for raw, one in zip(documents, made, strict=True)]
        dataflows = Dataflows(self._tools)
        # First, since it refuses what is wrong with all of them.
        started = self._changes.bundles.started(owner, plain, start)
        explained: list[ExplainAnswer] = []
        for at, (document, one) in enumerate(zip(plain, made, strict=True)):
            with of_document(at):
                plan = plan_answer(one.planned) if isinstance(one, Composed) else None
                explained.append(dataflows.explained(owner, document, start, plan))
        return BundleExplainAnswer(documents=tuple(explained), started=started)

    def _made(self, owner: str, documents: tuple[bytes, ...]) -> tuple[Composed | Resolved | None, ...]:
        """The documents that do not run as they are written; None for those that do."""
        resolver = Resolver(self._tools)
        resolved: dict[int, Resolved] = {}
        for at, raw in enumerate(documents):
            with of_document(at):
                if dynamic_in(raw):
                    resolved[at] = resolver.resolved(owner, raw)
        plain = tuple(resolved[at].document if at in resolved else raw for at, raw in enumerate(documents))
        composed: tuple[Composed | None, ...] = (None,) * len(documents)
        if any(map(pipeline_in, plain)):
            composed = PipelineComposer(self._tools).together(owner, plain)
        return tuple(resolved.get(at, one) for at, one in enumerate(composed))


def _kept(raw: bytes, made: Composed | Resolved | None) -> BundleDocument:
    return BundleDocument(raw) if made is None else BundleDocument(made.document, made.origin)
