"""Streams of one host over a real broker: a stuck stream holds up no other, and the broker keeps its messages."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import SpoolIndex, SystemClock, Unread, commit, leave, read, topics, unpacked
from bridge.broker import Broker, start_broker
from bridge.messages import UNACKNOWLEDGED
from bridge.spools.log import LOG
from bridge.transport.mqtt_client import MqttClient
from bridge.wire import Frame, encode
from dags import Kind
from engine.host.reception import Receptions
from engine.host.spools import MOST_REJECTED_KEPT, HostSpools
from engine.plan import Bridged, Ingress, Limits, Plan, Subscribed
from engine.records.job_folder import spool_folder
from tests.brokers import KINDS
from tests.integration.test_receiving import STREAM, data, opening, until

PROTOCOLS = pytest.mark.parametrize(
    "protocol", [MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311], ids=["5", "3.1.1"]
)
MANY = 3 * UNACKNOWLEDGED


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own."""
    with start_broker(tmp_path / "broker", {"braid": "a password of its own"}, kind=request.param) as started:
        yield started


class Streams:
    """The part of a host that supplies streams, in a root that outlives it, and a client that publishes."""

    def __init__(self, broker: Broker, root: Path, protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5) -> None:
        self.root = root
        self.address = broker.address("braid")
        self.protocol = protocol
        self.unread: list[Unread] = []
        self.client = MqttClient(self.address, "publisher")
        self.client.start()
        self.begin()

    def begin(self) -> None:
        """Begin, or begin again like the next process of the same host."""
        clock = SystemClock()
        self.receptions = Receptions(
            self.root, "h", self.address, self.protocol, on_unread=self.unread.append, clock=clock
        )
        self.spools = HostSpools(
            self.root,
            self.receptions,
            clock=clock,
            on_growth=lambda _stream, _marked: None,
            due=lambda _stream, _after: 0.0,
        )

    def need(self, topic: str, *, most_bytes: int = 1 << 30) -> None:
        """Have a topic supplied to a consumer that has read nothing, so that its spool keeps everything."""
        supply = Subscribed(topic=topic, fields={"n": Kind.INTEGER})
        if not self.folder(topic).exists():
            commit(self.folder(topic), "j", 0)
        plan = Plan(job="j", host="h", version=1, limits=Limits(spool_bytes=most_bytes))
        self.spools.need(plan, Ingress(stream=f"raw/{topic}", instance=1, supply=supply))

    def bridge(self, instance: int, *, most_bytes: int = 1 << 30) -> None:
        """Have the stream between jobs that leaves an instance supplied to a consumer that has read nothing."""
        stream = f"bridge/{instance}"
        commit(spool_folder(self.root, stream), "j", 0)
        plan = Plan(job="j", host="h", version=1, limits=Limits(spool_bytes=most_bytes))
        self.spools.need(plan, Ingress(stream=stream, instance=instance, supply=Bridged()))

    def send(self, instance: int, *frames: Frame) -> None:
        """Send frames of a stream between jobs."""
        for frame in frames:
            self.client.publish(topics.stream(instance, "out"), encode(replace(frame, instance=instance)))

    def folder(self, topic: str) -> Path:
        return spool_folder(self.root, f"raw/{topic}")

    def publish(self, topic: str, first: int, end: int) -> None:
        for n in range(first, end):
            self.client.publish(topic, f'{{"n": {n}}}'.encode())

    def end(self, name: str) -> int:
        """The end of the spool of a topic, or of a stream between jobs."""
        return SpoolIndex(spool_folder(self.root, name if "/" in name else f"raw/{name}")).end

    def taken(self, topic: str, start: int = 0) -> list[int]:
        """Read a spool to its end, and commit the end."""
        found = [
            n for _, item in read(self.folder(topic), start, 1 << 30) for n in unpacked(item.payload)["n"].to_pylist()
        ]
        commit(self.folder(topic), "j", start + len(found))
        return found

    def stop(self) -> None:
        self.spools.close()
        self.client.stop()


@PROTOCOLS
def test_a_stream_whose_spool_is_full_holds_up_no_other(
    broker: Broker, tmp_path: Path, protocol: MQTTProtocolVersion
) -> None:
    """Far more messages wait for it than a client may leave unacknowledged; once there is room none is lost."""
    streams = Streams(broker, tmp_path / "root", protocol)
    try:
        streams.need("full", most_bytes=1)
        streams.need("free")
        streams.publish("full", 0, 1)
        until(lambda: streams.spools.states()["raw/full"] == "full")
        stood = streams.end("full")
        streams.publish("full", 1, MANY)
        streams.publish("free", 0, MANY)
        until(lambda: streams.end("free") == MANY)
        assert list(range(MANY)) == streams.taken("free")
        assert (stood, "full") == (streams.end("full"), streams.spools.states()["raw/full"])
        found: list[int] = []

        def took_all() -> bool:
            found.extend(streams.taken("full", len(found)))
            return len(found) >= MANY

        until(took_all)
        assert list(range(MANY)) == found
        assert [] == streams.unread
    finally:
        streams.stop()


