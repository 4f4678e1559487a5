"""The step: all that one submission, removal or replacement of a dataflow changes, decided at once and as data.

A decision merges and unmerges, estimates what starts, places it, and releases what stops. It changes nothing: its
caller advances the running graph by the step's `change`, and goes on with its `jobs`. What runs decides what starts,
estimates decide where, and a job stops only if nothing was placed there.
"""

from collections import ChainMap
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, TypeAlias

from dags import Dataflow
from merge.capacity import Costs
from merge.errors import TooManyStreams
from merge.grouping.problem import Image
from merge.jobs import Assignment, JobId, Jobs, release, trimmed
from merge.merger import merge, swap, unmerge
from merge.placement.hosts import Host
from merge.placement.strategies import place
from merge.running_graph import Change, RunningGraph
from merge.tasks import Instance, RunningTask, Submitted
from merge.work import ASSUMED_BUSY, MeasuredCosts, estimated, placed_busy

MOST_STREAMS = 5_000
"""The streams between jobs that one host may receive: at rest so many take it 0.04 cores."""
BATCH_SECONDS = 0.02
"""Seconds of CPU that a batch is assumed to cost, whatever it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """The wish to run a dataflow."""

    dataflow: Dataflow
    from_earliest: bool = False
    """Whether it begins at the earliest events that are kept; then it runs in jobs of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """The wish to stop a dataflow."""

    dataflow: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """The wish to run one dataflow in the place of another; what both have in common never stops."""

    dataflow: str
    by: Dataflow
    from_earliest: bool = False


Request: TypeAlias = Submit | Remove | Replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The circumstances of a decision, beside what runs: time, hosts, settings, and what was measured."""

    now: datetime
    hosts: tuple[Host, ...]
    images: tuple[Image, ...] = ()
    """Those that are registered, with hosts or without."""
    strategy: str = "pack"
    pace: float = 1.0
    """Seconds from one batch of a new job to the next."""
    apart: frozenset[JobId] = frozenset()
    """The jobs in which nothing is placed."""
    quarantined: Mapping[str, frozenset[JobId]] = field(default_factory=dict)
    """For each tenant in quarantine the jobs that are its own: what it starts is placed there, and nothing else is."""
    measured: MeasuredCosts = field(default_factory=MeasuredCosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A decision; made by `decide`."""

    change: Change
    """The change of the running graph."""
    placed: Assignment
    """The places of the tasks that start."""
    released: Assignment
    """The tasks and jobs that stop, after what starts was placed."""
    jobs: Jobs
    """The jobs afterwards."""
    touches: frozenset[JobId]
    """The jobs whose plans may change, those that open among them, and those that stop."""
    paces: Mapping[JobId, float]
    """The pace of each touched job that goes on or opens."""

    @property
    def opens(self) -> tuple[JobId, ...]:
        """The jobs that open."""
        return tuple(job for job, _ in self.placed.opens)


def decide(running: RunningGraph, jobs: Jobs, request: Request, conditions: Conditions) -> Step:
    """The step that a request leads to; `NoHost` is raised where no host can run what starts."""
    change = _change(running, request, conditions.now)
    placed = place(
        "launch" if not isinstance(request, Remove) and request.from_earliest else conditions.strategy,
        residue=change.residue,
        running=ChainMap({task.instance: task for task in change.starts}, running.tasks),
        jobs=jobs,
        hosts=conditions.hosts,
        costs=Costs(pace=conditions.pace, batch=BATCH_SECONDS, busy=_busy(running, change, request, conditions)),
        apart=_closed(jobs, request, conditions),
    )
    settled = settle(jobs, placed, change.stops)
    check_streams(jobs, settled)
    touches = settled.touches | _delivering(settled.between, change.submitted) | _delivering(jobs, change.removed)
    return Step(
        change=change,
        placed=placed,
        released=settled.released,
        jobs=settled.jobs,
        touches=touches,
        paces={job: conditions.pace for job in touches if job in settled.jobs.jobs},
    )


