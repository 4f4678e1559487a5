"""Shared feeds: what several sources take from the same topics of a broker, over one connection.

A feed has a spool of its own, of messages as they came. They are acknowledged once they are there, so no source waits
for another. Each source reads the feed at a position that its own spool keeps with the events, as it keeps the position
in anything else outside: so a crash between any two steps loses nothing and doubles nothing. What a source needs no
more it commits as a consumer of the feed's spool.

What is to be said to all sources, such as that the broker lost the session, is a row of the feed like any message. A
source that begins later begins behind it.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from bridge.connectors.connector_run import ClientAssignment, ConnectorTrouble, LinkState, TakenEvents
from bridge.connectors.mqtt_session import MqttSession
from bridge.formats.sparkplug_decoder import ReadMessages
from bridge.messages import Message
from bridge.raw_events import Unfit, arrow_schema
from bridge.receiver import MOST_SPOOLED
from bridge.source_topics import SourceMessages
from bridge.spools.log import PositionsGone, unpacked
from bridge.spools.reader import between
from bridge.spools.spool import commit
from dags.connectors import MqttConnector
from dags.source_topics import source_topic

FEED_POSITION = "feed"
"""The position of a source in its feed, as its own spool keeps it."""
_ROWS = pa.schema([pa.field("topic", pa.string()), pa.field("payload", pa.binary())])
"""A message, or without a topic what is to be said to all sources."""
_CONNECTING = 1.0
"""Seconds for which a source waits for the connection before it says that there is none."""
_COMMITTING = 1.0
"""Seconds between two commits, because each costs as much as a group of messages."""
_NOT_YET = "the connection to the broker is still being made"
_GONE = (
    "messages of this feed came while the source was not read, or far slower than others, and are gone; have its "
    "dataflows keep up"
)


class ReadableFeed(Protocol):
    """A feed as sources read it; from any thread."""

    @property
    def folder(self) -> Path:
        """The folder of its spool."""

    def link(self, seconds: float = 0.0) -> LinkState:
        """The state of the connection, after waiting for so long unless it is connected."""

    def end(self) -> int:
        """The position after the last message."""

    def reach(self, position: int, most_bytes: int, seconds: float = 0.0) -> int:
        """The end of the next messages of so many bytes, after waiting for so long unless there are some."""


class FeedSession(MqttSession):
    """The session that fills the spool of a feed."""

    def __init__(self, connector: MqttConnector, assignment: ClientAssignment) -> None:
        super().__init__(connector, assignment, _as_they_came)

    def take(self, seconds: float) -> TakenEvents | None:
        """Return the next messages, and what is to be said to all sources, as rows."""
        arrived = super().take(seconds)
        if arrived is None or not arrived.unfit:
            return arrived
        said = _rows([(None, unfit.reason.encode()) for unfit in arrived.unfit])
        events = pa.concat_batches([arrived.events, said]) if len(arrived.events) else said
        return replace(arrived, events=events, unfit=())


class FeedReader:
    """The client of a source that reads a feed; a `bridge.connectors.connector_run.ConnectorClient`."""

    def __init__(self, connector: MqttConnector, assignment: ClientAssignment, feed: ReadableFeed) -> None:
        topic = source_topic(connector.topic, outside=True)
        self._messages = SourceMessages(topic, assignment.format, assignment.schema, assignment.decode)
        self._schema = assignment.schema
        self._stream = assignment.stream
        self._feed = feed
        kept = assignment.positions.get(FEED_POSITION)
        self._begins = kept is None
        self._check_link(kept, _CONNECTING)
        # Joined first, so that nothing is removed behind the end.
        commit(feed.folder, self._stream, kept or 0)
        # A host that did not see it join may have ended the connection.
        self._check_link(kept)
        self._next = self._at = feed.end() if kept is None else kept
        self._committed = kept or 0
        self._commits_at = 0.0

    def take(self, seconds: float) -> TakenEvents | None:
        """Return the events of the next messages; raises `ConnectorTrouble` if no more may come."""
        if self._begins:
            self._begins = False
            return self._taken(self._at)
        try:
            end = self._feed.reach(self._at, MOST_SPOOLED, seconds)
            rows = [unpacked(item.payload) for _, item in between(self._feed.folder, self._at, end)]
        except PositionsGone as gone:
            return self._taken(gone.first, unfit=(Unfit(event="", reason=_GONE, count=gone.first - self._at),))
        if not rows:
            self._commit()
            self._check_link(self._at)
            return None
        pairs = [pair for batch in rows for pair in zip(*map(pa.Array.to_pylist, batch.columns), strict=True)]
        messages = [Message(topic=topic, payload=payload, token=0) for topic, payload in pairs if topic is not None]
        content = self._messages.read(messages)
        said = (Unfit(event="", reason=payload.decode()) for topic, payload in pairs if topic is None)
        return replace(
            self._taken(end, unfit=(*said, *content.unfit)),
            events=content.events,
            is_full=self._feed.reach(end, 1) > end,
        )

    def spooled(self) -> None:
        """Note that the feed need not keep what was taken last."""
        self._at = self._next
        if time.monotonic() >= self._commits_at:
            self._commit()

    def close(self, *, for_good: bool) -> None:
        """Note how far the source has come; who reads it no more is taken from the feed's consumers by the host."""
        if not for_good:
            self._commit()

    def _check_link(self, position: int | None, seconds: float = 0.0) -> None:
        """Raise if there is no connection. What came before it ended is read all the same."""
        link = self._feed.link(seconds)
        if not link.connected and (position is None or self._feed.end() <= position):
            raise ConnectorTrouble(link.error or _NOT_YET)

    def _taken(self, end: int, unfit: tuple[Unfit, ...] = ()) -> TakenEvents:
        self._next = end
        nothing = pa.RecordBatch.from_pylist([], schema=arrow_schema(self._schema))
        return TakenEvents(events=nothing, unfit=unfit, positions={FEED_POSITION: end})

    def _commit(self) -> None:
        if self._committed != self._at:
            commit(self._feed.folder, self._stream, self._at)
            self._committed = self._at
            self._commits_at = time.monotonic() + _COMMITTING


def _as_they_came(messages: Sequence[Message]) -> ReadMessages:
    return ReadMessages(_rows([(message.topic, message.payload) for message in messages]), ())


def _rows(pairs: Sequence[tuple[str | None, bytes]]) -> pa.RecordBatch:
    topics, payloads = [topic for topic, _ in pairs], [payload for _, payload in pairs]
    return pa.RecordBatch.from_arrays([pa.array(topics, pa.string()), pa.array(payloads, pa.binary())], schema=_ROWS)
