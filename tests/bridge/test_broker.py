"""Brokers that run as child processes: mosquitto and the embedded one."""

import os
import queue
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any, Self

import paho.mqtt.client as paho
import psutil
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge import broker_setup
from bridge.broker import Broker, BrokerDown, BrokerKind, start_broker
from bridge.files import LeaseTaken
from bridge.messages import LARGEST_PACKET
from bridge.transport.address import Address
from bridge.transport.probes import watch_drops
from tests import brokers, needs

USERS = {"braid": "first-secret", "tenant": "zwölf # $7$ %s"}
BOUND = 20.0
RULE = "give a name without colons, control characters, spaces around it, or a # in front"
V5, V311 = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311
KINDS = pytest.mark.parametrize("kind", brokers.KINDS)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child when its parent dies")

PARENT = """
import sys
from pathlib import Path
from bridge.broker import start_broker
broker = start_broker(Path(sys.argv[1]), {"braid": "secret"}, kind=sys.argv[2])
print(broker.pid, flush=True)
sys.stdin.read()
"""


class Client:
    """A client whose callbacks only enqueue."""

    def __init__(
        self, address: Address, name: str, *, protocol: MQTTProtocolVersion = V311, topic: str | None = None
    ) -> None:
        self.answers: queue.Queue[Any] = queue.Queue()
        self.subscribed: queue.Queue[Any] = queue.Queue()
        self.published: queue.Queue[Any] = queue.Queue()
        self.messages: queue.Queue[tuple[str, bytes | bytearray, int]] = queue.Queue()
        lasting = topic is not None
        more: dict[str, Any] = {}
        if protocol is V5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
            properties.SessionExpiryInterval = 3_600 if lasting else 0
            more = {"clean_start": not lasting, "properties": properties}
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            clean_session=None if protocol is V5 else not lasting,
            protocol=protocol,
        )
        self.client.username_pw_set(address.user, address.password)
        self.client.on_connect = lambda _c, _d, flags, reason, _p: self.answers.put((reason, flags.session_present))
        self.client.on_subscribe = lambda *arguments: self.subscribed.put(arguments)
        self.client.on_publish = lambda _c, _d, mid, _r, _p: self.published.put(mid)
        self.client.on_message = lambda _c, _d, message: self.messages.put(
            (message.topic, message.payload, message.qos)
        )
        self.client.connect(address.host, address.port, **more)
        self.client.loop_start()
        reason, self.resumed = self.answers.get(timeout=BOUND)
        self.refusal = str(reason) if reason.is_failure else None
        if topic is not None:
            self.client.subscribe(topic, qos=1)
            self.subscribed.get(timeout=BOUND)

    def publish(self, topic: str, *payloads: bytes) -> None:
        """Publish at QoS 1, and wait until the broker has acknowledged."""
        for payload in payloads:
            self.client.publish(topic, payload, qos=1)
        for _ in payloads:
            self.published.get(timeout=BOUND)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture(params=brokers.KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with start_broker(tmp_path, USERS, kind=request.param) as broker:
        yield broker


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Broker]:
    needs.mosquitto()
    with start_broker(tmp_path, USERS, kind="mosquitto") as broker:
        yield broker


def await_gone(pid: int) -> None:
    """Wait until a process has ended, even one whose status was not read yet."""
    waiting = threading.Event()
    for _ in range(int(BOUND / 0.02)):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
        except psutil.NoSuchProcess:
            return
        waiting.wait(0.02)
    os.kill(pid, signal.SIGKILL)
    pytest.fail(f"process {pid} still ran")


def await_content(path: Path, content: bytes) -> None:
    """Wait until a file holds these bytes."""
    waiting = threading.Event()
    for _ in range(int(BOUND / 0.02)):
        if path.exists() and content in path.read_bytes():
            return
        waiting.wait(0.02)
    pytest.fail(f"{path.name} never held {content!r}")


