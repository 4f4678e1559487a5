"""The messages of another broker as events of a source, whoever took them there."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from bridge.connectors.connector_run import ClientAssignment
from bridge.formats.decoders import topic_decoder
from bridge.formats.sparkplug_decoder import ReadMessages
from bridge.messages import Message
from bridge.raw_events import Unfit
from bridge.source_topics import FeedTopics, events_on, not_taken
from bridge.transport.subscriptions import note_unasked
from dags.connectors import MqttConnector
from dags.message_formats import is_json
from dags.source_topics import source_topic


class SourceMessages:
    """The messages that a source takes, and what they hold; used by one thread."""

    def __init__(self, connector: MqttConnector, assignment: ClientAssignment) -> None:
        self._assignment = assignment
        self._topic = source_topic(connector.topic, outside=True)
        self._topics = FeedTopics()
        self._topics.add(self._topic.filter)
        self._read_on_topics = topic_decoder(assignment.format, assignment.schema, {})
        """What reads messages together with their topics, if their format needs that."""

    def read(self, messages: Sequence[Message]) -> ReadMessages:
        """The events of messages, and what is unfit of them; retained ones are events too."""
        messages, refused = self._taken(messages)
        if self._read_on_topics is not None:
            content = self._read_on_topics(messages)
            return replace(content, unfit=(*content.unfit, *refused))
        decode = self._assignment.decode
        if self._topic.is_plain:
            events, unfit = decode([message.payload for message in messages])
        else:
            read = None if is_json(self._assignment.format) else decode
            events, unfit = events_on(self._topic, messages, self._assignment.schema, read)
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
