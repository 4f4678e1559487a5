"""Statistics over the events of a stream, checked against their definitions."""

import json
import math
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bridge.raw_events import ARROW_TYPES
from dags import Kind, Schema
from engine.implementations import stream_statistics
from engine.tasks.stream_statistics import DistinctApproxCountConfig
from engine.trial import Event, Parked, Trial, rows_of, try_out
from tests.tasks import references
from tests.tasks.agreeing import agrees

SCHEMA = Schema.of(k=Kind.STRING, n=Kind.INTEGER, v=Kind.FLOAT, w=Kind.INTEGER)
VALUES = st.floats(-1e6, 1e6)
ROW: dict[str, st.SearchStrategy[Any]] = {
    "k": st.sampled_from(["a", "b", None]),
    "n": st.integers(0, 1),
    "v": st.none() | VALUES,
    "w": st.none() | st.integers(-(2**53), 2**53),
}
ROWS = st.lists(st.fixed_dictionaries(ROW), max_size=5) | st.lists(st.fixed_dictionaries(ROW), min_size=30, max_size=40)
BY = st.lists(st.sampled_from(["k", "n"]), max_size=2, unique=True)
POISON: list[Event] = [{"k": "a", "n": 0, "v": value} for value in (math.nan, math.inf, -math.inf)]
few = settings(max_examples=12)


@few
@given(ROWS, BY, st.integers(1, 4))
def test_an_average_of_blocks(events: list[Event], by: list[str], window: int) -> None:
    """To the last bit, because values are added in the order of events."""
    agrees(
        stream_statistics.block_window_average,
        {"field": "v", "by": by, "window": window},
        events,
        lambda seen: references.block_window_average(seen, by, window),
        SCHEMA,
        poisonous=POISON,
        exact=True,
    )


@few
@given(ROWS, BY)
def test_a_count(events: list[Event], by: list[str]) -> None:
    """Every event counts."""
    agrees(stream_statistics.count, {"by": by}, events, lambda seen: references.count(seen, by), SCHEMA)


@few
@given(ROWS, BY, st.floats(0, 2), st.floats(0.01, 2), st.floats(0, 50))
def test_a_kalman_filter(events: list[Event], by: list[str], process: float, sensor: float, error: float) -> None:
    """The five equations of the filter in one dimension."""
    agrees(
        stream_statistics.kalman_filter,
        {"field": "v", "by": by, "process_noise": process, "sensor_noise": sensor, "estimated_error": error},
        events,
        lambda seen: references.kalman_filter(seen, by, process, sensor, error),
        SCHEMA,
        poisonous=POISON,
    )


def test_a_kalman_filter_approaches_the_measurements() -> None:
    """With the benchmark's noises: at once from an uncertain first estimate, then slowly."""
    found = [each["v"] for each in try_out("kalman_filter", {"field": "v"}, [{"v": 10.0}] * 3 + [{"v": 20.0}])["out"]]
    assert [9.895, 9.956, 9.978, 14.678] == [round(value, 3) for value in found]


@few
@given(ROWS, BY, st.integers(1, 4))
def test_interpolation(events: list[Event], by: list[str], window: int) -> None:
    """A null becomes the mean of the last values, and does not count as a value itself."""
    agrees(
        stream_statistics.interpolate,
        {"field": "v", "by": by, "window": window},
        events,
        lambda seen: references.interpolate(seen, by, window),
        SCHEMA,
        poisonous=POISON,
        exact=True,
    )


@few
@given(ROWS, BY, st.sampled_from([1, 7, 10, 512]), st.sampled_from(["v", "w", "k"]))
def test_the_second_order_moment(events: list[Event], by: list[str], counters: int, field: str) -> None:
    """For values of any kind. Both zeros are one value."""
    normalised = [{**event, "v": event["v"] + 0.0 if event["v"] is not None else None} for event in events]
    agrees(
        stream_statistics.second_order_moment,
        {"field": field, "by": by, "counters": counters},
        normalised,
        lambda seen: (
            (port, {"second_order_moment": event["second_order_moment"], **original})
            for (port, event), original in _beside(references.second_order_moment, seen, field, by, counters)
        ),
        SCHEMA,
        poisonous=POISON if field == "v" else (),
        exact=True,
    )


