"""Samples of the metrics, made from a snapshot. Pure, except for the installed release.

The number of jobs, running tasks, streams and sources with samples of their own is limited. Those with the lowest ids
have them, so that they are the same each time; all others count in the sums.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import accumulate, chain, islice
from typing import NamedTuple

from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from bridge.spools.spool import SpoolState
from engine.host.spools import ELSEWHERE, UNSUBSCRIBED
from engine.job.lifecycle import JobState
from manager.metrics import catalogue
from manager.metrics.catalogue import Metric
from manager.metrics.snapshot import CommittedSnapshot, MetricsSnapshot
from manager.observations.figures import figures_of
from manager.observations.host_loads import host_loads
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, received_of
from manager.observations.shard_figures import ShardFigures, shard_figures
from manager.reconciler.activity import DELAY_BOUNDS, Delays, ReconcilerActivity
from ring.carriage import STORE

MOST_JOB_SAMPLES = 200
MOST_INSTANCE_SAMPLES = 200
MOST_STREAM_SAMPLES = 200
MOST_SOURCE_SAMPLES = 200
_SPOOLS = frozenset({*SpoolState, ELSEWHERE, UNSUBSCRIBED})
_SECOND = 1e9
"""A second in nanoseconds."""


class MetricSample(NamedTuple):
    """The value of a metric, with the values of its labels in order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Delays


def samples(known: MetricsSnapshot) -> Iterator[MetricSample]:
    """Yield the samples of a snapshot; a value that is not known yet has none."""
    yield MetricSample(catalogue.BUILD, (version("braid"),), 1)
    yield MetricSample(catalogue.LEADER, (), known.leads)
    for why, count in known.passed_over._asdict().items():
        yield MetricSample(catalogue.PASSED_OVER, (why,), count)
    if known.committed is not None:
        yield from _committed(known.committed, known)
        yield from _machines(known)
        yield from _jobs(known.committed, known)
        yield from _tasks(known.committed, known)
        yield from _sources(known.hosts)
    if known.driven is not None:
        yield from _driven(known.driven)
    yield from chain.from_iterable(map(_host, known.hosts))
    yield from _savings(known)


def families(found: Iterable[MetricSample]) -> list[Family]:
    """Group samples by metric, in the form that Prometheus' client writes."""
    made: dict[str, Family] = {}
    for metric, labels, value in found:
        if isinstance(value, Delays):
            made[metric.name] = HistogramMetricFamily(
                metric.name, metric.about, buckets=_buckets(value), sum_value=value.seconds
            )
            continue
        family = made.get(metric.name)
        if family is None:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = made[metric.name] = kind(metric.name, metric.about, labels=metric.labels)
        family.add_metric(labels, value)  # type: ignore[attr-defined]  # both classes have it, but not their base
    return list(made.values())


def _buckets(delays: Delays) -> list[tuple[str, int]]:
    return [
        (f"{bound:g}" if math.isfinite(bound) else "+Inf", count)
        for bound, count in zip(DELAY_BOUNDS, accumulate(delays.counts), strict=True)
    ]


def _committed(state: CommittedSnapshot, known: MetricsSnapshot) -> Iterator[MetricSample]:
    yield MetricSample(catalogue.COMMITS, (), state.version)
    yield MetricSample(catalogue.TENANT_COUNT, (), known.tenants)
    yield MetricSample(catalogue.SOURCE_COUNT, (), state.sources)
    yield MetricSample(catalogue.TASKS_SUBMITTED, (), sum(len(dataflow.task_ids) for dataflow in state.dataflows))
    for kind, count in sorted(Counter(known.types.values()).items()):
        yield MetricSample(catalogue.RUNNING, (kind,), count)
    yield MetricSample(catalogue.MOVING, (), state.moving)
    yield MetricSample(catalogue.BRIDGES, (), len(state.jobs.bridges))
    yield MetricSample(catalogue.BRIDGED, (), len({(bridge.parent, bridge.port) for bridge in state.jobs.bridges}))


def _driven(driven: ReconcilerActivity) -> Iterator[MetricSample]:
    yield MetricSample(catalogue.CONNECTED, (), driven.connected)
    yield MetricSample(catalogue.UNREAD, (), driven.unread)
    yield MetricSample(catalogue.RECONCILER_LOOKS, (), driven.looks)
    yield MetricSample(catalogue.RECONCILER_FAILURES, (), driven.failures)
    for metric, counts in (
        (catalogue.RECONCILER_STEPS, driven.steps),
        (catalogue.MOVE_TURNS, driven.turns),
        (catalogue.RECONFIGURATION_TURNS, driven.reconfigurations),
        (catalogue.DATAFLOW_COUNT, driven.dataflows),
    ):
        yield from (MetricSample(metric, (what,), count) for what, count in sorted(counts.items()))
    yield MetricSample(catalogue.RECONFIGURATION_DELAY, (), driven.reconfiguration_delays)


