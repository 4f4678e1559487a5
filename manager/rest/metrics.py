"""The catalogue of metrics, and those of answered requests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from prometheus_client import Counter, Histogram
from prometheus_client import Metric as Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric; listed in `METRICS`."""

    name: str
    kind: Literal["gauge", "counter", "histogram"] = "gauge"
    labels: tuple[str, ...] = ()
    about: str


def _gauge(name: str, about: str, *labels: str) -> Metric:
    return Metric(name=f"braid_{name}", labels=labels, about=about)


def _counter(name: str, about: str, *labels: str) -> Metric:
    return Metric(name=f"braid_{name}_total", kind="counter", labels=labels, about=about)


# The manager.
BUILD = _gauge("build_info", "Always 1; the label names the release that the manager runs.", "version")
LEADER = _gauge("leader", "1 if this manager leads, else 0; only the leading manager has more than its own metrics.")
READY = _gauge("ready", "1 if this manager leads and hosts have taken up the committed plans, else 0.")
COMMITS = _counter("commits", "Changes that were committed, by any manager.")
REQUESTS = _counter("http_requests", "Requests that were answered.", "method", "route", "status")
REQUEST_SECONDS = Metric(
    name="braid_http_request_duration_seconds",
    kind="histogram",
    labels=("route",),
    about="Seconds from a request to the beginning of its answer.",
)
TENANT_COUNT = _gauge("tenants", "Tenants that were admitted.")
SOURCE_COUNT = _gauge("sources", "Sources that are registered.")
DATAFLOW_COUNT = _gauge("dataflows", "Dataflows that were submitted and not removed.", "state")
TASKS_SUBMITTED = _gauge("tasks_submitted", "Tasks of these dataflows, counted as submitted.")
RUNNING = _gauge("tasks_running", "Tasks that run for these dataflows; one may serve many.", "type")

# The reconciler, and its messages.
CONNECTED = _gauge(
    "broker_connected", "1 if the manager is connected to the broker and has received all retained messages, else 0."
)
UNREAD = _counter("broker_messages_unread", "Messages over the broker that the manager could not read.")
PASSED_OVER = _counter(
    "broker_messages_passed_over", "Messages that the manager did not ask for, or failed to process.", "why"
)
RECONCILER_LOOKS = _counter("reconciler_looks", "Looks of the reconciler.")
RECONCILER_FAILURES = _counter("reconciler_failures", "Looks of the reconciler that failed.")
RECONCILER_STEPS = _counter("reconciler_steps", "Instructions that the reconciler sent to hosts.", "step")
MOVE_TURNS = _counter("moves", "Events in moves of tasks between jobs; `begun` ends a move successfully.", "event")
RECONFIGURATION_TURNS = _counter(
    "reconfigurations", "Events in reconfigurations of running tasks; `begun` when all jobs have switched.", "event"
)
RECONFIGURATION_DELAY = Metric(
    name="braid_reconfiguration_delay_seconds",
    kind="histogram",
    about="Seconds from requests of reconfigurations until all jobs had switched.",
)
MOVING = _gauge("moving", "1 while tasks move between jobs, else 0.")

# Hosts.
HOST_UP = _gauge("host_up", "1 if a host reports that it is alive, else 0.", "host")
HOST_SEEN = _gauge("host_seen_timestamp_seconds", "Time of a host's latest report.", "host")
HOST_CORES = _gauge("host_cores", "Cores that a host has.", "host")
HOST_JOBS = _gauge("host_jobs", "Jobs that a host runs.", "host")
HOST_CPU = _counter("host_cpu_seconds", "CPU that a host took, by process.", "host", "part")
HOST_DROPPED = _counter("host_messages_dropped", "Messages to a host that the broker accepted and dropped.", "host")
HOST_PASSED_OVER = _counter(
    "host_messages_passed_over", "Messages that a host did not ask for, or failed to process.", "host", "why"
)
SPOOLS = _gauge("host_spools", "Spools that a host supplies or reads.", "host", "state")
SPOOL_BYTES = _gauge("host_spool_bytes", "Bytes in the spools that a host owns.", "host")

