"""A client's session: what it keeps for a client that does not read, and what it drops."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.embedded import packets
from bridge.embedded.access import Door
from bridge.embedded.exchange import ClientSession, SessionOwner
from bridge.embedded.packets import V311, Published

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
