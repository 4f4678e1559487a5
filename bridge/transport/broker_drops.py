"""What a broker dropped although it had accepted it, as far as it says so."""

import threading
import uuid
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from bridge.transport.address import Address
from bridge.transport.dispatch import guarded, note_unasked
from bridge.transport.mqtt_client import prepare, why_refused, why_unreachable

DROPPED = "$SYS/broker/publish/messages/dropped"
"""Where the broker tells how many messages it has dropped since it started."""


class Watch:
    """Follows the drop counter until it is stopped; made by `watch_drops`."""

    def __init__(self, client: paho.Client) -> None:
        self._client = client

    def stop(self) -> None:
        """Disconnect; nothing more is reported."""
        self._client.disconnect()
        self._client.loop_stop()


def watch_drops(address: Address, on_drop: Callable[[int], None], timeout: float = 10.0) -> Watch:
    """Report how many messages the broker dropped, whenever it dropped some; returns once it watches.

    What was dropped before is not reported. A broker that restarts counts from 0 again; what it drops before the watch
    has reconnected may be reported as fewer messages, but not as none unless the counts are equal. `on_drop` runs in
    the client's thread, so it only hands on. The embedded broker has the same counter; one without it reports nothing.
    """
    ready = threading.Event()
    trouble = "no answer"
    counter = _Counter(on_drop)

    def connected(client: paho.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        nonlocal trouble
        if reason.is_failure:
            trouble = why_refused(reason)
        else:
            client.subscribe(DROPPED, qos=1)

    def subscribed(_client: paho.Client, _data: Any, _mid: int, reasons: list[Any], _properties: Any) -> None:
        nonlocal trouble
        if any(reason.is_failure for reason in reasons):
            trouble = "it refused the subscription"
        else:
            ready.set()

    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"braid-drops-{uuid.uuid4().hex[:8]}")
    prepare(client, address)
    client.on_connect, client.on_subscribe, client.on_message = connected, subscribed, counter.hear
    try:
        client.connect(address.host, address.port)
    except OSError as error:
        raise ConnectionError(why_unreachable(address, error)) from error
    client.loop_start()
    watch = Watch(client)
    if not ready.wait(timeout):
        watch.stop()
        raise ConnectionError(f"the broker at {address} let nobody watch: {trouble}")
    return watch


class _Counter:
    """The broker's counter, as a client of the library hears it."""

    def __init__(self, on_drop: Callable[[int], None]) -> None:
        self._on_drop = on_drop
        self._last: int | None = None

    def hear(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        """Take up a message, in the client's thread."""
        if message.topic == DROPPED:
            guarded(f"topic {DROPPED}", lambda: self._count(message))
        else:
            note_unasked(message.topic)

    def _count(self, message: paho.MQTTMessage) -> None:
        count = int(message.payload)
        # A first value that is news, and not kept from earlier, is what a broker counted since it started.
        before = (count if message.retain else 0) if self._last is None else self._last
        self._last = count
        # A counter that went down began anew.
        increase = count - before if count >= before else count
        if increase:
            self._on_drop(increase)