# Machines.
MACHINE_UP = _gauge("machine_up", "1 if a machine reports that it is alive, else 0.", "machine")
MACHINE_LOAD = _gauge("machine_load", "Cores that the jobs of a machine's hosts took in the last minute.", "machine")
MACHINE_HOSTS = _gauge("machine_hosts", "Hosts that a machine carries.", "machine")
MACHINES_WAITING = _gauge("machines_waiting", "Machines that wait until an operator admits them.")
UNDER_REPLICATED = _gauge("hosts_under_replicated", "Hosts with fewer copies than the setting `replicas` asks for.")
WITHOUT_STANDBY = _gauge("hosts_without_standby", "Hosts that no other machine could take over now.")
HOST_STORED = _gauge("host_stored", "1 if all that others have seen of a host is in its store, else 0.", "host")
HOST_BEHIND = _gauge("host_behind_bytes", "Bytes of a host that its slowest peer does not have yet.", "host")

# Jobs.
JOB_COUNT = _gauge(
    "jobs", "Wanted jobs, by the state that their hosts report; `awaited` before the first report.", "state"
)
JOB_UP = _gauge("job_up", "1 if a job runs, else 0.", "job_id", "host")
JOB_TASKS = _gauge(
    "job_tasks", "Tasks in a job: active ones, and paused ones that only keep their state.", "job_id", "state"
)
JOB_SHARDS = _gauge("job_shards", "Tasks that a batch of a job runs as, by its newest plan.", "job_id")
JOB_SHARD_CORES = _gauge(
    "job_shard_cores", "Cores that the tasks of a shard took in the last minute.", "job_id", "shard"
)
JOB_HOT_GROUP = _gauge(
    "job_hot_group_part",
    "Part of the events divided by key that one key group has, if that is more than a shard's even share.",
    "job_id",
)
JOB_FAILING = _gauge("job_tasks_failing", "Tasks of a job that always fail.", "job_id")
JOB_RESTARTS = _counter("job_restarts", "Restarts of a job.", "job_id")
JOB_BATCHES = _counter("job_batches", "Batches that a job did.", "job_id")
JOB_BATCH_SECONDS = _gauge("job_batch_seconds", "Seconds that the latest batches of a job took.", "job_id", "quantile")
JOB_IN = _counter("job_events_in", "Events that a job took from its streams.", "job_id")
JOB_OUT = _counter("job_events_out", "Events that left a job, to tenants and to other jobs.", "job_id")
JOB_LEFT_OUT = _counter(
    "job_events_left_out",
    "Events that formats and topics of a job's outputs could not say since it started.",
    "job_id",
)
JOB_LAG = _gauge("job_lag_events", "Events that wait for a job in its spools.", "job_id")
JOB_LAG_SECONDS = _gauge("job_lag_seconds", "Seconds that the oldest waiting event has waited.", "job_id")
JOB_LATENCY = _gauge(
    "job_latency_seconds", "Ages in seconds of the latest outputs of a job when they left.", "job_id", "quantile"
)

# Tasks.
TYPE_CPU = _counter("task_cpu_seconds", "CPU that tasks took.", "type")
TYPE_IN = _counter("task_events_in", "Events that tasks took.", "type")
TYPE_OUT = _counter("task_events_out", "Events that tasks emitted.", "type")
TYPE_DEAD = _counter("task_events_dead", "Events that tasks could not process.", "type")
_OF_INSTANCE = ("instance_id", "type", "job_id")
INSTANCE_CPU = _counter("instance_cpu_seconds", "CPU that a task took since its job started.", *_OF_INSTANCE)
INSTANCE_IN = _counter("instance_events_in", "Events that a task took since its job started.", *_OF_INSTANCE)
INSTANCE_OUT = _counter("instance_events_out", "Events that a task emitted since its job started.", *_OF_INSTANCE)
INSTANCE_DEAD = _counter(
    "instance_events_dead", "Events that a task could not process since its job started.", *_OF_INSTANCE
)
INSTANCE_STATE = _gauge(
    "instance_state_bytes", "Size of a task's state, if it has 10,000 bytes or more.", *_OF_INSTANCE
)

# Streams between jobs, and into them.
BRIDGES = _gauge("bridges", "Bridges: streams between jobs, counted once for each reading job.")
BRIDGED = _gauge("bridged_streams", "Streams that are forwarded between jobs.")
STREAM_IN = _counter("stream_events", "Events that a job took from a stream since it started.", "job_id", "stream")
STREAM_LAG = _gauge("stream_lag_events", "Events of a stream that wait for a job.", "job_id", "stream")

