"""EventSender: publishes the events that callers send over REST, until the spool of their source has them.

A host answers each message by how far its producer lies in the spool, so that whoever waits here knows that nothing is
lost. A broker that was killed may have lost a message, and a host that begins may not be subscribed yet. So what nobody
answers is published again once the broker has taken it; its numbers keep it from counting twice.
"""

import logging
import secrets
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Protocol

import pyarrow as pa

from bridge import MalformedFrame, Message, cut, topics
from bridge.events.numbered_events import Receipt, Sent
from manager.problem import NotTaken, QuotaExceeded, StateNotReady

_PATIENCE = 25.0
"""Seconds within which a spool has to have the events of one request; clients wait for longer."""
_REPUBLISH_AFTER = 1.0
"""Seconds after which a message that nobody answered is published again."""
_MOST_AT_ONCE = 12
"""Requests that may wait at once, all together: each holds a thread of REST."""
MOST_OF_ONE = 4
"""How many of a tenant, or of the operators."""
log = logging.getLogger("braid.sending")


class SenderLine(Protocol):
    """What sending needs of a broker's client."""

    def stop(self) -> None:
        """Disconnect."""

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Tell the broker that these messages were understood."""

    def publish(self, topic: str, payload: bytes, *, answered: Callable[[str], None]) -> None:
        """Send a message; `answered` is told when the broker has it, or why it refused."""


class SenderConnector(Protocol):
    """What makes and starts a client, which is not to wait for a broker."""

    def __call__(self, client_id: str, *, topics: Iterable[str], on_message: Callable[[Message], None]) -> SenderLine:
        """A client with these topics."""


class Gap(Exception):
    """Events are missing before the ones that were sent."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        """The number that comes next."""
        super().__init__(f"number {expected} comes next")


class EventSender:
    """Sends from `start` to `stop`; only who leads runs it. Any thread may ask it, and waits."""

    def __init__(
        self, connect: SenderConnector, *, patience: float = _PATIENCE, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect = connect
        self._patience = patience
        self._clock = clock
        # Guards what follows.
        self._guard = threading.Lock()
        self._line: SenderLine | None = None
        self._waiting: dict[str, SimpleQueue[int]] = {}
        """Who waits for an answer, by what was asked."""
        self._busy: Counter[str] = Counter()

    def start(self) -> None:
        """Send from now on; again after a stop."""
        line = self._connect(
            f"braid-sends-{uuid.uuid4().hex[:12]}", topics=[f"{topics.ROOT}/kept/+"], on_message=self._take
        )
        with self._guard:
            self._line = line

    def stop(self) -> None:
        """Send no more; who waits is told that nobody knows. Once is enough."""
        with self._guard:
            line, self._line = self._line, None
        if line is not None:
            line.stop()

    @contextmanager
    def admitted(self, who: str) -> Iterator[float]:
        """One request, as long as it takes, with the moment by which it has to be over; refused where many wait."""
        with self._guard:
            if self._busy[who] >= MOST_OF_ONE or self._busy.total() >= _MOST_AT_ONCE:
                raise QuotaExceeded(
                    f"{self._busy[who]} requests of {who} that send events are under way, and {self._busy.total()} in "
                    "all; send more events in one, or ask again later",
                    retry_after=_REPUBLISH_AFTER,
                )
            self._busy[who] += 1
        try:
            yield self._clock() + self._patience
        finally:
            with self._guard:
                self._busy[who] -= 1

    def send(self, stream: str, producer: str, first: int, events: pa.RecordBatch, *, until: float) -> int:
        """Have events lie in a stream's spool; the number after the last. `Gap` where some are missing before."""
        for part in cut(events):
            sent = Sent(producer=producer, first=first, events=part, ask=secrets.token_urlsafe(12))
            following = self._answer(stream, sent, until)
            if following < sent.first:
                raise Gap(following)
            first = sent.end
        return first

    def next(self, stream: str, producer: str, *, until: float) -> int:
        """The number that comes next of a producer."""
        return self._answer(stream, Sent.question(producer, secrets.token_urlsafe(12)), until)

    def _answer(self, stream: str, sent: Sent, until: float) -> int:
        """Publish until somebody answers; how far the producer is in the spool then."""
        topic, payload = topics.sent(stream), sent.encoded()
        answers, has_left = SimpleQueue[int](), threading.Event()
        with self._guard:
            self._waiting[sent.ask] = answers
        try:
            has_left.set()
            while (left := until - self._clock()) > 0:
                with self._guard:
                    line = self._line
                if line is None:
                    raise StateNotReady("events are taken only by a manager that leads and has a broker; ask that one")
                if has_left.is_set():
                    has_left.clear()
                    line.publish(topic, payload, answered=lambda _refusal: has_left.set())
                try:
                    return answers.get(timeout=min(_REPUBLISH_AFTER, left))
                except Empty:
                    continue
        finally:
            with self._guard:
                del self._waiting[sent.ask]
        raise NotTaken

    def _take(self, message: Message) -> None:
        try:
            told = Receipt.decoded(message.payload)
        except MalformedFrame as error:
            log.warning("topic %s: passed over: %s", message.topic, error)
        else:
            with self._guard:
                if (answers := self._waiting.get(told.ask)) is not None:
                    answers.put(told.next)
        # What comes before the line is known answers nobody here, and its session ends with the line.
        if (line := self._line) is not None:
            line.acknowledge([message.token])