@PROTOCOLS
def test_a_stream_between_jobs_whose_spool_is_full_holds_up_no_other(
    broker: Broker, tmp_path: Path, protocol: MQTTProtocolVersion
) -> None:
    """All of them share a connection; once there is room, what was dropped is asked for."""
    streams = Streams(broker, tmp_path / "root", protocol)
    asked: list[bytes] = []
    asks = MqttClient(
        streams.address, "producer", topics=[topics.again(7, "out")], on_message=lambda m: asked.append(m.payload)
    )
    try:
        asks.start()
        for instance, most in ((7, 1), (8, 1 << 30)):
            streams.bridge(instance, most_bytes=most)
        streams.send(7, opening(), data(0, 1))
        until(lambda: streams.spools.states()["bridge/7"] == "full")
        streams.send(7, *(data(number, 1) for number in range(1, MANY)))
        streams.send(8, opening(), *(data(number, 1) for number in range(MANY)))
        until(lambda: streams.end("bridge/8") == MANY)
        assert ([], 1) == (asked, streams.end("bridge/7"))
        commit(spool_folder(streams.root, "bridge/7"), "j", 1)
        until(lambda: asked != [])
        assert {"epoch": 1, "from": 1} == {name: json.loads(asked[0])[name] for name in ("epoch", "from")}
        streams.send(7, data(1, 1))
        until(lambda: streams.end("bridge/7") == 2)
    finally:
        asks.stop()
        streams.stop()


def test_connections_and_threads_do_not_grow_with_streams_between_jobs(broker: Broker, tmp_path: Path) -> None:
    """Nor do descriptors: with a hundred streams there are as many as with one."""
    streams = Streams(broker, tmp_path / "root")
    process = psutil.Process()

    def held() -> tuple[int, int]:
        return process.num_fds(), threading.active_count()

    try:
        streams.bridge(1000)
        descriptors, threads = held()
        for instance in range(1001, 1100):
            streams.bridge(instance)
        # Of other tests there may be some that end meanwhile.
        assert (True, True) == (held()[0] < descriptors + 10, held()[1] < threads + 10)
        assert {"ready"} == set(streams.spools.states().values())
    finally:
        streams.stop()


@PROTOCOLS
def test_raw_streams_share_their_threads(broker: Broker, tmp_path: Path, protocol: MQTTProtocolVersion) -> None:
    """Each has a connection, so that one that is stuck holds up no other, and nothing else of its own; all are read."""
    streams = Streams(broker, tmp_path / "root", protocol)
    process, names = psutil.Process(), [str(number) for number in range(100)]

    def held() -> tuple[int, int]:
        return process.num_fds(), threading.active_count()

    try:
        streams.need(names[0])
        descriptors, threads = held()
        for name in names[1:]:
            streams.need(name)
        assert (True, True) == (held()[0] < descriptors + 110, held()[1] < threads + 10)
        assert {"ready"} == set(streams.spools.states().values())
        for name in names:
            streams.publish(name, 0, 3)
        until(lambda: all(streams.end(name) == 3 for name in names))
        assert [[0, 1, 2]] * 100 == [streams.taken(name) for name in names]
    finally:
        streams.stop()


def test_a_restarted_host_misses_nothing_of_any_stream(broker: Broker, tmp_path: Path) -> None:
    """The broker keeps the messages for each of its streams meanwhile."""
    streams = Streams(broker, tmp_path / "root")
    try:
        for topic in ("a", "b"):
            streams.need(topic)
        streams.spools.close()
        for topic in ("a", "b"):
            streams.publish(topic, 0, 10)
        streams.begin()
        streams.receptions.settle({"raw/a", "raw/b"})
        for topic in ("a", "b"):
            streams.need(topic)
        until(lambda: [10, 10] == [streams.end(topic) for topic in ("a", "b")])
        assert [list(range(10))] * 2 == [streams.taken(topic) for topic in ("a", "b")]
    finally:
        streams.stop()


def test_a_host_that_hangs_up_gets_no_raw_event_twice(broker: Broker, tmp_path: Path) -> None:
    """It hangs up while events come, without closing a spool, and the next process gets the events that it had not."""
    streams = Streams(broker, tmp_path / "root")
    hung = threading.Event()
    published = 0

    def publish() -> None:
        nonlocal published
        while not hung.wait(0.001):
            # Until it hangs up more events come.
            if published < streams.end("a") + UNACKNOWLEDGED:
                streams.publish("a", published, published + 10)
                published += 10
        streams.publish("a", published, published + 1)
        published += 1

    publishing = threading.Thread(target=publish)
    try:
        streams.need("a")
        publishing.start()
        until(lambda: streams.end("a") > 0)
        streams.receptions.hang_up()
        hung.set()
        publishing.join()
        had = streams.end("a")
        streams.spools.close()
        streams.begin()
        streams.need("a")
        until(lambda: streams.end("a") >= published)
        streams.publish("a", published, published + 1)
        until(lambda: streams.end("a") > published)
        assert (True, list(range(published + 1))) == (had < published, streams.taken("a"))
    finally:
        hung.set()
        streams.stop()