def _beside(reference: Any, seen: Any, field: str, by: list[str], counters: int) -> Any:
    """The reference over another field than `v`, with each event as it was."""
    originals: list[Event] = []

    def renamed() -> Any:
        for event in seen:
            originals.append(event)
            yield {**event, "v": event[field]}

    for emitted in reference(renamed(), by, counters):
        yield emitted, originals[-1]


def test_the_second_order_moment_is_near() -> None:
    """Within the algorithm's error for many counters. Both zeros are one value."""
    rows = [{"v": float(value)} for value in range(1, 40) for _ in range(value)]
    exact = sum(value * value for value in range(1, 40))
    (*_, last) = try_out("second_order_moment", {"field": "v", "counters": 512}, rows)["out"]
    assert math.isclose(exact, last["second_order_moment"], rel_tol=4 * math.sqrt(2 / 512))
    assert (
        4.0
        == try_out("second_order_moment", {"field": "v"}, [{"v": 0.0}, {"v": -0.0}])["out"][-1]["second_order_moment"]
    )


@few
@given(
    st.lists(st.fixed_dictionaries({**ROW, "v": st.none() | st.text(max_size=2)}), max_size=120),
    BY,
    st.integers(4, 7),
)
def test_a_distinct_count(events: list[Event], by: list[str], log: int) -> None:
    """The estimate is the same for any batches, which pass the sketch through its state."""
    agrees(
        stream_statistics.distinct_approx_count,
        {"field": "v", "by": by, "buckets": 2**log},
        events,
        lambda seen: references.distinct_approx_count(seen, by, log),
        SCHEMA.plus("v", Kind.STRING),
        exact=True,
    )


@pytest.mark.parametrize("values", [[f"sensor {n}" for n in range(20_000)], [n / 7 for n in range(20_000)]])
def test_a_distinct_count_is_near(values: list[Any]) -> None:
    """Within four times the relative error of its buckets, for texts and numbers. Nulls do not count."""
    rows = [{"v": value} for value in [*values, None, *values]]
    (*_, last) = try_out("distinct_approx_count", {"field": "v"}, rows)["out"]
    assert math.isclose(len(values), last["distinct"], rel_tol=4 * 1.04 / math.sqrt(1_024))


@pytest.mark.parametrize(
    ("values", "expected"),
    [(["", "a", "", None], 2), ([True, False, None, True], 2), ([1, -1, 2**63 - 1, 1], 3), ([0.0, -0.0, 1.5], 2)],
)
def test_few_values_are_counted_exactly(values: list[Any], expected: int) -> None:
    """The empty text is a text, and both zeros are one."""
    (*_, last) = try_out("distinct_approx_count", {"field": "v"}, [{"v": value} for value in values])["out"]
    assert expected == round(last["distinct"], 3)


def test_a_number_that_is_not_finite_is_parked() -> None:
    """With the field and the value."""
    for type_ in ("distinct_approx_count", "second_order_moment"):
        with pytest.raises(Parked, match="the field 'v' is nan; it needs a finite number"):
            try_out(type_, {"field": "v"}, [{"v": math.nan}])


def test_buckets_are_a_power_of_two() -> None:
    """The error names the next one."""
    with pytest.raises(ValidationError, match="1000 is not a power of two; use 1024"):
        DistinctApproxCountConfig(field="v", buckets=1_000)


