"""Clients of the embedded broker and of the relay: packets, also odd ones, sessions, and files of rights."""

import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.broker import Broker, start_broker
from bridge.broker_setup import ACCESS_LIST, PASSWORDS, Entrance
from bridge.embedded import hashed, packets
from bridge.embedded.access import Door, UnfitList
from bridge.embedded.exchange import ClientSession, SessionOwner
from bridge.embedded.packets import V5, V311, Code, Malformed, Published, framed, text
from bridge.embedded.relay import AccessList
from bridge.messages import Message
from bridge.transport.mqtt_client import MqttClient
from tests import needs

LIST = """user braid
topic readwrite #
topic readwrite $SYS/#

user tenant-ann
topic read braid/1/out/ann/#
topic write city/street 1
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    passwords, access_list = tmp_path / "passwords", tmp_path / "acl"
    passwords.write_text(f"tenant-ann:{hashed('a secret')}\nbraid:{hashed('another')}\n")
    access_list.write_text(LIST)
    return passwords, access_list


def test_a_list_permits_what_it_says(files: tuple[Path, Path]) -> None:
    """Everything that no line permits is forbidden, for reading and for writing."""
    door = Door(*files)
    asked = [
        ("read", "braid/1/out/ann/d/s"),
        ("read", "braid/1/out/ann"),
        ("write", "city/street 1"),
        ("read", "braid/1/out/bob/d/s"),
        ("write", "braid/1/out/ann/d/s"),
        ("read", "city/street 1"),
        ("write", "city/street 1/below"),
    ]
    assert [True] * 3 + [False] * 4 == [door.permits("tenant-ann", access, topic) for access, topic in asked]  # type: ignore[arg-type]  # they are literals
    assert [True, True] == [door.permits("braid", "read", topic) for topic in ("a", "$SYS/broker/uptime")]
    assert not door.permits("tenant-bob", "read", "braid/1/out/bob/d")


def test_without_a_list_users_may_do_everything(files: tuple[Path, Path]) -> None:
    """A listener for Braid's own users has none."""
    door = Door(files[0])
    assert [True, False] == [door.permits(user, "write", "anything") for user in ("braid", "nobody")]


def test_a_key_holds_until_the_password_changes(files: tuple[Path, Path]) -> None:
    """An accepted user would be accepted again as long as the file has the same hash for that user."""
    door = Door(*files)
    key = door.key("tenant-ann", b"a secret")
    assert key is not None
    assert [None, None, None] == [
        door.key(*each) for each in (("tenant-ann", b"wrong"), ("tenant-bob", b"a secret"), (None, None))
    ]
    assert door.current("tenant-ann", key)
    files[0].write_text(f"tenant-ann:{hashed('a new one')}\n")
    door.read()
    assert not door.current("tenant-ann", key)
    assert [True, False] == [door.knows(user) for user in ("tenant-ann", "braid")]


@pytest.mark.parametrize("piece", [1, 3, 1_000])
def test_a_retained_message_is_understood_however_it_is_cut(broker: Broker, piece: int) -> None:
    """It is passed on whole, and retained only where its topic is granted by name."""
    topics = ["plant/m1", "plain", "plant/m2"]
    sent = connect("anns", flags=0xC2) + b"".join(framed(0x31, text(topic), b"content") for topic in topics) + b"\xc0\0"
    with line(broker) as ann:
        ann.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(sent), piece):
            ann.sendall(sent[at : at + piece])
        assert ACCEPTED + b"\xd0\0" == answer(ann, len(ACCEPTED) + 2)
    came: list[tuple[str, bytes, bool]] = []
    end = threading.Event()

    def note(message: Message) -> None:
        came.append((message.topic, message.payload, message.retained))
        if message.topic == "plant/end":
            end.set()

    client = MqttClient(broker.address("braid"), "reads", topics=["plant/#", "plain"], on_message=note, lasting=False)
    client.start()
    client.publish("plant/end", b"")
    assert end.wait(BOUND)
    client.stop()
    assert [("plain", b"content", True), ("plant/end", b"", False)] == came


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("passwords", "ann\n", "line 1: expected user:hash"),
        ("passwords", "ann:hush\n", "line 1: expected user:hash"),
        ("acl", "topic read a\n", "line 1: expected user NAME"),
        ("acl", "user ann\ntopic a\n", "line 2: expected topic read, write or readwrite"),
        ("acl", "user ann\ntopic deny a\n", "line 2: expected topic read, write or readwrite"),
        ("acl", "user ann\ntopic read a/#/b\n", "line 2: expected topic read, write or readwrite"),
        ("acl", "user ann\npattern read %u/#\n", "line 2: expected user NAME"),
    ],
)
def test_a_list_that_cannot_be_read_changes_nothing(
    files: tuple[Path, Path], tmp_path: Path, name: str, content: str, reason: str
) -> None:
    """It is refused as a whole, with file and line but no secret; the old content stays in force."""
    door = Door(*files)
    (tmp_path / name).write_text(content)
    with pytest.raises(UnfitList, match=rf"{name}, {reason}") as refused:
        door.read()
    assert "hush" not in str(refused.value)
    assert door.permits("tenant-ann", "write", "city/street 1")
    assert door.key("tenant-ann", b"a secret") is not None


