"""A dry replay: what the logical layer makes of a trace, without a service; thousands of dataflows in seconds.

Its counts are those of a service with the same settings. What is consolidated can differ once a service has measured
what tasks take, since here they take what it assumes before that, and where so many run that it moves some at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from json import dumps
from typing import Literal, TypeAlias

from dags import Dataflow, InvalidDocument, Source, Visibility, canonicalise
from engine import installed_catalogue
from manager.committing.draft import BATCH, BUSY, MOST_PAUSED
from manager.defragmenting.calibrating import ASSUMED, ASSUMED_DISRUPTIONS, costs
from manager.defragmenting.measuring import busy
from manager.settings import Placement
from merge import (
    Assignment,
    Bridge,
    Costs,
    Host,
    Instance,
    JobId,
    Jobs,
    RunningGraph,
    consolidate,
    each_step,
    merge,
    place,
    release,
    unmerge,
)
from workloads.replay.loads import Cost, Load, Scales, scales_of
from workloads.replay.modes import document_in
from workloads.results import StepRow, UsersRow
from workloads.trace import Action, Step, Trace
from workloads.way import Mode
from workloads.workload import Workload

Defragment: TypeAlias = Literal["off", "step"]
SOMEBODY = "somebody"
"""The tenant of every dataflow: among whom they are spread changes no count as long as all may read the sources."""
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""When everything starts: no count hangs on it."""


class NotReplayed(ValueError):
    """A trace or a workload cannot be replayed; says which dataflow is in the way, and what to do."""


def dry(  # noqa: PLR0913 - a replay has these settings
    workload: Workload,
    trace: Trace,
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
    standing = _Standing(placement, pace, Host(name="dry", cores=1.0, tags=tags), scales)
    submitted = Load()
    for number, step in enumerate(trace.steps):
        if step.action is Action.SUBMIT:
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

    def __init__(self, placement: Placement, pace: float, host: Host, scales: Scales) -> None:
        self._placement = placement
        self._pace = pace
        self._hosts = (host,)
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
        """As a service does it: merge, and place what starts."""
        change = merge(self._running, dataflow, _NOW)
        for instance in change.reuses:
            self._move(len(self._running.users[instance]), 1)
        self._used[1] += len(change.starts)
        started = self._scales.loads(dataflow, change)
        self._loads |= started
        self._load = reduce(Load.plus, started.values(), self._load)
        self._running.advance(change)
        self._apply(
            place(
                self._placement,
                residue=change.residue,
                running=self._running,
                jobs=self._jobs,
                hosts=self._hosts,
                costs=Costs(pace=self._pace, batch=BATCH, busy=dict.fromkeys(change.residue, BUSY)),
            )
        )

    def remove(self, dataflow: str) -> None:
        """As a service does it: unmerge, and pause what nobody needs any more."""
        change = unmerge(self._running, dataflow)
        for instance in change.releases:
            self._move(len(self._running.users[instance]), -1)
        self._used[1] -= len(change.stops)
        self._load = reduce(Load.minus, (self._loads.pop(task.instance) for task in change.stops), self._load)
        released = release(change.stops, self._jobs)
        touched = {self._jobs.homes[instance].job for instance in released.pauses}
        self._apply(released)
        for job in touched & set(self._jobs.jobs):
            self._forget_paused(job)
        self._running.advance(change)

    def consolidate(self) -> None:
        """As a service does it when it is asked for, with what it assumes that things cost."""
        assumed = costs(self._pace, ASSUMED, ASSUMED_DISRUPTIONS, busy(self._running, self._jobs, {}, 0.0))
        self._apply(consolidate(self._running, self._jobs, self._hosts, assumed))

    def row(self, number: int, step: Step, submitted: Load) -> StepRow:
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

    def _apply(self, assignment: Assignment) -> None:
        before, crossed = self._jobs, [bridge for bridge, _ in assignment.crossings]
        pausing = {before.homes[instance].job for instance in assignment.pauses}
        touched = pausing.union(assignment.stops)
        self._bridges -= self._forwarded(before, crossed)
        self._paused -= _paused(before, touched)
        self._jobs = before.apply(assignment)
        self._bridges += self._forwarded(self._jobs, crossed)
        self._paused += _paused(self._jobs, touched)

    def _forwarded(self, jobs: Jobs, bridges: Iterable[Bridge]) -> int:
        """How many of these are there that a job sends over; raw streams are read from their spools."""
        tasks = self._running.tasks
        return sum(bridge in jobs.bridges and bool(tasks[bridge.parent].inputs) for bridge in bridges)

    def _forget_paused(self, job: JobId) -> None:
        """Keep of a job's paused tasks what a service keeps in its plan: the newest, and no source."""
        placed = self._jobs.jobs[job]
        slots = (each for each in placed.paused if each not in self._running.tasks or self._running.tasks[each].inputs)
        kept = frozenset(sorted(slots)[-MOST_PAUSED:])
        self._paused -= len(placed.paused) - len(kept)
        jobs = self._jobs.jobs.insert(job, replace(placed, paused=kept))
        self._jobs = replace(self._jobs, jobs=jobs)


def _paused(jobs: Jobs, those: Iterable[JobId]) -> int:
    return sum(len(jobs.jobs[job].paused) for job in those if job in jobs.jobs)


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
