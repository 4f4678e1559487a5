"""Metrics for Prometheus: sums of counters, a snapshot of the manager, and the samples made of it.

A job's counters start again with each start, and end with it. A plain sum over jobs would fall whenever that happens,
and `rate()` would take it for a restart of the sum. So the growth of the counters since the manager's first look is
added up instead.

The number of jobs, running tasks, streams and sources with samples of their own is limited. Those with the lowest ids
have them, so that they are the same each time; all others count in the sums.

A tenant has metrics of its own: the states of its dataflows, and what they did in the newest step of their series.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import accumulate, chain, islice
from typing import NamedTuple

from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from braid_client.answers.dataflows import DataflowAnswer
from braid_client.answers.savings import WholeAnswer
from bridge.spools.spool import SpoolState
from bridge.transport.subscriptions import PassedOver
from engine.host.spools import ELSEWHERE, UNSUBSCRIBED
from engine.job.lifecycle import JobState
from engine.plan import Plan
from manager.kernel.live_events import DELAY_BOUNDS, Delays, ReconcilerActivity
from manager.lineage.sent import LineageCounts
from manager.machines.carriages import HostStanding
from manager.observations.figures import figures_of, host_loads, shard_figures
from manager.observations.reports import HostSeen, InstanceMeasured, JobSeen, Measured, StreamMeasured, received_of
from manager.rest import metrics
from manager.rest.metrics import Metric
from manager.series.figures import SeriesFigures
from merge import Instance, JobId, Jobs, RunningTask, Submitted
from ring.fleet import STORE

_NOTHING, _NO_STREAM = InstanceMeasured(), StreamMeasured()


@dataclass(slots=True)
class Sums:
    """The sums; changed only by `SumAccumulator`."""

    entered: Counter[str] = field(default_factory=Counter)
    """Events that entered, by job."""
    left: Counter[str] = field(default_factory=Counter)
    """Events that left, by job."""
    cpu_ns: Counter[str] = field(default_factory=Counter)
    """CPU of tasks, by type; the next three are by type too."""
    taken: Counter[str] = field(default_factory=Counter)
    emitted: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)


class SumAccumulator:
    """Adds up the growth from one look to the next; one thread at a time calls `look`."""

    def __init__(self) -> None:
        self.sums = Sums()
        self._since: float | None = None
        self._before: dict[str, Measured] = {}

    def look(self, jobs: Mapping[str, JobSeen], types: Mapping[int, str], now: float) -> None:
        """Add the growth of the present jobs; `now` is the time of the listener's clock.

        Growth before the first look is not added.
        """
        if self._since is None:
            self._since = now
        for name, job in jobs.items():
            if job.measured and (last := job.measured[-1]) is not self._before.get(name):
                self._add(name, self._base(name, last), last, types)
                self._before[name] = last
        for name in self._before.keys() - jobs.keys():
            del self._before[name]
            self.sums.entered.pop(name, None)
            self.sums.left.pop(name, None)

    def _base(self, job: str, last: Measured) -> Measured:
        before = self._before.get(job)
        if before is not None:
            return before if before.run == last.run else Measured(run=last.run)
        began = last.at - last.age if last.age is not None else None
        return Measured(run=last.run) if began is not None and began >= (self._since or 0.0) else last

    def _add(self, job: str, base: Measured, last: Measured, types: Mapping[int, str]) -> None:
        sums = self.sums
        sums.entered[job] += sum(
            max(0, came.entered - base.streams.get(stream, _NO_STREAM).entered) for stream, came in last.streams.items()
        )
        sums.left[job] += max(0, last.left - base.left)
        # Grouped first: there may be a hundred thousand tasks, of few types.
        grown: dict[str, list[int]] = {}
        for instance, did in last.instances.items():
            known = base.instances.get(instance, _NOTHING)
            # A task that was removed since has no type any more.
            if (kind := types.get(instance)) is not None:
                of_kind = grown.get(kind) or grown.setdefault(kind, [0, 0, 0, 0])
                of_kind[0] += max(0, did.cpu_ns - known.cpu_ns)
                of_kind[1] += max(0, did.taken - known.taken)
                of_kind[2] += max(0, did.emitted - known.emitted)
                of_kind[3] += max(0, did.dead - known.dead)
        for kind, (cpu_ns, taken, emitted, dead) in grown.items():
            sums.cpu_ns[kind] += cpu_ns
            sums.taken[kind] += taken
            sums.emitted[kind] += emitted
            sums.dead[kind] += dead


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSnapshot:
    """The parts of the committed state that metrics need; a copy."""

    version: int
    tasks: Mapping[Instance, RunningTask]
    dataflows: Sequence[Submitted]
    plans: Mapping[JobId, Plan]
    jobs: Jobs
    sources: int
    moving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Everything that metrics are made of."""

    leads: bool
    committed: CommittedSnapshot | None = None
    """None if this manager does not lead."""
    types: Mapping[int, str] = field(default_factory=dict)
    """The label of each running task's type."""
    driven: ReconcilerActivity | None = None
    """None if the reconciler does not run."""
    hosts: Sequence[HostSeen] = ()
    machines: Mapping[str, bool] = field(default_factory=dict)
    """Whether each machine is alive."""
    waiting: int = 0
    """The machines that wait to be admitted."""
    carried: Sequence[HostStanding] = ()
    """How safe each host is that a machine carries."""
    jobs: Mapping[str, JobSeen] = field(default_factory=dict)
    """The latest reports of the wanted jobs."""
    sums: Sums = field(default_factory=Sums)
    metered: WholeAnswer | None = None
    """The totals of the last minutes; None if none were metered."""
    tenants: int = 0
    passed_over: PassedOver = field(default_factory=lambda: PassedOver(0, 0))
    """The messages that this manager passed over."""
    lineage: LineageCounts | None = None
    """None where it is not asked for."""
    now: float = 0.0
    """The time of the listener's clock."""


