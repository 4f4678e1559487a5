"""Edge nodes of Sparkplug over real brokers: what others see of an output that is one, from its birth to its death."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Message, sparkplug_nodes
from bridge.broker import BrokerKind, start_broker
from bridge.formats.sparkplug_decoder import SparkplugDecoder, rebirth_request
from bridge.formats.sparkplug_messages import Payload
from bridge.output_formats import formatted
from bridge.output_topics import node_topic
from bridge.sender import PlainMessage
from bridge.sparkplug_nodes import NodeSettings, SparkplugNodes
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from bridge.wire import Birth
from dags import Kind, Schema
from dags.message_formats import SparkplugMessages
from dags.outputs import SparkplugOutput
from tests.bridge.connectors.outside_brokers import USER, mosquitto
from tests.brokers import KINDS
from tests.integration.tenanted_broker import PROTOCOLS, V5, Visitor
from tests.integration.test_raw_once import USERS
from tests.integration.test_receiving import BOUND

PRESS = SparkplugOutput(group="ann.hot", node="press", metrics=(("celsius", Kind.FLOAT), ("name", Kind.STRING)))
DATA = node_topic(PRESS, "NDATA")
SCHEMA = Schema.of(celsius=Kind.FLOAT, status=Kind.STRING)


class Host:
    """The nodes of a host, and what the broker has taken of them."""

    def __init__(self, address: Address, protocol: MQTTProtocolVersion = V5) -> None:
        self.troubles: list[str] = []
        self.done: list[int] = []
        self.may_connect = True
        self.clients = 0
        self.losses = threading.Semaphore(0)
        """The ends of connections that its nodes know of."""
        self._make = partial(MqttClient, address, protocol=protocol, permit=lambda: self.may_connect)
        self.nodes = SparkplugNodes(self._connect, on_trouble=lambda trouble: self.troubles.append(trouble.reason))
        self._news = threading.Condition()

    def keep(self, *nodes: SparkplugOutput, job: str = "j", qos: Any = 1) -> None:
        """Have a job keep these nodes alone."""
        self.nodes.keep(job, {node_topic(node, "NDATA"): NodeSettings(node, qos) for node in nodes})

    def send(self, first: int, end: int, *, qos: Any = 1) -> None:
        """Send events with these numbers as temperatures; every tenth has none."""
        events = pa.record_batch({"celsius": [None if n % 10 == 9 else float(n) for n in range(first, end)]})
        lines = formatted(PRESS, events, [Birth(end - first, 1_000 + first)])
        messages = (
            PlainMessage(DATA, line, partial(self._note, number), qos=qos)
            for number, line in enumerate(lines, first)
            if isinstance(line, bytes)
        )
        self.nodes.send_lazily(DATA, messages)

    def until_done(self, *numbers: int) -> None:
        """Wait until the broker has taken events with these numbers."""
        with self._news:
            assert self._news.wait_for(lambda: set(numbers) <= set(self.done), BOUND)

    def _connect(self, name: str, *, on_disconnection: Callable[[], None], **more: Any) -> MqttClient:
        def lose() -> None:
            on_disconnection()
            self.losses.release()

        self.clients += 1
        return self._make(name, on_disconnection=lose, **more)

    def _note(self, number: int) -> None:
        with self._news:
            self.done.append(number)
            self._news.notify_all()


@contextmanager
def hosting(address: Address, protocol: MQTTProtocolVersion = V5) -> Iterator[Host]:
    """A host that ends in the end."""
    host = Host(address, protocol)
    try:
        yield host
    finally:
        host.nodes.stop()
    assert [] == host.troubles


def received(reader: Visitor, many: int) -> list[Message]:
    """The next messages."""
    return [Message(*reader.messages.get(timeout=BOUND), token=0) for _ in range(many)]


def said(messages: Sequence[Message], *names: str) -> list[tuple[Any, ...]]:
    """The type of each message, its number, and the values of these metrics that it has."""
    return [(message.topic.split("/")[2], *_said(Payload.FromString(message.payload), names)) for message in messages]


def _said(payload: Any, names: Sequence[str]) -> Iterator[Any]:
    yield payload.seq if payload.HasField("seq") else None
    metrics = {metric.name: metric for metric in payload.metrics}
    for metric in (metrics[name] for name in names if name in metrics):
        yield None if metric.is_null else getattr(metric, metric.WhichOneof("value"))


def session(message: Message) -> int:
    """The session that a birth or death is of."""
    (number,) = (metric.long_value for metric in Payload.FromString(message.payload).metrics if metric.name == "bdSeq")
    return int(number)


@pytest.mark.parametrize("kind", KINDS)
@PROTOCOLS
def test_a_node_is_born_before_its_data_and_dies_when_nobody_keeps_it(
    tmp_path: Path, kind: BrokerKind, protocol: MQTTProtocolVersion
) -> None:
    """Numbers begin again after 255. A source reads all of it, and asks for nothing."""
    with (
        start_broker(tmp_path / "broker", USERS, kind=kind) as broker,
        Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/press") as reader,
        hosting(broker.address("braid"), protocol) as host,
    ):
        host.keep(PRESS)
        birth = received(reader, 1)
        assert [("NBIRTH", 0, False, None, None)] == said(birth, "Node Control/Rebirth", "celsius", "name")
        host.send(0, 600)
        data = received(reader, 600)
        host.until_done(*range(600))
        celsius = [None if n % 10 == 9 else float(n) for n in range(600)]
        assert [("NDATA", (n + 1) % 256, celsius[n]) for n in range(600)] == said(data, "celsius")
        host.keep()
        death = received(reader, 1)
    assert [("NDEATH", None, session(birth[0]))] == said(death, "bdSeq")
    content = SparkplugDecoder(SparkplugMessages(), SCHEMA)([*birth, *data, *death])
    assert ((), ()) == (content.unfit, content.replies)
    assert [None, *celsius, None] == content.events.column("celsius").to_pylist()
    assert ["online"] * 601 + ["offline"] == content.events.column("status").to_pylist()
    # Whenever it is sent, a metric has the time of what caused its event.
    assert {1_000} == {metric.timestamp for one in data for metric in Payload.FromString(one.payload).metrics}


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_is_born_again_when_it_is_asked_to_be(tmp_path: Path, kind: BrokerKind) -> None:
    """With its newest metrics, in the same session; what is no such request, changes nothing."""
    with (
        start_broker(tmp_path / "broker", USERS, kind=kind) as broker,
        Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/press") as reader,
        hosting(broker.address("braid")) as host,
    ):
        host.keep(PRESS)
        host.send(0, 3)
        first = received(reader, 4)
        commands = node_topic(PRESS, "NCMD")
        reader.publish(commands, b"no command")
        reader.publish(commands, Payload(metrics=[{"name": "Node Control/Reboot"}]).SerializeToString())
        reader.publish(commands, rebirth_request(1.0))
        (*_, again) = received(reader, 4)
        assert [("NBIRTH", 0, 2.0)] == said([again], "celsius")
        assert session(first[0]) == session(again)
        host.send(3, 4)
        assert [("NDATA", 1, 3.0)] == said(received(reader, 1), "celsius")
        # Another schema has other metrics.
        changed = PRESS.model_copy(update={"metrics": (("bar", Kind.INTEGER),)})
        host.keep(changed)
        (birth,) = received(reader, 1)
        names = {metric.name for metric in Payload.FromString(birth.payload).metrics}
        assert {"bdSeq", "Node Control/Rebirth", "bar"} == names


@pytest.mark.parametrize("kind", KINDS)
def test_many_requests_have_few_births(tmp_path: Path, kind: BrokerKind) -> None:
    """So that small messages do not become as many large ones."""
    with (
        start_broker(tmp_path / "broker", USERS, kind=kind) as broker,
        Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/press") as reader,
        hosting(broker.address("braid")) as host,
    ):
        host.keep(PRESS)
        received(reader, 1)
        for _ in range(1_000):
            reader.client.publish(node_topic(PRESS, "NCMD"), rebirth_request(1.0), qos=1)
        births = 0
        asked = 0
        while asked < 1_000 or not births:
            (message,) = received(reader, 1)
            births += message.topic == node_topic(PRESS, "NBIRTH")
            asked += message.topic == node_topic(PRESS, "NCMD")
        assert births < 100


@pytest.mark.parametrize("kind", KINDS)
def test_another_host_takes_a_node_over(tmp_path: Path, kind: BrokerKind) -> None:
    """The session of the one before ends with its death, before the birth of the next; it may leave without a word."""
    with (
        start_broker(tmp_path / "broker", USERS, kind=kind) as broker,
        Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/press") as reader,
        hosting(broker.address("braid")) as before,
        hosting(broker.address("braid")) as after,
    ):
        before.keep(PRESS)
        (first,) = received(reader, 1)
        before.may_connect = False
        after.keep(PRESS)
        death, birth = received(reader, 2)
        assert [("NDEATH", None, session(first)), ("NBIRTH", 0)] == [*said([death], "bdSeq"), *said([birth])]
        before.keep()
        after.send(0, 1)
        assert [("NDATA", 1, 0.0)] == said(received(reader, 1), "celsius")


@pytest.mark.parametrize("qos", [1, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_broker_had_not_taken_comes_after_the_next_birth(tmp_path: Path, kind: BrokerKind, qos: int) -> None:
    """With the times that it had, whatever happens to the broker; with a QoS of 0 only what was not sent."""
    with start_broker(tmp_path / "broker", USERS, kind=kind) as broker, hosting(broker.address("braid")) as host:
        with Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/press") as reader:
            host.keep(PRESS, qos=qos)
            (first,) = received(reader, 1)
            host.send(0, 1, qos=qos)
            host.until_done(0)
        host.may_connect = False
        os.kill(broker.pid, signal.SIGSTOP)
        host.send(1, 9, qos=qos)
        if not qos:
            host.until_done(*range(1, 9))
        os.kill(broker.pid, signal.SIGKILL)
        broker.restart()
        with Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/press") as reader:
            host.send(9, 12, qos=qos)
            host.may_connect = True
            numbers = range(1, 12) if qos else range(9, 12)
            birth, *data = received(reader, 1 + len(numbers))
            host.until_done(*range(12))
            assert (session(first) + 1) % 256 == session(birth)
            assert [("NBIRTH", 0)] == said([birth])
            celsius = [None if n == 9 else float(n) for n in numbers]
            assert [("NDATA", 1 + at, value) for at, value in enumerate(celsius)] == said(data, "celsius")
            times = [Payload.FromString(one.payload).metrics[0].timestamp for one in data]
            assert [1_001 if n < 9 else 1_009 for n in numbers] == times


def test_what_two_sessions_have_not_brought_to_the_broker_comes_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the second one ends before it has sent all that the first one had."""
    publish, published = MqttClient.publish, threading.Semaphore(0)
    with start_broker(tmp_path / "broker", USERS, kind="embedded") as broker, hosting(broker.address("braid")) as host:

        def step(client: MqttClient, topic: str, *arguments: Any, **options: Any) -> None:
            if topic == DATA and host.clients == 2 and host.may_connect:
                host.may_connect = False
                os.kill(broker.pid, signal.SIGKILL)
                assert host.losses.acquire(timeout=BOUND)
            publish(client, topic, *arguments, **options)
            if topic == DATA:
                published.release()

        monkeypatch.setattr(MqttClient, "publish", step)
        with Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/press") as reader:
            host.keep(PRESS)
            received(reader, 1)
        os.kill(broker.pid, signal.SIGSTOP)
        host.send(0, 300)
        for _ in range(300):
            assert published.acquire(timeout=BOUND)
        os.kill(broker.pid, signal.SIGKILL)
        assert host.losses.acquire(timeout=BOUND)
        broker.restart()
        # Of the second session, which has ended by then.
        assert published.acquire(timeout=BOUND)
        broker.restart()
        with Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/press") as reader:
            host.may_connect = True
            data = received(reader, 301)[1:]
        celsius = [None if n % 10 == 9 else float(n) for n in range(300)]
        assert [("NDATA", (1 + n) % 256, value) for n, value in enumerate(celsius)] == said(data, "celsius")


