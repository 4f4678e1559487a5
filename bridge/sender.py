"""The sender: publishes what jobs emitted, as their records keep it, until the consumers' spools have it.

One thread does everything, `run`, or `work` step by step. What jobs ask for, what receivers say and what the broker
answers is put into a queue by whichever thread it comes from. The decisions about each stream are in
`bridge/outbox.py`; here frames are read, published and counted.

Memory is bounded however far a consumer lags: of each stream only so many bytes go out unconfirmed, and of all together
only so many wait for the broker. What is beyond stays in the records, and is read when there is room.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Protocol

from bridge import topics
from bridge.emitted import Emitted, Stream
from bridge.forward_line import Line, ReadEmitted
from bridge.outbox import (
    DueKind,
    Finished,
    Outbox,
    Superseded,
    answered,
    asked,
    closed,
    passed,
    reconnected,
    sent,
    told,
)
from bridge.receiver import Message
from bridge.transport.dispatch import note_failed
from bridge.wire import Again, Have, MalformedFrame, encode

MOST_UNCONFIRMED = 16_000_000
"""Bytes of one stream that may be on their way to its consumer's spool."""
_MOST_UNANSWERED = 64_000_000
"""Bytes of everything together for which the broker may owe an answer; they are held in memory."""
EVERYTHING = 2**63 - 1
"""What `Sender.needed` says of a stream that needs no record: more than any number."""
_RETRY_INTERVAL = 1.0
"""Seconds after which what a broker refused is sent again, and records that could not be read are read again."""
OPENINGS = 1 << 16
"""How often a stream may be forwarded in one epoch of its host: each time gets an epoch of its own on the wire."""
_MOST_UNANSWERED_MESSAGES = 10_000  # message ids are few
_TICK = 0.25


class SenderTransport(Protocol):
    """What a sender needs of a broker's client."""

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Tell the broker that these messages were understood."""

    def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, answered: Callable[[str], None] = ...
    ) -> None:
        """Send a message, and say what the broker answered: why it refused, or nothing."""

    def subscribe(self, topics: Iterable[str], *, timeout: float = ...) -> None:
        """Get the messages of topics from now on."""

    def unsubscribe(self, topics: Iterable[str]) -> None:
        """Get them no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTrouble:
    """Something that a sender cannot mend; handed to whoever made the sender."""

    topic: str
    reason: str


