"""The receiver: moves messages from the broker into spools, and tells producers what it has.

The client's own thread only puts messages into a queue, in groups. A thread, which may work for many receivers, takes
them out, appends each group to its stream's spool, and acknowledges it only then. While the spool of a raw stream is
full, or the broker has not answered for what the stream rejected, nothing of it is acknowledged: the broker holds it
back.

What a raw topic retains is from before the subscription, so it is acknowledged and not spooled, unless the feed asks
for it.

An acknowledgement holds only for the connection that its message came over. So everything that waits is dropped when a
connection ends: it was not acknowledged and comes again. Raw messages that were spooled, but whose acknowledgement the
broker did not take, come again too; `bridge.spools.deliveries` recognizes them.

Streams between jobs need nothing of that, because their producers keep all that no spool has reported: a broker's
acknowledgement promises them nothing. So their frames are acknowledged whatever becomes of them. Early ones are held in
memory, and those for a full spool are dropped. What a spool may have missed, because it was full or there was no
connection, its producer is asked for. Reports are retained messages, so that a producer that comes back gets the newest
one.
"""

import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from bridge.formats.decoders import Decoder
from bridge.formats.sparkplug_decoder import ReadMessages, TopicDecoder
from bridge.intake import Counts, Expected, Intake, Receipt, Sent, expire, next_of, offer, taken
from bridge.machine import Clock, SystemClock
from bridge.messages import Message, grouped
from bridge.raw_events import Unfit, events_in
from bridge.source_topics import FeedTopics, events_on, not_taken
from bridge.spools.deliveries import NOTHING_IN_DOUBT, Deliveries, InDoubt
from bridge.spools.log import Item, ItemKind, SpoolDamaged, packed
from bridge.spools.spool import Spool, SpoolClosed, SpoolFull, SpoolState
from bridge.transport.mqtt_client import MqttClient
from bridge.wire import Again, Birth, Frame, FrameKind, Have, MalformedFrame, decode
from dags import Schema
from dags.source_topics import SourceTopic, overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolFeed:
    """One topic or filter that a receiver spools: raw events of a schema, numbered events, or frames of one producer.

    A filter feeds raw events only.
    """

    spool: Spool
    schema: Schema | None = None
    decode: Decoder | None = None
    """What reads raw events in the messages; by default they are JSON."""
    read: TopicDecoder | None = None
    """What reads raw events in the messages and their topics, instead of `decode`."""
    levels: SourceTopic | None = None
    """For raw events of a filter, the levels of their topics that become fields."""
    answers_at: str = ""
    """For numbered events, the topic on which to answer each message."""
    retained: bool = False
    """Whether an empty spool begins with what the topic retains, if it has raw events."""
    asks_at: str = ""
    """The topic on which to ask the producer for missing events."""
    has_at: str = ""
    """The topic on which to report to the producer what the spool has."""

    @property
    def is_bridge(self) -> bool:
        """True for frames of another job."""
        return self.schema is None and not self.answers_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread(Unfit):
    """A message, or an event in one, that could not be spooled."""

    topic: str


_PATIENCE = 60.0
"""Seconds to ask a producer that is present for missing events. Then the stream goes on without them."""
_SILENCE = 45.0
"""Seconds of silence after which a producer counts as away; one that waits for an answer sends more often."""
_ASK_INTERVAL = 1.0
"""Seconds before missing events are asked for again."""
_EVERYTHING = 1 << 62
"""A number after any that a producer has sent."""
REPORT_INTERVAL = 0.25
"""Seconds between two reports on a stream, so that many small groups cost few messages."""


