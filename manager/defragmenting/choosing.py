"""Choosing: where tasks should run, by what things were measured to cost here."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from engine.plan import Plan
from manager.committing.draft import Ground
from manager.committing.moving import Chosen, Ended
from manager.committing.seen import JobSeen, Seeing
from manager.committing.state import State
from manager.defragmenting.calibrating import (
    REMEMBERED,
    Calibration,
    Disrupted,
    costs,
    disruptions,
    prices,
)
from manager.defragmenting.measuring import Moment, batch_seconds, batches, busy, moment, sample
from manager.defragmenting.watching import HORIZON
from merge import (
    Assignment,
    Costs,
    Fragmentation,
    JobId,
    Jobs,
    RunningGraph,
    Worth,
    consolidate,
    disruption,
    fragmentation,
    gain,
    isolate,
    worth,
)


@dataclass(frozen=True)
class Picture:
    """What runs where at one moment, and what was measured of it; made by `Chooser.picture`."""

    running: RunningGraph
    jobs: Jobs
    apart: frozenset[JobId]
    ground: Ground
    seen: Mapping[str, JobSeen]
    costs: Costs
    now: float

    @cached_property
    def consolidated(self) -> Assignment:
        """Where all tasks should run."""
        return consolidate(self.running, self.jobs, self.ground.hosts(), self.costs, self.apart)

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
        rates = batches(self.jobs, self.seen, self.now)
        saved = gain(self.running, self.jobs, self.consolidated, self.costs, rates)
        return worth(saved, disruption(self.jobs, self.consolidated, self.costs), horizon)


class Chooser:
    """Learns what things cost, and says where tasks should run; any thread may call it."""

    def __init__(self, seeing: Seeing, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seeing = seeing
        self._clock = clock
        self._guard = threading.Lock()
        self._calibration = Calibration()
        self._moments: dict[str, Moment] = {}
        self._past: tuple[Disrupted, ...] = ()

    def learn(self, plans: Mapping[JobId, Plan]) -> None:
        """Look at what the hosts and their jobs have done, with these plans."""
        seen = {str(job): told for job in plans if (told := self._seeing.job(str(job))) is not None}
        for host in self._seeing.hosts():
            if host.alive:
                now = moment(host, plans.values(), seen, self._clock())
                with self._guard:
                    self._moments[host.host], found = sample(self._moments.get(host.host), now)
                    self._calibration = self._calibration if found is None else self._calibration.learn(found)

    def remember(self, ended: Ended) -> None:
        """A move is over, and what it took is known."""
        with self._guard:
            told = Disrupted(jobs=ended.opened, interruption=ended.interruption)
            self._past = (*self._past, told)[-REMEMBERED:]

    def asked_for(self, state: State, ground: Ground) -> Chosen:
        """What to do where somebody asks for it, whatever it is worth."""
        picture = self.picture(state, ground)
        return Chosen(picture.consolidated, f"it was asked for. {picture.worth(HORIZON).says}")

    def picture(self, state: State, ground: Ground) -> Picture:
        """What runs where; of a state that nobody changes meanwhile, to be looked at when that is over as well."""
        now = self._clock()
        running = state.running
        seen = {str(job): told for job in state.jobs.jobs if (told := self._seeing.job(str(job))) is not None}
        with self._guard:
            paid, disturbs = prices(self._calibration), disruptions(self._past)
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
