"""A dry replay: the counts of a trace by the service's logic alone; thousands of dataflows in seconds.

The counts are those of a service with the same settings. Consolidations can differ: a service that has measured the
costs of tasks no longer uses the assumed ones, and with many jobs it moves only some at a time. A load is the number of
tasks of each kind, and their work.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import reduce
from json import dumps
from pathlib import Path
from typing import TypeAlias

from dags import AnyTaskType, Dataflow, InvalidDocument, Source, Visibility
from dags.canonical import canonicalise
from engine import installed_catalogue
from manager.costs.measured import ASSUMED, ASSUMED_DISRUPTIONS, busy, costs
from merge import (
    Amount,
    Bridge,
    Change,
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
    TaskCounts,
    Weighed,
    consolidate,
    counted,
    decide,
    each_step,
    numbered,
    works,
)
from workloads.replay.plan import document_in
from workloads.results import ResultsFolder, StepResult, StepRow, UsersRow, manifest_of
from workloads.traces import Action, Mode, Trace, TraceStep, Way
from workloads.workload import Workload

Cost: TypeAlias = Callable[[Weighed], Amount]
"""The work that an event is for a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The count and the work of some tasks; without arguments, of none."""

    counts: TaskCounts = field(default_factory=TaskCounts)
    work: Fraction = field(default_factory=Fraction)

    def plus(self, more: "Load") -> "Load":
        """The sum of both."""
        return Load(counts=self.counts.plus(more.counts), work=self.work + more.work)

    def minus(self, less: "Load") -> "Load":
        """The difference."""
        return Load(counts=self.counts.minus(less.counts), work=self.work - less.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """The rates and costs by which tasks are weighed."""

    arriving: Mapping[str, Fraction]
    """Events per second of each source."""
    cost: Cost

    def load(self, dataflow: Dataflow) -> Load:
        """The load of a dataflow by itself."""
        return _together([task.type for task in dataflow.tasks], self._works(dataflow).values())

    def loads(self, dataflow: Dataflow, change: Change) -> dict[Instance, Load]:
        """The load of each task that the submission of a dataflow starts."""
        work, starts = self._works(dataflow), set(change.residue)
        places = {} if change.submitted is None else change.submitted.places
        return {
            places[task]: _together([dataflow.tasks[place].type], [work[place]])
            for task, place in dataflow.places.items()
            if places[task] in starts
        }

    def _works(self, dataflow: Dataflow) -> dict[int, Fraction]:
        return works(numbered(dataflow), self._arriving, cost=self.cost)

    def _arriving(self, source: Weighed) -> Fraction:
        """The rate of a source; a task that generates events counts as one a second."""
        return self.arriving[source.config["source"]] if source.type.reads_source else Fraction(1)


def _together(kinds: list[AnyTaskType], work: Iterable[Fraction]) -> Load:
    return Load(counts=counted(kinds), work=sum(work, Fraction()))


_TENANT = "somebody"
"""The tenant of every dataflow; tenants change no count as long as all may read the sources."""
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""The moment of every start; no count depends on it."""


class NotReplayed(ValueError):
    """A trace or a workload that cannot be replayed; the message names the dataflow and the remedy."""


def dry_rows(  # noqa: PLR0913 - a replay has these settings
    workload: Workload, trace: Trace, way: Way, *, pace: float = 1.0, rate: float = 1.0, cost: Cost = each_step
) -> Iterator[tuple[StepRow, Sequence[UsersRow]]]:
    """The counts after each step; `pace` is the service's, `rate` is a factor on the rate of each source.

    A dry replay measures nothing, so `cost` says how much work an event is for a task: by default 1 at each step.
    """
    names = {step.dataflow for step in trace.steps}
    dataflows = checked_dataflows(workload, names, way.mode)
    arriving = {source.name: Fraction(source.per_second) * Fraction(rate) for source in workload.sources}
    scales = Scales(arriving=arriving, cost=cost)
    # Fresh tasks keep their duplicates within a dataflow, so the baseline is that of reuse.
    alone = {name: scales.load(dataflow) for name, dataflow in checked_dataflows(workload, names, "reuse").items()}
    tags = frozenset[str]().union(*(task.tags for dataflow in dataflows.values() for task in dataflow.tasks))
    host = Host(name="dry", cores=1.0, tags=tags)
    state = _State(Conditions(now=_NOW, hosts=(host,), strategy=way.placement, pace=pace), scales)
    submitted = Load()
    for number, step in enumerate(trace.steps):
        if step.action is Action.SUBMIT:
            state.submit(dataflows[step.dataflow])
            submitted = submitted.plus(alone[step.dataflow])
        else:
            state.remove(step.dataflow)
            submitted = submitted.minus(alone[step.dataflow])
        if way.defragment == "step":
            state.consolidate()
        yield state.row(number, step, submitted), state.users_rows(number)