@few
@given(ROWS, BY, st.integers(1, 4), st.permutations(["v", "w", "n"]))
def test_accumulating(events: list[Event], by: list[str], window: int, fields: list[str]) -> None:
    """Fields become arrays of their values, including nulls, even a collected field of the key."""
    agrees(
        stream_statistics.accumulate,
        {"fields": fields, "by": by, "window": window},
        events,
        lambda seen: references.accumulate(seen, by, fields, window),
        SCHEMA,
        poisonous=POISON,
    )


@few
@given(ROWS, BY, st.integers(2, 5), st.integers(1, 3))
def test_a_sliding_regression(events: list[Event], by: list[str], train: int, predict: int) -> None:
    """To the last bit, because values are added in the order of events."""
    agrees(
        stream_statistics.sliding_linear_regression,
        {"field": "v", "by": by, "train": train, "predict": predict},
        events,
        lambda seen: references.sliding_linear_regression(seen, by, train, predict),
        SCHEMA,
        poisonous=POISON,
        exact=True,
    )


@given(st.lists(VALUES, min_size=2, max_size=12))
def test_a_sliding_regression_is_the_line_of_least_squares(values: list[float]) -> None:
    """By the textbook, in fractions, over running numbers from 1."""
    train = len(values)
    (*_, last) = try_out(
        "sliding_linear_regression", {"field": "v", "train": train}, [{"v": value} for value in values]
    )["out"]
    numbers, ys = range(1, train + 1), [Fraction(value) for value in values]
    sxy = train * sum(x * y for x, y in zip(numbers, ys, strict=True)) - sum(numbers) * sum(ys)
    slope = sxy / (train * sum(x * x for x in numbers) - sum(numbers) ** 2)
    start = (sum(ys) - slope * sum(numbers)) / train
    expected = [float(start + slope * (train + ahead)) for ahead in range(1, 11)]
    assert json.loads(last["predictions"]) == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert last["predicted"] == pytest.approx(math.fsum(expected) / 10, rel=1e-9, abs=1e-6)


def test_a_shorter_window_uses_the_last_values() -> None:
    """If the state has more values than a window, as after a change of config."""
    for type_, config, expected in (
        ("interpolate", {"field": "v", "window": 2}, {"v": 3.5}),
        ("accumulate", {"fields": ["v"], "window": 2}, {"v": "[1.0,2.0,3.0,4.0,null]"}),
    ):
        schemas = {"in": Schema.of(v=Kind.FLOAT)}
        longer = Trial(type_, config | {"window": 9}, schemas)
        longer.take([("in", {"v": float(value)}) for value in (1, 2, 3, 4)])
        shorter = Trial(type_, config, schemas)
        shorter.state = longer.state
        assert [expected] == shorter.take([("in", {"v": None})]).emitted["out"].rows.to_pylist()


@pytest.mark.parametrize("type_", ["block_window_average", "interpolate", "kalman_filter", "sliding_linear_regression"])
def test_a_text_is_no_number(type_: str) -> None:
    """A stream without a declared schema may contain one. The reason contains a remedy."""
    with pytest.raises(ValueError, match="the field 'v' is of type string, not a number"):
        try_out(type_, {"field": "v"}, [{"v": "warm"}])


@pytest.mark.parametrize(
    ("type_", "config"),
    [
        ("accumulate", {"fields": ["v"]}),
        ("block_window_average", {"field": "v"}),
    ],
)
def test_blocks_of_several_keys_end_in_the_order_of_events(type_: str, config: dict[str, Any]) -> None:
    """As a batch requires. Otherwise the task would run event by event, which is slow."""
    trial = Trial(type_, config | {"by": ["k"], "window": 2}, {"in": SCHEMA})
    rows = rows_of([{"k": key, "v": 1.0} for key in "abcbaac"], arrow(SCHEMA))
    origin = trial.behaviour("in", rows, trial.state)["out"].origin
    assert origin is not None
    assert [3, 4, 6] == origin.tolist()


def arrow(schema: Schema) -> pa.Schema:
    return pa.schema({name: ARROW_TYPES[schema.fields[name]] for name in schema.names()})
