"""The plan: the versioned list of the instances that a job executes, and the entries of a job's log of plans.

The manager makes plans. A host logs each as the next entry of its job before any offset names it. To pause, graft,
move, forward or stop is just another plan. A source has no slot: the stream that enters is its output.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import networkx as nx
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from bridge import Rate, Replay, Timer
from dags import Kind, Schema
from dags.dataflow import DividedBy
from dags.message_formats import JSON, MessageFormat, is_json
from dags.outputs import OutputSettings
from dags.source_topics import source_topic, why_no_source_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """Raw events of a schema that are published on a topic, or on all that its wildcards match."""

    kind: Literal["topic"] = "topic"
    topic: str
    """As its owner writes it; `dags.source_topics` says what its wildcards mean."""
    fields: Mapping[str, Kind] = field(default_factory=dict)
    retained: bool = False
    """Whether what the topic retains when it is first read is an event of it too."""
    format: Annotated[MessageFormat, Field(exclude_if=is_json)] = JSON
    """The format of the messages. In a plan, none stands for JSON."""

    @property
    def schema(self) -> Schema:
        """The declared fields. All others stay together in one."""
        return Schema.of(self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridged:
    """Events that another job forwards from the port that the ingress stands for."""

    kind: Literal["bridge"] = "bridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorSupply:
    """Events that a connector takes from outside Braid."""

    kind: Literal["connector"] = "connector"
    connector: str
    """The connector as JSON, with the owner of what it names, and without its format."""
    fields: Mapping[str, Kind] = field(default_factory=dict)
    format: Annotated[MessageFormat, Field(exclude_if=is_json)] = JSON
    """The format of what it takes. In a plan, none stands for JSON."""

    @property
    def schema(self) -> Schema:
        """The declared fields. All others stay together in one."""
        return Schema.of(self.fields)


class _Generated(ABC):
    """Events that the host makes itself, by a generator."""

    __slots__ = ()

    @property
    @abstractmethod
    def generator(self) -> Rate | Timer | Replay: ...

    @property
    def schema(self) -> Schema:
        return self.generator.schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated(_Generated):
    """Numbered events at a steady rate."""

    kind: Literal["rate"] = "rate"
    per_second: float

    @property
    def generator(self) -> Rate:  # noqa: D102 - as the base class says
        return Rate(per_second=self.per_second)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed(_Generated):
    """One event at every interval."""

    kind: Literal["timer"] = "timer"
    seconds: float

    @property
    def generator(self) -> Timer:  # noqa: D102 - as the base class says
        return Timer(seconds=self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedFile(_Generated):
    """The events of a file that the host can read."""

    kind: Literal["replay"] = "replay"
    path: str
    fields: Mapping[str, Kind]
    time_field: str | None = None
    speed: float = 1.0
    per_second: float | None = None
    repeat: bool = False

    @property
    def generator(self) -> Replay:  # noqa: D102 - as the base class says
        return Replay(
            path=Path(self.path),
            schema=Schema.of(self.fields),
            time_field=self.time_field,
            speed=self.speed,
            per_second=self.per_second,
            repeat=self.repeat,
        )


Supply: TypeAlias = Annotated[
    Subscribed | Bridged | ConnectorSupply | Rated | Timed | ReplayedFile, Field(discriminator="kind")
]


def declaring(supply: Supply, fields: Mapping[str, Kind]) -> Supply:
    """A supply with other declared fields, if they can change: files and generators keep theirs.

    >>> declaring(Timed(seconds=1.0), {})
    Timed(kind='timer', seconds=1.0)
    """
    return replace(supply, fields=dict(fields)) if isinstance(supply, Subscribed | ConnectorSupply) else supply


def unfit(supply: Supply) -> str:
    """Why the supply is impossible; empty if it is possible."""
    match supply:
        case Subscribed():
            return _why_not_subscribed(supply)
        case Rated() | Timed() | ReplayedFile():
            try:
                supply.generator  # noqa: B018 - raises if it is impossible
            except ValueError as error:
                return str(error)
        case Bridged() | ConnectorSupply():
            # Of what a connector takes its own record knows more.
            pass
    return ""


def _why_not_subscribed(supply: Subscribed) -> str:
    topic = source_topic(supply.topic)
    if not supply.topic or "\0" in supply.topic or supply.topic.startswith(("braid/", "$")):
        return f"{supply.topic!r} is not a topic for raw events; use one that does not begin with braid/ or $"
    if topic.is_plain:
        return ""
    if why := why_no_source_topic(supply.topic):
        return f"the topic {supply.topic!r} {why}"
    if supply.retained:
        return f"the topic {supply.topic!r} has wildcards, so it retains no single message; leave `retained` out"
    for name in topic.fields:
        if supply.fields.get(name) is not Kind.STRING:
            return f"the field {name!r} is made of a level of the topic, so its kind is string; declare it so"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerTask:
    """The task that made a state."""

    type: str
    version: int = 1
    config: str = "{}"
    """As in a slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """The change of one instance's state, once, when the plan takes effect."""

    instance: int
    source: int | None = None
    """The instance of the same job with whose state and numbers it begins; None for its own."""
    former: FormerTask | None = None
    """The task that made the state, if that is transformed; None to take the state as it is."""
    fresh: bool = False
    """The state is dropped. The numbers of its ports go on all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDivision:
    """The shards of one stream's events."""

    by: DividedBy
    key: tuple[str, ...] = ()
    """The fields of the key, if it is divided by key."""
    shard: int = 0
    """The shard of all its events, if it is not divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The shards of a plan's events and states; made by `engine.job.plan_log.divided`, kept with the plan's entry."""

    shards: int = 1
    groups: tuple[int, ...] = ()
    """The shard of each key group; empty if there is one shard."""
    streams: Mapping[str, StreamDivision] = field(default_factory=dict)
    keyed: frozenset[int] = frozenset()
    """The instances whose state is divided by key group."""
    whole: Mapping[int, int] = field(default_factory=dict)
    """The shard of each other instance."""

    def owner(self, instance: int, group: int) -> int:
        """The shard that has a key group of an instance's state."""
        return self.whole.get(instance, self.groups[group]) if self.groups else 0

    def moves_nothing(self, later: "Division") -> bool:
        """Whether every state that this division knows has the same shard in a later one, if it is there still."""
        return self is later or (
            self.groups == later.groups
            and all(later.whole.get(instance, shard) == shard for instance, shard in self.whole.items())
            and self.keyed.isdisjoint(later.whole)
            and later.keyed.isdisjoint(self.whole)
        )


