"""The receiver: from the broker into spools, acknowledging only what is there for good.

The client's own thread does nothing but put messages into a queue, in groups where it reads in rounds. One thread takes
them out, groups what comes within 50 ms where the client does not, puts each group through its stream's intake, appends
it to the stream's spool, and only then acknowledges. What came early stays unacknowledged, and so does everything while
a spool is full: the broker holds it back meanwhile.

An acknowledgement is good only for the connection that its message came over, because a broker gives message ids anew
after a reconnect. So when a connection ends everything that waits is dropped: it was not acknowledged and comes again.

What a spool has of a stream is told to its producer, which keeps everything else: a broker's word is no promise. It is
told as a retained message, so that a producer that comes back knows it too.
"""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol

from bridge.events.births import Birth
from bridge.events.numbered_events import Receipt, Sent, next_of, taken
from bridge.events.raw_events import Unfit, all_events_in
from bridge.intake import Expected, Intake, Taken, expire, offer
from bridge.machine.clock import Clock, SystemClock
from bridge.spools.log import Item, ItemKind, packed
from bridge.spools.spool import Spool, SpoolState
from bridge.transport.fetch_interval import SHORTEST_FETCH_INTERVAL
from bridge.wire import Again, Frame, FrameKind, Have, MalformedFrame, decode
from dags import Schema

_PATIENCE = 60.0
"""Seconds for which a producer that is there may be asked for what is missing; then what came early goes on without."""
_SILENCE = 45.0
"""Seconds after which a producer that says nothing is taken to be away; one that waits for a word says more often."""
_IDLE = 1.0
"""Seconds between two looks at what is due, where nothing comes."""
_ASK_INTERVAL = 1.0
"""Seconds after which what is still missing is asked for again."""
_REPORT_INTERVAL = 0.25
"""Seconds between two words about what a spool has, so that many small groups cost few messages."""
MOST_SPOOLED = 8_000_000
"""Bytes of messages that are spooled together, if one has no more: so a spool grows little beyond its limit."""
_MOST_GROUPED = 10_000


class Message(NamedTuple):
    """A message that the broker delivered and that waits to be acknowledged."""

    topic: str
    payload: bytes
    token: int
    """What to acknowledge it by, on the connection that it came over."""


