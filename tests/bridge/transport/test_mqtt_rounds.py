"""The client that reads in rounds: messages arrive however the network cuts them, and are acknowledged together."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import paho.mqtt.client as paho
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion

from bridge.broker import BrokerKind, start_broker
from bridge.machine import allow_many_descriptors
from bridge.messages import Message
from bridge.transport import mqtt_client, mqtt_rounds
from bridge.transport.address import Address
from bridge.transport.client_loop import ClientLoop
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.mqtt_rounds import (
    Fetch,
    Grouping,
    Rounds,
    RoundsClient,
    _pieces,
    _waiting,
    fetch_wait,
    ungrouped,
    usual_messages,
)
from tests.brokers import KINDS

BOUND = 20.0
BYTES = 1_000
V5, V311 = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311
EXPIRING = b"\x05\x02\x00\x00\x00\x3c"
"""A property that says when a message expires, as it stands in a packet."""


class Scene:
    """A client at one end of a pair of sockets, and the messages that it handed on."""

    def __init__(self, protocol: MQTTProtocolVersion = V5, grouping: Grouping = ungrouped) -> None:
        self.messages: list[Message] = []
        self.unreachable: list[OSError] = []
        self.rounds = 0
        self.on_end: Callable[[], object] = lambda: None
        self.client = RoundsClient(
            CallbackAPIVersion.VERSION2,
            protocol=protocol,
            manual_ack=True,
            rounds=Rounds(
                grouping=grouping,
                on_messages=self.messages.extend,
                on_end=self._end,
                on_unreachable=self.unreachable.append,
            ),
        )
        self.connect()

    def _end(self) -> None:
        self.rounds += 1
        self.on_end()

    def connect(self) -> None:
        self.here, self.there = socket.socketpair()
        self.there.settimeout(0)
        self.client._sock = self.there

    def read(self, sent: bytes) -> None:
        self.here.sendall(sent)
        self.serve()
        assert self.client.socket() is not None

    def serve(self) -> None:
        """Serve the client until it has read all that has come, as its loop would."""
        due = self.client.serve(readable=True)
        while not self.client.reads and self.client.socket() is not None:
            time.sleep(max(0.0, due - time.monotonic()))
            due = self.client.serve(readable=False)

    def close(self) -> None:
        self.here.close()
        self.there.close()


@contextmanager
def scene(protocol: MQTTProtocolVersion = V5, grouping: Grouping = ungrouped) -> Iterator[Scene]:
    made = Scene(protocol, grouping)
    try:
        yield made
    finally:
        made.close()


def packet(publication: Message, *, properties: bytes | None = b"\x00") -> bytes:
    """A message as a broker sends it; without properties over MQTT 3.1.1."""
    topic = publication.topic.encode()
    named = len(topic).to_bytes(2) + topic + (publication.token.to_bytes(2) if publication.token else b"")
    rest = named + (properties or b"") + publication.payload
    return bytes([0x30 | (2 if publication.token else 0) | publication.retained]) + length(len(rest)) + rest


def length(size: int) -> bytes:
    """How long the rest of a packet is, seven bits a byte."""
    return bytes([size]) if size < 128 else bytes([size % 128 | 128]) + length(size // 128)


publications = st.builds(
    Message,
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20),
    st.binary(max_size=300),
    st.integers(0, 65_535),
    retained=st.booleans(),
)


@given(st.data(), st.sampled_from([V5, V311]))
def test_messages_are_handed_on_however_they_are_cut(data: st.DataObject, protocol: MQTTProtocolVersion) -> None:
    """Each message is handed on once, in order, with or without an id and properties, wherever the network cuts."""
    sent = data.draw(st.lists(publications, max_size=6))
    properties = st.sampled_from([b"\x00", EXPIRING]) if protocol is V5 else st.none()
    packets = b"".join(packet(each, properties=data.draw(properties)) for each in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(packets)), max_size=6)))
    with scene(protocol) as made:
        parts = [packets[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(packets)], strict=True)]
        for part in parts:
            made.read(part)
        assert (sent, len(parts)) == (made.messages, made.rounds)


@pytest.mark.parametrize("size", [120, 130, 16_370, 16_390, 70_000, 2_097_140, 2_097_160])
def test_large_messages_come_among_small_ones(size: int) -> None:
    """This holds for any number of length bytes, and however often the system is asked for them."""
    sent = [Message("t", b"small", 1), Message("t", bytes(size), 2), Message("t", b"small", 3)]
    packets = b"".join(map(packet, sent))
    with scene() as made:
        # As much at once as a pair of sockets takes without waiting.
        for begin in range(0, len(packets), 100_000):
            made.read(packets[begin : begin + 100_000])
        assert sent == made.messages


def test_a_message_that_looks_like_messages_is_one() -> None:
    """This holds even if the network cuts it just before what looks like the next one."""
    inner = packet(Message("u", b"inner", 8))
    publication = Message("t", inner + inner, 7)
    whole = packet(publication)
    with scene() as made:
        made.read(whole[: -len(publication.payload)])
        made.read(publication.payload)
        assert [publication] == made.messages


def test_the_end_of_a_connection_comes_after_its_messages() -> None:
    """Complete messages before the end are handed on, and the rest of an incomplete one is not."""
    publication = Message("t", b"whole", 7)
    with scene() as made:
        made.here.sendall(packet(publication) + packet(publication)[:5])
        made.here.close()
        made.serve()
        assert made.client.socket() is None
        assert [publication] == made.messages


def test_nothing_of_a_round_is_handed_on_after_its_connection_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the connection is lost while it sends, fetched messages not yet handed on come again over the next one."""
    sent = [Message("t", b"", mid) for mid in range(1, 1_501)]
    with scene() as made:
        made.here.sendall(b"".join(map(packet, sent)))

        def lose() -> MQTTErrorCode:
            made.client._sock = None
            return MQTTErrorCode.MQTT_ERR_CONN_LOST

        monkeypatch.setattr(made.client, "loop_write", lose)
        made.serve()
        assert sent[:1_000] == made.messages


