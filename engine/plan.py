"""The plan: the versioned list of what a job executes, and the entries in which a job logs its plans.

The manager makes plans; a host logs each as the next entry of its job before any offset names it. Pause, graft, move,
forward and stop are all nothing but the next plan. A source has no slot: what enters by its stream is its output.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import networkx as nx
from pydantic import TypeAdapter, ValidationError

from bridge.events.json_depth import DEEPEST_PARKED, deeper_than
from engine.supply import Bridged, Supply, unfit


class SlotState(StrEnum):
    """Whether an instance runs: active; paused, because nobody needs it; failed, although somebody does."""

    ACTIVE = "active"
    PAUSED = "paused"
    FAILED = "failed"


class Port(NamedTuple):
    """Where a stream leaves: a port of an instance."""

    instance: int
    port: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A stream into a slot. A slot's edges stand in the order in which it takes the events of one cause."""

    port: str = "in"
    parent: int
    parent_port: str = "out"
    times: int = 1
    """How often each event arrives."""

    @property
    def origin(self) -> Port:
        """The stream that it is."""
        return Port(self.parent, self.parent_port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One instance in a plan, with what it is implemented by."""

    instance: int
    type: str
    version: int = 1
    config: str = "{}"
    """The canonical config, as JSON."""
    inputs: tuple[Edge, ...]
    json_fields: tuple[tuple[str, str], ...] = ()
    """Input ports with fields that reach them and hold JSON, which nothing else tells from text."""
    state: SlotState = SlotState.ACTIVE
    reason: str = ""
    """Why it failed."""
    retry: float | None = None
    """When a failed one is tried again, in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingress:
    """A stream that enters the job, by its spool; inside it is the output of an instance that runs elsewhere."""

    stream: str
    """The name of the spool."""
    instance: int
    port: str = "out"
    supply: Supply
    start: int | None = None
    """The position to begin at, unless the job reads it already; else where an instance is brought back from, or the
    spool's head."""
    since: float | None = None
    """Instead of at its head, begin at what was spooled from this moment on and is kept, in seconds since 1970."""

    @property
    def origin(self) -> Port:
        """What it stands for inside the job."""
        return Port(self.instance, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A stream that another job reads over a bridge."""

    instance: int
    port: str = "out"
    epoch: int = 1
    """Raised by each job that takes the instance over."""

    @property
    def origin(self) -> Port:
        """What is forwarded."""
        return Port(self.instance, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a sink takes, delivered to one dataflow's own topic."""

    instance: int
    tenant: str
    dataflow: str
    sink: str
    epoch: int = 1

    @property
    def origin(self) -> Port:
        """What is delivered: what the sink takes."""
        return Port(self.instance, "out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """State that an instance brings along from another job, as it was at a cut there.

    Where that is the job's own, it is brought back: an instance that left at the cut goes on from there, with its
    streams; one that is still there goes on as it is.
    """

    instance: int
    job: str
    cut: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Events that an instance could not take once, and is to take again: once, in the first batch of the plan."""

    id: int
    """Is never given to others. The plans after it may bring it too, and bring nothing by it."""
    instance: int
    port: str
    events: str
    """As a JSON array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a job may take before somebody is to blame."""

    batch_bytes: int = 64_000_000
    """The most event data in one batch."""
    spool_bytes: int = 4_000_000_000
    """The most that each of its spools holds."""
    hang: float = 60.0
    """Seconds after which a task that does not come back is taken to hang."""
    memory: int = 8_000_000_000
    """Bytes that its worker may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a job executes; made by the manager, or by hand in a test."""

    job: str
    host: str
    version: int
    term: int = 1
    """The leadership under which it was made; a host refuses older ones."""
    slots: tuple[Slot, ...] = ()
    ingress: tuple[Ingress, ...] = ()
    forwards: tuple[Forward, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    imports: tuple[Import, ...] = ()
    feeds: tuple[Feed, ...] = ()
    """What is taken again, in this order."""
    at: Mapping[str, int] = field(default_factory=dict)
    """Takes effect where these streams stand at these positions."""
    at_cut: str = ""
    """Takes effect at this cut. Where neither is given it takes effect at once."""
    pace: float = 1.0
    """Seconds between two batches."""
    limits: Limits = field(default_factory=Limits)

    @property
    def active(self) -> tuple[Slot, ...]:
        """The slots that run, each after those that feed it."""
        running = {slot.instance: slot for slot in self.slots if slot.state is SlotState.ACTIVE}
        graph = self.graph(running.values())
        return tuple(running[each] for each in nx.lexicographical_topological_sort(graph) if each in running)

    @property
    def streams(self) -> frozenset[str]:
        """The streams that enter."""
        return frozenset(each.stream for each in self.ingress)

    @property
    def bridged(self) -> frozenset[str]:
        """Those of them that other jobs send."""
        return frozenset(each.stream for each in self.ingress if isinstance(each.supply, Bridged))

    @property
    def instances(self) -> frozenset[int]:
        """Whoever has a slot, and whose streams enter."""
        return frozenset(slot.instance for slot in self.slots) | {each.instance for each in self.ingress}

    def parts(self) -> tuple["Part", ...]:
        """The connected parts of what takes events; a stream that enters twice joins what it enters."""
        # What is failed takes its events too, be it that it only parks them.
        taking = [slot for slot in self.slots if slot.state is not SlotState.PAUSED]
        known = {slot.instance for slot in taking} | {each.instance for each in self.ingress}
        graph: nx.Graph[int | str] = nx.Graph()
        graph.add_edges_from((each.stream, each.instance) for each in self.ingress)
        for slot in taking:
            graph.add_node(slot.instance)
            graph.add_edges_from((edge.parent, slot.instance) for edge in slot.inputs if edge.parent in known)
        return tuple(
            Part(
                frozenset(each for each in members if isinstance(each, str)),
                frozenset(each for each in members if isinstance(each, int)),
            )
            for members in nx.connected_components(graph)
        )

    @staticmethod
    def graph(slots: Iterable[Slot]) -> "nx.DiGraph[int]":
        """Slots and what feeds them."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        for slot in slots:
            graph.add_node(slot.instance)
            graph.add_edges_from((edge.parent, slot.instance) for edge in slot.inputs)
        return graph


class Part(NamedTuple):
    """A connected part of a plan: events in one never meet those of another."""

    streams: frozenset[str]
    instances: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a job's log of plans; made by its host."""

    number: int
    """Counts the entries from 1; offsets name it."""
    plan: Plan
    starts: Mapping[str, int]
    """For each stream of the plan the position at which the job begins, should it not read it yet."""
    behaviours: Mapping[str, str] = field(default_factory=dict)
    """For each type of the plan where it is implemented, as module:attribute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutWish:
    """What a host is asked for: to take a cut in the raw spools that it owns, or to release one."""

    cut: str
    streams: tuple[str, ...] = ()
    """In which of them; none for all."""
    release: bool = False
    """Its states need not be kept any longer."""


class RefusedPlan(ValueError):
    """A plan cannot be executed; says which part of it and what to do."""


_PLAN = TypeAdapter(Plan)
_ENTRY = TypeAdapter(Entry)
_CUT = TypeAdapter(CutWish)


def read_plan(text: bytes) -> Plan:
    """The plan in a message, refused with every reason if it is none."""
    try:
        plan = _PLAN.validate_json(text)
    except ValidationError as error:
        raise RefusedPlan(f"the plan cannot be read: {_told(error)}") from error
    if problems := tuple(_problems(plan)):
        raise RefusedPlan(f"version {plan.version} of job {plan.job!r} cannot be executed: {'; '.join(problems)}")
    return plan


def read_cut(text: bytes) -> CutWish:
    """The wish for a cut in a message."""
    try:
        return _CUT.validate_json(text)
    except ValidationError as error:
        raise RefusedPlan(f"the wish for a cut cannot be read: {_told(error)}") from error


def written_cut(wish: CutWish) -> bytes:
    """A wish for a cut as the content of a message."""
    return _CUT.dump_json(wish)


def _told(error: ValidationError) -> str:
    return "; ".join(f"{'/'.join(map(str, each['loc'])) or 'all'}: {each['msg'].lower()}" for each in error.errors())


def written_plan(plan: Plan) -> bytes:
    """A plan as the content of a message."""
    return _PLAN.dump_json(plan)


def read_entry(text: bytes) -> Entry:
    """An entry of a job's log."""
    return _ENTRY.validate_json(text)


def written_entry(entry: Entry) -> bytes:
    """An entry as the content of a file."""
    return _ENTRY.dump_json(entry)


def _problems(plan: Plan) -> Iterator[str]:
    names = [slot.instance for slot in plan.slots]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"instance {twice[0]} has two slots; give it one"
        return
    yield from _problems_of_wiring(plan)
    yield from _problems_of_ends(plan)
    yield from _problems_of_feeds(plan)
    if plan.at and plan.at_cut:
        yield "it takes effect both at positions and at a cut; choose one"
    if plan.pace <= 0:
        yield "its pace is not above 0 seconds"


def _problems_of_wiring(plan: Plan) -> Iterator[str]:
    entering = {each.origin for each in plan.ingress}
    for each in plan.ingress:
        if why := unfit(each.supply):
            yield f"the stream {each.stream!r} cannot be supplied: {why}"
    known = {slot.instance: slot for slot in plan.slots}
    if both := sorted(known.keys() & {each.instance for each in plan.ingress}):
        yield f"instance {both[0]} has a slot and enters as well; leave one out"
    for slot in plan.slots:
        for edge in slot.inputs if slot.state is SlotState.ACTIVE else ():
            parent = known.get(edge.parent)
            if edge.origin in entering:
                continue
            if parent is None:
                yield f"instance {slot.instance} takes from {edge.parent}, which neither runs here nor enters"
            elif parent.state is SlotState.PAUSED:
                yield f"instance {slot.instance} is active and takes from {edge.parent}, which is paused"
    if not nx.is_directed_acyclic_graph(plan.graph(plan.slots)):
        yield "its instances feed each other in a circle"


def _problems_of_feeds(plan: Plan) -> Iterator[str]:
    for each in plan.feeds:
        try:
            events = json.loads(each.events)
        except (ValueError, RecursionError):
            events = None
        if not isinstance(events, list):
            yield f"what is fed as {each.id} is no JSON array"
        elif any(deeper_than(event, DEEPEST_PARKED) for event in events):
            yield f"what is fed as {each.id} is nested deeper than {DEEPEST_PARKED} levels; flatten it"


def _problems_of_ends(plan: Plan) -> Iterator[str]:
    if len({each.origin for each in plan.ingress}) < len(plan.ingress):
        yield "two ingress streams stand for one port of one instance; list it once"
    if len({each.stream for each in plan.ingress}) < len({(each.stream, str(each.supply)) for each in plan.ingress}):
        yield "one stream is to be supplied in two ways; give the streams different names"
    running = {slot.instance for slot in plan.slots} | {each.instance for each in plan.ingress}
    leaving: tuple[Forward | Delivery, ...] = (*plan.forwards, *plan.deliveries)
    for each in leaving:
        if each.instance not in running:
            yield f"instance {each.instance} is to leave the job, but has no slot"
