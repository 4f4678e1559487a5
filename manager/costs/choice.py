"""The choice of an assignment: where tasks should run by the costs measured here, and when it is worth a move.

The trigger: when a defragmentation starts by itself, by schedule or by measurements. The leading manager calls
`watch` every few seconds with the state that the last call returned. Measurements must hold for a while during which
no dataflow comes or goes, otherwise jobs would be moved back and forth as the load changes. A defragmentation on
request bypasses all this; only its end is noticed, and a rest follows.
"""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

from bridge.machine import BackOff
from engine.plan import Plan
from manager.costs.measured import (
    DISRUPTIONS_KEPT,
    LearntCosts,
    LearntCostStore,
    MeasuredDisruption,
    Moment,
    Prices,
    batch_range,
    batch_seconds,
    batches,
    busy,
    costs,
    disruptions,
    moment,
    prices,
    sample,
)
from manager.kernel.draft import DecisionGround
from manager.kernel.state import CommittedState
from manager.kernel.transitions import Chosen, Ended
from manager.observations.figures import group_events, measured_costs
from manager.observations.reports import JobSeen, Observations
from manager.planner import Supplied
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

Target: TypeAlias = frozenset[frozenset[Instance]]
"""The instances that an assignment moves together, independent of the ids of the new jobs."""

HORIZON = 3_600.0
"""Seconds within which a defragmentation has to pay off; in an hour, other dataflows may run."""
HOLD = 60.0
"""Seconds for which it has to be worth it. Figures are means over a minute, so by then all of them are new."""
DEFRAGMENTATION_REST = 300.0
"""Seconds of rest after each, so that figures settle and outputs do not stand still again and again.

Doubled with each failure in a row, up to an hour, for any target.
"""
_RESTS = BackOff.doubling(DEFRAGMENTATION_REST, longest=HORIZON)
_BACK_OFF = BackOff.doubling(600.0, longest=86_400.0)
"""Seconds before a target that failed is tried again: in a day the cause may have been fixed."""


class Act(StrEnum):
    """The action to take now."""

    WAIT = "wait"
    CONSOLIDATE = "consolidate"
    ISOLATE = "isolate"
    SEPARATE = "separate"


