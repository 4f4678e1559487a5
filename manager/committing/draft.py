"""A draft: one change of the committed state while it is decided, and what of it has to be written down.

It moves the state on step by step, because looking ahead would cost a copy of everything. Whoever holds the state
drops it if the change is not committed in the end, and loads it anew.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dags import Dataflow
from engine.plan import Feed, Plan
from manager.answers import Start
from manager.committing.sources import Registered
from manager.committing.state import State, stands_apart
from manager.planning import Delivered, Planner, Supplied, public_id
from merge import (
    Assignment,
    Change,
    Costs,
    Host,
    Instance,
    JobId,
    Jobs,
    RunningGraph,
    RunningTask,
    merge,
    place,
    release,
    unmerge,
)

BATCH = 0.06
"""Seconds of CPU that a batch is taken to cost."""
BUSY = 2.0**-8
"""The part of a second for which a task is taken to work in a second. A power of two: sums are exact, in any order."""
MOST_PAUSED = 100
"""So many paused tasks a plan keeps, the newest; a job that others come to and leave would have ever more of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What placement goes by; the manager's settings."""

    hosts: Callable[[], tuple[Host, ...]]
    strategy: str = "pack"
    pace: float = 1.0


@dataclass(kw_only=True)
class Draft:
    """Made by the committer for one change."""

    state: State
    ground: Ground
    term: int
    now: datetime
    moved: bool = False
    """Whether the state is not any more what is committed."""
    added: dict[Instance, RunningTask] = field(default_factory=dict)
    gone: set[Instance] = field(default_factory=set)
    reused: int = 0
    touched: set[JobId] = field(default_factory=set)
    """The jobs that may get a new plan."""
    opened: list[JobId] = field(default_factory=list)
    closed: list[JobId] = field(default_factory=list)
    submitted: list[str] = field(default_factory=list)
    fed: dict[JobId, tuple[Feed, ...]] = field(default_factory=dict)
    """What jobs are fed by their next plans, beside what they were fed before and have not taken yet."""
    taken: set[JobId] = field(default_factory=set)
    """The jobs that have taken all that they were fed."""

    def submit(self, dataflow: Dataflow, start: Start = Start.LATEST) -> Change:
        """Merge a dataflow, and place what starts."""
        state = self.state
        change = merge(state.running, dataflow, self.now)
        # Before anything moves: where no host can take it, nothing has to be loaded anew.
        assignment = placed(state, self.ground, change, start)
        self.moved = True
        if start is Start.EARLIEST:
            state.earliest[public_id(dataflow.id)] = dataflow.tenant
        state.running.advance(change)
        self._apply(assignment)
        for source in state.read_by(dataflow.id):
            state.readers.setdefault(source, set()).add(dataflow.id)
        self.opened += [job for job, _ in assignment.opens]
        self.touched |= {home.job for _, home in assignment.places}
        self.added |= {task.instance: task for task in change.starts}
        self.reused += len(change.reuses)
        self.submitted.append(dataflow.id)
        self._touch_sinks(dataflow.id)
        return change

    def remove(self, dataflow: str) -> Change:
        """Unmerge a dataflow, and pause what nobody needs any more."""
        state = self.state
        self.moved = True
        self._touch_sinks(dataflow)
        for source in state.read_by(dataflow):
            state.readers[source].remove(dataflow)
            if not state.readers[source]:
                del state.readers[source]
        change = unmerge(state.running, dataflow)
        released = release(change.stops, state.jobs)
        self.touched |= {state.jobs.homes[instance].job for instance in released.pauses}
        self._apply(released)
        state.running.advance(change)
        self.closed += released.stops
        for task in change.stops:
            state.slots.pop(task.instance, None)
            state.moves.pop(task.instance, None)
            if self.added.pop(task.instance, None) is None:
                self.gone.add(task.instance)
        state.needed.pop(dataflow, None)
        state.draining.pop(dataflow, None)
        for sink in change.removed.sinks if change.removed else ():
            state.epochs.pop(Delivered(dataflow, sink), None)
        return change

    def plans(self) -> dict[JobId, Plan]:
        """Make the new plans, the state's from now on; a job whose plan would be as it was keeps that."""
        state = self.state
        for job in self.closed:
            if (last := state.plans.pop(job, None)) is not None:
                state.stopped[job] = last
        changing = sorted(self.touched - set(self.closed))
        for job in changing:
            self._forget_paused(job)
        planner = self.planner(state.jobs)
        made: dict[JobId, Plan] = {}
        for job in changing:
            before = state.plans.get(job)
            version = before.version + 1 if before else 1
            waiting = before.feeds if before and job not in self.taken else ()
            plan = replace(
                planner.plan(job, version=version, term=self.term, before=before),
                pace=self.ground.pace,
                feeds=(*waiting, *self.fed.get(job, ())),
            )
            if before is None or plan != replace(before, version=version, term=self.term):
                made[job] = state.plans[job] = plan
                if stands_apart(plan):
                    state.apart.add(job)
        for dataflow in self.submitted:
            instances = state.running.dataflow(dataflow).instances
            jobs = {state.jobs.homes[instance].job for instance in instances}
            state.needed[dataflow] = {job: state.plans[job].version for job in jobs}
        return made

    def planner(self, jobs: Jobs) -> Planner:
        """What makes plans of jobs as they are, or as they would be."""
        state = self.state
        return Planner(
            state.running,
            jobs,
            _Supplies(state.sources),
            state.epochs,
            state.slots,
            begins=state.begins,
            moves=state.moves,
        )

    def feed(self, feeds: Mapping[JobId, Sequence[Feed]]) -> None:
        """Have jobs take events again that tasks of theirs could not take."""
        self.moved = True
        self.fed = {job: tuple(each) for job, each in feeds.items()}
        self.touched |= feeds.keys()

    def feed_no_more(self, job: JobId) -> None:
        """A job has taken all that its plan feeds it."""
        self.moved = True
        self.taken.add(job)
        self.touched.add(job)

    def end(self, job: JobId) -> None:
        """Forget a job that was stopped."""
        self.moved = True
        del self.state.stopped[job]

    def know(self, source: Registered) -> None:
        """Take up a source, new or changed."""
        self.moved = True
        self.state.sources[source.source.name] = source

    def drain(self, dataflow: str) -> None:
        """Have a dataflow removed later."""
        self.moved = True
        self.state.draining[dataflow] = self.now.timestamp()

    def forget(self, source: str) -> None:
        """Let a source go that nothing reads any more."""
        self.moved = True
        del self.state.sources[source]

    def number_anew(self, epochs: Iterable[tuple[Delivered, int]]) -> None:
        """Say in which epochs sinks number their events."""
        self.state.epochs |= dict(epochs)

    def _apply(self, assignment: Assignment) -> None:
        homes = self.state.jobs.homes
        self.state.jobs = self.state.jobs.apply(assignment)
        homes_after = self.state.jobs.homes
        for bridge, _ in assignment.crossings:
            producer = homes.get(bridge.parent) or homes_after[bridge.parent]
            self.touched |= {producer.job, bridge.to}

    def _touch_sinks(self, dataflow: str) -> None:
        homes = self.state.jobs.homes
        self.touched |= {homes[instance].job for instance in self.state.running.produced(dataflow).values()}

    def _forget_paused(self, job: JobId) -> None:
        """Keep of a job's paused tasks what its next plan has: the newest of those with a slot, which no source has."""
        jobs, before = self.state.jobs, self.state.plans.get(job)
        placed = jobs.jobs[job]
        slots = {slot.instance for slot in before.slots} if before else frozenset()
        kept = frozenset(sorted(placed.paused & slots)[-MOST_PAUSED:])
        if kept != placed.paused:
            self.state.jobs = replace(jobs, jobs=jobs.jobs.insert(job, replace(placed, paused=kept)))


def placed(state: State, ground: Ground, change: Change, start: Start = Start.LATEST) -> Assignment:
    """Where what a change starts would run; in jobs of its own where it begins elsewhere than others."""
    return place(
        "launch" if start is Start.EARLIEST else ground.strategy,
        residue=change.residue,
        running=RunningGraph(tasks={task.instance: task for task in change.starts}),
        jobs=state.jobs,
        hosts=ground.hosts(),
        costs=Costs(pace=ground.pace, batch=BATCH, busy=dict.fromkeys(change.residue, BUSY)),
        apart=state.apart,
    )


class _Supplies(Mapping[str, Supplied]):
    """What feeds each source, looked up when asked: a plan has few of all that are registered."""

    def __init__(self, sources: Mapping[str, Registered]) -> None:
        self._sources = sources

    def __getitem__(self, name: str) -> Supplied:
        return self._sources[name].supplied

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)
