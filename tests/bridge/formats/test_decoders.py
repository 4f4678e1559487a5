"""Decoders: what was written in a format is what is read, and nothing that comes is lost without a trace."""

import base64
import csv
import io
import json
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.formats import csv_decoder
from bridge.formats.decoders import Decoder, decoder
from bridge.messages import LARGEST_EVENT, LARGEST_RAW_MESSAGE, MOST_RAW_EVENTS
from bridge.raw_events import DEEPEST, REST_COLUMN, Unfit, events_in
from dags import Kind, Schema
from dags.message_formats import (
    CsvMessages,
    JsonLinesMessages,
    JsonMessages,
    MessageFormat,
    MsgpackMessages,
    RawMessages,
    TextMessages,
)

SCHEMA = Schema.of(
    {"b": Kind.BOOLEAN, "i": Kind.INTEGER, "f": Kind.FLOAT, "s": Kind.STRING, "at": Kind.TIMESTAMP}
).plus("j", Kind.JSON)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)).map(  # noqa: DTZ001 - zone is next
    lambda moment: moment.replace(tzinfo=UTC, microsecond=moment.microsecond // 1000 * 1000).isoformat()
)
PLAIN = {
    "b": st.booleans(),
    "i": st.integers(-(2**63), 2**63 - 1),
    "f": FLOATS,
    "s": TEXTS.filter(bool),
    "at": MOMENTS | st.integers(-(10**13), 10**13),
}
FLAT = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXTS
NESTED = FLAT | st.lists(FLAT, max_size=2) | st.dictionaries(TEXTS, FLAT, max_size=2)
EVENTS = st.fixed_dictionaries({}, optional={**PLAIN, "j": NESTED, "more": NESTED, "": FLAT})
ROWS = st.fixed_dictionaries({}, optional={**PLAIN, "more": TEXTS.filter(bool)})
COLUMNS = (*PLAIN, "more")


def written_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], form: CsvMessages) -> bytes:
    """Rows as another writer of CSV has them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, delimiter=form.separator, quotechar=form.quote, lineterminator="\r\n")
    if not form.columns:
        writer.writeheader()
    for row in rows:
        writer.writerow({name: json.dumps(value) if name == "b" else value for name, value in row.items()})
    return text.getvalue().encode()


def as_json(events: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """The same events, written as JSON and read."""
    batch, unfit = events_in([json.dumps(events).encode()], SCHEMA)
    assert () == unfit
    return batch


def one_by_one(decode: Decoder, messages: Sequence[bytes]) -> tuple[list[Any], list[Unfit]]:
    """What is in messages that come alone."""
    events: list[Any] = []
    unfit: list[Unfit] = []
    for message in messages:
        batch, refused = decode([message])
        events += batch.to_pylist()
        unfit += refused
    return events, unfit


@given(groups=st.lists(st.lists(EVENTS, max_size=4), max_size=3))
def test_events_in_messagepack_are_those_in_json(groups: list[list[dict[str, Any]]]) -> None:
    """One event a message, or a list of them."""
    decode = decoder(MsgpackMessages(), SCHEMA)
    lists, unfit = decode([msgspec.msgpack.encode(group) for group in groups])
    events = [event for group in groups for event in group]
    alone, unfit_alone = decode([msgspec.msgpack.encode(event) for event in events])
    assert ((), ()) == (unfit, unfit_alone)
    assert as_json(events) == lists == alone


@given(events=st.lists(EVENTS, max_size=5), ends=st.booleans())
def test_events_in_json_lines_are_those_in_json(events: list[dict[str, Any]], ends: bool) -> None:  # noqa: FBT001 - drawn
    """With or without an end of the last line, and with blank lines."""
    message = "\n \r\n".join(map(json.dumps, events)) + "\n" * ends
    batch, unfit = decoder(JsonLinesMessages(), SCHEMA)([message.encode()])
    assert ((), as_json(events)) == (unfit, batch)


@pytest.mark.parametrize("worth_it", [0, 1 << 30], ids=["at once", "line by line"])
@pytest.mark.parametrize(
    "form",
    [CsvMessages(columns=COLUMNS), CsvMessages(), CsvMessages(columns=COLUMNS, separator="\t", quote="'")],
    ids=["columns", "header", "tabs"],
)
def test_events_in_csv_are_those_in_json(monkeypatch: pytest.MonkeyPatch, form: CsvMessages, worth_it: int) -> None:
    """Whether a message has quotes, and whether many are read at once or line by line."""
    monkeypatch.setattr(csv_decoder, "_WORTH_IT", worth_it)
    decode = decoder(form, SCHEMA)

    @given(groups=st.lists(st.lists(ROWS.filter(bool), max_size=4), max_size=4))
    @example(groups=[[{"s": "a\rb", "i": 1}], [{"s": "a\nb"}, {"s": 'a"b', "f": -0.0}]])
    def holds(groups: list[list[dict[str, Any]]]) -> None:
        batch, unfit = decode([written_csv(group, COLUMNS, form) for group in groups])
        # Without a row there is the header alone.
        assert len(unfit) == (0 if form.columns else sum(not group for group in groups))
        assert as_json([row for group in groups for row in group]) == batch

    holds()


CELLS = (
    st.sampled_from(
        ["", "1", "0x10", " 1", "1 ", "1.0", "1e3", "+5", "-0", "1_0", "nan", "inf", "1e999", "true", "T", "2026-01-01"]
    )
    | TEXTS
    | st.text("0123456789-+.eE:TZ ", max_size=12)
)


@given(rows=st.lists(st.lists(CELLS, min_size=1, max_size=7), max_size=4), quoted=st.booleans())
@example(rows=[["1", "0x10", "0x10", "", "0x10", ""]], quoted=False)
@example(
    rows=[["", "", "", "", "2026-01-01T10:00:00.1234", ""], ["", "", "", "", "1969-12-31T23:59:59.9999", ""]],
    quoted=False,
)
@example(rows=[["", "", "", "", text, ""] for text in ("20200101", "2020-01-01 05", "1960-01-01T10+01")], quoted=False)
def test_csv_is_the_same_at_once_and_line_by_line(rows: list[list[str]], quoted: bool) -> None:  # noqa: FBT001 - drawn
    """Whatever the values are: what Arrow reads is what is read one by one, so it depends on no other event."""
    form = CsvMessages(columns=COLUMNS)
    decode = decoder(form, SCHEMA)
    lines = [",".join(f'"{cell}"' if quoted else cell for cell in row).encode() for row in rows]
    results = []
    for worth_it in (0, 1 << 30):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(csv_decoder, "_WORTH_IT", worth_it)
            results += [one_by_one(decode, lines)]
            batch, unfit = decode(lines)
            results.append((batch.to_pylist(), list(unfit)))
    assert all(repr(results[0]) == repr(result) for result in results[1:])


FORMATS: Mapping[str, MessageFormat] = {
    "json": JsonMessages(),
    "jsonl": JsonLinesMessages(),
    "csv": CsvMessages(),
    "csv-columns": CsvMessages(columns=("f", "s")),
    "msgpack": MsgpackMessages(),
    "text": TextMessages(field="f"),
    "raw": RawMessages(),
}
FRAGMENTS = st.sampled_from(
    [b"", b"\n", b"\r", b'"', b",", b"f,s\n", b"{}", b"[", b"\xdd\xff\xff\xff\xff", b"\x81\xa1f"]
)
HOSTILE = st.lists(st.binary(max_size=12) | FRAGMENTS, max_size=6).map(b"".join)


@pytest.mark.parametrize("kind", FORMATS)
def test_hostile_bytes_raise_nothing_and_vanish_nowhere(kind: str) -> None:
    """Every message has events, or is reported, or is blank; and no message changes what is read of another."""
    decode = decoder(FORMATS[kind], SCHEMA)

    @given(messages=st.lists(HOSTILE, max_size=4))
    def holds(messages: list[bytes]) -> None:
        batch, unfit = decode(messages)
        batch.validate(full=True)
        events, alone = one_by_one(decode, messages)
        assert repr(batch.to_pylist()) == repr(events)
        assert Counter(unfit) == Counter(alone)
        for message in messages:
            batch, refused = decode([message])
            is_blank = not message.strip(b" \t\r\n\xef\xbb\xbf") or message in {b"\x90", b"[]"}
            assert len(batch) or refused or is_blank

    holds()


def unfit_of(form: MessageFormat, *messages: bytes, schema: Schema = SCHEMA) -> list[str]:
    """The reasons why some of the messages are unfit."""
    _, unfit = decoder(form, schema)(messages)
    return [event.reason for event in unfit]


def test_unfit_lines_harm_no_others() -> None:
    """Each is reported with the reason, and those beside it are read."""
    batch, unfit = decoder(CsvMessages(), SCHEMA)([b"i,s\n1,a\nx,b\n3\n4,d"])
    assert [1, 4] == batch.column("i").to_pylist()
    assert [
        ("x,b", "the field 'i' should be of kind integer"),
        ("3", "the line has 1 values, and there are 2 columns"),
    ] == [(event.event, event.reason) for event in unfit]
    batch, unfit = decoder(JsonLinesMessages(), SCHEMA)([b'{"i": 1}\n{"i": "x"}\n[{"i": 2}]\nno\n{"i": 5}'])
    assert [1, 5] == batch.column("i").to_pylist()
    assert 3 == len(unfit)
    batch, unfit = decoder(MsgpackMessages(), SCHEMA)(
        [msgspec.msgpack.encode([{"i": 1}, {"i": "x"}, {1: 2}, 3, {"i": 5}])]
    )
    assert [1, 5] == batch.column("i").to_pylist()
    assert [
        "the field 'i' should be of kind integer",
        "the name 1 of a field is not a text",
        "the event is not a JSON object",
    ] == [event.reason for event in unfit]


def test_messagepack_holds_bytes_times_and_no_odd_numbers() -> None:
    """Bytes are base64 text, times are times, and a number that is not finite is unfit."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    decode = decoder(MsgpackMessages(), SCHEMA)
    batch, unfit = decode([msgspec.msgpack.encode({"s": b"abc", "at": at, "more": b"x"})])
    assert [("YWJj", at, '{"more":"eA=="}', ())] == [
        (event["s"], event["at"], event[REST_COLUMN], unfit) for event in batch.to_pylist()
    ]
    assert ["the field 'f' should be of kind float"] == unfit_of(
        MsgpackMessages(), b"\x81\xa1f\xcb" + struct.pack(">d", float("nan"))
    )


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(Kind.FLOAT, " 21.5\n", 21.5), (Kind.STRING, "a\n", "a\n"), (Kind.BOOLEAN, "true", True)],
)
def test_a_text_is_read_by_the_kind_of_its_field(kind: Kind, text: str, value: object) -> None:
    """So a topic of plain numbers is a source of floats."""
    batch, unfit = decoder(TextMessages(field="x"), Schema.of(x=kind, y=Kind.FLOAT))([text.encode()])
    assert ([{"x": value, "y": None, REST_COLUMN: None}], ()) == (batch.to_pylist(), unfit)


