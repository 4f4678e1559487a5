"""What a defragmentation gains and costs, whether it is worth it, and the regimes in which it saves most.

A regime says what sharing, packing and defragmenting each save, by how much work a batch holds. Cores are batches times
the cost of one, and the work of the tasks. Sharing saves work, and the batches of jobs that it spares, at the price of
bridges. Packing saves batches and no work. Defragmenting saves the batches of jobs that sharing left scattered, and
their bridges. So the first counts where batches hold much work, and the others where they hold little. Regimes are pure
arithmetic and know no jobs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from merge.capacity import Costs
from merge.consolidation.defragmentation import forwarded, hops_of
from merge.jobs import Assignment, JobId, Jobs
from merge.running_graph import RunningGraph
from merge.tasks import Instance

LEAST = 1e-6
"""Seconds of work in a batch from which on a crossover is looked for, up to the pace."""
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Saves:
    """Cores that each of the three saves; below 0 where it costs more than it saves. Made by `Regime.saves`."""

    sharing: float
    packing: float
    defragmenting: float

    @property
    def most(self) -> str:
        """The one that saves most, by its name; empty where none saves anything.

        >>> Saves(sharing=0.1, packing=0.4, defragmenting=0.0).most
        'packing'
        """
        savings = {"sharing": self.sharing, "packing": self.packing, "defragmenting": self.defragmenting}
        name = max(savings, key=savings.__getitem__)
        return name if savings[name] > 0.0 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """The properties of what runs that decide which of the three saves most."""

    dataflows: float
    """Where nothing is shared or packed each has a job of its own. A float, since it may be a mean."""
    work: float
    """Cores that their tasks take, where each dataflow has its own."""
    shared: float
    """Cores that they take where equal ones are shared."""
    jobs: float
    """Jobs that run what is shared."""
    spared: float = 0.0
    """How many fewer those are than the dataflows, because of sharing alone."""
    bridges: float = 0.0
    pace: float
    """Seconds between two batches of a job."""
    batch: float
    """Seconds of CPU that a batch costs whatever it holds."""
    bridge: float
    """Cores that a bridge takes."""

    @property
    def per_batch(self) -> float:
        """Seconds of work in a batch of a dataflow's own job."""
        return self.work * self.pace / self.dataflows if self.dataflows else 0.0

    @property
    def alone(self) -> float:
        """Cores that the dataflows take in a job each, sharing nothing; without what the host takes."""
        return self.dataflows * self.batch / self.pace + self.work

    @property
    def saves(self) -> Saves:
        """The saving of each of the three."""
        a_job = self.batch / self.pace
        bridged = self.bridges * self.bridge
        return Saves(
            sharing=self.work - self.shared + self.spared * a_job - bridged,
            packing=max(0.0, self.dataflows - self._fewest(self.work)) * a_job,
            defragmenting=max(0.0, self.jobs - self._fewest(self.shared)) * a_job + bridged,
        )

    @property
    def crossover(self) -> float | None:
        """The seconds of work in a batch from which on sharing saves more than packing.

        None where it does not even where a batch holds as much as its pace, beyond which no job keeps up.
        """
        if self.at(self.pace).ahead <= 0.0:
            return None
        low, high = math.log(LEAST), math.log(self.pace)
        # What sharing is ahead grows with the work, so there is one place where it changes sides.
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.at(math.exp(middle)).ahead > 0.0 else (middle, high)
        return math.exp(high)

    def at(self, per_batch: float) -> "Regime":
        """The same dataflows with another amount of work in a batch: more events, or tasks that cost more."""
        times = per_batch / self.per_batch if self.per_batch else 0.0
        return replace(self, work=self.work * times, shared=self.shared * times)

    @property
    def ahead(self) -> float:
        """Cores that sharing saves more than packing does."""
        saves = self.saves
        return saves.sharing - saves.packing

    def _fewest(self, work: float) -> float:
        room = (self.pace / 2 - self.batch) / self.pace
        return max(1.0, math.ceil(work / room)) if room > 0.0 else self.dataflows


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The cores and hops of jobs before and after an assignment; made by `gain`."""

    cores_before: float
    """Cores for the batches of jobs, for tasks, bridges and paused tasks."""
    cores_after: float
    hops_before: int
    """The most bridges in a row."""
    hops_after: int

    @property
    def cores(self) -> float:
        """Cores that are saved; below 0 where more are taken."""
        return self.cores_before - self.cores_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """The cost of carrying out an assignment; made by `disruption`."""

    jobs: int
    """How many have to be started and warmed."""
    starting: float
    """Seconds of CPU for that."""
    tasks: int
    """How many move, and stand still meanwhile."""
    interruption: float
    """Seconds for which they do."""
    waiting: float
    """Seconds of CPU for what waits until then, and is caught up with beside the work that comes."""
    state: int
    """Bytes of state that move, as far as that is known."""
    moving: float
    """Seconds of CPU for that."""

    @property
    def cpu(self) -> float:
        """Seconds of CPU in all."""
        return self.starting + self.waiting + self.moving


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """The verdict on a defragmentation; made by `worth`."""

    kept: bool
    saved: float
    """Seconds of CPU over the horizon."""
    spent: float
    """Seconds of CPU for the disruption."""
    says: str
    """Both, in a sentence."""


def gain(
    running: RunningGraph,
    jobs: Jobs,
    assignment: Assignment,
    costs: Costs,
    batches: Mapping[JobId, float] = MappingProxyType({}),
) -> Gain:
    """The gain of an assignment that was computed from these jobs; every running task has a home.

    `batches` has how many a second each job does: one without events does fewer than its pace allows, which is what
    is assumed otherwise. A new job is taken to do as many as those together from which its tasks come, within its pace.
    """
    after = jobs.apply(assignment)
    rates = {job: min(batches.get(job, math.inf), 1 / costs.pace) for job in jobs.jobs}
    origins = {job: sorted({jobs.homes[task].job for task in after.jobs[job].active}) for job, _ in assignment.opens}
    rates_after = {job: rates[job] for job in after.jobs if job not in origins} | {
        job: min(sum(rates[origin] for origin in those), 1 / costs.pace) for job, those in origins.items()
    }
    return Gain(
        cores_before=_cores(running, jobs, costs, rates),
        cores_after=_cores(running, after, costs, rates_after),
        hops_before=hops_of(running, jobs),
        hops_after=hops_of(running, after),
    )


def disruption(
    jobs: Jobs, assignment: Assignment, costs: Costs, state: Mapping[Instance, int] = MappingProxyType({})
) -> Disruption:
    """The disruption by an assignment that was computed from these jobs; `state` has bytes, where known."""
    moved = [instance for instance, _ in assignment.places if instance in jobs.homes]
    held = sum(state.get(instance, 0) for instance in moved)
    interruption = costs.interruption if moved else 0.0
    return Disruption(
        jobs=len(assignment.opens),
        starting=len(assignment.opens) * costs.start,
        tasks=len(moved),
        interruption=interruption,
        waiting=sum(costs.busy[instance] for instance in moved) * interruption,
        state=held,
        moving=held * costs.moving,
    )


def worth(gain: Gain, disruption: Disruption, horizon: float) -> Worth:
    """Weigh the saving within so many seconds against the disruption."""
    saved = gain.cores * horizon
    kept = saved > disruption.cpu
    return Worth(
        kept=kept,
        saved=saved,
        spent=disruption.cpu,
        says=(
            f"It {'is' if kept else 'is not'} worth it: {gain.cores_before:.3f} cores become {gain.cores_after:.3f} and"
            f" {gain.hops_before} bridges in a row become {gain.hops_after}, which saves {saved:.1f} CPU seconds in"
            f" {horizon:.0f} s. Jobs to start: {disruption.jobs}, tasks to move: {disruption.tasks}, which costs"
            f" {disruption.cpu:.1f} CPU seconds and interrupts these for {disruption.interruption:.1f} s."
        ),
    )


def _cores(running: RunningGraph, jobs: Jobs, costs: Costs, rates: Mapping[JobId, float]) -> float:
    # In order, because a sum's last digit depends on it.
    work = sum(costs.busy[instance] for instance in sorted(running.tasks))
    batches = costs.batch * sum(rates[job] for job in sorted(rates))
    paused = costs.paused * sum(len(job.paused) for job in jobs.jobs.values())
    return batches + work + len(forwarded(running, jobs)) * costs.bridge + paused
