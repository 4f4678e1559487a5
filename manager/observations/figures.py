"""Figures: rates, lags, loads and costs of jobs, tasks and hosts, computed from what hosts report.

Counters start again with each start of a job, so only those of one start are compared. Samples of the last minute are
kept, and the figures are means over that minute.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from braid_client.answers.jobs import JobFigures, RunningTaskFigures, ShardFigures
from dags.dataflow import GROUPS
from engine.plan import Plan, Rated, Supply, Timed
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, Observations
from manager.planner import Supplied
from merge import BATCH_SECONDS, Host, Instance, JobId, MeasuredCosts, RunningGraph

_WINDOW = 60.0
"""Seconds that a mean covers."""
SPACING = 5.0
"""Seconds between two samples that are kept. An idle job is silent for as long."""
_NO_WORK = InstanceMeasured()


def remembered(before: Sequence[Measured], newest: Measured) -> tuple[Measured, ...]:
    """Add the newest sample and drop those before the window, or of an earlier start."""
    kept = [sample for sample in before if sample.run == newest.run and sample.at <= newest.at]
    if not kept and newest.age is not None and newest.age <= _WINDOW:
        # At its start the job had done nothing.
        kept = [Measured(at=newest.at - newest.age, run=newest.run)]
    # One older sample stays: it holds the counters at the beginning of the window.
    while len(kept) > 1 and kept[1].at <= newest.at - _WINDOW:
        del kept[0]
    if len(kept) > 1 and kept[-1].at - kept[-2].at < SPACING:
        del kept[-1]
    return (*kept, newest)


class Stretch(NamedTuple):
    """The two samples that a mean is taken between; made by `stretch`."""

    base: Measured
    last: Measured
    seconds: float


def stretch(measured: Sequence[Measured], now: float) -> Stretch | None:
    """Choose the two samples to take means between; None if there is only one."""
    if not measured:
        return None
    last, since = measured[-1], now - _WINDOW
    base = next((sample for sample in reversed(measured) if sample.at <= since), measured[0])
    seconds = max(last.at, now - SPACING) - base.at
    return Stretch(base, last, seconds) if seconds > 0 else None


def per_second(measured: Sequence[Measured], grown: Callable[[Measured, Measured], float], now: float) -> float | None:
    """The mean growth per second between two samples; None if there is only one."""
    over = stretch(measured, now)
    return None if over is None else grown(over.base, over.last) / over.seconds


def figures_of(measured: Sequence[Measured], now: float) -> JobFigures:
    """The performance of a job, computed from its samples."""
    if not measured:
        return JobFigures()
    last = measured[-1]
    # Once a job is silent, its percentiles are out of date.
    recent = last.at > now - _WINDOW
    times, latencies = (last.batch_seconds, last.latency_seconds) if recent else ({}, {})
    return JobFigures(
        batch_seconds_p50=times.get("p50"),
        batch_seconds_p99=times.get("p99"),
        events_in_per_second=rounded(per_second(measured, _entered, now)),
        events_out_per_second=rounded(per_second(measured, lambda base, last: last.left - base.left, now)),
        lag_events=sum(stream.lag_events for stream in last.streams.values()),
        lag_seconds=max((stream.lag_seconds for stream in last.streams.values()), default=0.0),
        latency_seconds_p50=latencies.get("p50"),
        latency_seconds_p99=latencies.get("p99"),
    )


def running_task_figures(measured: Sequence[Measured], instance: int, now: float) -> RunningTaskFigures:
    """What a task does, computed from the samples of its job; zeros if they say nothing of it."""

    def rate(count: Callable[[InstanceMeasured], int]) -> float | None:
        return instance_rate(measured, instance, count, now)

    cpu = rate(lambda did: did.cpu_ns)
    return RunningTaskFigures(
        cores=None if cpu is None else round(cpu / 1e9, 6),
        events_in_per_second=rounded(rate(lambda did: did.taken)),
        events_out_per_second=rounded(rate(lambda did: did.emitted)),
    )


def instance_rate(
    measured: Sequence[Measured], instance: int, count: Callable[[InstanceMeasured], int], now: float
) -> float | None:
    """The mean growth per second of a counter of an instance; None if there is only one sample."""

    def grown(base: Measured, last: Measured) -> int:
        before, after = (count(sample.instances.get(instance, _NO_WORK)) for sample in (base, last))
        return max(0, after - before)

    return per_second(measured, grown, now)


def output_latency(measured: Sequence[Measured], dataflow: str, sink: str, now: float) -> Mapping[str, float]:
    """The percentiles of a dataflow's output, from the samples of the job that delivers it; empty if not known."""
    if not measured or measured[-1].at <= now - _WINDOW:
        return {}
    return measured[-1].outputs.get(dataflow, {}).get(sink, {})


