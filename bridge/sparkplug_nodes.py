"""Outputs as edge nodes of Sparkplug B (3.0): each has a connection of its own, which a birth begins and a death ends.

What a node publishes is numbered by its session, so a message gets its number and time when it is sent. A session is
one connection: when that ends, the broker publishes the death, and the node opens another one. Its birth comes first,
then what the broker had not taken, then the rest. So every message is sent at least once; one that is sent again has
other numbers, but metrics of the same times.

A node is there while any job of the host keeps it. It leaves once what was sent before has been taken. Another host
that becomes the node takes the client id, which ends this session with its death.

One thread serves the nodes of a host; it begins with the first one. Clients only hand on to it.
"""

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from google.protobuf.message import DecodeError

from bridge.formats.sparkplug_messages import BOOLEAN, REBIRTH, SEQUENCE, SESSION, Payload
from bridge.messages import Message, QoS, why_unsendable
from bridge.output_formats import sparkplug_metric
from bridge.output_topics import node_topic
from bridge.sender import PlainMessage, StreamTrouble
from bridge.transport.client_loop import ClientLoop
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.subscriptions import note_failed
from dags.outputs import SparkplugOutput

_INTEGER = 4
"""The number of the type of a session's number."""
_MOST_UNANSWERED = 500
"""Messages of a node that the broker has not answered."""
_MOST_UNANSWERED_BYTES = 16_000_000
_MADE_AT_ONCE = 100
"""Messages of a node that are made before others have their turn."""
_BIRTH_SECONDS = 1.0
"""Seconds from a birth to the next that is asked for: a small command must not become any number of large births."""
_OPENING_SECONDS = 1.0
"""Seconds between the end of a session and the beginning of the next."""
_TICK = 0.25


class NodeSettings(NamedTuple):
    """The node that an output is, and how it publishes."""

    node: SparkplugOutput
    qos: QoS


def birth(settings: SparkplugOutput, session: int, newest: bytes, at: int) -> bytes:
    """The birth of a node as of a time in milliseconds, with its newest metrics if there are any yet.

    >>> metrics = Payload.FromString(birth(SparkplugOutput(group="ann", node="a"), 3, b"", 5)).metrics
    >>> [metric.name for metric in metrics]
    ['bdSeq', 'Node Control/Rebirth']
    """
    own = [
        {"name": SESSION, "timestamp": at, "datatype": _INTEGER, "long_value": session},
        {"name": REBIRTH, "timestamp": at, "datatype": BOOLEAN, "boolean_value": False},
    ]
    unknown = [sparkplug_metric(name, kind, None, at) for name, kind in settings.metrics]
    head: bytes = Payload(timestamp=at, seq=0, metrics=own if newest else own + unknown).SerializeToString()
    # Payloads in a row are one with the fields of all.
    return head + newest


def numbered(metrics: bytes, seq: int, at: int) -> bytes:
    """Data with their number and the time of their sending."""
    head: bytes = Payload(timestamp=at, seq=seq).SerializeToString()
    return head + metrics


def death(session: int, at: int) -> bytes:
    """The death of a node in a session."""
    metric = {"name": SESSION, "timestamp": at, "datatype": _INTEGER, "long_value": session}
    payload: bytes = Payload(timestamp=at, metrics=[metric]).SerializeToString()
    return payload


def asks_for_birth(command: bytes) -> bool:
    """Whether a command asks for another birth; one that cannot be read asks for nothing."""
    try:
        metrics = Payload.FromString(command).metrics
    except DecodeError:
        return False
    return any(metric.name == REBIRTH and metric.boolean_value for metric in metrics)


