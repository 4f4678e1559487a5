"""Avro: what fastavro has written is what is read, and no schema or message harms a host."""

import io
import json
import struct
import sys
import time
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.formats import avro_decoder
from bridge.formats.decoders import decoder
from bridge.messages import MOST_RAW_EVENTS
from bridge.raw_events import DEEPEST, REST_COLUMN, events_in
from dags import Kind, Schema
from dags.message_formats import AvroMessages, UnusableFormat

fastavro = pytest.importorskip("fastavro")

SCHEMA = Schema.of(
    {"b": Kind.BOOLEAN, "i": Kind.INTEGER, "f": Kind.FLOAT, "s": Kind.STRING, "at": Kind.TIMESTAMP}
).plus("j", Kind.JSON)
WRITTEN: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "namespace": "city",
    "fields": [
        {"name": "b", "type": ["null", "boolean"], "default": None},
        {"name": "i", "type": "long"},
        {"name": "f", "type": "double"},
        {"name": "s", "type": "string"},
        {"name": "j", "type": {"type": "array", "items": {"type": "map", "values": "string"}}},
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}},
        {"name": "other", "type": ["null", "Place"]},
        {"name": "kind", "type": {"type": "enum", "name": "kinds.Kind", "symbols": ["A", "B"]}},
    ],
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
PLACES = st.fixed_dictionaries({"x": st.integers(-(2**31), 2**31 - 1)})
EVENTS = st.fixed_dictionaries(
    {
        "b": st.none() | st.booleans(),
        "i": st.integers(-(2**63), 2**63 - 1),
        "f": st.floats(allow_nan=False, allow_infinity=False),
        "s": TEXTS,
        "j": st.lists(st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=2),
        "place": PLACES,
        "other": st.none() | PLACES,
        "kind": st.sampled_from("AB"),
    }
)


def single(event: Any, written: Any = None) -> bytes:
    """One event, as its writer has it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(written or WRITTEN), event)
    return stream.getvalue()


def container(events: Sequence[Any], written: Any = None, codec: str = "null") -> bytes:
    """An object container file."""
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(written or WRITTEN), events, codec=codec, sync_interval=100)
    return stream.getvalue()


def by_hand(written: Any, blocks: Sequence[tuple[int, bytes]], codec: bytes = b"null") -> bytes:
    """An object container file of any schema and blocks."""

    def whole(number: int) -> bytes:
        zigzag, text = (number << 1) ^ (number >> 63), bytearray()
        while zigzag > 0x7F:
            text.append(zigzag & 0x7F | 0x80)
            zigzag >>= 7
        return bytes([*text, zigzag])

    def text(of: bytes) -> bytes:
        return whole(len(of)) + of

    meta = whole(2) + text(b"avro.codec") + text(codec) + text(b"avro.schema") + text(json.dumps(written).encode())
    sync = b"s" * 16
    return b"Obj\x01" + meta + b"\0" + sync + b"".join(whole(many) + text(block) + sync for many, block in blocks)


def reasons(*messages: bytes, written: Any = None) -> list[str]:
    """Why messages are unfit; none of them has an event."""
    batch, unfit = decoder(AvroMessages(writer_schema=written), SCHEMA)(messages)
    assert 0 == len(batch)
    return [event.reason for event in unfit]


@given(events=st.lists(EVENTS, max_size=4))
def test_events_in_avro_are_those_in_json(events: list[dict[str, Any]]) -> None:
    """One event a message, plain or with the mark of its schema; and containers, compressed or not."""
    decode = decoder(AvroMessages(writer_schema=WRITTEN), SCHEMA)
    events = [{field["name"]: event[field["name"]] for field in WRITTEN["fields"]} for event in events]
    expected, _ = events_in([json.dumps(events).encode()], SCHEMA)
    mark = avro_decoder._written(json.dumps(WRITTEN).encode()).mark
    for messages in (
        [single(event) for event in events],
        [mark + single(event) for event in events],
        [container(events)],
        [container(events[:1], codec="deflate"), container(events[1:], codec="deflate")],
    ):
        batch, unfit = decode(messages)
        assert ((), expected.to_pylist()) == (unfit, batch.to_pylist())


def test_the_mark_of_a_schema_is_that_of_the_standard() -> None:
    """The fingerprint in little-endian order, as the standard's own library has it."""
    assert bytes.fromhex("c301b71df49344e154d0") == avro_decoder._written(b'"long"').mark


def test_times_are_times_and_bytes_are_text() -> None:
    """Other logical types are read as what they are written as."""
    at = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)
    fields = [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "s", "type": "bytes"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
    ]
    written = {"type": "record", "name": "E", "fields": fields}
    plain = {"type": "record", "name": "E", "fields": [*fields[:2], {"name": "price", "type": "bytes"}]}
    message = single({"at": at, "s": b"abc", "price": b"\x01"}, plain)
    (event,) = decoder(AvroMessages(writer_schema=written), SCHEMA)([message])[0].to_pylist()
    assert (at, "YWJj", '{"price":"AQ=="}') == (event["at"], event["s"], event[REST_COLUMN])