# Sources.
SOURCE_ACCEPTED = _counter("source_events_accepted", "Events of a source that its host accepted.", "stream")
SOURCE_REJECTED = _counter("source_events_rejected", "Events of a source that did not fit its schema.", "stream")
SOURCE_CONNECTED = _gauge(
    "source_connected", "1 if a source is connected to what it takes events from outside Braid, else 0.", "stream"
)

# Savings.
MEASURED_CORES = _gauge("measured_cores", "Cores that everything took in the last metered minutes.")
OVERHEAD = _gauge("overhead_cores", "The part of the measured cores that belongs to no dataflow.")
ALONE = _gauge("alone_cores", "Cores that separate execution would have taken, `launched` or `packed`.", "how")
SAVED = _gauge("saved_cores", "Cores saved by sharing tasks, and by packing them into few jobs.", "by")

# Lineage, where it is asked for.
LINEAGE_EVENTS = _counter(
    "lineage_events", "Events of lineage: `sent`, `refused` by the receiver, or `missed`, as they were over.", "outcome"
)
LINEAGE_FAILURES = _counter("lineage_failures", "Attempts to send lineage that failed, and are repeated.")
LINEAGE_BEHIND = _gauge("lineage_behind_seconds", "Seconds for which lineage has waited for its receiver.")

LEFT_OUT = _gauge(
    "left_out",
    "Jobs, instances, streams and sources without samples of their own, because there are too many.",
    "of",
)

METRICS: Sequence[Metric] = tuple(metric for metric in globals().values() if isinstance(metric, Metric))
"""All metrics that operators read, in this order."""

# What a tenant reads, of its own dataflows.
DATAFLOW_STATE = _gauge("dataflow_state", "1 for the state that a dataflow is in.", "dataflow", "name", "state")
DATAFLOW_IN = _gauge(
    "dataflow_events_in_per_second", "Events of its sources that a dataflow took in a second.", "dataflow", "name"
)
DATAFLOW_OUT = _gauge(
    "dataflow_events_out_per_second", "Events that reached a dataflow's outputs in a second.", "dataflow", "name"
)
DATAFLOW_DEAD = _gauge(
    "dataflow_dead_per_second", "Events that a dataflow's tasks could not process in a second.", "dataflow", "name"
)
DATAFLOW_WAITING = _gauge("dataflow_waiting_events", "Events that wait for a dataflow.", "dataflow", "name")
DATAFLOW_LATENCY = _gauge(
    "dataflow_latency_seconds",
    "Ages in seconds of events at a dataflow's slowest output.",
    "dataflow",
    "name",
    "quantile",
)
DATAFLOW_CORES = _gauge("dataflow_cores", "A dataflow's share of the cores.", "dataflow", "name")
DATAFLOW_ALONE = _gauge(
    "dataflow_alone_cores", "Cores that a dataflow would likely have taken without sharing.", "dataflow", "name"
)
DATAFLOWS_LEFT_OUT = _gauge("dataflows_left_out", "1 if there are more dataflows than have samples, else 0.")

TENANT_METRICS: Sequence[Metric] = tuple(
    metric for metric in globals().values() if isinstance(metric, Metric) and metric not in METRICS
)
"""All metrics that tenants read, in this order."""


_BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""The buckets in seconds; few, because each makes a series for each route."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_OTHER = "other"
"""The label for unknown methods and paths, which clients can make up without limit."""


class RequestCounts:
    """Counts requests of one app. Thread-safe."""

    def __init__(self) -> None:
        # Without a registry, so that each app has its own counters.
        self._answers = Counter(REQUESTS.name, REQUESTS.about, REQUESTS.labels, registry=None)
        self._seconds = Histogram(
            REQUEST_SECONDS.name, REQUEST_SECONDS.about, REQUEST_SECONDS.labels, registry=None, buckets=_BOUNDS
        )

    def count(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count an answered request; the route is a path with parameters in braces, None for an unknown path."""
        path = route or _OTHER
        self._answers.labels(method if method in _METHODS else _OTHER, path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def families(self) -> Iterator[Family]:
        """Yield the metrics."""
        for family in chain(self._answers.collect(), self._seconds.collect()):
            # The times of creation would double the number of samples.
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