def test_everything_that_came_is_read_in_one_round() -> None:
    """However much it is, nothing is left that no later call would read; it is handed on in parts."""
    sent = [Message("t", b"", mid) for mid in range(1, 3_001)]
    with scene() as made:
        made.read(b"".join(packet(each) for each in sent))
        assert (sent, 4) == (made.messages, made.rounds)


def test_bytes_of_a_lost_connection_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packet in which a connection ended is not continued by the bytes of the next one."""
    publication = Message("t", b"whole", 7)
    with scene() as made:
        made.read(packet(publication)[:-2])
        made.client._fetched += packet(publication)[:3]
        made.close()
        made.connect()
        monkeypatch.setattr(made.client, "_create_socket", lambda: made.there)
        made.client._sock = None
        made.client._host = "127.0.0.1"
        made.client.reconnect()
        made.read(packet(publication))
        assert [(b"whole", 7)] == [(each.payload, each.token % (1 << 16)) for each in made.messages]


def test_messages_of_an_earlier_connection_are_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their ids may stand for other messages by now; those of this connection are acknowledged in the same call."""
    with scene() as made:
        made.read(packet(Message("t", b"before", 7)))
        made.close()
        made.connect()
        monkeypatch.setattr(made.client, "_create_socket", lambda: made.there)
        made.client._sock = None
        made.client._host = "127.0.0.1"
        made.client.reconnect()
        made.client.loop_write()
        made.here.recv(1_000)
        made.read(packet(Message("t", b"after", 7)) + packet(Message("t", b"later", 9)))
        before, after, later = made.messages
        made.client.acknowledge([before.token, later.token])
        made.client.loop_write()
        assert b"\x40\x02\x00\x09" == made.here.recv(1_000)
        assert before.token != after.token


def test_acknowledgements_leave_together() -> None:
    """All ids go in one piece and in order; a message without an id is not acknowledged."""
    with scene() as made:
        made.client.acknowledge([1, 0, 300])
        made.client.acknowledge([0])
        made.client.loop_write()
        assert b"\x40\x02\x00\x01\x40\x02\x01\x2c" == made.here.recv(1_000)


