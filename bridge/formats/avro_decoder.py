"""Avro: single events of a schema, and object container files, which bring theirs.

Anybody's schema may come with a message, so it is checked before it is used: it must not refer to itself, be deep, or
have values that take no bytes, of which a short message could hold billions. Containers are read here, and only their
events by fastavro, so that a compressed block cannot grow without limit.
"""

import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from bridge.formats.flat_avro import FlatField, flat_fields, flat_reader
from bridge.formats.texts import Kinds
from bridge.formats.values import (
    MOST_HELD_VALUES,
    HeldValues,
    finite_values,
    plain,
    shown_value,
    whole_message,
)
from bridge.messages import LARGEST_EVENT, LARGEST_RAW_MESSAGE
from bridge.raw_events import (
    DEEPEST,
    MessageReading,
    TooMuch,
    Unfit,
    check_count,
    deeper_than,
    events_by,
    parsed,
    shown_text,
    too_much,
    untyped,
    why_too_large,
    why_unread,
)
from dags import Schema
from dags.message_formats import AvroMessages, UnusableFormat

_CONTAINER = b"Obj\x01"
_SINGLE = b"\xc3\x01"
_SYNC = 16
"""Bytes of the mark behind each block."""
_SIZES = 20
"""Bytes that the sizes before a block take at most."""
_LARGEST_ENCODED = 1_000_000
"""Bytes of one event. In memory, one of a byte takes hundreds."""
_PLAINLY_SMALL = 10_000
"""Bytes of an event that is not too large in any form, however often it repeats the names of its fields."""
_LARGEST_SCHEMA = 100_000
"""Bytes of a schema, as JSON."""
_LONGEST_NAMES = 4 * LARGEST_RAW_MESSAGE
"""Bytes that the names of fields may take in all events of a message, each of which repeats them."""
_PLAIN = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_TIMES = frozenset({"timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros", "date"})
"""The logical types that are read as such; values of others are read as what they are written as."""


class _UnfitSchema(ValueError):
    """A schema that no message is read by."""


