"""A host's line over a real broker that forgets."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import NotConnected, Unread, topics
from bridge.brokers.broker import Broker, BrokerKind, start_broker
from bridge.transport.mqtt_client import MqttClient
from engine.host import connection
from engine.host.connection import HostConnection
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
    """A broker of the test's own, and a host's line to it."""
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
def heard(broker: Broker, topic: str, **how: Any) -> Iterator[list[bytes]]:
    """What comes on a topic, which is not acknowledged."""
    got: list[bytes] = []
    client = MqttClient(
        broker.address("braid"), "tester", topics=[topic], on_message=lambda told: got.append(told.payload), **how
    )
    client.start()
    try:
        yield got
    finally:
        client.stop()


@contextmanager
def sending(broker: Broker) -> Iterator[MqttClient]:
    """Somebody who publishes."""
    client = MqttClient(broker.address("braid"), "sender")
    client.start()
    try:
        yield client
    finally:
        client.stop()


def test_what_its_broker_drops_is_counted(tmp_path: Path, kind: BrokerKind) -> None:
    """A host tells how many messages went after the broker had taken them."""
    with lined(tmp_path, kind, most_queued=2) as (broker, line):
        with heard(broker, "t"):
            pass
        assert 0 == line.dropped
        with sending(broker) as client:
            for _ in range(10):
                client.publish("t", b"message")
            until(lambda: line.dropped == 8, "what was dropped")


def test_what_cannot_be_read_is_told_no_faster_than_the_broker_answers(
    kind: BrokerKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever tells it hears that the broker stands still; once it goes on nothing of what was taken is missing."""
    monkeypatch.setattr(connection, "_MOST_UNANSWERED", 3)
    monkeypatch.setattr(connection, "_PATIENCE", 0.1)
    with lined(tmp_path, kind) as (broker, line), heard(broker, topics.unread("t")) as got:

        def tell(event: str) -> bool:
            try:
                line.publish_unread(Unread(topic="t", event=event, reason="no number"))
            except NotConnected:
                return False
            return True

        process = psutil.Process(broker.pid)
        process.suspend()
        try:
            told = [tell(f"{number}") for number in range(5)]
            # Another topic has room of its own.
            line.publish_unread(Unread(topic="u", event="6", reason="no number"))
        finally:
            process.resume()
        assert [True, True, True, False, False] == told
        until(lambda: tell("5"), "room for one more")
        until(lambda: len(got) == 4, "all that were taken")
        assert ["0", "1", "2", "5"] == [json.loads(letter)["event"] for letter in got]


def test_an_outage_of_any_length_ends_no_host(tmp_path: Path, kind: BrokerKind) -> None:
    """What jobs measure meanwhile is not kept, so that it neither takes all message ids nor comes late."""
    with lined(tmp_path, kind) as (broker, line), heard(broker, "metrics") as got:
        process = psutil.Process(broker.pid)
        process.kill()
        process.wait()
        for number in range(70_000):
            line.publish("metrics", {"n": number}, retain=False)
        broker.restart()

        def told() -> bool:
            line.publish("metrics", {"n": -1}, retain=False)
            return b'{"n": -1}' in got

        until(told, "what is measured after that")
        # The connection may not yet have ended for the first of them.
        assert len([each for each in got if each != b'{"n": -1}']) < 35_000


def test_a_client_of_any_version_gets_more_than_it_has_acknowledged(tmp_path: Path, kind: BrokerKind) -> None:
    """Brokers send some twenty ahead unless they are told otherwise, and a spool acknowledges only what it has."""
    with (
        lined(tmp_path, kind) as (broker, _),
        heard(broker, "t", protocol=MQTTProtocolVersion.MQTTv311) as got,
        sending(broker) as client,
    ):
        for _ in range(500):
            client.publish("t", b"message")
        until(lambda: len(got) == 500, "all of them")


def test_what_a_broker_may_have_lost_is_told_again(tmp_path: Path, kind: BrokerKind) -> None:
    """A status that is no news is published once, and once more after a reconnect: the broker may have lost it."""
    with lined(tmp_path, kind) as (broker, line), heard(broker, "status", lasting=False) as got:
        for _ in range(3):
            line.publish("status", {"n": 1})
        line.publish("status", {"n": 2})
        until(lambda: len(got) == 2, "both")
        with sending(broker) as client:
            client.publish("status", b"", retain=True)
            until(lambda: len(got) == 3, "that it was cleaned")
        broker.restart()

        def told_again() -> bool:
            line.publish("status", {"n": 2})
            return len(got) > 3

        until(told_again, "the second once more")
        assert [b'{"n": 1}', b'{"n": 2}', b"", b'{"n": 2}'] == got[:4]
