"""The growth of counters between two looks, and which dataflows used which tasks, jobs and bridges meanwhile.

Counters start again with every start of a host or a job. What a counter had reached before the first look may be old,
so it does not count. All later growth counts once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from engine.host.cpu_meter import DRIVER, JVM, WORKER
from manager.kernel.registered_sources import Registered
from manager.kernel.state import CommittedState
from manager.observations.reports import HostSeen, JobSeen, Measured
from manager.planner import public_id
from merge import Instance, Jobs, RunningTask, Submitted

BROKER = "broker"
CPU_PARTS = (DRIVER, JVM, WORKER, BROKER)
"""The parts by which CPU is measured."""
SECOND = 1_000_000_000
"""A second in nanoseconds. CPU is counted in whole nanoseconds, which add up exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCpu:
    """The CPU that a broker's process has taken since its start; made by `manager.savings.meter.broker_cpu`."""

    pid: int
    began: str
    """Distinguishes it from a later process with the same id."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """All counters at one look; made by `counters`."""

    at: float
    """The time in seconds of a monotonic clock."""
    since: float
    """The time of the first look."""
    hosts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    jobs: Mapping[str, Measured] = field(default_factory=dict)
    broker: BrokerCpu | None = None
    """None if this manager does not run it, or has not seen it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterGrowth:
    """The growth between two looks, with CPU in nanoseconds; made by `growth`."""

    seconds: float
    cpu: Mapping[str, int] = field(default_factory=dict)
    """The CPU of each part, without the broker if it is not measured."""
    tasks: Mapping[int, int] = field(default_factory=dict)
    """The CPU of each instance."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """The batches of each job."""
    entered: Mapping[str, int] = field(default_factory=dict)
    """The events of each raw stream that entered."""


def counters(  # noqa: PLR0913 - the last counters, the new reports, and the time
    before: Counters | None,
    at: float,
    hosts: Iterable[HostSeen],
    jobs: Mapping[str, JobSeen],
    *,
    there: Iterable[str],
    broker: BrokerCpu | None = None,
) -> Counters:
    """Update the counters with the latest reports; `there` are the jobs that may still report.

    A host or job that is silent now may continue later, so its last counters are kept.
    """
    kept = before.jobs if before is not None else {}
    reported = {name: job.measured[-1] for name, job in jobs.items() if job.measured}
    return Counters(
        at=at,
        since=at if before is None else before.since,
        hosts={**(before.hosts if before is not None else {}), **{host.host: host.cpu for host in hosts if host.cpu}},
        jobs={name: last for name in there if (last := reported.get(name) or kept.get(name)) is not None},
        broker=broker or (before.broker if before is not None else None),
    )


def growth(before: Counters, after: Counters) -> CounterGrowth:
    """Return the growth from one look to the next."""
    cpu, tasks, entered = Counter[str](), Counter[int](), dict[str, int]()
    for host, parts in after.hosts.items():
        cpu.update(_parts(before.hosts.get(host), parts))
    if before.broker is not None and after.broker is not None:
        old, new = before.broker, after.broker
        restarted = (old.pid, old.began) != (new.pid, new.began)
        cpu[BROKER] += max(0, _nanoseconds(new.seconds) - (0 if restarted else _nanoseconds(old.seconds)))
    elif after.broker is not None:
        cpu[BROKER] = 0
    batches: dict[str, int] = {}
    for job, last in after.jobs.items():
        base = growth_base(before.jobs.get(job), last, since=after.since)
        if base is None:
            continue
        batches[job] = max(0, last.batch - base.batch)
        for instance, did in last.instances.items():
            known = base.instances.get(instance)
            tasks[instance] += max(0, did.cpu_ns - (known.cpu_ns if known else 0))
        for stream, came in last.streams.items():
            read = base.streams.get(stream)
            # Each job that reads a stream counts it.
            entered[stream] = max(entered.get(stream, 0), came.entered - (read.entered if read else 0))
    return CounterGrowth(
        seconds=after.at - before.at,
        cpu=dict(cpu),
        tasks={instance: taken for instance, taken in tasks.items() if taken},
        batches={job: done for job, done in batches.items() if done},
        entered={stream: came for stream, came in entered.items() if came},
    )


def _parts(before: Mapping[str, float] | None, after: Mapping[str, float]) -> dict[str, int]:
    if before is None:
        # An unknown part of it is from before the first look.
        before = after
    elif any(after.get(part, 0.0) < seconds for part, seconds in before.items()):
        before = {}
    grown = Counter[str]()
    for part, seconds in after.items():
        # Other processes of a host count as workers.
        grown[part if part in CPU_PARTS else WORKER] += _nanoseconds(seconds) - _nanoseconds(before.get(part, 0.0))
    return dict(grown)


def growth_base(before: Measured | None, last: Measured, *, since: float) -> Measured | None:
    """Return the counters from which a job's growth counts; None if they are not known."""
    if before is not None:
        # After a restart, batch numbers continue; all other counters start again.
        return before if before.run == last.run else Measured(run=last.run, batch=before.batch)
    began_meanwhile = last.age is not None and last.at - last.age >= since
    # After a restart, the number of the first batch is not known.
    return Measured(run=last.run, batch=-1 if last.run <= 1 else last.batch) if began_meanwhile else None


