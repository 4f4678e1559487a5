"""A client of a broker whose callbacks only note messages; it acknowledges them on request."""

import queue
import threading
from typing import Any, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from bridge.transport.address import Address

BOUND = 30.0
V5, V311 = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311


class Visitor:
    """One connection."""

    def __init__(  # noqa: PLR0913 - MQTT lets a client choose as much
        self,
        address: Address,
        *topics: str,
        protocol: MQTTProtocolVersion = V311,
        name: str = "",
        lasting: bool = False,
        will: str | None = None,
        delay: int = 0,
        acknowledges: bool = True,
        **properties: int,
    ) -> None:
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.left = threading.Event()
        self._answers: queue.Queue[Any] = queue.Queue()
        self._subscribed: queue.Queue[None] = queue.Queue()
        self._published: queue.Queue[None] = queue.Queue()
        more: dict[str, Any] = {}
        if protocol is V5:
            settings = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
            for each, value in {"SessionExpiryInterval": 3_600 if lasting else 0, **properties}.items():
                setattr(settings, each, value)
            more = {"clean_start": not lasting, "properties": settings}
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            clean_session=None if protocol is V5 else not lasting,
            protocol=protocol,
            reconnect_on_failure=False,
            manual_ack=not acknowledges,
        )
        self.client.username_pw_set(address.user, address.password)
        if will is not None:
            delayed = Properties(PacketTypes.WILLMESSAGE) if delay else None  # type: ignore[no-untyped-call]  # as above
            if delayed is not None:
                delayed.WillDelayInterval = delay
            self.client.will_set(will, b"a last will", qos=1, properties=delayed)
        self.client.on_connect = lambda _c, _d, flags, reason, _p: self._answers.put((reason, flags.session_present))
        self.client.on_disconnect = lambda *_: self.left.set()
        self.client.on_subscribe = lambda *_: self._subscribed.put(None)
        self.client.on_publish = lambda *_: self._published.put(None)
        self.client.on_message = lambda _c, _d, message: self.messages.put(message)
        self.client.connect(address.host, address.port, **more)
        self.client.loop_start()
        reason, self.resumed = self._answers.get(timeout=BOUND)
        self.refusal = str(reason) if reason.is_failure else None
        for topic in topics:
            self.subscribe(topic)

    def subscribe(self, topic: str, **options: Any) -> None:
        """Subscribe at QoS 1, and wait until the broker has it."""
        if options:
            self.client.subscribe(topic, options=SubscribeOptions(qos=1, **options))
        else:
            self.client.subscribe(topic, qos=1)
        self._subscribed.get(timeout=BOUND)

    def publish(self, topic: str, *payloads: bytes, qos: int = 1, retain: bool = False, **more: Any) -> None:
        """Publish, and wait until the broker has acknowledged."""
        for payload in payloads:
            self.client.publish(topic, payload, qos=qos, retain=retain, **more)
        for _ in payloads:
            self._published.get(timeout=BOUND)

    def take(self, many: int) -> list[bytes]:
        """The payloads of the next messages."""
        return [bytes(self.messages.get(timeout=BOUND).payload) for _ in range(many)]

    def until(self, payload: bytes) -> list[paho.MQTTMessage]:
        """All messages up to a payload, without that message."""
        came = []
        while (message := self.messages.get(timeout=BOUND)).payload != payload:
            came.append(message)
        return came

    def die(self) -> None:
        """Vanish without disconnecting."""
        self.client.loop_stop()
        sock = self.client.socket()
        assert sock is not None
        sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()