class ProducerAnswers:
    """Reports and questions to producers, by the topics of their streams; used by one receiver."""

    def __init__(self, transport: MqttClient) -> None:
        self._transport = transport
        self.due: set[str] = set()
        """Streams of which there is something to report."""
        self._reported: dict[str, float] = {}
        self._asked: dict[str, tuple[tuple[int, int], float]] = {}
        """The missing numbers that were asked for last, and when."""
        self._heard: dict[str, tuple[float, float]] = {}
        """The time since which a producer has been present, and when its last message came."""

    @property
    def waiting(self) -> bool:
        """True if a report was put off, because another one had just been sent."""
        return any(topic in self._reported for topic in self.due)

    def note_news(self, topic: str, *, urgent: bool = False) -> None:
        """Report on a stream soon; if it is urgent, even if another report has just been sent."""
        self.due.add(topic)
        if urgent:
            self._reported.pop(topic, None)

    def repeat(self) -> None:
        """Ask and report again: the broker may have lost the messages."""
        self._asked.clear()
        self.due.update(self._reported)
        self._reported.clear()

    def forget(self, topic: str) -> None:
        """Report and ask nothing more on a stream."""
        self.due.discard(topic)
        for times in (self._reported, self._asked, self._heard):
            times.pop(topic, None)

    def patience(self, topic: str, now: float, *, heard: bool) -> float:
        """Seconds to wait for missing events: no limit while the producer is away, because it still has them."""
        since, last = self._heard.get(topic, (now, now))
        if now - last > _SILENCE:
            since = now
        if heard:
            self._heard[topic] = (since, now)
        return _PATIENCE if now - since >= _PATIENCE else math.inf

    def ask(self, topic: str, feed: SpoolFeed, epoch: int, missing: tuple[int, int], now: float) -> None:
        """Ask for missing events, unless they have just been asked for."""
        if not feed.asks_at:
            return
        asked, at = self._asked.get(topic, (None, 0.0))
        if asked == missing and now - at < _ASK_INTERVAL:
            return
        self._asked[topic] = (missing, now)
        self._transport.publish(feed.asks_at, Again(epoch=epoch, first=missing[0], end=missing[1]).encoded())

    def ask_for_rest(self, feed: SpoolFeed, expected: Expected) -> None:
        """Ask for all that a producer has sent and the spool does not have; it may be nothing."""
        if feed.asks_at and expected.opened and not expected.closed and expected.next is not None:
            again = Again(epoch=expected.epoch, first=expected.next, end=_EVERYTHING)
            self._transport.publish(feed.asks_at, again.encoded())

    def report(self, topic: str, feed: SpoolFeed, now: float) -> None:
        """Report what the spool has of a stream, if there is news and the last report is old enough."""
        reported = self._reported.get(topic)
        if topic not in self.due or (reported is not None and now - reported < REPORT_INTERVAL):
            return
        self.due.discard(topic)
        expected = feed.spool.producers.get(topic, Expected())
        # Until the stream has opened in this epoch, its producer must not take the opening for received.
        if feed.has_at and expected.opened and expected.next is not None:
            self._reported[topic] = now
            have = Have(epoch=expected.epoch, next=expected.next, closed=expected.closed)
            self._transport.publish(feed.has_at, have.encoded(), retain=True)


MOST_SPOOLED = 8_000_000
"""Bytes of messages that are spooled together, so that a spool grows little beyond its limit; a larger one alone."""
_MOST_GROUPED = 10_000
"""Messages that are taken out of a queue together."""
SPOOL_TROUBLES = (SpoolDamaged, SpoolFull, SpoolClosed, OSError)
"""Errors of one spool."""
Work = Callable[[Sequence[Message | None]], bool]
"""Takes messages, and says whether it is to be called again soon, even if none comes."""
T = TypeVar("T")


class ReceiverThread:
    """A thread that works for any number of receivers."""

    def __init__(self, name: str) -> None:
        self._queue: SimpleQueue[tuple[Work, Sequence[Message | None]] | None] = SimpleQueue()
        self._working = threading.Lock()
        """Held while work is done."""
        self._is_stopped = False
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def deliver(self, work: Work, messages: Sequence[Message | None]) -> None:
        """Have some work done; from any thread. None marks where a connection began or ended."""
        self._queue.put((work, messages))

    def stop(self) -> None:
        """Do no more work, and return once the work under way is done."""
        self._is_stopped = True
        self._queue.put(None)
        # It does not wait for the thread to end: that very thread may wait here, after it died of an error.
        with self._working:
            pass

    def _run(self) -> None:
        unfinished: dict[Work, None] = {}
        looked = time.monotonic()
        while (groups := self._groups(REPORT_INTERVAL if unfinished else None)) is not None:
            if time.monotonic() - looked >= REPORT_INTERVAL:
                looked = time.monotonic()
                groups = {**dict.fromkeys(unfinished, ()), **groups}
            for work, messages in groups.items():
                unfinished.pop(work, None)
                with self._working:
                    if not self._is_stopped and work(messages):
                        unfinished[work] = None

    def _groups(self, timeout: float | None) -> Mapping[Work, Sequence[Message | None]] | None:
        """What was delivered, by the work; None if it is to stop."""
        groups: dict[Work, list[Message | None]] = {}
        count = 0
        while count < _MOST_GROUPED:
            try:
                delivered = self._queue.get_nowait() if groups else self._queue.get(timeout=timeout)
            except Empty:
                break
            if delivered is None:
                return None
            work, messages = delivered
            groups.setdefault(work, []).extend(messages)
            count += max(1, len(messages))
        return groups


