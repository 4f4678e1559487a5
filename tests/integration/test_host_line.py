"""A host's line over a real broker that forgets."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import NotConnected, SystemClock, Unread, topics
from bridge.broker import start_broker
from bridge.mqtt import Client
from engine import host_line
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


def test_what_cannot_be_read_is_told_no_faster_than_the_broker_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever tells it hears that the broker stands still; once it goes on nothing of what was taken is missing."""
    monkeypatch.setattr(host_line, "MOST_UNTOLD", 3)
    monkeypatch.setattr(host_line, "PATIENCE", 0.1)
    with start_broker(tmp_path / "broker", {"braid": "a password of its own"}, kind="mosquitto") as broker:
        got: list[str] = []
        line = HostLine("h", broker.address("braid"), heard=lambda _message: None, clock=SystemClock())
        line.begin()
        line.listen()
        hearing = Client(
            broker.address("braid"),
            "tester",
            topics=[topics.unread("t")],
            on_message=lambda message: got.append(json.loads(message.payload)["event"]),
        )
        hearing.start()

        def tell(event: str) -> bool:
            try:
                line.tell_unread(Unread(topic="t", event=event, reason="no number"))
            except NotConnected:
                return False
            return True

        process = psutil.Process(broker.pid)
        process.suspend()
        try:
            told = [tell(f"{number}") for number in range(5)]
            # Another topic has room of its own.
            line.tell_unread(Unread(topic="u", event="6", reason="no number"))
        finally:
            process.resume()
        assert [True, True, True, False, False] == told
        until(lambda: tell("5"), "room for one more")
        until(lambda: len(got) == 4, "all that were taken")
        assert ["0", "1", "2", "5"] == got
        hearing.stop()
        line.stop_sending()
        line.end()


def test_an_outage_of_any_length_ends_no_host(tmp_path: Path) -> None:
    """What jobs measure meanwhile is not kept, so that it neither takes all message ids nor comes late."""
    got: list[int] = []
    with start_broker(tmp_path / "broker", {"braid": "a password of its own"}, kind="mosquitto") as broker:
        line = HostLine("h", broker.address("braid"), heard=lambda _message: None, clock=SystemClock())
        line.begin()
        line.listen()
        hearing = Client(
            broker.address("braid"),
            "tester",
            topics=["metrics"],
            on_message=lambda message: got.append(json.loads(message.payload)["n"]),
        )
        hearing.start()
        process = psutil.Process(broker.pid)
        process.kill()
        process.wait()
        for number in range(70_000):
            line.tell("metrics", {"n": number}, retain=False)
        broker.restart()

        def told() -> bool:
            line.tell("metrics", {"n": -1}, retain=False)
            return -1 in got

        until(told, "what is measured after that")
        hearing.stop()
        line.stop_sending()
        line.end()
    # The connection may not yet have ended for the first of them.
    assert len([number for number in got if number >= 0]) < 35_000


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