def test_the_number_of_messages_of_a_round_is_known_to_the_next() -> None:
    """Messages that the library reads count too; other packets do not."""
    found: list[int] = []

    def note(before: Fetch) -> float:
        found.append(before.messages)
        return 0.0

    answer = b"\xd0\x00"
    usual, unusual = (packet(Message("t", b"", 7), properties=properties) for properties in (b"\x00", EXPIRING))
    with scene(grouping=note) as made:
        for sent in (usual + unusual + answer + usual, answer, usual):
            made.read(sent)
        made.read(answer)
    assert [0, 3, 0, 1] == found


def test_the_acknowledgement_time_of_a_round_is_known_to_the_next() -> None:
    """It counts from the round's own beginning; a round without acknowledgements has none."""
    found: list[float] = []

    def note(before: Fetch) -> float:
        found.append(before.acknowledged)
        return 0.0

    with scene(grouping=note) as made:
        made.read(packet(Message("t", b"", 1)))
        begun = time.monotonic()
        made.read(packet(Message("t", b"", 2)))
        made.client.acknowledge([1, 2])
        acknowledged = time.monotonic()
        made.read(packet(Message("t", b"", 3)))
    assert [0.0, 0.0] == found[:2]
    assert 0.0 < found[2] <= acknowledged - begun


def test_what_is_published_together_leaves_in_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order and at the end, after what waited before it; the loop is called once."""
    many, sent, calls = 200, list[bytes](), list[None]()

    def send(piece: bytes) -> int:
        sent.append(bytes(piece))
        return len(piece)

    with scene() as made:
        monkeypatch.setattr(made.client, "call", lambda: calls.append(None))
        monkeypatch.setattr(made.client, "_sock_send", send)
        made.client._send_pingreq()
        made.client.open_window(many)
        with made.client.together():
            for number in range(many):
                made.client.publish("t", str(number).encode(), qos=1)
            within = len(calls)
        made.client.loop_write()
        ping, piece = sent
        messages, _ = usual_messages(piece, 0, V5, first_token=0, most=2 * many)
        assert (1, 2) == (within, len(calls))
        assert bytes([paho.PINGREQ, 0]) == ping
        assert [str(number).encode() for number in range(many)] == [message.payload for message in messages]


KINDS_OF_PACKETS = st.sampled_from([paho.PUBLISH, paho.PUBACK, paho.SUBSCRIBE, paho.DISCONNECT])


@given(st.lists(st.tuples(KINDS_OF_PACKETS, st.binary(max_size=9), st.integers(0, 1), st.integers(0, 1))))
def test_pieces_hold_all_packets_in_order(drawn: list[tuple[int, bytes, int, int]]) -> None:
    """The same bytes leave, and what has something to follow, or is half sent, is joined with nothing."""
    packets = [_waiting(command, content, mid=1, qos=qos) | {"pos": begun} for command, content, qos, begun in drawn]
    pieces = list(_pieces(packets))
    joins = [not begun and qos and command in {paho.PUBLISH, paho.PUBACK} for command, _, qos, begun in drawn]
    assert b"".join(content for _, content, _, _ in drawn) == b"".join(each["packet"] for each in pieces)
    assert [packet for packet, join in zip(packets, joins, strict=True) if not join] == [
        each for each in pieces if each["mid"]
    ]


@contextmanager
def looped(made: Scene) -> Iterator[None]:
    """A loop that serves a scene's client."""
    loop = ClientLoop("serves a scene")
    loop.add(made.client)
    try:
        yield
    finally:
        made.client.disconnect()
        loop.remove(made.client)


def test_sending_does_not_wait_for_a_round() -> None:
    """An acknowledgement leaves while later messages are grouped, and those are fetched once nothing waits any more."""
    waits, handed_on = threading.Event(), threading.Event()

    def long(_before: Fetch) -> float:
        waits.set()
        return 10 * BOUND

    publication = Message("t", b"later", 7)
    with scene(grouping=long) as made:
        made.on_end = handed_on.set
        made.here.settimeout(BOUND)
        with looped(made):
            made.here.sendall(packet(publication))
            assert waits.wait(BOUND)
            made.client.acknowledge([300])
            assert (b"\x40\x02\x01\x2c", []) == (made.here.recv(1_000), made.messages)
            made.client.hurry()
            assert handed_on.wait(BOUND)
            assert [publication] == made.messages