BODIES = st.binary(max_size=60)
VERSIONS = st.sampled_from([V311, V5])


@given(BODIES, VERSIONS, st.integers(0, 15))
def test_no_bytes_break_the_broker(body: bytes, version: int, flags: int) -> None:
    """Each is a packet, or refused as malformed."""
    name = b"\x00\x04MQTT" + bytes([version])
    for read in (
        lambda: packets.read_connect(body),
        lambda: packets.read_connect(name + body),
        lambda: packets.read_publish(flags, body, version),
        lambda: packets.Fields(body).packet_id(),
        lambda: packets.read_subscribe(body, version),
        lambda: packets.read_unsubscribe(body, version),
        lambda: packets.read_disconnect(body, version),
        lambda: packets.header(body, 0),
    ):
        with suppress(Malformed):
            read()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x00\x04MQTT\x06\x02\x00\x00\x00\x00", Code.UNSUPPORTED_VERSION),
        (b"\x00\x04MQTT\x04\x03\x00\x00\x00\x00", Code.MALFORMED),
        (b"\x00\x04MQTT\x04\x06\x00\x00\x00\x00\x00\x01#\x00\x00", Code.BAD_TOPIC),
        (b"\x00\x04MQTT\x05\x02\x00\x00\x04\x15\x00\x01x\x00\x00", Code.BAD_METHOD),
    ],
)
def test_a_connect_that_breaks_the_rules_is_refused(body: bytes, reason: Code) -> None:
    """Unknown versions, flags and topics, and ways to authenticate that the broker does not have."""
    with pytest.raises(Malformed) as refused:
        packets.read_connect(body)
    assert reason is refused.value.reason


def test_properties_are_bounded() -> None:
    """A stranger's packet that is nothing but properties, each of five bytes, keeps the broker busy for no time."""
    name = b"\x00\x04MQTT\x05\x02\x00\x00"
    packets.read_connect(name + b"\xfd\x00" + b"\x26\x00\x00\x00\x00" * 25 + b"\x00\x00")
    with pytest.raises(Malformed) as refused:
        packets.read_connect(name + b"\xc0\x84\x3d" + b"\x26\x00\x00\x00\x00" * 200_000 + b"\x00\x00")
    assert Code.TOO_LARGE is refused.value.reason


@pytest.mark.parametrize(
    ("flags", "body", "reason"),
    [
        (0, b"\x00\x00", Code.BAD_TOPIC),
        (0, b"\x00\x03a/#", Code.BAD_TOPIC),
        (0, b"\x00\x02\xff\xff", Code.MALFORMED),
        (6, b"\x00\x01a\x00\x01", Code.MALFORMED),
        (2, b"\x00\x01a\x00\x00", Code.MALFORMED),
        (0, b"\x00\x01a\x03\x23\x00\x01", Code.BAD_ALIAS),
        (0, b"\x00\x01a\x02\x0b\x01", Code.PROTOCOL),
    ],
)
def test_a_message_that_breaks_the_rules_is_refused(flags: int, body: bytes, reason: Code) -> None:
    """Malformed topics, packet id 0, and properties that only a broker may set."""
    with pytest.raises(Malformed) as refused:
        packets.read_publish(flags, body, V5)
    assert reason is refused.value.reason


MOST = 100


class Reader:
    """A connection that takes one message at a time."""

    version = V311
    receive_maximum = 1
    packet_maximum = 1_000
    ready = True

    def __init__(self) -> None:
        self.came: list[tuple[int, bytes]] = []

    def send(self, packet: bytes) -> None:
        """Read a message."""
        number, published = packets.read_publish(packet[0] & 15, packet[2:], V311)
        self.came.append((number, published.payload))


def session(folder: Path) -> ClientSession:
    (folder / "passwords").touch()
    door = Door(folder / "passwords")
    return ClientSession(SessionOwner(door, "tenant-ann", "sleeps"), 0, lambda: 0.0, MOST)


