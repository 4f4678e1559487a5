"""The loop that serves clients: however many there are it is one thread, and none of them holds up another."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest

from bridge.broker import Broker, start_broker
from bridge.messages import Message
from bridge.transport import client_loop
from bridge.transport.address import Address
from bridge.transport.client_loop import ClientLoop
from bridge.transport.mqtt_client import MqttClient
from tests.brokers import KINDS

BOUND = 20.0
MANY = 50


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with start_broker(tmp_path / "broker", {"braid": "a word"}, kind=request.param) as started:
        yield started


class Served:
    """A client on a loop that acknowledges what it hears, and says so."""

    def __init__(self, address: Address, loop: ClientLoop, topic: str) -> None:
        self.came: SimpleQueue[bytes] = SimpleQueue()
        self.connected = threading.Semaphore(0)
        self.waits = 0.0
        """Seconds until it fetches what has come."""
        self.client = MqttClient(
            address,
            f"listens to {topic}",
            topics=[topic],
            on_message=self._take,
            on_connection=self.connected.release,
            grouping=lambda _before: self.waits,
            loop=loop,
        )

    def _take(self, message: Message) -> None:
        self.client.acknowledge([message.token])
        self.came.put(message.payload)


@contextmanager
def publishing(address: Address) -> Iterator[MqttClient]:
    client = MqttClient(address, "publishes")
    client.start()
    try:
        yield client
    finally:
        client.stop()


def threads(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + BOUND
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def test_many_clients_share_a_thread_and_take_a_descriptor_each(broker: Broker) -> None:
    """Each hears its own topic, over a restart of the broker too; with the last of them the thread ends."""
    process, loop = psutil.Process(), ClientLoop("serves many")
    before = process.num_fds()
    with ExitStack() as closing:
        served = [Served(broker.address("braid"), loop, f"t/{number}") for number in range(MANY)]
        for one in served:
            one.client.begin()
            closing.callback(one.client.stop)
        for one in served:
            one.client.confirm(BOUND)
        until(lambda: threads("serves many") == 1)
        assert process.num_fds() - before <= MANY + 10
        for round_ in (b"first", b"after a restart"):
            for one in served:
                assert one.connected.acquire(timeout=BOUND)
            with publishing(broker.address("braid")) as publisher:
                for number in range(MANY):
                    publisher.publish(f"t/{number}", round_)
                for one in served:
                    # A broker that is killed may send once more what was acknowledged just before.
                    while one.came.get(timeout=BOUND) != round_:
                        assert round_ != b"first"
            if round_ == b"first":
                broker.restart()
                for one in served:
                    until(lambda one=one: one.client.is_subscribed([*one.client._subscriptions.topics]))  # type: ignore[misc]  # mypy does not infer a default
    until(lambda: threads("serves many") == 0)


def test_a_client_that_waits_or_does_not_acknowledge_holds_up_no_other(broker: Broker) -> None:
    """Its messages are fetched later, or stay at the broker; those of the others come at once."""
    loop = ClientLoop("serves some")
    quick = Served(broker.address("braid"), loop, "quick")
    slow = Served(broker.address("braid"), loop, "slow")
    stuck: list[Message] = []
    mute = MqttClient(broker.address("braid"), "mute", topics=["mute"], on_message=stuck.append, loop=loop)
    with ExitStack() as closing:
        for client in (quick.client, slow.client, mute):
            client.start()
            closing.callback(client.stop)
        slow.waits = 10 * BOUND
        publisher = closing.enter_context(publishing(broker.address("braid")))
        for number in range(100):
            publisher.publish("slow", b"later")
            publisher.publish("mute", b"unanswered")
            publisher.publish("quick", b"%d" % number)
        assert [b"%d" % number for number in range(100)] == [quick.came.get(timeout=BOUND) for _ in range(100)]
        assert slow.came.empty()
        slow.client.hurry(0.0)
        assert b"later" == slow.came.get(timeout=BOUND)
        assert stuck


def test_an_attempt_to_connect_holds_up_no_client_that_is_connected(broker: Broker) -> None:
    """Though it may take seconds, as with a machine that does not answer."""
    loop, begun, goes_on = ClientLoop("serves two"), threading.Event(), threading.Event()

    def permit() -> bool:
        begun.set()
        return goes_on.wait(BOUND)

    one = Served(broker.address("braid"), loop, "t")
    other = MqttClient(broker.address("braid"), "waits", topics=["u"], permit=permit, loop=loop)
    with ExitStack() as closing:
        for client in (one.client, other):
            client.start()
            closing.callback(client.stop)
        connection = other._client.socket()
        assert isinstance(connection, socket.socket)
        connection.shutdown(socket.SHUT_RDWR)
        assert begun.wait(BOUND)
        with publishing(broker.address("braid")) as publisher:
            publisher.publish("t", b"meanwhile")
            assert b"meanwhile" == one.came.get(timeout=BOUND)
        assert not other.is_connected
        goes_on.set()
        other.confirm(BOUND)


def test_a_client_whose_callbacks_fail_holds_up_no_other(broker: Broker) -> None:
    """It connects again, since what it had begun to read is lost with its connection."""
    loop = ClientLoop("serves two")
    one, other = (Served(broker.address("braid"), loop, topic) for topic in "tu")
    failing = iter([True])

    with ExitStack() as closing:
        for served in (one, other):
            served.client.start()
            closing.callback(served.client.stop)
            assert served.connected.acquire(timeout=BOUND)
        rounds = one.client._client._rounds

        def end() -> None:
            if next(failing, False):
                raise KeyError("an error that nobody foresaw")
            rounds.on_end()

        one.client._client._rounds = replace(rounds, on_end=end)
        with publishing(broker.address("braid")) as publisher:
            publisher.publish("t", b"unlucky")
            publisher.publish("u", b"well")
            assert b"well" == other.came.get(timeout=BOUND)
            assert one.connected.acquire(timeout=BOUND)
            assert b"unlucky" == one.came.get(timeout=BOUND)


def test_a_client_ends_though_its_broker_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is given up after a while, whatever waits to be sent."""
    monkeypatch.setattr(client_loop, "_PARTING", 0.1)
    monkeypatch.setattr("bridge.transport.subscriptions.PARTING", 0.1)
    loop = ClientLoop("serves one")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        client = MqttClient(Address(host="127.0.0.1", port=deaf.getsockname()[1]), "one", loop=loop)
        client.begin()
        connection, _ = deaf.accept()
        with connection:
            for number in range(200):
                client._client._packet_queue(0x30, bytes(1_000_000), number, 0)
            client.stop()
            until(lambda: threads("serves one") == 0)
            assert client._client.socket() is None


def test_a_loop_serves_again_after_its_last_client_has_left(broker: Broker) -> None:
    """Clients come and go in any number, and each is heard."""
    loop = ClientLoop("serves on and off")
    for number in range(20):
        served = Served(broker.address("braid"), loop, "t")
        served.client.start()
        with publishing(broker.address("braid")) as publisher:
            publisher.publish("t", b"%d" % number)
            assert b"%d" % number == served.came.get(timeout=BOUND)
        served.client.leave()