@dataclass(kw_only=True)
class _Node:
    """A node; used by the thread of all nodes."""

    settings: NodeSettings
    client: MqttClient | None = None
    """The client of its session, if it has one."""
    connection: int = 0
    """The number of that client among all; what others hand on does not count."""
    session: int
    seq: int = 0
    is_born: bool = False
    owes_birth: bool = False
    is_asked: bool = False
    """Whether a birth is asked for."""
    born_at: float = 0.0
    is_leaving: bool = False
    opens_at: float = 0.0
    newest: bytes = b""
    """The metrics of the last message."""
    waiting: deque[Iterator[PlainMessage | None]] = field(default_factory=deque)
    again: deque[PlainMessage] = field(default_factory=deque)
    """Messages that the last session has not brought to the broker."""
    unanswered: dict[int, PlainMessage] = field(default_factory=dict)
    """Those that this session has sent, in order."""
    unanswered_bytes: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to be sent."""
        return not self.waiting and not self.again and not self.unanswered

    @property
    def has_room(self) -> bool:
        """Whether more may be sent before the broker answers."""
        return len(self.unanswered) < _MOST_UNANSWERED and self.unanswered_bytes < _MOST_UNANSWERED_BYTES


class SparkplugNodes:
    """The edge nodes of one host; any thread may use it, but messages of a node come from one."""

    def __init__(
        self,
        connect: Callable[..., MqttClient],
        *,
        on_trouble: Callable[[StreamTrouble], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`connect` makes a client of a given id, which connects once it has begun."""
        self._connect = connect
        self._on_trouble = on_trouble
        self._clock = clock
        self._guard = threading.Lock()
        self._kept: dict[str, Mapping[str, NodeSettings]] = {}
        """For each job the nodes that it keeps, by the topics of their data."""
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._nodes: dict[str, _Node] = {}
        self._loop = ClientLoop("edge nodes")
        self._numbers = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, job: str, nodes: Mapping[str, NodeSettings]) -> None:
        """Have a job keep these nodes, by the topics of their data, and no others."""
        with self._guard:
            if self._kept.get(job, {}) == nodes:
                return
            self._kept[job] = nodes
            if not nodes:
                del self._kept[job]
            wanted = {topic: settings for kept in self._kept.values() for topic, settings in kept.items()}
            # Within the guard, so that the last is what counts.
            self._commands.put(partial(self._keep, wanted))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="serves edge nodes", daemon=True)
                self._thread.start()

    def send_lazily(self, topic: str, messages: Iterator[PlainMessage | None]) -> None:
        """Publish messages of a node that is kept, which are made in its thread as there is room for them.

        None stands for work that made no message.
        """
        self._commands.put(lambda: self._nodes[topic].waiting.append(messages))

    def stop(self) -> None:
        """Let all nodes die; the next holder of a node sends what was not sent."""
        with self._guard:
            thread = self._thread
        if thread is not None:
            self._stopping.set()
            self._commands.put(lambda: None)
            thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                command = self._commands.get(timeout=_TICK)
                while True:
                    command()
                    command = self._commands.get_nowait()
            except Empty:
                pass
            for topic, node in list(self._nodes.items()):
                try:
                    self._serve(topic, node)
                except Exception as error:  # noqa: BLE001 - one node must not end those of others
                    note_failed(f"the edge node that publishes on {topic}", error)
        for node in self._nodes.values():
            self._close(node)

    def _keep(self, wanted: Mapping[str, NodeSettings]) -> None:
        for topic, settings in wanted.items():
            if (node := self._nodes.get(topic)) is None:
                # Of an earlier process the broker may still publish a death, of another session as likely as not.
                node = self._nodes[topic] = _Node(settings=settings, session=int(self._clock()) % SEQUENCE)
            elif node.settings != settings:
                if node.settings.node.metrics != settings.node.metrics:
                    node.newest = b""
                node.settings, node.owes_birth = settings, True
            node.is_leaving = False
        for topic in self._nodes.keys() - wanted.keys():
            self._nodes[topic].is_leaving = True

    def _serve(self, topic: str, node: _Node) -> None:
        if node.is_leaving and node.is_idle:
            self._close(node)
            del self._nodes[topic]
        elif node.client is None:
            if time.monotonic() >= node.opens_at:
                self._open(node)
        elif node.is_born and (node.owes_birth or node.is_asked or node.again or node.waiting):
            if node.is_asked and time.monotonic() >= node.born_at + _BIRTH_SECONDS:
                node.owes_birth = True
            with node.client.together():
                if node.owes_birth:
                    self._bear(node, node.client)
                self._send(topic, node, node.client)

    def _open(self, node: _Node) -> None:
        self._numbers += 1
        connection = node.connection = self._numbers
        node.session = (node.session + 1) % SEQUENCE
        commands = node_topic(node.settings.node, "NCMD")

        def take(message: Message) -> None:
            client.acknowledge([message.token])
            if asks_for_birth(message.payload):
                self._commands.put(partial(self._note_asked, node, connection))

        # Its session is known to the broker by its will, so the next one has another client.
        client = node.client = self._connect(
            node_client_id(commands),
            topics=[commands],
            on_message=take,
            on_connection=lambda: self._commands.put(partial(self._connected, node, connection)),
            on_disconnection=lambda: self._commands.put(partial(self._disconnected, node, connection)),
            will=(node_topic(node.settings.node, "NDEATH"), death(node.session, self._now())),
            retain_will=False,
            lasting=False,
            once=True,
            loop=self._loop,
        )
        client.begin()

    def _connected(self, node: _Node, connection: int) -> None:
        if node.connection == connection and node.client is not None:
            node.is_born = node.owes_birth = True

    def _disconnected(self, node: _Node, connection: int) -> None:
        if node.connection == connection and node.client is not None:
            self._close(node)
            node.opens_at = time.monotonic() + _OPENING_SECONDS
            node.again.extendleft(reversed(node.unanswered.values()))
            node.unanswered.clear()
            node.unanswered_bytes = 0

    def _note_asked(self, node: _Node, connection: int) -> None:
        node.is_asked = node.is_asked or node.connection == connection

    def _bear(self, node: _Node, client: MqttClient) -> None:
        node.owes_birth = node.is_asked = False
        node.seq, node.born_at = 0, time.monotonic()
        payload = birth(node.settings.node, node.session, node.newest, self._now())
        if why_unsendable(payload):
            payload = birth(node.settings.node, node.session, b"", self._now())
        publish = client.publish if node.settings.qos else client.publish_once
        publish(node_topic(node.settings.node, "NBIRTH"), payload, answered=self._if_refused(node))

    def _send(self, topic: str, node: _Node, client: MqttClient) -> None:
        for _ in range(_MADE_AT_ONCE):
            if not node.has_room or not (node.again or node.waiting):
                return
            message = node.again.popleft() if node.again else self._made(node)
            if message is not None:
                self._publish(topic, node, client, message)
        # Go on after what else is to be done.
        self._commands.put(lambda: None)

    def _made(self, node: _Node) -> PlainMessage | None:
        try:
            return next(node.waiting[0])
        except StopIteration:
            node.waiting.popleft()
            return None

    def _publish(self, topic: str, node: _Node, client: MqttClient, message: PlainMessage) -> None:
        payload = message.payload
        if message.topic == topic:
            node.seq, node.newest = (node.seq + 1) % SEQUENCE, payload
            payload = numbered(payload, node.seq, self._now())
        if refusal := why_unsendable(payload):
            # It would be no smaller later. Its number stays unused, so who counts asks for a birth.
            self._on_trouble(StreamTrouble(topic=message.topic, reason=f"a message is not sent: {refusal}"))
            message.done()
            return
        self._numbers += 1
        number = self._numbers
        node.unanswered[number] = message
        node.unanswered_bytes += len(message.payload)
        refused = self._if_refused(node)

        def answered(refusal: str) -> None:
            refused(refusal)
            if not refusal:
                self._commands.put(partial(self._answered, node, number))

        publish = client.publish if message.qos else client.publish_once
        publish(message.topic, payload, properties=message.properties, answered=answered)

    def _answered(self, node: _Node, number: int) -> None:
        # It is sent again already if its session has ended since.
        if (message := node.unanswered.pop(number, None)) is not None:
            node.unanswered_bytes -= len(message.payload)
            message.done()

    def _if_refused(self, node: _Node) -> Callable[[str], None]:
        """What begins another session if the broker refuses a message: later ones have gone already."""
        connection = node.connection

        def note(refusal: str) -> None:
            if refusal:
                topic = node_topic(node.settings.node, "NDATA")
                reason = f"the broker refused a message: {refusal}"
                self._on_trouble(StreamTrouble(topic=topic, reason=reason))
                self._commands.put(partial(self._disconnected, node, connection))

        return note

    def _close(self, node: _Node) -> None:
        """End the session with a death that others see as soon as possible."""
        if node.client is not None:
            if node.is_born and node.client.is_connected:
                payload = death(node.session, self._now())
                node.client.publish(node_topic(node.settings.node, "NDEATH"), payload)
            # Once the broker has taken that. It publishes no will of who leaves.
            node.client.stop()
            node.client, node.is_born = None, False

    def _now(self) -> int:
        return round(1_000 * self._clock())


def node_client_id(commands: str) -> str:
    """The client id of the node that takes commands on a topic: the same at all hosts, so that there is one of it.

    >>> node_client_id("spBv1.0/ann/NCMD/press")
    'braid-node-36601b6bc5460eeb'
    """
    return f"braid-node-{hashlib.sha256(commands.encode()).hexdigest()[:16]}"
