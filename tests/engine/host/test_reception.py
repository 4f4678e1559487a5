"""Receptions of a host that has to end: whatever one of their threads died of, the others stop at once."""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Message, SpoolFeed, Unread
from bridge.transport.address import Address
from bridge.transport.mqtt_rounds import FETCH_AHEAD, Fetch, Grouping
from dags import Kind, Schema
from engine.host import reception
from engine.host.reception import Receptions, _RecentPermit
from tests.twins.memory_clock import MemoryClock
from tests.twins.memory_spool import MemorySpool

BOUND = 20.0


class MqttClient:
    """A client that passes on a test's messages, and notes that it was stopped."""

    made: list["MqttClient"]

    def __init__(
        self,
        *_arguments: object,
        on_messages: Callable[[Sequence[Message]], None],
        grouping: Grouping,
        **_more: object,
    ) -> None:
        self.deliver = on_messages
        self.grouping = grouping
        self.stopped = threading.Event()
        self.made.append(self)

    def begin(self) -> None: ...

    def confirm(self) -> None: ...

    def acknowledge(self, tokens: Iterable[int], taken: Callable[[], None] | None = None) -> None: ...

    def stop(self) -> None:
        self.stopped.set()


def test_a_reception_that_died_of_an_error_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that died may itself be waiting until all receptions have stopped."""
    MqttClient.made = []
    monkeypatch.setattr(reception, "MqttClient", MqttClient)
    hung_up: list[bool] = []

    def breaks(_reported: Unread | str) -> NoReturn:
        raise KeyError("an error that nobody foresaw")

    def give_up(_died: Any) -> None:
        leaving = threading.Thread(target=receptions.hang_up)
        leaving.start()
        leaving.join(BOUND)
        hung_up.append(not leaving.is_alive())
        ended.set()

    ended = threading.Event()
    monkeypatch.setattr(threading, "excepthook", give_up)
    address = Address.parse("mqtt://127.0.0.1")
    receptions = Receptions(tmp_path, "h", address, MQTTProtocolVersion.MQTTv5, on_unread=breaks, clock=MemoryClock())
    for topic in ("a", "b"):
        feed: Any = SpoolFeed(spool=MemorySpool(), schema=Schema.of({"n": Kind.INTEGER}))
        receptions.begin(f"raw/{topic}", {topic: feed}, due=lambda _after: 0.0, on_unread=breaks, on_trouble=breaks)
    MqttClient.made[0].deliver([Message("a", b"no JSON", 1)])
    assert ended.wait(BOUND)
    assert ([True], [True, True]) == (hung_up, [each.stopped.is_set() for each in MqttClient.made])


def test_raw_messages_are_grouped_for_their_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are fetched just before their next batch is due."""
    MqttClient.made = []
    monkeypatch.setattr(reception, "MqttClient", MqttClient)
    address, dues, few = Address.parse("mqtt://127.0.0.1"), [7.0], Fetch(messages=25, most=26)
    clock = MemoryClock(7.0)
    receptions = Receptions(
        tmp_path, "h", address, MQTTProtocolVersion.MQTTv5, on_unread=lambda _unread: None, clock=clock
    )
    feed: Any = SpoolFeed(spool=MemorySpool(), schema=Schema.of({"n": Kind.INTEGER}))
    receptions.begin(
        "raw",
        {"raw": feed},
        due=lambda _after: max(dues),
        on_unread=lambda _unread: None,
        on_trouble=lambda _trouble: None,
    )
    (raw,) = MqttClient.made
    found = [raw.grouping(few)]
    dues.append(7.2)
    found.append(raw.grouping(few))
    receptions.hang_up()
    assert [0.05, pytest.approx(0.2 - FETCH_AHEAD)] == found


def test_a_permit_to_connect_is_asked_once_for_many_clients() -> None:
    """All clients of a host connect at once after its broker was away; a refusal holds for none of them."""
    answers = [False, True]
    permit = _RecentPermit(lambda: answers.pop(0))
    assert [False, True, True, True] == [permit() for _ in range(4)]