class _Checked:
    """The check of one schema: a copy of it, without what is not needed, and with names in full."""

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}
        """Of named types that are complete, how deep they are."""
        self._names: set[str] = set()
        self._copies: Mapping[str, Callable[[Mapping[str, Any], str], tuple[Any, int]]] = {
            "array": self._many,
            "enum": self._enum,
            "error": self._record,
            "fixed": self._fixed,
            "map": self._many,
            "record": self._record,
        }
        """What copies a type of each kind. All others are plain, or named."""

    def copy(self, schema: Any, space: str = "") -> tuple[Any, int]:
        """The copy, and how deep it is."""
        match schema:
            case str():
                return (schema, 1) if schema in _PLAIN else self._named(schema, space)
            case list():
                return self._union(schema, space)
            case {"type": str() as kind}:
                return self._copies.get(kind, self._plain)(schema, space)
            case {"type": kind}:
                return self.copy(kind, space)
        raise _UnfitSchema(f"{str(schema)[:50]!r} is not a type")

    def _plain(self, schema: Mapping[str, Any], space: str) -> tuple[Any, int]:
        kind, logical = schema["type"], schema.get("logicalType")
        if kind in _PLAIN and logical in _TIMES:
            return {"type": kind, "logicalType": logical}, 1
        return self.copy(kind, space)

    def _many(self, schema: Mapping[str, Any], space: str) -> tuple[Any, int]:
        inside = "items" if schema["type"] == "array" else "values"
        copy, levels = self.copy(schema.get(inside), space)
        return {"type": schema["type"], inside: copy}, self._deeper(levels)

    def _enum(self, schema: Mapping[str, Any], space: str) -> tuple[Any, int]:
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not symbols or not all(isinstance(name, str) for name in symbols):
            raise _UnfitSchema("an enum has no symbols")
        return self._kept(schema, space, {"symbols": symbols})

    def _fixed(self, schema: Mapping[str, Any], space: str) -> tuple[Any, int]:
        size = schema.get("size")
        if not isinstance(size, int) or not 1 <= size <= _LARGEST_ENCODED:
            raise _UnfitSchema("a type of fixed size takes no bytes, or too many")
        return self._kept(schema, space, {"size": size})

    def _deeper(self, levels: int) -> int:
        if levels >= DEEPEST:
            raise _UnfitSchema(f"it is nested deeper than {DEEPEST} levels")
        return levels + 1

    def _union(self, branches: list[Any], space: str) -> tuple[Any, int]:
        copies = [("null", 1) if branch == "null" else self.copy(branch, space) for branch in branches]
        if not copies:
            raise _UnfitSchema("a union has no types")
        return [copy for copy, _ in copies], self._deeper(max(levels for _, levels in copies))

    def _named(self, name: str, space: str) -> tuple[Any, int]:
        full = _full_name(name, space)
        if (levels := self._levels.get(full)) is None:
            if full in self._names:
                raise _UnfitSchema(f"the type {name!r} refers to itself")
            if name == "null":
                raise _UnfitSchema("a value is always null, and takes no bytes")
            raise _UnfitSchema(f"{name[:100]!r} is not a type")
        return full, levels

    def _record(self, schema: Mapping[str, Any], space: str) -> tuple[Any, int]:
        full, inner = self._declared(schema, space)
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields:
            raise _UnfitSchema(f"the record {full!r} has no fields")
        copies, deepest = [], 0
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise _UnfitSchema(f"a field of the record {full!r} has no name")
            copy, levels = self.copy(field.get("type"), inner)
            deepest = max(deepest, levels)
            copies.append({"name": field["name"], "type": copy})
        self._levels[full] = self._deeper(deepest)
        return {"type": "record", "name": full, "fields": copies}, self._levels[full]

    def _kept(self, schema: Mapping[str, Any], space: str, more: Mapping[str, Any]) -> tuple[Any, int]:
        full, _ = self._declared(schema, space)
        self._levels[full] = 1
        return {"type": schema["type"], "name": full, **more}, 1

    def _declared(self, schema: Mapping[str, Any], space: str) -> tuple[str, str]:
        """The full name of a type, and the namespace of what is inside it."""
        name, own = schema.get("name"), schema.get("namespace", space)
        if not isinstance(name, str) or not isinstance(own, str):
            raise _UnfitSchema(f"a type of kind {schema['type']} has no name")
        full = _full_name(name, own)
        if full in self._names:
            raise _UnfitSchema(f"two types are named {full!r}")
        self._names.add(full)
        return full, full.rpartition(".")[0]


def _checked(schema: Any) -> Any:
    """A copy of a schema by which messages can be read; raises `_UnfitSchema` if none can."""
    if deeper_than(schema, 3 * DEEPEST):
        raise _UnfitSchema("it is nested too deeply")
    copy, _ = _Checked().copy(schema)
    return copy


