"""The client without a broker: answers that come early or never, and message ids that are in use."""

from types import SimpleNamespace
from typing import Any

import pytest
from paho.mqtt.enums import MQTTErrorCode

from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient, NotConnected

ADDRESS = Address(host="127.0.0.1", port=1)


class Paho:
    """A stand-in for paho's client: answers before `publish` has returned, or only later."""

    def __init__(self, client: MqttClient, *, early: bool, in_use: int = 0) -> None:
        self.client = client
        self.early = early
        self.in_use = in_use
        self.mid = 0

    def publish(self, _topic: str, _payload: bytes, *, qos: int, retain: bool) -> Any:
        assert (1, False) == (qos, retain)
        self.mid += 1
        if self.mid <= self.in_use:
            return SimpleNamespace(rc=MQTTErrorCode.MQTT_ERR_QUEUE_SIZE, mid=self.mid)
        if self.early:
            self.answer(self.mid)
        return SimpleNamespace(rc=MQTTErrorCode.MQTT_ERR_SUCCESS, mid=self.mid)

    def answer(self, mid: int, refusal: str = "") -> None:
        self.client._on_publish(None, None, mid, Reason(refusal), None)  # type: ignore[arg-type]  # it is not looked at


class Reason:
    def __init__(self, refusal: str) -> None:
        self.is_failure = bool(refusal)
        self.refusal = refusal

    def __str__(self) -> str:
        return self.refusal


@pytest.mark.parametrize("early", [True, False])
def test_each_message_is_answered_once(early: bool) -> None:  # noqa: FBT001 - pytest draws it
    """An answer finds its message even if it comes before the message id is known, and if ids are used again."""
    client = MqttClient(ADDRESS, "one")
    paho = client._client = Paho(client, early=early)  # type: ignore[assignment]  # it stands in for it
    answers: list[tuple[int, str]] = []
    for _ in range(2):
        for number in range(3):
            client.publish("out", b"", answered=lambda refusal, number=number: answers.append((number, refusal)))  # type: ignore[misc]  # mypy does not infer a default
        if not early:
            for mid in (3, 1, 2):
                paho.answer(mid)
        paho.mid = 0
    order = [0, 1, 2] if early else [2, 0, 1]
    assert [(number, "") for number in order * 2] == answers


def test_a_refusal_is_reported() -> None:
    """The publisher gets the broker's reason."""
    client = MqttClient(ADDRESS, "one")
    paho = client._client = Paho(client, early=False)  # type: ignore[assignment]  # it stands in for it
    answers: list[str] = []
    client.publish("out", b"", answered=answers.append)
    paho.answer(1, "Quota exceeded")
    assert ["Quota exceeded"] == answers


def test_a_message_id_in_use_is_skipped() -> None:
    """If an old message still waits when ids repeat, the next free id is taken, and no message is dropped."""
    client = MqttClient(ADDRESS, "one")
    paho = client._client = Paho(client, early=False, in_use=5)  # type: ignore[assignment]  # it stands in for it
    answers: list[str] = []
    client.publish("out", b"", answered=answers.append)
    paho.answer(6)
    assert [""] == answers


def test_if_every_message_id_is_in_use_publishing_fails() -> None:
    """A message that cannot be kept is not dropped silently."""
    client = MqttClient(ADDRESS, "one")
    client._client = Paho(client, early=False, in_use=1 << 20)  # type: ignore[assignment]  # it stands in for it
    with pytest.raises(RuntimeError, match="65,536 messages wait for the broker"):
        client.publish("out", b"")


def test_without_a_broker_a_subscription_is_not_confirmed() -> None:
    """Waiting for a confirmation fails; without waiting, the next connection subscribes."""
    client = MqttClient(ADDRESS, "one")
    client.subscribe(["a"], timeout=0)
    with pytest.raises(NotConnected, match=r"confirmed no subscription to \('b',\): no answer"):
        client.subscribe(["b"], timeout=0.01)
    assert ["a", "b"] == list(client._subscriptions.topics)


def test_a_background_connection_reports_its_problem() -> None:
    """Waiting for a subscription fails with the reason why no broker answers."""
    client = MqttClient(ADDRESS, "one")
    client.begin()
    reason = ""
    try:
        for _ in range(100):
            with pytest.raises(NotConnected) as refused:
                client.subscribe(["a"], timeout=0.1)
            reason = str(refused.value)
            if "no answer" not in reason:
                break
    finally:
        client.stop()
    assert f"no broker answers at {ADDRESS}: [Errno 111] Connection refused" in reason


@pytest.mark.parametrize(("says", "sent"), [({"ReceiveMaximum": 7}, 7), ({"ReceiveMaximum": 60_000}, 250), ({}, 250)])
def test_a_client_sends_no_more_at_once_than_its_broker_takes(says: dict[str, int], sent: int) -> None:
    """Nor more than is wise; before the next broker has answered it is careful again."""
    client = MqttClient(ADDRESS, "one")
    flags: Any = SimpleNamespace(session_present=True)
    client._on_connect(None, None, flags, Reason(""), SimpleNamespace(**says))  # type: ignore[arg-type]  # they are not looked at
    connected = client._client.max_inflight_messages
    with pytest.raises(ConnectionRefusedError):
        client._client.connect(ADDRESS.host, ADDRESS.port)
    assert (sent, 20) == (connected, client._client.max_inflight_messages)
