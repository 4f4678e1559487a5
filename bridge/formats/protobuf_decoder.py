"""Protocol Buffers: messages of a type whose descriptor is registered with the source.

Fields have the names of the `.proto` file. Those that have no presence, such as the plain ones of proto3, always have a
value, because a zero is not written; all others are left out where they are not set. Fields that the descriptor does
not have are skipped, as every reader of the format does.

Anybody's descriptor may come with a source, so it is checked before it is used. A short message can hold many objects,
each with all fields that have no presence. So what the objects of a message hold is bounded too.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from bridge.formats.texts import Kinds
from bridge.formats.values import Decoding, HeldValues, finite_values, whole_message
from bridge.messages import LARGEST_EVENT, LARGEST_RAW_MESSAGE
from bridge.raw_events import (
    CONVERTED,
    DEEPEST,
    MessageReading,
    TooMuch,
    Unfit,
    check_count,
    events_by,
    shown_text,
    typed_events,
    untyped,
    why_too_large,
    why_unread,
)
from dags import Kind, Schema
from dags.message_formats import ProtobufMessages, UnusableFormat

_LARGEST_ENCODED = 1_000_000
"""Bytes of one event. In memory, one of a byte takes hundreds."""
_PLAINLY_SMALL = 10_000
"""Bytes of an event that is not too large in any form."""
_MOST_HELD = 4 * LARGEST_RAW_MESSAGE
"""Bytes that the names of fields may take in all objects of a message, each of which repeats them."""
_OBJECT = 60
"""Bytes that an object inside an event is counted as besides, so that half a million of them are too many."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIBRARY = MappingProxyType(
    {
        module.DESCRIPTOR.name: module.DESCRIPTOR.serialized_pb
        for module in (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
    }
)
"""Files that every user of the format has, so that a descriptor need not hold them."""
_Convert: TypeAlias = Callable[[Any], Any]


def _moment(value: Any) -> str:
    # Not by the library's own way, which refuses nanoseconds that are out of range but nothing else.
    moment = _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1_000)
    return moment.isoformat()


_SPECIAL: Mapping[str, _Convert] = MappingProxyType(
    {
        "google.protobuf.Timestamp": _moment,
        "google.protobuf.BytesValue": lambda value: base64.b64encode(value.value).decode(),
        **dict.fromkeys(
            (f"google.protobuf.{kind}Value" for kind in ("Bool", "Double", "Float", "Int32", "Int64", "String")),
            attrgetter("value"),
        ),
        **dict.fromkeys((f"google.protobuf.{kind}Value" for kind in ("UInt32", "UInt64")), attrgetter("value")),
    }
)
"""Message types that stand for one value, by their full names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """How one field of a message type is read."""

    name: str
    descriptor: FieldDescriptor
    has_presence: bool
    is_repeated: bool
    convert: _Convert | None
    """What makes its value one that JSON could hold; None if it is one."""


class _Types:
    """How the message types of one descriptor are read."""

    def __init__(self) -> None:
        self.held = HeldValues()
        self._objects: dict[str, _Convert] = {}
        self._open: list[str] = []
        """The types in which another one is looked at."""

    def fields(self, descriptor: Descriptor) -> tuple[_Field, ...]:
        """The fields of a message type."""
        if descriptor.full_name in self._open:
            raise UnusableFormat(f"the message type {descriptor.full_name!r} refers to itself")
        if len(self._open) >= DEEPEST:
            raise UnusableFormat(f"its message types are nested deeper than {DEEPEST} levels")
        copy = descriptor_pb2.DescriptorProto()
        descriptor.CopyToProto(copy)
        repeated = {field.name for field in copy.field if field.label == field.LABEL_REPEATED}
        self._open.append(descriptor.full_name)
        fields = tuple(
            _Field(
                name=field.name,
                descriptor=field,
                has_presence=field.has_presence,
                is_repeated=field.name in repeated,
                convert=self._several(field) if field.name in repeated else self._one(field),
            )
            for field in descriptor.fields
        )
        self._open.pop()
        return fields

    def object(self, descriptor: Descriptor) -> _Convert:
        """What makes a dictionary of a message."""
        if (known := _SPECIAL.get(descriptor.full_name) or self._objects.get(descriptor.full_name)) is not None:
            return known
        convert = self._objects[descriptor.full_name] = self.event(descriptor, more=_OBJECT)
        return convert

    def event(self, descriptor: Descriptor, *, more: int = 0) -> _Convert:
        """What makes a dictionary of a message that is a whole event, or that counts for more."""
        fields = [(field.name, field.has_presence, field.convert) for field in self.fields(descriptor)]
        size, take = more + sum(len(name) for name, _, _ in fields), self.held.take

        def convert(message: Any) -> dict[str, Any]:
            take(size)
            values = {}
            for name, has_presence, converted in fields:
                if not has_presence or message.HasField(name):
                    value = getattr(message, name)
                    values[name] = value if converted is None else converted(value)
            return values

        return convert

    def _one(self, field: FieldDescriptor) -> _Convert | None:
        """What converts one value of a field."""
        if (kind := field.message_type) is not None:
            return self.object(kind)
        if (names := field.enum_type) is not None:
            texts = {number: value.name for number, value in names.values_by_number.items()}
            # A newer sender may know more of them.
            return lambda number: texts.get(number, number)
        return _base64 if field.type == FieldDescriptor.TYPE_BYTES else None

    def _several(self, field: FieldDescriptor) -> _Convert:
        """What converts all values of a repeated field, or of a map."""
        if (kind := field.message_type) is None or not kind.GetOptions().map_entry:
            convert = self._one(field)
            return list if convert is None else partial(_converted, convert)
        key = _KEYS.get(kind.fields_by_name["key"].type, str)
        convert = self._one(kind.fields_by_name["value"])
        if convert is None:
            return lambda values: {key(name): value for name, value in values.items()}
        return lambda values: {key(name): convert(value) for name, value in values.items()}


def _converted(convert: _Convert, values: Any) -> list[Any]:
    return list(map(convert, values))


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


_KEYS: Mapping[int, _Convert] = MappingProxyType({FieldDescriptor.TYPE_BOOL: lambda key: "true" if key else "false"})
"""What makes a text of a map's key. All others are written as they are."""


