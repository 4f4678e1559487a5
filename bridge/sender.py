"""The sender: publishes what jobs emitted, from their records, until the consumers' spools have it.

One thread does everything: `run`, or `work` step by step. Requests of jobs, answers of receivers and answers of the
broker are put into a queue by whichever thread they come from. `bridge/outbox.py` decides about each stream; here
frames are read, published and counted. `ForwardedStreams`, which any thread may ask, has the epoch of each opening and
the records that each stream still needs.

Memory is bounded however far a consumer lags: only so many bytes of each stream are unconfirmed, and only so many of
all streams together wait for the broker's answer. The rest stays in the records, and is read when there is room.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from bridge import outbox, topics
from bridge.messages import Message, QoS, why_unsendable
from bridge.outbox import DueKind, Finished, ForwardLine, Outbox, ReadEmitted, Superseded
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.subscriptions import note_failed
from bridge.wire import Again, Emitted, Have, MalformedFrame, Stream, encode

NO_RECORD_NEEDED = 2**63 - 1
"""The first record that a stream needs if it needs none: larger than any number."""
OPENINGS = 1 << 16
"""The number of times that a stream may open in one epoch of its host: each opening has its own epoch on the wire."""


class ForwardedStreams:
    """Openings and needs of a sender's streams; any thread may use it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._openings: dict[Stream, tuple[int, int]] = {}
        """The host's epoch, and the openings in it."""
        self._opening: dict[Stream, int] = {}
        """The first numbers of streams that the sender was asked to open, and has not opened."""
        self._confirmed: dict[Stream, int] = {}
        """The first numbers that the consumers' spools are not known to have."""

    def open(self, stream: Stream, epoch: int, first: int) -> int:
        """Note that a stream is to open at a number; returns the epoch of this opening on the wire.

        Each opening has its own epoch, so that the end of the one before, delivered twice, cannot end this one.
        """
        with self._guard:
            before, openings = self._openings.get(stream, (epoch, -1))
            if epoch < before:
                raise ValueError(
                    f"port {stream.port!r} of instance {stream.instance} was forwarded in epoch {before}; "
                    f"forward it in that or a higher one, not in {epoch}"
                )
            openings = openings + 1 if epoch == before else 0
            self._openings[stream] = epoch, openings
            self._opening.setdefault(stream, first)
            return epoch * OPENINGS + openings

    def confirm(self, stream: Stream, number: int, *, opened: bool = False) -> None:
        """Note that records before a number are not needed; `opened` if the sender has just opened the stream."""
        with self._guard:
            self._confirmed[stream] = number
            if opened:
                self._opening.pop(stream, None)

    def finish(self, stream: Stream) -> None:
        """Note that no records are needed: the consumer's spool has all of the stream."""
        with self._guard:
            self._confirmed.pop(stream, None)

    def needed(self, stream: Stream) -> int:
        """The first number that the consumer's spool is not known to have."""
        with self._guard:
            return min(numbers.get(stream, NO_RECORD_NEEDED) for numbers in (self._confirmed, self._opening))


MOST_UNANSWERED_BYTES = 64_000_000
"""Bytes of all messages that may wait for the broker's answer."""
_MOST_UNANSWERED_MESSAGES = 10_000  # message ids are few
MOST_UNANSWERED_LINES = 2_000
"""Messages of one event that may wait for the broker's answer; they leave the others room."""
MOST_UNCONFIRMED = 16_000_000
"""Bytes of one stream that may be on their way to its consumer's spool."""
_MADE_AT_ONCE = 1_000
"""Messages that are made before other work has its turn."""
_RETRY_INTERVAL = 1.0
"""Seconds before a refused message is sent again, and before records that could not be read are read again."""
_TICK = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTrouble:
    """A problem that a sender cannot solve; passed to `on_trouble`."""

    topic: str
    reason: str


class PlainMessage(NamedTuple):
    """A message that belongs to no stream."""

    topic: str
    payload: bytes
    done: Callable[[], None] = lambda: None
    """Called once the broker has taken it."""
    retain: bool = False
    """Whether the broker keeps it for those who subscribe later."""
    qos: QoS = 1
    """With 0, it is done once it was sent, or lost with the connection."""
    properties: tuple[tuple[str, str], ...] = ()
    """User properties, which only MQTT 5 can carry."""