def test_messages_are_handed_on_before_the_end_of_their_connection() -> None:
    """They must not be taken for messages of the next connection."""
    handed_on: list[object] = []
    client = MqttClient(
        Address(host="127.0.0.1", port=1),
        "one",
        topics=["t"],
        on_message=handed_on.append,
        on_disconnection=lambda: handed_on.append("ended"),
    )
    client._on_messages([Message("t", b"", 7)])
    client._on_disconnect(None, None, None, SimpleNamespace(), None)  # type: ignore[arg-type]  # they are not looked at
    assert [Message("t", b"", 7), "ended"] == handed_on


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("leaves", [False, True], ids=["stops", "leaves"])
@pytest.mark.parametrize("protocol", [V5, V311], ids=["5", "3.1.1"])
def test_leaving_waits_for_no_round(
    kind: BrokerKind,
    protocol: MQTTProtocolVersion,
    leaves: bool,  # noqa: FBT001 - it is a parameter of the test
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This holds however long messages are grouped; messages that were not handed on come again after a mere stop."""
    # So that who stops would be seen to wait for an answer that lies there.
    monkeypatch.setattr("bridge.transport.subscriptions.PARTING", 10 * BOUND)
    came: list[bytes] = []
    groups = threading.Event()

    def once(before: Fetch) -> float:
        if not before.messages:
            return 0.0
        groups.set()
        return 10 * BOUND

    def take(message: Message) -> None:
        came.append(message.payload)
        client.acknowledge([message.token])
        sender.publish("t", b"second")

    with start_broker(tmp_path, {"braid": "a word"}, kind=kind) as broker:
        address = broker.address("braid")
        client = MqttClient(address, "listens", topics=["t"], on_message=take, protocol=protocol, grouping=once)
        sender = MqttClient(address, "sends")
        client.start()
        sender.start()
        sender.publish("t", b"first")
        assert groups.wait(BOUND)
        ends = threading.Thread(target=client.leave if leaves else client.stop)
        ends.start()
        ends.join(BOUND)
        assert (False, b"first") == (ends.is_alive(), came[0])
        if not leaves:
            again = threading.Event()
            heard: list[bytes] = []

            def hear(message: Message) -> None:
                heard.append(message.payload)
                again.set()

            client = MqttClient(address, "listens", topics=["t"], on_message=hear, protocol=protocol)
            client.start()
            assert again.wait(BOUND)
            client.stop()
        sender.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_many_messages_and_those_without_an_id_come_over_one_connection(tmp_path: Path, kind: BrokerKind) -> None:
    """More than may be unacknowledged at once, some sent at QoS 0: all come, in order, and none comes again."""
    many = 2_500
    came: list[bytes] = []
    connections: list[None] = []
    complete = threading.Event()

    def take(message: Message) -> None:
        came.append(message.payload)
        client.acknowledge([message.token])
        if message.payload == b"last":
            complete.set()

    def listening() -> Any:
        return MqttClient(
            address,
            "listens",
            topics=["t"],
            on_message=take,
            on_connection=lambda: connections.append(None),
            grouping=lambda _before: 0.01,
        )

    with start_broker(tmp_path, {"braid": "a word"}, kind=kind) as broker:
        address = broker.address("braid")
        client = listening()
        client.start()
        sender = paho.Client(CallbackAPIVersion.VERSION2)
        sender.username_pw_set(address.user, address.password)
        sender.connect(address.host, address.port)
        sender.loop_start()
        for number in range(many):
            sender.publish("t", str(number).encode(), qos=0 if number % 100 == 0 else 1)
        sender.publish("t", b"last", qos=1)
        assert complete.wait(BOUND)
        # Those of one kind may pass those of the other.
        for unacknowledged in (True, False):
            assert [n for n in range(many) if (n % 100 == 0) is unacknowledged] == [
                n for n in map(int, came[:-1]) if (n % 100 == 0) is unacknowledged
            ]
        client.stop()
        complete.clear()
        client = listening()
        client.start()
        sender.publish("t", b"last", qos=1)
        assert complete.wait(BOUND)
        assert ([b"last"] * 2, 2) == (came[many:], len(connections))
        client.stop()
        sender.disconnect()
        sender.loop_stop()


@pytest.mark.parametrize("kind", KINDS)
def test_messages_of_a_small_window_do_not_wait_for_batches(
    tmp_path: Path, kind: BrokerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that hands out twenty before they are acknowledged is not asked for more only once for each batch."""
    many, window = 400, 20
    monkeypatch.setattr(mqtt_client, "UNACKNOWLEDGED", window)
    came: list[Message] = []
    waits: list[float] = []
    complete = threading.Event()

    def take(messages: Sequence[Message]) -> None:
        came.extend(messages)
        client.acknowledge(message.token for message in messages)
        if messages[-1].payload == b"last":
            complete.set()

    def grouping(before: Fetch) -> float:
        # As if the next batch always were a second away.
        waits.append(fetch_wait(time.monotonic() + 1.0, now=time.monotonic(), before=before))
        return waits[-1]

    with start_broker(tmp_path, {"braid": "a word"}, kind=kind) as broker:
        client = MqttClient(broker.address("braid"), "listens", topics=["t"], on_messages=take, grouping=grouping)
        client.start()
        client.stop()
        sender = MqttClient(broker.address("braid"), "sends")
        sender.start()
        for number in range(many):
            sender.publish("t", str(number).encode())
        sent = threading.Event()
        sender.publish("t", b"last", answered=lambda _refusal: sent.set())
        assert sent.wait(BOUND)
        sender.stop()
        waits.clear()
        client = MqttClient(broker.address("braid"), "listens", topics=["t"], on_messages=take, grouping=grouping)
        client.start()
        assert complete.wait(BOUND)
        client.stop()
    # A second for each would be twenty.
    assert (many + 1, True) == (len(came), sum(waits) < many / window / 4)


def test_a_round_that_waits_ends_when_it_is_hurried() -> None:
    """What came is handed on long before the round's time is over, even if the hurry is over when its thread runs."""
    waited, handed_on = threading.Event(), threading.Event()

    def grouping(_before: Fetch) -> float:
        waited.set()
        return 10 * BOUND

    with scene(grouping=grouping) as made:
        made.on_end = handed_on.set
        with looped(made):
            made.here.sendall(packet(Message("t", b"first", 1)))
            assert waited.wait(BOUND)
            made.client.hurry(0.0)
            assert handed_on.wait(BOUND)
            assert [b"first"] == [message.payload for message in made.messages]


def test_large_messages_are_read_no_faster_than_they_are_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the host's memory has some of them, and the broker the others; once one is acknowledged it reads on."""
    monkeypatch.setattr(mqtt_rounds, "_MOST_HELD", 100_000)
    sent = [Message("t", bytes(70_000), number) for number in (1, 2, 3)]
    handed_on: SimpleQueue[int] = SimpleQueue()
    with scene() as made:
        made.on_end = lambda: handed_on.put(len(made.messages))
        sending = threading.Thread(target=made.here.sendall, args=(b"".join(map(packet, sent)),))
        with looped(made):
            sending.start()
            # It hands on what it has each time that it waits.
            counts = [handed_on.get(timeout=BOUND) for _ in range(5)]
            assert 2 == max(counts)
            assert sent[:2] == made.messages
            made.client.acknowledge([1])
            while handed_on.get(timeout=BOUND) < 3:
                pass
            made.client.acknowledge([2])
            assert sent == made.messages
        sending.join(BOUND)


def test_a_client_of_a_process_with_many_descriptors_stays_connected(tmp_path: Path) -> None:
    """Though the library's own loop takes a descriptor above a thousand for a lost connection."""
    allow_many_descriptors()
    came: SimpleQueue[bytes] = SimpleQueue()
    connections: list[None] = []
    with ExitStack() as stack:
        broker = stack.enter_context(start_broker(tmp_path, {"braid": "a word"}, kind="embedded"))
        for _ in range(1_100):
            stack.enter_context(Path("/dev/null").open())
        client = MqttClient(
            broker.address("braid"),
            "among many",
            topics=["t"],
            on_message=lambda message: came.put(message.payload),
            on_connection=lambda: connections.append(None),
            # It waits, too, for what is not to be read yet.
            grouping=lambda _before: 0.01,
        )
        client.start()
        stack.callback(client.stop)
        for number in range(3):
            client.publish("t", b"%d" % number)
            assert b"%d" % number == came.get(timeout=BOUND)
        assert 1 == len(connections)
