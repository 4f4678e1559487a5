"""The exchange: hands messages to the sessions that subscribed to them, and keeps retained messages.

A session is identified by its user and client id together, so that no user can take over the connection or the messages
of another user by using the same client id. The right to read a topic is checked for every message, so that a changed
access list is in force at once, for subscriptions and retained messages alike.
"""

import asyncio
from collections.abc import Iterator

from .filters import TopicFilters
from .packets import Published, Subscription
from .sessions import ClientSession, Who

_ROUTES = 10_000
Route = list[tuple[ClientSession, Subscription]]


_MOST_BYTES_OF_TENANT = 256 * 1024 * 1024
"""What waits for a tenant's client, beyond which messages for it are dropped: it might never read."""


class Exchange:
    """Sessions, subscriptions and retained messages of one broker."""

    def __init__(self, *, most_waiting: int = 0) -> None:
        self._most_waiting = most_waiting
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[Who, ClientSession] = {}
        self._ends: dict[ClientSession, asyncio.TimerHandle] = {}
        self._bequests: dict[ClientSession, tuple[asyncio.TimerHandle, Published]] = {}
        self._subscribers: TopicFilters[dict[ClientSession, Subscription]] = TopicFilters()
        self._routes: dict[str, Route] = {}
        """The subscribers of topics that were published on lately."""
        self._retained: dict[str, tuple[Published, float]] = {}
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """The number of messages that were dropped: the queue was full, or they were too large for their readers."""
        return self._dropped + sum(each.dropped for each in self._sessions.values())

    @property
    def sessions(self) -> list[ClientSession]:
        """All sessions, of connected and absent clients."""
        return list(self._sessions.values())

    def find(self, who: Who) -> ClientSession | None:
        """The session of a client, if it has one."""
        return self._sessions.get(who)

    def open(self, who: Who) -> tuple[ClientSession, bool]:
        """The session of a client, made if there is none; and True if there was one."""
        found = self._sessions.get(who)
        if found is not None:
            if (end := self._ends.pop(found, None)) is not None:
                end.cancel()
            if (bequest := self._bequests.pop(found, None)) is not None:
                bequest[0].cancel()
            return found, True
        most_bytes = _MOST_BYTES_OF_TENANT if who.door.has_list else 0
        made = self._sessions[who] = ClientSession(who, self._most_waiting, self._loop.time, most_bytes)
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
        if self._sessions.pop(session.who, None) is None:
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
            self._bequests[session] = self._loop.call_later(delay, self._execute, session), will
        else:
            self.publish(will)

    def _execute(self, session: ClientSession) -> None:
        self.publish(self._bequests.pop(session)[1])

    def subscribe(self, session: ClientSession, wish: Subscription) -> bool:
        """Subscribe, or change a subscription; returns True if it is new."""
        subscribers = self._subscribers.get(wish.topic_filter)
        if subscribers is None:
            subscribers = self._subscribers[wish.topic_filter] = {}
        new = session not in subscribers
        subscribers[session] = session.subscriptions[wish.topic_filter] = wish
        self._routes.clear()
        return new

    def unsubscribe(self, session: ClientSession, topic_filter: str) -> bool:
        """End a subscription; returns False if there was none."""
        if session.subscriptions.pop(topic_filter, None) is None:
            return False
        subscribers = self._subscribers.get(topic_filter)
        if subscribers is not None:
            subscribers.pop(session, None)
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
        for publication, taken in list(self._kept(wish.topic_filter)):
            if session.may_read(publication.topic):
                session.offer(publication, min(wish.qos, publication.qos), retain=True, taken=taken)

    def _route(self, topic: str) -> Route:
        """The sessions that get a message, once each, with their highest subscribed QoS."""
        if (found := self._routes.get(topic)) is not None:
            return found
        best: dict[ClientSession, Subscription] = {}
        for subscribers in self._subscribers.match(topic):
            for session, wish in subscribers.items():
                if session not in best or wish.qos > best[session].qos:
                    best[session] = wish
        if len(self._routes) >= _ROUTES:
            self._routes.clear()
        route = self._routes[topic] = list(best.items())
        return route

    def _kept(self, topic_filter: str) -> Iterator[tuple[Published, float]]:
        """The retained messages of a filter, with their times; expired ones are not sent."""
        if "+" not in topic_filter and "#" not in topic_filter:
            if (found := self._retained.get(topic_filter)) is not None:
                yield found
            return
        asked: TopicFilters[bool] = TopicFilters()
        asked[topic_filter] = True
        yield from (found for topic, found in self._retained.items() if any(asked.match(topic)))