def linked(levels: int) -> dict[str, Any]:
    """Records in each other, all by name."""
    first: dict[str, Any] = {"type": "record", "name": "R0", "fields": [{"name": "i", "type": "int"}]}
    union: list[Any] = [first]
    union += [
        {"type": "record", "name": f"R{level}", "fields": [{"name": "a", "type": f"R{level - 1}"}]}
        for level in range(1, levels)
    ]
    return {"type": "record", "name": "All", "fields": [{"name": "u", "type": union}]}


UNUSABLE = {
    "null": ("null", "takes no bytes"),
    "no fields": ({"type": "record", "name": "E", "fields": []}, "has no fields"),
    "many nulls": ({"type": "array", "items": "null"}, "takes no bytes"),
    "nothing": ({"type": "fixed", "name": "F", "size": 0}, "takes no bytes"),
    "itself": (
        {"type": "record", "name": "E", "fields": [{"name": "next", "type": ["null", "E"]}]},
        "refers to itself",
    ),
    "deep": (linked(DEEPEST + 1), "nested deeper"),
    "unknown": ({"type": "record", "name": "E", "fields": [{"name": "a", "type": "Place"}]}, "'Place' is not a type"),
    "no type": (3, "is not a type"),
    "parsed already": (
        {"__fastavro_parsed__": True, "__named_schemas": {}, "type": "record", "name": "E", "fields": [3]},
        "has no name",
    ),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_schemas_that_could_harm_a_host_are_refused(name: str) -> None:
    """Whether they are registered, or come with a message."""
    written, why = UNUSABLE[name]
    with pytest.raises(UnusableFormat, match=why):
        decoder(AvroMessages(writer_schema=written), SCHEMA)
    (reason,) = reasons(by_hand(written, [(1 << 60, b"")]))
    assert why in reason


LONGS = {"type": "record", "name": "E", "fields": [{"name": "i", "type": "long"}]}


def test_containers_are_bounded() -> None:
    """In events and in bytes, which are counted as they are without compression."""
    many = MOST_RAW_EVENTS // 2
    batch, unfit = decoder(AvroMessages(), SCHEMA)([by_hand(LONGS, [(many, b"\x02" * many)] * 2)])
    assert (2 * many, ()) == (len(batch), unfit)
    (reason,) = reasons(by_hand(LONGS, [(many, b"\x02" * many)] * 2 + [(1, b"\x02")]))
    assert "the message has 100,001 events" in reason
    squeezing = zlib.compressobj(9, wbits=-15)
    bomb = squeezing.compress(b"\x02" * 50_000_000) + squeezing.flush()
    (reason,) = reasons(by_hand(LONGS, [(10, bomb)], b"deflate"))
    assert "once it is decompressed" in reason
    (reason,) = reasons(by_hand(LONGS, [(1, b"\x02")], b"bzip2"))
    assert "its codec is 'bzip2'" in reason
    named = {"type": "record", "name": "E", "fields": [{"name": "i" * 50_000, "type": "long"}]}
    (reason,) = reasons(by_hand(named, [(1_000, b"\x02" * 1_000)]))
    assert "its schema is too long" in reason


def test_events_are_bounded() -> None:
    """In bytes, and in what they are as JSON; those beside them are read."""
    texts = {"type": "record", "name": "E", "fields": [{"name": "s", "type": "string"}]}
    events = [{"s": "x" * size} for size in (900_000, 1_100_000, 900_000)]
    batch, unfit = decoder(AvroMessages(), SCHEMA)([container(events, texts)])
    assert (2, ["the event has 1,100,004 bytes of Avro, and may have 1,000,000"]) == (
        len(batch),
        [event.reason for event in unfit],
    )
    items = {"type": "record", "name": "I", "fields": [{"name": "long" * 40, "type": "int"}]}
    lists = {"type": "record", "name": "E", "fields": [{"name": "j", "type": {"type": "array", "items": items}}]}
    (reason,) = reasons(single({"j": [{"long" * 40: 1}] * 50_000}, lists), written=lists)
    assert "and may have 4,000,000; send less in one event" in reason


def test_what_is_damaged_counts_with_all_behind_it() -> None:
    """And an event is not taken if it does not fill its message."""
    message = by_hand(LONGS, [(3, b"\x02\x04\x80")])
    batch, unfit = decoder(AvroMessages(), SCHEMA)([message])
    assert ([1, 2], [1]) == (batch.column("i").to_pylist(), [event.count for event in unfit])
    assert ["1 bytes are left behind the event, so it was written with another schema"] == reasons(
        b"\x02\x02", written=LONGS
    )
    assert ["the message is not Avro: a block of it is damaged"] == reasons(message[:-1])
    assert [
        "the message is not Avro: it is no object container file, and the source's format has no writer_schema"
    ] == (reasons(b"\x02"))
    number = {"type": "record", "name": "E", "fields": [{"name": "f", "type": "double"}]}
    assert ["the field 'f' should be of kind float"] == reasons(struct.pack("<d", float("inf")), written=number)


@given(message=st.binary(max_size=40), cut=st.integers(0, 200), flips=st.lists(st.integers(0, 200), max_size=3))
def test_hostile_bytes_raise_nothing_and_vanish_nowhere(message: bytes, cut: int, flips: list[int]) -> None:
    """Neither as events nor as containers, which are cut off and changed."""
    damaged = bytearray(container([{"i": 1}, {"i": 2}], LONGS)[:cut])
    for flip in flips:
        if flip < len(damaged):
            damaged[flip] ^= 0x55
    decode = decoder(AvroMessages(writer_schema=WRITTEN), SCHEMA)
    for sent in (message, b"Obj\x01" + message, bytes(damaged)):
        batch, unfit = decode([sent])
        assert len(batch) or unfit or (sent.startswith(b"Obj\x01") and len(sent) < len(container([{"i": 1}], LONGS)))


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a remedy."""
    monkeypatch.setitem(sys.modules, "fastavro", None)
    avro_decoder._written.cache_clear()
    with pytest.raises(UnusableFormat, match=r"install braid\[avro\] on every host"):
        decoder(AvroMessages(), SCHEMA)


def test_what_lists_hold_is_bounded() -> None:
    """A byte of Avro may be a list, of which one event holds a million at most and all events some more."""
    written = {
        "type": "record",
        "name": "Event",
        "fields": [{"name": "j", "type": {"type": "array", "items": {"type": "array", "items": "int"}}}],
    }
    event = b"\x80\xf1\x04" + b"\0" * 40_000 + b"\0"
    begun = time.process_time()
    batch, unfit = decoder(AvroMessages(), SCHEMA)([by_hand(written, [(100, event * 100), (90, event * 90)])])
    assert time.process_time() - begun < 4
    assert 190 == len(batch) + sum(report.count for report in unfit)
    assert "too many values" in unfit[0].reason
    assert len(batch) < 20


FLAT: dict[str, Any] = {
    "type": "record",
    "name": "Flat",
    "fields": [
        {"name": "s", "type": "string"},
        {"name": "i", "type": ["null", "long"]},
        {"name": "b", "type": ["boolean", "null"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "f", "type": "double"},
    ],
}
FLAT_EVENTS = st.fixed_dictionaries(
    {
        "s": TEXTS,
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | st.booleans(),
        "at": st.integers(-(10**15), 10**15) | st.sampled_from([-62_135_596_800_000, 253_402_300_799_999]),
        "f": st.floats(),
    }
)
FLAT_SCHEMA = Schema.of(
    {"b": Kind.BOOLEAN, "i": Kind.INTEGER, "f": Kind.FLOAT, "s": Kind.STRING, "at": Kind.TIMESTAMP, "none": Kind.FLOAT}
)


@given(
    events=st.lists(FLAT_EVENTS, max_size=4),
    cut=st.integers(0, 3),
    wrong=st.binary(max_size=2),
    noise=st.binary(max_size=12),
)
def test_flat_records_are_read_as_all_others_are(events: list[Any], cut: int, wrong: bytes, noise: bytes) -> None:
    """Whatever is in them, also where they are damaged."""
    plain = {**FLAT, "fields": [{**field} for field in FLAT["fields"]]}
    plain["fields"][3] = {"name": "at", "type": "long"}
    whole = [single(event, plain) for event in events]
    messages = [
        *whole,
        noise,
        *(event[: -cut or None] + wrong for event in whole),
        by_hand(FLAT, [(len(whole), b"".join(whole))]),
        by_hand(FLAT, [(len(whole), b"".join(whole) + wrong)]),
    ]
    form = AvroMessages(writer_schema=FLAT)
    at_once = [decoder(form, FLAT_SCHEMA)([message]) for message in messages]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(avro_decoder, "flat_reader", lambda _fields, _schema: untyped_block)
        one_by_one = [decoder(form, FLAT_SCHEMA)([message]) for message in messages]
    for (batch, unfit), (expected, reported) in zip(at_once, one_by_one, strict=True):
        assert expected.to_pylist() == batch.to_pylist()
        assert reported == unfit


def untyped_block(_count: int, _block: bytes) -> list[Any]:
    """What reads no block at once."""
    raise ValueError
