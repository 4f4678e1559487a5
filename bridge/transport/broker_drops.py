"""The messages that a broker dropped after it had accepted them, as far as it reports them."""

import threading
import uuid
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from bridge.transport.address import Address
from bridge.transport.broker_login import set_credentials, why_refused, why_unreachable
from bridge.transport.dispatch import guarded, note_unasked
from bridge.transport.mqtt_client import NotConnected

_DROPPED = "$SYS/broker/publish/messages/dropped"
"""The topic on which a broker counts the messages dropped since it started."""


class Watch:
    """A watch on the drop counter, until it is stopped; made by `watch_drops`."""

    def __init__(self, client: paho.Client) -> None:
        self._client = client

    def stop(self) -> None:
        """Disconnect; nothing more is reported."""
        self._client.disconnect()
        self._client.loop_stop()


def watch_drops(address: Address, on_drop: Callable[[int], None], timeout: float = 10.0) -> Watch:
    """Call `on_drop` with the number of dropped messages whenever the broker drops some; returns once it watches.

    Earlier drops are not reported. A broker that restarts counts from 0 again: drops before the watch has reconnected
    may be reported as fewer messages, but not as none unless the counts are equal. `on_drop` runs in the client's
    thread, so it must only hand on. The embedded broker has the same counter as mosquitto; a broker without it reports
    nothing.
    """
    ready = threading.Event()
    refusal = "no answer"
    counter = _Counter(on_drop)

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
    client.on_connect, client.on_subscribe, client.on_message = connected, subscribed, counter.take
    try:
        client.connect(address.host, address.port)
    except OSError as error:
        raise NotConnected(why_unreachable(address, error)) from error
    client.loop_start()
    watch = Watch(client)
    if not ready.wait(timeout):
        watch.stop()
        raise NotConnected(f"the broker at {address} refused to report drops: {refusal}")
    return watch


class _Counter:
    """The broker's counter, as its messages report it."""

    def __init__(self, on_drop: Callable[[int], None]) -> None:
        self._on_drop = on_drop
        self._last: int | None = None

    def take(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        """Take a message, in the client's thread."""
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
        increase = count - before if count >= before else count
        if increase:
            self._on_drop(increase)