class _State:
    """The running tasks and their jobs, with counts that each step updates instead of counting again."""

    def __init__(self, conditions: Conditions, scales: Scales) -> None:
        self._conditions = conditions
        self._scales = scales
        self._running = RunningGraph()
        self._jobs = Jobs()
        self._used = Counter[int]()
        """The number of running tasks that serve so many dataflows."""
        self._loads: dict[Instance, Load] = {}
        """The load of each running task."""
        self._load = Load()
        """The load of all of them."""
        self._bridges = 0
        self._paused = 0

    def submit(self, dataflow: Dataflow) -> None:
        """Submit a dataflow; the decision is that of a service."""
        step = self._decide(Submit(dataflow=dataflow))
        started = self._scales.loads(dataflow, step.change)
        self._loads |= started
        self._load = reduce(Load.plus, started.values(), self._load)
        self._apply(step)

    def remove(self, dataflow: str) -> None:
        """Remove a dataflow; the decision is that of a service."""
        step = self._decide(Remove(dataflow=dataflow))
        self._load = reduce(Load.minus, (self._loads.pop(task.instance) for task in step.change.stops), self._load)
        self._apply(step)

    def consolidate(self) -> None:
        """Consolidate the jobs as a service does on request, with the costs that it assumes."""
        assumed = costs(self._conditions.pace, ASSUMED, ASSUMED_DISRUPTIONS, busy(self._running, self._jobs, {}, 0.0))
        assignment = consolidate(self._running, self._jobs, self._conditions.hosts, assumed)
        with self._counts_updated(assignment.crossings, assignment.stops):
            self._jobs = self._jobs.apply(assignment)

    def _decide(self, request: Request) -> Step:
        return decide(self._running, self._jobs, request, self._conditions)

    def _apply(self, step: Step) -> None:
        change = step.change
        for instance in change.reuses:
            self._move(len(self._running.users[instance]), 1)
        for instance in change.releases:
            self._move(len(self._running.users[instance]), -1)
        self._used[1] += len(change.starts) - len(change.stops)
        with self._counts_updated((*step.placed.crossings, *step.released.crossings), step.touches):
            self._running.advance(change)
            self._jobs = step.jobs

    @contextmanager
    def _counts_updated(self, crossings: Iterable[tuple[Bridge, int]], touched: Iterable[JobId]) -> Iterator[None]:
        """Update the counts of bridges and paused tasks when these bridges and jobs change."""
        bridges, jobs = {bridge for bridge, _ in crossings}, tuple(touched)
        self._bridges -= self._forwarded(bridges)
        self._paused -= self._paused_in(jobs)
        yield
        self._bridges += self._forwarded(bridges)
        self._paused += self._paused_in(jobs)

    def row(self, number: int, step: TraceStep, submitted: Load) -> StepRow:
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
        """The number of running tasks that serve so many dataflows after a step."""
        used = sorted((users, tasks) for users, tasks in self._used.items() if tasks)
        return tuple(UsersRow(step=number, users=users, tasks=tasks) for users, tasks in used)

    def _move(self, users: int, more: int) -> None:
        self._used[users] -= 1
        self._used[users + more] += 1

    def _forwarded(self, bridges: Iterable[Bridge]) -> int:
        """The number of these bridges over which a job sends; raw streams are read from their spools."""
        tasks = self._running.tasks
        return sum(bridge in self._jobs.bridges and bool(tasks[bridge.parent].inputs) for bridge in bridges)

    def _paused_in(self, jobs: Iterable[JobId]) -> int:
        return sum(len(self._jobs.jobs[job].paused) for job in jobs if job in self._jobs.jobs)


def checked_dataflows(workload: Workload, names: Iterable[str], mode: Mode) -> dict[str, Dataflow]:
    """The canonical dataflows, as they are submitted in a mode."""
    catalogue = installed_catalogue()
    sources = {
        source.name: Source(name=source.name, owner=_TENANT, schema=source.schema, visibility=Visibility.PUBLIC)
        for source in workload.sources
    }
    checked: dict[str, Dataflow] = {}
    for name in sorted(names):
        document = workload.dataflows.get(name)
        if document is None:
            raise NotReplayed(
                f"the workload {workload.name!r} has no dataflow {name!r}; replay the trace on the workload that it"
                " was drawn for, or draw another"
            )
        try:
            checked[name] = canonicalise(
                dumps(document_in(mode, document)),
                dataflow=name,
                tenant=_TENANT,
                catalogue=catalogue,
                sources=sources,
            )
        except InvalidDocument as error:
            first = error.problems[0]
            raise NotReplayed(
                f"the dataflow {name!r} of the workload {workload.name!r} has problems, the first at"
                f" {first.pointer or '(document)'}: {first.message}; {first.remedy}"
            ) from None
    return checked


def replay_dry(  # noqa: PLR0913 - a replay has these settings
    workload: Workload, trace: Trace, way: Way, *, pace: float, into: Path, rate: float = 1.0
) -> None:
    """Replay a trace dry and write the results to a folder; replace those of the same replay."""
    if way.defragment == "itself":
        raise NotReplayed(
            "--defragment itself: a dry replay has no measurements to decide by; use off or step, or leave out --dry"
        )
    settings = {"pace": pace, "rate": rate, "cost": each_step.__name__}
    results = ResultsFolder(into, manifest_of(way, trace, workload, settings, dry=True))
    rows = dry_rows(workload, trace, way, pace=pace, rate=rate)
    results.step_results = [StepResult(step=row, users=tuple(users)) for row, users in rows]
    results.finish()
