"""Consumers survive any message of a broker: they drop malformed ones, and those of other topics.

Each consumer gets malformed messages on all of its topics, and then one that it must take.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from braid_client.answers.tenants import BrokerCredentials
from bridge import Message, Receiver, ReceiverThread, Spool, SpoolFeed, SystemClock, read, topics, unpacked
from bridge.broker import Broker, start_broker
from bridge.messages import UNACKNOWLEDGED
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.probes import detect_protocol
from bridge.transport.subscriptions import MOST_UNHANDLED, passed_over
from bridge.wire import Emitted, Frame, FrameKind, Have, Stream, encode
from dags import Schema
from dags.schema import Kind as FieldKind
from engine.host import reception
from engine.host.application import HostConnection, SparkHost
from engine.host.jobs import HostJobs
from engine.host.reception import Receptions
from manager.observations.listener import Listener
from manager.outputs.parked_letters import DeadLetterParking
from manager.outputs.readers import OutputWatcher
from manager.store.database import Store, sqlite_url
from manager.store.dead_letters import Readers
from tests.brokers import KINDS
from tests.manager.memory_outputs import output
from workloads.service import Outputs, connected_tenants

BOUND = 30.0
USERS = {"braid": "a password of its own"}
ODD = [
    b"",
    b"\xff\xfe\x00",
    b"null",
    b"7",
    b"NaN",
    b'"text"',
    b"[]",
    b"[[]]",
    b"{}",
    b'{"first": {}, "events": 7, "epoch": []}',
    b'{"epoch": 1e400, "next": 1e400, "from": 1e400, "to": 1e400, "first": 1e400, "events": []}',
    b'{"alive": "perhaps", "state": 3, "host": null, "why": null, "version": -1, "term": "x", "cut": 3, "job": {}}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"9" * 10_000,
]
"""Messages that are none."""
OUT = topics.output("ann", "d-1", "out")

Sent = Callable[..., None]
"""Publishes to a topic."""
Scene = tuple[list[str], Callable[[], None], Callable[[], object]]
"""The topics that a consumer listens on, what sends it something that it must take up, and whether it has."""


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, within a bound."""
    deadline, pause = time.monotonic() + BOUND, threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {BOUND:g} s: {what}")
        pause.wait(0.02)


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """Each kind of broker that is run here."""
    with start_broker(tmp_path / "broker", USERS, kind=request.param) as started:
        yield started


@pytest.fixture
def send(broker: Broker) -> Iterator[Sent]:
    """Publishes, and returns once the broker has taken it."""
    address = broker.address("braid")
    client = MqttClient(address, "sends", lasting=False, protocol=detect_protocol(address))
    client.start()

    def publish(topic: str, payload: bytes, *, retain: bool = False) -> None:
        taken = threading.Event()
        client.publish(topic, payload, retain=retain, answered=lambda _refusal: taken.set())
        assert taken.wait(BOUND)

    yield publish
    client.stop()


def connecting(address: Address, *, lasting: bool = False) -> Callable[..., MqttClient]:
    def connect(client_id: str, **settings: Any) -> MqttClient:
        client = MqttClient(address, client_id, lasting=lasting, protocol=detect_protocol(address), **settings)
        client.start()
        return client

    return connect


def credentials(address: Address) -> BrokerCredentials:
    """Of a tenant that may read its outputs; here it comes in as Braid does."""
    return BrokerCredentials(
        url=replace(address, user=None, password=None).url,
        user=address.user or "",
        password=address.password or "",
        reads=(f"{topics.ROOT}/out/ann/#",),
        writes=(),
    )


@contextmanager
def an_audience(address: Address, _folder: Path, send: Sent) -> Iterator[Scene]:
    outputs = Outputs()
    with ExitStack() as lines:
        lines.enter_context(connected_tenants(outputs, {"ann": credentials(address)}))
        yield [OUT], lambda: send(OUT, output(0, 1, 2)), lambda: outputs[OUT].events == 2


@contextmanager
def a_look(address: Address, _folder: Path, send: Sent) -> Iterator[Scene]:
    watching = OutputWatcher(connecting(address))
    watching.start()
    with watching.look("ann", OUT) as look:
        yield [OUT], lambda: send(OUT, output(0, 1, 2)), lambda: (seen := look.take()) is not None and seen.events


