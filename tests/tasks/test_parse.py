"""Parsing, checked against references that read text by text with the standard library."""

import csv
import io
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Kind, Schema
from engine.behaviour import AnyImplementation
from engine.implementations.parse import annotate, csv_parse, csv_to_senml, json_parse, senml_parse, xml_parse
from engine.trial import At, Parked, try_out
from tests.tasks.agreeing import agrees, few

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5)
ROW = Schema.of(row=Kind.STRING, id=Kind.INTEGER)

SENML = {"field": "row", "observed": ["t", "h"], "also": {"source": "string"}, "keep": ["id"]}


@st.composite
def rows(draw: st.DrawFn) -> str:
    """A row with any of its measurements missing, null, a number or a text, before or after another of its name."""
    names = st.sampled_from(["t", "h"])
    values = NUMBERS | NUMBERS.map(str) | st.none() | st.integers(-(10**6), 10**6)
    entries = draw(st.lists(st.fixed_dictionaries({"n": names, "v": values}, optional={"t": st.integers(0, 99)})))
    source = draw(st.none() | TEXTS)
    entries += [] if source is None else [{"n": "source", "sv": source}]
    time = draw(st.integers(0, 10**12))
    body = {"e": entries, "bt": draw(st.sampled_from([time, str(time), float(time)]))}
    if draw(st.booleans()):
        return json.dumps(body)
    return f"{time + 5}," + json.dumps(body if draw(st.booleans()) else {"e": entries})


def measured(events: Iterator[dict[str, Any]], per: str) -> Iterator[At]:
    """The definition: base times, the latest value of each name, texts as numbers."""
    for event in events:
        text = event["row"]
        at, body = (None, json.loads(text)) if text[0] == "{" else (int(text.split(",", 1)[0]), None)
        body = body or json.loads(text.split(",", 1)[1])
        base = at if body.get("bt") is None else int(float(body["bt"]))
        assert base is not None
        entries = {entry["n"]: entry for entry in body["e"]}
        values_of = {name: each["v"] if each.get("v") is not None else each.get("sv") for name, each in entries.items()}
        values = {name: None if values_of.get(name) is None else float(values_of[name]) for name in ("t", "h")}
        common = {"id": event["id"], "source": values_of.get("source")}
        if per == "row":
            yield "out", {**common, "time": EPOCH + timedelta(milliseconds=base), **values}
            continue
        for name in ("t", "h"):
            time = base + entries.get(name, {}).get("t", 0)
            more = {"time": EPOCH + timedelta(milliseconds=time), "field": name, "value": values[name]}
            yield "out", {**common, **more}


@few
@given(texts=st.lists(rows(), max_size=8), per=st.sampled_from(["field", "row"]))
def test_rows_of_senml_give_their_measurements(texts: list[str], per: str) -> None:
    """One event per observed field, or per row. An unreadable row is parked alone."""
    events = [{"row": text, "id": at} for at, text in enumerate(texts)]
    bad = ['1,{"e":[{"n":"t","v":"warm"}]}', None, '{"e":[]}', '1,{"e":[{"n":"h","v":"NaN"}]}']
    poisonous = [{"row": text, "id": -1} for text in bad]
    config = SENML | {"per": per}
    agrees(senml_parse, config, events, lambda seen: measured(seen, per), ROW, poisonous=poisonous[:2], exact=True)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('1,{"e":[{"n":"t","v":"warm"}]}', "the field 't' is 'warm': it should be a finite number"),
        ('1,{"e":[{"n":"t","v":"nan"}]}', "the field 't' is 'nan': it should be a finite number"),
        ('1,{"e":[{"n":"t","v":true}]}', "the field 't' is True: it should be a finite number"),
        ('1,{"e":[{"n":"t","v":"1_0"}]}', "the field 't' is '1_0': it should be a finite number"),
        ('{"e":[]}', "the field 'row' is '{\"e\":[]}': the row has no time"),
        ('x,{"e":[]}', "the row's time is 'x': could not convert string to float: 'x'"),
        ('1e18,{"e":[]}', "it is not within the years 1 to 9999"),
        ('1,{"e":[{"n":"t","v":1,"t":1e17}]}', "the time of the measurement 't' is not valid"),
        ("1,[]", "it is not a row of SenML: Expected `object`, got `array`"),
        (None, "the field 'row' is null; it needs a value"),
    ],
)
def test_a_row_that_cannot_be_read_says_why(row: str | None, reason: str) -> None:
    """With the field and the value."""
    with pytest.raises(Parked) as parked:
        try_out(senml_parse, SENML, [{"row": row, "id": 1}], ROW)
    assert reason in str(parked.value)


