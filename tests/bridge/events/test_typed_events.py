"""Typed events: what they read is what is read value by value, whatever the events are."""

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge import raw_events
from bridge.raw_events import REST_COLUMN, TypedEvents, arrow_schema, events_in, typed_events
from dags import Kind, Schema

SCHEMA = Schema.of(
    {"b": Kind.BOOLEAN, "i": Kind.INTEGER, "f": Kind.FLOAT, "s": Kind.STRING, "at": Kind.TIMESTAMP}
).plus("j", Kind.JSON)
NUMBERS = (
    st.integers(-(2**65), 2**65) | st.floats(allow_nan=False) | st.sampled_from(["-0", "-0.0", "1e3", "3.0", "1e400"])
)
TIMES = st.sampled_from(["2026-01-01", "2026-01-01T10:00:00+02:00", "0001-01-01T00:00:00+01:00", "noon"])
TEXTS = st.text(st.characters(), max_size=5) | TIMES
FLAT = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = FLAT | st.lists(FLAT, max_size=2) | st.dictionaries(TEXTS, FLAT, max_size=2)
EVENTS = st.dictionaries(st.sampled_from([*SCHEMA.fields, "more", REST_COLUMN, "undeclared"]), VALUES, max_size=7)
CONTENTS = EVENTS | st.lists(EVENTS | VALUES, max_size=3) | VALUES


def refused(_self: TypedEvents, _message: bytes) -> Any:
    raise msgspec.ValidationError


def value_by_value(messages: list[bytes], schema: Schema) -> tuple[pa.RecordBatch, tuple[raw_events.Unfit, ...]]:
    """The events, none of which is read as a typed one."""
    typed = typed_events(schema)
    read = typed.read
    typed.read = lambda message: refused(typed, message)
    try:
        return events_in(messages, schema)
    finally:
        typed.read = read


@given(messages=st.lists(CONTENTS.map(json.dumps).map(str.encode) | st.binary(max_size=9), max_size=5))
@example(messages=[b'{"i": 1, "i": "one"}', b'{"i": "one", "i": 1}', b'{"f": 1, "f": null}', b'{"f": -0}'])
@example(messages=[b'{"s": "\\ud800"}', b'{"s": "\x01"}', b'{"f": 1e999}', b'{"f": NaN}', b"[]", b"[{}, []]"])
@example(messages=[b'{"i": 9223372036854775807}', b'{"i": 9223372036854775808}', b'{"f": 123456789012345678901}'])
@example(messages=[b'{"at": 253402300799999}', b'{"at": 253402300800000}', b'{"at": -62135596800000}', b'{"at": 1.5}'])
def test_typed_events_are_those_that_are_read_value_by_value(messages: list[bytes]) -> None:
    """The columns, the undeclared fields and the reasons of unfit events are the same in both ways."""
    assert value_by_value(messages, SCHEMA) == events_in(messages, SCHEMA)


@pytest.mark.parametrize("name", ["", "a b", "field0", "undeclared", "_", REST_COLUMN + "_", "\N{SNOWMAN}"])
def test_a_field_may_have_any_name(name: str) -> None:
    """It is read as typed; and a field that is only named like one inside is undeclared."""
    schema = Schema.of({name: Kind.INTEGER})
    batch, unfit = events_in([json.dumps({name: 5}).encode(), json.dumps({name + "_": None}).encode()], schema)
    assert ([5, None], ()) == (batch.column(name).to_pylist(), unfit)
    assert [None, json.dumps({name + "_": None}, separators=(",", ":"), ensure_ascii=False)] == batch.column(
        1
    ).to_pylist()
    assert typed_events(schema).read(json.dumps({name: 5}).encode())


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\x1bb", "field0\n"])
def test_a_field_whose_name_json_escapes_is_read(name: str) -> None:
    """Value by value; what is named like a field inside is undeclared."""
    schema = Schema.of({name: Kind.INTEGER})
    messages = [json.dumps({name: 5}).encode(), b'{"field0": 6}', json.dumps({name: "five"}).encode()]
    batch, unfit = events_in(messages, schema)
    assert ([5, None], 1) == (batch.column(name).to_pylist(), len(unfit))
    assert [None, '{"field0":6}'] == batch.column(1).to_pylist()


def test_usual_events_are_read_as_typed() -> None:
    """Otherwise each of them would be read in both ways."""
    content = {"b": True, "i": 1, "f": 2, "s": "x", "at": "2026-01-01", "j": {"k": [1]}}
    typed = typed_events(SCHEMA)
    for each in (content, {**content, "at": 5}, {}, dict.fromkeys(content)):
        message = json.dumps(each).encode()
        assert value_by_value([message], SCHEMA)[0] == typed.batch([typed.read(message)], arrow_schema(SCHEMA))
