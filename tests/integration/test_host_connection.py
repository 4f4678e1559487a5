"""The connection of a host to a real broker that drops and forgets."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Message, Unread, topics
from bridge.broker import Broker, BrokerKind, start_broker
from bridge.transport.mqtt_client import MqttClient
from engine.host import application
from engine.host.application import HostConnection
from tests.brokers import KINDS

pytestmark = pytest.mark.parametrize("kind", KINDS)
BOUND = 30.0


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, within a bound."""
    deadline = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {BOUND:g} s: {what}")
        time.sleep(0.02)


@contextmanager
def lined(folder: Path, kind: BrokerKind, *, most_queued: int = 0) -> Iterator[tuple[Broker, HostConnection]]:
    """A broker of the test's own, and a host's connection to it."""
    users = {"braid": "a password of its own"}
    with start_broker(folder / "broker", users, kind=kind, max_queued_messages=most_queued) as broker:
        line = HostConnection("h", broker.address("braid"), on_message=lambda _message: None)
        line.begin()
        line.listen()
        try:
            yield broker, line
        finally:
            line.stop_sending()
            line.end()


@contextmanager
def heard(broker: Broker, topic: str, *, acknowledges: bool = False, **how: Any) -> Iterator[list[bytes]]:
    """The messages on a topic. Unless they are acknowledged, no more come than a client may have open."""
    got: list[bytes] = []

    def take(message: Message) -> None:
        got.append(message.payload)
        if acknowledges:
            client.acknowledge([message.token])

    client = MqttClient(broker.address("braid"), "tester", topics=[topic], on_message=take, **how)
    client.start()
    try:
        yield got
    finally:
        client.stop()


@contextmanager
def sending(broker: Broker) -> Iterator[MqttClient]:
    """A client that publishes."""
    client = MqttClient(broker.address("braid"), "sender")
    client.start()
    try:
        yield client
    finally:
        client.stop()


def test_messages_that_the_broker_drops_are_counted(tmp_path: Path, kind: BrokerKind) -> None:
    """A host reports how many messages were lost after the broker had taken them."""
    with lined(tmp_path, kind, most_queued=2) as (broker, line):
        with heard(broker, "t"):
            pass
        assert 0 == line.dropped
        with sending(broker) as client:
            for _ in range(10):
                client.publish("t", b"message")
            until(lambda: line.dropped == 8, "what was dropped")


def test_a_topic_has_room_for_few_unread_messages_that_the_broker_has_not_answered(
    kind: BrokerKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each topic has its own room, and once the broker goes on there is room again, and none is missing."""
    monkeypatch.setattr(application, "_MOST_UNANSWERED", 3)
    with lined(tmp_path, kind) as (broker, line), heard(broker, topics.unread("t")) as got:
        process = psutil.Process(broker.pid)
        process.suspend()
        room = list[bool]()
        try:
            for number in range(4):
                room.append(line.has_room("t"))
                line.publish_unread(Unread(topic="t", event=f"{number}", reason="no number"))
            assert ([True, True, True, False], True) == (room, line.has_room("u"))
        finally:
            process.resume()
        until(lambda: line.has_room("t"), "room for one more")
        until(lambda: len(got) == 4, "all of them")
        assert ["0", "1", "2", "3"] == [json.loads(letter)["event"] for letter in got]


def test_an_outage_of_any_length_ends_no_host(tmp_path: Path, kind: BrokerKind) -> None:
    """The metrics of jobs are not kept meanwhile, so that they neither use up message ids nor come late."""
    with lined(tmp_path, kind) as (broker, line), heard(broker, "metrics", acknowledges=True) as got:
        process = psutil.Process(broker.pid)
        process.kill()
        process.wait()
        for number in range(70_000):
            line.publish("metrics", {"n": number}, retain=False)
        broker.restart()

        def published() -> bool:
            line.publish("metrics", {"n": -1}, retain=False)
            return b'{"n": -1}' in got

        until(published, "the metrics after that")
        # For the first of them the connection may not have ended yet.
        assert len([each for each in got if each != b'{"n": -1}']) < 35_000


def test_a_client_of_any_version_gets_more_than_it_has_acknowledged(tmp_path: Path, kind: BrokerKind) -> None:
    """By default brokers send some twenty ahead, and a spool acknowledges only what it has."""
    with (
        lined(tmp_path, kind) as (broker, _),
        heard(broker, "t", protocol=MQTTProtocolVersion.MQTTv311) as got,
        sending(broker) as client,
    ):
        for _ in range(500):
            client.publish("t", b"message")
        until(lambda: len(got) == 500, "all of them")


def test_a_status_that_the_broker_may_have_lost_is_published_again(tmp_path: Path, kind: BrokerKind) -> None:
    """An unchanged status is published once, and once more after a reconnect: the broker may have lost it."""
    with lined(tmp_path, kind) as (broker, line), heard(broker, "status", lasting=False) as got:
        for _ in range(3):
            line.publish("status", {"n": 1})
        line.publish("status", {"n": 2})
        until(lambda: len(got) == 2, "both")
        with sending(broker) as client:
            client.publish("status", b"", retain=True)
            until(lambda: len(got) == 3, "that it was cleaned")
        broker.restart()

        def heard_again() -> bool:
            line.publish("status", {"n": 2})
            return len(got) > 3

        until(heard_again, "the second once more")
        assert [b'{"n": 1}', b'{"n": 2}', b"", b'{"n": 2}'] == got[:4]
