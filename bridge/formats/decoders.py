"""Decoders: what reads the messages of a format as events of a schema.

A decoder takes messages and returns their events as columns, and what is unfit of them. It raises for no message. Where
a message means nothing without its topic and those before it, a topic decoder takes both, and may have something to
publish in reply.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from bridge.formats.avro_decoder import AvroDecoder
from bridge.formats.csv_decoder import CsvDecoder
from bridge.formats.protobuf_decoder import protobuf_decoder
from bridge.formats.senml_packs import senml_decoder
from bridge.formats.sparkplug_decoder import EdgeNode, SparkplugDecoder, TopicDecoder
from bridge.formats.texts import FROM_TEXT, NO_KINDS, Kinds, undeclared
from bridge.formats.values import MOST_HELD_VALUES, HeldValues, finite_values, plain, shown_value
from bridge.messages import LARGEST_EVENT
from bridge.raw_events import (
    MessageReading,
    TooMuch,
    Unfit,
    UnfitField,
    arrow_schema,
    check_count,
    check_size,
    events_by,
    events_in,
    json_text,
    shown_text,
    too_much,
    typed_events,
    untyped,
    values_in,
    why_too_large,
    why_unread,
)
from dags import Kind, Schema
from dags.message_formats import (
    AvroMessages,
    CsvMessages,
    JsonLinesMessages,
    JsonMessages,
    MessageFormat,
    MsgpackMessages,
    ProtobufMessages,
    RawMessages,
    SenmlMessages,
    SparkplugMessages,
    TextMessages,
)

Decoder: TypeAlias = Callable[[Sequence[bytes]], tuple[pa.RecordBatch, tuple[Unfit, ...]]]
F = TypeVar("F", bound=MessageFormat)


def _json(_messages: JsonMessages, schema: Schema, _kinds: Kinds) -> Decoder:
    return lambda messages: events_in(messages, schema)


_BLANK = re.compile(rb"[ \t\r]*")


def _json_lines(_messages: JsonLinesMessages, schema: Schema, _kinds: Kinds) -> Decoder:
    typed = typed_events(schema)
    decode = typed.reading(msgspec.json.Decoder(typed.event).decode_lines)

    def read(message: bytes) -> Any:
        events = decode(message)
        # It would also take an object that is spread over lines.
        if len(events) != message.count(b"\n") + 1 and len(events) != len(_lines(message)):
            raise ValueError("an event is not on one line")
        return events

    def parts(message: bytes, unfit: list[Unfit]) -> Sequence[bytes]:
        try:
            check_size(message)
            # With blank lines, because looking at them takes time too.
            check_count(message.count(b"\n") + (not message.endswith(b"\n")))
        except TooMuch as error:
            unfit.append(too_much(message, error))
            return ()
        if len(message) <= LARGEST_EVENT:
            return (message,)
        return list(_small(_lines(message), unfit))

    def values(message: bytes, unfit: list[Unfit]) -> Iterator[Any]:
        for line in _lines(message):
            # An array would be a list of events.
            yield from [None] if line.lstrip().startswith(b"[") else values_in(line, unfit)

    return lambda messages: events_by(MessageReading(parts=parts, read=read, values=values), messages, schema)


def _lines(message: bytes) -> list[bytes]:
    return [line for line in message.split(b"\n") if not _BLANK.fullmatch(line)]


def _small(events: Iterable[bytes], unfit: list[Unfit]) -> Iterator[bytes]:
    """The events that are not too large."""
    for event in events:
        if len(event) > LARGEST_EVENT:
            unfit.append(Unfit(event=shown_text(event[:1_000]), reason=why_too_large(len(event))))
        else:
            yield event


_PACKED = msgspec.msgpack.Decoder(list[msgspec.Raw])
_ANY = msgspec.msgpack.Decoder()
_LISTS = re.compile(rb"[\x90-\x9f\xdc\xdd]")
"""What a list begins with."""
_FEW = 100_000
"""Bytes of a message that cannot hold too many events, because each takes one."""


def _msgpack(_messages: MsgpackMessages, schema: Schema, _kinds: Kinds) -> Decoder:
    typed = typed_events(schema)
    decode, held = typed.reading(msgspec.msgpack.Decoder(typed.content).decode), HeldValues()
    has_json = Kind.JSON in schema.fields.values()
    must_count = False

    def parts(message: bytes, unfit: list[Unfit]) -> Iterator[bytes]:
        nonlocal must_count
        must_count = has_json and _may_be_full(message)
        held.left = MOST_HELD_VALUES
        events = _packed(message, unfit)
        for place, part in enumerate(events):
            if held.left < 0:
                reason, count = "it comes behind too many values", len(events) - place
                unfit.append(Unfit(event=shown_text(part[:1_000]), reason=reason, count=count))
                return
            yield part

    def read(part: bytes) -> Any:
        if must_count:
            raise ValueError
        return decode(part)

    fast = MessageReading(parts=parts, read=read, values=partial(_unpacked, held))
    slow = MessageReading(parts=parts, read=untyped, values=partial(_unpacked, held))
    return finite_values(partial(events_by, fast, schema=schema), partial(events_by, slow, schema=schema), schema)


_CONTAINERS = bytes(range(0x80, 0xA0)) + b"\xdc\xdd\xde\xdf"
"""The bytes that lists and objects begin with."""


def _may_be_full(message: bytes) -> bool:
    """Whether a message may hold so many lists and objects that they have to be counted, value by value."""
    return len(message) > _FEW and len(message) - len(message.translate(None, _CONTAINERS)) > MOST_HELD_VALUES // 10


def _packed(message: bytes, unfit: list[Unfit]) -> Sequence[bytes]:
    if len(message) <= _FEW:
        return (message,)
    try:
        check_size(message)
        try:
            events = _PACKED.decode(message)
        except (msgspec.DecodeError, RecursionError):
            # No array, or nothing that can be read, as will be found out.
            return list(_small([message], unfit))
        check_count(len(events))
    except TooMuch as error:
        unfit.append(too_much(message, error))
        return ()
    return (message,) if len(message) <= LARGEST_EVENT else list(_small(map(bytes, events), unfit))


def _unpacked(held: HeldValues, message: bytes, unfit: list[Unfit]) -> Iterator[Any]:
    try:
        # Event by event if they are many, because as objects they take up to a hundred times the memory.
        content = _PACKED.decode(message) if len(message) > _FEW and _LISTS.match(message) else _ANY.decode(message)
    except Exception as error:  # noqa: BLE001 - one message must not stop all later ones
        reason = why_unread(error, "message", "the message is not MessagePack: ")
        unfit.append(Unfit(event=shown_text(message[:1_000]), reason=reason))
        return
    events = content if isinstance(content, list) else [content]
    for place, event in enumerate(events):
        try:
            yield plain(_ANY.decode(event) if isinstance(event, msgspec.Raw) else event, held)
        except TooMuch as error:
            unfit.append(Unfit(event=shown_text(message[:1_000]), reason=str(error), count=len(events) - place))
            return
        except (ValueError, RecursionError) as error:
            unfit.append(Unfit(event=shown_value(event), reason=why_unread(error, "event")))


def _text(messages: TextMessages, schema: Schema, kinds: Kinds) -> Decoder:
    def text(message: bytes) -> str:
        try:
            return message.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"the message is not UTF-8: {error}") from None

    return _one_field(messages.field, schema, text, kinds)


def _raw(messages: RawMessages, schema: Schema, _kinds: Kinds) -> Decoder:
    return _one_field(messages.field, schema, lambda message: base64.b64encode(message).decode(), NO_KINDS)


def _one_field(name: str, schema: Schema, text: Callable[[bytes], str], kinds: Kinds) -> Decoder:
    """A decoder of messages that are each one field, with the text of its value."""
    kind = schema.fields.get(name, Kind.STRING)
    convert = FROM_TEXT[kind]
    columns, names = arrow_schema(schema), (*schema.names(), "")
    place = names.index(name) if name in schema.fields else len(names) - 1

    def decode(messages: Sequence[bytes]) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
        values: list[object] = []
        unfit: list[Unfit] = []
        for message in _small(messages, unfit):
            try:
                values.append(_converted(name, kind, convert, text(message)))
            except Exception as error:  # noqa: BLE001 - one message must not stop all later ones
                unfit.append(Unfit(event=shown_text(message), reason=why_unread(error, "message")))
        if name not in schema.fields:
            values = [json_text({name: undeclared(name, str(value), kinds)}) for value in values]
        arrays = [
            pa.array(values, column.type) if at == place else pa.nulls(len(values), column.type)
            for at, column in enumerate(columns)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=columns), tuple(unfit)

    return decode


def _converted(name: str, kind: Kind, convert: Callable[[str], object], text: str) -> object:
    try:
        return convert(text)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise UnfitField(name, kind) from None


def _without_topics(messages: MessageFormat, schema: Schema, _kinds: Kinds) -> Decoder:
    """A decoder of a format whose messages say nothing without their topics."""
    none = pa.RecordBatch.from_pylist([], schema=arrow_schema(schema))
    why = f"what a message of the format {messages.kind} says depends on its topic; publish it there"
    return lambda given: (none, tuple(Unfit(event=shown_text(message[:1_000]), reason=why) for message in given))


_DECODERS: Mapping[type[Any], Callable[[Any, Schema, Kinds], Decoder]] = {
    JsonMessages: _json,
    JsonLinesMessages: _json_lines,
    CsvMessages: CsvDecoder,
    SenmlMessages: senml_decoder,
    SparkplugMessages: _without_topics,
    MsgpackMessages: _msgpack,
    AvroMessages: AvroDecoder,
    ProtobufMessages: protobuf_decoder,
    TextMessages: _text,
    RawMessages: _raw,
}


def decoder(messages: MessageFormat, schema: Schema, kinds: Kinds = NO_KINDS) -> Decoder:
    r"""What reads messages of a format as events of a schema.

    `kinds` are those that some readers expect of fields that the schema does not declare.

    >>> from dags.message_formats import CsvMessages
    >>> decode = decoder(CsvMessages(separator=";"), Schema.of(t=Kind.FLOAT))
    >>> events, unfit = decode([b"t;unit\n20.5;C\nwarm;C"])
    >>> events.to_pylist(), unfit[0].reason
    ([{'t': 20.5, '_rest': '{"unit":"C"}'}], "the field 't' should be of kind float")
    """
    return _DECODERS[type(messages)](messages, schema, kinds)


def topic_decoder(messages: MessageFormat, schema: Schema, memory: dict[str, EdgeNode]) -> TopicDecoder | None:
    """What reads messages with their topics as events of a schema; None if a format needs no topics.

    `memory` is what such a decoder remembers of the messages before, which outlives it.
    """
    return SparkplugDecoder(messages, schema, memory) if isinstance(messages, SparkplugMessages) else None