def _host(host: HostSeen) -> Iterator[MetricSample]:
    yield MetricSample(catalogue.HOST_UP, (host.host,), host.alive)
    yield MetricSample(catalogue.HOST_SEEN, (host.host,), host.seen.timestamp())
    if host.cores is not None:
        yield MetricSample(catalogue.HOST_CORES, (host.host,), host.cores)
    yield MetricSample(catalogue.HOST_JOBS, (host.host,), len(host.jobs))
    for part, seconds in sorted(host.cpu.items()):
        yield MetricSample(catalogue.HOST_CPU, (host.host, part), seconds)
    yield MetricSample(catalogue.HOST_DROPPED, (host.host,), host.dropped)
    for why, count in sorted(host.passed_over.items()):
        yield MetricSample(catalogue.HOST_PASSED_OVER, (host.host, why), count)
    # In case of trouble, the state is a long message.
    states = Counter(state if state in _SPOOLS else "trouble" for state in host.spools.values())
    yield from (MetricSample(catalogue.SPOOLS, (host.host, state), count) for state, count in sorted(states.items()))
    if host.spool_bytes is not None:
        yield MetricSample(catalogue.SPOOL_BYTES, (host.host,), host.spool_bytes)


def _machines(known: MetricsSnapshot) -> Iterator[MetricSample]:
    hosts = Counter(each.carriage.machine for each in known.carried)
    loads = host_loads(known.jobs.values(), known.now)
    taken: defaultdict[str, float] = defaultdict(float)
    for each in known.carried:
        taken[each.carriage.machine] += loads.get(each.carriage.host, 0.0)
    for machine, alive in known.machines.items():
        yield MetricSample(catalogue.MACHINE_LOAD, (machine,), round(taken[machine], 3))
        yield MetricSample(catalogue.MACHINE_UP, (machine,), alive)
        yield MetricSample(catalogue.MACHINE_HOSTS, (machine,), hosts[machine])
    yield MetricSample(catalogue.MACHINES_WAITING, (), known.waiting)
    yield MetricSample(catalogue.UNDER_REPLICATED, (), sum(each.under_replicated for each in known.carried))
    yield MetricSample(catalogue.WITHOUT_STANDBY, (), sum(not each.standby for each in known.carried))
    for each in known.carried:
        yield MetricSample(catalogue.HOST_STORED, (each.carriage.host,), STORE in each.carriage.kept_by)
        if each.behind_bytes is not None:
            yield MetricSample(catalogue.HOST_BEHIND, (each.carriage.host,), each.behind_bytes)


def _jobs(state: CommittedSnapshot, known: MetricsSnapshot) -> Iterator[MetricSample]:
    states = Counter(_state(known.jobs.get(str(job))) for job in state.plans)
    for each in ("awaited", *JobState):
        yield MetricSample(catalogue.JOB_COUNT, (str(each),), states[str(each)])
    for job in islice(sorted(state.plans), MOST_JOB_SAMPLES):
        name, placed, seen = str(job), state.jobs.jobs.get(job), known.jobs.get(str(job))
        yield MetricSample(catalogue.JOB_UP, (name, state.plans[job].host), _state(seen) == JobState.RUNNING)
        yield MetricSample(catalogue.JOB_SHARDS, (name,), state.plans[job].shards)
        if placed is not None:
            yield MetricSample(catalogue.JOB_TASKS, (name, "active"), len(placed.active))
            yield MetricSample(catalogue.JOB_TASKS, (name, "paused"), len(placed.paused))
        if seen is not None:
            yield from _job(name, seen, known)
            yield from _shards(name, shard_figures(seen.measured, state.plans[job].shards, known.now))
    yield MetricSample(catalogue.LEFT_OUT, ("jobs",), max(0, len(state.plans) - MOST_JOB_SAMPLES))


def _shards(job: str, figures: ShardFigures) -> Iterator[MetricSample]:
    for shard, cores in enumerate(figures.shard_cores):
        yield MetricSample(catalogue.JOB_SHARD_CORES, (job, str(shard)), cores)
    if figures.hot_group_part is not None:
        yield MetricSample(catalogue.JOB_HOT_GROUP, (job,), figures.hot_group_part)


def _state(seen: JobSeen | None) -> str:
    return seen.state if seen is not None and seen.state else "awaited"


