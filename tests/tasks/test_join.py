"""Joins, checked against their definition."""

import math
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dags import Kind, Schema
from engine.implementations.windows import join_by_id, self_join
from engine.tasks.windows import JoinByIdConfig
from engine.trial import Event, Parked, Trial, try_out
from tests.tasks.agreeing import agrees
from tests.tasks.references import join as references
from tests.tasks.references.windows import EPOCH

SCHEMA = Schema.of(
    field=Kind.STRING, id=Kind.STRING, number=Kind.INTEGER, time=Kind.TIMESTAMP, unit=Kind.STRING, value=Kind.FLOAT
)
NAMES = ["dust", "light", "unit"]
ROW = {
    "id": st.sampled_from(["a", "b", "c"]),
    "number": st.integers(0, 1),
    "time": st.integers(0, 12).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
    "unit": st.none() | st.sampled_from(["C", "F"]),
    "field": st.sampled_from(NAMES),
    "value": st.none() | st.floats(-1e6, 1e6),
}
ROWS = st.lists(st.fixed_dictionaries(ROW), min_size=20, max_size=40)
BY = st.sampled_from([["id"], ["id", "number"]])
BAD: list[Event] = [
    {"id": None, "time": EPOCH, "field": "dust", "value": 1.0, "number": 0},
    {"id": "a", "time": None, "field": "dust", "value": 1.0, "number": 0},
    {"id": "a", "time": EPOCH, "field": "dust", "value": math.nan, "number": 0},
]


@settings(max_examples=15)
@given(ROWS, BY, st.integers(1, 4), st.integers(1, 8), st.integers(1, 3), st.booleans())
def test_a_join(  # noqa: PLR0913, PLR0917 - what is drawn
    events: list[Event],
    by: list[str],
    expected: int,
    expiry: int,
    most: int,
    measured: bool,  # noqa: FBT001 - drawn
) -> None:
    """Of events whose fields are merged, and of measurements that become fields, one of which replaces another."""
    observed = NAMES if measured else []
    agrees(
        join_by_id,
        {"by": by, "expected": expected, "expiry_ms": expiry, "most_waiting": most, "observed": observed},
        events,
        lambda seen: references.join_by_id(
            seen if not measured else ({name: each[name] for name in each if name != "unit"} for each in seen),
            by,
            expected,
            observed,
            timedelta(milliseconds=expiry),
            most,
        ),
        SCHEMA,
        poisonous=[*BAD, *([{**BAD[0], "id": "a", "field": "snow"}] if measured else [])],
        exact=True,
    )


@settings(max_examples=15)
@given(ROWS, BY, st.integers(1, 3), st.integers(1, 8), st.integers(1, 5), st.booleans())
def test_a_self_join(  # noqa: PLR0913, PLR0917 - what is drawn
    events: list[Event],
    by: list[str],
    expected: int,
    expiry: int,
    most: int,
    measured: bool,  # noqa: FBT001 - drawn
) -> None:
    """Of events whose fields are merged, and of measurements that become fields; ids are forgotten and come late."""
    observed = NAMES if measured else []
    agrees(
        self_join,
        {"by": by, "expected": expected, "expiry_ms": expiry, "most_known": most, "observed": observed},
        events,
        lambda seen: references.self_join(
            seen if not measured else ({name: row[name] for name in row if name != "unit"} for row in seen),
            by,
            expected,
            observed,
            timedelta(milliseconds=expiry),
            most,
        ),
        SCHEMA,
        poisonous=[*BAD, *([{**BAD[0], "id": "a", "field": "snow"}] if measured else [])],
        exact=True,
    )


def test_what_comes_late_is_never_joined_again() -> None:
    """After an id was forgotten, its events and older ones are dropped, and those with a later time are taken."""
    late, early, new, now = (
        {"id": id_, "time": EPOCH + timedelta(seconds=second)}
        for id_, second in (("a", 10), ("b", 5), ("c", 11), ("d", 70))
    )
    rows = [late, late, now, late, late, early, early, new, new]
    joined = try_out("self_join", {"by": ["id"], "expected": 2}, rows)["out"]
    assert [late, new] == joined


def test_the_state_of_a_self_join_is_bounded() -> None:
    """At most so many ids are remembered, each with its place in the queue, beside the clock and the floor."""
    trial = Trial("self_join", {"by": ["id"], "expected": 2, "most_known": 10}, {"in": SCHEMA})
    for number in range(50):
        time = EPOCH + timedelta(milliseconds=number)
        trial.take([("in", {"id": "m", "time": time, "number": number})] * (1 + number % 2))
    left = [key for group in trial.state.changes().values() for key, value in group.items() if value is not None]
    assert 22 == len(left)


def test_complete_ids_leave_no_state() -> None:
    """The state is the clock, and for each waiting id its place in the queue and its fields."""
    trial = Trial("join_by_id", {"by": ["id"], "expected": 2}, {"in": SCHEMA})
    for number in (*range(50), *range(49)):
        trial.take([("in", {"id": f"m{number}", "time": EPOCH, "number": number})])
    left = [key for group in trial.state.changes().values() for key, value in group.items() if value is not None]
    assert 3 == len(left)


def test_an_expired_id_starts_again() -> None:
    """Its incomplete event leaves at its own port when it is too old."""
    rows = [
        {"id": "a", "time": EPOCH + timedelta(seconds=second), "dust": dust, "light": light}
        for second, dust, light in ((0, 1.0, None), (60, None, 2.0), (61, 3.0, 4.0))
    ]
    found = try_out("join_by_id", {"by": ["id"], "expected": 2}, rows)
    assert [rows[0]] == found["expired"]
    assert [{**rows[1], "dust": 3.0}] == found["out"]


def test_a_measurement_that_is_not_observed_is_refused() -> None:
    """The reason names it."""
    config = {"by": ["id"], "expected": 2, "observed": ["dust"]}
    with pytest.raises(Parked, match="the field 'field' is 'snow', which is not an observed measurement"):
        try_out("join_by_id", config, [{"id": "a", "time": EPOCH, "field": "snow", "value": 1.0}])


def test_an_id_has_fields_of_its_own() -> None:
    """The field of a measurement differs from event to event."""
    with pytest.raises(ValidationError, match="the field 'value' is used for both the id and a measurement"):
        JoinByIdConfig(by=("value",), expected=2, observed=("dust",))
