"""Files of events: what was written in a format is what is sent, and what is not of the format is named."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from bridge.raw_events import events_in
from dags import Kind, Schema
from manager.sources.event_files import (
    MOST_CHUNK_EVENTS,
    FileFormat,
    OpenedFile,
    UnfitFile,
    chunks,
    format_of,
    read_events,
)

KINDS = {"n": Kind.INTEGER, "t": Kind.FLOAT, "on": Kind.BOOLEAN, "s": Kind.STRING, "at": Kind.TIMESTAMP, "j": Kind.JSON}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
INSTANTS = st.integers(0, 250_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
JSON = st.recursive(
    st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
FIELDS: Mapping[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-(2**63), 2**63 - 1),
    "t": st.floats(allow_nan=False, allow_infinity=False),
    "on": st.booleans(),
    "s": TEXTS,
    "at": INSTANTS,
    "j": JSON,
}
EVENTS = st.lists(st.fixed_dictionaries({}, optional=dict(FIELDS)), max_size=6)


def read(content: bytes, file_format: FileFormat, kinds: Mapping[str, Kind] = KINDS, separator: str = ",") -> list[Any]:
    """The texts of the events of a file."""
    opened = OpenedFile(stream=io.BytesIO(content), size=len(content))
    parts = read_events(opened, file_format, kinds, separator=separator)
    return [event.text for part in parts for event in part.events]


def taken(texts: Sequence[bytes]) -> list[dict[str, Any]]:
    """What a source takes of events, by the code of the receiver; none is unfit."""
    batch, unfit = events_in(texts, Schema.of(KINDS))
    assert unfit == ()
    rows = [{name: value for name, value in row.items() if value is not None} for row in batch.to_pylist()]
    return [{name: json.loads(value) if name == "j" else value for name, value in row.items()} for row in rows]


def as_csv(events: Sequence[Mapping[str, Any]], separator: str) -> bytes:
    text = io.StringIO()
    rows = csv.DictWriter(text, [*KINDS], delimiter=separator)
    rows.writeheader()
    for event in events:
        cells = {name: value.isoformat() if name == "at" else value for name, value in event.items()}
        rows.writerow(cells | ({"j": json.dumps(event["j"])} if "j" in event else {}))
    return text.getvalue().encode()


@given(EVENTS, st.sampled_from([",", ";", "\t"]), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_what_was_written_as_csv_is_what_a_source_takes(
    events: list[dict[str, Any]], separator: str, mark: bytes
) -> None:
    """Of every kind, with any separator, and with the mark that spreadsheets put in front."""
    assert events == taken(read(mark + as_csv(events, separator), FileFormat.CSV, separator=separator))


@given(EVENTS)
def test_what_was_written_as_json_is_what_a_source_takes(events: list[dict[str, Any]]) -> None:
    """As lines, and as an array over many lines."""
    plain = [event | ({"at": event["at"].isoformat()} if "at" in event else {}) for event in events]
    assert events == taken(read("\n\n".join(map(json.dumps, plain)).encode(), FileFormat.JSONL))
    assert events == taken(read(json.dumps(plain, indent=2).encode(), FileFormat.JSON))


@given(EVENTS)
def test_what_was_written_as_parquet_is_what_a_source_takes(events: list[dict[str, Any]]) -> None:
    """Nulls are fields that an event does not have."""
    types = pa.schema(
        {"n": pa.int64(), "t": pa.float64(), "on": pa.bool_(), "s": pa.string(), "at": pa.timestamp("ns", "UTC")}
    )
    kept = [
        {
            name: value
            for name, value in event.items()
            # Nanoseconds end in 2262, and a column has one type.
            if name != "j" and (name != "at" or value.year < 2262)
        }
        for event in events
    ]
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(kept, types), sink)
    assert kept == taken(read(sink.getvalue(), FileFormat.PARQUET))


def test_parquet_may_nest_and_lack() -> None:
    """Lists and structures are JSON, and NaN is a field that an event does not have."""
    rows = [{"t": float("nan"), "j": {"a": [1, None]}}, {"t": 1.5, "j": None}]
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), sink)
    assert [{"j": {"a": [1, None]}}, {"t": 1.5}] == [
        json.loads(text) for text in read(sink.getvalue(), FileFormat.PARQUET)
    ]


@given(st.binary(max_size=200), st.sampled_from(FileFormat))
def test_hostile_bytes_are_refused_with_the_place_or_read(content: bytes, file_format: FileFormat) -> None:
    """Nothing else is raised, and each event stays one line."""
    with suppress(UnfitFile):
        assert not any(b"\n" in text for text in read(content, file_format))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a,b\n1,2\n1\n", "line 3: it has 1 cells, and the header has 2"),
        (b"a,a\n", "line 1: two columns have the name 'a'; give each a name of its own"),
        (b"a,\n", "line 1: column 2 has no name; the first line names the columns"),
        (b"a\n\xff\n", "line 2: it is not UTF-8: invalid start byte; save the file as UTF-8"),
        (b'a\n"1\n', "line 2: it is not CSV: unexpected end of data"),
    ],
)
def test_a_wrong_csv_file_names_the_line(content: bytes, problem: str) -> None:
    """And what is wrong with it."""
    with pytest.raises(UnfitFile) as raised:
        read(content, FileFormat.CSV)
    assert problem == str(raised.value)


def test_cells_of_another_kind_stay_as_they_are() -> None:
    """So that the service refuses them with the reason."""
    content = b"n,t,on,at\nmany,warm,maybe,later\n1_0,nan,,\n9999999999999999999,inf,,\n"
    assert [
        {"n": "many", "t": "warm", "on": "maybe", "at": "later"},
        {"n": "1_0", "t": "nan"},
        {"n": "9999999999999999999", "t": "inf"},
    ] == [json.loads(text) for text in read(content, FileFormat.CSV)]


def test_a_file_is_sent_in_chunks_of_bounded_size() -> None:
    """Whatever its format, and whatever of it was sent before."""
    content = b"n\n" + b"".join(b"%d\n" % number for number in range(12_345))
    opened = OpenedFile(stream=io.BytesIO(content), size=len(content))
    made = [*chunks(read_events(opened, FileFormat.CSV, KINDS), skipped=17)]
    assert [*range(17, 12_345)] == [json.loads(event.text)["n"] for chunk in made for event in chunk.events]
    assert max(len(chunk.events) for chunk in made) <= MOST_CHUNK_EVENTS
    assert [chunk.done for chunk in made] == sorted(chunk.done for chunk in made)


def test_the_ending_of_a_name_is_its_format() -> None:
    """In either case; others are JSON lines."""
    names = ["a.jsonl", "a.JSON", "a.b.csv", "a.parquet", "events", "a.txt"]
    assert ["jsonl", "json", "csv", "parquet", "jsonl", "jsonl"] == [format_of(Path(name)) for name in names]