def program(folder: Path, name: str, script: str) -> None:
    """Put a program of this name before all others."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "programs"


# Addresses


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("mqtt://broker.example", Address(host="broker.example", port=1883)),
        ("mqtts://broker.example/", Address(host="broker.example", port=8883, tls=True)),
        ("mqtt://[::1]:2000", Address(host="::1", port=2000)),
        ("mqtt://anna@h:1", Address(host="h", port=1, user="anna")),
        ("mqtt://anna:@h:1", Address(host="h", port=1, user="anna", password="")),
        ("mqtts://a%40b:p%2F%3A%23@h", Address(host="h", port=8883, user="a@b", password="p/:#", tls=True)),  # noqa: S106 - an example
    ],
)
def test_an_address_is_read_from_a_url(url: str, address: Address) -> None:
    """A URL has host, port, user, password and TLS, with the usual ports and with %XX for special characters."""
    assert address == Address.parse(url)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://u:hidden@h", "a broker's URL begins with mqtt:// or mqtts://"),
        ("u:hidden@h", "a broker's URL begins with mqtt:// or mqtts://"),
        ("mqtt://u:hidden@", "the broker's URL names no host"),
        ("mqtt://u:hid/den@h", "the broker's URL is malformed; write special characters as %XX"),
        ("mqtt://u:hidden@h:hidden", "the broker's URL is malformed; write special characters as %XX"),
        ("mqtt://u:hidden@[::1", "the broker's URL is malformed; write special characters as %XX"),
        ("mqtt://u:hidden@h/hidden", "a broker's URL ends with its port; write special characters as %XX"),
        ("mqtt://u?hidden@h", "a broker's URL ends with its port; write special characters as %XX"),
        ("mqtt://u#hidden@h", "a broker's URL ends with its port; write special characters as %XX"),
        ("mqtt://:hidden@h", "a password needs a user"),
    ],
)
def test_a_malformed_url_is_refused(url: str, message: str) -> None:
    """It is refused with the reason, and the message repeats no part of it."""
    with pytest.raises(ValueError, match=r"^[^h]") as refused:
        Address.parse(url)
    assert message == str(refused.value)
    assert refused.value.__cause__ is None


def test_an_address_shows_no_password() -> None:
    """Both ways to show an address give its URL with the password hidden."""
    address = Address(host="::1", port=1, user="a@b", password="hidden", tls=True)  # noqa: S106 - an example
    assert "mqtts://a%40b:***@[::1]:1" == str(address)
    assert "Address('mqtts://a%40b:***@[::1]:1')" == repr(address)
    assert "mqtt://a@h:1" == str(Address(host="h", port=1, user="a"))


def test_an_address_does_not_change() -> None:
    """An address is a value: equal by its parts, and fixed."""
    address = Address(host="h", port=1)
    assert Address.parse("mqtt://h:1") == address
    with pytest.raises(FrozenInstanceError):
        address.port = 2  # type: ignore[misc]  # what is tested


# Clients


@KINDS
def test_only_users_with_their_password_get_in(tmp_path: Path, kind: BrokerKind) -> None:
    """Every user connects with the right password; a wrong one, a stranger and a client without a user are refused."""
    with start_broker(tmp_path, USERS, kind=kind) as broker:
        known = broker.address("braid")
        host, port = known.host, known.port
        cases = {
            "braid": known,
            "tenant": broker.address("tenant"),
            "wrong": Address(host=host, port=port, user="braid", password=USERS["tenant"]),
            "stranger": Address(host=host, port=port, user="stranger", password=USERS["braid"]),
            "nobody": Address(host=host, port=port),
        }
        answers = {}
        for name, address in cases.items():
            with Client(address, name) as client:
                answers[name] = client.refusal
    refused = dict.fromkeys(("wrong", "stranger", "nobody"), "Not authorized")
    assert {"braid": None, "tenant": None, **refused} == answers


@KINDS
@pytest.mark.parametrize("protocol", [V5, V311])
def test_messages_arrive(tmp_path: Path, kind: BrokerKind, protocol: MQTTProtocolVersion) -> None:
    """Messages that are published at QoS 1 arrive at QoS 1, in order and unchanged."""
    payloads = [b"", b"\x00\xff", b"x" * 100_000]
    with (
        start_broker(tmp_path, USERS, kind=kind) as broker,
        Client(broker.address("braid"), "to", protocol=protocol, topic="a/b") as receiver,
        Client(broker.address("tenant"), "from", protocol=protocol) as sender,
    ):
        sender.publish("a/b", *payloads)
        assert [("a/b", payload, 1) for payload in payloads] == [receiver.messages.get(timeout=BOUND) for _ in payloads]


@KINDS
@pytest.mark.parametrize("protocol", [V5, V311])
def test_a_message_that_is_too_large_costs_its_sender_the_connection_and_nobody_else(
    tmp_path: Path, kind: BrokerKind, protocol: MQTTProtocolVersion
) -> None:
    """Its bytes are never kept, and the messages of others arrive."""
    with (
        start_broker(tmp_path, USERS, kind=kind) as broker,
        Client(broker.address("braid"), "to", protocol=protocol, topic="a/b") as receiver,
        Client(broker.address("tenant"), "greedy", protocol=protocol) as greedy,
        Client(broker.address("tenant"), "from", protocol=protocol) as sender,
    ):
        gone = threading.Event()
        greedy.client.on_disconnect = lambda *_: gone.set()
        before = psutil.Process(broker.pid).memory_info().rss
        greedy.client.publish("a/b", bytes(LARGEST_PACKET), qos=0)
        assert gone.wait(BOUND)
        sender.publish("a/b", b"small")
        assert ("a/b", b"small", 1) == receiver.messages.get(timeout=BOUND)
        assert psutil.Process(broker.pid).memory_info().rss - before < LARGEST_PACKET


@pytest.mark.mosquitto
@pytest.mark.parametrize("protocol", [V5, V311])
def test_an_absent_client_misses_nothing_when_mosquitto_is_killed(
    tmp_path: Path, mosquitto: Broker, protocol: MQTTProtocolVersion
) -> None:
    """Messages that mosquitto has saved for an absent client outlive `kill -9`, and it saves by itself."""
    address = mosquitto.address("braid")
    with Client(address, "absent", protocol=protocol, topic="t"):
        pass
    with Client(address, "sender", protocol=protocol) as sender:
        sender.publish("t", b"first-of-two", b"second-of-two")
    await_content(tmp_path / "mosquitto.db", b"second-of-two")
    killed = mosquitto.pid
    os.kill(killed, signal.SIGKILL)
    mosquitto.restart()
    assert address == mosquitto.address("braid")
    assert killed != mosquitto.pid
    with Client(address, "absent", protocol=protocol, topic="t") as receiver:
        assert receiver.resumed
        assert [b"first-of-two", b"second-of-two"] == [receiver.messages.get(timeout=BOUND)[1] for _ in range(2)]


@pytest.mark.mosquitto
@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "running"])
def test_mosquitto_saves_everything_when_it_is_terminated(mosquitto: Broker, *, stopped: bool) -> None:
    """An orderly restart, with or without a stop before it, loses nothing that was acknowledged just before."""
    address = mosquitto.address("braid")
    with Client(address, "absent", topic="t"):
        pass
    with Client(address, "sender") as sender:
        sender.publish("t", *(str(n).encode() for n in range(2_000)))
    if stopped:
        mosquitto.stop()
    mosquitto.restart()
    with Client(address, "absent", topic="t") as receiver:
        assert list(range(2_000)) == [int(receiver.messages.get(timeout=BOUND)[1]) for _ in range(2_000)]


@KINDS
def test_a_restarted_broker_is_where_it_was(tmp_path: Path, kind: BrokerKind) -> None:
    """After it was killed a broker comes back on its port, with its users."""
    with start_broker(tmp_path, USERS, kind=kind) as broker:
        address = broker.address("tenant")
        os.kill(broker.pid, signal.SIGKILL)
        broker.restart()
        assert broker.alive()
        assert address == broker.address("tenant")
        with Client(address, "client") as client:
            assert client.refusal is None


# Secrets and reach


@KINDS
def test_a_broker_listens_on_loopback_only(tmp_path: Path, kind: BrokerKind) -> None:
    """By default no other machine reaches a broker."""
    with start_broker(tmp_path, USERS, kind=kind) as broker:
        listening = {
            connection.laddr
            for connection in psutil.Process(broker.pid).net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        }
        assert {("127.0.0.1", broker.address("braid").port)} == listening


@KINDS
def test_a_broker_listens_on_the_given_host(tmp_path: Path, kind: BrokerKind) -> None:
    """A broker on all addresses is reached from this machine by loopback."""
    everywhere = "0.0.0.0"  # noqa: S104 - what is tested
    with start_broker(tmp_path, USERS, kind=kind, host=everywhere) as broker:
        assert {everywhere} == {
            connection.laddr.ip
            for connection in psutil.Process(broker.pid).net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        }
        assert "127.0.0.1" == broker.address("braid").host


@KINDS
def test_a_broker_shows_no_password(tmp_path: Path, kind: BrokerKind) -> None:
    """Passwords are in no argument and no variable of the broker's process, in no file, and in no text form."""
    with start_broker(tmp_path, USERS, kind=kind) as broker:
        process = psutil.Process(broker.pid)
        shown = [*process.cmdline(), *process.environ().values(), repr(broker), repr(broker.address("braid"))]
        shown += [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
        assert [] == [text for text in shown for password in USERS.values() if password in text]
        assert 0o600 == stat.S_IMODE((tmp_path / "passwords").stat().st_mode)


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ({}, "a broker without a user is useless; give at least one"),
        ({"": "p"}, f"'' cannot name a user: {RULE}"),
        ({"a:b": "p"}, f"'a:b' cannot name a user: {RULE}"),
        ({"#a": "p"}, f"'#a' cannot name a user: {RULE}"),
        ({"a\n": "p"}, f"'a\\n' cannot name a user: {RULE}"),
        ({" a": "p"}, f"' a' cannot name a user: {RULE}"),
        ({"a": ""}, "the password of 'a' is empty"),
        ({"good": "p", "a": ""}, "the password of 'a' is empty"),
    ],
)
def test_users_that_no_password_file_can_hold_are_refused(tmp_path: Path, users: dict[str, str], message: str) -> None:
    """Names and passwords that would become other lines of the password file are refused before anything is written."""
    with pytest.raises(ValueError, match=r"user|password") as refused:
        start_broker(tmp_path / "broker", users)
    assert message == str(refused.value)
    assert not (tmp_path / "broker").exists()


