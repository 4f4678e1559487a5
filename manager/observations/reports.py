"""The latest reports of hosts, jobs and machines, as records."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol

from pydantic import TypeAdapter

from bridge.spools.spool import SpoolState
from engine.delivery.publisher import LeftOutSoFar
from engine.host.spools import UNSUBSCRIBED, Received
from engine.machines.reports import signed_content
from ring.fleet import MachineSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatus:
    """A machine by its latest status, with what nobody but the carriers of hosts may know."""

    seen: MachineSeen
    boot: str = ""
    """The id of its process."""
    key: str = ""
    """The public key with which it signed the status; empty if it did not."""
    secret: str = field(default="", repr=False)
    """The token with which carriers that send it copies authenticate."""


_MACHINE = TypeAdapter(MachineStatus)
read_object = TypeAdapter(dict[str, Any]).validate_json
"""Parses an object of JSON; raises ValueError."""


def read_machine_status(machine: str, payload: bytes) -> MachineStatus:
    """Parse the status of a machine; raises ValueError, also if another one has signed it."""
    content: Mapping[str, Any] = read_object(payload)
    if content.get("key"):
        content = signed_content(payload)
    return _MACHINE.validate_python({**content, "seen": {**content, "name": machine}})


_SPOOL_STATES = frozenset(SpoolState)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMeasured:
    """A job's progress in one stream at one moment; made from its metrics."""

    entered: int = 0
    lag_events: int = 0
    lag_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMeasured:
    """An instance's counters at one moment; made from the metrics of its job."""

    cpu_ns: int = 0
    taken: int = 0
    emitted: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A job's counters at one moment, counted from its start; made from its metrics."""

    at: float = 0.0
    """The moment, in seconds of the listener's clock."""
    run: int = 0
    """The number of its starts, this one included."""
    age: float | None = None
    """Seconds since that start; None if the host does not report it."""
    batch: int = -1
    instances: Mapping[int, InstanceMeasured] = field(default_factory=dict)
    states: Mapping[int, int] | None = None
    """The bytes of each instance's state after the batch, but for small ones; None before the host reports them."""
    streams: Mapping[str, StreamMeasured] = field(default_factory=dict)
    left: int = 0
    """Events that left the job."""
    shards: Mapping[int, int] = field(default_factory=dict)
    """The nanoseconds of CPU of each shard, over the batches that had several."""
    groups: Mapping[int, int] = field(default_factory=dict)
    """The events of each key group that these batches took."""
    batch_seconds: Mapping[str, float] = field(default_factory=dict)
    """Durations of its latest batches, as percentiles."""
    latency_seconds: Mapping[str, float] = field(default_factory=dict)
    """Ages of its latest outputs when they left, as percentiles."""
    outputs: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """The ages of the outputs of each sink, by dataflow and sink."""
    left_out: Mapping[str, Mapping[str, LeftOutSoFar]] = field(default_factory=dict)
    """The outputs that left out events, by dataflow and sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """The part of a job's status that stays as its host says it."""

    host: str
    state: str
    trouble: str = ""
    back_off: float | None = None
    """Seconds until a job that died is started again."""
    version: int = 0
    """The version of the latest plan that it has logged."""
    term: int = 0
    in_effect: int = 0
    """The version of the plan that its last batch ran."""
    batch: int = -1
    published: int = 0
    """The first batch whose outputs may not all be sent."""
    leaving: int | None = None
    """The oldest version of a plan whose outputs may still leave, even after a crash; None if that is not reported."""
    positions: Mapping[str, int] = field(default_factory=dict)
    """How far it has read its streams, with that batch."""
    handed_on: int | None = None
    """The first batch of which jobs that read on may lack something in their spools; None if that is not reported."""
    given_up: frozenset[str] = frozenset()
    """The cuts that it gave up waiting for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen(JobReport):
    """The latest report of a job; made from its status."""

    job: str
    failed: Mapping[int, str] = field(default_factory=dict)
    """The reason for each failed instance."""
    stops: Mapping[int, float] = field(default_factory=dict)
    """For each of these that asked for too much the moment of its retry, which is another one after each stop."""
    cuts: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The instances that have passed each cut whose states the job keeps."""
    cut_positions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The positions of each cut in the streams of these instances."""
    cut_batches: Mapping[str, int] = field(default_factory=dict)
    """The batch after which each cut lies."""
    refused: str = ""
    """The reason why its newest plan was refused, if it was."""
    restarts: int = 0
    measured: tuple[Measured, ...] = ()
    """Its counters at the latest moments, oldest first; kept and read by `manager.observations.figures`."""
    seen: datetime


@dataclass(frozen=True, kw_only=True)
class HostSeen:
    """The latest report of a host; made from its status."""

    host: str
    alive: bool
    jobs: tuple[str, ...] = ()
    spools: Mapping[str, str] = field(default_factory=dict)
    spool_bytes: int | None = None
    """Bytes in the spools that it owns; None if the host does not report it."""
    sources: Mapping[str, Received] = field(default_factory=dict)
    """For the stream of each source whose spool it fills what it has received."""
    dropped: int = 0
    passed_over: Mapping[str, int] = field(default_factory=dict)
    """Messages that it passed over, counted by reason."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    cores: float | None = None
    """Tasks that its Spark runs at once, on the executors that are there; None if the host does not report it."""
    tags: frozenset[str] = frozenset()
    """The tags of its own, beside those of its image."""
    image: str = ""
    """The image that it says it was made from."""
    types: frozenset[str] | None = None
    """The task types that it has implementations of; None if the host does not report them."""
    release: str = ""
    """Its release of Braid."""
    root: str = ""
    """The id of the root that its files are in; hosts with equal ones share their files."""
    machine: str = ""
    """The machine that carries it; empty if it does not say."""
    seen: datetime

    @cached_property
    def supplied(self) -> frozenset[str]:
        """The streams that it receives or generates."""
        return frozenset(stream for stream, state in self.spools.items() if state in _SPOOL_STATES)

    @cached_property
    def unconnected(self) -> frozenset[str]:
        """The streams of sources outside Braid that it has never been connected to.

        That is the matter of their owners: a job that reads them runs for others, too.
        """
        return frozenset(
            stream
            for stream, received in self.sources.items()
            if received.link is not None and self.spools.get(stream) == UNSUBSCRIBED
        )

    def after(self, before: "HostSeen | None") -> "HostSeen":
        """This report, given the one before: the files of a host that is away stay where they are, and its counts."""
        if self.alive or before is None:
            return self
        return replace(self, root=self.root or before.root, sources=before.sources)


def received_of(stream: str, hosts: Iterable["HostSeen"]) -> Received | None:
    """What was received of a source, by the live host that has received it longest; None if none receives it.

    Hosts without common files all receive the same. What a host that is away had said counts last.
    """
    receiving = (host for host in hosts if stream in host.sources)
    best = min(receiving, key=lambda host: (not host.alive, host.sources[stream].since), default=None)
    return None if best is None else best.sources[stream]


class Observations(Protocol):
    """The latest reports, readable from any thread; the listener, or a test."""

    def job(self, job: str) -> JobSeen | None:
        """Return the latest report of a job, if there is one."""

    def hosts(self) -> tuple[HostSeen, ...]:
        """Return the latest report of every host, ordered by name."""

    def misses_machines(self) -> bool:
        """Return whether a machine may be alive that was not heard, since it was not listened for long enough."""

    def machines(self) -> Mapping[str, tuple[MachineStatus, ...]]:
        """Return the latest statuses under the name of every machine, the likeliest first."""