class Settled(NamedTuple):
    """The jobs after tasks were placed and others have stopped; made by `settle`."""

    between: Jobs
    """The jobs with both."""
    jobs: Jobs
    released: Assignment
    touches: frozenset[JobId]
    """The jobs whose tasks or streams change."""


def settle(jobs: Jobs, placed: Assignment, stops: tuple[RunningTask, ...]) -> Settled:
    """Place tasks, and after that stop those that nobody needs any more."""
    between = jobs.apply(placed)
    released = release(stops, between)
    pausing = {between.homes[instance].job for instance in released.pauses}
    after = trimmed(between.apply(released), pausing, stops)
    return Settled(between, after, released, _touched(jobs, between, placed) | _touched(between, after, released))


def _change(running: RunningGraph, request: Request, now: datetime) -> Change:
    match request:
        case Submit(dataflow=dataflow):
            return merge(running, dataflow, now)
        case Replace(dataflow=old, by=dataflow):
            return swap(running, old, dataflow, now)
        case Remove(dataflow=old):
            return unmerge(running, old)


def _closed(jobs: Jobs, request: Request, conditions: Conditions) -> Container[JobId]:
    """The jobs in which nothing of a request is placed."""
    match request:
        case Submit(dataflow=Dataflow(tenant=tenant)) | Replace(by=Dataflow(tenant=tenant)):
            if (own := conditions.quarantined.get(tenant)) is not None:
                return frozenset(jobs.jobs) - (own - conditions.apart)
    return conditions.apart.union(*conditions.quarantined.values()) if conditions.quarantined else conditions.apart


def _busy(running: RunningGraph, change: Change, request: Request, conditions: Conditions) -> Mapping[Instance, float]:
    """The share of a core that each task that starts will need."""
    if isinstance(request, Remove) or not conditions.measured.rates:
        return dict.fromkeys(change.residue, ASSUMED_BUSY)
    dataflow = request.dataflow if isinstance(request, Submit) else request.by
    runs = tuple(running.index.get(task.key) for task in dataflow.tasks)
    estimates = zip(runs, estimated(dataflow, runs, conditions.measured), strict=True)
    # New instances are numbered in the order of the tasks that start.
    starting = (placed_busy(estimate) for instance, estimate in estimates if instance is None)
    return dict(zip(change.residue, starting, strict=True))


def check_streams(before: Jobs, settled: Settled) -> None:
    """Raise TooManyStreams if a host would receive more streams than before, and too many."""
    after = settled.jobs
    for host in {after.jobs[job].host for job in settled.touches if job in after.jobs}:
        received, needed = _received(before, host), _received(after, host)
        if received < needed > MOST_STREAMS:
            raise TooManyStreams(needed - received, max(0, MOST_STREAMS - received))


def _received(jobs: Jobs, host: str) -> int:
    return sum(len(those) for job, those in jobs.entering.items() if jobs.jobs[job].host == host)


def _touched(before: Jobs, after: Jobs, assignment: Assignment) -> frozenset[JobId]:
    """The jobs between which streams begin or end, or in which tasks start or stop."""
    homes = before.homes
    crossed = (bridge for bridge, _ in assignment.crossings)
    producers = ((homes.get(bridge.parent) or after.homes[bridge.parent]).job for bridge in crossed)
    return frozenset(
        {home.job for _, home in assignment.places}
        | {homes[instance].job for instance in assignment.pauses}
        | {bridge.to for bridge, _ in assignment.crossings}
        | set(producers)
        | set(assignment.stops)
    )


def _delivering(jobs: Jobs, submitted: Submitted | None) -> frozenset[JobId]:
    if submitted is None:
        return frozenset()
    places = submitted.places
    return frozenset(jobs.homes[places[sink]].job for sink in submitted.sinks)
