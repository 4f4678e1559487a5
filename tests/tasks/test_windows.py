"""Windows, joins and unique events, checked against their definitions."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dags import Kind, Schema
from engine.behaviour import AnyImplementation, implementation_of, installed_behaviours
from engine.implementations.windows import join_by_id, self_join, tumbling_window
from engine.tasks import TYPES
from engine.tasks.windows import JoinByIdConfig, TumblingWindowConfig
from engine.trial import Event, Parked, Trial, try_out
from tests.tasks import references
from tests.tasks.agreeing import agrees, few
from tests.tasks.references import EPOCH

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


JOINED = Schema.of(
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
JOINED_ROWS = st.lists(st.fixed_dictionaries(ROW), min_size=20, max_size=40)
JOINED_BY = st.sampled_from([["id"], ["id", "number"]])
BAD: list[Event] = [
    {"id": None, "time": EPOCH, "field": "dust", "value": 1.0, "number": 0},
    {"id": "a", "time": None, "field": "dust", "value": 1.0, "number": 0},
    {"id": "a", "time": EPOCH, "field": "dust", "value": math.nan, "number": 0},
]


@settings(max_examples=15)
@given(JOINED_ROWS, JOINED_BY, st.integers(1, 4), st.integers(1, 8), st.integers(1, 3), st.booleans())
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
        JOINED,
        poisonous=[*BAD, *([{**BAD[0], "id": "a", "field": "snow"}] if measured else [])],
        exact=True,
    )


@settings(max_examples=15)
@given(JOINED_ROWS, JOINED_BY, st.integers(1, 3), st.integers(1, 8), st.integers(1, 5), st.booleans())
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
        JOINED,
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
    trial = Trial("self_join", {"by": ["id"], "expected": 2, "most_known": 10}, {"in": JOINED})
    for number in range(50):
        time = EPOCH + timedelta(milliseconds=number)
        trial.take([("in", {"id": "m", "time": time, "number": number})] * (1 + number % 2))
    left = [key for group in trial.state.changes().values() for key, value in group.items() if value is not None]
    assert 22 == len(left)


def test_complete_ids_leave_no_state() -> None:
    """The state is the clock, and for each waiting id its place in the queue and its fields."""
    trial = Trial("join_by_id", {"by": ["id"], "expected": 2}, {"in": JOINED})
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


UNIQUE = [kind.name for kind in TYPES if kind.unique_by is not None]
READ_NAMES = ["dust", "light"]
READINGS = Schema.of(field=Kind.STRING, id=Kind.STRING, number=Kind.INTEGER, time=Kind.TIMESTAMP, value=Kind.FLOAT)
CONFIGS: Mapping[str, st.SearchStrategy[dict[str, Any]]] = {
    "self_join": st.fixed_dictionaries(
        {
            "by": st.sampled_from([["id"], ["id", "number"]]),
            "expected": st.integers(1, 3),
            "expiry_ms": st.integers(1, 8),
            "most_known": st.integers(1, 4),
            "observed": st.sampled_from([[], READ_NAMES]),
        }
    )
}
"""Configs of each type that emits once."""
PIECES = st.fixed_dictionaries(
    {
        "id": st.sampled_from("ab"),
        "number": st.integers(0, 1),
        "time": st.integers(0, 12).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
        "field": st.sampled_from(READ_NAMES),
        "value": st.none() | st.floats(-1e6, 1e6),
    }
)


def emissions(
    implementation: AnyImplementation,
    config: Mapping[str, Any],
    pieces: Sequence[tuple[int, Event]],
    cuts: Sequence[int] = (),
) -> Counter[int]:
    """How many events leave by all ports for each event of a source; the pieces come with the number of theirs.

    They enter by the input ports in turn, in batches that end at the cuts.
    """
    ports = implementation.type.inputs
    trial = Trial(implementation, config, dict.fromkeys(ports, READINGS))
    entering = [(ports[place % len(ports)], piece) for place, (_, piece) in enumerate(pieces)]
    emitted = Counter[int]()
    for begin, end in pairwise([0, *cuts, len(pieces)]):
        outcome = trial.take(entering[begin:end])
        assert not outcome.dead
        emitted.update(pieces[cause][0] for stream in outcome.emitted.values() for cause in stream.causes.tolist())
    return emitted


def test_every_type_that_emits_once_is_held_by_the_law() -> None:
    """The library has such types, and configs of each are drawn."""
    assert sorted(CONFIGS) == sorted(UNIQUE) != []


@pytest.mark.parametrize("name", UNIQUE)
@few
@given(st.data())
def test_one_event_at_most_leaves_for_an_event_of_a_source(name: str, data: st.DataObject) -> None:
    """However many pieces of it come, in whatever order, among those of others, and in whatever batches.

    All pieces of one have the values of its first in the fields that the type names, and any values in the others.
    Several events of sources may have the same values there.
    """
    implementation = implementation_of(name, installed_behaviours())
    config = data.draw(CONFIGS[name])
    kind = implementation.type
    assert kind.unique_by is not None
    fields = kind.unique_by(Trial(implementation, config, {"in": READINGS}).config)
    assert fields is not None
    events = data.draw(st.lists(PIECES, min_size=1, max_size=5))
    drawn = data.draw(st.lists(st.tuples(st.integers(0, len(events) - 1), PIECES), max_size=30))
    pieces = [(number, piece | {name: events[number][name] for name in fields}) for number, piece in drawn]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pieces)), max_size=5)))
    emitted = emissions(implementation, config, pieces, cuts)
    assert max(emitted.values(), default=0) <= 1
    same = Counter(tuple(events[number][name] for name in fields) for number in emitted.elements())
    assert max(same.values(), default=0) <= 1


def test_a_join_that_forgets_what_it_has_joined_emits_twice() -> None:
    """Of two events of sources with one id the later one gets two joined events, so such a type may not declare it."""
    piece = {"id": "a", "time": EPOCH, "number": 0}
    pieces = [(number, piece) for number in (0, 1, 0, 1)]
    assert {1: 2} == emissions(join_by_id, {"by": ["id"], "expected": 2}, pieces)
    once = implementation_of("self_join", installed_behaviours())
    assert {1: 1} == emissions(once, {"by": ["id"], "expected": 2}, pieces)