def _raised(_topic: str, error: Exception) -> None:
    raise error


class Receiver:
    """Takes the messages of its feeds; any thread may call it."""

    def __init__(  # noqa: PLR0913 - its feeds, its transport, two listeners, a clock, a bound, and its session
        self,
        feeds: Mapping[str, SpoolFeed],
        transport: MqttClient,
        *,
        on_unread: Callable[[Unread], None],
        on_trouble: Callable[[str, Exception], None] = _raised,
        has_room: Callable[[str], bool] = lambda _topic: True,
        clock: Clock | None = None,
        session: str = "",
    ) -> None:
        """`on_trouble` is called with the topic if a spool cannot be filled, and then its feed is removed.

        `has_room` says whether more of a raw topic may be passed to `on_unread`; until then it waits, and the topic's
        messages with it.

        `session` names the broker's session, whose raw messages are spooled once although the broker delivers them
        again. It is empty if the broker's packet ids are not known to allow that, see `bridge.spools.deliveries`.
        """
        self.feeds: dict[str, SpoolFeed] = {}
        """By the topic or filter that is subscribed to, as all that is kept of a feed."""
        self._topics = FeedTopics()
        self.intakes: dict[str, Intake] = {}
        self._deliveries: dict[str, Deliveries] = {}
        """Those of raw events; empty without a session."""
        self._session = session
        self._transport = transport
        self._on_unread = on_unread
        self._on_trouble = on_trouble
        self._clock = clock or SystemClock()
        self._has_room = has_room
        self._waiting: dict[str, list[Message]] = defaultdict(list)
        """Messages that are to be spooled, and those of raw streams that wait for room."""
        self._rejected: dict[str, deque[Unread]] = defaultdict(deque)
        """What could not be spooled of raw topics, and is not reported yet."""
        self._missed: set[str] = set()
        """Streams between jobs of which frames may have been missed, and whose producers were not asked for them."""
        self._gapped: set[str] = set()
        """Streams between jobs with frames that are held because others before them are missing."""
        self._answers = ProducerAnswers(transport)
        self._filling = threading.Lock()
        """Held while anything is written into a spool."""
        self._table = threading.Lock()
        """Held for a moment, while what there is to do is looked through or changed."""
        for topic, feed in feeds.items():
            self._add(topic, feed)

    def add(self, topic: str, feed: SpoolFeed) -> None:
        """Take the messages of one more feed from now on, and ask for what may have been missed of it; from any thread.

        Messages of topics without a feed are dropped: only streams between jobs come and go.
        """
        with self._table:
            self._add(topic, feed)

    def remove(self, topic: str) -> Counts:
        """Take no more messages of a feed, nor write into its spool; returns its last counts. From any thread."""
        with self._filling:
            self._remove(topic)
            return self.intakes.pop(topic).counts

    def session_began(self) -> None:
        """Forget what is in doubt, because the broker has no session from before; called before the subscription."""
        with self._filling:
            for topic, deliveries in self._deliveries.items():
                deliveries.forget()
                self.feeds[topic].spool.append([], in_doubt=NOTHING_IN_DOUBT)

    @property
    def unreported(self) -> int:
        """The number of rejected events that wait to be reported."""
        return sum(unread.count for waiting in self._rejected.values() for unread in waiting)

    def work(self, messages: Iterable[Message | None]) -> bool:
        """Spool a group of messages and acknowledge them; None marks where a connection began or ended.

        Returns whether something waits: for room, for missing events, or for the time of a report.
        """
        with self._filling, self._table:
            feed_of, match = self._topics.taken, self._topics.match
            for message in messages:
                if message is None:
                    self._forget()
                elif (key := feed_of.get(message.topic) or match(message)) is not None:
                    self._waiting[key].append(message)
                else:
                    self._transport.acknowledge([message.token])
            # Only where there is something to do: a host may receive thousands of streams.
            busy = {*self._waiting, *self._rejected, *self._answers.due, *self._missed, *self._gapped}
            busy &= self.feeds.keys()
        for topic in sorted(busy):
            with self._filling:
                if (feed := self.feeds.get(topic)) is None:
                    continue
                try:
                    self._serve(topic, feed)
                except SPOOL_TROUBLES as error:
                    self._on_trouble(topic, error)
                    self._remove(topic)
        with self._table:
            waits = (*self._waiting.values(), *self._rejected.values())
            return bool(self._answers.waiting or self._missed or self._gapped or any(waits))

    def _serve(self, topic: str, feed: SpoolFeed) -> None:
        if feed.spool.state is SpoolState.FULL:
            feed.spool.prune()
        if feed.is_bridge:
            self._take_frames(topic, feed)
            self._answers.report(topic, feed, self._clock.passed())
        else:
            self._spool(topic, feed)

    def _add(self, topic: str, feed: SpoolFeed) -> None:
        self.feeds[topic] = feed
        self._topics.add(topic)
        expected = feed.spool.producers.get(topic, Expected())
        self.intakes[topic] = Intake(expected=expected)
        if feed.schema is not None:
            if feed.spool.in_doubt.session != self._session:
                # Else it might be read once that session comes back, with ids that it gave anew meanwhile.
                feed.spool.append([], in_doubt=NOTHING_IN_DOUBT)
            if self._session:
                self._deliveries[topic] = Deliveries(topic, self._session, feed.spool.in_doubt)
        if feed.is_bridge:
            self._answers.note_news(topic)
            if expected.opened:
                self._missed.add(topic)

    def _remove(self, topic: str) -> None:
        with self._table:
            if self.feeds.pop(topic, None) is not None:
                self._topics.discard(topic)
                for topics in (self._missed, self._gapped):
                    topics.discard(topic)
                self._transport.acknowledge(message.token for message in self._waiting.pop(topic, []))
                self._answers.forget(topic)
                self._rejected.pop(topic, None)

    def _forget(self) -> None:
        self._waiting.clear()
        self._missed |= {topic for topic, intake in self.intakes.items() if intake.expected.opened}
        for deliveries in self._deliveries.values():
            deliveries.reconnected()
        self._answers.repeat()

    def _spool(self, topic: str, feed: SpoolFeed) -> None:
        """Spool the messages that wait, as far as there is room."""
        is_held = not self._report_rejected(topic)
        for group in _groups(self._waiting.pop(topic, [])):
            if is_held or feed.spool.state is SpoolState.FULL:
                self._waiting[topic] += group
            elif feed.schema is None:
                self._spool_sent(feed, group)
            else:
                self._spool_raw(topic, feed, feed.schema, group)
                is_held = not self._report_rejected(topic)

    def _spool_raw(self, topic: str, feed: SpoolFeed, schema: Schema, messages: Sequence[Message]) -> None:
        deliveries = self._deliveries.get(topic)
        new = messages if deliveries is None else deliveries.new(messages)
        content = self._content(feed, schema, new)
        events = content.events
        for event in content.unfit:
            self._rejected[topic].append(Unread(topic=topic, event=event.event, reason=event.reason, count=event.count))
        items = list[Item]()
        if len(events):
            stamp = self._stamp()
            births = (Birth(len(events), stamp),)
            items.append(Item(count=len(events), stamp=stamp, payload=packed(events), births=births))
        # Messages without events are noted too: the next process has to know that they were handled.
        if items or (new and deliveries is not None):
            feed.spool.append(items, in_doubt=None if deliveries is None else deliveries.kept())
        for reply in content.replies:
            # Only where the source's own topic reaches: what is beyond may be somebody else's.
            if overlap(topic, reply.topic):
                self._transport.publish(reply.topic, reply.payload)
        tokens = [message.token for message in messages]
        self._transport.acknowledge(tokens, None if deliveries is None else deliveries.acknowledging())

    def _content(self, feed: SpoolFeed, schema: Schema, new: Sequence[Message]) -> ReadMessages:
        """The events of messages that were not read before, what is unfit of them, and what to publish in reply."""
        if feed.read is not None:
            return self._on_topics(feed.read, new)
        if (levels := feed.levels) is not None:
            return self._on_topics(lambda own: ReadMessages(*events_on(levels, own, schema, feed.decode)), new)
        payloads = [message.payload for message in new if not message.retained]
        if feed.retained and feed.spool.end == 0 and new and new[0].retained:
            # A topic retains one message. Each subscription brings it again, but only the first before any other.
            payloads.insert(0, new[0].payload)
        return ReadMessages(*(feed.decode or partial(events_in, schema=schema))(payloads))

    def _on_topics(self, read: TopicDecoder, new: Sequence[Message]) -> ReadMessages:
        """What is read of messages together with their topics; those of too many topics are unfit."""
        published = [message for message in new if not message.retained]
        taken_topics = self._topics.taken
        content = read([message for message in published if message.topic in taken_topics])
        beyond = (not_taken(message) for message in published if message.topic not in taken_topics)
        return replace(content, unfit=(*content.unfit, *beyond))

    def _report_rejected(self, topic: str) -> bool:
        """Report what was rejected, as far as there is room; returns whether there is room for more."""
        while (has_room := self._has_room(topic)) and topic in self._rejected:
            self._on_unread(self._rejected[topic].popleft())
            if not self._rejected[topic]:
                del self._rejected[topic]
        return has_room

    def _spool_sent(self, feed: SpoolFeed, messages: Sequence[Message]) -> None:
        """Spool the new ones of numbered events, and answer with the next number of each producer."""
        expected, items, stamp = dict(feed.spool.producers), list[Item](), self._stamp()
        asked: list[Sent] = []
        for message in messages:
            if (sent := self._decoded(message, Sent.decoded)) is None:
                continue
            asked.append(sent)
            expected, new = taken(expected, sent, feed.spool.end + sum(item.count for item in items))
            if count := int(new.num_rows):
                items.append(Item(count=count, stamp=stamp, payload=packed(new), births=(Birth(count, stamp),)))
        feed.spool.append(items, expected, self._in_doubt(feed, messages))
        for sent in asked:
            answer = Receipt(ask=sent.ask, next=next_of(feed.spool.producers, sent.producer))
            self._transport.publish(feed.answers_at, answer.encoded())
        self._transport.acknowledge(message.token for message in messages)

    def _in_doubt(self, feed: SpoolFeed, messages: Sequence[Message]) -> InDoubt | None:
        """What is still in doubt of the raw messages in the spool of a feed, once it takes others."""
        for topic, deliveries in self._deliveries.items():
            if self.feeds[topic].spool is feed.spool:
                deliveries.pass_by(messages)
                return deliveries.kept()
        return None

    def _take_frames(self, topic: str, feed: SpoolFeed) -> None:
        """Spool the frames that came, as far as there is room, and ask for what was missed."""
        messages = self._waiting.pop(topic, [])
        try:
            for group in _groups(messages):
                if feed.spool.state is SpoolState.FULL:
                    self._miss(topic)
                    return
                self._spool_frames(topic, feed, group)
        finally:
            self._transport.acknowledge(message.token for message in messages)
        if topic in self._missed:
            self._missed.discard(topic)
            self._answers.ask_for_rest(feed, self.intakes[topic].expected)

    def _miss(self, topic: str) -> None:
        # The frames held early too: they must not run out of patience while those before them are not taken.
        self.intakes[topic] = replace(self.intakes[topic], early={})
        self._gapped.discard(topic)
        self._missed.add(topic)

    def _spool_frames(self, topic: str, feed: SpoolFeed, messages: Sequence[Message]) -> None:
        intake, now = self.intakes[topic], self._clock.passed()
        frames: list[Frame] = []
        for message in messages:
            if (frame := self._decoded(message, decode)) is None:
                continue
            taken = offer(intake, frame, now)
            intake = taken.intake
            frames += taken.frames
            # Even if the events were there already: the producer sent them because it had not heard of that.
            self._answers.note_news(topic, urgent=frame.kind is FrameKind.OPEN)
        late = expire(intake, now, self._answers.patience(topic, now, heard=bool(messages)))
        feed.spool.append(self._items((*frames, *late.frames)), {topic: late.intake.expected})
        self.intakes[topic] = late.intake
        (self._gapped.add if late.intake.early else self._gapped.discard)(topic)
        if late.missing is not None:
            self._answers.ask(topic, feed, late.intake.expected.epoch, late.missing, now)

    def _items(self, frames: Iterable[Frame]) -> list[Item]:
        return [
            Item(kind=ItemKind.MARKER, count=1, stamp=self._stamp(), payload=frame.marker.encode())
            if frame.kind is FrameKind.MARKER
            else Item(count=frame.count, stamp=self._stamp(), payload=packed(frame.events), births=frame.births)
            for frame in frames
            if frame.count
        ]

    def _decoded(self, message: Message, decoder: Callable[[bytes], T]) -> T | None:
        try:
            return decoder(message.payload)
        except Exception as error:  # noqa: BLE001 - it would fail in the same way each time it comes
            reason = str(error) if isinstance(error, MalformedFrame) else repr(error)
            self._on_unread(Unread(topic=message.topic, event=repr(message.payload[:100]), reason=reason))
            return None

    def _stamp(self) -> int:
        return round(self._clock.now() * 1000)


def _groups(messages: list[Message]) -> Iterable[list[Message]]:
    """Messages in groups that are spooled together; at least one group."""
    if sum([len(message.payload) for message in messages]) <= MOST_SPOOLED:
        return (messages,)
    return grouped(messages, lambda message: len(message.payload), MOST_SPOOLED)
