"""The overview, the journal, the task types, and metrics, as callers may read them."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from prometheus_client import Metric as Family
from sqlalchemy import and_, func, or_, select
from sqlmodel import col

from braid_client.answers.base import Page
from braid_client.answers.dataflows import DataflowState
from braid_client.answers.overview import (
    AUDIT_ONLY,
    MOST_CONCERNS,
    JobsOverview,
    KindsAnswer,
    OperationAnswer,
    OperationKind,
    OverviewAnswer,
    TaskTypeAnswer,
    TroubledJobAnswer,
    Urgency,
)
from braid_client.answers.savings import WholeAnswer
from bridge.transport.subscriptions import passed_over
from dags import AnyTaskType
from engine.job.lifecycle import JobState
from engine.tasks import family_of
from manager.dataflows.use_cases import Dataflows
from manager.kernel.dataflow_life import CommittedDataflowLookup, find
from manager.machines.admission import why_it_waits
from manager.machines.carriages import HostStanding, standings
from manager.observations.figures import figures_of
from manager.observations.reports import JobSeen, received_of
from manager.outputs.dead_letters import DeadLetters
from manager.overview.attention import ConcernSources, concerns
from manager.overview.metrics import (
    MOST_DATAFLOW_SAMPLES,
    CommittedSnapshot,
    MetricSample,
    MetricsSnapshot,
    SumAccumulator,
    families,
    samples,
    tenant_samples,
    types_of,
)
from manager.problem import StateNotReady
from manager.savings import ledger
from manager.savings.ledger import MINUTE, AmountScale, whole_answer
from manager.series.resolutions import read_newest
from manager.store.tables import DataflowRow, OperationRow, TenantRow
from manager.tenants.use_cases import Administration
from manager.use_case import Base, Caller, Paging, Tools, by_name, paged
from merge import counted

MOST_TROUBLED = 20
"""Jobs in trouble that are named."""
MOST_TENANTS = 10_000
"""Tenants whose quotas are looked at."""
_WELL = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING, JobState.STOPPED})


class Overview(Base):
    """Whether all is well, and what there is, for the first page of the console and `braid status`."""

    def counts(self, caller: Caller) -> OverviewAnswer:
        """The counts and what needs attention: of all tenants for an operator, of its own for a tenant."""
        with self._committer.looking() as state:
            dataflows = state.running.dataflows.values()
            own = [dataflow for dataflow in dataflows if caller.tenant in {None, dataflow.tenant}]
            jobs = {str(job): None for job in state.plans}
            tasks = state.running.tasks
            uses = Counter(instance for dataflow in own for instance in dataflow.instances)
            types = {instance: tasks[instance].type for instance in uses}
            bridges = len({(bridge.parent, bridge.port) for bridge in state.jobs.bridges})
        seen = {job: report for job in jobs if (report := self._seeing.job(job)) is not None}
        driven = self._tools.activity() if caller.is_operator else None
        if driven is not None:
            # The reconciler keeps count: to find the states of ten thousand takes 0.4 s.
            states = {DataflowState(state): count for state, count in driven.dataflows.items() if count}
        else:
            states = self._states([dataflow.id for dataflow in own], seen)
        submitted = counted(types[instance] for instance in uses.elements())
        overview = _jobs(jobs, seen, bridges) if caller.is_operator else None
        attention = concerns(self._concern_sources(caller, overview, states.get(DataflowState.DEGRADED, 0)))
        return OverviewAnswer(
            well=all(concern.urgency is not Urgency.ERROR for concern in attention),
            attention=attention[:MOST_CONCERNS],
            concerns=len(attention),
            dataflows=states,
            tasks_submitted=sum(len(dataflow.task_ids) for dataflow in own),
            tasks_running=len(uses),
            submitted_by_kind=KindsAnswer.model_validate(submitted, from_attributes=True),
            running_by_kind=KindsAnswer.model_validate(counted(types.values()), from_attributes=True),
            jobs=overview,
        )

    def _concern_sources(self, caller: Caller, jobs: JobsOverview | None, degraded: int) -> ConcernSources:
        most, hosts, machines = Paging(limit=MOST_CONCERNS), self._seeing.hosts(), {}
        with self._committer.looking() as state:
            own = (
                (name, source) for name, source in state.sources.items() if caller.tenant in {None, source.source.owner}
            )
            streams = {name: source.supplied.stream for name, source in own}
        if jobs is not None:
            fleet = self._tools.carriages.fleet()
            waiting = self._tools.admission.waiting(self._seeing.machines(), fleet)
            machines = {name: why_it_waits(name, fleet) for name in sorted(waiting)}
        listed = Dataflows(self._tools).page(caller, most, state=DataflowState.DEGRADED).items if degraded else ()
        received = ((name, received_of(stream, hosts)) for name, stream in sorted(streams.items()))
        return ConcernSources(
            now=time.time(),
            is_operator=caller.is_operator,
            away=[host.host for host in hosts if not host.alive] if jobs is not None else (),
            troubled=jobs.troubled if jobs is not None else (),
            in_trouble=jobs.in_trouble if jobs is not None else 0,
            waiting=machines,
            degraded=listed,
            all_degraded=degraded,
            received={name: reception for name, reception in received if reception is not None},
            dead=DeadLetters(self._tools).groups(caller, most).items,
            tenants=Administration(self._tools).tenants(caller, Paging(limit=MOST_TENANTS)).items,
        )

    def _states(self, dataflows: Iterable[str], seen: dict[str, JobSeen]) -> dict[DataflowState, int]:
        hosts = {host.host: host for host in self._seeing.hosts()}
        states: Counter[DataflowState] = Counter()
        for known in CommittedDataflowLookup(self._committer).needs(tuple(dataflows)).values():
            states[DataflowState.DRAINING if known.drains else find(known.needs, seen, hosts).state] += 1
        return {state: states[state] for state in DataflowState if states[state]}


def _jobs(jobs: Iterable[str], seen: dict[str, JobSeen], bridges: int) -> JobsOverview:
    states = Counter(seen[job].state if job in seen else "awaited" for job in jobs)
    troubled = [
        TroubledJobAnswer(job=job, state=job_seen.state, trouble=job_seen.trouble or job_seen.refused)
        for job, job_seen in seen.items()
        if job_seen.trouble or job_seen.refused or job_seen.state not in _WELL
    ]
    figures = [figures_of(job_seen.measured, time.monotonic()) for job_seen in seen.values()]
    events = [figure.lag_events for figure in figures if figure.lag_events is not None]
    seconds = [figure.lag_seconds for figure in figures if figure.lag_seconds is not None]
    return JobsOverview(
        states=dict(sorted(states.items())),
        troubled=tuple(troubled[:MOST_TROUBLED]),
        in_trouble=len(troubled),
        bridges=bridges,
        lag_events=sum(events) if events else None,
        lag_seconds=max(seconds, default=None),
    )


class Operations(Base):
    """The journal."""

    def page(
        self, caller: Caller, paging: Paging, *, kind: OperationKind | None = None, subject: str | None = None
    ) -> Page[OperationAnswer]:
        """The journal, newest first: of a tenant what it did and why its dataflows adapt, all for an operator."""
        wanted = select(OperationRow).order_by(col(OperationRow.id).desc())
        if paging.after is not None:
            wanted = wanted.where(col(OperationRow.id) < paging.after_number)
        if caller.tenant is not None:
            own = select(col(DataflowRow.id)).where(col(DataflowRow.tenant) == caller.tenant)
            # The service adapts a dataflow, so who did it is not its tenant.
            adapts = and_(col(OperationRow.kind) == OperationKind.ADAPT, col(OperationRow.subject).in_(own))
            wanted = wanted.where(or_(col(OperationRow.who) == caller.tenant, adapts))
        if kind is None:
            wanted = wanted.where(col(OperationRow.kind).not_in(AUDIT_ONLY))
        for column, value in (("kind", kind), ("subject", subject)):
            if value is not None:
                wanted = wanted.where(col(getattr(OperationRow, column)) == value)
        with self._store.read() as session:
            rows = session.scalars(wanted.limit(paging.limit + 1)).all()
        return paged(
            rows,
            paging.limit,
            cursor=lambda row: row.id,
            answer=lambda row: OperationAnswer.model_validate(row, from_attributes=True),
        )


class TaskTypes(Base):
    """The task types that documents may name; they are the same for every caller."""

    def page(self, paging: Paging, *, name: str | None = None) -> Page[TaskTypeAnswer]:
        """The installed types, by name, or the one of that name, which may be in a namespace."""
        catalogue = self._tools.catalogue
        if name is not None:
            named = catalogue.find(name)
            return Page(items=() if named is None else (_answer(named),))
        return by_name(catalogue.types, paging, lambda type_name: _answer(catalogue.types[type_name]))


def _answer(task_type: AnyTaskType) -> TaskTypeAnswer:
    fixed = task_type.ports is None
    return TaskTypeAnswer(
        name=task_type.name,
        version=task_type.version,
        family=family_of(task_type),
        summary=task_type.summary,
        inputs=task_type.inputs if fixed else None,
        outputs=task_type.outputs if fixed else None,
        state=task_type.state,
        config=task_type.config.model_json_schema(),
    )


_METERED = 5 * MINUTE
"""Seconds that the means of cores cover; a minute is written once it is over."""


class Metrics(Base):
    """The use case that collects metrics."""

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self._typed: tuple[int, dict[int, str]] = (-1, {})
        """The types of running tasks, with the version of the committed state that they are from."""
        self._adding = SumAccumulator()
        self._looks = threading.Lock()

    def collect(self, caller: Caller) -> Iterable[Family]:
        """Everything that a manager knows but what REST counts; a tenant has metrics of its own dataflows instead."""
        if not caller.is_operator:
            return families(self._of_tenant(caller))
        committed = self._committed()
        plans = map(str, committed.plans) if committed is not None else ()
        jobs = {job: seen for job in plans if (seen := self._seeing.job(job)) is not None}
        types = self._types(committed) if committed is not None else {}
        # Only the leading manager has the metrics common to all, so that sums over managers count nothing twice.
        metered, tenants = self._stored() if committed is not None else (None, 0)
        machines, waiting, carried = self._carried() if committed is not None else ({}, 0, ())
        with self._looks:
            if committed is not None:
                self._adding.look(jobs, types, time.monotonic())
            known = MetricsSnapshot(
                leads=self._committer.leads,
                committed=committed,
                types=types,
                driven=self._tools.activity(),
                hosts=self._seeing.hosts() if committed is not None else (),
                machines=machines,
                waiting=waiting,
                carried=carried,
                jobs=jobs,
                sums=self._adding.sums,
                metered=metered,
                tenants=tenants,
                passed_over=passed_over(),
                lineage=self._tools.lineage(),
                now=time.monotonic(),
            )
            return families(samples(known))

    def _of_tenant(self, caller: Caller) -> Iterable[MetricSample]:
        page = Dataflows(self._tools).page(caller, Paging(limit=MOST_DATAFLOW_SAMPLES))
        with self._store.read() as session:
            figures = read_newest(session, [dataflow.id for dataflow in page.items], time.time())
        return tenant_samples(page.items, figures, are_all=page.next is None)

    def _types(self, committed: CommittedSnapshot) -> dict[int, str]:
        # Cached, because a look at a hundred thousand tasks takes longer than everything else.
        version, types = self._typed
        if version != committed.version:
            version, types = self._typed = committed.version, types_of(committed.tasks.values())
        return types

    def _committed(self) -> CommittedSnapshot | None:
        with suppress(StateNotReady), self._committer.looking() as state:
            # Only copied here, because commits have to wait meanwhile.
            return CommittedSnapshot(
                version=state.version,
                tasks=dict(state.running.tasks),
                dataflows=tuple(state.running.dataflows.values()),
                plans=dict(state.plans),
                jobs=state.jobs,
                sources=len(state.sources),
                moving=bool(state.moves),
            )
        return None

    def _carried(self) -> tuple[Mapping[str, bool], int, Sequence[HostStanding]]:
        with suppress(StateNotReady):
            fleet = self._tools.carriages.fleet()
            claims, admission = self._seeing.machines(), self._tools.admission
            admitted, waiting = admission.admitted(claims, fleet), len(admission.waiting(claims, fleet))
            seen = {name: status.seen for name, status in admitted.items()}
            alive = {name: name in seen and seen[name].alive for name in sorted(seen.keys() | fleet.named)}
            return alive, waiting, standings(fleet, seen, replicas=self._tools.replicas)
        return {}, 0, ()

    def _stored(self) -> tuple[WholeAnswer | None, int]:
        now = int(time.time())
        with self._store.read() as session:
            whole = ledger.whole(session, MINUTE, now - _METERED - now % MINUTE, now)
            tenants = session.scalar(select(func.count()).select_from(TenantRow)) or 0
        return whole_answer(whole, (), AmountScale(seconds=whole.seconds)) if whole.seconds else None, tenants