def _nanoseconds(seconds: float) -> int:
    return round(seconds * SECOND)


Users = tuple[str, ...]
"""Dataflows, by the ids that their tenants use, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of everything that runs; made by `usage_of`. The empty one is that of nothing."""

    tenants: Mapping[str, str] = field(default_factory=dict)
    """The tenant of each dataflow."""
    tasks: Mapping[int, Users] = field(default_factory=dict)
    """The users of each instance, without sources, which do no work."""
    jobs: Mapping[str, Users] = field(default_factory=dict)
    """The dataflows with tasks in each job."""
    homes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The jobs with tasks of each dataflow."""
    streams: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The raw streams that each dataflow reads."""
    bridges: tuple[Users, ...] = ()
    """The users of each bridge."""
    paused: int = 0
    """The number of paused tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSnapshot:
    """The parts of the state that `usage_of` needs, copied so that the state may change; made by `running_snapshot`."""

    dataflows: Mapping[str, Submitted]
    tasks: Mapping[Instance, RunningTask]
    sources: Mapping[str, Registered]
    jobs: Jobs


def running_snapshot(state: CommittedState) -> RunningSnapshot:
    """Copy the state quickly, while nothing is committed."""
    running = state.running
    return RunningSnapshot(
        dataflows=dict(running.dataflows), tasks=dict(running.tasks), sources=dict(state.sources), jobs=state.jobs
    )


def usage_of(running: RunningSnapshot) -> Usage:
    """Compute the usage."""
    tenants: dict[str, str] = {}
    tasks: dict[int, list[str]] = {}
    jobs: dict[str, list[str]] = {}
    homes: dict[str, frozenset[str]] = {}
    streams: dict[str, frozenset[str]] = {}
    for submitted in sorted(running.dataflows.values(), key=attrgetter("id")):
        dataflow = public_id(submitted.id)
        tenants[dataflow] = submitted.tenant
        working = [instance for instance in set(submitted.instances) if running.tasks[instance].inputs]
        for instance in working:
            tasks.setdefault(instance, []).append(dataflow)
        homes[dataflow] = frozenset(str(running.jobs.homes[instance].job) for instance in working)
        for job in homes[dataflow]:
            jobs.setdefault(job, []).append(dataflow)
        sources = (running.tasks[source].config["source"] for part in submitted.parts for source in part)
        streams[dataflow] = frozenset(running.sources[source].supplied.stream for source in sources)
    return Usage(
        tenants=tenants,
        tasks={instance: tuple(users) for instance, users in tasks.items()},
        jobs={job: tuple(users) for job, users in jobs.items()},
        homes=homes,
        streams=streams,
        bridges=tuple(
            tuple(user for user in tasks[bridge.parent] if str(bridge.to) in homes[user])
            for bridge in sorted(running.jobs.bridges)
            # Raw streams need no bridge: every job reads them from their spools.
            if running.tasks[bridge.parent].inputs
        ),
        paused=sum(len(job.paused) for job in running.jobs.jobs.values()),
    )


def usage_between(before: Usage, after: Usage) -> Usage:
    """Return the usage between two moments: that of the second, and that of the first for what has ended since."""
    names = ("tenants", "tasks", "jobs", "homes", "streams")
    both: dict[str, Any] = {name: {**getattr(before, name), **getattr(after, name)} for name in names}
    return replace(after, **both)
