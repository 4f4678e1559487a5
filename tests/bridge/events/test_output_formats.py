"""The formats of outputs: what was emitted is what a reader of the format gets, and nothing that is emitted raises."""

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.formats.sparkplug_decoder import SparkplugDecoder
from bridge.formats.sparkplug_messages import Payload
from bridge.messages import Message
from bridge.output_formats import LeftOut, Line, Unsayable, formatted, left_out_message
from bridge.raw_events import EARLIEST, LATEST, events_in
from bridge.wire import UNKNOWN_BIRTH, Birth
from dags import Kind, Schema
from dags.message_formats import SparkplugMessages
from dags.outputs import CsvOutput, InfluxOutput, OutputFormat, PlainOutput, SparkplugOutput
from tests.bridge.events.test_output_messages import EVENTS, FIELDS

DECLARED = sorted(FIELDS.fields)
NAMES = 'astn ,=\\"\n#_'
"""Characters of names and tags that line protocol treats in a way of their own, and others."""
TEXTS = st.text() | st.text(alphabet=NAMES)
WEATHER = InfluxOutput(measurement="weather, outside", tags=("s", "n"), time="at")


def emitted(events: list[dict[str, Any]], schema: Schema = FIELDS) -> pa.RecordBatch:
    """Raw events that passed every task unchanged."""
    batch, unfit = events_in([json.dumps(events).encode()], schema)
    assert () == unfit
    return batch


def said(chosen: OutputFormat, events: pa.RecordBatch) -> list[Line]:
    """The message of each event."""
    lines = [*formatted(chosen, events)]
    assert len(events) == len(lines)
    return lines


_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def cell(value: Any) -> str:
    """A value as CSV has it."""
    return value if isinstance(value, str) else "" if value is None else _COMPACT.encode(value)


class LineReader:
    """A reader of one line that knows the rules of line protocol only."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def here(self) -> str:
        """The next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def read(self) -> tuple[str, dict[str, str], dict[str, Any], int | None]:
        """Measurement, tags, fields and time."""
        measurement = self._until(", ", escaped=", =")
        tags = {}
        while self.here == ",":
            key = self._key()
            tags[key] = self._until(", ", escaped=", =")
        fields = dict[str, Any]()
        while not fields or self.here == ",":
            key = self._key()
            fields[key] = self._value()
        return measurement, tags, fields, int(self.text[self.at + 1 :]) if self.here else None

    def _key(self) -> str:
        self.at += 1
        key = self._until("=", escaped=", =")
        self.at += 1
        return key

    def _value(self) -> Any:
        if self.here == '"':
            self.at += 1
            text = self._until('"', escaped='"\\')
            self.at += 1
            return text
        word = self._until(", ", escaped="")
        if word in {"true", "false"}:
            return word == "true"
        return int(word[:-1]) if word.endswith("i") else float(word)

    def _until(self, ends: str, *, escaped: str) -> str:
        read = ""
        while self.here and self.here not in ends:
            assert ends == '"' or self.here not in "\r\n"
            if self.here == "\\" and self.text[self.at + 1 : self.at + 2] in [*escaped]:
                self.at += 1
            read += self.here
            self.at += 1
        return read


def is_sayable(text: str) -> bool:
    """Whether line protocol can hold a name, or the value of a tag."""
    controls = any(ord(character) < 32 or ord(character) == 127 for character in text)
    escapes = any(text[at + 1 : at + 2] in {"", " ", ",", "=", "\\"} for at, here in enumerate(text) if here == "\\")
    return bool(text) and not controls and not escapes


@given(st.lists(EVENTS, min_size=1, max_size=5))
def test_a_plain_message_is_its_event(events: list[dict[str, Any]]) -> None:
    """Each message is one event, as JSON."""
    lines = said(PlainOutput(), emitted(events))
    assert events == [json.loads(line) for line in lines if isinstance(line, bytes)]


@given(st.lists(EVENTS | EVENTS.map(lambda event: event | {"s": ',;"\r\n'}), min_size=1, max_size=5))
def test_a_line_of_csv_has_the_declared_fields(events: list[dict[str, Any]]) -> None:
    """A reader of CSV gets the values of all declared fields, sorted by name, or of the named ones in their order."""
    for chosen in (CsvOutput(), CsvOutput(separator=";", columns=("s", "j", "n"))):
        for event, line in zip(events, said(chosen, emitted(events)), strict=True):
            assert isinstance(line, bytes)
            (row,) = csv.reader(io.StringIO(line.decode(), newline=""), delimiter=chosen.separator, strict=True)
            assert [cell(event[column]) for column in chosen.columns or DECLARED] == row


