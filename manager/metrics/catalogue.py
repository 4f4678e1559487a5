"""The table of the metrics: what each is called, what it says, and by what it is told apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric, of which there may be many samples; listed in `METRICS`."""

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
LEADER = _gauge("leader", "Whether this manager leads (1) or not (0); only who leads tells of more than of itself.")
READY = _gauge("ready", "Whether this manager leads and hosts have taken up what was committed.")
COMMITS = _counter("commits", "Changes that were committed, by whichever manager.")
REQUESTS = _counter("http_requests", "Requests that were answered.", "method", "route", "status")
REQUEST_SECONDS = Metric(
    name="braid_http_request_duration_seconds",
    kind="histogram",
    labels=("route",),
    about="How long requests took until their answers began.",
)
TENANT_COUNT = _gauge("tenants", "Tenants that were admitted.")
SOURCE_COUNT = _gauge("sources", "Sources that are registered.")
DATAFLOW_COUNT = _gauge("dataflows", "Dataflows that were submitted and not removed.", "state")
TASKS_SUBMITTED = _gauge("tasks_submitted", "Tasks of these dataflows, as they were submitted.")
RUNNING = _gauge("tasks_running", "Tasks that run for them, each of which may serve many.", "type")

# The reconciler, and what it hears.
CONNECTED = _gauge("broker_connected", "Whether the manager has a connection to the broker and heard all that it kept.")
UNREAD = _counter("broker_messages_unread", "Messages over the broker that the manager could not read.")
PASSED_OVER = _counter(
    "broker_messages_passed_over", "Messages that nobody in the manager asked for, or that failed in its hands.", "why"
)
RECONCILER_LOOKS = _counter("reconciler_looks", "How often the reconciler looked at what is wanted and what is seen.")
RECONCILER_FAILURES = _counter("reconciler_failures", "Looks of the reconciler that failed.")
RECONCILER_STEPS = _counter("reconciler_steps", "What the reconciler told hosts to do.", "step")
MOVE_TURNS = _counter("moves", "Turns that moves of tasks from job to job took; `begun` ends one well.", "event")
MOVING = _gauge("moving", "Whether tasks go from job to job right now.")

# Hosts.
HOST_UP = _gauge("host_up", "Whether a host says that it lives.", "host")
HOST_SEEN = _gauge("host_seen_timestamp_seconds", "When a host said something last.", "host")
HOST_CORES = _gauge("host_cores", "How many tasks of Spark a host runs at once.", "host")
HOST_JOBS = _gauge("host_jobs", "Jobs that a host runs.", "host")
HOST_CPU = _counter("host_cpu_seconds", "CPU that a host took, by what took it.", "host", "part")
HOST_DROPPED = _counter("host_messages_dropped", "Messages to a host that its broker had accepted and dropped.", "host")
HOST_PASSED_OVER = _counter(
    "host_messages_passed_over", "Messages that nobody in a host asked for, or that failed in its hands.", "host", "why"
)
SPOOLS = _gauge("host_spools", "Spools that a host supplies or reads.", "host", "state")
SPOOL_BYTES = _gauge("host_spool_bytes", "Bytes in the spools that a host owns.", "host")

# Jobs.
JOB_COUNT = _gauge(
    "jobs", "Jobs that shall run, by what their hosts say; `awaited` where none has said anything.", "state"
)
JOB_UP = _gauge("job_up", "Whether a job runs.", "job_id", "host")
JOB_TASKS = _gauge(
    "job_tasks", "Tasks in a job: those that work, and those that only keep their state.", "job_id", "state"
)
JOB_FAILING = _gauge("job_tasks_failing", "Tasks of a job that do nothing but fail.", "job_id")
JOB_RESTARTS = _counter("job_restarts", "How often a job was started again.", "job_id")
JOB_BATCHES = _counter("job_batches", "Batches that a job did.", "job_id")
JOB_BATCH_SECONDS = _gauge("job_batch_seconds", "How long the latest batches of a job took.", "job_id", "quantile")
JOB_IN = _counter("job_events_in", "Events that a job took from its streams.", "job_id")
JOB_OUT = _counter("job_events_out", "Events that left a job, to tenants and to other jobs.", "job_id")
JOB_LAG = _gauge("job_lag_events", "Events that wait for a job in its spools.", "job_id")
JOB_LAG_SECONDS = _gauge("job_lag_seconds", "How long the oldest of them has waited.", "job_id")
JOB_LATENCY = _gauge(
    "job_latency_seconds", "How old the latest outputs of a job were when they left.", "job_id", "quantile"
)

# Tasks.
TYPE_CPU = _counter("task_cpu_seconds", "CPU that tasks took.", "type")
TYPE_IN = _counter("task_events_in", "Events that tasks took.", "type")
TYPE_OUT = _counter("task_events_out", "Events that tasks emitted.", "type")
TYPE_DEAD = _counter("task_events_dead", "Events that tasks could not take.", "type")
INSTANCE_CPU = _counter(
    "instance_cpu_seconds", "CPU that a task took since its job began.", "instance_id", "type", "job_id"
)
INSTANCE_IN = _counter(
    "instance_events_in", "Events that a task took since its job began.", "instance_id", "type", "job_id"
)
INSTANCE_OUT = _counter(
    "instance_events_out", "Events that a task emitted since its job began.", "instance_id", "type", "job_id"
)
INSTANCE_DEAD = _counter(
    "instance_events_dead", "Events that a task could not take since its job began.", "instance_id", "type", "job_id"
)

# Streams between jobs, and into them.
BRIDGES = _gauge("bridges", "Bridges: streams between jobs, counted once for each job that reads one.")
BRIDGED = _gauge("bridged_streams", "Streams that are forwarded from job to job.")
STREAM_IN = _counter("stream_events", "Events that a job took from a stream since it began.", "job_id", "stream")
STREAM_LAG = _gauge("stream_lag_events", "Events of a stream that wait for a job.", "job_id", "stream")

# Savings.
MEASURED_CORES = _gauge("measured_cores", "Cores that everything took, over the last minutes that were metered.")
OVERHEAD = _gauge("overhead_cores", "Of the measured cores those that belong to no dataflow.")
ALONE = _gauge("alone_cores", "Cores that separate execution would have taken, as `how` has it.", "how")
SAVED = _gauge("saved_cores", "Cores that were saved, `by` sharing tasks and by packing them into few jobs.", "by")

LEFT_OUT = _gauge("left_out", "What has no samples of its own, because there are too many.", "of")

METRICS: Sequence[Metric] = tuple(each for each in globals().values() if isinstance(each, Metric))
"""All of them, in this order."""