def types_of(tasks: Iterable[RunningTask]) -> dict[int, str]:
    """Return the label of each running task's type."""
    labels: dict[str, str] = {}
    return {
        task.instance: labels.get(name := task.type.name) or labels.setdefault(name, type_label(name)) for task in tasks
    }


def type_label(name: str) -> str:
    """Return the label of a type, without names in a namespace, which tenants can make up without limit.

    >>> type_label("opmw:http://example.org/step"), type_label("where")
    ('opmw:*', 'where')
    """
    namespace, colon, _ = name.partition(":")
    return f"{namespace}:*" if colon else name


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
    yield MetricSample(metrics.BUILD, (version("braid"),), 1)
    yield MetricSample(metrics.LEADER, (), known.leads)
    for why, count in known.passed_over._asdict().items():
        yield MetricSample(metrics.PASSED_OVER, (why,), count)
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
    if known.leads and known.lineage is not None:
        yield from _lineage(known.lineage)


def families(samples: Iterable[MetricSample]) -> list[Family]:
    """Group samples by metric, in the form that Prometheus' client writes."""
    made: dict[str, Family] = {}
    for metric, labels, value in samples:
        if isinstance(value, Delays):
            bounds = (f"{bound:g}" if math.isfinite(bound) else "+Inf" for bound in DELAY_BOUNDS)
            buckets = list(zip(bounds, accumulate(value.counts), strict=True))
            made[metric.name] = HistogramMetricFamily(metric.name, metric.about, buckets, value.seconds)
            continue
        family = made.get(metric.name)
        if family is None:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = made[metric.name] = kind(metric.name, metric.about, labels=metric.labels)
        family.add_metric(labels, value)  # type: ignore[attr-defined]  # both classes have it, but not their base
    return list(made.values())


def _committed(state: CommittedSnapshot, known: MetricsSnapshot) -> Iterator[MetricSample]:
    yield MetricSample(metrics.COMMITS, (), state.version)
    yield MetricSample(metrics.TENANT_COUNT, (), known.tenants)
    yield MetricSample(metrics.SOURCE_COUNT, (), state.sources)
    yield MetricSample(metrics.TASKS_SUBMITTED, (), sum(len(dataflow.task_ids) for dataflow in state.dataflows))
    for kind, count in sorted(Counter(known.types.values()).items()):
        yield MetricSample(metrics.RUNNING, (kind,), count)
    yield MetricSample(metrics.MOVING, (), state.moving)
    yield MetricSample(metrics.BRIDGES, (), len(state.jobs.bridges))
    yield MetricSample(metrics.BRIDGED, (), len({(bridge.parent, bridge.port) for bridge in state.jobs.bridges}))


