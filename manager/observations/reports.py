"""What was seen of hosts and jobs: what they said last, as whoever listens to them keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMeasured:
    """What a job had taken of a stream by one moment, and how far it was behind; made from its metrics."""

    entered: int = 0
    lag_events: int = 0
    lag_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMeasured:
    """What an instance had done by one moment; made from the metrics of its job."""

    cpu_ns: int = 0
    taken: int = 0
    emitted: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a job had done by one moment since it was started; made from its metrics."""

    at: float = 0.0
    """When that was heard, in seconds of the listener's clock."""
    run: int = 0
    """Which start of it that was."""
    age: float | None = None
    """How many seconds ago that was; None where its host does not say."""
    batch: int = -1
    instances: Mapping[int, InstanceMeasured] = field(default_factory=dict)
    streams: Mapping[str, StreamMeasured] = field(default_factory=dict)
    left: int = 0
    """How many events had left it."""
    batch_seconds: Mapping[str, float] = field(default_factory=dict)
    """How long its latest batches took, as percentiles."""
    latency_seconds: Mapping[str, float] = field(default_factory=dict)
    """How old its latest outputs were when they left, as percentiles."""
    outputs: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """The same of each dataflow's sinks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """What a host said last of a job; made from its status."""

    job: str
    host: str
    state: str
    trouble: str = ""
    back_off: float | None = None
    """How many seconds after it died it is started again, where it died."""
    version: int = 0
    """The latest plan that it has logged."""
    term: int = 0
    in_effect: int = 0
    """The plan that its last batch ran."""
    batch: int = -1
    failed: Mapping[int, str] = field(default_factory=dict)
    """For each failed instance the reason."""
    cuts: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """For each cut whose states it keeps the instances that it has passed."""
    cut_positions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """And where it lies in the streams of these."""
    cut_batches: Mapping[str, int] = field(default_factory=dict)
    """And after which of its batches it lies."""
    published: int = 0
    """The first batch of which something may still have to be sent."""
    given_up: frozenset[str] = frozenset()
    """The cuts that it waited for in vain."""
    refused: str = ""
    """Why its newest plan was refused, if it was."""
    restarts: int = 0
    """How often it was started again."""
    measured: tuple[Measured, ...] = ()
    """What it had done by the latest moments, as `manager.observations.figures` keeps and reads them; oldest first."""
    seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeen:
    """What a host said last of itself; made from its status."""

    host: str
    alive: bool
    jobs: tuple[str, ...] = ()
    spools: Mapping[str, str] = field(default_factory=dict)
    spool_bytes: int | None = None
    """How many bytes the spools that it owns hold; None where it does not say."""
    dropped: int = 0
    passed_over: Mapping[str, int] = field(default_factory=dict)
    """How many messages it passed over, by why."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    cores: float | None = None
    """How many tasks its Spark runs at once; None where it does not say."""
    tags: frozenset[str] = frozenset()
    """What it offers."""
    release: str = ""
    """Which Braid it runs."""
    seen: datetime


class Observations(Protocol):
    """Who listens to the hosts; the reconciler, or a test. From any thread."""

    def job(self, job: str) -> JobSeen | None:
        """What was seen last of a job, if anything."""

    def hosts(self) -> tuple[HostSeen, ...]:
        """What was seen last of every host, by name."""
