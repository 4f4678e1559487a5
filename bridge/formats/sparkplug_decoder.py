"""Sparkplug B (3.0): what edge nodes and their devices publish, as events.

The topic of a message says what it is: the birth of an edge node or device, its data, or its death. A birth names all
metrics, with their types and with numbers that stand for their names in later data. So what births said is remembered
by edge node, as long as the host receives the source. Data whose metrics are not known are unfit, and the edge node is
asked for another birth. So it is when the sequence numbers of its messages have a gap, because a birth may be missing.

By default a message is one event with a field for each metric, because that is what tasks read: a filter or a window
names a field, and the source's schema says its kind. Metrics that did not change are not in a message, so their fields
are null. With a metric a row, all sources have the same few fields, whatever their metrics; but values of different
metrics and kinds share one field.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from google.protobuf.message import DecodeError

from bridge.formats.sparkplug_messages import BOOLEAN, NAMESPACE, REBIRTH, SEQUENCE, SESSION, MetricValues, Payload
from bridge.formats.values import on_topic, shown_value
from bridge.messages import LARGEST_EVENT, Message
from bridge.raw_events import Unfit, check_count, check_size, rows_in, shown_text, together, why_too_large, why_unread
from dags import Schema
from dags.message_formats import SparkplugMessages

_BIRTHS, _DEATHS = ("NBIRTH", "DBIRTH"), ("NDEATH", "DDEATH")
_COMMANDS = ("NCMD", "DCMD")
"""Types of messages that hold no data."""
_OWN = frozenset({"group", "edge_node", "device", "seq", "status", "at", "historical"})
"""The fields of an event that are not metrics."""
_LONGEST_NAME = 500
"""Characters of the name of a metric, because a number of two bytes stands for it."""
_MOST_KNOWN = 200_000
"""Metrics that are remembered of a source."""
_PLAINLY_SMALL = 10_000
"""Bytes of a message whose events are not too large in any form."""
_ASK_SECONDS = 10.0
"""Seconds before an edge node is asked for a birth again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What is to be published after messages were read."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """What messages hold."""

    events: pa.RecordBatch
    unfit: tuple[Unfit, ...]
    replies: tuple[Reply, ...] = ()


TopicDecoder: TypeAlias = Callable[[Sequence[Message]], ReadMessages]
"""What reads messages whose meaning depends on their topics, and on the messages before."""
_Known: TypeAlias = Mapping[int | str, tuple[str, int]]
"""Names and types of metrics, by their names and by the numbers that stand for them."""


@dataclass(slots=True, kw_only=True)
class EdgeNode:
    """What is remembered of one edge node."""

    metrics: dict[str, _Known] = field(default_factory=dict)
    """Those of each device that is born; those of the edge node itself are under an empty name."""
    seq: int | None = None
    """The number of its last message; None before its first one."""
    session: int | None = None
    """The session that its last birth began."""
    asked: float = 0.0
    """When it was last asked for a birth, in seconds since 1970."""

    @property
    def known(self) -> int:
        """How many metrics are remembered."""
        return sum(map(len, self.metrics.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What a topic says."""

    before: str
    """The levels in front of those of Sparkplug."""
    group: str
    kind: str
    edge_node: str
    device: str

    @property
    def rebirth(self) -> str:
        """The topic on which the edge node takes commands."""
        return f"{self.before}{NAMESPACE}/{self.group}/NCMD/{self.edge_node}"


def _place(topic: str) -> _Place | None:
    """What a topic says; None if no message on it holds data."""
    levels = topic.split("/")
    start = levels.index(NAMESPACE) if NAMESPACE in levels else len(levels)
    match levels[start + 1 :]:
        case ["STATE", _]:
            return None
        case [_, kind, _, *_] if kind in _COMMANDS:
            return None
        case [group, ("NBIRTH" | "NDATA" | "NDEATH") as kind, edge_node]:
            device = ""
        case [group, ("DBIRTH" | "DDATA" | "DDEATH") as kind, edge_node, device]:
            pass
        case _:
            raise ValueError(f"the topic is none of Sparkplug; those are {NAMESPACE}/GROUP/TYPE/EDGE_NODE[/DEVICE]")
    before = "".join(f"{level}/" for level in levels[:start])
    return _Place(before=before, group=group, kind=kind, edge_node=edge_node, device=device)


def command_filters(topic: str) -> tuple[str, ...]:
    """The filters of the topics, of those that a source's filter covers, on which edge nodes and devices take commands.

    >>> command_filters("spBv1.0/works/#")
    ('spBv1.0/works/NCMD/#', 'spBv1.0/works/DCMD/#')
    >>> command_filters("spBv1.0/works/+/press/#"), command_filters("spBv1.0/works/DDATA/#")
    (('spBv1.0/works/NCMD/press/#', 'spBv1.0/works/DCMD/press/#'), ())
    """
    levels = topic.split("/")
    behind = levels.index(NAMESPACE) + 1 if NAMESPACE in levels else len(levels)
    match levels[behind:]:
        case ["#"]:
            rest = ["#"]
            group = "+"
        case [group, "#"]:
            rest = ["#"]
        case [group, "+", *rest]:
            pass
        case _:
            return ()
    return tuple("/".join([*levels[:behind], group, kind, *rest]) for kind in _COMMANDS)


