"""Sampling: what is known, as samples of the metrics that there are. Pure, but for the release that is installed.

What could be any number, as jobs, running tasks and their streams, has samples of its own only up to a bound: those
with the lowest numbers, so that the same have them at each look. All others are in the sums.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import chain, islice
from typing import NamedTuple

from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from engine.host_spools import ELSEWHERE
from engine.life import JobState
from manager.committer.seen import HostSeen, InstanceMeasured, JobSeen
from manager.figures import figures_of
from manager.metrics import table
from manager.metrics.known import Committed, Known
from manager.metrics.table import Metric
from manager.reconciler.driven import Driven

MOST_JOBS = 200
MOST_INSTANCES = 200
MOST_STREAMS = 200
_SPOOLS = frozenset({"ready", "full", ELSEWHERE})
_SECOND = 1e9
"""In nanoseconds."""


class Sample(NamedTuple):
    """The value of a metric, with the values of its labels in their order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


def samples(known: Known) -> Iterator[Sample]:
    """Everything that is known; what is not known yet has no sample."""
    yield Sample(table.BUILD, (version("braid"),), 1)
    yield Sample(table.LEADER, (), known.leads)
    for why, count in known.passed_over._asdict().items():
        yield Sample(table.PASSED_OVER, (why,), count)
    if known.committed is not None:
        yield from _committed(known.committed, known)
        yield from _jobs(known.committed, known)
        yield from _tasks(known.committed, known)
    if known.driven is not None:
        yield from _driven(known.driven)
    yield from chain.from_iterable(map(_host, known.hosts))
    yield from _savings(known)


def families(found: Iterable[Sample]) -> list[Family]:
    """Samples as Prometheus' client writes them, each metric's together."""
    made: dict[str, Family] = {}
    for metric, labels, value in found:
        family = made.get(metric.name)
        if family is None:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = made[metric.name] = kind(metric.name, metric.about, labels=metric.labels)
        family.add_metric(labels, value)  # type: ignore[attr-defined]  # both kinds have it, and their base not
    return list(made.values())


def _committed(state: Committed, known: Known) -> Iterator[Sample]:
    yield Sample(table.COMMITS, (), state.version)
    yield Sample(table.TENANTS, (), known.tenants)
    yield Sample(table.SOURCES, (), state.sources)
    yield Sample(table.SUBMITTED, (), sum(len(dataflow.task_ids) for dataflow in state.dataflows))
    for kind, count in sorted(Counter(known.types.values()).items()):
        yield Sample(table.RUNNING, (kind,), count)
    yield Sample(table.MOVING, (), state.moving)
    yield Sample(table.BRIDGES, (), len(state.jobs.bridges))
    yield Sample(table.BRIDGED, (), len({(bridge.parent, bridge.port) for bridge in state.jobs.bridges}))


def _driven(driven: Driven) -> Iterator[Sample]:
    yield Sample(table.CONNECTED, (), driven.connected)
    yield Sample(table.UNREAD, (), driven.unread)
    yield Sample(table.LOOKS, (), driven.looks)
    yield Sample(table.FAILURES, (), driven.failures)
    for metric, counts in (
        (table.STEPS, driven.steps),
        (table.TURNS, driven.turns),
        (table.DATAFLOWS, driven.dataflows),
    ):
        yield from (Sample(metric, (what,), count) for what, count in sorted(counts.items()))


def _host(host: HostSeen) -> Iterator[Sample]:
    yield Sample(table.HOST_UP, (host.host,), host.alive)
    yield Sample(table.HOST_SEEN, (host.host,), host.seen.timestamp())
    if host.cores is not None:
        yield Sample(table.HOST_CORES, (host.host,), host.cores)
    yield Sample(table.HOST_JOBS, (host.host,), len(host.jobs))
    for part, seconds in sorted(host.cpu.items()):
        yield Sample(table.HOST_CPU, (host.host, part), seconds)
    yield Sample(table.HOST_DROPPED, (host.host,), host.dropped)
    for why, count in sorted(host.passed_over.items()):
        yield Sample(table.HOST_PASSED_OVER, (host.host, why), count)
    # Where something is wrong the state says what, at length.
    states = Counter(state if state in _SPOOLS else "trouble" for state in host.spools.values())
    yield from (Sample(table.SPOOLS, (host.host, state), count) for state, count in sorted(states.items()))
    if host.spool_bytes is not None:
        yield Sample(table.SPOOL_BYTES, (host.host,), host.spool_bytes)


