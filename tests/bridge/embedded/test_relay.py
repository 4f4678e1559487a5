"""The relay before mosquitto: what it does with packets that no library sends."""

import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bridge.broker import Broker, start_broker
from bridge.broker_setup import ACCESS_LIST, PASSWORDS, Entrance
from bridge.embedded import hashed
from bridge.embedded.packets import framed, text
from bridge.embedded.relay import AccessList
from tests import needs

pytestmark = pytest.mark.mosquitto
BOUND = 20.0
ACCEPTED = b"\x20\x02\x00\x00"
LIST = "user ann\ntopic read out/ann/#\n\nuser bob\ntopic read out/bob/#\n"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    needs.mosquitto()
    (tmp_path / PASSWORDS).write_text(f"ann:{hashed('a')}\nbob:{hashed('b')}\n")
    (tmp_path / ACCESS_LIST).write_text(LIST)
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


def test_nobody_comes_in_past_it(broker: Broker, tmp_path: Path) -> None:
    """Only the broker's owner can enter the folder of the socket, and mosquitto lets tenants in nowhere else."""
    assert 0o700 == stat.S_IMODE((tmp_path / "broker" / "tenants").stat().st_mode)
    connections = psutil.Process(broker.pid).net_connections(kind="inet")
    assert [broker.address("braid").port] == [each.laddr.port for each in connections if each.status == "LISTEN"]


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


def test_a_client_is_hung_up_on_while_no_broker_answers(broker: Broker) -> None:
    """It may try again, as after any lost connection."""
    mosquitto = psutil.Process(broker.pid)
    mosquitto.kill()
    mosquitto.wait(BOUND)
    with line(broker) as ann:
        ann.sendall(connect("anns"))
        assert b"" == answer(ann, 1)


def test_a_list_counts_as_soon_as_it_is_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The relay waits for no signal; a list that it cannot read changes nothing, and is named."""
    path = tmp_path / ACCESS_LIST
    path.write_text(LIST)
    rights = AccessList(path).rights
    assert [True, False] == [rights().permit("ann", "read", "out/ann/#"), rights().permit("ann", "read", "out/eve/#")]
    path.write_text(LIST.replace("out/ann", "out/eve"))
    assert [False, True] == [rights().permit("ann", "read", "out/ann/#"), rights().permit("ann", "read", "out/eve/#")]
    path.write_text("user ann\ntopic sees #\n")
    assert [False, True] == [rights().permit("ann", "read", "out/ann/#"), rights().permit("ann", "read", "out/eve/#")]
    path.unlink()
    assert rights().permit("ann", "read", "out/eve/#")
    assert all(str(path) in each.getMessage() for each in caplog.records)
    assert len(caplog.records) >= 2
