"""Windows over event time, checked against their definition."""

import math
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dags import Kind, Schema
from engine.implementations.windows import tumbling_window
from engine.tasks.windows import TumblingWindowConfig
from engine.trial import Event, Parked, Trial, try_out
from tests.tasks.agreeing import agrees
from tests.tasks.references import windows as references
from tests.tasks.references.windows import EPOCH

SCHEMA = Schema.of(at=Kind.TIMESTAMP, k=Kind.STRING, n=Kind.INTEGER, v=Kind.FLOAT)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(-6, 12).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
            "k": st.sampled_from(["a", "b", None]),
            "n": st.integers(0, 1),
            "v": st.none() | st.floats(-1e6, 1e6).map(lambda value: value + 0.0),  # of -0.0 and 0.0 one is emitted
        }
    ),
    min_size=20,
    max_size=40,
)
BY = st.lists(st.sampled_from(["k", "n", "v"]), max_size=2, unique=True)
POISON: list[Event] = [{"at": None, "v": 1.0}, {"at": EPOCH, "v": math.nan}]


def at(second: float, value: float | None = 1.0) -> Event:
    return {"at": EPOCH + timedelta(seconds=second), "v": value}


@settings(max_examples=15)
@given(ROWS, BY, st.integers(1, 5), st.integers(0, 4), st.booleans())
def test_a_tumbling_window(events: list[Event], by: list[str], size: int, lateness: int, rising: bool) -> None:  # noqa: FBT001 - drawn
    """Also before 1970, with null keys, and with events in any order."""
    agrees(
        tumbling_window,
        {"time": "at", "field": "v", "by": by, "size_ms": size, "lateness_ms": lateness},
        sorted(events, key=lambda event: event["at"]) if rising else events,
        lambda seen: references.tumbling_window(
            seen, by, timedelta(milliseconds=size), timedelta(milliseconds=lateness)
        ),
        SCHEMA,
        poisonous=POISON,
        exact=True,
    )


def test_lateness_keeps_a_window_open() -> None:
    """An event within the lateness counts. A later one leaves at the other port unchanged."""
    config = {"time": "at", "field": "v", "size_ms": 1_000, "lateness_ms": 500}
    found = try_out("tumbling_window", config, [at(0.1), at(1.4), at(0.9, 3.0), at(1.5), at(0.8)])
    assert [(2, 4.0)] == [(each["count"], each["sum"]) for each in found["out"]]
    assert [at(0.8)] == found["late"]


def test_a_closed_window_leaves_nothing() -> None:
    """The state is the open windows."""
    trial = Trial("tumbling_window", {"time": "at", "field": "v", "size_ms": 1_000}, {"in": SCHEMA})
    trial.take([("in", {**at(second), "k": f"sensor {second}"}) for second in range(20)])
    left = [key for group in trial.state.changes().values() for key, value in group.items() if value is not None]
    assert 3 == len(left), "the clock, and one key of one window, which is listed and has a sum"


def test_a_time_is_needed() -> None:
    """The reason names the field."""
    with pytest.raises(Parked, match="the field 'at' is null; it needs a value"):
        try_out("tumbling_window", {"time": "at", "field": "v"}, [at(1), {"at": None, "v": 1.0}])
    with pytest.raises(ValueError, match="the field 'v' is of type double, not a time"):
        try_out("tumbling_window", {"time": "v", "field": "v"}, [at(1)])


def test_a_key_must_not_have_the_name_of_an_emitted_field() -> None:
    """One of the two would hide the other."""
    with pytest.raises(ValidationError, match="'mean' has the name of a field of the window; rename it upstream"):
        TumblingWindowConfig(time="at", field="v", by=("mean",))