@contextmanager
def a_listener(address: Address, _folder: Path, send: Sent) -> Iterator[Scene]:
    listener = Listener(connecting(address))
    listener.start()
    try:
        yield (
            [
                *(topics.job("1", what) for what in ("plan", "status", "refused", "metrics")),
                *(topics.host("h", what) for what in ("status", "refused")),
            ],
            lambda: send(topics.host("h", "status"), b'{"alive": true}'),
            lambda: [host.host for host in listener.hosts() if host.alive] == ["h"],
        )
    finally:
        listener.stop()


@contextmanager
def a_parking(address: Address, folder: Path, send: Sent) -> Iterator[Scene]:
    def serving(instances: Collection[int]) -> Mapping[int, Readers]:
        return {instance: {"ann": ["d-1"]} for instance in instances}

    store = Store(sqlite_url(folder / "db"))
    parking = DeadLetterParking(store, connecting(address, lasting=True), serving)
    parking.start()
    until(lambda: parking._line, "a connection")
    letter = {"instance": 7, "port": "in", "reason": "why", "batch": 0, "first": 0, "events": [{"n": 1}]}
    try:
        yield (
            [topics.dead(7)],
            lambda: send(topics.dead(7), json.dumps(letter).encode()),
            lambda: (1, len(ODD)) == (parking.kept, parking.malformed),
        )
    finally:
        parking.stop()
        store.close()


@contextmanager
def a_receiver(address: Address, folder: Path, send: Sent, *, schema: Schema | None = None) -> Iterator[Scene]:
    topic, spool = topics.stream(7, "out"), Spool(folder / "spool", most_bytes=1 << 30)
    unread: list[object] = []
    client = MqttClient(
        address,
        "receiver",
        topics=[topic],
        on_message=lambda message: thread.deliver(receiver.work, [message]),
        protocol=detect_protocol(address),
    )
    receiver = Receiver({topic: SpoolFeed(spool=spool, schema=schema)}, client, on_unread=unread.append)
    thread = ReceiverThread("receives")
    client.start()

    def say() -> None:
        if schema is not None:
            send(topic, b'{"n": 5}')
            return
        send(topic, encode(Frame(instance=7, port="out", epoch=1, first=0, kind=FrameKind.OPEN)))
        send(topic, encode(Frame(instance=7, port="out", epoch=1, first=0, events=pa.record_batch({"n": [5]}))))

    def taken() -> object:
        events = [row for _, item in read(folder / "spool", 0, 1 << 30) for row in unpacked(item.payload).to_pylist()]
        # To a schema every object is an event, however little it knows of it.
        return [5] == [event["n"] for event in events if event["n"] is not None] and unread

    try:
        yield [topic], say, taken
    finally:
        client.stop()
        thread.stop()
        spool.close()


@contextmanager
def a_receiver_of_raw_events(address: Address, folder: Path, send: Sent) -> Iterator[Scene]:
    with a_receiver(address, folder, send, schema=Schema.of(n=FieldKind.INTEGER)) as scene:
        yield scene


@contextmanager
def a_sender(address: Address, _folder: Path, send: Sent) -> Iterator[Scene]:
    stream = Stream(7, "out")
    line = HostConnection("h", address, on_message=lambda _message: None)
    line.begin()
    line.sender.forward(stream, epoch=1, first=0, kept=lambda _number: iter(()))
    line.sender.emit(stream, Emitted(first=0, events=pa.record_batch({"n": [5]})))
    until(lambda: line.sender.needed(stream) == 0, "the stream to be forwarded")
    have = Have(epoch=1 << 16, next=1)
    try:
        yield (
            [topics.have(*stream), topics.again(*stream)],
            lambda: send(topics.have(*stream), have.encoded(), retain=True),
            lambda: line.sender.needed(stream) == 1,
        )
    finally:
        line.stop_sending()
        line.end()


@contextmanager
def a_host(address: Address, folder: Path, send: Sent) -> Iterator[Scene]:
    host = SparkHost("h", folder / "root", address, no_session(), behaviours={})
    thread = threading.Thread(target=host.run)
    refused, alive = list[Message](), list[Message]()
    hears = MqttClient(
        address,
        "hears",
        topics=[topics.host("h", "refused"), topics.job("1", "refused"), topics.host("h", "status")],
        on_message=lambda message: (alive if message.topic.endswith("status") else refused).append(message),
        lasting=False,
        protocol=detect_protocol(address),
    )
    hears.start()
    thread.start()
    until(lambda: alive, "the host to listen")
    wish = b'{"cut": "c", "streams": ["nowhere"]}'
    try:
        yield (
            [topics.host("h", "cut"), topics.job("1", "plan")],
            lambda: send(topics.host("h", "cut"), wish),
            # Empty plans stop jobs, and are no mistake.
            lambda: len(refused) >= 2 * len(ODD) - 1 and thread.is_alive(),
        )
    finally:
        host.stop()
        thread.join()
        hears.stop()


