"""A receiver over a real broker: published events are in the spool once and in order, whatever breaks."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Message, Receiver, ReceiverThread, Spool, SpoolFeed, Unread, read, topics, unpacked
from bridge.broker import Broker, start_broker
from bridge.transport.mqtt_client import MqttClient
from bridge.wire import Frame, FrameKind, encode
from tests.brokers import KINDS

USERS = {"braid": "a password of its own"}
STREAM = topics.stream(7, "out")
BOUND = 30.0


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own."""
    with start_broker(tmp_path / "broker", USERS, kind=request.param) as started:
        yield started


class Receiving:
    """A receiver in a thread, with the client that feeds it."""

    def __init__(self, broker: Broker, folder: Path, protocol: MQTTProtocolVersion) -> None:
        self.spool = Spool(folder, most_bytes=1 << 30)
        self.unread: list[Unread] = []
        self.client = MqttClient(
            broker.address("braid"),
            "receiver",
            topics=[STREAM],
            on_message=self.deliver,
            on_connection=self.reconnected,
            protocol=protocol,
        )
        self.receiver = Receiver({STREAM: SpoolFeed(spool=self.spool)}, self.client, on_unread=self.unread.append)
        self.thread = ReceiverThread("receives")
        self.client.start()

    def deliver(self, message: Message) -> None:
        self.thread.deliver(self.receiver.work, [message])

    def reconnected(self) -> None:
        self.thread.deliver(self.receiver.work, [None])

    def stop(self) -> None:
        self.client.stop()
        self.thread.stop()
        self.spool.close()


@contextmanager
def receiving(broker: Broker, folder: Path, protocol: MQTTProtocolVersion) -> Iterator[Receiving]:
    made = Receiving(broker, folder, protocol)
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def publishing(broker: Broker) -> Iterator[Callable[[Frame], None]]:
    client = MqttClient(broker.address("braid"), "publisher")
    client.start()
    try:
        yield lambda frame: client.publish(STREAM, encode(frame))
    finally:
        client.stop()


def opening() -> Frame:
    return Frame(instance=7, port="out", epoch=1, first=0, kind=FrameKind.OPEN)


def data(first: int, count: int) -> Frame:
    events = pa.record_batch({"n": pa.array(range(first, first + count), pa.int64())})
    return Frame(instance=7, port="out", epoch=1, first=first, events=events)


def spooled(folder: Path) -> list[int]:
    """The numbers of the events in a spool."""
    return [number for _, item in read(folder, 0, 1 << 30) for number in unpacked(item.payload)["n"].to_pylist()]


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, within a bound."""
    pause = threading.Event()
    for _ in range(int(BOUND / 0.02)):
        if condition():
            return
        pause.wait(0.02)
    pytest.fail(f"it did not come true within {BOUND:g} s")


@pytest.mark.parametrize("protocol", [MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311], ids=["5", "3.1.1"])
def test_published_events_are_spooled_once_and_in_order(
    broker: Broker, tmp_path: Path, protocol: MQTTProtocolVersion
) -> None:
    """Frames that come out of order and twice are in the spool as their producer numbered them."""
    with receiving(broker, tmp_path / "spool", protocol) as made, publishing(broker) as publish:
        publish(opening())
        for first in (0, 20, 10, 10, 40, 30, 0):
            publish(data(first, 10))
        until(lambda: made.spool.end == 50)
    assert spooled(tmp_path / "spool") == list(range(50))
    assert made.unread == []


def test_a_receiver_that_was_away_gets_what_it_missed(broker: Broker, tmp_path: Path) -> None:
    """The broker keeps messages while the receiver's process is gone, and the spool goes on where it was."""
    with publishing(broker) as publish:
        with receiving(broker, tmp_path / "spool", MQTTProtocolVersion.MQTTv5) as made:
            publish(opening())
            publish(data(0, 10))
            until(lambda: made.spool.end == 10)
        publish(data(10, 10))
        publish(data(20, 10))
        with receiving(broker, tmp_path / "spool", MQTTProtocolVersion.MQTTv5) as made:
            until(lambda: made.spool.end == 30)
    assert spooled(tmp_path / "spool") == list(range(30))


def test_a_broker_that_restarts_costs_no_event(broker: Broker, tmp_path: Path) -> None:
    """Both sides reconnect by themselves; events that the producer sends again are not spooled twice."""
    with receiving(broker, tmp_path / "spool", MQTTProtocolVersion.MQTTv5) as made, publishing(broker) as publish:
        publish(opening())
        publish(data(0, 10))
        until(lambda: made.spool.end == 10)
        broker.restart()

        def has_all() -> bool:
            # Again until it is there, as producers do: a broker that keeps nothing over a restart passes nothing on
            # before the receiver is back.
            publish(data(0, 10))
            publish(data(10, 10))
            return made.spool.end == 20

        until(has_all)
    assert spooled(tmp_path / "spool") == list(range(20))