def _jobs(state: Committed, known: Known) -> Iterator[Sample]:
    states = Counter(_state(known.jobs.get(str(job))) for job in state.plans)
    for each in ("awaited", *JobState):
        yield Sample(table.JOBS, (str(each),), states[str(each)])
    for job in islice(sorted(state.plans), MOST_JOBS):
        name, placed, seen = str(job), state.jobs.jobs.get(job), known.jobs.get(str(job))
        yield Sample(table.JOB_UP, (name, state.plans[job].host), _state(seen) == JobState.RUNNING)
        if placed is not None:
            yield Sample(table.JOB_TASKS, (name, "active"), len(placed.active))
            yield Sample(table.JOB_TASKS, (name, "paused"), len(placed.paused))
        if seen is not None:
            yield from _job(name, seen, known)
    yield Sample(table.LEFT_OUT, ("jobs",), max(0, len(state.plans) - MOST_JOBS))


def _state(seen: JobSeen | None) -> str:
    return seen.state if seen is not None and seen.state else "awaited"


def _job(job: str, seen: JobSeen, known: Known) -> Iterator[Sample]:
    yield Sample(table.JOB_FAILING, (job,), len(seen.failed))
    yield Sample(table.JOB_RESTARTS, (job,), seen.restarts)
    yield Sample(table.JOB_BATCHES, (job,), seen.batch + 1)
    if not seen.measured:
        return
    yield Sample(table.JOB_IN, (job,), known.sums.entered[job])
    yield Sample(table.JOB_OUT, (job,), known.sums.left[job])
    figures = figures_of(seen.measured, known.now)
    for metric, quantile, value in (
        (table.JOB_LAG, None, figures.lag_events),
        (table.JOB_LAG_SECONDS, None, figures.lag_seconds),
        (table.JOB_BATCH_SECONDS, "0.5", figures.batch_seconds_p50),
        (table.JOB_BATCH_SECONDS, "0.99", figures.batch_seconds_p99),
        (table.JOB_LATENCY, "0.5", figures.latency_seconds_p50),
        (table.JOB_LATENCY, "0.99", figures.latency_seconds_p99),
    ):
        if value is not None:
            yield Sample(metric, (job,) if quantile is None else (job, quantile), value)


def _tasks(state: Committed, known: Known) -> Iterator[Sample]:
    sums = known.sums
    for kind in sorted(sums.cpu_ns):
        yield Sample(table.TYPE_CPU, (kind,), sums.cpu_ns[kind] / _SECOND)
        yield Sample(table.TYPE_IN, (kind,), sums.taken[kind])
        yield Sample(table.TYPE_OUT, (kind,), sums.emitted[kind])
        yield Sample(table.TYPE_DEAD, (kind,), sums.dead[kind])
    for instance, job, did in islice(_measured(state, known), MOST_INSTANCES):
        labels = (str(instance), known.types[instance], job)
        yield Sample(table.INSTANCE_CPU, labels, did.cpu_ns / _SECOND)
        yield Sample(table.INSTANCE_IN, labels, did.taken)
        yield Sample(table.INSTANCE_OUT, labels, did.emitted)
        yield Sample(table.INSTANCE_DEAD, labels, did.dead)
    yield Sample(table.LEFT_OUT, ("instances",), max(0, len(known.types) - MOST_INSTANCES))
    read = {job: seen.measured[-1].streams for job, seen in known.jobs.items() if seen.measured}
    streams = sorted((int(job), stream) for job, those in read.items() for stream in those)
    for number, stream in streams[:MOST_STREAMS]:
        job = str(number)
        yield Sample(table.STREAM_IN, (job, stream), read[job][stream].entered)
        yield Sample(table.STREAM_LAG, (job, stream), read[job][stream].lag_events)
    yield Sample(table.LEFT_OUT, ("streams",), max(0, len(streams) - MOST_STREAMS))


def _measured(state: Committed, known: Known) -> Iterator[tuple[int, str, InstanceMeasured]]:
    """Running tasks, by number, with their job and what they did there."""
    for instance in sorted(state.tasks):
        home = state.jobs.homes.get(instance)
        seen = known.jobs.get(str(home.job)) if home is not None else None
        # One that has just moved was measured by another job, which counted for itself.
        if seen is not None and seen.measured and (did := seen.measured[-1].instances.get(instance)) is not None:
            yield instance, seen.job, did


def _savings(known: Known) -> Iterator[Sample]:
    if (whole := known.metered) is None:
        return
    yield Sample(table.MEASURED, (), whole.measured.cores)
    yield Sample(table.OVERHEAD, (), whole.overhead.cores)
    yield Sample(table.ALONE, ("launched",), whole.alone_launched.likely)
    yield Sample(table.ALONE, ("packed",), whole.alone_packed.likely)
    yield Sample(table.SAVED, ("sharing",), whole.saving_by_sharing.likely)
    yield Sample(table.SAVED, ("packing",), whole.saving_by_packing.likely)