@pytest.mark.mosquitto
def test_a_node_dies_when_a_message_is_refused_and_is_born_again_a_second_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others live on meanwhile. What was refused comes again once the broker takes it."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(sparkplug_nodes, "time", SimpleNamespace(monotonic=lambda: clock.now))
    rights = ["topic read #", *(f"topic write spBv1.0/ann.hot/{at}" for at in ("NBIRTH/+", "NDEATH/+"))]
    (tmp_path / "rights").write_text("\n".join([f"user {USER}", *rights]))
    with mosquitto(tmp_path / "broker", f"acl_file {tmp_path / 'rights'}") as broker, hosting(broker.address()) as host:
        with Visitor(broker.address(), "spBv1.0/ann.hot/+/+") as reader:

            def lives_beside(kind: str) -> None:
                """Hear of another node, for which the same thread has time only now."""
                oven = PRESS.model_copy(update={"node": "oven"})
                host.keep(PRESS, *[oven] * (kind == "NBIRTH"))
                assert [node_topic(oven, kind)] == [message.topic for message in received(reader, 1)]

            host.keep(PRESS)
            host.send(0, 3)
            birth, death = received(reader, 2)
            lives_beside("NBIRTH")
            clock.now += 0.75
            lives_beside("NDEATH")
            assert 2 == host.clients
            clock.now += 0.25
            again, death_again = received(reader, 2)
            lives_beside("NBIRTH")
            first, second = said([birth, death], "bdSeq"), said([again, death_again], "bdSeq")
            assert [("NBIRTH", 0, session(birth)), ("NDEATH", None, session(birth))] == first
            assert [("NBIRTH", 0, session(again)), ("NDEATH", None, session(again))] == second
            assert (session(birth) + 1) % 256 == session(again)
        assert {"the broker refused a message: Not authorized"} == set(host.troubles)
        assert [] == host.done
        host.troubles.clear()
        broker.end()
        (tmp_path / "rights").write_text("\n".join([f"user {USER}", "topic readwrite #"]))
        broker.start()
        with Visitor(broker.address(), "spBv1.0/ann.hot/+/press") as reader:
            clock.now += 1.0
            data = received(reader, 4)
        assert [("NBIRTH", 0, 2.0), *(("NDATA", 1 + n, float(n)) for n in range(3))] == said(data, "celsius")
        host.until_done(0, 1, 2)