def _job(job: str, seen: JobSeen, known: MetricsSnapshot) -> Iterator[MetricSample]:
    yield MetricSample(catalogue.JOB_FAILING, (job,), len(seen.failed))
    yield MetricSample(catalogue.JOB_RESTARTS, (job,), seen.restarts)
    yield MetricSample(catalogue.JOB_BATCHES, (job,), seen.batch + 1)
    if not seen.measured:
        return
    yield MetricSample(catalogue.JOB_IN, (job,), known.sums.entered[job])
    yield MetricSample(catalogue.JOB_OUT, (job,), known.sums.left[job])
    figures = figures_of(seen.measured, known.now)
    for metric, quantile, value in (
        (catalogue.JOB_LAG, None, figures.lag_events),
        (catalogue.JOB_LAG_SECONDS, None, figures.lag_seconds),
        (catalogue.JOB_BATCH_SECONDS, "0.5", figures.batch_seconds_p50),
        (catalogue.JOB_BATCH_SECONDS, "0.99", figures.batch_seconds_p99),
        (catalogue.JOB_LATENCY, "0.5", figures.latency_seconds_p50),
        (catalogue.JOB_LATENCY, "0.99", figures.latency_seconds_p99),
    ):
        if value is not None:
            yield MetricSample(metric, (job,) if quantile is None else (job, quantile), value)


def _tasks(state: CommittedSnapshot, known: MetricsSnapshot) -> Iterator[MetricSample]:
    sums = known.sums
    for kind in sorted(sums.cpu_ns):
        yield MetricSample(catalogue.TYPE_CPU, (kind,), sums.cpu_ns[kind] / _SECOND)
        yield MetricSample(catalogue.TYPE_IN, (kind,), sums.taken[kind])
        yield MetricSample(catalogue.TYPE_OUT, (kind,), sums.emitted[kind])
        yield MetricSample(catalogue.TYPE_DEAD, (kind,), sums.dead[kind])
    for instance, job, did in islice(_measured(state, known), MOST_INSTANCE_SAMPLES):
        labels = (str(instance), known.types[instance], job)
        yield MetricSample(catalogue.INSTANCE_CPU, labels, did.cpu_ns / _SECOND)
        yield MetricSample(catalogue.INSTANCE_IN, labels, did.taken)
        yield MetricSample(catalogue.INSTANCE_OUT, labels, did.emitted)
        yield MetricSample(catalogue.INSTANCE_DEAD, labels, did.dead)
        if size := (known.jobs[job].measured[-1].states or {}).get(instance):
            yield MetricSample(catalogue.INSTANCE_STATE, labels, size)
    yield MetricSample(catalogue.LEFT_OUT, ("instances",), max(0, len(known.types) - MOST_INSTANCE_SAMPLES))
    read = {job: seen.measured[-1].streams for job, seen in known.jobs.items() if seen.measured}
    streams = sorted((int(job), stream) for job, those in read.items() for stream in those)
    for number, stream in streams[:MOST_STREAM_SAMPLES]:
        job = str(number)
        yield MetricSample(catalogue.STREAM_IN, (job, stream), read[job][stream].entered)
        yield MetricSample(catalogue.STREAM_LAG, (job, stream), read[job][stream].lag_events)
    yield MetricSample(catalogue.LEFT_OUT, ("streams",), max(0, len(streams) - MOST_STREAM_SAMPLES))


def _measured(state: CommittedSnapshot, known: MetricsSnapshot) -> Iterator[tuple[int, str, InstanceMeasured]]:
    """Yield the running tasks in order of their ids, with their job and its counters for them."""
    for instance in sorted(state.tasks):
        home = state.jobs.homes.get(instance)
        seen = known.jobs.get(str(home.job)) if home is not None else None
        # A task that has just moved is not measured yet in its new job.
        if seen is not None and seen.measured and (did := seen.measured[-1].instances.get(instance)) is not None:
            yield instance, seen.job, did


def _sources(hosts: Sequence[HostSeen]) -> Iterator[MetricSample]:
    streams = {stream for host in hosts for stream in host.sources}
    # They end in numbers, so the shorter is the lower.
    for stream in sorted(streams, key=lambda stream: (len(stream), stream))[:MOST_SOURCE_SAMPLES]:
        if (received := received_of(stream, hosts)) is not None:
            yield MetricSample(catalogue.SOURCE_ACCEPTED, (stream,), received.accepted)
            yield MetricSample(catalogue.SOURCE_REJECTED, (stream,), received.rejected)
    yield MetricSample(catalogue.LEFT_OUT, ("sources",), max(0, len(streams) - MOST_SOURCE_SAMPLES))


def _savings(known: MetricsSnapshot) -> Iterator[MetricSample]:
    if (whole := known.metered) is None:
        return
    yield MetricSample(catalogue.MEASURED_CORES, (), whole.measured.cores)
    yield MetricSample(catalogue.OVERHEAD, (), whole.overhead.cores)
    yield MetricSample(catalogue.ALONE, ("launched",), whole.alone_launched.likely)
    yield MetricSample(catalogue.ALONE, ("packed",), whole.alone_packed.likely)
    if (shared := whole.saved.cores_by_sharing) is not None:
        yield MetricSample(catalogue.SAVED, ("sharing",), shared.cores)
    yield MetricSample(catalogue.SAVED, ("packing",), whole.saved.cores_by_packing.likely)
