"""A bridge over a real broker: emitted events are in the other spool once and in order, whatever breaks."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Message, Receiver, ReceiverThread, Sender, Spool, SpoolFeed, topics
from bridge.broker import Broker, start_broker
from bridge.sender import NO_RECORD_NEEDED, PlainMessage, StreamTrouble
from bridge.transport.mqtt_client import MqttClient
from bridge.wire import Stream
from tests.bridge.memory_bridge import Records, events, spooled
from tests.brokers import KINDS
from tests.integration.test_receiving import until

USERS = {"braid": "a password of its own"}
STREAM = Stream(7, "out")
ON = topics.stream(*STREAM)
PROTOCOLS = pytest.mark.parametrize(
    "protocol", [MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311], ids=["5", "3.1.1"]
)


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own."""
    with start_broker(tmp_path / "broker", USERS, kind=request.param) as started:
        yield started


class Losing(MqttClient):
    """A client whose broker may lose messages that it has acknowledged."""

    loses: Callable[[str, bytes], bool] = staticmethod(lambda _topic, _payload: False)

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),
        answered: Callable[[str], None] = lambda _: None,
    ) -> None:
        """As a client does, but for what is lost."""
        if self.loses(topic, payload):
            answered("")
        else:
            super().publish(topic, payload, retain=retain, properties=properties, answered=answered)


class Sending:
    """A sender in a thread, with its client."""

    def __init__(self, broker: Broker, protocol: MQTTProtocolVersion, *, most_unconfirmed: int = 1 << 20) -> None:
        self.troubles: list[StreamTrouble] = []
        self.client = Losing(
            broker.address("braid"),
            "sender",
            on_message=self.deliver,
            on_connection=self.reconnected,
            protocol=protocol,
        )
        self.sender = Sender(self.client, on_trouble=self.troubles.append)
        self.sender._most_unconfirmed = most_unconfirmed
        self.thread = threading.Thread(target=self.sender.run)
        self.thread.start()
        self.client.start()

    def deliver(self, message: Message) -> None:
        self.sender.deliver(message)

    def reconnected(self) -> None:
        self.sender.reconnected()

    def stop(self) -> None:
        self.client.stop()
        self.sender.stop()
        self.thread.join()


class Receiving:
    """A receiver in a thread, with its client and the spool it fills."""

    def __init__(self, broker: Broker, folder: Path, protocol: MQTTProtocolVersion) -> None:
        self.spool = Spool(folder, most_bytes=1 << 30)
        self.unread: list[object] = []
        self.client = MqttClient(
            broker.address("braid"),
            "receiver",
            on_message=self.deliver,
            on_connection=self.reconnected,
            on_disconnection=self.reconnected,
            protocol=protocol,
        )
        self.receiver = Receiver({}, self.client, on_unread=self.unread.append)
        self.thread = ReceiverThread("receives")
        self.client.start()
        feed = SpoolFeed(spool=self.spool, asks_at=topics.again(*STREAM), has_at=topics.have(*STREAM))
        self.receiver.add(ON, feed)
        self.client.subscribe([ON])

    def deliver(self, message: Message) -> None:
        self.thread.deliver(self.receiver.work, [message])

    def reconnected(self) -> None:
        self.thread.deliver(self.receiver.work, [None])

    def stop(self) -> None:
        self.client.stop()
        self.thread.stop()
        self.spool.close()


@contextmanager
def sending(broker: Broker, protocol: MQTTProtocolVersion, *, most_unconfirmed: int = 1 << 20) -> Iterator[Sending]:
    made = Sending(broker, protocol, most_unconfirmed=most_unconfirmed)
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def receiving(broker: Broker, folder: Path, protocol: MQTTProtocolVersion) -> Iterator[Receiving]:
    made = Receiving(broker, folder, protocol)
    try:
        yield made
    finally:
        made.stop()


class Job:
    """Emits events that are their numbers into records, and hands them to a sender."""

    def __init__(self) -> None:
        self.records = Records()
        self.end = 0

    def emit(self, sender: Sender, *counts: int) -> None:
        for count in counts:
            emitted = events(self.end, self.end + count)
            self.records.emitted.append(emitted)
            self.end = emitted.end
            sender.emit(STREAM, emitted)