def _full_name(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What events are written with."""

    schema: Any
    """As fastavro has parsed it."""
    mark: bytes
    """What a single event in the format of that name begins with."""
    names: int
    """Bytes that the names of fields take."""
    flat: Mapping[str, FlatField]
    """The fields of a record of plain values, which is read here; empty for any other type."""
    read: Callable[[io.BytesIO], Any]


@lru_cache(maxsize=100)
def _written(text: bytes) -> _Written:
    """What a schema, as JSON, says; raises `_UnfitSchema` if no message can be read by it."""
    from fastavro import parse_schema, schemaless_reader  # noqa: PLC0415 - an optional package, for this format only
    from fastavro.schema import fingerprint, to_parsing_canonical_form  # noqa: PLC0415 - as above

    if len(text) > _LARGEST_SCHEMA:
        raise _UnfitSchema(f"it has {len(text):,} bytes, and may have {_LARGEST_SCHEMA:,}")
    try:
        copy = _checked(parsed(text))
        schema = parse_schema(copy)
        check = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
    except _UnfitSchema:
        raise
    except Exception as error:  # noqa: BLE001 - the library has many
        raise _UnfitSchema(str(error)[:200]) from None
    return _Written(
        schema=schema,
        mark=_SINGLE + bytes.fromhex(check),
        names=len(json.dumps(copy)),
        flat=flat_fields(copy),
        read=lambda stream: schemaless_reader(stream, schema, None),
    )


_META = b'{"type": "map", "values": "bytes"}'
_LONG = b'"long"'


class AvroDecoder:
    """A decoder of Avro messages."""

    def __init__(self, messages: AvroMessages, schema: Schema, _kinds: Kinds) -> None:
        self._schema = schema
        self._written: _Written | None = None
        self._last: _Written | None = None
        """What the events that were read last were written with, and what reads such events if they are flat."""
        self._flat = flat_reader({}, schema)
        try:
            _written(_LONG)
        except ImportError as error:
            raise UnusableFormat(f"Avro needs fastavro ({error}); install braid[avro] on every host") from error
        if messages.writer_schema is not None:
            try:
                self._written = _written(json.dumps(messages.writer_schema).encode())
            except _UnfitSchema as error:
                raise UnusableFormat(f"the writer's schema cannot be used: {error}") from error
        fast = MessageReading(parts=whole_message, read=self._typed, values=self._values)
        slow = MessageReading(parts=whole_message, read=untyped, values=self._values)
        self._decode = finite_values(
            partial(events_by, fast, schema=schema), partial(events_by, slow, schema=schema), schema
        )

    def __call__(self, messages: Sequence[bytes]) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
        """The events of messages as columns, and what is unfit of them."""
        return self._decode(messages)

    def _typed(self, message: bytes) -> list[Any]:
        """The events of a message if they are flat and all their fields declared; raises an error if they are not."""
        if (single := self._written) is not None and not message.startswith(_CONTAINER):
            return self._flat_events(single, 1, message.removeprefix(single.mark))
        events: list[Any] = []
        for written, count, block in self._blocks(message):
            events += self._flat_events(written, count, block)
        return events

    def _flat_events(self, written: _Written, count: int, block: bytes) -> list[Any]:
        if written is not self._last:
            self._last, self._flat = written, flat_reader(written.flat, self._schema)
        return self._flat(count, block)

    def _values(self, message: bytes, unfit: list[Unfit]) -> Iterator[Any]:
        try:
            blocks = list(self._blocks(message))
        except TooMuch as error:
            unfit.append(too_much(message, error))
            return
        except Exception as error:  # noqa: BLE001 - one message must not stop all later ones
            reason = why_unread(error, "message", "the message is not Avro: ")
            unfit.append(Unfit(event=shown_text(message[:1_000]), reason=reason))
            return
        held = HeldValues(MOST_HELD_VALUES)
        for written, count, block in blocks:
            yield from _events(written, count, block, unfit, held)

    def _blocks(self, message: bytes) -> Iterator[tuple[_Written, int, bytes]]:
        """The schema of a message's events, how many there are, and their bytes; by blocks."""
        if message.startswith(_CONTAINER):
            yield from _container(message)
            return
        if self._written is None:
            raise ValueError("it is no object container file, and the source's format has no writer_schema")
        yield self._written, 1, message.removeprefix(self._written.mark)


def _container(message: bytes) -> Iterator[tuple[_Written, int, bytes]]:
    stream = io.BytesIO(message)
    stream.seek(len(_CONTAINER))
    meta = _written(_META).read(stream)
    codec = _codec(meta)
    written = _written(meta.get("avro.schema", b""))
    sync, read_long = stream.read(_SYNC), _written(_LONG).read
    events, left = 0, LARGEST_RAW_MESSAGE
    while stream.tell() < len(message):
        count, size = read_long(stream), read_long(stream)
        block = stream.read(max(size, 0))
        if len(block) != size or count < 0 or stream.read(_SYNC) != sync or len(sync) < _SYNC:
            raise ValueError("a block of it is damaged")
        if codec == b"deflate":
            block = _inflated(block, left)
        events, left = events + count, left - len(block)
        check_count(events)
        if written.names * events > _LONGEST_NAMES:
            raise TooMuch("its schema is too long for so many events; send several messages")
        yield written, count, block


def _codec(meta: Mapping[str, bytes]) -> bytes:
    codec = meta.get("avro.codec", b"null")
    if codec not in {b"null", b"deflate"}:
        raise ValueError(f"its codec is {shown_text(codec)[:50]!r}, and may be null or deflate")
    return codec


def _inflated(block: bytes, most: int) -> bytes:
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    whole = inflating.decompress(block, most + 1)
    if len(whole) > most:
        raise TooMuch(f"the message has more than {LARGEST_RAW_MESSAGE:,} bytes once it is decompressed; send several")
    if not inflating.eof:
        raise ValueError("a block of it is damaged")
    return whole


def _events(written: _Written, count: int, block: bytes, unfit: list[Unfit], held: HeldValues) -> Iterator[Any]:
    """The events in a block."""
    start = 0
    stream, behind = io.BytesIO(block[: 2 * _LARGEST_ENCODED]), 0
    for place in range(count):
        if start - behind > _LARGEST_ENCODED:
            # So that no event is longer than what is given to the library.
            stream, behind = io.BytesIO(block[start : start + 2 * _LARGEST_ENCODED]), start
        try:
            event = written.read(stream)
            size, start = behind + stream.tell() - start, behind + stream.tell()
        except Exception as error:  # noqa: BLE001 - one message must not stop all later ones
            # The library's text has an address in memory.
            why = (
                f"the event is not of its schema: {'it ends too soon' if isinstance(error, EOFError) else repr(error)}"
            )
            unfit.append(Unfit(event=shown_text(block[start : start + 1_000]), reason=why, count=count - place))
            return
        try:
            left = len(block) - start if place == count - 1 else 0
            yield _value(event, size, left, held)
        except TooMuch as error:
            unfit.append(Unfit(event=shown_value(event), reason=str(error), count=count - place))
            return
        except (ValueError, RecursionError) as error:
            unfit.append(Unfit(event=shown_value(event), reason=why_unread(error, "event")))


def _value(event: Any, size: int, left: int, held: HeldValues) -> Any:
    """An event of so many bytes, as JSON could hold it; there must be no bytes left behind the last one."""
    if left:
        raise ValueError(f"{left:,} bytes are left behind the event, so it was written with another schema")
    if size > _LARGEST_ENCODED:
        raise ValueError(f"the event has {size:,} bytes of Avro, and may have {_LARGEST_ENCODED:,}")
    value = plain(event, held)
    if size > _PLAINLY_SMALL and (length := len(msgspec.json.encode(value))) > LARGEST_EVENT:
        raise ValueError(why_too_large(length))
    return value


def container_blocks(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The blocks of an object container file: how many events each has, and a container that holds it alone."""
    head = stream.read(2 * _LARGEST_SCHEMA)
    if not head.startswith(_CONTAINER):
        raise ValueError("it is no object container file")
    start = io.BytesIO(head)
    start.seek(len(_CONTAINER))
    _codec(_written(_META).read(start))
    sync = start.read(_SYNC)
    head, rest = head[: start.tell()], head[start.tell() :]
    read_long = _written(_LONG).read
    while rest := rest + stream.read(_SIZES - min(_SIZES, len(rest))):
        sizes = io.BytesIO(rest)
        count, size = read_long(sizes), read_long(sizes)
        if count < 0 or not 0 <= size <= LARGEST_RAW_MESSAGE:
            raise ValueError(f"a block of it is damaged, or has more than {LARGEST_RAW_MESSAGE:,} bytes")
        whole = sizes.tell() + size + _SYNC
        rest += stream.read(max(0, whole - len(rest)))
        block, rest = rest[:whole], rest[whole:]
        if not block.endswith(sync) or len(block) < whole:
            raise ValueError("a block of it is damaged")
        yield count, head + block
