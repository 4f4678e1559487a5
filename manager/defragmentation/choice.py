"""The choice of an assignment: where tasks should run, given the costs measured here."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from engine.plan import Plan
from manager.committed.state import CommittedState
from manager.committer.draft import DecisionGround
from manager.defragmentation.calibration import (
    DISRUPTIONS_KEPT,
    MeasuredDisruption,
    Prices,
    batch_range,
    costs,
    disruptions,
    prices,
)
from manager.defragmentation.learnt_costs import LearntCosts, LearntCostStore
from manager.defragmentation.measurement import Moment, batch_seconds, batches, busy, moment, sample
from manager.defragmentation.trigger import HORIZON
from manager.observations.measured_costs import measured_costs
from manager.observations.reports import JobSeen, Observations
from manager.observations.shard_figures import group_events
from manager.planner import Supplied
from manager.transitions.move import Chosen, Ended
from merge import (
    Assignment,
    Costs,
    Fragmentation,
    Host,
    Instance,
    JobId,
    Jobs,
    MeasuredCosts,
    Region,
    Rescale,
    RunningGraph,
    Worth,
    consolidate,
    disruption,
    fragmentation,
    gain,
    in_quarantine,
    isolate,
    regions,
    rescaled,
    separated,
    worth,
)

MOST_TOGETHER = 2_000
"""Tasks that stand still at the same time at most, except that tasks cut together are never separated."""
WRITE_EVERY = 300.0
"""Seconds after which new samples are stored; later ones are lost if the manager dies."""


@dataclass(frozen=True)
class PlacementSnapshot:
    """The running tasks, their jobs and their measured costs at one moment; made by `Chooser.snapshot`."""

    running: RunningGraph
    jobs: Jobs
    standing: frozenset[JobId]
    """The jobs that stand elsewhere in their streams than others."""
    hosts: tuple[Host, ...]
    seen: Mapping[str, JobSeen]
    costs: Costs
    now: float
    quarantined: Mapping[Instance, str] = field(default_factory=dict)
    """The tasks in quarantine, each with the tenant in whose jobs it is to run."""
    own: Mapping[JobId, str] = field(default_factory=dict)
    """The jobs that are a tenant's own."""
    planned: bool = False
    """Whether planning chooses which tasks run together."""

    @property
    def apart(self) -> frozenset[JobId]:
        """The jobs that are left alone."""
        return self.standing.union(self.own)

    @property
    def consolidated(self) -> Assignment:
        """The assignment that would consolidate one region."""
        return self._next[1]

    @cached_property
    def isolated(self) -> Assignment | None:
        """The assignment that would relieve an overloaded job, if there is one."""
        measured = batch_seconds(self.jobs, self.seen, self.now)
        return isolate(self.running, self.jobs, self.hosts, self.costs, measured, apart=self.apart)

    @cached_property
    def separated(self) -> Assignment | None:
        """The assignment that would take tasks in quarantine out of a job of others, if there is one."""
        return separated(
            self.running,
            self.jobs,
            self.hosts,
            self.costs,
            quarantined=self.quarantined,
            own=self.own,
            apart=self.standing,
        )

    @property
    def rescaled(self) -> tuple[Rescale, ...]:
        """The jobs that should have another number of shards, or other key groups in them."""
        measured = batch_seconds(self.jobs, self.seen, self.now)
        groups = {job: group_events(self.seen[str(job)].measured, self.now) for job in measured}
        return rescaled(self.running, self.jobs, self.hosts, self.costs, measured, apart=self.apart, groups=groups)

    @property
    def fragmentation(self) -> Fragmentation:
        """The fragmentation of all jobs."""
        return fragmentation(self.running, self.jobs, self.hosts, self.costs, self.apart)

    @property
    def on_request(self) -> Chosen:
        """The assignment for a defragmentation on request: consolidation, or relief of an overloaded job.

        Consolidation splits an overloaded job too, but adds bridges, so then it is chosen only if it is worth it. If no
        job is overloaded, it is chosen even if it is not.
        """
        weighed = self.worth(HORIZON)
        if self.isolated is not None and not weighed.kept:
            return Chosen(self.isolated, "it was asked for, and a job is overloaded")
        return Chosen(self.consolidated, f"it was asked for. {weighed.says}")

    def worth(self, horizon: float) -> Worth:
        """Weigh the gain of the consolidation against its disruption over a horizon."""
        return self._worth(*self._next, horizon)

    @cached_property
    def _next(self) -> tuple[Region, Assignment]:
        """The first region worth consolidating, otherwise the first scattered one, with its assignment."""
        whole = Region(running=self.running, jobs=self.jobs, shared=frozenset(), hosts=self.hosts)
        found = whole, Assignment(base=self.jobs.version)
        for region in regions(self.running, self.jobs, self.hosts, self.costs, most=MOST_TOGETHER):
            target = consolidate(
                region.running,
                region.jobs,
                region.hosts,
                self.costs,
                self.apart,
                shared=region.shared,
                planned=self.planned,
            )
            if not target.places:
                continue
            weighed = self._worth(region, target, HORIZON)
            if weighed.kept:
                return region, target
            # Emptying a few of many jobs may open just as many new ones.
            if not found[1].places and (weighed.saved > 0.0 or region.running is self.running):
                found = region, target
        return found

    def _worth(self, region: Region, target: Assignment, horizon: float) -> Worth:
        rates = batches(region.jobs, self.seen, self.now)
        saved = gain(region.running, region.jobs, target, self.costs, rates)
        return worth(saved, disruption(region.jobs, target, self.costs), horizon)