@PROTOCOLS
def test_a_killed_broker_costs_no_event_and_doubles_none(
    broker: Broker, tmp_path: Path, protocol: MQTTProtocolVersion
) -> None:
    """Killed three times in the middle, it loses what it acknowledged last; all of it is sent again."""
    job = Job()
    with (
        receiving(broker, tmp_path / "spool", protocol) as there,
        sending(broker, protocol, most_unconfirmed=20_000) as here,
    ):
        here.sender.forward(STREAM, epoch=1, first=0, kept=job.records.kept)
        for _ in range(3):
            job.emit(here.sender, *[10] * 100)
            half = job.end - 500
            until(lambda half=half: there.spool.end >= half)  # type: ignore[misc]  # mypy does not infer a default
            os.kill(broker.pid, signal.SIGKILL)
            until(lambda: not broker.alive())
            job.emit(here.sender, *[10] * 20)
            broker.restart()
        job.emit(here.sender, *[10] * 20)
        here.sender.close(STREAM)
        until(lambda: here.sender.needed(STREAM) == NO_RECORD_NEEDED)
        assert 0 == there.receiver.intakes[ON].counts.gaps
        assert [] == there.unread
        assert [] == here.troubles
    assert list(range(job.end)) == spooled(tmp_path / "spool")


@PROTOCOLS
def test_a_sender_that_dies_goes_on_where_the_spool_is(
    broker: Broker, tmp_path: Path, protocol: MQTTProtocolVersion
) -> None:
    """Some messages of a sender that died are lost; the next one, with a higher epoch, sends what is missing."""
    job = Job()
    with receiving(broker, tmp_path / "spool", protocol) as there:
        with sending(broker, protocol) as here:
            here.sender.forward(STREAM, epoch=1, first=0, kept=job.records.kept)
            job.emit(here.sender, *[10] * 20)
            until(lambda: here.sender.needed(STREAM) == 200)
            here.client.loses = lambda topic, payload: topic == ON and len(payload) % 2 == 0
            job.emit(here.sender, *[7, 8, 9] * 20)
        with sending(broker, protocol) as here:
            # It begins at an older number than the spool has.
            here.sender.forward(STREAM, epoch=2, first=100, kept=job.records.kept)
            job.emit(here.sender, *[10] * 20)
            until(lambda: here.sender.needed(STREAM) == job.end)
        assert 0 == there.receiver.intakes[ON].counts.gaps
    assert list(range(job.end)) == spooled(tmp_path / "spool")


@pytest.mark.parametrize("lost", [0, 1, 3, 5, 6], ids=["opening", "first", "middle", "last", "end"])
def test_a_message_lost_after_its_acknowledgement_is_sent_again(broker: Broker, tmp_path: Path, lost: int) -> None:
    """Whichever it is, the receiver asks for it or the sender finds out."""
    job = Job()
    numbers = iter(range(1 << 30))
    with (
        receiving(broker, tmp_path / "spool", MQTTProtocolVersion.MQTTv5) as there,
        sending(broker, MQTTProtocolVersion.MQTTv5) as here,
    ):
        here.client.loses = lambda topic, _: topic == ON and next(numbers) == lost
        here.sender.forward(STREAM, epoch=1, first=0, kept=job.records.kept)
        job.emit(here.sender, *[10] * 5)
        here.sender.close(STREAM)
        until(lambda: here.sender.needed(STREAM) == NO_RECORD_NEEDED)
        assert 0 == there.receiver.intakes[ON].counts.gaps
    assert list(range(50)) == spooled(tmp_path / "spool")


@PROTOCOLS
def test_plain_messages_are_done_over_a_restart(broker: Broker, protocol: MQTTProtocolVersion) -> None:
    """What is sent while the broker is away is done once it is back, and comes to who subscribes.

    The embedded broker forgets subscriptions when it ends: there it comes to who is back before the sender is.
    """
    got, done = list[bytes](), list[int]()
    tenant = MqttClient(
        broker.address("braid"), "tenant", on_message=lambda message: got.append(message.payload), protocol=protocol
    )
    tenant.start()
    tenant.subscribe(["out"])
    with sending(broker, protocol) as here:
        broker.stop()
        for number in range(50):
            here.sender.send(PlainMessage("out", b"%d" % number, lambda number=number: done.append(number)))  # type: ignore[misc]  # as above
        broker.restart()
        until(lambda: len(done) == 50 and (len(set(got)) == 50 or broker.kind == "embedded"))
    tenant.stop()
    assert list(range(50)) == done