def test_a_base_name_stands_for_names_that_are_missing() -> None:
    """As in the benchmark."""
    (event,) = try_out(senml_parse, {"field": "row", "observed": ["t"]}, [{"row": '5,{"bn":"t","e":[{"v":1}]}'}])["out"]
    assert ("t", 1.0) == (event["field"], event["value"])


COLUMNS = [
    {"name": "a", "kind": "string"},
    {"name": "b", "kind": "float"},
    {"name": "c", "kind": "integer"},
    {"name": "d", "kind": "boolean"},
    {"name": "e", "kind": "timestamp"},
]
CELLS = st.tuples(
    st.none() | TEXTS,
    st.none() | NUMBERS,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.booleans(),
    st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(microsecond=0)),  # noqa: DTZ001 - a time without a zone is the example
)


def written(cells: tuple[Any, ...], delimiter: str) -> str:
    line = io.StringIO()
    plain = ["" if cell is None else str(cell).lower() if isinstance(cell, bool) else str(cell) for cell in cells]
    csv.writer(line, delimiter=delimiter, lineterminator="").writerow(plain)
    return line.getvalue()


@few
@given(lines=st.lists(CELLS, max_size=8), delimiter=st.sampled_from([",", ";", "\t"]))
def test_lines_of_csv_give_their_columns(lines: list[tuple[Any, ...]], delimiter: str) -> None:
    """Quoted or not. Empty ones are null, and an unreadable line is parked alone."""

    def reference(events: Iterator[Any]) -> Iterator[At]:
        for at, _ in enumerate(events):
            cells = lines[at]
            time = cells[4] and cells[4].replace(tzinfo=UTC)
            yield "out", {**dict(zip("abcd", cells, strict=False)), "e": time, "n": at}

    config = {"field": "line", "columns": COLUMNS, "delimiter": delimiter, "keep": ["n"]}
    events = [{"line": written(cells, delimiter), "n": at} for at, cells in enumerate(lines)]
    bad = [delimiter * 4 + "noon", delimiter * 5]
    schema = Schema.of(line=Kind.STRING, n=Kind.INTEGER)
    agrees(csv_parse, config, events, reference, schema, poisonous=[{"line": text} for text in bad], exact=True)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("float", "inf"),
        ("float", "1_0"),
        ("integer", "1.5"),
        ("integer", "9223372036854775808"),
        ("integer", "1_0"),
        ("boolean", "True"),
        ("timestamp", "noon"),
        ("timestamp", "99999999999999999"),
        ("json", "{NaN}"),
    ],
)
def test_a_text_of_another_kind_is_refused(kind: str, text: str) -> None:
    """The reason names the field and the expected kind."""
    config = {"field": "line", "columns": [{"name": "x", "kind": kind}]}
    with pytest.raises(Parked, match=f"the field 'x' is '.*': it should be of kind {kind}"):
        try_out(csv_parse, config, [{"line": text}])


@pytest.mark.parametrize("text", ['"open', 'a"b"\n', '"a"b', "a\nb", ""])
def test_a_line_that_is_not_csv_is_refused(text: str) -> None:
    """It neither swallows the next line nor counts as two. An empty line does not have two values."""
    config = {"field": "line", "columns": [{"name": each, "kind": "string"} for each in "xy"]}
    with pytest.raises(Parked, match="the field 'line' is"):
        try_out(csv_parse, config, [{"line": text}])


JSON = {"field": "text", "fields": {"a": "string", "b": "float", "c": "integer", "d": "boolean", "e": "json"}}
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.none() | TEXTS,
        "b": st.none() | NUMBERS,
        "c": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.booleans(),
        "e": st.lists(st.integers(0, 9), max_size=3),
        "f": st.integers(),
    },
)


