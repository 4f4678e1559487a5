"""What runs, as operators see it: running tasks and DAGs, jobs, streams between them, and hosts."""

from datetime import datetime
from typing import Literal

from manager.answers.base import Answer


class RunningTaskAnswer(Answer):
    """A running or paused instance."""

    instance: int
    type: str
    job: str
    state: Literal["active", "paused", "failed"]
    inputs: tuple[int, ...]
    dataflows: int
    since: datetime
    dag: int | None
    failed: str = ""
    """Why its events are parked, where it failed."""
    cpu_seconds: float | None = None
    """CPU that it took since its job was last started; this and what follows is None where nothing was heard of it."""
    events_in: int | None = None
    """How many events it took since then."""
    events_out: int | None = None
    """How many it emitted."""
    events_dead: int | None = None
    """How many it could not take."""


class RunningDagAnswer(Answer):
    """A running DAG."""

    id: int
    tasks: int
    dataflows: int
    jobs: tuple[str, ...]


class JobAnswer(Answer):
    """A job: what is wanted of it, and what its host says of it."""

    job: str
    host: str
    version: int
    in_effect: int
    state: str
    trouble: str
    active: int
    paused: int
    batch: int
    batch_seconds_p50: float | None = None
    """How long its batches of the last minute took, in the median; None where there was none."""
    batch_seconds_p99: float | None = None
    """How long all but one in a hundred of them took at most."""
    events_in_per_second: float | None = None
    """How many events it took, over the last minute; None until that is known."""
    events_out_per_second: float | None = None
    """How many left it: for tenants, or for other jobs."""
    lag_events: int | None = None
    """How many events wait for it in its spools."""
    lag_seconds: float | None = None
    """How long the oldest of them has been waiting."""
    latency_seconds_p50: float | None = None
    """How old its outputs of the last minute were when they left, in the median: since Braid received their cause."""
    latency_seconds_p99: float | None = None
    """How old all but one in a hundred of them were at most."""
    restarts: int = 0
    """How often it was started again."""
    seen: datetime | None = None
    """When its host last said something of it."""


class StreamAnswer(Answer):
    """A derived stream that is forwarded over a bridge."""

    instance: int
    port: str
    producer: str
    consumers: tuple[str, ...]


class HostAnswer(Answer):
    """A host."""

    name: str
    alive: bool
    jobs: tuple[str, ...]
    spools: dict[str, str]
    dropped: int
    cpu: dict[str, float]
    cores: float | None = None
    """How many tasks its Spark runs at once, as it says."""
    tags: tuple[str, ...] = ()
    """What it offers to tasks that need it."""
    release: str = ""
    """Which Braid it runs."""
    seen: datetime | None