def stream_rate(measured: Sequence[Measured], stream: str, now: float) -> float | None:
    """The events of a stream that a job takes per second; None if not known."""
    if not measured or stream not in measured[-1].streams:
        return None
    return per_second(measured, lambda base, last: _entered_by(base, last, stream), now)


def _entered(base: Measured, last: Measured) -> int:
    return sum(_entered_by(base, last, stream) for stream in last.streams)


def _entered_by(base: Measured, last: Measured, stream: str) -> int:
    before = base.streams.get(stream)
    return last.streams[stream].entered - (before.entered if before else 0)


def rounded(value: float | None) -> float | None:
    """A figure to three decimals, if it is known."""
    return None if value is None else round(value, 3)


def shard_figures(measured: Sequence[Measured], shards: int, now: float) -> ShardFigures:
    """The load of so many shards."""
    over = stretch(measured, now)
    if shards == 1 or over is None or not over.last.shards:
        return ShardFigures()
    taken = (over.last.shards.get(shard, 0) - over.base.shards.get(shard, 0) for shard in range(shards))
    cores = tuple(round(nanoseconds / over.seconds / 1e9, 3) for nanoseconds in taken)
    events = group_events(measured, now)
    most = max(events, default=0)
    if most * shards <= sum(events):
        return ShardFigures(shard_cores=cores)
    return ShardFigures(shard_cores=cores, hot_group=events.index(most), hot_group_part=round(most / sum(events), 3))


def group_events(measured: Sequence[Measured], now: float) -> tuple[int, ...]:
    """The events of each key group; empty if not known."""
    over = stretch(measured, now)
    if over is None or not over.last.groups:
        return ()
    return tuple(over.last.groups.get(group, 0) - over.base.groups.get(group, 0) for group in range(GROUPS))


def host_loads(jobs: Iterable[JobSeen], now: float) -> dict[str, float]:
    """The load of each host whose jobs have reported; of a job that does not report any more nothing counts."""
    loads: dict[str, float] = {}
    for job in sorted(jobs, key=lambda job: job.job):
        if (tasks := per_second(job.measured, _task_seconds, now)) is not None:
            # Before its first batch, a job's batch number is not known.
            numbered = [measured for measured in job.measured if measured.batch >= 0]
            batches = per_second(numbered, lambda base, last: last.batch - base.batch, now) or 0.0
            loads[job.host] = loads.get(job.host, 0.0) + max(0.0, tasks) + max(0.0, batches) * BATCH_SECONDS
    return loads


def needed_cores(jobs: Iterable[JobSeen], behind: Collection[str], now: float, within: float) -> float:
    """The cores with which jobs would work off all that comes, and so many seconds what waits for those behind."""
    needed = 0.0
    for job in jobs:
        taken = sum(host_loads([job], now).values())
        if job.job in behind and (entered := per_second(job.measured, _entered, now)):
            waiting = sum(stream.lag_events for stream in job.measured[-1].streams.values())
            grown = per_second(job.measured, _lagged, now) or 0.0
            taken *= 1 + (max(0.0, grown) + waiting / within) / entered
        needed += taken
    return needed


def _lagged(base: Measured, last: Measured) -> int:
    after, before = (sum(stream.lag_events for stream in sample.streams.values()) for sample in (last, base))
    return after - before


def _task_seconds(base: Measured, last: Measured) -> float:
    before, after = (sum(did.cpu_ns for did in sample.instances.values()) for sample in (base, last))
    return (after - before) / 1e9


