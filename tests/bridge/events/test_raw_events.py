"""Raw events: the parts of a message that fit the schema of its source, and those that do not."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.raw_events import DEEPEST, EARLIEST, LATEST, REST_COLUMN, arrow_schema, events_in
from dags import Kind, Schema

KINDS = {Kind.BOOLEAN: (bool,), Kind.INTEGER: (int,), Kind.FLOAT: (int, float), Kind.STRING: (str,)}
NAMES = st.sampled_from("abcd")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
SCHEMAS = st.dictionaries(NAMES, st.sampled_from(sorted(KINDS)), max_size=4).map(Schema.of)
EVENTS = st.one_of(st.dictionaries(NAMES, VALUES, max_size=4), VALUES)
MESSAGES = st.lists(st.one_of(EVENTS, st.lists(EVENTS, max_size=3)).map(json.dumps) | st.just("{"), max_size=6)


def fits(value: Any, kind: Kind) -> bool:
    """Whether a value is of a kind; a whole number may be written as a float."""
    if value is None:
        return True
    if isinstance(value, bool) != (kind is Kind.BOOLEAN):
        return False
    whole = isinstance(value, float) and value.is_integer() and -(2.0**63) <= value < 2.0**63
    return isinstance(value, KINDS[kind]) or (kind is Kind.INTEGER and whole)


def expected(message: str, schema: Schema) -> tuple[list[dict[str, Any]], int]:
    """The rows of a message, and how much of it is unfit, value by value."""
    try:
        content = json.loads(message)
    except ValueError:
        return [], 1
    rows, unfit = [], 0
    for event in content if isinstance(content, list) else [content]:
        if not isinstance(event, dict) or not all(fits(event.get(name), kind) for name, kind in schema.fields.items()):
            unfit += 1
            continue
        rest = {name: value for name, value in event.items() if name not in schema.fields}
        rows.append({**{name: event.get(name) for name in schema.fields}, REST_COLUMN: rest or None})
    return rows, unfit


@given(messages=MESSAGES, schema=SCHEMAS)
def test_each_event_that_fits_is_a_row_of_its_values(messages: list[str], schema: Schema) -> None:
    """Events of any messages, in order, with undeclared fields in one column; unfit ones are reported one by one."""
    batch, unfit = events_in([message.encode() for message in messages], schema)
    each = [expected(message, schema) for message in messages]
    rows = [{**row, REST_COLUMN: row[REST_COLUMN] and json.loads(row[REST_COLUMN])} for row in batch.to_pylist()]
    assert [row for found, _ in each for row in found] == rows
    assert sum(count for _, count in each) == len(unfit)
    assert arrow_schema(schema) == batch.schema


def test_times_and_json_are_columns_too() -> None:
    """Times in any notation, JSON of any kind as its text; absent values are null."""
    content = [
        {"at": 1_000, "raw": {"b": [1, None]}},
        {"at": "1970-01-01T00:00:02", "raw": "text"},
        {"at": "1970-01-01T01:00:03.500+01:00", "raw": 4},
        {"at": None},
        {"at": "noon"},
    ]
    batch, (unfit,) = events_in(
        [json.dumps(each).encode() for each in content], Schema.of(at=Kind.TIMESTAMP, raw=Kind.JSON)
    )
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert [*(epoch + timedelta(seconds=each) for each in (1, 2, 3.5)), None] == batch.column("at").to_pylist()
    assert ['{"b":[1,null]}', '"text"', "4", None] == batch.column("raw").to_pylist()
    assert "the field 'at' should be of kind timestamp" == unfit.reason


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1.5, math.pi])
def test_a_number_that_a_column_cannot_hold_is_unfit(value: float) -> None:
    """Its event is reported with the field and its kind, and the events beside it go on."""
    messages = [json.dumps({"a": each}).encode() for each in (1, value, 2)]
    batch, (unfit,) = events_in(messages, Schema.of(a=Kind.INTEGER))
    assert [1, 2] == batch.column("a").to_pylist()
    assert ("the field 'a' should be of kind integer", {"a": value}) == (unfit.reason, json.loads(unfit.event))


def _nested(levels: int, shape: str) -> str:
    begin, end = {"object": ('{"a":', "}"), "list": ("[", "]")}[shape]
    return begin * levels + "1" + end * levels


LEVELS = st.integers(1, 1_200) | st.sampled_from([DEEPEST - 1, DEEPEST, DEEPEST + 1, 100_000])


@given(levels=LEVELS, shape=st.sampled_from(["object", "list"]), field=st.sampled_from(["j", "undeclared"]))
def test_values_that_are_too_deep_are_unfit(levels: int, shape: str, field: str) -> None:
    """Only the event is unfit if the message can be read, however deep the value is, and nothing raises."""
    event = f'{{"n":2,"{field}":{_nested(levels, shape)}}}'
    batch, unfit = events_in(
        [b'{"n":1}', f'[{event},{{"n":3}}]'.encode(), b'{"n":4}'], Schema.of(n=Kind.INTEGER, j=Kind.JSON)
    )
    found = batch.column("n").to_pylist()
    if levels + (field == "undeclared") <= DEEPEST:
        assert ([1, 2, 3, 4], ()) == (found, unfit)
    else:
        # What nobody can read stays one.
        assert found in ([1, 3, 4], [1, 4])
        assert ["are nested deeper than 100 levels; flatten them" in each.reason for each in unfit] == [True]
        assert event in unfit[0].event.replace(" ", "")


@pytest.mark.parametrize("levels", [DEEPEST, DEEPEST + 1, 990, 5_000])
@pytest.mark.parametrize("shape", ["object", "list"])
def test_a_message_that_is_only_deep_is_reported(levels: int, shape: str) -> None:
    """Objects up to the permitted depth are an event; nested lists are none."""
    message = _nested(levels, shape)
    batch, unfit = events_in([message.encode()], Schema.of(n=Kind.INTEGER))
    fits = shape == "object" and levels <= DEEPEST
    assert (fits, not fits) == (len(batch) == 1, len(unfit) == 1)


@pytest.mark.parametrize(
    ("at", "fits"),
    [
        (EARLIEST, True),
        (EARLIEST - 1, False),
        (LATEST, True),
        (LATEST + 1, False),
        ("0001-01-01T00:00:00+00:01", False),
        ("0001-01-01T00:00:00-00:01", True),
        ("9999-12-31T23:59:59-00:01", False),
        ("9999-12-31T23:59:59.999+00:00", True),
    ],
)
def test_a_time_is_within_the_years_1_to_9999_in_utc(at: object, *, fits: bool) -> None:
    """This holds in any zone, so that Python can represent each time."""
    batch, unfit = events_in([json.dumps({"at": at}).encode()], Schema.of(at=Kind.TIMESTAMP))
    assert (fits, not fits) == (len(batch.column("at").to_pylist()) == 1, len(unfit) == 1)


@given(messages=st.lists(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode("utf-16"))))
def test_every_message_is_read_or_reported(messages: list[bytes]) -> None:
    """Bytes of any kind raise nothing, and none of them is lost silently."""
    batch, unfit = events_in([*messages, b'{"n":1}'], Schema.of(n=Kind.INTEGER, at=Kind.TIMESTAMP))
    assert 1 in batch.column("n").to_pylist()
    # An array may hold no event.
    assert len(batch) + len(unfit) > sum(b"[" not in message for message in messages)
