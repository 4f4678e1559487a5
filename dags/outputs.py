"""The settings of outputs: formats and topics in which the events of a sink are delivered besides their envelopes.

None of it is part of what a task computes. It is never signed, so equal outputs with different settings are one task.
A further format is a record here, and a row in the table of `bridge.output_formats`.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, StringConstraints, model_serializer
from pydantic.json_schema import SkipJsonSchema

from dags.config import Config
from dags.schema import Kind, Schema
from dags.task_type import Read

_FieldName = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
_MOST_NAMED = 250
OutputTopic = Annotated[
    str,
    StringConstraints(
        min_length=3,
        max_length=300,
        pattern=r"^[a-z0-9-]+(/([\w.:@~-]+|\{[^{}/+#\x00-\x1f\x7f]+\}))+$",
        strict=True,
    ),
]
"""A topic below a tenant's name. Its levels have letters, digits and `_.:@~-`, which every broker takes.

A level `{name}` is the value of that field, so each event has the topic of its values.
"""


class EnvelopeOutput(Config):
    """Messages of several events as JSON, with the output's name, an epoch and the number of the first."""

    kind: Literal["envelope"] = "envelope"
    """Nothing besides the envelopes."""


class PlainOutput(Config):
    """A message for each event, as JSON."""

    kind: Literal["plain"] = "plain"
    """The event as JSON."""


class CsvOutput(Config):
    """A message for each event, as a line of CSV without a header."""

    kind: Literal["csv"] = "csv"
    """A line of CSV."""
    # Not strict, because JSON has no tuples.
    columns: Annotated[tuple[_FieldName, ...], Field(max_length=_MOST_NAMED, strict=False)] = ()
    """The fields of a line, in order; if none are named, all declared ones, sorted by name."""
    separator: Literal[",", ";", "\t"] = ","
    """The character between two values."""


class InfluxOutput(Config):
    """A message for each event, as a line of InfluxDB's line protocol."""

    kind: Literal["influx"] = "influx"
    """A line of InfluxDB's line protocol."""
    measurement: Annotated[
        str, StringConstraints(max_length=200, pattern=r"^[^_#\\\s\x00-\x1f\x7f][^\\\x00-\x1f\x7f]*$")
    ]
    """The measurement of every line."""
    tags: Annotated[tuple[_FieldName, ...], Field(max_length=_MOST_NAMED, strict=False)] = ()
    """The fields that become tags."""
    time: _FieldName | None = None
    """The timestamp that is the time of the line; without it, lines have no time."""


_NodeName = Annotated[str, StringConstraints(max_length=200, pattern=r"^[\w.:@~-]+$", strict=True)]

_Metric = Annotated[tuple[str, Annotated[Kind, Field(strict=False)]], Field(strict=False)]


class SparkplugOutput(Config):
    """A message for each event, as data of an edge node of Sparkplug B, which has a connection of its own."""

    kind: Literal["sparkplug"] = "sparkplug"
    """Data of an edge node of Sparkplug B."""
    group: _NodeName
    """The group: the tenant's name, or one that begins with it and a dot."""
    node: _NodeName
    """The edge node, which no other output may be."""
    time: _FieldName | None = None
    """The timestamp that is the time of the metrics; without it, they have that of what caused the event."""
    metrics: SkipJsonSchema[Annotated[tuple[_Metric, ...], Field(strict=False)]] = ()
    """The declared fields of its events, which are filled in when a document is accepted."""


def _in_full(given: Any) -> Any:
    return {"kind": given} if isinstance(given, str) else given


OutputFormat: TypeAlias = Annotated[
    EnvelopeOutput | PlainOutput | CsvOutput | InfluxOutput | SparkplugOutput,
    Field(discriminator="kind"),
    BeforeValidator(_in_full),
]


class OutputSettings(Config):
    """The way in which one output is delivered, besides its envelopes on the topic that Braid gives it."""

    format: OutputFormat = EnvelopeOutput()
    """The format of its messages; its kind alone is short for a format without settings."""
    retain: bool = False
    """Whether the broker keeps the newest message for those who subscribe later."""
    qos: Literal[0, 1] = 1
    """Whether each message is sent until the broker has it, or once. The envelopes on Braid's topic always have 1."""
    topic: OutputTopic | None = None
    """A topic of its own, which begins with the tenant's name and a slash."""


def with_metrics(settings: OutputSettings, schema: Schema) -> OutputSettings:
    """The settings with the metrics that events of a schema have, if the format has any.

    >>> node = OutputSettings(format=SparkplugOutput(group="ann", node="press"))
    >>> with_metrics(node, Schema.of(t=Kind.FLOAT)).format.metrics
    (('t', <Kind.FLOAT: 'float'>),)
    """
    if not isinstance(settings.format, SparkplugOutput):
        return settings
    names = (name for name in schema.names() if name != settings.format.time)
    metrics = tuple((name, schema.fields[name]) for name in names)
    return settings.model_copy(update={"format": settings.format.model_copy(update={"metrics": metrics})})


class DeliveringConfig(OutputSettings):
    """The base of an output type's config. What is canonical of it, and signed, leaves out how it is delivered."""

    @property
    def settings(self) -> OutputSettings | None:
        """How it is delivered; None if as always."""
        settings = OutputSettings(format=self.format, retain=self.retain, qos=self.qos, topic=self.topic)
        return None if settings == OutputSettings() else settings

    @model_serializer(mode="wrap")
    def _computed(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name not in OutputSettings.model_fields}


_AS_TEXT = frozenset({Kind.STRING, Kind.INTEGER, Kind.BOOLEAN})
"""The kinds of fields that become tags, or levels of a topic."""
_AS_TIME = frozenset({Kind.TIMESTAMP})


def topic_fields(topic: str) -> tuple[str, ...]:
    """The fields whose values are levels of an output's topic.

    >>> topic_fields("plant/{machine}/alarm")
    ('machine',)
    """
    return tuple(_FIELD_LEVEL.findall(topic))


_FIELD_LEVEL = re.compile(r"\{([^{}]+)\}")


def fields_delivered(config: DeliveringConfig) -> tuple[Read, ...]:
    """The fields that the format and the topic name, so that a document with others is refused.

    >>> fields_delivered(DeliveringConfig(format=InfluxOutput(measurement="weather", time="at")))
    (Read(at='format/time', field='at', kinds=frozenset({<Kind.TIMESTAMP: 'timestamp'>}), port='in'),)
    """
    levels = (Read(at="topic", field=name, kinds=_AS_TEXT) for name in topic_fields(config.topic or ""))
    return (*_named(config.format), *levels)


def _named(chosen: OutputFormat) -> Iterator[Read]:
    match chosen:
        case CsvOutput(columns=columns):
            for at, column in enumerate(columns):
                yield Read(at=f"format/columns/{at}", field=column)
        case InfluxOutput(tags=tags, time=time):
            for at, tag in enumerate(tags):
                yield Read(at=f"format/tags/{at}", field=tag, kinds=_AS_TEXT)
            if time is not None:
                yield Read(at="format/time", field=time, kinds=_AS_TIME)
        case SparkplugOutput(time=str(time)):
            yield Read(at="format/time", field=time, kinds=_AS_TIME)