def why_no_sparkplug_topic(topic: str) -> str:
    """Why a source of this format cannot have a topic, as its owner writes it; empty if it can.

    >>> why_no_sparkplug_topic("spBv1.0/works/#"), why_no_sparkplug_topic("works/press")
    ('', 'has no level spBv1.0, as in spBv1.0/GROUP/#')
    >>> why_no_sparkplug_topic("spBv1.0/{site}/#")
    'makes a field of a level; events of Sparkplug have group, edge_node and device anyway, so write + instead'
    """
    if NAMESPACE not in topic.split("/"):
        return f"has no level {NAMESPACE}, as in {NAMESPACE}/GROUP/#"
    if "{" in topic:
        return (
            "makes a field of a level; events of Sparkplug have group, edge_node and device anyway, so write + instead"
        )
    return ""


def rebirth_request(now: float) -> bytes:
    """A command that asks an edge node for its birth, and those of its devices."""
    at = round(1_000 * now)
    metric = {"name": REBIRTH, "timestamp": at, "datatype": BOOLEAN, "boolean_value": True}
    data: bytes = Payload(timestamp=at, metrics=[metric]).SerializeToString()
    return data


class SparkplugDecoder:
    """A decoder of the messages of edge nodes; used by one thread."""

    def __init__(
        self,
        messages: SparkplugMessages,
        schema: Schema,
        memory: dict[str, EdgeNode] | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`memory` has what is known of edge nodes, by the topics on which they take commands."""
        self._as_rows = messages.metrics == "rows"
        self._schema = schema
        self._nodes = {} if memory is None else memory
        self._known = sum(node.known for node in self._nodes.values())
        self._clock = clock
        self._asks: set[str] = set()

    def __call__(self, messages: Sequence[Message]) -> ReadMessages:
        """The events of messages as columns, what is unfit of them, and what to publish."""
        events: list[Any] = []
        places: list[range] = []
        unfit: list[list[Unfit]] = []
        for message in messages:
            refused: list[Unfit] = []
            start = len(events)
            try:
                check_size(message.payload)
                events += self._events(message, refused)
            except Exception as error:  # noqa: BLE001 - one message must not stop all later ones
                why = why_unread(error, "message")
                refused.append(Unfit(event=shown_text(message.payload[:1_000]), reason=why))
            places.append(range(start, len(events)))
            unfit.append(refused)
        reasons: dict[int, str] = {}

        def note(place: int, error: ValueError) -> None:
            reasons.setdefault(place, str(error))

        batch = rows_in(events, self._schema, on_unfit=note)
        reports: list[Unfit] = []
        for message, own, refused in zip(messages, places, unfit, strict=True):
            more = [Unfit(event=shown_value(events[at]), reason=reasons[at]) for at in own if at in reasons]
            reports += (on_topic(message.topic, report) for report in together([*refused, *more]))
        now = self._clock()
        replies = [Reply(topic=topic, payload=rebirth_request(now)) for topic in sorted(self._asks)]
        self._asks.clear()
        return ReadMessages(batch, tuple(reports), tuple(replies))

    def _events(self, message: Message, unfit: list[Unfit]) -> list[dict[str, Any]]:
        if (place := _place(message.topic)) is None:
            return []
        payload = _payload(message.payload)
        node = self._nodes.setdefault(place.rebirth, EdgeNode())
        if place.kind == "NDEATH":
            return self._death(place, node, payload)
        self._follow(place, node, payload)
        if place.kind in _BIRTHS:
            self._bear(place, node, payload)
        events = list(self._read(place, node, payload, unfit))
        if place.kind == "DDEATH":
            self._known -= len(node.metrics.pop(place.device, ()))
        if len(message.payload) > _PLAINLY_SMALL:
            _check_sizes(events)
        return events

    def _death(self, place: _Place, node: EdgeNode, payload: Any) -> list[dict[str, Any]]:
        """The events of an edge node that is gone, and all its devices with it."""
        session = _session(payload)
        if node.session is not None and session is not None and session != node.session:
            # The broker may publish the will of a connection that another one has replaced.
            raise ValueError(f"the death is of session {session}, and the edge node is in session {node.session}")
        devices = sorted(node.metrics.keys() | {""})
        self._known -= node.known
        node.metrics.clear()
        node.seq = node.session = None
        # Its time is when the connection began, because the broker got the message then.
        return [self._own(place, device, None, round(1_000 * self._clock())) for device in devices]

    def _follow(self, place: _Place, node: EdgeNode, payload: Any) -> None:
        """Note the number of a message, and ask for a birth if those before it are missing."""
        seq = payload.seq if payload.HasField("seq") else None
        if place.kind != "NBIRTH":
            is_next = node.seq is not None and seq == (node.seq + 1) % SEQUENCE
            if not is_next or "" not in node.metrics:
                self._ask(place, node)
        node.seq = seq

    def _ask(self, place: _Place, node: EdgeNode) -> None:
        if (now := self._clock()) - node.asked >= _ASK_SECONDS:
            node.asked = now
            self._asks.add(place.rebirth)

    def _bear(self, place: _Place, node: EdgeNode, payload: Any) -> None:
        """Remember what a birth says."""
        known: dict[int | str, tuple[str, int]] = {}
        for metric in payload.metrics:
            if not metric.name or len(metric.name) > _LONGEST_NAME:
                raise ValueError(f"the name of a metric has {len(metric.name):,} characters, and may have 1 to 500")
            known[metric.name] = metric.name, metric.datatype
            if metric.HasField("alias"):
                known[metric.alias] = metric.name, metric.datatype
        gone = node.known if place.kind == "NBIRTH" else len(node.metrics.get(place.device, ()))
        if self._known - gone + len(known) > _MOST_KNOWN:
            raise ValueError(
                f"the source's edge nodes have more than {_MOST_KNOWN:,} metrics; register several sources"
            )
        self._known += len(known) - gone
        if place.kind == "NBIRTH":
            node.metrics.clear()
            node.session, node.asked = _session(payload), 0.0
        node.metrics[place.device] = known

    def _read(self, place: _Place, node: EdgeNode, payload: Any, unfit: list[Unfit]) -> Iterator[dict[str, Any]]:
        at = payload.timestamp if payload.HasField("timestamp") else round(1_000 * self._clock())
        own = self._own(place, place.device, payload.seq if payload.HasField("seq") else None, at)
        known, values = node.metrics.get(place.device, {}), MetricValues()
        named: list[tuple[str, Any, Any]] = []
        unknown: list[str] = []
        for metric in payload.metrics:
            if metric.HasField("template_value") and metric.template_value.is_definition:
                continue
            alias = metric.alias if metric.HasField("alias") else ""
            name, kind = known.get(metric.name or alias, (metric.name, 0))
            kind = metric.datatype or kind
            if name and (kind or metric.WhichOneof("value") is None):
                named.append((name, metric, values.of(metric, kind)))
            else:
                unknown.append(repr(name[:100]) if name else f"number {metric.alias}")
        if unknown:
            self._ask(place, node)
            why = f"the metric {unknown[0]} is not known, because no birth was received; the edge node is asked for one"
            unfit.append(Unfit(event=str(own), reason=why, count=len(unknown) if self._as_rows else 1))
        if self._as_rows and (named or unknown):
            yield from _rows(own, named)
        elif not unknown:
            yield from _fields(own, named)

    def _own(self, place: _Place, device: str, seq: int | None, at: int) -> dict[str, Any]:
        status = "offline" if place.kind in _DEATHS else "online"
        own = {"group": place.group, "edge_node": place.edge_node, "device": device or None, "seq": seq}
        return {**own, "status": status, "at": at}


def _payload(message: bytes) -> Any:
    try:
        payload = Payload.FromString(message)
    except DecodeError:
        raise ValueError("the message is no payload of Sparkplug B") from None
    check_count(len(payload.metrics))
    if payload.body:
        raise ValueError("the message is compressed, which is not read; let the edge node send it as it is")
    return payload


def _check_sizes(events: Sequence[Mapping[str, Any]]) -> None:
    for event in events:
        if (size := len(msgspec.json.encode(event))) > LARGEST_EVENT:
            raise ValueError(why_too_large(size))


def _session(payload: Any) -> int | None:
    """The session of a birth or death."""
    return next((metric.long_value for metric in payload.metrics if metric.name == SESSION), None)


def _fields(own: Mapping[str, Any], named: Sequence[tuple[str, Any, Any]]) -> Iterator[dict[str, Any]]:
    """One event with all metrics; several if some of them come again, as in a history."""
    groups: list[dict[str, tuple[Any, Any]]] = [{}]
    times = Counter[str]()
    for name, metric, value in named:
        if times[name] == len(groups):
            groups.append({})
        # No metric is lost because it has the name of another field.
        groups[times[name]][f"metric/{name}" if name in _OWN else name] = metric, value
        times[name] += 1
    for group in groups:
        metrics = [metric for metric, _ in group.values()]
        event = {**own, **{name: value for name, (_, value) in group.items()}}
        if len(groups) > 1:
            event |= _at(metrics[0])
        if metrics and all(metric.is_historical for metric in metrics):
            event["historical"] = True
        yield event


def _rows(own: Mapping[str, Any], named: Sequence[tuple[str, Any, Any]]) -> Iterator[dict[str, Any]]:
    """An event for each metric."""
    for name, metric, value in named:
        historical = {"historical": True} if metric.is_historical else {}
        yield {**own, **_at(metric), **historical, "name": name, "value": value}


def _at(metric: Any) -> dict[str, int]:
    return {"at": metric.timestamp} if metric.HasField("timestamp") else {}
