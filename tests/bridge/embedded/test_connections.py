"""Clients of the embedded broker: their packets, their sessions, and the files of their rights."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.embedded import hashed, packets
from bridge.embedded.access import Door, UnfitList
from bridge.embedded.exchange import ClientSession, SessionOwner
from bridge.embedded.packets import V5, V311, Code, Malformed, Published

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
