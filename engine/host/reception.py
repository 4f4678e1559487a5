"""The reception of streams from the broker; a stream that is stuck holds up no other.

A broker hands a client only so many messages before the client has acknowledged some. A raw stream whose spool is full
acknowledges none, so each has its own client, and only that one waits. Streams between jobs are acknowledged whatever
becomes of them, since their producers send again what is missing. So one client has all of them, however many there
are. One thread serves all clients, and a few fill the spools.
"""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import quote
from zlib import crc32

from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Clock, Counts, Message, NotConnected, Receiver, ReceiverThread, SpoolFeed, Unread, topics
from bridge.files import make_folder, sync_folder, write_whole
from bridge.receiver import SPOOL_TROUBLES
from bridge.transport.address import Address
from bridge.transport.client_loop import ClientLoop
from bridge.transport.mqtt_client import MqttClient, Permit, always
from bridge.transport.mqtt_rounds import fetch_wait, next_batch_after
from bridge.transport.probes import gives_ids_in_turn

_THREADS = 4
"""Threads that fill spools: one of them may wait for a disk, or for another machine."""
_PERMITTED = 1.0
"""Seconds for which a permit to connect holds for the other clients of a host, which all connect at once."""
_SUBSCRIBING = 10.0
"""Seconds that a broker may take to confirm a subscription."""
log = logging.getLogger("braid.host")


class Reception(Protocol):
    """A stream that is being received."""

    @property
    def counts(self) -> Counts:
        """The counts of its intake."""

    @property
    def is_subscribed(self) -> bool:
        """Whether the present broker keeps or sends what is published."""

    def hurry(self, seconds: float) -> None:
        """Receive messages as soon as they come, for some seconds."""

    def stop(self) -> None:
        """Stop receiving for now; the broker keeps what comes meanwhile."""

    def leave(self) -> None:
        """Stop receiving for good; the broker keeps nothing."""