BEGINS = (Act.CONSOLIDATE, Act.ISOLATE, Act.SEPARATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSituation:
    """The situation at one moment."""

    version: int
    """The version of the running graph."""
    scattered: Target | None = None
    """The instances that consolidation would move, if any."""
    worth: bool = False
    """Consolidation is worth it."""
    overload: Target | None = None
    """The instances that isolation would move, if any."""
    shared: Target | None = None
    """The instances in quarantine that separation would move out of jobs of others, if any."""
    underway: bool = False
    ended: bool | None = None
    """The outcome of a defragmentation that has ended since the last look; None if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerState:
    """The state from one look to the next. Start with the empty one."""

    version: int | None = None
    worth_since: float | None = None
    """The time since when it has been worth it without a break, at the same version."""
    overload_since: float | None = None
    """The time since when a job has been overloaded without a break, at the same version."""
    rest_until: float | None = None
    due: float | None = None
    """The time of the next one by schedule."""
    tried: Target | None = None
    """The target of the last one."""
    failures: int = 0
    """The number of failures in a row."""
    retry: float = 0.0
    """The time from which a failed target may be tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerDecision:
    """An action with its reason."""

    act: Act
    why: str


def target_of(assignment: Assignment | None) -> Target | None:
    """Return the target of an assignment; None if it moves nothing."""
    if assignment is None or not assignment.places:
        return None
    return frozenset(
        frozenset(instance for instance, home in assignment.places if home.job == job) for job, _ in assignment.opens
    )


def watch(
    state: TriggerState, look: TriggerSituation, now: float, *, every: float | None = None
) -> tuple[TriggerState, TriggerDecision]:
    """Decide what to do now, and return the state for the next call.

    `every` is the period of the schedule in seconds; None is no schedule.
    """
    state = _updated(state, look, now, every)
    decision = _decided(state, look, now)
    if decision.act in BEGINS:
        target = {Act.CONSOLIDATE: look.scattered, Act.ISOLATE: look.overload, Act.SEPARATE: look.shared}[decision.act]
        state = replace(state, tried=target, rest_until=now + DEFRAGMENTATION_REST)
    if every is not None and (decision.act in BEGINS or _is_due(state, look, now)):
        state = replace(state, due=now + every)
    return state, decision


def _updated(state: TriggerState, look: TriggerSituation, now: float, every: float | None) -> TriggerState:
    """Return the state with the news of a look, before the rules apply."""
    if look.ended is not None:
        failures = 0 if look.ended else state.failures + 1
        state = replace(
            state,
            failures=failures,
            # The first rest is for one that came off.
            rest_until=now + _RESTS.after(failures + 1),
            retry=now + _BACK_OFF.after(failures),
        )
    same = look.version == state.version
    return replace(
        state,
        version=look.version,
        worth_since=_since(state.worth_since if same else None, look.worth and look.scattered is not None, now),
        overload_since=_since(state.overload_since if same else None, look.overload is not None, now),
        due=None if every is None else now + every if state.due is None else min(state.due, now + every),
    )


def _since(before: float | None, holds: bool, now: float) -> float | None:  # noqa: FBT001 - the condition itself
    if not holds:
        return None
    return now if before is None else before


def _decided(state: TriggerState, look: TriggerSituation, now: float) -> TriggerDecision:
    """Decide by the first rule that applies."""
    may_separate, may_isolate, may_consolidate = (
        target is not None and not _fails(state, target, now) for target in (look.shared, look.overload, look.scattered)
    )
    is_overloaded = may_isolate and _held(state.overload_since, now)
    is_due = may_consolidate and look.worth and _is_due(state, look, now)
    has_failed = (look.overload or look.scattered) is not None and now < state.retry
    rules = (
        (look.underway, Act.WAIT, "one is under way"),
        # At once: others may suffer meanwhile.
        (may_separate, Act.SEPARATE, "tasks of a tenant in quarantine share a job with those of others"),
        (_rests(state, now), Act.WAIT, "it rests after the last one"),
        # A job that cannot keep up is more urgent than savings.
        (is_overloaded, Act.ISOLATE, f"a job has been overloaded for {HOLD:.0f} s"),
        # Even if it is worth it only since now.
        (is_due, Act.CONSOLIDATE, "it was due by schedule"),
        (may_consolidate and _held(state.worth_since, now), Act.CONSOLIDATE, f"it has been worth it for {HOLD:.0f} s"),
        (has_failed, Act.WAIT, "the last one failed"),
        (True, Act.WAIT, "nothing has been worth it for long enough"),
    )
    return next(TriggerDecision(act=act, why=why) for applies, act, why in rules if applies)


def _rests(state: TriggerState, now: float) -> bool:
    return state.rest_until is not None and now < state.rest_until


def _held(since: float | None, now: float) -> bool:
    return since is not None and now - since >= HOLD


def _fails(state: TriggerState, target: Target, now: float) -> bool:
    """Return true if this target failed last, and its back-off has not passed."""
    return state.failures > 0 and target == state.tried and now < state.retry


def _is_due(state: TriggerState, look: TriggerSituation, now: float) -> bool:
    """Return true if the schedule is due now, even if there is nothing to consolidate."""
    return state.due is not None and now >= state.due and not _rests(state, now) and not look.underway


MOST_TOGETHER = 2_000
"""Tasks that stand still at the same time at most, except that tasks cut together are never separated."""
WRITE_EVERY = 300.0
"""Seconds after which new samples are stored; later ones are lost if the manager dies."""


@dataclass(frozen=True)
class PlacementSnapshot:
    """The running tasks, their jobs and their measured costs at one moment."""

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
        best = whole, Assignment(base=self.jobs.version)
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
            if not best[1].places and (weighed.saved > 0.0 or region.running is self.running):
                best = region, target
        return best

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
        learnt = LearntCosts() if self._store is None else self._store.read()
        with self._guard:
            self._learnt = self._written = learnt

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
                    self._moments[host.host], sampled = sample(self._moments.get(host.host), now)
                    if sampled is not None:
                        calibration = self._learnt.calibration.learn(sampled)
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