@few
@given(objects=st.lists(OBJECTS, max_size=8))
def test_json_objects_give_their_members(objects: list[dict[str, Any]]) -> None:
    """Those that the config names. An event with one of another kind is parked alone."""

    def reference(events: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in events:
            members = json.loads(event["text"])
            found = {name: members.get(name) for name in "abcd"}
            found["e"] = json.dumps(members["e"], separators=(",", ":")) if "e" in members else None
            yield "out", found

    bad = ['{"a": 1}', '{"b": "1"}', '{"c": 1.5}', '{"c": true}', '{"d": 0}', "[]", "{", "[" * 100_000]
    events = [{"text": json.dumps(each)} for each in objects]
    poisonous = [{"text": bad[len(objects) % len(bad)]}]
    agrees(json_parse, JSON, events, reference, Schema.of(text=Kind.STRING), poisonous=poisonous, exact=True)


def test_every_json_that_does_not_fit_is_refused() -> None:
    """Whatever its fault."""
    for text in ('{"a": 1}', '{"b": "1"}', '{"c": 1.5}', '{"c": true}', '{"d": 0}', "[]", "{", "[" * 100_000, None):
        with pytest.raises(Parked):
            try_out(json_parse, JSON, [{"text": text}], Schema.of(text=Kind.STRING))


XML = {"field": "text", "fields": {"a": "string", "b": "float", "unit": "string"}}


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Elements of three names in each other, with text around them."""
    root = ET.Element("root", draw(st.dictionaries(st.sampled_from(["a", "unit"]), TEXTS)))
    for name in draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=4)):
        element = ET.SubElement(root, name)
        element.text = str(draw(NUMBERS)) if name == "b" else draw(TEXTS)
        if name != "b" and draw(st.booleans()):
            child = ET.SubElement(element, "i")
            child.text, child.tail = draw(TEXTS), draw(TEXTS)
    return ET.tostring(root, encoding="unicode")


@few
@given(texts=st.lists(documents(), max_size=6))
def test_xml_documents_give_their_elements(texts: list[str]) -> None:
    """The first of each name with all its text, else the root's attribute."""

    def reference(events: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in events:
            root = ET.fromstring(event["text"])  # noqa: S314 - it is our own
            found: dict[str, Any] = {}
            for name in ("a", "b", "unit"):
                element = next(root.iter(name), None)
                text = root.get(name) if element is None else "".join(element.itertext())
                found[name] = (text.strip() or None) if text is not None else None
            yield "out", found | {"b": None if found["b"] is None else float(found["b"])}

    poisonous: list[dict[str, Any]] = [{"text": "<a>"}, {"text": None}]
    agrees(
        xml_parse,
        XML,
        [{"text": text} for text in texts],
        reference,
        Schema.of(text=Kind.STRING),
        poisonous=poisonous,
        exact=True,
    )


def test_an_xml_document_that_grows_is_refused() -> None:
    """Entities need a document type, which is refused, inner or outer. Nothing is fetched."""
    laughs = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    bomb = f'<!DOCTYPE r [<!ENTITY l0 "ha">{laughs}]><r>&l9;</r>'
    outer = '<!DOCTYPE r SYSTEM "file:///etc/passwd"><r>a</r>'
    for text in (bomb, outer):
        with pytest.raises(Parked, match="it has a document type declaration"):
            try_out(xml_parse, XML, [{"text": text}])
    (event,) = try_out(xml_parse, XML, [{"text": f"{'<a>' * 5_000}x{'</a>' * 5_000}"}])["out"]
    assert "x" == event["a"]


ENTRIES = [{"name": "t", "unit": "far"}, {"name": "s", "type": "sv"}, {"name": "n"}]
VALUES = st.fixed_dictionaries(
    {
        "at": st.integers(0, 10**12),
        "t": st.none() | NUMBERS,
        "s": st.none() | TEXTS,
        "n": st.none() | st.integers(-(10**6), 10**6),
    }
)


def senml(events: Iterator[dict[str, Any]]) -> Iterator[At]:
    for event in events:
        columns = [("far", "t", "v"), ("", "s", "sv"), ("", "n", "v")]
        entries = [{"u": u, "n": n, kind: str(event[n])} for u, n, kind in columns if event[n] is not None]
        text = json.dumps({"e": entries, "bt": event["at"]}, separators=(",", ":"), ensure_ascii=False)
        yield "out", {"senml": text}


@few
@given(events=st.lists(VALUES, max_size=8))
def test_events_become_rows_of_senml(events: list[dict[str, Any]]) -> None:
    """With all values as texts. An event with an infinite number or without a time is parked alone."""
    schema = Schema.of(at=Kind.INTEGER, t=Kind.FLOAT, s=Kind.STRING, n=Kind.INTEGER)
    poisonous: list[dict[str, Any]] = [{"at": None}, {"at": 1, "t": math.inf}]
    config = {"time": "at", "measurements": ENTRIES}
    found = agrees(csv_to_senml, config, events, senml, schema, poisonous=poisonous, exact=True)
    again = try_out(
        senml_parse,
        {"field": "senml", "per": "row", "observed": ["t", "n"], "also": {"s": "string"}},
        found["out"],
        Schema.of(senml=Kind.STRING),
    )["out"]
    assert [(each["t"], each["s"], each["n"]) for each in events] == [
        (each["t"], each["s"], each["n"]) for each in again
    ]


def test_lines_of_csv_become_rows_of_senml() -> None:
    """As in the benchmark. A line with an unreadable number is parked."""
    config = {"time": "at", "measurements": ENTRIES, "field": "line", "columns": ["at", "x", "s", "t", "n"]}
    row = '{"e":[{"u":"far","n":"t","v":"20.50"},{"u":"","n":"s","sv":"a"}],"bt":7}'
    assert [{"senml": row}] == try_out(csv_to_senml, config, [{"line": "7,,a,20.50,"}])["out"]
    for line in ("7,,a,warm,", "noon,,a,1,", "7,,a,1"):
        with pytest.raises(Parked):
            try_out(csv_to_senml, config, [{"line": line}])


KNOWN = {"a": {"floor": 2, "since": "2020-01-01"}, "7": {"floor": None}}


@few
@given(ids=st.lists(st.sampled_from(["a", "7", "x", None]), max_size=10), unknown=st.sampled_from(["drop", "null"]))
def test_an_id_is_annotated(ids: list[str | None], unknown: str) -> None:
    """Events with unknown ids are dropped or get nulls."""

    def reference(events: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in events:
            if event["id"] in KNOWN or unknown == "null":
                floor = 2 if event["id"] == "a" else None
                since = datetime(2020, 1, 1, tzinfo=UTC) if event["id"] == "a" else None
                yield "out", {"id": event["id"], "floor": floor, "since": since}

    config = {
        "field": "id",
        "fields": {"floor": "integer", "since": "timestamp"},
        "known": KNOWN,
        "unknown": unknown,
    }
    agrees(annotate, config, [{"id": each} for each in ids], reference, Schema.of(id=Kind.STRING), exact=True)


def test_a_number_is_looked_up_as_its_text() -> None:
    """An existing field of that name is replaced."""
    config = {"field": "id", "fields": {"floor": "integer"}, "known": {"7": {"floor": 3}}}
    assert [{"floor": 3, "id": 7}] == try_out(annotate, config, [{"id": 7, "floor": 9}])["out"]


@pytest.mark.parametrize(
    ("implementation", "config", "reason"),
    [
        (senml_parse, {**SENML, "also": {"time": "string"}}, "two fields of the new event would be named 'time'"),
        (senml_parse, {**SENML, "observed": ["t", "t"]}, "would be named 't'"),
        (csv_parse, {"field": "x", "columns": COLUMNS, "keep": ["a"]}, "would be named 'a'"),
        (json_parse, {**JSON, "keep": ["a"]}, "would be named 'a'"),
        (
            csv_to_senml,
            {"time": "at", "measurements": ENTRIES, "field": "x"},
            "field and columns must be given together",
        ),
        (
            csv_to_senml,
            {"time": "at", "measurements": ENTRIES, "field": "x", "columns": ["t", "s", "n"]},
            "the line has no column 'at'",
        ),
        (annotate, {"field": "a", "fields": {"a": "string"}, "known": {}}, "give the added field another name"),
        (annotate, {"field": "a", "fields": {"b": "string"}, "known": {"x": {"c": 1}}}, "not one of the fields"),
        (annotate, {"field": "a", "fields": {"b": "float"}, "known": {"x": {"b": True}}}, "should be of kind float"),
        (annotate, {"field": "a", "fields": {"b": "timestamp"}, "known": {"x": {"b": "noon"}}}, "of kind timestamp"),
    ],
)
def test_a_config_that_contradicts_itself_is_refused(
    implementation: AnyImplementation, config: dict[str, Any], reason: str
) -> None:
    """Before anything runs, with the place."""
    with pytest.raises(ValueError, match=reason):
        try_out(implementation, config, [])
