"""Records of Avro whose fields are plain values, which most are: read straight into the places for a source's fields.

The general way makes a dictionary of an event, a copy of it that JSON could hold, and a row of that. Here the bytes are
read into the row. What is unusual, wrong or large raises an error, and is then read in the general way, which finds
out what it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from struct import Struct
from types import MappingProxyType
from typing import Any, TypeAlias

from bridge.raw_events import CONVERTED, typed_events
from dags import Kind, Schema

_Read: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Reads a value at a place, and returns it with the place behind it."""
_LARGEST = 10_000
"""Bytes of an event that is not too large in any form."""
_LONGEST_WHOLE = 10
"""Bytes of a whole number."""


@dataclass(frozen=True, slots=True)
class FlatField:
    """A field of a plain value; made by `flat_fields`."""

    kind: str
    """The type of Avro."""
    logical: str = ""
    null_at: int = -1
    """Which of two branches is null; negative if the value is never null."""


def flat_fields(schema: Any) -> Mapping[str, FlatField]:
    """The fields of a record of plain values; empty if the schema is another.

    >>> flat_fields({"type": "record", "name": "a", "fields": [{"name": "t", "type": ["null", "long"]}]})
    mappingproxy({'t': FlatField(kind='long', logical='', null_at=0)})
    """
    if not isinstance(schema, dict) or schema["type"] != "record":
        return {}
    fields = {field["name"]: _flat_field(field["type"]) for field in schema["fields"]}
    flat = {name: field for name, field in fields.items() if field is not None}
    return MappingProxyType(flat) if len(flat) == len(schema["fields"]) else {}


def _flat_field(kind: Any) -> FlatField | None:
    match kind:
        case ["null", other] if (inner := _flat_field(other)) is not None and inner.null_at < 0:
            return FlatField(inner.kind, inner.logical, 0)
        case [other, "null"] if (inner := _flat_field(other)) is not None and inner.null_at < 0:
            return FlatField(inner.kind, inner.logical, 1)
        case str() if kind in _READS:
            return FlatField(kind)
        case {"type": "long", "logicalType": "timestamp-millis"}:
            return FlatField("long", "timestamp-millis")
    return None


def _whole(block: bytes, at: int) -> tuple[int, int]:
    byte = block[at]
    at += 1
    if byte < 0x80:  # noqa: PLR2004 - seven bits a byte
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while byte > 0x7F:  # noqa: PLR2004 - as above
        byte = block[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
    if shift > 7 * _LONGEST_WHOLE or value >= 1 << 64:
        raise ValueError
    return (value >> 1) ^ -(value & 1), at


def _text(block: bytes, at: int) -> tuple[str, int]:
    size, at = _whole(block, at)
    end = at + size
    if size < 0 or end > len(block):
        raise ValueError
    return block[at:end].decode(), end


def _flag(block: bytes, at: int) -> tuple[bool, int]:
    if (byte := block[at]) > 1:
        raise ValueError
    return byte == 1, at + 1


_DOUBLE, _FLOAT = Struct("<d").unpack_from, Struct("<f").unpack_from


def _double(block: bytes, at: int) -> tuple[float, int]:
    return _DOUBLE(block, at)[0], at + 8


def _float(block: bytes, at: int) -> tuple[float, int]:
    return _FLOAT(block, at)[0], at + 4


_READS: Mapping[str, _Read] = MappingProxyType(
    {"int": _whole, "long": _whole, "string": _text, "boolean": _flag, "double": _double, "float": _float}
)
_FITTING: Mapping[Kind, tuple[FlatField, ...]] = MappingProxyType(
    {
        Kind.BOOLEAN: (FlatField("boolean"),),
        Kind.INTEGER: (FlatField("long"), FlatField("int")),
        Kind.FLOAT: (FlatField("double"), FlatField("float")),
        Kind.STRING: (FlatField("string"),),
        Kind.TIMESTAMP: (FlatField("long", "timestamp-millis"),),
    }
)
"""For each kind the fields whose values are read as one of it."""


def _time(block: bytes, at: int) -> tuple[object, int]:
    value, at = _whole(block, at)
    return CONVERTED[Kind.TIMESTAMP](value), at


def _or_null(read: _Read, null_at: int) -> _Read:
    null, other = 2 * null_at, 2 - 2 * null_at

    def either(block: bytes, at: int) -> tuple[Any, int]:
        branch = block[at]
        if branch == other:
            return read(block, at + 1)
        if branch != null:
            raise ValueError
        return None, at + 1

    return either


def flat_reader(fields: Mapping[str, FlatField], schema: Schema) -> Callable[[int, bytes], list[Any]]:
    """What reads so many events in a block, typed by a schema; it raises an error if any of them is unusual."""
    if not fields:
        return _unusual
    reads: list[_Read] = []
    for name, field in fields.items():
        kind = schema.fields.get(name)
        if kind is None or FlatField(field.kind, field.logical) not in _FITTING.get(kind, ()):
            return _unusual
        read = _time if field.logical else _READS[field.kind]
        reads.append(read if field.null_at < 0 else _or_null(read, field.null_at))
    # A value more than there are fields is null, for columns that an event does not have.
    names, event = [*fields], typed_events(schema).event
    ordered = itemgetter(*(names.index(name) if name in fields else len(names) for name in (*schema.names(), "")))

    def flat(count: int, block: bytes) -> list[Any]:
        events: list[Any] = []
        at = 0
        for _ in range(count):
            start = at
            row: list[Any] = []
            for read in reads:
                value, at = read(block, at)
                row.append(value)
            row.append(None)
            if at - start > _LARGEST:
                raise ValueError
            events.append(event(*ordered(row)))
        if at != len(block):
            raise ValueError
        return events

    return flat


def _unusual(_count: int, _block: bytes) -> list[Any]:
    raise ValueError