def test_a_stream_that_cannot_be_written_stops_alone_and_goes_on_later(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state says why; the other stream goes on, and its events are spooled once they can be."""
    monkeypatch.setattr("engine.host.spools._RETRY_SECONDS", 0.0)
    streams = Streams(broker, tmp_path / "root")
    try:
        for topic in ("a", "b"):
            streams.need(topic)
        unfinished = streams.folder("a") / LOG / "tmp"
        unfinished.touch(exist_ok=False)
        for topic in ("a", "b"):
            streams.publish(topic, 0, 10)
        until(lambda: "Error" in streams.spools.states()["raw/a"])
        until(lambda: streams.end("b") == 10)
        streams.spools.look()
        until(lambda: "Error" in streams.spools.states()["raw/a"])
        unfinished.unlink()
        streams.spools.look()
        until(lambda: streams.end("a") == 10)
        assert list(range(10)) == streams.taken("a")
        assert {"raw/a": "ready", "raw/b": "ready"} == streams.spools.states()
    finally:
        streams.stop()


def test_duplicates_and_early_messages_are_counted(broker: Broker, tmp_path: Path) -> None:
    """They are counted for each stream separately."""
    streams = Streams(broker, tmp_path / "root")
    try:
        plan = Plan(job="j", host="h", version=1)
        for instance in (7, 8):
            streams.spools.need(plan, Ingress(stream=f"bridge/{instance}", instance=instance, supply=Bridged()))
        for frame in (opening(), data(0, 10), data(0, 10), data(20, 5)):
            streams.client.publish(STREAM, encode(frame))
        until(lambda: streams.spools.counts()["bridge/7"]["held"] > 0)
        assert {
            "bridge/7": {"duplicates": 10, "held": 5, "gaps": 0, "refused": 0},
            "bridge/8": {"duplicates": 0, "held": 0, "gaps": 0, "refused": 0},
        } == streams.spools.counts()
    finally:
        streams.stop()


def test_what_a_source_rejects_is_counted_and_a_few_of_it_shown(broker: Broker, tmp_path: Path) -> None:
    """Each event once, whatever messages they come in; of a flood the newest few are kept, cut; others have none."""
    streams = Streams(broker, tmp_path / "root")
    try:
        streams.need("a")
        streams.need("b")
        streams.publish("a", 0, 5)
        flood = json.dumps([{"n": 5}, *({"n": "x" * 1_000} for _ in range(1_000))])
        for message in (b"not json", flood.encode(), b'{"n": "hot"}'):
            streams.client.publish("a", message)
        streams.publish("b", 0, 3)
        until(lambda: [1_002, 0] == [each["rejected"] for each in streams.spools.received().values()])
        until(lambda: [6, 3] == [each["accepted"] for each in streams.spools.received().values()])
        received = streams.spools.received()
        newest = received["raw/a"]["newest"]
        assert ('{"n": "hot"}', "the field 'n' should be of kind integer") == (newest[0]["event"], newest[0]["reason"])
        assert [MOST_REJECTED_KEPT, 0] == [len(each["newest"]) for each in received.values()]
        assert 2_000 > len(json.dumps(received))
    finally:
        streams.stop()


@pytest.mark.parametrize("died", [False, True], ids=["dropped", "died before"])
def test_the_broker_keeps_nothing_for_a_stream_that_is_not_received_any_more(
    broker: Broker, tmp_path: Path, *, died: bool
) -> None:
    """It was dropped, or its host died and does not read it any more; read again, it begins with new messages."""
    streams = Streams(broker, tmp_path / "root")
    try:
        streams.need("a")
        if died:
            streams.spools.close()
            streams.begin()
            streams.receptions.settle(set())
        else:
            # As long as it has any consumer, it is received.
            leave(streams.folder("a"), "j")
            streams.spools.drop("j", "raw/a")
        streams.publish("a", 0, 10)
        # The broker took everything until here before what follows.
        streams.need("other")
        streams.publish("other", 0, 1)
        until(lambda: streams.end("other") == 1)
        streams.need("a")
        streams.publish("a", 10, 20)
        until(lambda: streams.end("a") >= 10)
        assert list(range(10, 20)) == streams.taken("a")
    finally:
        streams.stop()


def test_a_stream_that_is_needed_while_the_broker_is_away_is_received_later(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not have to be requested again."""
    streams = Streams(broker, tmp_path / "root")
    subscribe = MqttClient.subscribe
    monkeypatch.setattr(MqttClient, "subscribe", lambda client, topics: subscribe(client, topics, timeout=0.1))
    try:
        broker.stop()
        streams.need("a")
        broker.restart()

        def came() -> bool:
            streams.publish("a", 0, 1)
            return streams.end("a") > 0

        until(came)
    finally:
        streams.stop()