# Processes


@KINDS
def test_a_stopped_broker_is_gone(tmp_path: Path, kind: BrokerKind) -> None:
    """A stop leaves no process, and a second one does nothing."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    broker = start_broker(tmp_path, USERS, kind=kind)
    assert kind == broker.kind
    assert broker.alive()
    assert {broker.pid} == {child.pid for child in psutil.Process().children(recursive=True)} - before
    broker.stop()
    assert not broker.alive()
    assert not psutil.pid_exists(broker.pid)
    assert before == {child.pid for child in psutil.Process().children(recursive=True)}
    broker.stop()


def test_a_broker_that_ignores_termination_is_killed(broker: Broker) -> None:
    """A process that does not end on request is killed after the timeout."""
    os.kill(broker.pid, signal.SIGSTOP)
    broker.stop(timeout=0.05)
    assert not psutil.pid_exists(broker.pid)


@LINUX
@KINDS
def test_a_broker_dies_with_its_parent(tmp_path: Path, kind: BrokerKind) -> None:
    """When the process that started a broker is killed, the broker ends as well."""
    with subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", PARENT, str(tmp_path), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.kill()
        parent.wait()
    await_gone(pid)


@KINDS
def test_a_broker_outlives_the_thread_that_started_it(tmp_path: Path, kind: BrokerKind) -> None:
    """A broker belongs to the process that started it, not to the thread."""
    started: list[Broker] = []
    thread = threading.Thread(target=lambda: started.append(start_broker(tmp_path, USERS, kind=kind)))
    thread.start()
    thread.join()
    with started[0] as broker, Client(broker.address("braid"), "client") as client:
        assert client.refusal is None
        assert broker.alive()


def test_a_folder_has_one_broker(tmp_path: Path, broker: Broker) -> None:
    """Two brokers never share their files; a folder is free again after a stop."""
    with pytest.raises(LeaseTaken):
        start_broker(tmp_path, USERS)
    broker.stop()
    start_broker(tmp_path, USERS, kind=broker.kind).stop()


# Starting


@pytest.mark.mosquitto
def test_mosquitto_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mosquitto runs if it is installed, and the embedded broker if it is not."""
    with start_broker(tmp_path / "one", USERS) as broker:
        assert "mosquitto" == broker.kind
    monkeypatch.setattr(broker_setup, "mosquitto_program", lambda: None)
    with start_broker(tmp_path / "two", USERS) as broker:
        assert "embedded" == broker.kind


