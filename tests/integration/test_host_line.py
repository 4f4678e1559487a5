"""A host's line over a real broker that forgets."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import SystemClock
from bridge.broker import start_broker
from bridge.mqtt import Client
from engine.host_line import HostLine

pytestmark = pytest.mark.mosquitto
BOUND = 30.0


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, within a bound."""
    deadline = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {BOUND:g} s: {what}")
        time.sleep(0.02)


def test_what_its_broker_drops_is_counted(tmp_path: Path) -> None:
    """A host tells how many messages went after the broker had taken them."""
    users = {"braid": "a password of its own"}
    with start_broker(tmp_path / "broker", users, kind="mosquitto", max_queued_messages=2) as broker:
        address = broker.address("braid")
        absent = Client(address, "absent", topics=["t"])
        absent.start()
        absent.stop()
        line = HostLine("h", address, heard=lambda _message: None, clock=SystemClock())
        line.begin()
        assert 0 == line.dropped
        sending = Client(address, "tester")
        sending.start()
        for _ in range(10):
            sending.publish("t", b"message")
        until(lambda: line.dropped == 8, "what was dropped")
        sending.stop()
        line.stop_sending()
        line.end()


def test_a_client_of_any_version_gets_more_than_it_has_acknowledged(tmp_path: Path) -> None:
    """Brokers send some twenty ahead unless they are told otherwise, and a spool acknowledges only what it has."""
    with start_broker(tmp_path / "broker", {"braid": "a password of its own"}, kind="mosquitto") as broker:
        address = broker.address("braid")
        got: list[bytes] = []
        hearing = Client(
            address,
            "hears",
            topics=["t"],
            on_message=lambda message: got.append(message.payload),
            protocol=MQTTProtocolVersion.MQTTv311,
        )
        hearing.start()
        sending = Client(address, "tester")
        sending.start()
        for _ in range(500):
            sending.publish("t", b"message")
        until(lambda: len(got) == 500, "all of them")
        sending.stop()
        hearing.stop()


def test_what_a_broker_may_have_lost_is_told_again(tmp_path: Path) -> None:
    """A status that is no news is published once, and once more after a reconnect: the broker may have lost it."""
    with start_broker(tmp_path / "broker", {"braid": "a password of its own"}, kind="mosquitto") as broker:
        got: list[bytes] = []
        line = HostLine("h", broker.address("braid"), heard=lambda _message: None, clock=SystemClock())
        line.begin()
        line.listen()
        hearing = Client(
            broker.address("braid"),
            "tester",
            topics=["status"],
            on_message=lambda message: got.append(message.payload),
            lasting=False,
        )
        hearing.start()
        for _ in range(3):
            line.tell("status", {"n": 1})
        line.tell("status", {"n": 2})
        until(lambda: len(got) == 2, "both")
        hearing.publish("status", b"", retain=True)
        until(lambda: len(got) == 3, "that it was cleaned")
        broker.restart()

        def told_again() -> bool:
            line.tell("status", {"n": 2})
            return len(got) > 3

        until(told_again, "the second once more")
        hearing.stop()
        line.stop_sending()
        line.end()
    assert [b'{"n": 1}', b'{"n": 2}', b"", b'{"n": 2}'] == got[:4]