class Chooser:
    """Learns costs, and chooses where tasks should run. Thread-safe."""

    def __init__(
        self,
        observations: Observations,
        store: LearntCostStore | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Learnt costs are stored every few minutes if there is a `store`."""
        self._observations = observations
        self._store = store
        self._clock = clock
        self._guard = threading.Lock()
        self._learnt = self._written = LearntCosts()
        self._written_at = -math.inf
        self._moments: dict[str, Moment] = {}
        self._measured = MeasuredCosts()

    def recall(self) -> None:
        """Load the stored costs, which another manager may have written; called when this manager begins to lead."""
        found = LearntCosts() if self._store is None else self._store.read()
        with self._guard:
            self._learnt = self._written = found

    @property
    def measured(self) -> MeasuredCosts:
        """The costs and rates of tasks as of the last look."""
        with self._guard:
            return self._measured

    def learn(self, plans: Mapping[JobId, Plan], sources: Mapping[str, Supplied] = MappingProxyType({})) -> None:
        """Learn from the latest reports, given the plans and sources; called by the leading manager."""
        seen = {str(job): report for job in plans if (report := self._observations.job(str(job))) is not None}
        measured = measured_costs(plans.values(), seen, sources, self._clock())
        with self._guard:
            self._measured = measured
        hosts = [host for host in self._observations.hosts() if host.alive]
        for host in hosts:
            # Where several are on one machine, one of them has measured its CPU.
            if host.cpu or not host.machine:
                now = moment(host, hosts, plans.values(), seen, self._clock())
                with self._guard:
                    self._moments[host.host], found = sample(self._moments.get(host.host), now)
                    if found is not None:
                        calibration = self._learnt.calibration.learn(found)
                        self._learnt = replace(self._learnt, calibration=calibration)
        self._save()

    def remember(self, ended: Ended) -> None:
        """Learn the costs of a move that has ended."""
        with self._guard:
            cost = MeasuredDisruption(jobs=ended.opened, interruption=ended.interruption)
            self._learnt = replace(self._learnt, past=(*self._learnt.past, cost)[-DISRUPTIONS_KEPT:])

    def _save(self) -> None:
        now = self._clock()
        with self._guard:
            learnt = self._learnt
            # The costs of a move are stored at once: they are rare, while samples come all the time.
            due = learnt.past != self._written.past or now - self._written_at >= WRITE_EVERY
        if self._store is not None and due and learnt != self._written:
            self._store.write(learnt)
            self._written, self._written_at = learnt, now

    def paid(self) -> tuple[Prices, tuple[float, float]]:
        """The prices on a host, and the range of a batch's price."""
        with self._guard:
            calibration = self._learnt.calibration
        return prices(calibration), batch_range(calibration)

    def on_request(self, state: CommittedState, ground: DecisionGround) -> Chosen:
        """Choose the assignment for a defragmentation on request."""
        return self.snapshot(state, ground).on_request

    def snapshot(self, state: CommittedState, ground: DecisionGround) -> PlacementSnapshot:
        """Copy what is needed of the state, which must not change meanwhile; the snapshot can be used afterwards."""
        now = self._clock()
        running, own = state.running, state.own_jobs(time.time())
        seen = {str(job): report for job in state.jobs.jobs if (report := self._observations.job(str(job))) is not None}
        with self._guard:
            paid, disturbs = prices(self._learnt.calibration), disruptions(self._learnt.past)
        return PlacementSnapshot(
            # The parts that only merging needs are left out: copying them would double the time.
            running=replace(running, tasks=dict(running.tasks), index={}, users={}, dataflows={}),
            jobs=state.jobs,
            standing=frozenset(state.apart),
            quarantined=in_quarantine(running, own) if own else {},
            own={job: tenant for tenant, jobs in own.items() for job in jobs},
            hosts=ground.offering(state),
            seen=seen,
            costs=costs(ground.pace, paid, disturbs, busy(running, state.jobs, seen, now)),
            now=now,
            planned=ground.strategy == "plan",
        )