def measured_costs(
    plans: Iterable[Plan],
    seen: Mapping[str, JobSeen],
    sources: Mapping[str, Supplied],
    now: float,
    *,
    only: Collection[int] | None = None,
) -> MeasuredCosts:
    """Return the costs measured in the jobs of these plans; `only` limits them to those of these instances.

    Rates are of sources, and never limited.
    """
    busy: dict[int, float] = {}
    selectivity: dict[int, Fraction] = {}
    rates: dict[str, float] = {}
    spent, taken = Counter[str](), Counter[str]()
    for plan in plans:
        job = seen.get(plan.job)
        measured = job.measured if job is not None else ()
        for slot in plan.slots if measured else ():
            did = measured[-1].instances.get(slot.instance)
            if did is None or not did.taken or (only is not None and slot.instance not in only):
                continue
            spent[slot.type] += did.cpu_ns
            taken[slot.type] += did.taken
            selectivity[slot.instance] = Fraction(did.emitted, did.taken)
            if (rate := _taken_per_second(measured, slot.instance, now)) is not None:
                busy[slot.instance] = did.cpu_ns / 1e9 / did.taken * rate
        for ingress in plan.ingress:
            if (rate := stream_rate(measured, ingress.stream, now)) is not None:
                # A job that has just started may measure less than an older reader of the same stream.
                rates[ingress.stream] = max(rate, rates.get(ingress.stream, 0.0))
    known = {name: rates.get(supplied.stream, _declared(supplied.supply)) for name, supplied in sources.items()}
    return MeasuredCosts(
        busy=busy,
        by_type={name: spent[name] / 1e9 / events for name, events in taken.items()},
        rates={name: rate for name, rate in known.items() if rate is not None},
        selectivity=selectivity,
    )


def _declared(supply: Supply) -> float | None:
    """The rate of a source that generates its events."""
    match supply:
        case Rated(per_second=rate):
            return rate
        case Timed(seconds=seconds):
            return 1 / seconds
        case _:
            return None


def _taken_per_second(measured: tuple[Measured, ...], instance: int, now: float) -> float | None:
    def grown(base: Measured, last: Measured) -> int:
        before = base.instances.get(instance)
        return last.instances[instance].taken - (before.taken if before else 0)

    return per_second(measured, grown, now)


class TenantStates(NamedTuple):
    """What tenants keep in states, each task counted in full for each tenant that needs it."""

    by_tenant: Mapping[str, int]
    """The bytes of each tenant that has any."""
    by_task: Mapping[Instance, int]
    """The bytes of each task, but for those that keep little."""
    silent: frozenset[JobId]
    """The jobs that have not reported yet."""


def tenant_states(running: RunningGraph, jobs: Iterable[JobId], seeing: Observations) -> TenantStates:
    """What each tenant keeps in the states of the tasks that run for it."""
    by_task: dict[Instance, int] = {}
    silent = set[JobId]()
    for job in jobs:
        seen = seeing.job(str(job))
        states = seen.measured[-1].states if seen is not None and seen.measured else None
        if states is None:
            silent.add(job)
        for instance, size in (states or {}).items():
            # A task that moves is in two jobs for a moment.
            by_task[Instance(instance)] = max(size, by_task.get(Instance(instance), 0))
    by_tenant = Counter[str]()
    for task, size in by_task.items():
        by_tenant.update(dict.fromkeys(running.tenants_of(task), size))
    return TenantStates(by_tenant, by_task, frozenset(silent))


def placeable(seen: Iterable[HostSeen], here: Host | None) -> tuple[Host, ...]:
    """The live hosts, ordered by name, and the local one even while it is starting.

    Hosts that are away are listed as such if their root is known: what their jobs run is bound to it.

    `here` describes the local host; the cores that it reports itself take precedence. A host that reports no cores is
    taken to have as many as `here`.
    """
    cores = here.cores if here is not None else 1.0
    hosts = {
        host.host: Host(
            name=host.host,
            cores=cores if host.cores is None else host.cores,
            tags=host.tags,
            image=host.image,
            types=host.types,
            root=host.root,
            away=not host.alive,
            machine=host.machine,
        )
        for host in seen
        if host.alive or host.root
    }
    if here is not None:
        reported = hosts.get(here.name, here)
        hosts[here.name] = replace(
            here, cores=reported.cores, types=reported.types, root=reported.root, machine=reported.machine
        )
    return tuple(host for _, host in sorted(hosts.items()))
