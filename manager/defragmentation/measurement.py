"""Measurements of hosts, jobs and tasks: samples between two moments, and rates per second."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.plan import Plan, SlotState
from engine.supply import Bridged
from manager.observations.figures import figures_of, per_second, stretch
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured
from merge import ASSUMED_BUSY, Instance, JobId, Jobs, RunningGraph

SHORTEST_SAMPLE = 60.0
"""The least seconds that a sample covers: a host measures its CPU every five, at a time that it does not report."""
_NOTHING = InstanceMeasured()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The counters of a host and its jobs at one moment; made by `moment`."""

    at: float
    """The time in seconds of a monotonic clock."""
    cpu: Mapping[str, float]
    """Seconds of CPU of each of its processes since their start."""
    jobs: Mapping[str, Measured]
    bridges: int
    """Bridges into its jobs."""
    paused: int
    """Paused tasks in its jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """The work of a host between two moments; made by `sample`."""

    seconds: float
    cpu: float
    """Seconds of CPU that its processes took, without its tasks."""
    batches: int
    bridges: float
    """The mean number."""
    paused: float
    """The mean number."""


def moment(
    host: HostSeen, hosts: Iterable[HostSeen], plans: Iterable[Plan], seen: Mapping[str, JobSeen], at: float
) -> Moment:
    """Return the counters of a host at the time of its status, with these plans in its jobs.

    Its processes run the jobs of all `hosts` of its machine.
    """
    together = {host.host, *(each.host for each in hosts if each.machine and each.machine == host.machine)}
    there = [plan for plan in plans if plan.host in together]
    return Moment(
        at=at,
        cpu=host.cpu,
        jobs={plan.job: job.measured[-1] for plan in there if (job := seen.get(plan.job)) is not None and job.measured},
        bridges=sum(isinstance(ingress.supply, Bridged) for plan in there for ingress in plan.ingress),
        paused=sum(slot.state is SlotState.PAUSED for plan in there for slot in plan.slots),
    )


def sample(before: Moment | None, after: Moment) -> tuple[Moment, HostSample | None]:
    """Return the moment to compare with next time, and the sample between the two moments, if there is one.

    There is none yet if they are too close together. There is none at all if something was started or stopped in
    between: that takes CPU of its own, and counters start again.
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
        # Before its first batch, a job's batch number is not known.
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
    """Return the load of each running task in cores, from the CPU that it took in the last minute.

    A source does no work. The load is assumed, as when tasks are placed, if a job has not reported enough yet.
    """
    # Once for each job, because there are many more tasks.
    over = {
        job: stretch(report.measured, now)
        for job in jobs.jobs
        if (report := seen.get(str(job))) is not None and len(report.measured) > 1
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
    """Return the batches per second of each job, as far as they are known."""
    rates = {
        job: per_second(report.measured, lambda base, last: last.batch - base.batch, now)
        for job in jobs.jobs
        # The first report after a restart has no batch number.
        if (report := seen.get(str(job))) is not None and all(each.batch >= 0 for each in report.measured)
    }
    return {job: rate for job, rate in rates.items() if rate is not None}


def batch_seconds(jobs: Jobs, seen: Mapping[str, JobSeen], now: float) -> dict[JobId, float]:
    """Return the median duration of the latest batches of each job, as far as it is known."""
    found = {
        job: figures_of(report.measured, now).batch_seconds_p50
        for job in jobs.jobs
        if (report := seen.get(str(job))) is not None
    }
    return {job: seconds for job, seconds in found.items() if seconds is not None}


def _cpu(base: Measured, last: Measured, instance: int) -> int:
    """Return the nanoseconds of CPU that an instance took between two moments."""
    after, before = last.instances.get(instance, _NOTHING), base.instances.get(instance, _NOTHING)
    return max(0, after.cpu_ns - before.cpu_ns)
