"""Measuring: what a host did from one moment to another, and what each job and task does in a second."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.plan import Plan, SlotState
from engine.supply import Bridged
from manager.observations.figures import figures_of, per_second, stretch
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured
from merge import ASSUMED_BUSY, Instance, JobId, Jobs, RunningGraph

SHORTEST_SAMPLE = 60.0
"""Seconds between the moments of a sample at least: a host measures its CPU every five, and does not say just when."""
_NOTHING = InstanceMeasured()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a host and its jobs had done by one moment; made by `moment`."""

    at: float
    """In seconds of a clock that is never set."""
    cpu: Mapping[str, float]
    """Seconds for each part of its processes, since that began."""
    jobs: Mapping[str, Measured]
    bridges: int
    """How many lead into its jobs."""
    paused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """What a host did between two moments; made by `sample`."""

    seconds: float
    cpu: float
    """Seconds of CPU that its processes took, without what its tasks did."""
    batches: int
    bridges: float
    """Means, like the next."""
    paused: float


def moment(host: HostSeen, plans: Iterable[Plan], seen: Mapping[str, JobSeen], at: float) -> Moment:
    """What a host had done by the time at which its status was heard, with these plans in its jobs."""
    there = [plan for plan in plans if plan.host == host.host]
    return Moment(
        at=at,
        cpu=host.cpu,
        jobs={plan.job: job.measured[-1] for plan in there if (job := seen.get(plan.job)) is not None and job.measured},
        bridges=sum(isinstance(ingress.supply, Bridged) for plan in there for ingress in plan.ingress),
        paused=sum(slot.state is SlotState.PAUSED for plan in there for slot in plan.slots),
    )


def sample(before: Moment | None, after: Moment) -> tuple[Moment, HostSample | None]:
    """The moment with which to ask again later, and what was done between these two.

    There is no sample yet where they are too close to each other, and none at all where something was started or
    stopped between them: that takes CPU of its own, and counts begin anew.
    """
    if before is None or not _comparable(before, after):
        return after, None
    if after.at - before.at < SHORTEST_SAMPLE:
        return before, None
    return after, _between(before, after)


def _comparable(before: Moment, after: Moment) -> bool:
    runs = {job: measured.run for job, measured in before.jobs.items()}
    return (
        bool(before.cpu)
        and runs == {job: measured.run for job, measured in after.jobs.items()}
        # The number of a job's first batch is not known before it.
        and all(measured.batch >= 0 for measured in before.jobs.values())
        and all(after.cpu.get(part, 0.0) >= taken for part, taken in before.cpu.items())
    )


def _between(before: Moment, after: Moment) -> HostSample:
    cpu = sum(after.cpu.values()) - sum(before.cpu.values())
    tasks = sum(
        _cpu(before.jobs[job], measured, instance)
        for job, measured in after.jobs.items()
        for instance in measured.instances
    )
    return HostSample(
        seconds=after.at - before.at,
        cpu=max(0.0, cpu - tasks / 1e9),
        batches=sum(measured.batch - before.jobs[job].batch for job, measured in after.jobs.items()),
        bridges=(before.bridges + after.bridges) / 2,
        paused=(before.paused + after.paused) / 2,
    )


def busy(running: RunningGraph, jobs: Jobs, seen: Mapping[str, JobSeen], now: float) -> dict[Instance, float]:
    """For each running task the part of a second that it works in a second, by the CPU that it took in the last minute.

    A source does nothing itself. Where a job has told too little yet it is assumed, as when its tasks were placed.
    """
    # Once for each job: of tasks there are many times more.
    over = {
        job: stretch(told.measured, now)
        for job in jobs.jobs
        if (told := seen.get(str(job))) is not None and len(told.measured) > 1
    }
    found: dict[Instance, float] = {}
    for instance, task in running.tasks.items():
        if not task.inputs:
            found[instance] = 0.0
        elif (known := over.get(jobs.homes[instance].job)) is None:
            found[instance] = ASSUMED_BUSY
        else:
            found[instance] = _cpu(known.base, known.last, instance) / known.seconds / 1e9
    return found


def batches(jobs: Jobs, seen: Mapping[str, JobSeen], now: float) -> dict[JobId, float]:
    """How many batches a second each job does, of those of which that is known."""
    rates = {
        job: per_second(told.measured, lambda base, last: last.batch - base.batch, now)
        for job in jobs.jobs
        # What one that was started again had done before is not told of its start.
        if (told := seen.get(str(job))) is not None and all(each.batch >= 0 for each in told.measured)
    }
    return {job: rate for job, rate in rates.items() if rate is not None}


def batch_seconds(jobs: Jobs, seen: Mapping[str, JobSeen], now: float) -> dict[JobId, float]:
    """How long the latest batches of each job took, the middle one, of those of which that is known."""
    found = {
        job: figures_of(told.measured, now).batch_seconds_p50
        for job in jobs.jobs
        if (told := seen.get(str(job))) is not None
    }
    return {job: seconds for job, seconds in found.items() if seconds is not None}


def _cpu(base: Measured, last: Measured, instance: int) -> int:
    """Nanoseconds that an instance took from one moment of a job's run to another."""
    after, before = last.instances.get(instance, _NOTHING), base.instances.get(instance, _NOTHING)
    return max(0, after.cpu_ns - before.cpu_ns)