@KINDS
def test_a_port_in_use_is_named(tmp_path: Path, kind: BrokerKind) -> None:
    """A broker on a given port does not start if another one listens there, and disturbs nothing."""
    with start_broker(tmp_path / "first", USERS, kind=kind) as first:
        port = first.address("braid").port
        with pytest.raises(BrokerDown) as down:
            start_broker(tmp_path / "second", USERS, kind=kind, port=port)
        message = f"{kind} did not start: on 127.0.0.1, port {port} is in use or not permitted"
        assert message == str(down.value)
    with start_broker(tmp_path / "second", USERS, kind=kind, port=port) as broker:
        assert port == broker.address("braid").port


@pytest.mark.mosquitto
def test_a_port_that_is_lost_at_the_last_moment_is_replaced(tmp_path: Path, programs: Path) -> None:
    """When another process takes the chosen port first, the broker starts on another one."""
    real = broker_setup.mosquitto_program()
    script = f"""
if [ ! -e {tmp_path}/once ]; then grep listener "$2" > {tmp_path}/once; echo "Error: Address already in use"; exit 1; fi
exec {real} "$@"
"""
    program(programs, "mosquitto", script)
    with start_broker(tmp_path / "broker", USERS, kind="mosquitto") as broker:
        assert broker.alive()
        assert f"listener {broker.address('braid').port} 127.0.0.1\n" != (tmp_path / "once").read_text()


