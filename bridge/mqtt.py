"""The client that joins a receiver to a broker, over MQTT 5 or 3.1.1.

Its session outlives its connections, so that the broker keeps what was not acknowledged. Callbacks run in paho's thread
and only hand things on: to publish or wait inside one deadlocks. One client id belongs to one client.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge.address import Address
from bridge.receiver import Message

SESSION = 7 * 24 * 3600
"""Seconds for which a broker keeps the session of a client that is away."""
UNACKNOWLEDGED = 1_000
"""How many messages may wait to be acknowledged; beyond that the broker holds back. MQTT 3.1.1 has no such bound."""
_MIDS = 1 << 16


def prepare(client: paho.Client, address: Address) -> None:
    """Give a client the credentials of an address."""
    client.username_pw_set(address.user, address.password)
    if address.tls:
        client.tls_set()


class NotConnected(ConnectionError):
    """A broker did not answer in time, or refused."""


class Client:
    """A lasting connection to a broker; reconnects by itself."""

    def __init__(  # noqa: PLR0913 - where to, as whom, for what, and whom to tell are six things
        self,
        address: Address,
        client_id: str,
        *,
        topics: Iterable[str] = (),
        on_message: Callable[[Message], None] = lambda _message: None,
        on_connection: Callable[[], None] = lambda: None,
        protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv5,
    ) -> None:
        self._address = address
        self._topics = [(topic, 1) for topic in topics]
        self._hand_on = on_message
        self._on_connection = on_connection
        self._connections = 0
        self._ready = threading.Event()
        self._refusal = "no answer"
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            # MQTT 5 says so at every connect instead.
            clean_session=None if protocol is MQTTProtocolVersion.MQTTv5 else False,
            protocol=protocol,
            manual_ack=True,
        )
        prepare(self._client, address)
        self._client.reconnect_delay_set(min_delay=1, max_delay=5)
        self._client.on_connect = self._connected
        self._client.on_subscribe = self._subscribed
        self._client.on_message = self._arrived
        self._protocol = protocol

    def start(self, timeout: float = 10.0) -> None:
        """Connect and subscribe; returns once the broker has confirmed both."""
        more: dict[str, Any] = {}
        if self._protocol is MQTTProtocolVersion.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
            properties.SessionExpiryInterval = SESSION
            properties.ReceiveMaximum = UNACKNOWLEDGED
            more = {"clean_start": False, "properties": properties}
        try:
            self._client.connect(self._address.host, self._address.port, **more)
        except OSError as error:
            raise NotConnected(f"no broker answers at {self._address}: {error}") from error
        self._client.loop_start()
        if not self._ready.wait(timeout):
            self.stop()
            raise NotConnected(f"the broker at {self._address} let nobody in: {self._refusal}")

    def stop(self) -> None:
        """Disconnect; the broker keeps the session."""
        self._client.disconnect()
        self._client.loop_stop()

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Acknowledge messages, in this order; those of an earlier connection come again and are left alone."""
        for token in tokens:
            connection, mid = divmod(token, _MIDS)
            if connection == self._connections:
                self._client.ack(mid, 1)

    def publish(self, topic: str, payload: bytes) -> None:
        """Send a message; it is kept until the broker has confirmed it."""
        self._client.publish(topic, payload, qos=1)

    def _connected(self, client: paho.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._refusal = str(reason)
            return
        self._connections += 1
        self._on_connection()
        if self._topics:
            client.subscribe(self._topics)
        else:
            self._ready.set()

    def _subscribed(self, _client: paho.Client, _data: Any, _mid: int, reasons: list[Any], _properties: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self._refusal = "it refused a subscription"
        else:
            self._ready.set()

    def _arrived(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        self._hand_on(Message(message.topic, bytes(message.payload), self._connections * _MIDS + message.mid))
