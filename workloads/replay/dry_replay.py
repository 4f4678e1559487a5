"""A dry replay: what the logical layer makes of a trace, without a service; thousands of dataflows in seconds.

Its counts are those of a service with the same settings. What is consolidated can differ once a service has measured
what tasks take, since here they take what it assumes before that, and where so many run that it moves some at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import reduce
from json import dumps
from typing import Literal, TypeAlias

from dags import Dataflow, InvalidDocument, Source, Visibility, canonicalise
from engine import installed_catalogue
from manager.defragmentation.calibration import ASSUMED, ASSUMED_DISRUPTIONS, costs
from manager.defragmentation.measurement import busy
from manager.process.settings import Placement
from merge import (
    Bridge,
    Conditions,
    Host,
    Instance,
    JobId,
    Jobs,
    Remove,
    Request,
    RunningGraph,
    Step,
    Submit,
    consolidate,
    decide,
    each_step,
)
from workloads.replay.loads import Cost, Load, Scales, scales_of
from workloads.replay.modes import document_in
from workloads.results import StepRow, UsersRow
from workloads.traces import trace_file as traces
from workloads.way import Mode
from workloads.workload import Workload

Defragment: TypeAlias = Literal["off", "step"]
SOMEBODY = "somebody"
"""The tenant of every dataflow: among whom they are spread changes no count as long as all may read the sources."""
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""The moment at which everything starts; no count depends on it."""


class NotReplayed(ValueError):
    """A trace or a workload cannot be replayed; says which dataflow is in the way, and what to do."""


def dry(  # noqa: PLR0913 - a replay has these settings
    workload: Workload,
    trace: traces.Trace,
    *,
    mode: Mode,
    placement: Placement,
    defragment: Defragment,
    pace: float = 1.0,
    rate: float = 1.0,
    cost: Cost = each_step,
) -> Iterator[tuple[StepRow, Sequence[UsersRow]]]:
    """What there is after each step. `pace` is the service's; `rate` multiplies that of each source.

    A replay measures no cost, so that `cost` says how much work an event is for a task: 1 at each step if nothing else
    is wanted.
    """
    names = {step.dataflow for step in trace.steps}
    dataflows = _checked(workload, names, mode)
    scales = scales_of(workload, rate=rate, cost=cost)
    # Tasks that are submitted fresh keep their duplicates within a dataflow.
    alone = {name: scales.load(each) for name, each in _checked(workload, names, "reuse").items()}
    tags = frozenset[str]().union(*(task.type.tags for each in dataflows.values() for task in each.tasks))
    host = Host(name="dry", cores=1.0, tags=tags)
    standing = _Standing(Conditions(now=_NOW, hosts=(host,), strategy=placement, pace=pace), scales)
    submitted = Load()
    for number, step in enumerate(trace.steps):
        if step.action is traces.Action.SUBMIT:
            standing.submit(dataflows[step.dataflow])
            submitted = submitted.plus(alone[step.dataflow])
        else:
            standing.remove(step.dataflow)
            submitted = submitted.minus(alone[step.dataflow])
        if defragment == "step":
            standing.consolidate()
        yield standing.row(number, step, submitted), standing.users_rows(number)


