"""The messages of a source's topic as events: which topics are taken, and fields that are made of their levels.

The topic is known best. So a field that an event has itself under the name of a level is dropped, of whatever kind it
is. `dags.source_topics` says what a source's topic means.

A wildcard lets publishers make up topics. So a source takes messages of at most `MOST_TOPICS` topics, none of which is
longer than `LONGEST_TOPIC`; messages of further ones are rejected. It remembers them for as long as its host receives
it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.formats.decoders import Decoder, topic_decoder
from bridge.formats.sparkplug_decoder import ReadMessages
from bridge.formats.values import on_topic
from bridge.messages import Message
from bridge.raw_events import JSON_ENCODER, REST_COLUMN, Unfit, arrow_schema, events_in
from bridge.transport.subscriptions import note_unasked
from dags import Schema
from dags.message_formats import MessageFormat, is_json
from dags.source_topics import SourceTopic, is_wild, overlap

MOST_TOPICS = 10_000
"""Topics whose messages a source takes by its wildcards."""
LONGEST_TOPIC = 512
"""Characters of such a topic."""
_SHOWN = 100
"""Bytes that are shown of a message that is not read."""


class FeedTopics:
    """The topics of messages, with the topic or filter of the feed that takes them; used by one receiver."""

    def __init__(self) -> None:
        self.taken: dict[str, str] = {}
        """The feed of each topic whose messages are taken."""
        self._filters: Counter[str] = Counter()
        """How many topics each filter has matched."""

    def add(self, feed: str) -> None:
        """Know one more feed."""
        if is_wild(feed):
            self._filters[feed] = 0
        else:
            self.taken[feed] = feed

    def discard(self, feed: str) -> None:
        """Know a feed no longer."""
        if is_wild(feed):
            del self._filters[feed]
            self.taken = {topic: other for topic, other in self.taken.items() if other != feed}
        else:
            self.taken.pop(feed, None)

    def match(self, message: Message) -> str | None:
        """The feed with a filter that a message's topic matches, which takes the topic if it may take one more.

        What a topic retains from before is no event, so the topic does not count for that.
        """
        topic = message.topic
        for feed, count in self._filters.items():
            if overlap(feed, topic):
                if count < MOST_TOPICS and len(topic) <= LONGEST_TOPIC and not message.retained:
                    self._filters[feed] += 1
                    self.taken[topic] = feed
                return feed
        return None


def not_taken(message: Message) -> Unfit:
    """What is reported of a message whose topic a source does not take."""
    reason = (
        f"a topic may have {LONGEST_TOPIC} characters; shorten it"
        if len(message.topic) > LONGEST_TOPIC
        else f"the source takes {MOST_TOPICS:,} topics, and has had as many others; register several sources"
    )
    return on_topic(
        message.topic, Unfit(event=message.payload[:_SHOWN].decode("utf-8", "backslashreplace"), reason=reason)
    )


def events_on(
    topic: SourceTopic, messages: Sequence[Message], schema: Schema, decode: Decoder | None = None
) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
    """The events of messages, in their order, with the levels of their topics as fields; and those that are unfit.

    `decode` reads what the messages themselves have; by default that is JSON.
    """
    if decode is None:
        own, ends = topic.own_fields(schema), list[int]()
        batch, unfit = events_in([message.payload for message in messages], own, ends)
        if not unfit:
            return _with_levels(topic, [message.topic for message in messages], ends, batch, schema), ()
        decode = partial(events_in, schema=own)
    # Topic by topic, so that what is unfit says where it came. For all messages of JSON it would take far longer.
    batches, reported = [pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))], list[Unfit]()
    for name, run in groupby(messages, attrgetter("topic")):
        batch, unfit = decode([message.payload for message in run])
        batches.append(_with_levels(topic, [name], [len(batch)], batch, schema))
        reported += (on_topic(name, event) for event in unfit)
    return pa.concat_batches(batches), tuple(reported)


class SourceMessages:
    """The messages of another broker that a source takes, and what they hold; used by one thread."""

    def __init__(self, topic: SourceTopic, messages: MessageFormat, schema: Schema, decode: Decoder) -> None:
        self._topic = topic
        self._schema = schema
        self._decode = decode
        self._levels_decode = None if is_json(messages) else decode
        self._topics = FeedTopics()
        self._topics.add(topic.filter)
        self._read_on_topics = topic_decoder(messages, schema, {})
        """What reads messages together with their topics, if their format needs that."""

    def read(self, messages: Sequence[Message]) -> ReadMessages:
        """The events of messages, and what is unfit of them; retained ones are events too."""
        messages, refused = self._taken(messages)
        if self._read_on_topics is not None:
            content = self._read_on_topics(messages)
            return replace(content, unfit=(*content.unfit, *refused))
        if self._topic.is_plain:
            events, unfit = self._decode([message.payload for message in messages])
        else:
            events, unfit = events_on(self._topic, messages, self._schema, self._levels_decode)
        return ReadMessages(events, (*unfit, *refused))

    def _taken(self, messages: Sequence[Message]) -> tuple[list[Message], list[Unfit]]:
        """The messages that are events, and what is said of those on too many topics."""
        events, refused = list[Message](), list[Unfit]()
        for message in messages:
            if message.topic not in self._topics.taken:
                # Retained ones count too here, because they are events.
                if self._topics.match(msgspec.structs.replace(message, retained=False)) is None:
                    note_unasked(message.topic)
                    continue
                if message.topic not in self._topics.taken:
                    refused.append(not_taken(message))
                    continue
            events.append(message)
        return events, refused


def _with_levels(
    topic: SourceTopic, topics: Iterable[str], ends: Sequence[int], batch: pa.RecordBatch, schema: Schema
) -> pa.RecordBatch:
    """Events with the levels of the topics that they came on, of each of which they are those up to its end."""
    if not topic.fields:
        return batch
    levels = [name.split("/") for name in topics]
    counts = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    values = {column: np.array([names[at] for names in levels], object) for column, at in topic.fields.items()}
    made = {column: pa.array(np.repeat(texts, counts), pa.string()) for column, texts in values.items()}
    return with_made(made, batch, schema)


def with_made(made: Mapping[str, pa.Array], batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Events with fields that are made of what they came with, in place of those that they have under these names."""
    columns = {**{column: batch.column(column) for column in batch.schema.names}, **made}
    columns[REST_COLUMN] = _without(made, columns[REST_COLUMN])
    target = arrow_schema(schema)
    return pa.RecordBatch.from_arrays([columns[column.name] for column in target], schema=target)


def _without(names: Iterable[str], rest: pa.Array) -> pa.Array:
    """The undeclared fields of events without some of them."""
    if rest.null_count == len(rest):
        return rest
    hits = [pc.match_substring(rest, f"{JSON_ENCODER.encode(name)}:") for name in names]
    if not any(pc.any(hit).as_py() for hit in hits):
        return rest
    parsed = (json.loads(text) if text else {} for text in rest.to_pylist())
    kept = [{name: value for name, value in fields.items() if name not in names} for fields in parsed]
    return pa.array([JSON_ENCODER.encode(fields) if fields else None for fields in kept], pa.string())