UNDIVIDED = Division()
SHORTEST_BOUND = 0.5
"""Seconds that a batch may take if the pace is less."""


class SlotState(StrEnum):
    """The state of an instance: active; paused, because nothing needs it; or failed, although it is needed."""

    ACTIVE = "active"
    PAUSED = "paused"
    FAILED = "failed"


class Port(NamedTuple):
    """An output port of an instance, where a stream leaves."""

    instance: int
    port: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A stream into a slot. A slot takes the events of one cause in the order of its edges."""

    port: str = "in"
    parent: int
    parent_port: str = "out"
    times: int = 1
    """The number of times that each event arrives."""

    @property
    def origin(self) -> Port:
        """The port that the stream comes from."""
        return Port(self.parent, self.parent_port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One instance in a plan, with its task type and config."""

    instance: int
    type: str
    version: int = 1
    config: str = "{}"
    """The canonical config, as JSON."""
    inputs: tuple[Edge, ...]
    json_fields: tuple[tuple[str, str], ...] = ()
    """Input ports with fields that hold JSON. Nothing else distinguishes these from text."""
    state: SlotState = SlotState.ACTIVE
    reason: str = ""
    """Why it failed. If it is active, it is retried, and no event has passed through it since."""
    retry: float | None = None
    """The time when a host retries a failed instance, or did, in seconds of the machine's monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingress:
    """A stream that enters the job by its spool. Inside the job it is the output of an instance that runs elsewhere."""

    stream: str
    instance: int
    port: str = "out"
    supply: Supply
    start: int | None = None
    """The position to begin at, unless the job reads the stream already. By default, the cut from which an instance is
    restored, or the spool's head."""
    since: float | None = None
    """Begin with the events spooled since this time (seconds since 1970) and still kept, instead of at the head."""

    @property
    def origin(self) -> Port:
        """The port that it stands for inside the job."""
        return Port(self.instance, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A stream that another job reads over a bridge."""

    instance: int
    port: str = "out"
    epoch: int = 1
    """Incremented by each job that takes over the instance."""

    @property
    def origin(self) -> Port:
        """The port whose events are forwarded."""
        return Port(self.instance, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The events of a sink, delivered to one dataflow's own topic, and besides as its output is set."""

    instance: int
    tenant: str
    dataflow: str
    sink: str
    epoch: int = 1
    output: OutputSettings | None = None

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Plans with nothing set are written as before there were settings."""
        written: dict[str, Any] = handler(self)
        if self.output is None:
            del written["output"]
        return written

    @property
    def origin(self) -> Port:
        """The sink's port whose events are delivered."""
        return Port(self.instance, "out")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateImport:
    """State that an instance brings from another job, as of a cut there.

    If the cut is the job's own, the instance is restored: one that left at the cut continues from there, with its
    streams; one that is still there continues as it is.
    """

    instance: int
    job: str
    cut: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Events of a dead letter that an instance takes again: once, in the first batch of the plan."""

    id: int
    """Unique. Later plans may repeat the feed, which has no effect."""
    instance: int
    port: str
    events: str


SWITCH_MARKERS = "switch-"
"""The beginning of the names of markers of switches, and of no others."""


def is_switch(marker: str) -> bool:
    """Whether a marker is that of a switch, and not of a cut."""
    return marker.startswith(SWITCH_MARKERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The switch to a plan at a consistent place, when several jobs switch one after the other."""

    marker: str
    awaits: tuple[str, ...] = ()
    """The streams in which the marker comes. The plan takes effect where it lies in all of them; if none, at once."""
    announces: tuple[Port, ...] = ()
    """The forwarded streams that carry the marker on, from the place where the plan takes effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what a job may use."""

    batch_bytes: int = 64_000_000
    """The most event data in one batch."""
    spool_bytes: int = 4_000_000_000
    """The most that each of its spools keeps."""
    batch_events: int = 1_000_000
    """The most events in one batch, for each shard: small events are many in few bytes."""
    state_bytes: int = 256_000_000
    """The most that the state of one task may have, in each shard."""
    task_seconds: float = 5.0
    """The most CPU that one task may take in a batch, for each second of the pace."""
    emitted_bytes: int = 1_000_000_000
    """The most that one task may emit in a batch; what is left of its events becomes dead letters."""
    hang: float = 60.0
    """Seconds after which a task counts as hung."""
    memory: int = 8_000_000_000
    """The most memory of its worker, in bytes."""

    @property
    def job_state_bytes(self) -> int:
        """The most that the states of a job may have together in each shard, before each may only have its part."""
        return 4 * self.state_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The instances and streams of a job; made by the manager, or by hand in a test."""

    job: str
    host: str
    version: int
    term: int = 1
    """The term of the leader that made it. A host refuses older terms."""
    slots: tuple[Slot, ...] = ()
    ingress: tuple[Ingress, ...] = ()
    forwards: tuple[Forward, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    imports: tuple[StateImport, ...] = ()
    feeds: tuple[Feed, ...] = ()
    """In the order in which they are taken."""
    state_bounds: Mapping[int, int] = field(default_factory=dict)
    """The bytes that the states of some instances may have, whose tenants have as much as their quotas allow."""
    at: Mapping[str, int] = field(default_factory=dict)
    """The plan takes effect when these streams are at these positions."""
    at_cut: str = ""
    """The plan takes effect at this cut. Without `at` and `at_cut` it takes effect at once."""
    changes: tuple[StateChange, ...] = ()
    switch: Switch | None = None
    pace: float = 1.0
    """Seconds between two batches."""
    shards: int = 1
    """The tasks that a batch runs as; each has its part of the events and states."""
    groups: tuple[int, ...] = ()
    """The shard of each key group; empty to assign them in turn."""
    limits: Limits = field(default_factory=Limits)
    workers: str = ""
    """The name of its Python processes, which only jobs that name it share; fixed for the job's life."""
    trace: Annotated[str, Field(exclude_if=operator.not_)] = field(default="", compare=False)
    """The traceparent of the change that it was made for; empty if that is not traced. It changes nothing of a plan."""

    @property
    def active(self) -> tuple[Slot, ...]:
        """The slots that run, each after its parents."""
        running = {slot.instance: slot for slot in self.slots if slot.state is SlotState.ACTIVE}
        graph = self.graph(running.values())
        return tuple(
            running[instance] for instance in nx.lexicographical_topological_sort(graph) if instance in running
        )

    @property
    def batch_seconds(self) -> float:
        """The seconds that a batch may take: its pace, but half a second at least."""
        return max(self.pace, SHORTEST_BOUND)

    @property
    def streams(self) -> frozenset[str]:
        """The streams that enter."""
        return frozenset(ingress.stream for ingress in self.ingress)

    @property
    def bridged(self) -> frozenset[str]:
        """The streams that other jobs send."""
        return frozenset(ingress.stream for ingress in self.ingress if isinstance(ingress.supply, Bridged))

    @property
    def instances(self) -> frozenset[int]:
        """The instances that have a slot or whose streams enter."""
        return frozenset(slot.instance for slot in self.slots) | {ingress.instance for ingress in self.ingress}

    def parts(self) -> tuple["PlanPart", ...]:
        """The connected parts of the slots that take events. A stream that enters twice connects what it enters."""
        # Failed slots take events too, but only to park them.
        taking = [slot for slot in self.slots if slot.state is not SlotState.PAUSED]
        known = {slot.instance for slot in taking} | {ingress.instance for ingress in self.ingress}
        graph: nx.Graph[int | str] = nx.Graph()
        graph.add_edges_from((ingress.stream, ingress.instance) for ingress in self.ingress)
        for slot in taking:
            graph.add_node(slot.instance)
            graph.add_edges_from((edge.parent, slot.instance) for edge in slot.inputs if edge.parent in known)
        return tuple(
            PlanPart(
                frozenset(member for member in members if isinstance(member, str)),
                frozenset(member for member in members if isinstance(member, int)),
            )
            for members in nx.connected_components(graph)
        )

    @staticmethod
    def graph(slots: Iterable[Slot]) -> "nx.DiGraph[int]":
        """The graph of slots and their parents."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        for slot in slots:
            graph.add_node(slot.instance)
            graph.add_edges_from((edge.parent, slot.instance) for edge in slot.inputs)
        return graph


class PlanPart(NamedTuple):
    """A connected part of a plan. Events of different parts never meet."""

    streams: frozenset[str]
    instances: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a job's log of plans; made by its host."""

    number: int
    """Counts from 1. Offsets name it."""
    plan: Plan
    starts: Mapping[str, int]
    """The position at which the job begins each stream of the plan, unless it reads it already."""
    behaviours: Mapping[str, str] = field(default_factory=dict)
    division: Division = UNDIVIDED
    """The part of each shard in the plan."""