class _Standing:
    """What runs where, and the counts of it, each kept up with what a step changes rather than counted anew."""

    def __init__(self, conditions: Conditions, scales: Scales) -> None:
        self._conditions = conditions
        self._scales = scales
        self._running = RunningGraph()
        self._jobs = Jobs()
        self._used = Counter[int]()
        """How many running tasks serve so many dataflows."""
        self._loads: dict[Instance, Load] = {}
        """Of each running task."""
        self._load = Load()
        """Of all of them."""
        self._bridges = 0
        self._paused = 0

    def submit(self, dataflow: Dataflow) -> None:
        """Run a dataflow, by the same decision as a service."""
        step = self._decided(Submit(dataflow=dataflow))
        started = self._scales.loads(dataflow, step.change)
        self._loads |= started
        self._load = reduce(Load.plus, started.values(), self._load)
        self._take(step)

    def remove(self, dataflow: str) -> None:
        """Stop a dataflow, by the same decision as a service."""
        step = self._decided(Remove(dataflow=dataflow))
        self._load = reduce(Load.minus, (self._loads.pop(task.instance) for task in step.change.stops), self._load)
        self._take(step)

    def consolidate(self) -> None:
        """Consolidate the jobs as a service does on request, by the costs that it assumes."""
        assumed = costs(self._conditions.pace, ASSUMED, ASSUMED_DISRUPTIONS, busy(self._running, self._jobs, {}, 0.0))
        assignment = consolidate(self._running, self._jobs, self._conditions.hosts, assumed)
        with self._counting(assignment.crossings, assignment.stops):
            self._jobs = self._jobs.apply(assignment)

    def _decided(self, request: Request) -> Step:
        return decide(self._running, self._jobs, request, self._conditions)

    def _take(self, step: Step) -> None:
        change = step.change
        for instance in change.reuses:
            self._move(len(self._running.users[instance]), 1)
        for instance in change.releases:
            self._move(len(self._running.users[instance]), -1)
        self._used[1] += len(change.starts) - len(change.stops)
        with self._counting((*step.placed.crossings, *step.released.crossings), step.touches):
            self._running.advance(change)
            self._jobs = step.jobs

    @contextmanager
    def _counting(self, crossings: Iterable[tuple[Bridge, int]], touched: Iterable[JobId]) -> Iterator[None]:
        """Keep the counts of bridges and paused tasks up with a change of these bridges and jobs."""
        bridges, jobs = {bridge for bridge, _ in crossings}, tuple(touched)
        self._bridges -= self._forwarded(bridges)
        self._paused -= self._paused_in(jobs)
        yield
        self._bridges += self._forwarded(bridges)
        self._paused += self._paused_in(jobs)

    def row(self, number: int, step: traces.TraceStep, submitted: Load) -> StepRow:
        """The counts after a step."""
        return StepRow(
            step=number,
            action=step.action,
            dataflow=step.dataflow,
            phase=step.phase,
            dataflows=len(self._running.dataflows),
            submitted_tasks=submitted.counts.total,
            submitted_sources=submitted.counts.sources,
            submitted_outputs=submitted.counts.outputs,
            running_tasks=self._load.counts.total,
            running_sources=self._load.counts.sources,
            running_outputs=self._load.counts.outputs,
            work_alone=float(submitted.work),
            work_running=float(self._load.work),
            paused_tasks=self._paused,
            jobs=len(self._jobs.jobs),
            bridges=self._bridges,
            measured=False,
            seconds=0.0,
        )

    def users_rows(self, number: int) -> tuple[UsersRow, ...]:
        """How many running tasks serve so many dataflows after a step."""
        found = sorted((users, tasks) for users, tasks in self._used.items() if tasks)
        return tuple(UsersRow(step=number, users=users, tasks=tasks) for users, tasks in found)

    def _move(self, users: int, more: int) -> None:
        self._used[users] -= 1
        self._used[users + more] += 1

    def _forwarded(self, bridges: Iterable[Bridge]) -> int:
        """The number of these over which a job sends; raw streams are read from their spools."""
        tasks = self._running.tasks
        return sum(bridge in self._jobs.bridges and bool(tasks[bridge.parent].inputs) for bridge in bridges)

    def _paused_in(self, jobs: Iterable[JobId]) -> int:
        return sum(len(self._jobs.jobs[job].paused) for job in jobs if job in self._jobs.jobs)


def _checked(workload: Workload, names: Iterable[str], mode: Mode) -> dict[str, Dataflow]:
    """The canonical dataflows that these are as they are submitted in a mode."""
    catalogue = installed_catalogue()
    sources = {
        each.name: Source(name=each.name, owner=SOMEBODY, schema=each.schema, visibility=Visibility.PUBLIC)
        for each in workload.sources
    }
    found: dict[str, Dataflow] = {}
    for name in sorted(names):
        document = workload.dataflows.get(name)
        if document is None:
            raise NotReplayed(
                f"the workload {workload.name!r} has no dataflow {name!r}; replay the trace on the workload it was"
                " drawn for, or draw another"
            )
        try:
            found[name] = canonicalise(
                dumps(document_in(mode, document)),
                dataflow=name,
                tenant=SOMEBODY,
                catalogue=catalogue,
                sources=sources,
            )
        except InvalidDocument as error:
            first = error.problems[0]
            raise NotReplayed(
                f"the dataflow {name!r} of the workload {workload.name!r} has problems, the first at"
                f" {first.pointer or '(document)'}: {first.message}; {first.remedy}"
            ) from None
    return found