def _driven(driven: ReconcilerActivity) -> Iterator[MetricSample]:
    yield MetricSample(metrics.CONNECTED, (), driven.connected)
    yield MetricSample(metrics.UNREAD, (), driven.unread)
    yield MetricSample(metrics.RECONCILER_LOOKS, (), driven.looks)
    yield MetricSample(metrics.RECONCILER_FAILURES, (), driven.failures)
    for metric, counts in (
        (metrics.RECONCILER_STEPS, driven.steps),
        (metrics.MOVE_TURNS, driven.turns),
        (metrics.RECONFIGURATION_TURNS, driven.reconfigurations),
        (metrics.DATAFLOW_COUNT, driven.dataflows),
    ):
        yield from (MetricSample(metric, (what,), count) for what, count in sorted(counts.items()))
    yield MetricSample(metrics.RECONFIGURATION_DELAY, (), driven.reconfiguration_delays)


def _lineage(counts: LineageCounts) -> Iterator[MetricSample]:
    for outcome in ("sent", "refused", "missed"):
        yield MetricSample(metrics.LINEAGE_EVENTS, (outcome,), getattr(counts, outcome))
    yield MetricSample(metrics.LINEAGE_FAILURES, (), counts.failures)
    behind = 0.0 if counts.behind_since is None else max(0.0, time.time() - counts.behind_since)
    yield MetricSample(metrics.LINEAGE_BEHIND, (), round(behind, 1))


def _host(host: HostSeen) -> Iterator[MetricSample]:
    yield MetricSample(metrics.HOST_UP, (host.host,), host.alive)
    yield MetricSample(metrics.HOST_SEEN, (host.host,), host.seen.timestamp())
    if host.cores is not None:
        yield MetricSample(metrics.HOST_CORES, (host.host,), host.cores)
    yield MetricSample(metrics.HOST_JOBS, (host.host,), len(host.jobs))
    for part, seconds in sorted(host.cpu.items()):
        yield MetricSample(metrics.HOST_CPU, (host.host, part), seconds)
    yield MetricSample(metrics.HOST_DROPPED, (host.host,), host.dropped)
    for why, count in sorted(host.passed_over.items()):
        yield MetricSample(metrics.HOST_PASSED_OVER, (host.host, why), count)
    # In case of trouble, the state is a long message.
    states = Counter(state if state in _SPOOLS else "trouble" for state in host.spools.values())
    yield from (MetricSample(metrics.SPOOLS, (host.host, state), count) for state, count in sorted(states.items()))
    if host.spool_bytes is not None:
        yield MetricSample(metrics.SPOOL_BYTES, (host.host,), host.spool_bytes)


def _machines(known: MetricsSnapshot) -> Iterator[MetricSample]:
    hosts = Counter(standing.carriage.machine for standing in known.carried)
    loads = host_loads(known.jobs.values(), known.now)
    taken: defaultdict[str, float] = defaultdict(float)
    for standing in known.carried:
        taken[standing.carriage.machine] += loads.get(standing.carriage.host, 0.0)
    for machine, alive in known.machines.items():
        yield MetricSample(metrics.MACHINE_LOAD, (machine,), round(taken[machine], 3))
        yield MetricSample(metrics.MACHINE_UP, (machine,), alive)
        yield MetricSample(metrics.MACHINE_HOSTS, (machine,), hosts[machine])
    yield MetricSample(metrics.MACHINES_WAITING, (), known.waiting)
    yield MetricSample(metrics.UNDER_REPLICATED, (), sum(standing.under_replicated for standing in known.carried))
    yield MetricSample(metrics.WITHOUT_STANDBY, (), sum(not standing.standby for standing in known.carried))
    for standing in known.carried:
        yield MetricSample(metrics.HOST_STORED, (standing.carriage.host,), STORE in standing.carriage.kept_by)
        if standing.behind_bytes is not None:
            yield MetricSample(metrics.HOST_BEHIND, (standing.carriage.host,), standing.behind_bytes)


