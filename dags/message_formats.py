"""The formats of a source's messages, as forms and plans have them; `bridge.formats` reads them."""

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints, model_validator

MOST_COLUMNS = 1_000
"""Columns of a CSV message."""
LONGEST_DESCRIPTOR = 200_000
"""Characters of the descriptor of a message type, as base64 text."""
_Character = Annotated[str, StringConstraints(pattern=r"^[\t\x20-\x7e]$")]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


def _with_kind(schema: dict[str, Any]) -> None:
    # It tells which format is meant, though each has the only one that it may have by default.
    schema["required"] = ["kind", *schema.get("required", ())]


class _Format(BaseModel):
    """The base of formats."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=_with_kind)

    media_types: ClassVar[tuple[str, ...]] = ()
    """The content types under which events are sent in this format over REST."""
    has_texts: ClassVar[bool] = False
    """Whether all values are texts, of which only the kinds of fields make numbers and others."""
    has_topics: ClassVar[bool] = False
    """Whether what a message means depends on its topic, and on the messages before it."""


class JsonMessages(_Format):
    """JSON: an object is an event, and an array is a list of events."""

    kind: Literal["json"] = "json"
    media_types: ClassVar[tuple[str, ...]] = ("application/json",)


class JsonLinesMessages(_Format):
    """JSON lines: an object on each line. Blank lines are skipped."""

    kind: Literal["jsonl"] = "jsonl"
    media_types: ClassVar[tuple[str, ...]] = ("application/x-ndjson",)


def _as_tuple(given: Any) -> Any:
    # The short form of a format makes pydantic take the rest for values of Python, where a list is no tuple.
    return tuple(given) if isinstance(given, list) else given


class CsvMessages(_Format):
    """CSV: an event on each line. An empty value is null, and all others are read by the kinds of their fields."""

    kind: Literal["csv"] = "csv"
    columns: Annotated[tuple[_Name, ...], Field(max_length=MOST_COLUMNS), BeforeValidator(_as_tuple)] = ()
    """The names of the columns. Without them, each message begins with a line of names."""
    separator: _Character = ","
    quote: _Character = '"'
    """The character around values that hold a separator, a quote or the end of a line. Inside, it is doubled."""
    media_types: ClassVar[tuple[str, ...]] = ("text/csv",)
    has_texts: ClassVar[bool] = True

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.separator == self.quote:
            raise ValueError(f"separator and quote are both {self.quote!r}; choose another for one of them")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("two columns have the same name; rename one of them")
        return self


class SenmlMessages(_Format):
    """SenML (RFC 8428): each record of a pack is an event, with base values applied. Its time is in milliseconds."""

    kind: Literal["senml"] = "senml"
    media_types: ClassVar[tuple[str, ...]] = ("application/senml+json", "application/sensml+json")


class MsgpackMessages(_Format):
    """MessagePack: a map is an event, and an array is a list of events. Bytes become base64 text, times ISO 8601."""

    kind: Literal["msgpack"] = "msgpack"
    media_types: ClassVar[tuple[str, ...]] = ("application/msgpack", "application/vnd.msgpack", "application/x-msgpack")


class AvroMessages(_Format):
    """Avro: a message is one event, or an object container file. Bytes become base64 text, times ISO 8601."""

    kind: Literal["avro"] = "avro"
    writer_schema: JsonValue = None
    """The schema that single events are written with. Container files have their own."""
    media_types: ClassVar[tuple[str, ...]] = ("application/avro", "avro/binary")


class ProtobufMessages(_Format):
    """Protocol Buffers: a message is one event of a message type. Bytes become base64 text, times ISO 8601."""

    kind: Literal["protobuf"] = "protobuf"
    descriptor: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_DESCRIPTOR)]
    """A FileDescriptorSet as base64 text, as `protoc --include_imports --descriptor_set_out` writes it."""
    message: _Name
    """The full name of the message type, such as `acme.Reading`."""
    delimited: bool = False
    """Whether a message is a sequence of events, with the length of each in front of it."""
    media_types: ClassVar[tuple[str, ...]] = ("application/x-protobuf", "application/protobuf")


class SparkplugMessages(_Format):
    """Sparkplug B (3.0): births, data and deaths of edge nodes and devices, as their topics say."""

    kind: Literal["sparkplug"] = "sparkplug"
    metrics: Literal["fields", "rows"] = "fields"
    """Whether a message is one event, with a field for each metric, or an event for each metric: `name`, `value`."""
    has_topics: ClassVar[bool] = True


class TextMessages(_Format):
    """Text: the whole message is one field, which is read by its kind. So a number alone is an event."""

    kind: Literal["text"] = "text"
    field: _Name = "text"
    """The name of the field."""
    media_types: ClassVar[tuple[str, ...]] = ("text/plain",)
    has_texts: ClassVar[bool] = True


class RawMessages(_Format):
    """Bytes: the whole message is one field, as base64 text."""

    kind: Literal["raw"] = "raw"
    field: _Name = "raw"
    """The name of the field."""
    media_types: ClassVar[tuple[str, ...]] = ("application/octet-stream",)


class ParquetFiles(_Format):
    """Parquet: a row is an event. Only files are in this format."""

    kind: Literal["parquet"] = "parquet"


def _whole(given: Any) -> Any:
    return {"kind": given} if isinstance(given, str) else given


_Formats: TypeAlias = (
    JsonMessages
    | JsonLinesMessages
    | CsvMessages
    | SenmlMessages
    | MsgpackMessages
    | AvroMessages
    | ProtobufMessages
    | SparkplugMessages
    | TextMessages
    | RawMessages
)
_Kind: TypeAlias = Literal["json", "jsonl", "csv", "senml", "msgpack", "avro", "sparkplug", "text", "raw"]
MessageFormat: TypeAlias = Annotated[
    Annotated[_Formats, Field(discriminator="kind")], BeforeValidator(_whole, json_schema_input_type=_Kind | _Formats)
]
"""Any format. A kind alone is short for a format with nothing else in it."""
_Content: TypeAlias = _Formats | ParquetFiles
_ContentKind: TypeAlias = Literal["json", "jsonl", "csv", "senml", "msgpack", "avro", "text", "raw", "parquet"]
ContentFormat: TypeAlias = Annotated[
    Annotated[_Content, Field(discriminator="kind")],
    BeforeValidator(_whole, json_schema_input_type=_ContentKind | _Content),
]
"""The format of a file: that of messages, or one that only files have."""
JSON = JsonMessages()
MEDIA_TYPES: tuple[str, ...] = tuple(media for form in get_args(_Formats) for media in form.media_types)
"""All content types of events over REST."""


class UnusableFormat(ValueError):
    """A format that this process cannot read: its schema is not valid, or a library is missing."""


def is_json(messages: MessageFormat) -> bool:
    """Whether a format is the one of sources that name none."""
    return messages == JSON