_THESE_YEARS = st.integers(0, 4_000_000_000_000)
MOMENTS = _THESE_YEARS | _THESE_YEARS | st.integers(EARLIEST, LATEST) | st.none()
MEASURED = st.builds(lambda event, text, at: event | {"s": text, "at": at}, EVENTS, TEXTS | st.none(), MOMENTS)
NAMED = st.builds(lambda event, name, value: {**event, name: value} if name else event, MEASURED, TEXTS, TEXTS)


@given(st.lists(MEASURED | NAMED, min_size=1, max_size=5))
def test_a_line_of_line_protocol_has_what_is_not_null(events: list[dict[str, Any]]) -> None:
    """A reader of line protocol gets tags, fields and time; what has no words there is left out with its reason."""
    schema = Schema.of({**FIELDS.fields, "at": Kind.TIMESTAMP})
    sent = [event for event in events if _is_raw(event)]
    for event, line in zip(sent, said(WEATHER, emitted(sent, schema)), strict=True):
        tags = {tag: cell(event[tag]) for tag in ("n", "s") if cell(event[tag])}
        fields = {
            name: value if isinstance(value, str | int | float) else cell(value)
            for name, value in event.items()
            if name not in {*WEATHER.tags, "at"} and value is not None
        }
        inexpressible = (
            not fields
            or not all(map(is_sayable, (*tags.values(), *fields)))
            or any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in fields.values())
            or event["at"] is None
            or not -(2**63) < event["at"] * 1_000_000 < 2**63 - 1
        )
        if inexpressible:
            assert isinstance(line, Unsayable)
            assert line.reason
        else:
            assert isinstance(line, bytes)
            assert ("weather, outside", tags, fields, event["at"] * 1_000_000) == LineReader(line.decode()).read()


def _is_raw(event: Mapping[str, Any]) -> bool:
    """Whether a source takes an event: a name that was drawn may be that of a declared field."""
    batch, unfit = events_in([json.dumps([event]).encode()], Schema.of({**FIELDS.fields, "at": Kind.TIMESTAMP}))
    return not unfit and len(batch) == 1 and not event.keys() & {"_rest", "_from"}


HOSTILE = (
    pa.array([math.nan, math.inf, None]),
    pa.array([2**62, -(2**63), None]),
    pa.array([b"\xff", b"", None]),
    pa.array([253_402_387_139_000, -(2**62), None], pa.timestamp("ms", tz="UTC")),
    pa.array([2**62, 0, None], pa.timestamp("ns")),
    pa.array([[math.nan], [], None]),
    pa.array([{"a": 1}, {"a": None}, None]),
    pa.Array.from_buffers(pa.string(), 3, pa.array([b"\xff", b"\\", b"\n"]).buffers()),
    pa.array(['{"\\ud800": "\\ud800"}', "{", '{"n": 1e999, "": 36893488147419103232}']),
)
"""Values that no source sends and a task may emit all the same."""


@pytest.mark.parametrize("values", HOSTILE, ids=lambda values: str(values.type))
@pytest.mark.parametrize("name", ["s", "t", "_rest", "", "a\nb", "\\"])
@pytest.mark.parametrize(
    "chosen",
    [
        PlainOutput(),
        CsvOutput(),
        CsvOutput(columns=("t", "none")),
        InfluxOutput(measurement="m"),
        InfluxOutput(measurement="m", tags=("s",), time="t"),
        *(SparkplugOutput(group="ann", node="a", metrics=(("s", kind), ("other", Kind.FLOAT))) for kind in Kind),
        SparkplugOutput(group="ann", node="a", time="t", metrics=(("other", Kind.STRING),)),
    ],
    ids=[
        "plain",
        "csv",
        "csv of columns",
        "influx",
        "influx of tags and time",
        *(f"{kind} metric" for kind in Kind),
        "metrics with time",
    ],
)
def test_nothing_that_is_emitted_raises(chosen: OutputFormat, values: pa.Array, name: str) -> None:
    """Every event becomes a message, in UTF-8 if it is a text, or a reason, whatever a task emits."""
    for line in said(chosen, pa.record_batch([values, pa.array([1, None, 3])], names=[name, "other"])):
        if isinstance(chosen, SparkplugOutput) and isinstance(line, bytes):
            assert len(chosen.metrics) == len(Payload.FromString(line).metrics)
            continue
        text = line.reason if isinstance(line, Unsayable) else line.decode()
        assert text
        assert "\n" not in text or isinstance(chosen, CsvOutput) or '"' in text