@given(sizes=st.lists(st.integers(0, 60), max_size=12), read=st.lists(st.integers(0, 4), min_size=12, max_size=12))
def test_a_session_keeps_what_has_room_in_order_and_counts_the_rest(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], read: list[int]
) -> None:
    """Whenever its client reads, all comes that had room when it was offered, once; and then there is room again."""
    kept, reader = session(tmp_path_factory.mktemp("door")), Reader()
    expected: list[bytes] = []
    waiting: list[int] = []
    dropped = 0
    for number, size in enumerate(sizes):
        payload = b"%c" % number * size
        if sum(waiting) + size <= MOST:
            expected.append(payload)
            waiting.append(size)
        else:
            dropped += 1
        came = len(reader.came)
        kept.offer(Published(topic="t", payload=payload, qos=1, retain=False), 1, retain=False, taken=0.0)
        for _ in range(read[number]):
            _read_one(kept, reader)
        # What was sent does not wait any more.
        waiting = waiting[len(reader.came) - came :]
    for _ in range(len(sizes) + 1):
        _read_one(kept, reader)
    assert expected == [payload for _, payload in reader.came]
    assert dropped == kept.dropped


def _read_one(kept: ClientSession, reader: Reader) -> None:
    """Have the client come if it is not there, and acknowledge what it was sent last."""
    if kept.link is None:
        kept.attach(reader)
        kept.pump()
    elif reader.came:
        kept.acknowledged(reader.came[-1][0])


BOUND = 20.0
ACCEPTED = b"\x20\x02\x00\x00"
RELAYED_LIST = (
    "user ann\ntopic read out/ann/#\ntopic write plant/#\ntopic write plain\n\nuser bob\ntopic read out/bob/#\n"
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    needs.mosquitto()
    (tmp_path / PASSWORDS).write_text(f"ann:{hashed('a')}\nbob:{hashed('b')}\n")
    (tmp_path / ACCESS_LIST).write_text(RELAYED_LIST)
    entrance = Entrance(folder=tmp_path)
    with start_broker(tmp_path / "broker", {"braid": "secret"}, entrance=entrance, kind="mosquitto") as started:
        yield started


def line(broker: Broker) -> socket.socket:
    """A connection to the entrance."""
    assert broker.entrance is not None
    return socket.create_connection((broker.entrance.host, broker.entrance.port), timeout=BOUND)


def connect(client: str, user: str = "ann", password: str = "a", flags: int = 0xC2) -> bytes:  # noqa: S107 - an example
    """A packet of MQTT 3.1.1 that asks to be let in."""
    return framed(0x10, text("MQTT"), bytes([4, flags, 0, 0]), text(client), text(user), text(password))


def subscribe(*filters: str) -> bytes:
    """A packet of MQTT 3.1.1 that subscribes at QoS 0."""
    return framed(0x82, b"\0\1", *(text(each) + b"\0" for each in filters))


def answer(connection: socket.socket, many: int) -> bytes:
    """The next bytes; fewer if the connection is closed before."""
    came = b""
    while len(came) < many and (more := connection.recv(many - len(came))):
        came += more
    return came


def running_relay() -> psutil.Process:
    """The process beside mosquitto."""
    # Other tests may have left a process of their own.
    (relay,) = [child for child in psutil.Process().children() if "embedded.relay" in child.cmdline()]
    return relay


@pytest.mark.mosquitto
@pytest.mark.parametrize("piece", [1, 2, 7, 1_000])
def test_packets_are_understood_however_they_are_cut(broker: Broker, piece: int) -> None:
    """Bytes come as the network has them: a packet in pieces, or several at once and before any answer."""
    sent = connect("x" * 200) + subscribe("out/ann/#", "out/bob/#", "out/ann/a") + b"\xc0\0"
    with line(broker) as ann:
        ann.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(sent), piece):
            ann.sendall(sent[at : at + piece])
        suback = b"\x90\x05\0\1\x00\x80\x00"
        assert ACCEPTED + suback + b"\xd0\0" == answer(ann, len(ACCEPTED) + len(suback) + 2)


