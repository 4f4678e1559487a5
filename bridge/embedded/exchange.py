"""The sessions of clients, and the exchange that hands them messages and keeps retained ones.

A session has its client's subscriptions, and the messages that wait for it, even while it is away. A message that is
sent at QoS 1 stays until it is acknowledged. After a reconnect it is sent again with its packet id, in the same order,
and before newer messages. Messages have the order in which the broker took them. Packet ids are given in turn, so that
an id returns only after all others; receivers rely on that (`bridge.spools.deliveries`).

A session is identified by its user and client id together, so that no user can take over the connection or the messages
of another one by using the same client id. The right to read a topic is checked for every message, so that a changed
access list is in force at once, for subscriptions and retained messages alike.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from paho.mqtt.matcher import MQTTMatcher

from . import packets
from .access import LONGEST_REMEMBERED, Door, covers
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


class SessionOwner(NamedTuple):
    """The owner of a session."""

    door: Door
    """The listener that knows the user."""
    user: str
    client: str


@dataclass(slots=True, kw_only=True)
class _Parcel:
    publication: Published
    qos: int
    retain: bool
    taken: float
    packet: int = 0
    again: bool = False


class ClientSession:
    """A client's session; made by the exchange."""

    def __init__(self, owner: SessionOwner, most_waiting: int, clock: Callable[[], float], most_bytes: int = 0) -> None:
        """`most_waiting` and `most_bytes` are the messages and the bytes that may wait; 0 is no limit."""
        self.owner = owner
        self.link: Link | None = None
        self.expiry: int | None = 0
        """Seconds for which it outlives its connection; None is no limit."""
        self.subscriptions: dict[str, Subscription] = {}
        self.promised: set[int] = set()
        """Packet ids of messages that the client published at QoS 2 and has not released."""
        self.dropped = 0
        self._most_waiting = most_waiting
        self._most_bytes = most_bytes
        self._bytes = 0
        self._clock = clock
        self._waiting: deque[_Parcel] = deque()
        self._sent: dict[int, _Parcel] = {}
        """Unacknowledged messages, in the order in which they were sent."""
        self._ids: set[int] = set()
        self._next = itertools.cycle(range(1, _PACKET_IDS + 1))

    def may_read(self, topic: str) -> bool:
        """True if its user may read a topic, by the current access list."""
        return self.owner.door.permits(self.owner.user, "read", topic)

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
        self._waiting = deque(parcel for parcel in self._waiting if parcel.qos)
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
                parcel.packet = next(packet for packet in self._next if packet not in self._ids)
                self._ids.add(parcel.packet)
            written = packets.publish(
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


_ROUTES = 10_000
Route = list[tuple[ClientSession, Subscription]]


_MOST_BYTES_OF_TENANT = 256 * 1024 * 1024
"""What waits for a tenant's client, beyond which messages for it are dropped: it might never read."""


class Exchange:
    """Sessions, subscriptions and retained messages of one broker."""

    def __init__(self, *, most_waiting: int = 0) -> None:
        self._most_waiting = most_waiting
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[SessionOwner, ClientSession] = {}
        self._ends: dict[ClientSession, asyncio.TimerHandle] = {}
        self._bequests: dict[ClientSession, tuple[asyncio.TimerHandle, Published]] = {}
        self._subscribers: Any = MQTTMatcher()  # type: ignore[no-untyped-call]  # paho ships it without types
        """For each topic filter its subscribers and their subscriptions."""
        self._routes: dict[str, Route] = {}
        """The subscribers of topics that were published on lately."""
        self._retained: dict[str, tuple[Published, float]] = {}
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """The number of messages that were dropped: the queue was full, or they were too large for their readers."""
        return self._dropped + sum(session.dropped for session in self._sessions.values())

    @property
    def sessions(self) -> list[ClientSession]:
        """All sessions, of connected and absent clients."""
        return list(self._sessions.values())

    def find(self, owner: SessionOwner) -> ClientSession | None:
        """The session of a client, if it has one."""
        return self._sessions.get(owner)

    def open(self, owner: SessionOwner) -> tuple[ClientSession, bool]:
        """The session of a client, made if there is none; and True if there was one."""
        session = self._sessions.get(owner)
        if session is not None:
            if (end := self._ends.pop(session, None)) is not None:
                end.cancel()
            if (bequest := self._bequests.pop(session, None)) is not None:
                bequest[0].cancel()
            return session, True
        most_bytes = _MOST_BYTES_OF_TENANT if owner.door.access_list is not None else 0
        made = self._sessions[owner] = ClientSession(owner, self._most_waiting, self._loop.time, most_bytes)
        return made, False

    def leave(self, session: ClientSession) -> None:
        """Detach a session from its connection, and close the session if it does not outlive that."""
        session.detach()
        if session.expiry == 0:
            self.close(session)
        elif session.expiry is not None:
            self._ends[session] = self._loop.call_later(session.expiry, self.close, session)

    def close(self, session: ClientSession) -> None:
        """End a session, with all messages that wait for its client."""
        if self._sessions.pop(session.owner, None) is None:
            return
        self._dropped += session.dropped
        if (end := self._ends.pop(session, None)) is not None:
            end.cancel()
        if (bequest := self._bequests.pop(session, None)) is not None:
            bequest[0].cancel()
            self.publish(bequest[1])
        for topic_filter in list(session.subscriptions):
            self.unsubscribe(session, topic_filter)

    def bequeath(self, session: ClientSession, will: Published, delay: int) -> None:
        """Publish a will after a delay, unless the client is back by then; at the latest when its session ends."""
        if delay and session.expiry != 0:
            timer = self._loop.call_later(delay, lambda: self.publish(self._bequests.pop(session)[1]))
            self._bequests[session] = timer, will
        else:
            self.publish(will)

    def subscribe(self, session: ClientSession, wish: Subscription) -> bool:
        """Subscribe, or change a subscription; returns True if it is new."""
        try:
            subscribers: dict[ClientSession, Subscription] = self._subscribers[wish.topic_filter]
        except KeyError:
            subscribers = self._subscribers[wish.topic_filter] = {}
        new = session not in subscribers
        subscribers[session] = session.subscriptions[wish.topic_filter] = wish
        self._routes.clear()
        return new

    def unsubscribe(self, session: ClientSession, topic_filter: str) -> bool:
        """End a subscription; returns False if there was none."""
        if session.subscriptions.pop(topic_filter, None) is None:
            return False
        subscribers = self._subscribers[topic_filter]
        del subscribers[session]
        if not subscribers:
            del self._subscribers[topic_filter]
        self._routes.clear()
        return True

    def publish(self, publication: Published, publisher: ClientSession | None = None) -> None:
        """Hand a message to its subscribers, and retain it if requested."""
        if publication.retain:
            if publication.payload:
                self._retained[publication.topic] = publication, self._loop.time()
            else:
                self._retained.pop(publication.topic, None)
        now = self._loop.time()
        for session, wish in self._route(publication.topic):
            if (session is publisher and wish.no_local) or not session.may_read(publication.topic):
                continue
            retain = wish.as_published and publication.retain
            session.offer(publication, min(wish.qos, publication.qos), retain=retain, taken=now)

    def hand_retained(self, session: ClientSession, wish: Subscription) -> None:
        """Hand a session the retained messages of a subscription."""
        has_wildcard = "+" in wish.topic_filter or "#" in wish.topic_filter
        topics = [wish.topic_filter] if not has_wildcard else list(self._retained)
        for topic in topics:
            if topic in self._retained and covers(wish.topic_filter, topic) and session.may_read(topic):
                publication, taken = self._retained[topic]
                session.offer(publication, min(wish.qos, publication.qos), retain=True, taken=taken)

    def _route(self, topic: str) -> Route:
        """The sessions that get a message, once each, with their highest subscribed QoS."""
        if (known := self._routes.get(topic)) is not None:
            return known
        best: dict[ClientSession, Subscription] = {}
        for subscribers in self._subscribers.iter_match(topic):
            for session, wish in subscribers.items():
                if session not in best or wish.qos > best[session].qos:
                    best[session] = wish
        if len(self._routes) >= _ROUTES:
            self._routes.clear()
        route = list(best.items())
        if len(topic) <= LONGEST_REMEMBERED:
            self._routes[topic] = route
        return route
