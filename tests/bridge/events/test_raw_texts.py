"""Large messages of raw events: what is too large is refused cheaply, and costs no event beside it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import raw_events
from bridge.messages import LARGEST_EVENT, LARGEST_RAW_MESSAGE, MOST_RAW_EVENTS, MOST_UNFIT_REPORTED
from bridge.raw_events import events_in
from dags import Kind, Schema

SCHEMA = Schema.of(t=Kind.FLOAT, s=Kind.STRING)
EVENTS = st.dictionaries(st.sampled_from(["t", "s", "u"]), st.none() | st.integers(-9, 9) | st.text(max_size=40))


def reasons(message: bytes) -> tuple[int, list[str]]:
    """How many events a message has, and why others are unfit."""
    batch, unfit = events_in([message], SCHEMA)
    return len(batch), [each.reason for each in unfit]


@given(st.lists(EVENTS | st.integers() | st.lists(EVENTS, max_size=2), max_size=12) | EVENTS)
def test_a_large_message_is_read_like_a_small_one(content: Any) -> None:
    """Its events are those of a message that is read as a whole, without those that are too large."""
    text = json.dumps(content).encode()
    with pytest.MonkeyPatch.context() as bounds:
        whole, unfit = events_in([text], SCHEMA)
        bounds.setattr(raw_events, "_SURELY_FINE", 0)
        bounds.setattr(raw_events, "LARGEST_EVENT", 30)
        batch, refused = events_in([text], SCHEMA)
    parts = content if isinstance(content, list) else [content]
    small = [each for each in parts if isinstance(content, dict) or len(json.dumps(each).encode()) <= 30]
    if isinstance(content, dict) and len(text) > 30:
        small = []
    kept, beside = events_in([json.dumps(small).encode()], SCHEMA)
    assert kept == batch
    assert len(parts) - len(small) + len(beside) == len(refused)
    assert len(parts) == len(whole) + len(unfit)


def test_an_array_of_millions_of_events_is_one_dead_letter() -> None:
    """It is refused as a whole, with the count and the remedy, and shown only in part."""
    message = b"[" + b",".join([b"{}"] * 2_600_000) + b"]"
    _, (unfit,) = events_in([message], SCHEMA)
    assert f"the message has 2,600,000 events, and may have {MOST_RAW_EVENTS:,}; send several" == unfit.reason
    assert len(unfit.event) <= 1_000


def test_as_many_events_as_a_message_may_have_are_read() -> None:
    """The bound itself is allowed."""
    assert (MOST_RAW_EVENTS, []) == reasons(b"[" + b",".join([b"{}"] * MOST_RAW_EVENTS) + b"]")


def test_a_message_that_is_too_large_is_not_read_at_all() -> None:
    """Whatever it holds."""
    message = b'{"s":"' + b"x" * LARGEST_RAW_MESSAGE + b'"}'
    why = f"the message has {len(message):,} bytes, and may have {LARGEST_RAW_MESSAGE:,}; send several"
    assert (0, [why]) == reasons(message)


def test_an_event_that_is_too_large_costs_none_beside_it() -> None:
    """It is a dead letter of its own; the others of its message are read."""
    large = b'{"s":"' + b"x" * LARGEST_EVENT + b'"}'
    count, (why,) = reasons(b'[{"t":1},' + large + b',{"t":2}]')
    assert (2, True) == (count, why.startswith(f"the event has {len(large):,} bytes, and may have"))
    assert (0, [why]) == reasons(large)


def test_a_large_message_that_is_no_json_or_too_deep_is_one_dead_letter() -> None:
    """However it is broken."""
    for message in (b"[" * 6_000_000, b"[" + b"nul," * 1_500_000, b'{"a":' * 900_000 + b"1" + b"}" * 900_000):
        assert (0, 1) == (reasons(message)[0], len(reasons(message)[1]))


def test_many_unfit_events_of_a_message_are_few_dead_letters() -> None:
    """The first are reported one by one, and all others in one, with their number."""
    count, why = reasons(json.dumps([{"t": 1}, *["no event"] * (MOST_UNFIT_REPORTED + 51)]).encode())
    assert (1, MOST_UNFIT_REPORTED + 1) == (count, len(why))
    assert "this and 50 more events of the message are unfit; of this one: the event is not a JSON object" == why[-1]