class Receptions:
    """Begins the receptions of one host, and notes the streams for which the broker keeps messages."""

    def __init__(  # noqa: PLR0913 - its folder and name, its broker and protocol, three questions and a clock are eight
        self,
        root: Path,
        host: str,
        address: Address,
        protocol: MQTTProtocolVersion,
        *,
        on_unread: Callable[[Unread], None],
        has_room: Callable[[str], bool] = lambda _topic: True,
        clock: Clock,
        permit: Permit = always,
    ) -> None:
        self._folder = root / "hosts" / quote(host, safe="") / "received"
        self.on_unread = on_unread
        self.clock = clock
        self.has_room = has_room
        self.client = partial(
            MqttClient,
            address,
            protocol=protocol,
            permit=_RecentPermit(permit),
            loop=ClientLoop(f"receives for {host}"),
        )
        self.threads: list[ReceiverThread] = []
        self.name = host
        self._address = address
        self._protocol = protocol
        self._in_turn: bool | None = None
        """Whether the broker gives packet ids in turn; None while it is not known."""
        self._begun: list[_Received] = []
        self._between_jobs: _BetweenJobs | None = None

    def begin(
        self,
        stream: str,
        feeds: Mapping[str, SpoolFeed],
        *,
        due: Callable[[float], float],
        on_unread: Callable[[Unread], None],
        on_trouble: Callable[[str], None],
    ) -> Reception:
        """Begin to receive a stream on all its topics, as soon as there is a connection.

        `due` returns when the next batch after a time that reads it may begin. `on_unread` is called with what cannot
        be spooled, and `on_trouble` with the reason if the reception ends by itself; all from any thread.
        """
        if not self.threads:
            self.threads = [ReceiverThread(f"fills spools of {self.name}") for _ in range(_THREADS)]
        if all(feed.is_bridge for feed in feeds.values()):
            if self._between_jobs is None:
                self._between_jobs = _BetweenJobs(self)
            ((topic, feed),) = feeds.items()
            return self._between_jobs.begin(topic, feed, on_trouble)
        make_folder(self._folder)
        # Noted before the broker keeps anything.
        write_whole(self._folder / _digest(stream), json.dumps({"stream": stream, "topics": [*feeds]}).encode())
        received = _Received(self, stream, feeds, due=due, on_unread=on_unread, on_trouble=on_trouble)
        self._begun = [reception for reception in self._begun if not reception.ended] + [received]
        return received

    def hang_up(self) -> None:
        """Stop receiving, and acknowledge what is in spools; from any thread, even if the main thread hangs."""
        for reception in self._begun:
            reception.stop()
        self.close()

    def close(self) -> None:
        """Close what streams share, once all receptions have stopped."""
        if self._between_jobs is not None:
            self._between_jobs.stop()
        for thread in self.threads:
            thread.stop()

    def settle(self, kept: Collection[str]) -> None:
        """Have the broker keep nothing for streams that this host received once and does not receive any more."""
        for path in sorted(self._folder.glob("*")):
            try:
                noted = json.loads(path.read_bytes()) if path.is_file() else {}
                # An earlier release had a session for each stream between jobs.
                if noted and (noted["stream"] not in kept or all(map(topics.is_stream, noted["topics"]))):
                    client = self.client(self.client_id(noted["stream"]), topics=noted["topics"])
                    client.start()
                    if client.leave():
                        self.forget(noted["stream"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                log.warning("the broker may keep messages for the stream noted in %s: %s", path, error)

    def client_id(self, stream: str) -> str:
        """The id of a raw stream's client."""
        return f"braid-{self.name}-in-{_digest(stream)}"

    def session(self, stream: str) -> str:
        """The name of the broker's session for a stream; empty if its packet ids are not known to be given in turn."""
        if self._in_turn is None and self._protocol is MQTTProtocolVersion.MQTTv5:
            self._in_turn = gives_ids_in_turn(self._address)
        return f"{self.client_id(stream)} at {self._address.host}:{self._address.port}" if self._in_turn else ""

    def forget(self, stream: str) -> None:
        """Note that the broker keeps nothing more for a stream."""
        (self._folder / _digest(stream)).unlink(missing_ok=True)
        sync_folder(self._folder)


class _Received:
    """The reception of a raw stream, over a client of its own."""

    def __init__(  # noqa: PLR0913 - as `Receptions.begin`
        self,
        host: Receptions,
        stream: str,
        feeds: Mapping[str, SpoolFeed],
        *,
        due: Callable[[float], float],
        on_unread: Callable[[Unread], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._host = host
        self._stream = stream
        self._topics = tuple(feeds)
        self._on_trouble = on_trouble
        self.ended = False
        """Whether it has stopped receiving."""
        self._failed = False
        """Whether its spool could not be filled: what comes now stays at the broker until it is supplied again."""
        self._working = threading.Lock()
        """Held while messages are spooled and acknowledged."""

        def publish(unread: Unread) -> None:
            # First, because the message comes again if it cannot be published.
            host.on_unread(unread)
            on_unread(unread)

        deliver = partial(host.threads[_place(stream)].deliver, self._work)
        self._client = host.client(
            host.client_id(stream),
            # Now, because what the broker has kept comes with the connection.
            topics=self._topics,
            on_messages=deliver,
            on_connection=partial(deliver, [None]),
            on_new_session=self._session_began,
            on_disconnection=partial(deliver, [None]),
            grouping=lambda before: fetch_wait(due(next_batch_after(before)), now=host.clock.passed(), before=before),
        )
        self._receiver = Receiver(
            feeds,
            self._client,
            on_unread=publish,
            has_room=host.has_room,
            clock=host.clock,
            session=host.session(stream),
        )
        self._client.begin()
        try:
            self._client.confirm()
        except NotConnected as error:
            # The stream is subscribed to once there is a connection; producers keep their events until then.
            log.warning("topic %s: %s", self._topics[0], error)

    @property
    def counts(self) -> Counts:
        return self._receiver.intakes[self._topics[0]].counts

    @property
    def is_subscribed(self) -> bool:
        return self._client.is_subscribed(self._topics)

    def hurry(self, seconds: float) -> None:
        self._client.hurry(seconds)

    def stop(self) -> None:
        self._end_work()
        self._client.stop()

    def leave(self) -> None:
        self._end_work()
        if self._client.leave():
            self._host.forget(self._stream)

    def _end_work(self) -> None:
        self.ended = True
        # Before the client stops, so that nothing is acknowledged that is not in the spool. It does not wait for the
        # thread to end: that very thread may wait here, after it died of an error.
        with self._working:
            if unreported := self._receiver.unreported:
                log.warning("topic %s: %d events were rejected, and no dead letters", self._topics[0], unreported)

    def _work(self, messages: Sequence[Message | None]) -> bool:
        with self._working:
            try:
                return not (self.ended or self._failed) and self._receiver.work(messages)
            except SPOOL_TROUBLES as error:
                self._failed = True
                self._fail(error)
                return False

    def _fail(self, error: Exception) -> None:
        log.error("topic %s: %s", self._topics[0], error)
        self._on_trouble(f"{type(error).__name__}: {error}")

    def _session_began(self) -> None:
        try:
            self._receiver.session_began()
        except SPOOL_TROUBLES as error:
            self._fail(error)
            raise


class _BetweenJobs:
    """The reception of all streams between jobs, over one client."""

    def __init__(self, host: Receptions) -> None:
        self._threads = host.threads
        self.client = host.client(
            f"braid-{host.name}-between-jobs",
            on_messages=self._deliver,
            on_connection=self._reconnected,
            # Whatever the broker would keep for it, producers keep as well.
            lasting=False,
        )
        self._receivers = [
            Receiver({}, self.client, on_unread=host.on_unread, on_trouble=self._fail, clock=host.clock)
            for _ in host.threads
        ]
        self._on_trouble: dict[str, Callable[[str], None]] = {}
        self.client.begin()
        try:
            self.client.confirm()
        except NotConnected as error:
            log.warning("streams between jobs are received later: %s", error)

    def begin(self, topic: str, feed: SpoolFeed, on_trouble: Callable[[str], None]) -> "_StreamBetweenJobs":
        """Receive also what its producer sent before and the spool does not have."""
        self._on_trouble[topic] = on_trouble
        try:
            # Without a broker each of thousands would wait for it.
            self.client.subscribe([topic], timeout=_SUBSCRIBING if self.client.is_connected else 0.0)
        except NotConnected as error:
            log.warning("topic %s: %s", topic, error)
        self.receiver(topic).add(topic, feed)
        self._threads[_place(topic)].deliver(self.receiver(topic).work, ())
        return _StreamBetweenJobs(self, topic)

    def end(self, topic: str) -> Counts:
        """Receive a stream no longer; returns its last counts."""
        self.client.unsubscribe([topic])
        del self._on_trouble[topic]
        return self.receiver(topic).remove(topic)

    def receiver(self, topic: str) -> Receiver:
        return self._receivers[_place(topic)]

    def stop(self) -> None:
        self.client.stop()

    def _deliver(self, messages: Sequence[Message]) -> None:
        by_place: dict[int, list[Message]] = {}
        for message in messages:
            by_place.setdefault(_place(message.topic), []).append(message)
        for place, here in by_place.items():
            self._threads[place].deliver(self._receivers[place].work, here)

    def _reconnected(self) -> None:
        for thread, receiver in zip(self._threads, self._receivers, strict=True):
            thread.deliver(receiver.work, [None])

    def _fail(self, topic: str, error: Exception) -> None:
        log.error("topic %s: %s", topic, error)
        if (on_trouble := self._on_trouble.get(topic)) is not None:
            on_trouble(f"{type(error).__name__}: {error}")


class _StreamBetweenJobs:
    """The reception of one stream between jobs."""

    def __init__(self, among: _BetweenJobs, topic: str) -> None:
        self._among = among
        self._topic = topic
        self._last: Counts | None = None

    @property
    def counts(self) -> Counts:
        return self._last or self._among.receiver(self._topic).intakes[self._topic].counts

    @property
    def is_subscribed(self) -> bool:
        return self._among.client.is_subscribed([self._topic])

    def hurry(self, seconds: float) -> None:
        """Do nothing: what comes between jobs is received at once."""

    def stop(self) -> None:
        if self._last is None:
            self._last = self._among.end(self._topic)

    leave = stop


class _RecentPermit:
    """A permit to connect that is asked once for many clients."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self._until = 0.0

    def __call__(self) -> bool:
        if time.monotonic() >= self._until and self._permit():
            self._until = time.monotonic() + _PERMITTED
        return time.monotonic() < self._until


def _place(name: str) -> int:
    """The number of the thread that fills the spool of a stream, by the stream's name or its topic."""
    return crc32(name.encode("utf-8", "surrogatepass")) % _THREADS


def _digest(stream: str) -> str:
    """A short name of a stream, for the id of its client."""
    return hashlib.sha256(stream.encode("utf-8", "surrogatepass")).hexdigest()[:16]
