"""Choosing: where tasks should run, by what things were measured to cost here."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from engine.plan import Plan
from manager.committed.state import State
from manager.committer.draft import DecisionGround
from manager.defragmentation.calibration import (
    REMEMBERED,
    Disrupted,
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
from manager.planner import Supplied
from manager.transitions.move import Chosen, Ended
from merge import (
    Assignment,
    Costs,
    Fragmentation,
    JobId,
    Jobs,
    MeasuredCosts,
    Region,
    RunningGraph,
    Worth,
    consolidate,
    disruption,
    fragmentation,
    gain,
    isolate,
    regions,
    worth,
)

MOST_TOGETHER = 2_000
"""Tasks that stand still at the same time at most, but for those that are cut together however many they are."""
WRITING = 300.0
"""Seconds after which samples are written down: so few are lost where a manager dies."""


@dataclass(frozen=True)
class Picture:
    """What runs where at one moment, and what was measured of it; made by `Chooser.picture`."""

    running: RunningGraph
    jobs: Jobs
    apart: frozenset[JobId]
    ground: DecisionGround
    seen: Mapping[str, JobSeen]
    costs: Costs
    now: float

    @property
    def consolidated(self) -> Assignment:
        """Where tasks should run, of those that are to stand still together now."""
        return self._next[1]

    @cached_property
    def isolated(self) -> Assignment | None:
        """What should leave a job that is overloaded, if there is one."""
        measured = batch_seconds(self.jobs, self.seen, self.now)
        return isolate(self.running, self.jobs, self.ground.hosts(), self.costs, measured, apart=self.apart)

    @property
    def fragmentation(self) -> Fragmentation:
        """How scattered all of it is."""
        return fragmentation(self.running, self.jobs, self.ground.hosts(), self.costs, self.apart)

    def worth(self, horizon: float) -> Worth:
        """Whether it is worth it to consolidate."""
        return self._worth(*self._next, horizon)

    @cached_property
    def _next(self) -> tuple[Region, Assignment]:
        """The first region that is worth it, else the first that is scattered, with where its tasks should be."""
        hosts = self.ground.hosts()
        whole = Region(running=self.running, jobs=self.jobs, shared=frozenset(), hosts=hosts)
        found = whole, Assignment(base=self.jobs.version)
        for region in regions(self.running, self.jobs, hosts, self.costs, most=MOST_TOGETHER):
            target = consolidate(
                region.running, region.jobs, region.hosts, self.costs, self.apart, shared=region.shared
            )
            if not target.places:
                continue
            weighed = self._worth(region, target, HORIZON)
            if weighed.kept:
                return region, target
            # To empty some jobs of many may need as many others.
            if not found[1].places and (weighed.saved > 0.0 or region.running is self.running):
                found = region, target
        return found

    def _worth(self, region: Region, target: Assignment, horizon: float) -> Worth:
        rates = batches(region.jobs, self.seen, self.now)
        saved = gain(region.running, region.jobs, target, self.costs, rates)
        return worth(saved, disruption(region.jobs, target, self.costs), horizon)


class Chooser:
    """Learns what things cost, and says where tasks should run; any thread may call it."""

    def __init__(
        self, seeing: Observations, notes: LearntCostStore | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """What it learns it writes into the notes now and then, if there are any."""
        self._seeing = seeing
        self._notes = notes
        self._clock = clock
        self._guard = threading.Lock()
        self._learnt = self._written = LearntCosts()
        self._written_at = -math.inf
        self._moments: dict[str, Moment] = {}
        self._measured = MeasuredCosts()

    def recall(self) -> None:
        """Know what is in the notes, which another manager may have written; for whoever comes to lead."""
        found = LearntCosts() if self._notes is None else self._notes.read()
        with self._guard:
            self._learnt = self._written = found

    @property
    def measured(self) -> MeasuredCosts:
        """The costs and rates of tasks as of the last look."""
        with self._guard:
            return self._measured

    def learn(self, plans: Mapping[JobId, Plan], sources: Mapping[str, Supplied] = MappingProxyType({})) -> None:
        """Look at what the hosts and their jobs have done, with these plans and sources; for the leader."""
        seen = {str(job): told for job in plans if (told := self._seeing.job(str(job))) is not None}
        measured = measured_costs(plans.values(), seen, sources, self._clock())
        with self._guard:
            self._measured = measured
        for host in self._seeing.hosts():
            if host.alive:
                now = moment(host, plans.values(), seen, self._clock())
                with self._guard:
                    self._moments[host.host], found = sample(self._moments.get(host.host), now)
                    if found is not None:
                        calibration = self._learnt.calibration.learn(found)
                        self._learnt = replace(self._learnt, calibration=calibration)
        self._write_down()

    def remember(self, ended: Ended) -> None:
        """A move is over, and what it took is known."""
        with self._guard:
            told = Disrupted(jobs=ended.opened, interruption=ended.interruption)
            self._learnt = replace(self._learnt, past=(*self._learnt.past, told)[-REMEMBERED:])

    def _write_down(self) -> None:
        now = self._clock()
        with self._guard:
            learnt = self._learnt
            # What one move did is told once, and samples come all the time.
            due = learnt.past != self._written.past or now - self._written_at >= WRITING
        if self._notes is not None and due and learnt != self._written:
            self._notes.write(learnt)
            self._written, self._written_at = learnt, now

    def paid(self) -> tuple[Prices, tuple[float, float]]:
        """What things cost on a host, and between which seconds a batch does."""
        with self._guard:
            calibration = self._learnt.calibration
        return prices(calibration), batch_range(calibration)

    def asked_for(self, state: State, ground: DecisionGround) -> Chosen:
        """What to do where somebody asks for it: to consolidate, or to help a job that is overloaded.

        Consolidation splits such a job as well, but at the cost of more bridges, so only what it saves speaks for it.
        Where no job is overloaded it is done whatever it is worth.
        """
        picture = self.picture(state, ground)
        weighed = picture.worth(HORIZON)
        if picture.isolated is not None and not weighed.kept:
            return Chosen(picture.isolated, "it was asked for, and a job is overloaded")
        return Chosen(picture.consolidated, f"it was asked for. {weighed.says}")

    def picture(self, state: State, ground: DecisionGround) -> Picture:
        """What runs where; of a state that nobody changes meanwhile, to be looked at when that is over as well."""
        now = self._clock()
        running = state.running
        seen = {str(job): told for job in state.jobs.jobs if (told := self._seeing.job(str(job))) is not None}
        with self._guard:
            paid, disturbs = prices(self._learnt.calibration), disruptions(self._learnt.past)
        return Picture(
            # What only merging needs would take as long to copy as all the rest.
            running=replace(running, tasks=dict(running.tasks), index={}, users={}, dataflows={}),
            jobs=state.jobs,
            apart=frozenset(state.apart),
            ground=ground,
            seen=seen,
            costs=costs(ground.pace, paid, disturbs, busy(running, state.jobs, seen, now)),
            now=now,
        )
