"""A broker of Braid's with tenants, and the clients that come to it."""

import queue
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any, Self

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge.broker import Broker, BrokerKind, start_broker
from bridge.broker_setup import Entrance
from bridge.embedded import hashed
from bridge.transport.address import Address
from manager.tenants.broker_access import AccessKeeper, OwnedTopic, grant, user_of

BOUND = 30.0
V5, V311 = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311
PROTOCOLS = pytest.mark.parametrize("protocol", [V5, V311], ids=["5", "3.1.1"])
OWN = {"braid": "a password of its own"}
SECRETS = {tenant: f"{tenant}: pässword" for tenant in ("ann", "bob", "eve")}
SOURCES = {"ann": "raw/ann", "bob": "raw/bob", "eve": "raw/ann/below"}


class Visitor:
    """A client whose callbacks only note messages."""

    def __init__(  # noqa: PLR0913 - MQTT lets a client choose as much
        self,
        address: Address,
        *topics: str,
        protocol: MQTTProtocolVersion = V5,
        name: str = "",
        lasting: bool = False,
        clean: bool | None = None,
        will: str | None = None,
        retain_will: bool = False,
    ) -> None:
        """A client with a `lasting` session goes on with the one that it has, unless it asks for a `clean` one."""
        clean = not lasting if clean is None else clean
        self.answers: queue.Queue[Any] = queue.Queue()
        self.published: queue.Queue[str] = queue.Queue()
        self.messages: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.left = threading.Event()
        self._subscribed: queue.Queue[list[int]] = queue.Queue()
        more: dict[str, Any] = {}
        if protocol is V5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
            properties.SessionExpiryInterval = 3_600 if lasting else 0
            more = {"clean_start": clean, "properties": properties}
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            clean_session=None if protocol is V5 else clean,
            protocol=protocol,
            reconnect_on_failure=False,
        )
        self.client.username_pw_set(address.user, address.password)
        if address.tls:
            self.client.tls_set()
        if will is not None:
            self.client.will_set(will, b"a last will", qos=1, retain=retain_will)
        self.client.on_connect = lambda _c, _d, flags, *given: self.answers.put((flags.session_present, *given))
        self.client.on_disconnect = lambda *_: self.left.set()
        self.client.on_subscribe = lambda _c, _d, _m, codes, _p: self._subscribed.put([each.value for each in codes])
        self.client.on_publish = lambda _c, _d, _m, reason, _p: self.published.put(str(reason))
        self.client.on_message = lambda _c, _d, message: self.messages.put((message.topic, bytes(message.payload)))
        self.client.connect(address.host, address.port, **more)
        self.client.loop_start()
        self.resumed, reason, given = self.answers.get(timeout=BOUND)
        self.refusal = str(reason) if reason.is_failure else None
        self.assigned: str | None = getattr(given, "AssignedClientIdentifier", None)
        """The client id that the broker gave it, if it had none."""
        for topic in topics:
            assert self.subscribe(topic) == [1], f"the subscription to {topic} was refused"

    def subscribe(self, *topics: str) -> list[int]:
        """Subscribe to topics in one packet at QoS 1; the broker's code for each."""
        self.client.subscribe([(topic, 1) for topic in topics])
        return self._subscribed.get(timeout=BOUND)

    def publish(self, topic: str, payload: bytes = b"from a visitor", *, retain: bool = False) -> str:
        """Publish at QoS 1; what the broker answered."""
        self.client.publish(topic, payload, qos=1, retain=retain)
        return self.published.get(timeout=BOUND)

    def until(self, topic: str) -> list[str]:
        """The topics of all that came, up to the first message on one topic."""
        came: list[str] = []
        while topic not in came:
            came.append(self.messages.get(timeout=BOUND)[0])
        return came

    def die(self) -> None:
        """Leave without a word."""
        self.client.loop_stop()
        sock = self.client.socket()
        assert sock is not None
        sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class TenantedBroker:
    """A broker of Braid's with tenants, none of whom is known at first."""

    def __init__(self, folder: Path, kind: BrokerKind) -> None:
        self.hashes = {user_of(tenant): hashed(secret) for tenant, secret in SECRETS.items()}
        self.broker: Broker | None = None
        self._fences = count()
        self._keeper = AccessKeeper(folder / "access", self._reload)
        self._keeper.keep({}, {})
        self.broker = start_broker(folder / "broker", OWN, entrance=Entrance(folder=folder / "access"), kind=kind)

    @property
    def own(self) -> Address:
        assert self.broker is not None
        return self.broker.address("braid")

    def address(self, tenant: str, password: str | None = None) -> Address:
        assert self.broker is not None
        assert self.broker.entrance is not None
        entrance = self.broker.entrance
        return Address(
            host=entrance.host, port=entrance.port, user=user_of(tenant), password=password or SECRETS[tenant]
        )

    def admit(
        self, *tenants: str, sources: dict[str, str] | None = None, outputs: dict[str, str] | None = None
    ) -> None:
        """Have these be all tenants, and return once the broker knows."""
        fence = f"fence-{next(self._fences)}"
        owned = [OwnedTopic(owner=owner, topic=topic) for owner, topic in (sources or SOURCES).items()]
        delivered = [OwnedTopic(owner=owner, topic=topic) for owner, topic in (outputs or {}).items()]
        known = {user_of(each): self.hashes[user_of(each)] for each in tenants}
        self._keeper.keep(grant([*tenants, fence], owned, delivered), {**known, user_of(fence): hashed("a fence")})
        self.await_let_in(self.address(fence, "a fence"))

    def await_let_in(self, address: Address) -> None:
        deadline, pause = time.monotonic() + BOUND, threading.Event()
        while refusal(address) is not None:
            if time.monotonic() > deadline:
                pytest.fail(f"{address} was never let in")
            pause.wait(0.01)

    def reload(self) -> None:
        self._reload()

    def _reload(self) -> None:
        if self.broker is not None:
            self.broker.reload()


def refusal(address: Address) -> str | None:
    """Why somebody is not let in, if so."""
    with Visitor(address) as visitor:
        return visitor.refusal