def _jobs(state: CommittedSnapshot, known: MetricsSnapshot) -> Iterator[MetricSample]:
    states = Counter(_state(known.jobs.get(str(job))) for job in state.plans)
    for state_name in map(str, ("awaited", *JobState)):
        yield MetricSample(metrics.JOB_COUNT, (state_name,), states[state_name])
    for job in islice(sorted(state.plans), MOST_JOB_SAMPLES):
        name, placed, seen = str(job), state.jobs.jobs.get(job), known.jobs.get(str(job))
        yield MetricSample(metrics.JOB_UP, (name, state.plans[job].host), _state(seen) == JobState.RUNNING)
        yield MetricSample(metrics.JOB_SHARDS, (name,), state.plans[job].shards)
        if placed is not None:
            yield MetricSample(metrics.JOB_TASKS, (name, "active"), len(placed.active))
            yield MetricSample(metrics.JOB_TASKS, (name, "paused"), len(placed.paused))
        if seen is not None:
            yield from _job(name, seen, known)
            figures = shard_figures(seen.measured, state.plans[job].shards, known.now)
            for shard, cores in enumerate(figures.shard_cores):
                yield MetricSample(metrics.JOB_SHARD_CORES, (name, str(shard)), cores)
            if figures.hot_group_part is not None:
                yield MetricSample(metrics.JOB_HOT_GROUP, (name,), figures.hot_group_part)
    yield MetricSample(metrics.LEFT_OUT, ("jobs",), max(0, len(state.plans) - MOST_JOB_SAMPLES))


def _state(seen: JobSeen | None) -> str:
    return seen.state if seen is not None and seen.state else "awaited"


def _job(job: str, seen: JobSeen, known: MetricsSnapshot) -> Iterator[MetricSample]:
    yield MetricSample(metrics.JOB_FAILING, (job,), len(seen.failed))
    yield MetricSample(metrics.JOB_RESTARTS, (job,), seen.restarts)
    yield MetricSample(metrics.JOB_BATCHES, (job,), seen.batch + 1)
    if not seen.measured:
        return
    yield MetricSample(metrics.JOB_IN, (job,), known.sums.entered[job])
    yield MetricSample(metrics.JOB_OUT, (job,), known.sums.left[job])
    left_out = (events.count for sinks in seen.measured[-1].left_out.values() for events in sinks.values())
    yield MetricSample(metrics.JOB_LEFT_OUT, (job,), sum(left_out))
    figures = figures_of(seen.measured, known.now)
    for metric, quantile, value in (
        (metrics.JOB_LAG, None, figures.lag_events),
        (metrics.JOB_LAG_SECONDS, None, figures.lag_seconds),
        (metrics.JOB_BATCH_SECONDS, "0.5", figures.batch_seconds_p50),
        (metrics.JOB_BATCH_SECONDS, "0.99", figures.batch_seconds_p99),
        (metrics.JOB_LATENCY, "0.5", figures.latency_seconds_p50),
        (metrics.JOB_LATENCY, "0.99", figures.latency_seconds_p99),
    ):
        if value is not None:
            yield MetricSample(metric, (job,) if quantile is None else (job, quantile), value)


