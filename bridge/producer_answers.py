"""The answers of a receiver to the producers of its streams: what the spool has, and which events are missing.

A producer keeps everything that no spool has reported, because a broker's acknowledgement promises nothing. Reports are
retained messages, so that a producer that comes back gets the newest one.
"""

import math

from bridge.intake import Expected
from bridge.message_transport import ReceiverTransport
from bridge.spool_feed import SpoolFeed
from bridge.wire import Again, Have

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

    def __init__(self, transport: ReceiverTransport) -> None:
        self._transport = transport
        self.due: set[str] = set()
        """Streams of which there is something to report."""
        self._reported: dict[str, float] = {}
        """The times of the last reports."""
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