class Sender:
    """Publishes streams and plain messages; made by a host, over a client that is the sender's own."""

    def __init__(  # noqa: PLR0913 - one transport, two bounds, a clock and two to tell
        self,
        transport: SenderTransport,
        *,
        clock: Callable[[], float] = time.monotonic,
        most_unconfirmed: int = MOST_UNCONFIRMED,
        most_unanswered: int = _MOST_UNANSWERED,
        on_superseded: Callable[[Stream, int], None] = lambda _stream, _epoch: None,
        on_trouble: Callable[[StreamTrouble], None] = lambda _trouble: None,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._most_unconfirmed = most_unconfirmed
        self._most_unanswered = most_unanswered
        self._on_superseded = on_superseded
        self._on_trouble = on_trouble
        self._commands: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lines: dict[Stream, Line] = {}
        self._streams: dict[str, Stream] = {}
        self._plain: deque[tuple[str, bytes, Callable[[], None]]] = deque()
        self._refused: deque[tuple[float, str, bytes, Callable[[], None]]] = deque()
        self._unanswered_bytes = 0
        self._unanswered_messages = 0
        self._guard = threading.Lock()
        self._needed: dict[Stream, int] = {}
        self._promised: dict[Stream, int] = {}
        self._epochs: dict[Stream, tuple[int, int]] = {}
        self._stopping = threading.Event()

    def forward(self, stream: Stream, *, epoch: int, first: int, kept: ReadEmitted) -> None:
        """Open a stream at a number, and send what was emitted from there on until it is closed.

        `kept` is called in the sender's thread. Where the stream was closed before, its end is awaited first. A host
        that takes a stream over has a higher epoch than the one before.
        """
        with self._guard:
            before, openings = self._epochs.get(stream, (epoch, -1))
            if epoch < before:
                raise ValueError(
                    f"port {stream.port!r} of instance {stream.instance} was forwarded in epoch {before}; "
                    f"forward it in that or a higher one, not in {epoch}"
                )
            openings = openings + 1 if epoch == before else 0
            self._epochs[stream] = epoch, openings
            self._promised.setdefault(stream, first)
        # On the wire each opening has an epoch of its own, so that the end of the one before, delivered twice, cannot
        # end this one.
        self._commands.put(partial(self._forward, stream, epoch * OPENINGS + openings, first, kept))

    def emit(self, stream: Stream, emitted: Emitted) -> None:
        """Send what was emitted and is in the records now; ignored where the stream is not forwarded."""
        self._commands.put(partial(self._emit, stream, emitted))

    def close(self, stream: Stream) -> None:
        """End a stream after what was emitted; its records are needed until its consumer has all of it."""
        self._commands.put(partial(self._close, stream))

    def forget(self, stream: Stream) -> None:
        """Send no more of a stream whose consumer is gone for good; its records are not needed any more."""
        self._commands.put(partial(self._forget, stream))

    def needed(self, stream: Stream) -> int:
        """The first number that the consumer's spool is not known to have; records before it are not needed for it."""
        with self._guard:
            return min(each.get(stream, EVERYTHING) for each in (self._needed, self._promised))

    def send(self, topic: str, payload: bytes, done: Callable[[], None]) -> None:
        """Publish a plain message; `done` is called in the sender's thread once the broker has taken it.

        What waits is held in memory, so callers bound how much of theirs is not done.
        """
        self._commands.put(partial(self._plain.append, (topic, payload, done)))

    @staticmethod
    def takes(topic: str) -> bool:
        """Whether messages of a topic are for the sender, where it shares its client."""
        return topics.is_answer(topic)

    def deliver(self, message: Message) -> None:
        """Called by the client's thread for each message that comes."""
        self._commands.put(partial(self._heard, message))

    def reconnected(self) -> None:
        """Called by the client's thread when a new connection begins."""
        self._commands.put(self._reconnected)

    def stop(self) -> None:
        """Let `run` return after the step it is at."""
        self._stopping.set()
        self._commands.put(lambda: None)

    def run(self) -> None:
        """Work until stopped."""
        while not self._stopping.is_set():
            self.work(_TICK)

    def work(self, wait: float = 0.0) -> None:
        """Do what was asked for, waiting so long for the first, and send what is due."""
        self._do_commands(wait)
        now = self._clock()
        for line in self._lines.values():
            if not line.unanswered:
                line.outbox = passed(line.outbox, now)
        self._send_plain(now)
        # By turns, so that a stream with a long backlog keeps no other waiting.
        turns = list(self._lines.values())
        while turns:
            turns = [line for line in turns if self._send_one(line)]

    def _do_commands(self, wait: float) -> None:
        try:
            command = self._commands.get(timeout=wait) if wait else self._commands.get_nowait()
            while True:
                command()
                command = self._commands.get_nowait()
        except Empty:
            return

    def _forward(self, stream: Stream, epoch: int, first: int, kept: ReadEmitted) -> None:
        line = Line(stream, epoch=epoch, first=first, kept=kept, now=self._clock())
        if (before := self._lines.get(stream)) is not None and before.last.outbox.closing:
            # Else the receiver would take what was not forwarded between the two for missing.
            before.last.following = line
            self._note_needed(before, promised=True)
            return
        self._lines[stream] = line
        self._note_needed(line, promised=True)
        self._streams |= dict.fromkeys(_heard_at(stream), stream)
        # Without a connection it is subscribed, and what is retained comes, with the next one.
        self._transport.subscribe(_heard_at(stream), timeout=0)

    def _emit(self, stream: Stream, new: Emitted) -> None:
        if (line := self._lines.get(stream)) is not None:
            line.emit(new)
            # At once, so that what the same batch emits next need not be read from the records.
            while self._send_one(line):
                pass

    def _close(self, stream: Stream) -> None:
        if (line := self._lines.get(stream)) is not None:
            line.last.outbox = closed(line.last.outbox)

    def _forget(self, stream: Stream) -> None:
        self._leave(stream)
        with self._guard:
            self._needed.pop(stream, None)

    def _leave(self, stream: Stream) -> None:
        if self._lines.pop(stream, None) is not None:
            self._transport.unsubscribe(_heard_at(stream))
            for topic in _heard_at(stream):
                del self._streams[topic]

    def _heard(self, message: Message) -> None:
        self._transport.acknowledge([message.token])
        if (stream := self._streams.get(message.topic)) is None:
            return
        line = self._lines[stream]
        try:
            if message.topic == topics.have(*stream):
                decided = told(line.outbox, Have.decoded(message.payload), self._clock())
            else:
                decided = asked(line.outbox, Again.decoded(message.payload))
        except MalformedFrame as error:
            self._on_trouble(StreamTrouble(topic=message.topic, reason=str(error)))
            return
        except Exception as error:  # noqa: BLE001 - no single word of a receiver may end what all streams share
            note_failed(f"topic {message.topic}", error)
            return
        self._follow(line, decided)

    def _follow(self, line: Line, decided: Outbox | Superseded | Finished) -> None:
        match decided:
            case Outbox():
                line.outbox = decided
                self._note_needed(line)
            case Superseded(epoch=epoch):
                # Its records stay needed: whoever took over may want to read them.
                self._leave(line.stream)
                self._on_superseded(line.stream, epoch // OPENINGS)
            case Finished() if line.following is not None:
                self._lines[line.stream] = line.following
                self._note_needed(line.following)
            case Finished():
                self._forget(line.stream)

    def _note_needed(self, line: Line, *, promised: bool = False) -> None:
        with self._guard:
            self._needed[line.stream] = min(each.outbox.confirmed for each in line.chain)
            if promised:
                self._promised.pop(line.stream, None)

    def _reconnected(self) -> None:
        for line in self._lines.values():
            line.outbox = reconnected(line.outbox, self._clock())

    def _send_plain(self, now: float) -> None:
        while self._refused and self._refused[0][0] <= now:
            self._plain.append(self._refused.popleft()[1:])
        while self._plain and self._has_room():
            topic, payload, done = self._plain.popleft()
            self._publish(topic, payload, partial(self._answered_plain, topic, payload, done))

    def _send_one(self, line: Line) -> bool:
        """Send one frame of a stream; whether there may be more."""
        now = self._clock()
        if not self._has_room() or (what := line.due(self._most_unconfirmed, now)) is None:
            return False
        try:
            frame = line.frame(what)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one stream's records is no fault of the others
            line.idle_until = now + _RETRY_INTERVAL
            self._report(line.stream, f"the records cannot be read from {what.first} on: {error!r}")
            return False
        if frame is None:
            if what.kind is DueKind.AGAIN:
                # The receiver passes over what nobody has, and counts it.
                self._report(
                    line.stream, f"the records do not hold {what.first} up to {what.end}, which were asked for"
                )
            line.lacks(what, now)
            return True
        payload = encode(frame)
        line.outbox = sent(line.outbox, what, frame.end, len(payload), now)
        line.unanswered += 1
        self._publish(topics.stream(*line.stream), payload, partial(self._answered_frame, line))
        return True

    def _report(self, stream: Stream, reason: str) -> None:
        self._on_trouble(StreamTrouble(topic=topics.stream(*stream), reason=reason))

    def _has_room(self) -> bool:
        return self._unanswered_bytes < self._most_unanswered and self._unanswered_messages < _MOST_UNANSWERED_MESSAGES

    def _publish(self, topic: str, payload: bytes, then: Callable[[str], None]) -> None:
        self._unanswered_bytes += len(payload)
        self._unanswered_messages += 1

        def note(refusal: str) -> None:
            # In the sender's thread.
            self._unanswered_bytes -= len(payload)
            self._unanswered_messages -= 1
            if refusal:
                self._on_trouble(StreamTrouble(topic=topic, reason=f"the broker refused a message: {refusal}"))
            then(refusal)

        self._transport.publish(topic, payload, answered=lambda refusal: self._commands.put(partial(note, refusal)))

    def _answered_frame(self, line: Line, _refusal: str) -> None:
        line.unanswered -= 1
        if not line.unanswered:
            line.outbox = answered(line.outbox, self._clock())

    def _answered_plain(self, topic: str, payload: bytes, done: Callable[[], None], refusal: str) -> None:
        if refusal:
            self._refused.append((self._clock() + _RETRY_INTERVAL, topic, payload, done))
        else:
            done()


def _heard_at(stream: Stream) -> tuple[str, str]:
    return topics.have(*stream), topics.again(*stream)
