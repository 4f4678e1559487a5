"""The messages that tenants receive of their outputs, and those with events that could not be processed."""

import json
import math
from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bridge.output_messages import dead_letter, event_texts, output_message, unread_letter
from bridge.raw_events import events_in, marked
from bridge.receiver import Unread
from bridge.wire import MOST_MESSAGE_BYTES
from dags import Kind, Schema

FIELDS = Schema.of(t=Kind.FLOAT, n=Kind.INTEGER, s=Kind.STRING, b=Kind.BOOLEAN, j=Kind.JSON)


def _only(events: pa.RecordBatch, *json_fields: str) -> list[dict[str, object]]:
    """The events in the one message that they fit in."""
    if json_fields:
        events = pa.RecordBatch.from_arrays(events.columns, schema=marked(events.schema, json_fields))
    ((_, message),) = output_message("alarm", 2, 7, event_texts(events))
    content = json.loads(message)
    assert ("alarm", 2, 7) == (content["stream"], content["epoch"], content["first"])
    found: list[dict[str, object]] = content["events"]
    return found


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=3), values, max_size=3),
    max_leaves=6,
)
EVENTS = st.fixed_dictionaries(
    {
        "t": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "n": st.none() | st.integers(-(2**53), 2**53),
        "s": st.none() | st.text(),
        "b": st.none() | st.booleans(),
        "j": JSON,
    },
    optional={"more": JSON, "Ä": JSON},
)


@given(st.lists(EVENTS, min_size=1, max_size=5))
def test_an_unchanged_event_leaves_as_it_came(events: list[dict[str, object]]) -> None:
    """A raw event that passes every task unchanged is the same JSON object again, including undeclared fields."""
    batch, unfit = events_in([json.dumps(events).encode()], FIELDS)
    assert () == unfit
    assert events == _only(batch)


def test_timestamps_are_written_in_utc() -> None:
    """A time is ISO 8601 in UTC, as precise as it needs to be, in any unit and zone; without a zone it is UTC."""
    moment = datetime(2026, 2, 3, 4, 5, 6, 7_000, tzinfo=UTC)
    events = pa.record_batch(
        {
            "ms": pa.array([moment], pa.timestamp("ms", tz="UTC")),
            "us": pa.array([moment.replace(microsecond=7_008)], pa.timestamp("us", tz="Europe/Berlin")),
            "ns": pa.array([1_000_000_001], pa.timestamp("ns", tz="UTC")),
            "s": pa.array([0], pa.timestamp("s")),
            "none": pa.array([None], pa.timestamp("ms", tz="UTC")),
        }
    )
    assert [
        {
            "ms": "2026-02-03T04:05:06.007Z",
            "us": "2026-02-03T04:05:06.007008Z",
            "ns": "1970-01-01T00:00:01.000Z",
            "s": "1970-01-01T00:00:00.000Z",
            "none": None,
        }
    ] == _only(events)


def test_values_that_json_cannot_represent_are_null_or_text() -> None:
    """No value stops its event: NaN is null, bytes are base64, and other values become their texts."""
    events = pa.record_batch(
        {
            "f": [math.nan, math.inf, -math.inf, 1.5],
            "l": [[math.nan], [1.0], None, []],
            "b": pa.array([b"\xff", None, b"", b"x"]),
            "d": pa.array([0, 1, None, 2], pa.date32()),
            "j": ["NaN", "[Infinity, 1e999]", "no JSON", '"\\ud800"'],
            "_rest": ["{", "[1]", None, '{"j": 1, "k": NaN}'],
        }
    )
    assert [
        {"f": None, "l": [None], "b": "/w==", "d": "1970-01-01", "j": None, "_rest": "{"},
        {"f": None, "l": [1.0], "b": None, "d": "1970-01-02", "j": [None, None], "_rest": [1]},
        {"f": None, "l": None, "b": "", "d": None, "j": "no JSON"},
        {"f": 1.5, "l": [], "b": "eA==", "d": "1970-01-03", "j": "\ud800", "k": None},
    ] == _only(events, "j")


