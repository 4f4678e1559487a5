"""The receiver: moves messages from the broker into spools.

The client's own thread only puts messages into a queue, in groups. A thread, which may work for many receivers, takes
them out, appends each group to its stream's spool, and only then acknowledges it. While the spool of a raw stream is
full, or the broker has not answered for what the stream rejected, nothing of it is acknowledged: the broker holds it
back.

What a raw topic retains is from before it was subscribed to, so it is acknowledged and not spooled, unless the feed
asks for it.

An acknowledgement holds only for the connection that its message came over. So everything that waits is dropped when a
connection ends: it was not acknowledged and comes again. Raw messages that were spooled, but whose acknowledgement the
broker did not take, come again too; `bridge.deliveries` recognizes them.

Streams between jobs need nothing of that: their producers keep all that no spool has reported. So their frames are
acknowledged whatever becomes of them. Those that come early are held in memory, and those for a full spool are dropped.
What a spool may have missed, because it was full or there was no connection, its producer is asked for.
"""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import TypeVar

from bridge.deliveries import NOTHING_IN_DOUBT, Deliveries, InDoubt
from bridge.events.births import Birth
from bridge.events.numbered_events import Receipt, Sent, next_of, taken
from bridge.events.raw_events import all_events_in
from bridge.intake import Counts, Expected, Intake, expire, offer
from bridge.machine.clock import Clock, SystemClock
from bridge.message import Message
from bridge.message_transport import ReceiverTransport
from bridge.producer_answers import REPORT_INTERVAL, ProducerAnswers
from bridge.spool_feed import SpoolFeed, Unread
from bridge.spools.log import Item, ItemKind, SpoolDamaged, packed
from bridge.spools.spool import SpoolClosed, SpoolFull, SpoolState
from bridge.wire import Frame, FrameKind, MalformedFrame, decode
from dags import Schema

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
        transport: ReceiverTransport,
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
        again. It is empty if the broker's packet ids are not known to allow that, see `bridge.deliveries`.
        """
        self.feeds: dict[str, SpoolFeed] = {}
        self.intakes: dict[str, Intake] = {}
        self._deliveries: dict[str, Deliveries] = {}
        """Those of raw topics, by topic; empty without a session."""
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
            for message in messages:
                if message is None:
                    self._forget()
                elif message.topic in self.feeds:
                    self._waiting[message.topic].append(message)
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
        payloads = [message.payload for message in new if not message.retained]
        if feed.retained and feed.spool.end == 0 and new and new[0].retained:
            # A topic retains one message. Each subscription brings it again, but only the first one before any other.
            payloads.insert(0, new[0].payload)
        events, unfit = all_events_in(payloads, schema)
        for event in unfit:
            self._rejected[topic].append(Unread(topic=topic, event=event.event, reason=event.reason, count=event.count))
        items = list[Item]()
        if len(events):
            stamp = self._stamp()
            births = (Birth(len(events), stamp),)
            items.append(Item(count=len(events), stamp=stamp, payload=packed(events), births=births))
        # Messages without events are noted too: the next process has to know that they were handled.
        if items or (new and deliveries is not None):
            feed.spool.append(items, in_doubt=None if deliveries is None else deliveries.kept())
        tokens = [message.token for message in messages]
        self._transport.acknowledge(tokens, None if deliveries is None else deliveries.acknowledging())

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


def _groups(messages: list[Message]) -> Iterator[list[Message]]:
    """Messages in groups that are spooled together; at least one group."""
    if sum([len(message.payload) for message in messages]) <= MOST_SPOOLED:
        yield messages
        return
    group: list[Message] = []
    size = 0
    for message in messages:
        if group and size + len(message.payload) > MOST_SPOOLED:
            yield group
            group, size = [], 0
        group.append(message)
        size += len(message.payload)
    yield group