@PROTOCOLS
def test_what_is_published_to_a_subscribed_client_is_not_lost(broker: Broker, protocol: MQTTProtocolVersion) -> None:
    """It says that it is subscribed only if the broker that is there now knows all its topics."""
    got = list[bytes]()
    client = MqttClient(
        broker.address("braid"), "hears", topics=["a"], on_message=lambda m: got.append(m.payload), protocol=protocol
    )
    client.start()
    with connected(broker, protocol) as says:
        client.subscribe(["b"], timeout=0)
        until(lambda: client.is_subscribed(["a", "b"]))
        says("b", b"before")
        until(lambda: got == [b"before"])
    os.kill(broker.pid, signal.SIGKILL)
    until(lambda: not client.is_subscribed(["a", "b"]) and not broker.alive())
    broker.restart()
    with connected(broker, protocol) as says:
        until(lambda: client.is_subscribed(["a", "b"]))
        says("a", b"after")
        says("b", b"after")
        until(lambda: got == [b"before", b"after", b"after"])
    client.stop()


@contextmanager
def connected(broker: Broker, protocol: MQTTProtocolVersion) -> Iterator[Callable[[str, bytes], None]]:
    """A function that publishes over a connection of its own."""
    client = MqttClient(broker.address("braid"), "says", protocol=protocol)
    client.start()
    yield client.publish
    client.stop()


@PROTOCOLS
def test_messages_without_an_answer_count_as_taken(broker: Broker, protocol: MQTTProtocolVersion) -> None:
    """They come in their order with others, and those that a connection loses hold nothing up."""
    answers: list[str] = []
    came = SimpleQueue[bytes]()
    reader = MqttClient(broker.address("braid"), "reads", topics=["out"], on_message=lambda it: came.put(it.payload))
    sender = MqttClient(broker.address("braid"), "sends", protocol=protocol)
    sender.publish_once("out", b"lost", answered=answers.append)
    assert [""] == answers
    reader.start()
    sender.start()
    for number in range(100):
        publish = sender.publish if number % 2 else sender.publish_once
        publish("out", b"%d" % number, answered=answers.append)
    assert [b"%d" % number for number in range(100)] == [came.get(timeout=10.0) for _ in range(100)]
    until(lambda: len(answers) == 101)
    sender.stop()
    assert [""] * 101 == answers
    assert not sender._client._unanswered
    reader.stop()


@PROTOCOLS
def test_retained_messages_and_wills_come_to_later_subscribers(broker: Broker, protocol: MQTTProtocolVersion) -> None:
    """A client that vanishes leaves its will, retained; one that has unsubscribed receives no more."""
    got = list[tuple[str, bytes]]()
    gone = MqttClient(broker.address("braid"), "gone", will=("status", b"gone"), protocol=protocol)
    gone.start()
    answers = list[str]()
    gone.publish("word", b"kept", retain=True, answered=answers.append)
    until(lambda: answers == [""])
    gone._client._sock_close()  # no goodbye: the connection breaks
    gone._client.loop_stop()
    late = MqttClient(
        broker.address("braid"), "late", on_message=lambda m: got.append((m.topic, m.payload)), protocol=protocol
    )
    late.start()
    late.subscribe(["word", "status"])
    until(lambda: {("word", b"kept"), ("status", b"gone")} <= set(got))
    late.unsubscribe(["word"])
    late.publish("word", b"more")
    late.publish("status", b"back")
    until(lambda: ("status", b"back") in got)
    late.stop()
    assert ("word", b"more") not in got


@PROTOCOLS
@pytest.mark.parametrize("lasting", [True, False])
def test_the_broker_keeps_messages_for_lasting_clients_only(
    broker: Broker, protocol: MQTTProtocolVersion, *, lasting: bool
) -> None:
    """Any other client gets only retained messages, and leaves no session behind that would fill."""
    got = list[tuple[str, bytes]]()
    name = f"listener {protocol} {lasting}"

    def listening() -> MqttClient:
        return MqttClient(
            broker.address("braid"),
            name,
            topics=[f"{name}/+"],
            on_message=lambda message: got.append((message.topic.rsplit("/")[-1], message.payload)),
            protocol=protocol,
            lasting=lasting,
        )

    first = listening()
    first.start()
    first.stop()
    sender = MqttClient(broker.address("braid"), f"sender of {name}", protocol=protocol)
    sender.start()
    answers = list[str]()
    sender.publish(f"{name}/word", b"gone", answered=answers.append)
    sender.publish(f"{name}/kept", b"kept", retain=True, answered=answers.append)
    until(lambda: answers == ["", ""])
    second = listening()
    second.start()
    until(lambda: ("kept", b"kept") in got)
    second.stop()
    sender.stop()
    assert lasting == (("word", b"gone") in got)