@given(message=st.binary(max_size=20))
def test_raw_bytes_can_be_had_back(message: bytes) -> None:
    """Whether their field is declared or not."""
    for schema in (Schema.of(raw=Kind.STRING), Schema.of({})):
        (event,) = decoder(RawMessages(), schema)([message])[0].to_pylist()
        text = event["raw"] if schema.fields else json.loads(event[REST_COLUMN])["raw"]
        assert message == base64.b64decode(text)


WRITERS: Mapping[str, Callable[[int, int], bytes]] = {
    "jsonl": lambda events, size: b"\n".join([b'{"s":"' + b"x" * size + b'"}'] * events),
    "csv": lambda events, size: b"s\n" + b"\n".join([b"x" * max(size, 1)] * events),
    "csv-columns": lambda events, size: b"\n".join([b"1," + b"x" * size] * events),
    "msgpack": lambda events, size: msgspec.msgpack.encode([{"s": "x" * size}] * events),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_bounds_hold_for_every_format(kind: str) -> None:
    """Too many events or bytes refuse the whole message; an event that is too large is refused alone."""
    write, form = WRITERS[kind], FORMATS[kind]
    assert MOST_RAW_EVENTS == len(decoder(form, SCHEMA)([write(MOST_RAW_EVENTS, 0)])[0])
    (reason,) = unfit_of(form, write(MOST_RAW_EVENTS + 1, 0))
    assert f"the message has {MOST_RAW_EVENTS + 1:,} events" in reason
    (reason,) = unfit_of(form, write(3, LARGEST_RAW_MESSAGE // 3))
    assert "and may have 8,000,000; send several" in reason
    (reason,) = unfit_of(form, write(1, LARGEST_EVENT + 100))
    assert "and may have 4,000,000; send less in one event" in reason
    batch, unfit = decoder(form, SCHEMA)([write(2, LARGEST_EVENT - 1_000)])
    assert (2, ()) == (len(batch), unfit)


@pytest.mark.parametrize("form", [TextMessages(), RawMessages()])
def test_one_field_is_bounded_too(form: MessageFormat) -> None:
    """It is one event."""
    assert ["the event has 4,000,001 bytes, and may have 4,000,000; send less in one event"] == unfit_of(
        form, b"x" * (LARGEST_EVENT + 1)
    )


def test_large_lists_of_messagepack_are_read_event_by_event() -> None:
    """What is unfit in one of them is reported alone."""
    events = [{"i": number, "s": "x" * 100} for number in range(2_000)]
    packed = msgspec.msgpack.encode([{"i": "x"}, *events])
    # Not UTF-8, which is found out only when the event itself is read.
    damaged = packed.replace(b"x" * 100, b"\xff" * 100, 1)
    batch, unfit = decoder(MsgpackMessages(), SCHEMA)([damaged])
    assert (1_999, 2) == (len(batch), len(unfit))


@pytest.mark.parametrize("field", ["j", "more"])
@pytest.mark.parametrize(("events", "inner"), [(1, 3_900_000), (1_000, 7_000), (90_000, 70)])
def test_what_lists_hold_is_bounded(field: str, events: int, inner: int) -> None:
    """A byte of MessagePack may be a list; so many take seconds, wherever they are."""
    event = b"\x81" + msgspec.msgpack.encode(field) + b"\xdd" + inner.to_bytes(4) + b"\x90" * inner
    message = b"\xdd" + events.to_bytes(4) + event * events
    begun = time.process_time()
    batch, unfit = decoder(MsgpackMessages(), SCHEMA)([message])
    assert time.process_time() - begun < 4
    assert events == len(batch) + sum(report.count for report in unfit)
    assert "too many values" in unfit[0].reason
    assert len(batch) <= 3_000_000 // (5 * inner)


def test_many_numbers_are_not_too_many() -> None:
    """Their bytes may look like lists."""
    events = [{"f": number / 7, "j": [0.1] * 8} for number in range(60_000)]
    batch, unfit = decoder(MsgpackMessages(), SCHEMA)([msgspec.msgpack.encode(events)])
    assert (60_000, ()) == (len(batch), unfit)


def test_depth_is_bounded() -> None:
    """In MessagePack and in JSON columns of CSV as in JSON."""
    for levels, count in ((DEEPEST - 2, 0), (DEEPEST + 5, 1), (5_000, 1)):
        packed = b"\x81\xa1j" + b"\x91" * levels + b"\xc0"
        assert count == len(unfit_of(MsgpackMessages(), packed))
        lines = b"j\n" + b"[" * levels + b"]" * levels
        assert count == len(unfit_of(CsvMessages(), lines))


def test_names_of_undeclared_columns_are_bounded() -> None:
    """Each event repeats them, so a long name and many short lines would fill the memory."""
    (reason,) = unfit_of(CsvMessages(), b"n" * 100_000 + b"\n" + b"1\n" * 50_000)
    assert "too long" in reason
    (reason,) = unfit_of(CsvMessages(), b",".join(b"%d" % number for number in range(1_001)))
    assert "1,001 columns" in reason
    (reason,) = unfit_of(CsvMessages(), b'"' + b"a" * 200_000 + b'"\n1')
    assert "the names of its columns are not CSV" in reason
    (reason,) = unfit_of(CsvMessages(), b'a\n"' + b"a" * 200_000 + b'"')
    assert "a line is not CSV" in reason
    (reason,) = unfit_of(CsvMessages(), b"a,a\n1,2")
    assert "the same name" in reason