@pytest.mark.mosquitto
def test_a_broker_that_ends_at_once_is_quoted(tmp_path: Path, programs: Path) -> None:
    """A broker that does not start is reported with its status and its last output, and leaves the folder free."""
    program(programs, "mosquitto", "echo broken wire >&2; exit 3")
    for _ in range(2):
        with pytest.raises(BrokerDown) as down:
            start_broker(tmp_path / "broker", USERS, kind="mosquitto")
        message = "mosquitto did not start: it ended with status 3; its last output: broken wire"
        assert message == str(down.value)


@pytest.mark.mosquitto
def test_a_broker_that_never_answers_is_given_up(tmp_path: Path, programs: Path) -> None:
    """A broker that accepts no client is ended after the timeout, and the message says what clients met."""
    program(programs, "mosquitto", f"echo $$ > {tmp_path}/pid; exec sleep 600")
    with pytest.raises(BrokerDown) as down:
        start_broker(tmp_path / "broker", USERS, kind="mosquitto", timeout=0.5)
    assert (
        "mosquitto did not start: after 0.5 s no client could connect ([Errno 111] Connection refused);"
        " its last output: none"
    ) == str(down.value)
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    """A broker listens on addresses of this machine only."""
    with pytest.raises(BrokerDown) as down:
        start_broker(tmp_path, USERS, kind="embedded", host="192.0.2.1", port=1)
    assert "embedded did not start: on 192.0.2.1, port 1 is in use or not permitted" == str(down.value)


# Drops


@KINDS
def test_dropped_messages_are_reported(tmp_path: Path, kind: BrokerKind) -> None:
    """A watch reports what the broker drops from then on, not before, and goes on when the broker restarts."""
    reports: tuple[queue.Queue[int], queue.Queue[int]] = (queue.Queue(), queue.Queue())

    def total(which: int, expected: int) -> int:
        seen = 0
        while seen < expected:
            seen += reports[which].get(timeout=BOUND)
        return seen

    with start_broker(tmp_path, USERS, kind=kind, max_queued_messages=2) as broker:
        address = broker.address("braid")
        with Client(address, "absent", topic="t"):
            pass
        first = watch_drops(address, reports[0].put)
        with Client(address, "sender") as sender:
            sender.publish("t", *[b"message"] * 10)
            assert 8 == total(0, 8)
            second = watch_drops(address, reports[1].put)
            sender.publish("t", *[b"message"] * 5)
            assert 5 == total(0, 5)
            assert 5 == total(1, 5)
        broker.restart()
        if kind == "embedded":
            # It has its sessions in memory: the absent client has to come again, and finds room for two.
            with Client(address, "absent", topic="t"):
                pass
        many = 3 if kind == "mosquitto" else 5
        with Client(address, "sender") as sender:
            sender.publish("t", *[b"message"] * many)
        assert 3 == total(0, 3)
        assert 3 == total(1, 3)
        first.stop()
        second.stop()
    assert [True, True] == [each.empty() for each in reports]


def test_a_refused_watch_says_so(broker: Broker) -> None:
    """A watch with a wrong password fails with the broker's reason, without showing the password."""
    port = broker.address("braid").port
    wrong = Address(host="127.0.0.1", port=port, user="braid", password="hidden")  # noqa: S106 - an example
    with pytest.raises(ConnectionError) as refused:
        watch_drops(wrong, lambda _count: None, timeout=1.0)
    reason = "refused to report drops: Not authorized; check the user and the password"
    assert f"the broker at mqtt://braid:***@127.0.0.1:{port} {reason}" == str(refused.value)


def test_a_watch_without_a_broker_says_so(broker: Broker) -> None:
    """A watch fails at once if no broker listens."""
    address = broker.address("braid")
    broker.stop()
    with pytest.raises(ConnectionError) as refused:
        watch_drops(address, lambda _count: None)
    assert f"no broker answers at {address}: [Errno 111] Connection refused" == str(refused.value)


# What tests do without mosquitto


@pytest.mark.parametrize(("variable", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_continuous_integration_never_skips_mosquitto(
    monkeypatch: pytest.MonkeyPatch, variable: str, outcome: type[BaseException]
) -> None:
    """Without mosquitto its tests are skipped on a desk, and fail in continuous integration."""
    monkeypatch.setenv("CI", variable)
    monkeypatch.setattr(broker_setup, "mosquitto_program", lambda: None)
    with pytest.raises(outcome, match=r"^(for want of mosquitto|mosquitto is not installed)"):
        needs.mosquitto()