@pytest.mark.mosquitto
@pytest.mark.parametrize(
    "packet",
    [
        connect("bobs", "bob", "b"),
        b"\x82\x03\0\1a",
        b"\x82\xff\xff\xff\x7f",
        framed(0x82, b"\0\1", b"\xff\xff" + b"o" * 100),
        framed(0x82, b"\0\1"),
        framed(0x82, b"\0\1", b"\0\1\xff\0"),
    ],
    ids=["a second connect", "cut", "as long as can be", "a filter beyond its packet", "no filter", "no text"],
)
def test_what_breaks_the_rules_ends_its_own_connection(broker: Broker, packet: bytes) -> None:
    """Nothing of it is passed on; another client goes on."""
    with line(broker) as other, line(broker) as ann:
        other.sendall(connect("bobs", "bob", "b"))
        ann.sendall(connect("anns"))
        assert [ACCEPTED, ACCEPTED] == [answer(each, 4) for each in (other, ann)]
        ann.sendall(packet)
        assert b"" == answer(ann, 1)
        other.sendall(b"\xc0\0")
        assert b"\xd0\0" == answer(other, 2)


@pytest.mark.mosquitto
@pytest.mark.full
def test_refusals_that_nobody_reads_do_not_pile_up(broker: Broker) -> None:
    """A client that asks on and on, and reads no answer, is disconnected."""
    with line(broker) as ann:
        ann.sendall(connect("anns"))
        assert ACCEPTED == answer(ann, 4)
        refused = subscribe("b") * 10_000

        def ask_on() -> None:
            # A piece at a time: what counts is that the relay reads on until it has enough, not how fast.
            for _ in range(1_000):
                ann.sendall(refused)

        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            ask_on()


@pytest.mark.mosquitto
@pytest.mark.parametrize(
    ("packet", "code"),
    [(connect("x" * 65_532), 2), (connect("", flags=0xC0), 2), (framed(0x10, text("MQTT"), b"\4\2\0\0", text("x")), 5)],
    ids=["a client id that leaves no room for the user", "a session without an id", "no user"],
)
def test_a_connect_that_nobody_could_accept_is_answered(broker: Broker, packet: bytes, code: int) -> None:
    """The client learns why, by the code of MQTT 3.1.1."""
    with line(broker) as stranger:
        stranger.sendall(packet)
        assert bytes([0x20, 2, 0, code]) == answer(stranger, 5)


@pytest.mark.mosquitto
def test_nobody_comes_in_past_it(broker: Broker, tmp_path: Path) -> None:
    """Only the broker's owner can enter the folder of the socket, and mosquitto lets tenants in nowhere else."""
    assert 0o700 == stat.S_IMODE((tmp_path / "broker" / "tenants").stat().st_mode)
    connections = psutil.Process(broker.pid).net_connections(kind="inet")
    assert [broker.address("braid").port] == [each.laddr.port for each in connections if each.status == "LISTEN"]


@pytest.mark.mosquitto
def test_a_relay_that_died_is_started_again(broker: Broker) -> None:
    """Without it no tenant comes in, so the broker does not count as alive; a restart brings both back."""
    relay = running_relay()
    os.kill(relay.pid, signal.SIGKILL)
    relay.wait(BOUND)
    # Until the thread that waits for the process has noticed.
    waiting = threading.Event()
    assert any(not broker.alive() or waiting.wait(0.01) for _ in range(int(BOUND / 0.01)))
    broker.restart()
    with line(broker) as ann:
        ann.sendall(connect("anns"))
        assert ACCEPTED == answer(ann, 4)


@pytest.mark.mosquitto
def test_a_client_is_hung_up_on_while_no_broker_answers(broker: Broker) -> None:
    """It may try again, as after any lost connection."""
    mosquitto = psutil.Process(broker.pid)
    mosquitto.kill()
    mosquitto.wait(BOUND)
    with line(broker) as ann:
        ann.sendall(connect("anns"))
        assert b"" == answer(ann, 1)


@pytest.mark.mosquitto
def test_a_list_counts_as_soon_as_it_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The relay waits for no signal; a list that it cannot read changes nothing, and is named."""
    path = tmp_path / ACCESS_LIST
    path.write_text(RELAYED_LIST)
    rights = AccessList(path).rights
    assert [True, False] == [rights().permit("ann", "read", "out/ann/#"), rights().permit("ann", "read", "out/eve/#")]
    path.write_text(RELAYED_LIST.replace("out/ann", "out/eve"))
    assert [False, True] == [rights().permit("ann", "read", "out/ann/#"), rights().permit("ann", "read", "out/eve/#")]
    path.write_text("user ann\ntopic sees #\n")
    assert [False, True] == [rights().permit("ann", "read", "out/ann/#"), rights().permit("ann", "read", "out/eve/#")]
    path.unlink()
    assert rights().permit("ann", "read", "out/eve/#")
    assert all(str(path) in each.getMessage() for each in caplog.records)
    assert len(caplog.records) >= 2