@lru_cache(maxsize=100)
def _descriptor(text: str, message: str) -> Descriptor:
    """The descriptor of a message type; raises `UnusableFormat`."""
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(text, validate=True)).file
    except (ValueError, DecodeError) as error:
        raise UnusableFormat(f"the descriptor is no FileDescriptorSet as base64 text: {error}") from None
    pool = DescriptorPool()
    by_name = {file.name: file for file in files}
    for file in _imports_first(by_name):
        try:
            pool.AddSerializedFile(_LIBRARY.get(file) or by_name[file].SerializeToString())
        except Exception as error:  # noqa: BLE001 - the library has many
            raise UnusableFormat(f"the file {file!r} of the descriptor cannot be used: {error}"[:400]) from None
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        names = sorted(_names(by_name))
        shown = f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}"  # noqa: PLR2004 - enough to choose from
        raise UnusableFormat(f"the descriptor has no message type {message!r}; it has {shown or 'none'}") from None


def _names(files: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> Iterator[str]:
    """The full names of the message types that are not inside another."""
    for file in files.values():
        for kind in file.message_type:
            yield f"{file.package}.{kind.name}" if file.package else kind.name


def _imports_first(files: Mapping[str, descriptor_pb2.FileDescriptorProto]) -> list[str]:
    """The names of files, each behind those that it imports."""
    ordered: dict[str, None] = {}
    waiting = [(name, "") for name in files]
    begun: set[str] = set()
    while waiting:
        name, importer = waiting[-1]
        if name not in files and name not in _LIBRARY:
            raise UnusableFormat(
                f"the descriptor lacks the file {name!r}, which {importer!r} imports; write it with --include_imports"
            )
        imports = files[name].dependency if name in files and name not in _LIBRARY else ()
        missing = [other for other in imports if other not in ordered]
        if missing and name in begun:
            raise UnusableFormat(f"the file {name!r} of the descriptor imports itself")
        if missing:
            begun.add(name)
            waiting += [(other, name) for other in missing]
        else:
            ordered[name] = None
            waiting.pop()
    return list(ordered)


_WHOLE = frozenset(
    {
        FieldDescriptor.TYPE_INT32,
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_SINT32,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_UINT32,
        FieldDescriptor.TYPE_FIXED32,
        FieldDescriptor.TYPE_SFIXED32,
        FieldDescriptor.TYPE_SFIXED64,
    }
)
_FITTING: Mapping[Kind, frozenset[int]] = MappingProxyType(
    {
        Kind.BOOLEAN: frozenset({FieldDescriptor.TYPE_BOOL}),
        Kind.INTEGER: _WHOLE,
        Kind.FLOAT: frozenset({FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT}),
        Kind.STRING: frozenset({FieldDescriptor.TYPE_STRING}),
    }
)
"""For each kind, the types of fields all of whose values are of it. Only numbers that are not finite are not."""


def _column(field: _Field, kind: Kind) -> _Convert | None:
    """What makes a value of a column of a field's value, or raises an error; None if it is one."""
    if not field.is_repeated and field.descriptor.type in _FITTING.get(kind, ()):
        return None
    converted, convert = CONVERTED[kind], field.convert
    return converted if convert is None else lambda value: converted(convert(value))


def _typed(types: _Types, descriptor: Descriptor, schema: Schema, parse: _Convert) -> _Convert:
    """What reads a message straight into the places for the fields of a schema."""
    fields = {field.name: field for field in types.fields(descriptor)}
    if not schema.fields.keys() or fields.keys() - schema.fields.keys():
        return untyped
    event, names = typed_events(schema).event, schema.names()
    columns = [(fields[name], _column(fields[name], schema.fields[name])) if name in fields else None for name in names]
    if len(names) > 1 and all(
        column is not None and column[1] is None and not column[0].has_presence for column in columns
    ):
        values = attrgetter(*names)
        return lambda message: event(*values(parse(message)))
    ways = [
        (None, False, None) if column is None else (column[0].name, column[0].has_presence, column[1])
        for column in columns
    ]

    def read(message: bytes) -> Any:
        content = parse(message)
        row: list[object] = []
        for name, has_presence, convert in ways:
            if name is None or (has_presence and not content.HasField(name)):
                row.append(None)
            else:
                value = getattr(content, name)
                row.append(value if convert is None else convert(value))
        return event(*row)

    return read


def protobuf_decoder(messages: ProtobufMessages, schema: Schema, _kinds: Kinds) -> Decoding:
    """A decoder of messages of a registered type."""
    descriptor, types = _descriptor(messages.descriptor, messages.message), _Types()
    # The library makes classes for as many levels as there are, so these are checked first.
    plain = types.event(descriptor)
    parse = GetMessageClass(descriptor).FromString
    typed = _typed(types, descriptor, schema, parse)

    def read(message: bytes) -> Any:
        if len(message) > _PLAINLY_SMALL:
            raise ValueError
        types.held.left = _MOST_HELD
        return typed(message)

    def read_delimited(message: bytes) -> Any:
        return list(map(read, _delimited(message)))

    def values(message: bytes, unfit: list[Unfit]) -> Iterator[Any]:
        types.held.left = _MOST_HELD
        try:
            events = list(_delimited(message)) if messages.delimited else [message]
        except ValueError as error:
            reason = f"the message is no sequence of events with their lengths: {error}"
            unfit.append(Unfit(event=shown_text(message[:1_000]), reason=reason))
            return
        for place, event in enumerate(events):
            try:
                yield _value(plain, parse, event)
            except TooMuch as error:
                unfit.append(Unfit(event=shown_text(event[:1_000]), reason=str(error), count=len(events) - place))
                return
            except Exception as error:  # noqa: BLE001 - one event must not stop all later ones
                reason = why_unread(error, "event", f"the event is no {messages.message}: ")
                unfit.append(Unfit(event=shown_text(event[:1_000]), reason=reason))

    first = read_delimited if messages.delimited else read
    fast = MessageReading(parts=whole_message, read=first, values=values)
    slow = MessageReading(parts=fast.parts, read=untyped, values=values)
    return finite_values(partial(events_by, fast, schema=schema), partial(events_by, slow, schema=schema), schema)


def _delimited(message: bytes) -> Iterator[bytes]:
    """The events of a message, each of which has its length in front."""
    at, count = 0, 0
    while at < len(message):
        size, shift = 0, 0
        while True:
            if at >= len(message) or shift > 28:  # noqa: PLR2004 - five bytes of seven bits
                raise ValueError(f"byte {at:,} is not within a length")
            size, at, shift, more = size | (message[at] & 0x7F) << shift, at + 1, shift + 7, message[at] > 0x7F  # noqa: PLR2004 - seven bits a byte
            if not more:
                break
        if size > len(message) - at:
            raise ValueError(f"the event at byte {at:,} has {size:,} bytes, and {len(message) - at:,} are left")
        count += 1
        check_count(count)
        yield message[at : at + size]
        at += size


def _value(plain: _Convert, parse: _Convert, event: bytes) -> Any:
    """An event as JSON could hold it."""
    size = len(event)
    if size > _LARGEST_ENCODED:
        raise ValueError(f"the event has {size:,} bytes, and may have {_LARGEST_ENCODED:,}")
    try:
        value = plain(parse(event))
    except DecodeError as error:
        raise ValueError(str(error)) from None
    if size > _PLAINLY_SMALL and (length := len(msgspec.json.encode(value))) > LARGEST_EVENT:
        raise ValueError(why_too_large(length))
    return value
