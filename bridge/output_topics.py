"""The topics of outputs: the one that an output has, and those of its events where levels are values of fields.

No value leads to a topic that the output's filter does not match. A value that is no level of a topic leaves its event
out, as does a topic more than `MOST_TOPICS`, or a message with which the topics together would retain more than
`MOST_RETAINED_BYTES`. The bounds count from when the host began to deliver the output.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import repeat
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from bridge import topics
from bridge.formats.sparkplug_messages import NAMESPACE
from bridge.output_formats import Unsayable
from bridge.output_messages import python_values
from bridge.source_topics import LONGEST_TOPIC, MOST_TOPICS
from dags.outputs import EnvelopeOutput, OutputSettings, SparkplugOutput
from dags.source_topics import source_topic


def chosen_topic(tenant: str, dataflow: str, sink: str, settings: OutputSettings) -> str:
    """The topic of the messages that an output's settings are about, with the names of fields in it.

    >>> chosen_topic("ann", "d-1", "averages", OutputSettings())
    'braid/1/out/ann/d-1/averages'
    """
    if settings.topic is not None:
        return settings.topic
    if isinstance(settings.format, SparkplugOutput):
        return node_topic(settings.format, "NDATA")
    if isinstance(settings.format, EnvelopeOutput):
        return topics.output(tenant, dataflow, sink)
    return topics.formatted_output(tenant, dataflow, sink, settings.format.kind)


def own_filter(settings: OutputSettings) -> str | None:
    """The filter of the topics that an output has of its own, if it has any. An edge node has those of its group.

    >>> own_filter(OutputSettings(format=SparkplugOutput(group="ann.lines", node="press")))
    'spBv1.0/ann.lines/#'
    """
    if isinstance(settings.format, SparkplugOutput):
        return f"{NAMESPACE}/{settings.format.group}/#"
    return None if settings.topic is None else source_topic(settings.topic).filter


def node_topic(node: SparkplugOutput, kind: str) -> str:
    """The topic of a type of messages of an edge node.

    >>> node_topic(SparkplugOutput(group="ann.lines", node="press"), "NBIRTH")
    'spBv1.0/ann.lines/NBIRTH/press'
    """
    return f"{NAMESPACE}/{node.group}/{kind}/{node.node}"


_NONCHARACTERS = "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
_FORBIDDEN = re.compile(rf"[/+#\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_NONCHARACTERS}]")
"""What MQTT or a broker forbids in a level. With such a topic, mosquitto would end the connection of all outputs."""
MOST_RETAINED_BYTES = 64_000_000
"""Bytes of messages that the topics of one output by key retain, so that no tenant fills a broker."""
_SHOWN = 80
_TRUTHS: Mapping[bool, str] = MappingProxyType({True: "true", False: "false"})


class OutputTopics:
    """The topics of the events of one output; used by one thread."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._fields = source_topic(topic).fields
        self._known: dict[tuple[str, ...], str] = {}
        """The topic for the values that its levels have had."""
        self._retained: dict[str, int] = {}
        """The bytes that each topic retains."""
        self._retained_bytes = 0

    def of(self, events: pa.RecordBatch) -> Iterator[str | Unsayable]:
        """The topic of each event, or the reason why it has none.

        >>> list(OutputTopics("plant/{machine}/alarm").of(pa.record_batch({"machine": ["press", None]})))
        ['plant/press/alarm', Unsayable(reason="the field 'machine' is null, so it is no level of a topic")]
        """
        if not self._fields:
            return repeat(self.topic, len(events))
        names = events.schema.names
        columns = (
            python_values(events.column(name)) if name in names else repeat(None, len(events)) for name in self._fields
        )
        return map(self._of_values, zip(*columns, strict=True))

    def why_not_retained(self, topic: str, message: bytes) -> Unsayable | None:
        """Note that a topic retains a message from now on; the reason, if together they would retain too much."""
        if not self._fields:
            return None
        after = self._retained_bytes - self._retained.get(topic, 0) + len(message)
        if after > MOST_RETAINED_BYTES:
            return Unsayable(f"the topics of the output would retain more than {MOST_RETAINED_BYTES:,} bytes")
        self._retained_bytes, self._retained[topic] = after, len(message)
        return None

    def _of_values(self, values: tuple[Any, ...]) -> str | Unsayable:
        for name, value in zip(self._fields, values, strict=True):
            if reason := _why_no_level(value):
                return Unsayable(f"the field {name[:_SHOWN]!a} {reason}, so it is no level of a topic")
        written = tuple(_TRUTHS[value] if isinstance(value, bool) else str(value) for value in values)
        if (topic := self._known.get(written)) is None:
            parts = self.topic.split("/")
            for at, level in zip(self._fields.values(), written, strict=True):
                parts[at] = level
            topic = "/".join(parts)
            if len(topic) > LONGEST_TOPIC:
                return Unsayable(f"its topic is longer than {LONGEST_TOPIC} characters")
            if len(self._known) >= MOST_TOPICS:
                return Unsayable(f"its topic would be one more than the {MOST_TOPICS:,} that an output has")
            self._known[written] = topic
        return topic


def _why_no_level(value: Any) -> str:
    """Why a value is no level of a topic; empty if it is one."""
    match value:
        case None:
            reason = "is null"
        case "":
            reason = "is empty"
        case str():
            reason = "has characters that no level has" if _FORBIDDEN.search(value) else ""
        case int():
            reason = ""
        case _:
            reason = "is no string, integer or boolean"
    return reason