def test_what_a_format_cannot_say_is_told_with_the_first_event() -> None:
    """The notice has the count, the reason and the first of the events; a large one is left out."""
    left_out = LeftOut(2, 7, "all of its fields are null", b'{"t":null}')
    head = {"stream": "out", "batch": 3, "count": 2, "number": 7, "reason": "all of its fields are null"}
    assert head | {"event": {"t": None}} == json.loads(left_out_message("out", 3, left_out))
    large = replace(left_out, event=b'"%s"' % (b"x" * 200_000))
    assert head | {"event": None} == json.loads(left_out_message("out", 3, large))


def test_a_line_that_can_say_nothing_is_a_reason() -> None:
    """Undeclared fields are no columns unless they are named, and a line needs a field that is not null."""
    (line,) = said(CsvOutput(), emitted([{"a": 1}], Schema.of()))
    assert Unsayable("it has no declared fields, and the format names no columns") == line
    (line,) = said(
        InfluxOutput(measurement="m", tags=("s",)),
        emitted([{"s": "x", "n": None}], Schema.of(s=Kind.STRING, n=Kind.FLOAT)),
    )
    assert Unsayable("all of its fields are null") == line
    moment = datetime(2026, 2, 3, tzinfo=UTC)
    (line,) = said(
        InfluxOutput(measurement="m", time="t"),
        emitted([{"t": moment.isoformat(), "n": 2.5}], Schema.of(t=Kind.TIMESTAMP)),
    )
    assert b"m n=2.5 1770076800000000000" == line


def read_as_metrics(lines: list[Line], schema: Schema) -> pa.RecordBatch:
    """What a source reads of lines that an edge node sends."""
    messages = [Message("spBv1.0/ann/NDATA/a", line, 0) for line in lines if isinstance(line, bytes)]
    content = SparkplugDecoder(SparkplugMessages(), schema)(messages)
    assert () == content.unfit
    return content.events


@given(EVENTS)
def test_metrics_are_what_was_emitted(events: list[dict[str, Any]]) -> None:
    """A source of the same schema reads the same declared fields; a time is cut to milliseconds."""
    batch = emitted(events)
    lines = said(SparkplugOutput(group="ann", node="a", metrics=tuple(sorted(FIELDS.fields.items()))), batch)
    for event, line in zip(batch.to_pylist(), lines, strict=True):
        early = isinstance(event["t"], datetime) and event["t"] < datetime(1970, 1, 1, tzinfo=UTC)
        assert early == isinstance(line, Unsayable)
        if isinstance(line, bytes):
            (read,) = read_as_metrics([line], FIELDS).to_pylist()
            for name, kind in FIELDS.fields.items():
                wanted = event[name]
                if kind is Kind.JSON:
                    continue
                if isinstance(wanted, float) and not math.isfinite(wanted):
                    wanted = None
                assert wanted == read[name], name


def test_metrics_have_the_time_of_their_event_or_of_its_cause() -> None:
    """Not that of their sending, so that those of an event that is sent twice are equal."""
    node = SparkplugOutput(group="ann", node="a", metrics=(("n", Kind.INTEGER), ("j", Kind.JSON)))
    batch = emitted(
        [{"n": n, "j": {"deep": [n]}, "t": "2026-02-03T00:00:00.001Z"} for n in (1, -2, None)],
        Schema.of(n=Kind.INTEGER, j=Kind.JSON, t=Kind.TIMESTAMP),
    )
    births = [Birth(1, 5), Birth(1, 7), Birth(1, UNKNOWN_BIRTH)]
    first, second, third = (Payload.FromString(line).metrics for line in formatted(node, batch, births))
    assert [5, 5, 7, 7] == [metric.timestamp for metric in (*first, *second)]
    assert third[0].timestamp > 1_700_000_000_000, "it is not known when it came"
    assert [(4, 1), (4, 2**64 - 2)] == [(metrics[0].datatype, metrics[0].long_value) for metrics in (first, second)]
    assert (12, '{"deep":[1]}') == (first[1].datatype, first[1].string_value)
    assert (True, None) == (third[0].is_null, third[0].WhichOneof("value"))
    timed = node.model_copy(update={"time": "t"})
    assert {1_770_076_800_001} == {
        metric.timestamp for line in formatted(timed, batch, births) for metric in Payload.FromString(line).metrics
    }
    (line,) = said(node.model_copy(update={"metrics": ()}), batch.slice(0, 1))
    assert Unsayable("it has no declared fields") == line