def test_a_node_that_is_to_leave_sends_what_is_left_or_stays_if_it_is_kept_again(tmp_path: Path) -> None:
    """Even if the broker was away then."""
    with (
        start_broker(tmp_path / "broker", USERS, kind="embedded") as broker,
        Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/press") as reader,
        hosting(broker.address("braid")) as host,
    ):
        host.may_connect = False
        host.keep(PRESS)
        host.send(0, 1)
        host.keep()
        host.keep(PRESS)
        host.may_connect = True
        assert [("NBIRTH", 0), ("NDATA", 1)] == said(received(reader, 2))
        host.send(1, 2)
        assert [("NDATA", 2)] == said(received(reader, 1))
        host.send(2, 4)
        host.keep()
        assert [("NDATA", 3), ("NDATA", 4), ("NDEATH", None)] == said(received(reader, 3))


def test_jobs_of_a_host_hand_a_node_on(tmp_path: Path) -> None:
    """It lives as long as one of them keeps it."""
    with (
        start_broker(tmp_path / "broker", USERS, kind="embedded") as broker,
        Visitor(broker.address("braid"), "spBv1.0/ann.hot/+/+") as reader,
        hosting(broker.address("braid")) as host,
    ):
        host.keep(PRESS, job="a")
        received(reader, 1)
        host.keep(PRESS, job="b")
        host.keep(job="a")
        host.send(0, 1)
        other = PRESS.model_copy(update={"node": "oven"})
        assert [("NDATA", 1)] == said(received(reader, 1))
        host.keep(other, job="b")
        last = received(reader, 2)
        assert {("spBv1.0/ann.hot/NDEATH/press"), ("spBv1.0/ann.hot/NBIRTH/oven")} == {one.topic for one in last}