def _tasks(state: CommittedSnapshot, known: MetricsSnapshot) -> Iterator[MetricSample]:
    sums = known.sums
    for kind in sorted(sums.cpu_ns):
        yield MetricSample(metrics.TYPE_CPU, (kind,), sums.cpu_ns[kind] / _SECOND)
        yield MetricSample(metrics.TYPE_IN, (kind,), sums.taken[kind])
        yield MetricSample(metrics.TYPE_OUT, (kind,), sums.emitted[kind])
        yield MetricSample(metrics.TYPE_DEAD, (kind,), sums.dead[kind])
    for instance, job, did in islice(_measured(state, known), MOST_INSTANCE_SAMPLES):
        labels = (str(instance), known.types[instance], job)
        yield MetricSample(metrics.INSTANCE_CPU, labels, did.cpu_ns / _SECOND)
        yield MetricSample(metrics.INSTANCE_IN, labels, did.taken)
        yield MetricSample(metrics.INSTANCE_OUT, labels, did.emitted)
        yield MetricSample(metrics.INSTANCE_DEAD, labels, did.dead)
        if size := (known.jobs[job].measured[-1].states or {}).get(instance):
            yield MetricSample(metrics.INSTANCE_STATE, labels, size)
    yield MetricSample(metrics.LEFT_OUT, ("instances",), max(0, len(known.types) - MOST_INSTANCE_SAMPLES))
    read = {job: seen.measured[-1].streams for job, seen in known.jobs.items() if seen.measured}
    streams = sorted((int(job), stream) for job, those in read.items() for stream in those)
    for number, stream in streams[:MOST_STREAM_SAMPLES]:
        job = str(number)
        yield MetricSample(metrics.STREAM_IN, (job, stream), read[job][stream].entered)
        yield MetricSample(metrics.STREAM_LAG, (job, stream), read[job][stream].lag_events)
    yield MetricSample(metrics.LEFT_OUT, ("streams",), max(0, len(streams) - MOST_STREAM_SAMPLES))


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
            yield MetricSample(metrics.SOURCE_ACCEPTED, (stream,), received.accepted)
            yield MetricSample(metrics.SOURCE_REJECTED, (stream,), received.rejected)
            if received.link is not None:
                yield MetricSample(metrics.SOURCE_CONNECTED, (stream,), int(received.link.connected))
    yield MetricSample(metrics.LEFT_OUT, ("sources",), max(0, len(streams) - MOST_SOURCE_SAMPLES))


def _savings(known: MetricsSnapshot) -> Iterator[MetricSample]:
    if (whole := known.metered) is None:
        return
    yield MetricSample(metrics.MEASURED_CORES, (), whole.measured.cores)
    yield MetricSample(metrics.OVERHEAD, (), whole.overhead.cores)
    yield MetricSample(metrics.ALONE, ("launched",), whole.alone_launched.likely)
    yield MetricSample(metrics.ALONE, ("packed",), whole.alone_packed.likely)
    if (shared := whole.saved.cores_by_sharing) is not None:
        yield MetricSample(metrics.SAVED, ("sharing",), shared.cores)
    yield MetricSample(metrics.SAVED, ("packing",), whole.saved.cores_by_packing.likely)


MOST_DATAFLOW_SAMPLES = 200
"""Dataflows of a tenant that have samples: those that were submitted first."""


def tenant_samples(
    dataflows: Sequence[DataflowAnswer], figures: Mapping[str, SeriesFigures], *, are_all: bool
) -> Iterator[MetricSample]:
    """Yield the samples for a tenant, of some of its dataflows; one whose figures are not known has its state alone."""
    yield MetricSample(metrics.DATAFLOWS_LEFT_OUT, (), not are_all)
    for dataflow in dataflows:
        named = (dataflow.id, dataflow.name)
        yield MetricSample(metrics.DATAFLOW_STATE, (*named, str(dataflow.state)), 1)
        if (did := figures.get(dataflow.id)) is None:
            continue
        for metric, count in (
            (metrics.DATAFLOW_IN, did.events_in),
            (metrics.DATAFLOW_OUT, did.events_out),
            (metrics.DATAFLOW_DEAD, did.dead),
        ):
            yield MetricSample(metric, named, round(count / did.seconds, 6))
        yield MetricSample(metrics.DATAFLOW_WAITING, named, did.waiting)
        for quantile, seconds in (("0.5", did.latency_p50), ("0.99", did.latency_p99)):
            if seconds is not None:
                yield MetricSample(metrics.DATAFLOW_LATENCY, (*named, quantile), seconds)
        for metric, cores in ((metrics.DATAFLOW_CORES, did.cores), (metrics.DATAFLOW_ALONE, did.alone)):
            if cores is not None:
                yield MetricSample(metric, named, cores)