class ReceiverTransport(Protocol):
    """What a receiver needs of a broker's client."""

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Tell the broker that these messages are there for good, in this order."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send a message, which the broker keeps for whoever subscribes later if it is retained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolFeed:
    """One topic that a receiver spools: raw events of a schema, numbered ones, or else frames of one producer."""

    spool: Spool
    schema: Schema | None = None
    answers_at: str = ""
    """Where raw events are numbered by whoever sends them, the topic on which to answer each message."""
    asks_at: str = ""
    """The topic on which to ask the producer for what is missing."""
    has_at: str = ""
    """The topic on which to tell the producer what the spool has."""

    @property
    def is_bridge(self) -> bool:
        """Whether frames come from another job."""
        return self.schema is None and not self.answers_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A message, or an event in one, that could not be spooled."""

    topic: str
    event: str
    reason: str


class Receiver:
    """Takes the messages of its feeds; `run` in a thread, or `work` step by step."""

    def __init__(
        self,
        feeds: Mapping[str, SpoolFeed],
        transport: ReceiverTransport,
        *,
        on_unread: Callable[[Unread], None],
        clock: Clock | None = None,
        grouping: float = SHORTEST_FETCH_INTERVAL,
    ) -> None:
        """For `grouping` seconds messages are grouped into one file; 0 where the client groups them already."""
        self.feeds: dict[str, SpoolFeed] = {}
        self.intakes: dict[str, Intake[int]] = {}
        self._transport = transport
        self._on_unread = on_unread
        self._clock = clock or SystemClock()
        self._grouping = grouping
        self._queue: SimpleQueue[Message | None] = SimpleQueue()
        self._waiting: dict[str, list[Message]] = defaultdict(list)
        self._asked: dict[str, tuple[tuple[int, int], float]] = {}
        self._told: dict[str, float] = {}
        self._speaking: dict[str, tuple[float, float]] = {}
        self._untold: set[str] = set()
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        for topic, feed in feeds.items():
            self._take(topic, feed)

    def add(self, topic: str, feed: SpoolFeed) -> None:
        """Take the messages of one more feed from now on; any thread may call it, before the topic is subscribed.

        Messages of topics that have no feed yet wait for it, unacknowledged.
        """
        with self._guard:
            self._take(topic, feed)

    def deliver(self, message: Message) -> None:
        """Called by the client's thread for each message of a feed."""
        self._queue.put(message)

    def reconnected(self) -> None:
        """Called by the client's thread when a new connection begins, and when one ends."""
        self._queue.put(None)

    def stop(self) -> None:
        """Let `run` return after the group it is at; what comes later stays unacknowledged."""
        self._stopping.set()
        self._queue.put(None)

    def run(self) -> None:
        """Work until stopped."""
        while not self._stopping.is_set():
            group = self._group()
            if not self._stopping.is_set():
                self.work(group)

    def work(self, messages: Iterable[Message | None]) -> None:
        """Spool a group of messages and acknowledge what is there; None stands where a connection began or ended."""
        with self._guard:
            self._work(messages)

    def _work(self, messages: Iterable[Message | None]) -> None:
        for message in messages:
            if message is None:
                self._forget()
            else:
                self._waiting[message.topic].append(message)
        for topic, feed in self.feeds.items():
            if feed.spool.state is SpoolState.FULL:
                feed.spool.prune()
            if feed.spool.state is not SpoolState.FULL:
                self._spool(topic, feed)
                if feed.is_bridge:
                    self._tell(topic, feed)

    def _take(self, topic: str, feed: SpoolFeed) -> None:
        self.feeds[topic] = feed
        self.intakes[topic] = Intake(expected=feed.spool.producers.get(topic, Expected()))
        self._untold.add(topic)

    def _group(self) -> list[Message | None]:
        """The first message that comes and what comes within the grouping time after it; nothing where none comes."""
        try:
            group = [self._queue.get(timeout=self._idle())]
        except Empty:
            return []
        # To wake up for each of them would cost more than to read it.
        time.sleep(self._grouping)
        with suppress(Empty):
            while len(group) < _MOST_GROUPED:
                group.append(self._queue.get_nowait())
        return group

    def _idle(self) -> float:
        """How long nothing is due."""
        # What was told a moment ago and is news by now, and what waits for a spool to have room.
        with self._guard:
            waits = any(topic in self._told for topic in self._untold) or any(self._waiting.values())
        return _REPORT_INTERVAL if waits else _IDLE

    def _forget(self) -> None:
        self._waiting.clear()
        self.intakes = {topic: replace(intake, early={}) for topic, intake in self.intakes.items()}
        # The broker may have lost what it was told, and what was asked.
        self._asked.clear()
        self._told.clear()
        self._untold.update(self.feeds)

    def _spool(self, topic: str, feed: SpoolFeed) -> None:
        """Spool what waits, as far as there is room."""
        for group in _groups(self._waiting.pop(topic, [])):
            if feed.spool.state is SpoolState.FULL:
                self._waiting[topic] += group
            elif feed.is_bridge:
                self._spool_frames(topic, feed, group)
            elif group and feed.schema is None:
                self._spool_sent(topic, feed, group)
            elif group and feed.schema is not None:
                self._spool_raw(topic, feed, feed.schema, group)

    def _spool_raw(self, topic: str, feed: SpoolFeed, schema: Schema, messages: Sequence[Message]) -> None:
        events, unfit = all_events_in((message.payload for message in messages), schema)
        for each in unfit:
            self._on_unread(_unread(topic, each))
        if len(events):
            stamp = self._stamp()
            item = Item(count=len(events), stamp=stamp, payload=packed(events), births=(Birth(len(events), stamp),))
            feed.spool.append([item])
        self._transport.acknowledge(message.token for message in messages)

    def _spool_sent(self, topic: str, feed: SpoolFeed, messages: Sequence[Message]) -> None:
        """Spool what is new of numbered events, and answer how far each producer is."""
        expected, items, stamp = dict(feed.spool.producers), list[Item](), self._stamp()
        asked: list[Sent] = []
        for message in messages:
            try:
                sent = Sent.decoded(message.payload)
            except Exception as error:  # noqa: BLE001 - whatever it is, it will be no better the next time it comes
                reason = str(error) if isinstance(error, MalformedFrame) else repr(error)
                self._on_unread(Unread(topic=topic, event=repr(message.payload[:100]), reason=reason))
                continue
            asked.append(sent)
            expected, new = taken(expected, sent, feed.spool.end + sum(item.count for item in items))
            if count := int(new.num_rows):
                items.append(Item(count=count, stamp=stamp, payload=packed(new), births=(Birth(count, stamp),)))
        feed.spool.append(items, expected)
        for sent in asked:
            answer = Receipt(ask=sent.ask, next=next_of(feed.spool.producers, sent.producer))
            self._transport.publish(feed.answers_at, answer.encoded())
        self._transport.acknowledge(message.token for message in messages)

    def _spool_frames(self, topic: str, feed: SpoolFeed, messages: Sequence[Message]) -> None:
        intake, now = self.intakes[topic], self._clock.passed()
        frames: list[Frame] = []
        done: set[int] = set()
        arrived = [*(token for _, token, _ in intake.early.values()), *(message.token for message in messages)]
        for message in messages:
            try:
                frame = decode(message.payload)
            except Exception as error:  # noqa: BLE001 - whatever it is, it will be no better the next time it comes
                reason = str(error) if isinstance(error, MalformedFrame) else repr(error)
                self._on_unread(Unread(topic=topic, event=repr(message.payload[:100]), reason=reason))
                done.add(message.token)
                continue
            intake = self._noted(offer(intake, frame, message.token, now), frames, done)
            # Also after what was there already: it came because the producer had not heard that it was.
            self._untold.add(topic)
            if frame.kind is FrameKind.OPEN:
                self._told.pop(topic, None)
        late = expire(intake, now, _PATIENCE if self._was_there(topic, now, spoke=bool(messages)) else math.inf)
        intake = self._noted(late, frames, done)
        items = [
            Item(kind=ItemKind.MARKER, count=1, stamp=self._stamp(), payload=frame.marker.encode())
            if frame.kind is FrameKind.MARKER
            else Item(count=frame.count, stamp=self._stamp(), payload=packed(frame.events), births=frame.births)
            for frame in frames
            if frame.count
        ]
        feed.spool.append(items, {topic: intake.expected})
        self.intakes[topic] = intake
        self._transport.acknowledge(token for token in arrived if token in done)
        self._ask(topic, feed, late.missing, now)

    def _was_there(self, topic: str, now: float, *, spoke: bool) -> bool:
        """Whether a producer spoke all the patience through: one that is away still has what is missing."""
        since, last = self._speaking.get(topic, (now, now))
        if now - last > _SILENCE:
            since = now
        if spoke:
            self._speaking[topic] = (since, now)
        return now - since >= _PATIENCE

    @staticmethod
    def _noted(taken: Taken[int], frames: list[Frame], done: set[int]) -> Intake[int]:
        frames += taken.frames
        done |= set(taken.done)
        return taken.intake

    def _ask(self, topic: str, feed: SpoolFeed, missing: tuple[int, int] | None, now: float) -> None:
        if missing is None or not feed.asks_at:
            return
        asked, at = self._asked.get(topic, (None, 0.0))
        if asked == missing and now - at < _ASK_INTERVAL:
            return
        self._asked[topic] = (missing, now)
        wish = Again(epoch=self.intakes[topic].expected.epoch, first=missing[0], end=missing[1])
        self._transport.publish(feed.asks_at, wish.encoded())

    def _tell(self, topic: str, feed: SpoolFeed) -> None:
        expected, now = feed.spool.producers.get(topic, Expected()), self._clock.passed()
        told = self._told.get(topic)
        if topic not in self._untold or not feed.has_at or (told is not None and now - told < _REPORT_INTERVAL):
            return
        # Before the stream has opened in this epoch, its producer must not believe that the opening came.
        if expected.opened and expected.next is not None:
            self._told[topic] = now
            self._untold.discard(topic)
            have = Have(epoch=expected.epoch, next=expected.next, closed=expected.closed)
            self._transport.publish(feed.has_at, have.encoded(), retain=True)

    def _stamp(self) -> int:
        return round(self._clock.now() * 1000)


def _groups(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Messages as they are spooled together; one group at least."""
    group: list[Message] = []
    size = 0
    for message in messages:
        if group and size + len(message.payload) > MOST_SPOOLED:
            yield group
            group, size = [], 0
        group.append(message)
        size += len(message.payload)
    yield group


def _unread(topic: str, unfit: Unfit) -> Unread:
    return Unread(topic=topic, event=unfit.event, reason=unfit.reason)
