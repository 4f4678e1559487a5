"""Growing: what was done between two looks, by counters that begin anew whenever a host or a job is started.

What a counter had reached before the first look is not known to be new, so it does not count; what it reached after
that does, once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.host.cpu_meter import DRIVER, JVM, WORKER
from manager.observations.reports import HostSeen, JobSeen, Measured

BROKER = "broker"
CPU_PARTS = (DRIVER, JVM, WORKER, BROKER)
"""What CPU is taken by."""
SECOND = 1_000_000_000
"""In nanoseconds, in which everything is counted: whole numbers add up exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTaken:
    """What a broker's process has taken since it was started; made by whoever can see it."""

    pid: int
    began: str
    """Tells it from another process that gets its id."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """How far everything was counted at one look; made by `counters`."""

    at: float
    """In seconds of a clock that is never set."""
    since: float
    """When the first look was."""
    hosts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    jobs: Mapping[str, Measured] = field(default_factory=dict)
    broker: BrokerTaken | None = None
    """None where somebody else runs it, or it has not been seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What was done between two looks; made by `grown`. CPU is in nanoseconds."""

    seconds: float
    cpu: Mapping[str, int] = field(default_factory=dict)
    """Of each part; the broker is missing where it is not measured."""
    tasks: Mapping[int, int] = field(default_factory=dict)
    """Of each instance."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """How many each job did."""
    entered: Mapping[str, int] = field(default_factory=dict)
    """How many events of each raw stream came in."""


def counters(  # noqa: PLR0913 - what was known before, what is told now, by whom, and when
    before: Counters | None,
    at: float,
    hosts: Iterable[HostSeen],
    jobs: Mapping[str, JobSeen],
    *,
    there: Iterable[str],
    broker: BrokerTaken | None = None,
) -> Counters:
    """How far everything is counted now; `there` are the jobs that may yet tell something.

    Who is silent right now may go on where it was, so what it told last is kept.
    """
    kept = before.jobs if before is not None else {}
    told = {name: job.measured[-1] for name, job in jobs.items() if job.measured}
    return Counters(
        at=at,
        since=at if before is None else before.since,
        hosts={**(before.hosts if before is not None else {}), **{host.host: host.cpu for host in hosts if host.cpu}},
        jobs={name: found for name in there if (found := told.get(name) or kept.get(name)) is not None},
        broker=broker or (before.broker if before is not None else None),
    )


def grown(before: Counters, after: Counters) -> Grown:
    """What was done between two looks."""
    cpu, tasks, entered = Counter[str](), Counter[int](), dict[str, int]()
    for host, parts in after.hosts.items():
        cpu.update(_parts(before.hosts.get(host), parts))
    if after.broker is not None:
        cpu[BROKER] += _of_broker(before.broker, after.broker)
    batches: dict[str, int] = {}
    for job, last in after.jobs.items():
        base = _base(before.jobs.get(job), last, since=after.since)
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
    return Grown(
        seconds=after.at - before.at,
        cpu=dict(cpu),
        tasks={instance: taken for instance, taken in tasks.items() if taken},
        batches={job: done for job, done in batches.items() if done},
        entered={stream: came for stream, came in entered.items() if came},
    )


def _parts(before: Mapping[str, float] | None, after: Mapping[str, float]) -> dict[str, int]:
    if before is None:
        # How much of it is from before the first look nobody knows.
        before = after
    elif any(after.get(part, 0.0) < seconds for part, seconds in before.items()):
        before = {}
    found = Counter[str]()
    for part, seconds in after.items():
        # Whatever else a host has started it counts among its workers.
        found[part if part in CPU_PARTS else WORKER] += _nanoseconds(seconds) - _nanoseconds(before.get(part, 0.0))
    return dict(found)


def _of_broker(before: BrokerTaken | None, after: BrokerTaken) -> int:
    if before is None:
        return 0
    same = (before.pid, before.began) == (after.pid, after.began)
    return max(0, _nanoseconds(after.seconds) - (_nanoseconds(before.seconds) if same else 0))


def _base(before: Measured | None, last: Measured, *, since: float) -> Measured | None:
    """From which of its counts on a job's counts are new; None where that is not known."""
    if before is not None:
        # Batches are numbered on when it is started again, and everything else is counted anew.
        return before if before.run == last.run else Measured(run=last.run, batch=before.batch)
    began_meanwhile = last.age is not None and last.at - last.age >= since
    # The first batch of one that had been started before is not known.
    return Measured(run=last.run, batch=-1 if last.run <= 1 else last.batch) if began_meanwhile else None


def _nanoseconds(seconds: float) -> int:
    return round(seconds * SECOND)