def test_values_that_python_cannot_represent_become_their_texts() -> None:
    """Such a value stops neither its event nor the events beside it, whose values are written as usual."""
    far = [253_402_387_139_000, None, 0, 10**17]
    events = pa.record_batch(
        {
            "ms": pa.array(far, pa.timestamp("ms", tz="UTC")),
            "s": pa.array(far, pa.timestamp("s")),
            "d": pa.array([2**31 - 1, None, 0, 1], pa.int32()).cast(pa.date32()),
            "l": pa.array([[10**17], [], None, [0]], pa.list_(pa.timestamp("ms"))),
            "u": pa.array([b"\xff", None, b"x", b""]).view(pa.string()),
            "n": [1, 2, 3, 4],
        }
    )
    out, none = "<value out of range: {}>", dict.fromkeys(("ms", "s", "d", "u"))
    epoch = "1970-01-01T00:00:00.000Z"
    day = out.format(2**31 - 1)
    first = {"ms": "10000-01-01 23:58:59.000Z", "s": out.format(far[0]), "d": day, "l": f"[{out.format(10**17)}]"}
    assert [
        {**first, "u": '"\ufffd"', "n": 1},
        {**none, "l": [], "n": 2},
        {"ms": epoch, "s": epoch, "d": "1970-01-01", "l": None, "u": "x", "n": 3},
        {**dict.fromkeys(("ms", "s"), out.format(10**17)), "d": "1970-01-02", "l": [epoch], "u": "", "n": 4},
    ] == _only(events)


@given(st.lists(st.integers(1, 400_000), min_size=1, max_size=8), st.sampled_from(["a", "ä", "\\", "\U0001f600"]))
def test_messages_are_small_and_hold_every_event_once(lengths: list[int], letter: str) -> None:
    """Each message has its first number, and at most the bytes allowed unless one event alone has more."""
    events = pa.record_batch({"s": [letter * length for length in lengths]})
    number, found = 7, list[str]()
    for first, message in output_message("alarm", 2**50, 7, event_texts(events)):
        content = json.loads(message)
        assert (first, first) == (number, content["first"])
        assert len(message) <= MOST_MESSAGE_BYTES or len(content["events"]) == 1
        found += [event["s"] for event in content["events"]]
        number += len(content["events"])
    assert events["s"].to_pylist() == found


def test_no_events_make_no_message() -> None:
    """Empty messages are not sent."""
    events = pa.record_batch({"s": pa.array([], pa.string())})
    assert ([], []) == (
        list(output_message("alarm", 1, 7, event_texts(events))),
        list(dead_letter(7, "in", "no", 3, events)),
    )


def test_a_dead_letter_that_is_cut_counts_all_events() -> None:
    """Each of its messages has the number of events in all of them."""
    events = pa.record_batch({"s": ["x" * 600_000, "y" * 600_000]})
    letters = [json.loads(letter) for letter in dead_letter(7, "in", "no number", 3, events)]
    assert [("x", 2), ("y", 2)] == [(letter["events"][0]["s"][0], letter["count"]) for letter in letters]
    assert {"instance", "port", "reason", "batch", "count", "first", "events"} == set(letters[0])


def test_a_dead_letter_of_published_code_names_who_may_read_its_traceback() -> None:
    """The manager shows it to nobody else."""
    events = pa.record_batch({"s": ["x"]})
    (letter,) = dead_letter(7, "in", "no number", 3, events, traceback=("ann", "line 1"))
    assert ("ann", "line 1") == (json.loads(letter)["owner"], json.loads(letter)["traceback"])


def test_a_very_long_unread_message_is_cut() -> None:
    """A message that no spool could take must not be too large for the broker either."""
    letter = unread_letter(Unread(topic="street", event="\U0001f600" * 3_000_000, reason="it is not JSON"))
    assert len(letter) <= MOST_MESSAGE_BYTES + 200
    assert json.loads(letter)["event"].startswith("\U0001f600")


def test_events_without_fields_are_events() -> None:
    """A task that takes streams with nothing in common still takes their events, and numbers them."""
    nothing = pa.record_batch({"t": [1, 2]}).select([])
    [(first, payload)] = output_message("alarm", 1, 5, event_texts(nothing))
    assert (5, [{}, {}]) == (first, json.loads(payload)["events"])
