"""Probes of a broker: which MQTT it supports, how it gives packet ids, and which messages it has dropped.

Mosquitto and the embedded broker give each message of a session the id after the last one, and give none again before
all others. They deliver unacknowledged messages again in the same order and with the same ids, mosquitto even after it
was stopped and started. A broker that says nothing, or is another one, may do otherwise; some give the lowest free id.
So a broker counts as one that gives ids in turn only if it says that it is one of these two.

Messages that a broker dropped after it had accepted them are known as far as it reports them.
"""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion

from bridge.embedded import VERSION
from bridge.transport.address import Address, set_credentials, why_refused, why_unreachable
from bridge.transport.mqtt_client import NotConnected
from bridge.transport.subscriptions import guarded, note_unasked


def detect_protocol(address: Address, timeout: float = 5.0) -> MQTTProtocolVersion:
    """The newer of MQTT 5 and 3.1.1 that a broker supports; 5 if neither gets an answer, for whatever reason."""
    for protocol in (MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311):
        with contextlib.suppress(OSError):
            reason = answer_to_client(address, timeout, protocol=protocol, patience=timeout)
            if reason is not None and not reason.is_failure:
                return protocol
    return MQTTProtocolVersion.MQTTv5


def answer_to_client(
    address: Address,
    timeout: float,
    *,
    protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv311,
    patience: float = 1.0,
) -> Any:
    """What a broker answers to a client that connects; None if it does not in time. Raises OSError if none is there.

    `patience` is how long the connection itself may take.
    """
    answers: list[Any] = []
    client = _asking_client(address, patience, protocol)
    client.on_connect = lambda _client, _data, _flags, reason, _properties: answers.append(reason)
    deadline = time.monotonic() + timeout
    # A broker that does not know a version may say so, disconnect, or not answer at all.
    _serve(client, address, lambda: not answers and time.monotonic() < deadline)
    return answers[0] if answers else None


def _asking_client(
    address: Address, patience: float, protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv311
) -> paho.Client:
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"braid-asks-{uuid.uuid4().hex[:8]}", protocol=protocol)
    set_credentials(client, address)
    client.connect_timeout = patience
    return client


def _serve(client: paho.Client, address: Address, goes_on: Callable[[], bool]) -> None:
    """Connect a client that only asks, and serve it until it has its answer or is disconnected."""
    try:
        client.connect(address.host, address.port)
        while goes_on() and client.loop(timeout=0.1) == MQTTErrorCode.MQTT_ERR_SUCCESS:
            pass
    finally:
        with contextlib.suppress(OSError):
            client.disconnect()


_TOPIC = "$SYS/broker/version"
_IN_TURN = ("mosquitto version ", VERSION)
_PATIENCE = 1.0
"""Seconds from the confirmed subscription to the retained version; brokers send both at once."""


def gives_ids_in_turn(address: Address, timeout: float = 5.0) -> bool | None:
    """Whether a broker is known to give packet ids in turn; None if it does not answer."""
    return is_known_in_turn(_asking_client(address, timeout), address, timeout)


def is_known_in_turn(client: paho.Client, address: Address, timeout: float = 5.0) -> bool | None:
    """As `gives_ids_in_turn`, over a client that is not connected yet."""
    versions: list[str] = []
    deadlines = [time.monotonic() + timeout]
    client.on_connect = lambda client, _data, _flags, _reason, _properties: client.subscribe(_TOPIC)
    client.on_subscribe = lambda _client, _data, _mid, _reasons, _properties: deadlines.append(
        time.monotonic() + _PATIENCE
    )
    client.on_message = lambda _client, _data, message: versions.append(message.payload.decode(errors="replace"))
    try:
        _serve(client, address, lambda: not versions and time.monotonic() < deadlines[-1])
    except OSError:
        return None
    if versions:
        return versions[0].startswith(_IN_TURN)
    return False if len(deadlines) > 1 else None


_DROPPED = "$SYS/broker/publish/messages/dropped"
"""The topic on which a broker counts the messages dropped since it started."""


class Watch:
    """A watch on the drop counter, until it is stopped; made by `watch_drops`."""

    def __init__(self, client: paho.Client, on_drop: Callable[[int], None]) -> None:
        self._client = client
        self._on_drop = on_drop
        self._last: int | None = None
        client.on_message = self._take

    def stop(self) -> None:
        """Disconnect; nothing more is reported."""
        self._client.disconnect()
        self._client.loop_stop()

    def _take(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        if message.topic == _DROPPED:
            guarded(f"topic {_DROPPED}", lambda: self._count(message))
        else:
            note_unasked(message.topic)

    def _count(self, message: paho.MQTTMessage) -> None:
        count = int(message.payload)
        # A first value that is not retained is news: everything that a broker has dropped since it started.
        before = (count if message.retain else 0) if self._last is None else self._last
        self._last = count
        # A counter that went down has started again.
        if increase := count - before if count >= before else count:
            self._on_drop(increase)


def watch_drops(address: Address, on_drop: Callable[[int], None], timeout: float = 10.0) -> Watch:
    """Call `on_drop` with the number of dropped messages whenever the broker drops some; returns once it watches.

    Earlier drops are not reported. A broker that restarts counts from 0 again: drops before the watch has reconnected
    may be reported as fewer messages, but not as none unless the counts are equal. `on_drop` runs in the client's
    thread, so it must only hand on. The embedded broker has the same counter as mosquitto; a broker without it reports
    nothing.
    """
    ready = threading.Event()
    refusal = "no answer"

    def connected(client: paho.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        nonlocal refusal
        if reason.is_failure:
            refusal = why_refused(reason)
        else:
            client.subscribe(_DROPPED, qos=1)

    def subscribed(_client: paho.Client, _data: Any, _mid: int, reasons: list[Any], _properties: Any) -> None:
        nonlocal refusal
        if any(reason.is_failure for reason in reasons):
            refusal = "it refused the subscription"
        else:
            ready.set()

    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"braid-drops-{uuid.uuid4().hex[:8]}")
    set_credentials(client, address)
    client.on_connect, client.on_subscribe = connected, subscribed
    watch = Watch(client, on_drop)
    try:
        client.connect(address.host, address.port)
    except OSError as error:
        raise NotConnected(why_unreachable(address, error)) from error
    client.loop_start()
    if not ready.wait(timeout):
        watch.stop()
        raise NotConnected(f"the broker at {address} refused to report drops: {refusal}")
    return watch