def no_session() -> Any:
    """In place of Spark, whose JVM lives: no job is run."""

    def wait(seconds: float) -> NoReturn:
        raise subprocess.TimeoutExpired("java", seconds)

    gateway = SimpleNamespace(proc=SimpleNamespace(wait=wait))
    context = SimpleNamespace(master="local[1]", defaultParallelism=1, _gateway=gateway)
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize(
    "consumer",
    [an_audience, a_look, a_listener, a_parking, a_receiver, a_receiver_of_raw_events, a_sender, a_host],
)
def test_malformed_messages_end_no_consumer(
    consumer: Callable[[Address, Path, Sent], Any], broker: Broker, send: Sent, tmp_path: Path
) -> None:
    """After all sorts of odd messages on its topics it still takes the next good one."""
    with consumer(broker.address("braid"), tmp_path, send) as (heard_on, say, taken):
        for topic in heard_on:
            for odd in ODD:
                send(topic, odd)
        say()
        until(taken, "what came last to be taken up")


def test_an_unforeseen_plan_ends_no_host(
    broker: Broker, tmp_path: Path, send: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused and counted; it is retained, so otherwise it would end each host that starts after it."""

    def take(*_: object) -> NoReturn:
        raise KeyError("unforeseen")

    monkeypatch.setattr(HostJobs, "take", take)
    address, refused, before = broker.address("braid"), list[bytes](), passed_over().failed
    heard = MqttClient(
        address,
        "hears besides",
        topics=[topics.job("1", "refused")],
        on_message=lambda message: refused.append(message.payload),
        lasting=False,
        protocol=detect_protocol(address),
    )
    heard.start()
    with a_host(address, tmp_path, send):
        send(topics.job("1", "plan"), b"", retain=True)
        until(lambda: len(refused) == 1, "the refusal")
        send(topics.job("1", "plan"), b"")
        until(lambda: len(refused) == 2, "the next one")
    heard.stop()
    assert "KeyError('unforeseen')" in refused[0].decode()
    assert 2 == passed_over().failed - before


def test_a_host_begins_once_its_process_before_has_ended(
    broker: Broker, tmp_path: Path, send: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then the new process publishes no status, and can be stopped."""
    address = broker.address("braid")
    with a_host(address, tmp_path, send):
        after, impatient = (SparkHost("h", tmp_path / "root", address, no_session(), behaviours={}) for _ in "ab")
        threads = [threading.Thread(target=each.run) for each in (after, impatient)]
        for thread in threads:
            thread.start()
        waits = "host h waits for the process that it ran in before"
        until(
            lambda: [waits in each.getMessage() for each in caplog.records].count(True) == len(threads), "both to wait"
        )
        impatient.stop()
        threads[1].join(BOUND)
        with heard(broker, [topics.host("h", "status")], lasting=False) as (_, got):
            until(lambda: got, "the status")
            assert {True} == {json.loads(message.payload)["alive"] for message in got}
    with heard(broker, [topics.host("h", "status")], lasting=False) as (_, got):
        until(lambda: got and json.loads(got[-1].payload)["alive"], "the next process to begin")
    after.stop()
    threads[0].join(BOUND)
    assert [False, False] == [thread.is_alive() for thread in threads]


def test_a_tenant_gets_only_subscribed_messages(broker: Broker, send: Sent) -> None:
    """Retained messages of other topics, which some brokers send to each new subscriber, are not taken for output."""
    send(topics.host("h", "status"), b'{"alive": true}', retain=True)
    send(topics.output("bob", "d-2", "out"), output(0, 1), retain=True)
    outputs = Outputs()
    with ExitStack() as lines:
        lines.enter_context(connected_tenants(outputs, {"ann": credentials(broker.address("braid"))}))
        send(OUT, output(0, 1))
        until(lambda: outputs[OUT].events == 1, "the output")
    assert [OUT] == list(outputs.all())


@contextmanager
def heard(broker: Broker, asked: list[str], **how: Any) -> Iterator[tuple[MqttClient, list[Message]]]:
    """A client whose session outlives it, and what it hears; it acknowledges that."""
    address, got = broker.address("braid"), list[Message]()

    def take(message: Message) -> None:
        got.append(message)
        client.acknowledge([message.token])

    settings: dict[str, Any] = {"topics": asked, "on_message": take, "protocol": detect_protocol(address), **how}
    client = MqttClient(address, "hears", **settings)
    client.start()
    try:
        yield client, got
    finally:
        client.stop()


@pytest.mark.mosquitto
def test_any_number_of_unsubscribed_messages_keeps_out_no_other(tmp_path: Path) -> None:
    """A session knows the subscriptions of an earlier client; such messages are acknowledged, and counted."""
    with start_broker(tmp_path / "broker", USERS, kind="mosquitto") as broker:
        with heard(broker, ["before", "now"]):
            pass
        before = passed_over().unasked
        with heard(broker, ["now"]) as (client, got):
            for number in range(UNACKNOWLEDGED + 10):
                client.publish("before", str(number).encode())
            client.publish("now", b"asked for")
            until(lambda: got, "what was asked for")
            assert ["now"] == [message.topic for message in got]
        assert UNACKNOWLEDGED + 10 == passed_over().unasked - before


def raises(*_: object) -> NoReturn:
    raise RuntimeError("a callback that fails")


@pytest.mark.parametrize("failing", ["on_message", "on_connection", "on_disconnection", "grouping", "answered"])
def test_no_callback_ends_a_clients_thread(failing: str, broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged and counted, and later messages are handled, also over the next connection."""
    got: list[bytes] = []

    def take(message: Message) -> None:
        if failing == "on_message" and message.payload == b"bad":
            raises()
        got.append(message.payload)

    how: dict[str, Any] = {"on_message": take}
    if failing not in {"on_message", "answered"}:
        how[failing] = raises
    before = passed_over().failed
    with heard(broker, ["t"], lasting=False, **how) as (client, _):
        answered: dict[str, Any] = {"answered": raises} if failing == "answered" else {}
        for _ in range(2 * MOST_UNHANDLED):
            client.publish("t", b"bad", **answered)
        client.publish("t", b"good")
        until(lambda: got and got[-1] == b"good", "what came after")
        broker.restart()
        until(lambda: not client.is_connected or client._client._connection > 1, "the end of the connection")
        client.subscribe(["t"], timeout=BOUND)
        client.publish("t", b"again")
        until(lambda: got[-1] == b"again", "what came after that")
    assert passed_over().failed > before
    assert "RuntimeError('a callback that fails')" in caplog.text


@pytest.mark.mosquitto
def test_a_failed_message_comes_again_with_the_next_connection(tmp_path: Path) -> None:
    """It may not be kept anywhere, so the broker does not forget it."""
    with start_broker(tmp_path / "broker", USERS, kind="mosquitto") as broker:
        with heard(broker, ["t"], on_message=raises) as (client, _):
            before = passed_over().failed
            client.publish("t", b"once more")
            until(lambda: passed_over().failed > before, "the failure")
        with heard(broker, ["t"]) as (_, got):
            until(lambda: got, "the same message")
            assert [b"once more"] == [message.payload for message in got]


@pytest.mark.mosquitto
def test_messages_that_wait_for_a_reception_are_not_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that the broker has kept of a stream are spooled, even if they come before anything else."""
    folder, before = tmp_path / "spool", passed_over().unasked

    class Prompt(MqttClient):
        """It has heard what was kept for it by the time that it has begun."""

        def begin(self) -> None:
            super().begin()
            until(lambda: again is None or spooled() == [5] or passed_over().unasked > before, "what was kept")

    def spooled() -> list[int]:
        return [number for _, item in read(folder, 0, 1 << 30) for number in unpacked(item.payload)["n"].to_pylist()]

    monkeypatch.setattr(reception, "MqttClient", Prompt)
    with (
        start_broker(tmp_path / "broker", USERS, kind="mosquitto") as broker,
        ExitStack() as closing,
    ):
        spool = Spool(folder, most_bytes=1 << 30)
        address = broker.address("braid")
        receptions = Receptions(
            tmp_path, "h", address, detect_protocol(address), on_unread=lambda _unread: None, clock=SystemClock()
        )
        closing.callback(spool.close)
        feed = SpoolFeed(spool=spool, schema=Schema.of(n=FieldKind.INTEGER))
        again: Receptions | None = None
        receive: dict[str, Any] = {
            "due": lambda _after: time.monotonic(),
            "on_unread": lambda _unread: None,
            "on_trouble": lambda _trouble: None,
        }
        receptions.begin("raw/t", {"t": feed}, **receive).stop()
        with heard(broker, []) as (client, _):
            client.publish("t", b'{"n": 5}')
        again = receptions
        second = again.begin("raw/t", {"t": feed}, **receive)
        until(lambda: spooled() == [5], "what was kept")
        second.stop()