class Sender:
    """Publishes streams and plain messages; made by a host, over a client of its own."""

    def __init__(
        self,
        transport: MqttClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_superseded: Callable[[Stream, int], None] = lambda _stream, _epoch: None,
        on_trouble: Callable[[StreamTrouble], None] = lambda _trouble: None,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._most_unconfirmed = MOST_UNCONFIRMED
        self._on_superseded = on_superseded
        self._on_trouble = on_trouble
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._most_unanswered = MOST_UNANSWERED_BYTES
        self._unanswered_bytes = self._unanswered = 0
        self._forwarded = ForwardedStreams()
        self._lines: dict[Stream, ForwardLine] = {}
        self._awake: dict[ForwardLine, None] = {}
        """The lines of which something is due or awaited; the others cost nothing, however many there are."""
        self._streams: dict[str, Stream] = {}
        self._plain: deque[PlainMessage] = deque()
        self._refused: deque[tuple[float, PlainMessage]] = deque()
        self._lazy: OrderedDict[str, deque[Iterator[PlainMessage | None]]] = OrderedDict()
        """Messages that are still to be made, by topic."""
        self._unanswered_lines = 0
        self._stopping = threading.Event()

    def forward(self, stream: Stream, *, epoch: int, first: int, kept: ReadEmitted) -> None:
        """Open a stream at a number, and send what was emitted from there on until it is closed.

        `kept` is called in the sender's thread. If the stream was closed before, that end is awaited first. A host
        that takes a stream over has a higher epoch than the host before.
        """
        wire_epoch = self._forwarded.open(stream, epoch, first)
        self._commands.put(partial(self._forward, stream, wire_epoch, first, kept))

    def emit(self, stream: Stream, emitted: Emitted) -> None:
        """Send what was emitted and is in the records now; ignored if the stream is not forwarded."""
        self._commands.put(partial(self._emit, stream, emitted))

    def close(self, stream: Stream) -> None:
        """End a stream after what was emitted; its records are needed until its consumer has all of it."""
        self._commands.put(partial(self._close, stream))

    def needed(self, stream: Stream) -> int:
        """The first number that the stream's consumer may still need; earlier records are not needed for it."""
        return self._forwarded.needed(stream)

    def send(self, *messages: PlainMessage) -> None:
        """Publish plain messages; each is done, in the sender's thread, once the broker has taken it.

        Waiting messages are held in memory, so callers bound how many of theirs are not done.
        """
        self._commands.put(partial(self._plain.extend, messages))

    def send_lazily(self, topic: str, messages: Iterator[PlainMessage | None]) -> None:
        """Publish plain messages of a topic, which are made in the sender's thread as there is room for them.

        None stands for work that made no message, so that others have their turn after it.
        """
        self._commands.put(partial(self._add_lazy, topic, messages))

    def deliver(self, message: Message) -> None:
        """Queue a message; called by the client's thread."""
        self._commands.put(partial(self._take, message))

    def reconnected(self) -> None:
        """Note that a new connection begins; called by the client's thread."""
        self._commands.put(self._reconnected)

    def stop(self) -> None:
        """Let `run` return after its current step."""
        self._stopping.set()
        self._commands.put(lambda: None)

    def run(self) -> None:
        """Work until stopped."""
        while not self._stopping.is_set():
            self.work(_TICK)

    def work(self, wait: float = 0.0) -> None:
        """Carry out what was requested, waiting up to `wait` seconds for it, and send what is due."""
        first = self._command(wait)
        with self._transport.together():
            self._work(first)

    def _command(self, wait: float) -> Callable[[], None] | None:
        try:
            return self._commands.get(timeout=wait) if wait else self._commands.get_nowait()
        except Empty:
            return None

    def _work(self, command: Callable[[], None] | None) -> None:
        while command is not None:
            command()
            command = self._command(0.0)
        now = self._clock()
        for line in self._awake:
            if not line.unanswered:
                line.outbox = outbox.passed(line.outbox, now)
        self._send_plain(now)
        # By turns, so that a stream with a long backlog keeps no other waiting.
        turns = list(self._awake)
        while turns:
            turns = [line for line in turns if self._send_one(line)]
        self._send_lazy()
        self._awake = {line: None for line in self._awake if not line.is_quiet and self._lines.get(line.stream) is line}

    def _forward(self, stream: Stream, epoch: int, first: int, kept: ReadEmitted) -> None:
        line = ForwardLine(stream, epoch=epoch, first=first, kept=kept, now=self._clock())
        if (before := self._lines.get(stream)) is not None and before.last.outbox.closing:
            # Else the receiver would take events that were not forwarded between the two for missing.
            before.last.following = line
            self._note_needed(before, opened=True)
            return
        self._lines[stream] = line
        self._awake[line] = None
        self._note_needed(line, opened=True)
        self._streams |= dict.fromkeys(_answer_topics(stream), stream)
        # Without a connection, the next connection subscribes and brings the retained messages.
        self._transport.subscribe(_answer_topics(stream), timeout=0)

    def _emit(self, stream: Stream, new: Emitted) -> None:
        if (line := self._lines.get(stream)) is not None:
            line.emit(new)
            self._awake[line] = None
            # At once, so that what the same batch emits next need not be read from the records.
            while self._send_one(line):
                pass

    def _close(self, stream: Stream) -> None:
        if (line := self._lines.get(stream)) is not None:
            line.last.outbox = outbox.closed(line.last.outbox)
            self._awake[line] = None

    def _leave(self, stream: Stream) -> None:
        if self._lines.pop(stream, None) is not None:
            self._transport.unsubscribe(_answer_topics(stream))
            for topic in _answer_topics(stream):
                del self._streams[topic]

    def _take(self, message: Message) -> None:
        self._transport.acknowledge([message.token])
        if (stream := self._streams.get(message.topic)) is None:
            return
        line = self._lines[stream]
        try:
            if message.topic == topics.have(*stream):
                decided = outbox.reported(line.outbox, Have.decoded(message.payload), self._clock())
            else:
                decided = outbox.asked(line.outbox, Again.decoded(message.payload))
        except MalformedFrame as error:
            self._on_trouble(StreamTrouble(topic=message.topic, reason=str(error)))
            return
        except Exception as error:  # noqa: BLE001 - one receiver's message must not end what all streams share
            note_failed(f"topic {message.topic}", error)
            return
        self._follow(line, decided)

    def _follow(self, line: ForwardLine, decided: Outbox | Superseded | Finished) -> None:
        match decided:
            case Outbox():
                line.outbox = decided
                self._awake[line] = None
                self._note_needed(line)
            case Superseded(epoch=epoch):
                # Its records stay needed: the host that took over may want to read them.
                self._leave(line.stream)
                self._on_superseded(line.stream, epoch // OPENINGS)
            case Finished() if line.following is not None:
                self._lines[line.stream] = line.following
                self._awake[line.following] = None
                self._note_needed(line.following)
            case Finished():
                self._leave(line.stream)
                self._forwarded.finish(line.stream)

    def _note_needed(self, line: ForwardLine, *, opened: bool = False) -> None:
        self._forwarded.confirm(line.stream, min(opening.outbox.confirmed for opening in line.chain), opened=opened)

    def _reconnected(self) -> None:
        for line in self._lines.values():
            line.outbox = outbox.reconnected(line.outbox, self._clock())
        self._awake = dict.fromkeys(self._lines.values())

    def _send_plain(self, now: float) -> None:
        while self._refused and self._refused[0][0] <= now:
            self._plain.append(self._refused.popleft()[1])
        while self._plain and self._has_room:
            message = self._plain.popleft()
            self._publish_plain(message, partial(self._answered_plain, message))

    def _publish_plain(self, message: PlainMessage, then: Callable[[str], None]) -> None:
        if refusal := why_unsendable(message.payload):
            self._on_trouble(StreamTrouble(topic=message.topic, reason=f"a message is not sent: {refusal}"))
            # It would be no smaller later, and its batch's record would be kept for it for ever.
            then("")
        else:
            self._publish(message, then)

    def _add_lazy(self, topic: str, messages: Iterator[PlainMessage | None]) -> None:
        self._lazy.setdefault(topic, deque()).append(messages)

    def _send_lazy(self) -> None:
        """Send a message of each topic in turn, so that a busy one keeps no other waiting."""
        for _ in range(_MADE_AT_ONCE):
            if not self._lazy or not self._has_room or self._unanswered_lines >= MOST_UNANSWERED_LINES:
                return
            topic, waiting = self._lazy.popitem(last=False)
            try:
                message = next(waiting[0])
            except StopIteration:
                waiting.popleft()
            else:
                if message is not None:
                    self._unanswered_lines += 1
                    self._publish_plain(message, partial(self._answered_line, message))
            if waiting:
                self._lazy[topic] = waiting
        # Go on after what else is to be done.
        self._commands.put(lambda: None)

    def _send_one(self, line: ForwardLine) -> bool:
        """Send one frame of a stream; returns True if there may be more."""
        now = self._clock()
        if not self._has_room or (what := line.due(self._most_unconfirmed, now)) is None:
            return False
        try:
            frame = line.frame(what)
        except Exception as error:  # noqa: BLE001 - one stream's broken records must not stop the others
            line.idle_until = now + _RETRY_INTERVAL
            self._report(line.stream, f"the records cannot be read from {what.first} on: {error!r}")
            return False
        if frame is None:
            if what.kind is DueKind.AGAIN:
                # The receiver counts them as a gap, and goes on without them.
                self._report(
                    line.stream, f"the records do not hold {what.first} up to {what.end}, which were asked for"
                )
            line.lacks(what, now)
            return True
        payload = encode(frame)
        if refusal := why_unsendable(payload):
            self._report(line.stream, f"events are not sent: {refusal}")
            # The receiver asks for it once, counts its events as a gap, and goes on without them.
            line.outbox = outbox.sent(line.outbox, what, frame.end, 0, now)
            return True
        line.outbox = outbox.sent(line.outbox, what, frame.end, len(payload), now)
        line.unanswered += 1
        self._publish(PlainMessage(topics.stream(*line.stream), payload), partial(self._answered_frame, line))
        return True

    def _report(self, stream: Stream, reason: str) -> None:
        self._on_trouble(StreamTrouble(topic=topics.stream(*stream), reason=reason))

    @property
    def _has_room(self) -> bool:
        return self._unanswered_bytes < self._most_unanswered and self._unanswered < _MOST_UNANSWERED_MESSAGES

    def _publish(self, message: PlainMessage, then: Callable[[str], None]) -> None:
        """Publish a message, and call `then` in this thread with the broker's refusal; empty if it took it."""
        size = len(message.payload)
        self._unanswered_bytes += size
        self._unanswered += 1

        def note(refusal: str) -> None:
            self._unanswered_bytes -= size
            self._unanswered -= 1
            if refusal:
                self._on_trouble(StreamTrouble(topic=message.topic, reason=f"the broker refused a message: {refusal}"))
            then(refusal)

        publish = self._transport.publish if message.qos else self._transport.publish_once
        publish(
            message.topic,
            message.payload,
            retain=message.retain,
            properties=message.properties,
            answered=lambda refusal: self._commands.put(partial(note, refusal)),
        )

    def _answered_frame(self, line: ForwardLine, _refusal: str) -> None:
        line.unanswered -= 1
        if not line.unanswered:
            line.outbox = outbox.answered(line.outbox, self._clock())

    def _answered_line(self, message: PlainMessage, refusal: str) -> None:
        self._unanswered_lines -= 1
        self._answered_plain(message, refusal)

    def _answered_plain(self, message: PlainMessage, refusal: str) -> None:
        if refusal:
            self._refused.append((self._clock() + _RETRY_INTERVAL, message))
        else:
            message.done()


def _answer_topics(stream: Stream) -> tuple[str, str]:
    return topics.have(*stream), topics.again(*stream)
