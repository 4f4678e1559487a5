"""Inferred schemas: they take all samples, and say what remains open."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.formats.decoders import decoder
from bridge.raw_events import events_in
from dags import Kind, Schema
from dags.message_formats import (
    JSON,
    CsvMessages,
    JsonLinesMessages,
    MessageFormat,
    MsgpackMessages,
    SenmlMessages,
    TextMessages,
)
from manager.sources.inference import MOST_DECLARED_FIELDS, inferred, recognised, samples_in

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
TIMES = st.datetimes().map(lambda at: at.isoformat()) | st.sampled_from(
    ["2026-03-01", "20260301", "2026-13-01", "12:00"]
)
NUMBERS = st.integers() | st.integers(10**400, 10**401) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | TIMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
)
NAMES = st.sampled_from(["a", "b", "c", "_rest", ""])
ANY_EVENTS = st.lists(st.dictionaries(NAMES, VALUES), max_size=8)
OF_KIND: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.INTEGER: st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9).map(float),
    Kind.FLOAT: st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False),
    Kind.STRING: TEXTS | TIMES,
    Kind.TIMESTAMP: st.datetimes().map(lambda at: at.isoformat()) | st.integers(0, 10**13),
    Kind.JSON: VALUES,
}


def unfit(events: list[dict[str, Any]], schema: Schema) -> list[str]:
    """Why the receiver would reject events of a source with this schema."""
    _, rejected = events_in([json.dumps(event).encode() for event in events], schema)
    return [each.reason for each in rejected]


@given(st.data())
def test_a_schema_inferred_from_events_of_a_schema_takes_all_of_them(data: st.DataObject) -> None:
    """Whatever the schema, and whichever fields some of them lack."""
    schema = data.draw(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(Kind), max_size=6))
    fields: dict[str, st.SearchStrategy[Any]] = {name: st.none() | OF_KIND[kind] for name, kind in schema.items()}
    events = data.draw(st.lists(st.fixed_dictionaries({}, optional=fields), max_size=8))
    assert [] == unfit(events, Schema.of(schema))
    assert [] == unfit(events, Schema.of(inferred(events).fields))


@given(ANY_EVENTS)
def test_a_schema_inferred_from_any_events_takes_those_that_a_source_without_schema_takes(
    events: list[dict[str, Any]],
) -> None:
    """Also where the values of a field are of several types, or numbers beyond those of a machine."""
    fit = [event for event in events if not unfit([event], Schema.of())]
    assert [] == unfit(fit, Schema.of(inferred(fit).fields))


@pytest.mark.parametrize(
    ("values", "kind", "why"),
    [
        ([True, False, None], Kind.BOOLEAN, ""),
        ([1, 2], Kind.INTEGER, "every number is whole; if others may come, it is a float"),
        (
            [1_772_366_400_000],
            Kind.INTEGER,
            "the numbers may be times in milliseconds since 1970; if so, it is a timestamp",
        ),
        ([1, 2.0], Kind.FLOAT, ""),
        ([2**70], Kind.FLOAT, ""),
        (["2026-03-01T12:00:00Z", "2026-03-01"], Kind.TIMESTAMP, ""),
        (["2026-03-01", "later"], Kind.STRING, ""),
        (["20260301"], Kind.STRING, ""),
        (["a", 1, 1.5], Kind.JSON, "the values are numbers and texts, which only json takes"),
        ([True, 1], Kind.JSON, "the values are booleans and numbers, which only json takes"),
        ([{"a": 1}, []], Kind.JSON, ""),
    ],
)
def test_a_field_gets_the_narrowest_kind_that_takes_all_values(values: list[Any], kind: Kind, why: str) -> None:
    """What remains open is said."""
    schema = inferred([{"x": value} for value in values])
    assert ({"x": kind}, why) == (dict(schema.fields), "".join(each.why for each in schema.undecided))


def test_the_most_frequent_fields_are_declared() -> None:
    """If there are more than a source may declare; the rest is still in its events."""
    events = [{f"f{number}": "x"} for number in range(MOST_DECLARED_FIELDS + 50)] + [{"f299": "y"}, {"f298": "y"}]
    schema = inferred(events)
    assert (MOST_DECLARED_FIELDS, True) == (len(schema.fields), {"f298", "f299"} <= schema.fields.keys())
    assert ["there are 300 fields; the 250 most frequent are declared"] == [each.why for each in schema.undecided]


CELLS = st.sampled_from(
    ["", "1", "0", " 7", "1.5", "1e3", "nan", "true", "2026-03-01T12:00:00Z", "12:00", "a b", "1_0"]
)


@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6))
def test_a_schema_inferred_from_texts_takes_all_of_them(rows: list[tuple[str, str]]) -> None:
    """Each field as the narrowest kind that all its texts can be read as."""
    form = CsvMessages(columns=("a", "b"))
    message = "\n".join(map(",".join, rows)).encode()
    samples = samples_in([message], form)
    schema = Schema.of(inferred(samples.events, from_texts=True).fields)
    batch, rejected = decoder(form, schema)([message])
    assert (len(samples.events), ()) == (len(batch), rejected)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["0", "1"], Kind.INTEGER),
        (["1", "2.5"], Kind.FLOAT),
        (["true", "0"], Kind.BOOLEAN),
        (["2026-03-01"], Kind.TIMESTAMP),
        (["1", "-"], Kind.STRING),
    ],
)
def test_a_field_of_texts_gets_the_narrowest_kind(texts: list[str], kind: Kind) -> None:
    """Zeros and ones are numbers."""
    assert {"x": kind} == inferred([{"x": text} for text in texts], from_texts=True).fields


@pytest.mark.parametrize(
    ("messages", "form"),
    [
        ([], JSON),
        ([b'{"n": 1}', b"[]", b'[{"t": 2}]'], JSON),
        ([b'[{"n": "a", "v": 1}]'], JSON),
        ([b'[{"bn": "a/", "n": "b", "v": 1}, {"n": "c", "v": 2}]'], SenmlMessages()),
        ([b'[{"bn": "a/", "n": "b", "v": 1, "more": 2}]'], JSON),
        ([b'{"a": 1}\n{"a": 2}\n'], JsonLinesMessages()),
        ([msgspec.msgpack.encode({"a": 1}), msgspec.msgpack.encode([{"a": 2}])], MsgpackMessages()),
        ([b"21.5", b"-3"], TextMessages(field="value")),
        ([b"21.5", b"warm"], JSON),
        ([b"a,b\n1,2"], JSON),
        ([b"\xff\x00"], JSON),
    ],
)
def test_a_format_is_recognised_where_there_is_no_doubt(messages: list[bytes], form: MessageFormat) -> None:
    """What is read without any trouble may still be another format, and then it is taken for JSON."""
    assert form == recognised(messages)
