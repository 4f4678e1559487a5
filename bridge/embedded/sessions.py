"""A client's session: its subscriptions, and the messages that wait for it, even while it is away.

A message that is sent at QoS 1 stays until it is acknowledged. After a reconnect it is sent again with its packet id,
in the same order, and before newer messages. Messages have the order in which the broker took them. Packet ids are
given in turn, so that an id returns only after all others; receivers rely on that (`bridge.deliveries`).
"""

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from . import packet_writer
from .access import Door
from .packets import Published, Subscription

_PACKET_IDS = 0xFFFF


class Link(Protocol):
    """A client's connection, as its session uses it."""

    version: int
    receive_maximum: int
    packet_maximum: int

    @property
    def ready(self) -> bool:
        """True if it takes more at the moment."""

    def send(self, packet: bytes) -> None:
        """Send a packet."""


class Who(NamedTuple):
    """The owner of a session."""

    door: Door
    """The listener that knows the user."""
    user: str
    client: str
    """The client id."""


@dataclass(slots=True, kw_only=True)
class _Parcel:
    """A message on its way to one client."""

    publication: Published
    qos: int
    retain: bool
    taken: float
    packet: int = 0
    again: bool = False


class ClientSession:
    """A client's session; made by the exchange."""

    def __init__(self, who: Who, most_waiting: int, clock: Callable[[], float], most_bytes: int = 0) -> None:
        """`most_waiting` and `most_bytes` are the messages and the bytes that may wait; 0 is no limit."""
        self.who = who
        self.link: Link | None = None
        self.expiry: int | None = 0
        """Seconds for which it outlives its connection; None is no limit."""
        self.subscriptions: dict[str, Subscription] = {}
        self.promised: set[int] = set()
        """Packet ids of messages that the client published at QoS 2 and has not released."""
        self.dropped = 0
        """The number of dropped messages."""
        self._most_waiting = most_waiting
        self._most_bytes = most_bytes
        self._bytes = 0
        """Those of the messages that wait."""
        self._clock = clock
        self._waiting: deque[_Parcel] = deque()
        self._sent: dict[int, _Parcel] = {}
        """Unacknowledged messages, in the order in which they were sent."""
        self._ids: set[int] = set()
        self._next = itertools.cycle(range(1, _PACKET_IDS + 1))

    def may_read(self, topic: str) -> bool:
        """True if its user may read a topic, by the current access list."""
        return self.who.door.permits(self.who.user, "read", topic)

    def attach(self, link: Link) -> None:
        """Take a connection; `pump` then sends, beginning with unacknowledged messages."""
        self.link = link
        for parcel in self._sent.values():
            parcel.again = True
        self._waiting.extendleft(reversed(self._sent.values()))
        self._bytes += sum(len(parcel.publication.payload) for parcel in self._sent.values())
        self._sent.clear()

    def detach(self) -> None:
        """Keep messages for an absent client."""
        self.link = None
        self._waiting = deque(each for each in self._waiting if each.qos)
        self._bytes = sum(len(parcel.publication.payload) for parcel in self._waiting)

    def offer(self, publication: Published, qos: int, *, retain: bool, taken: float) -> None:
        """Take a message for the client; at QoS 0 only while it is connected."""
        if self.link is None and not qos:
            return
        is_full = self._most_bytes and self._bytes + len(publication.payload) > self._most_bytes
        if is_full or (self._most_waiting and len(self._waiting) >= self._most_waiting):
            self.dropped += 1
            return
        self._bytes += len(publication.payload)
        self._waiting.append(_Parcel(publication=publication, qos=qos, retain=retain, taken=taken))
        self.pump()

    def acknowledged(self, packet: int) -> None:
        """Forget a message that the client acknowledged."""
        if self._sent.pop(packet, None) is not None:
            self._ids.discard(packet)
            self.pump()

    def pump(self) -> None:
        """Send as many messages as the connection and the client take at the moment."""
        link = self.link
        if link is None:
            return
        while self._waiting and link.ready:
            parcel = self._waiting[0]
            if parcel.qos and (len(self._sent) >= link.receive_maximum or len(self._ids) >= _PACKET_IDS):
                return
            self._waiting.popleft()
            self._bytes -= len(parcel.publication.payload)
            age = self._clock() - parcel.taken
            expiry = getattr(parcel.publication.properties, "MessageExpiryInterval", None)
            if expiry is not None and age >= expiry:
                self._ids.discard(parcel.packet)
                continue
            if parcel.qos and not parcel.packet:
                parcel.packet = next(each for each in self._next if each not in self._ids)
                self._ids.add(parcel.packet)
            written = packet_writer.publish(
                link.version,
                parcel.publication,
                packet=parcel.packet,
                qos=parcel.qos,
                retain=parcel.retain,
                again=parcel.again,
                age=age,
            )
            if len(written) > link.packet_maximum:
                # MQTT 5 requires to drop such a message, as if it had been delivered.
                self._ids.discard(parcel.packet)
                self.dropped += 1
                continue
            if parcel.qos:
                self._sent[parcel.packet] = parcel
            link.send(written)
