"""Predictive tasks, checked against their definitions."""

import json
import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from dags import Kind, Schema
from engine.implementations import predictive
from engine.tasks.predictive import DecisionTree, DecisionTreeClassifyConfig, LinearRegression, read_model, written
from engine.trial import At, Event, Parked, try_out
from tests.tasks import references
from tests.tasks.agreeing import agrees

FIELDS = ["v", "w"]
SCHEMA = Schema.of({"class": Kind.STRING}, k=Kind.STRING, v=Kind.FLOAT, w=Kind.INTEGER)
VALUES = st.none() | st.just(0.1) | st.floats(-1e3, 1e3)
MEANS = st.none() | st.integers(-1_000, 1_000).map(lambda eighths: eighths / 8)
"""None so small that what is divided by it would be beyond all numbers."""
EVENT = st.fixed_dictionaries(
    {
        "class": st.none() | st.sampled_from(["bad", "good", "best"]),
        "k": st.sampled_from(["a", "b"]),
        "v": VALUES,
        "w": st.none() | st.integers(-5, 5),
    }
)
POISON: list[Event] = [{"k": "a", "v": math.nan, "w": 1}, {"k": "a", "v": -math.inf, "w": 1}]
LEAF = {"left": [-1], "right": [-1], "field": [0], "threshold": [0.0], "leaf": [0]}


def tree(**changed: Any) -> str:
    """A tree that asks for v, then for w; of 32 bits, 0.1 lies above the first threshold."""
    good = {
        "kind": "decision_tree",
        "fields": ["v", "w"],
        "classes": ["bad", "good", "best"],
        "left": [1, -1, 3, -1, -1],
        "right": [2, -1, 4, -1, -1],
        "field": [0, 0, 1, 0, 0],
        "threshold": [0.1, -2.0, 1.0, -2.0, -2.0],
        "leaf": [0, 0, 1, 1, 2],
    }
    return json.dumps(good | changed)


def line(**changed: Any) -> str:
    return json.dumps(
        {"kind": "linear_regression", "fields": ["w", "v"], "intercept": 0.5, "coefficients": [2.0, -0.25]} | changed
    )


@settings(max_examples=8)
@given(st.lists(EVENT, min_size=15, max_size=30), st.integers(1, 8))
def test_growing_trees(events: list[Event], window: int) -> None:
    """One tree per window of complete events, the same as the library's. Equal events give equal text."""
    agrees(
        predictive.decision_tree_train,
        {"fields": FIELDS, "window": window},
        events,
        lambda seen: references.decision_tree_train(seen, FIELDS, "class", window),
        SCHEMA,
        poisonous=[{"class": "bad", "v": value, "w": 0} for value in (math.nan, 1e39)],
    )


def test_a_tree_that_was_grown_classifies_as_the_library_does() -> None:
    """For 300 events, and for numbers between floats of 32 bits."""
    random = Random(4)
    rows: list[Event] = [
        {"v": v, "w": w, "class": "best" if v * w > 1 else "bad" if v < 0.1 else "good"}
        for v, w in ((random.uniform(-3, 3), random.randrange(-3, 4)) for _ in range(900))
    ]
    (model,) = try_out("decision_tree_train", {"fields": FIELDS}, rows[:300])["out"]
    found = try_out(
        "decision_tree_classify", {"fields": FIELDS}, [("model", model), *(("in", row) for row in rows[300:])]
    )["out"]
    grown = references.grown(rows[:300], FIELDS, "class")
    assert grown.predict(np.array([[row["v"], row["w"]] for row in rows[300:]])).tolist() == [
        each["class"] for each in found
    ]
    assert 0.9 < sum(row["class"] == each["class"] for row, each in zip(rows[300:], found, strict=True)) / 600


MODELS = st.sampled_from([tree(), line(), tree(fields=["w", "v"]), tree(fields=["v"], classes=["one"], **LEAF)])
LINES = st.sampled_from([line(), tree(), line(intercept=-3.0), line(fields=[], coefficients=[])])


def as_line(event: Event) -> LinearRegression:
    model = read_model(event["model"], LinearRegression, FIELDS)
    assert model is not None
    return model


def placed(models: st.SearchStrategy[str]) -> st.SearchStrategy[list[At]]:
    """Events at one port, and models at the other."""
    model = models.map(lambda text: ("model", {"model": text}))
    return st.lists(EVENT.map(lambda event: ("in", event)) | model, min_size=10, max_size=30)


BOTH = {"in": SCHEMA, "model": Schema.of(model=Kind.STRING)}
NO_MODELS = [("model", {"model": text}) for text in (None, "{}")]


@settings(max_examples=10)
@given(placed(MODELS))
def test_classifying(events: list[At]) -> None:
    """By the latest tree. Without one, or if a field is null, there is no class. Regressions are skipped."""
    agrees(
        predictive.decision_tree_classify,
        {"fields": FIELDS},
        events,
        lambda seen: references.decision_tree_classify(seen, FIELDS),
        BOTH,
        poisonous=[*(("in", event) for event in POISON), *NO_MODELS, ("model", {"model": tree(fields=["x"])})],
    )


@settings(max_examples=10)
@given(placed(LINES))
def test_predicting(events: list[At]) -> None:
    """By the latest regression, field by field in order. Trees are skipped."""
    agrees(
        predictive.linear_regression_predict,
        {"fields": FIELDS},
        events,
        lambda seen: references.linear_regression_predict(seen, FIELDS),
        BOTH,
        poisonous=[*(("in", event) for event in POISON), *NO_MODELS, ("model", {"model": line(fields=["v"])})],
        exact=True,
    )


def test_a_number_on_a_threshold_goes_left() -> None:
    """As a float of 32 bits: 0.1 is a little more there than the threshold 0.1."""
    rows = [{"v": v, "w": w} for v, w in ((0.0, 2), (0.09999999, 2), (0.1, 1), (0.1, 2))]
    found = try_out("decision_tree_classify", {"fields": FIELDS, "initial": tree()}, rows)["out"]
    assert ["bad", "bad", "good", "best"] == [each["class"] for each in found]


def test_equal_events_grow_equal_trees() -> None:
    """Even if several splits are equally good."""
    fields = [f"v{number}" for number in range(8)]
    rows = [dict.fromkeys(fields, float(number)) | {"class": "few" if number < 5 else "many"} for number in range(10)]
    config = {"fields": fields, "window": 10}
    assert 1 == len({try_out("decision_tree_train", config, rows)["out"][0]["model"] for _ in range(5)})


def test_a_first_model_may_be_given() -> None:
    """It holds until another arrives. A text that is not a model is refused with the document."""
    rows: list[At] = [("in", {"v": 0.0, "w": 0}), ("model", {"model": tree(classes=["C", "B", "A"])})]
    found = try_out("decision_tree_classify", {"fields": FIELDS, "initial": tree()}, [*rows, rows[0]])["out"]
    assert ["bad", "C"] == [each["class"] for each in found]
    with pytest.raises(ValidationError, match="the initial model is of another kind; give a decision tree"):
        DecisionTreeClassifyConfig(fields=("v",), initial=line())
    found = try_out("linear_regression_predict", {"fields": FIELDS, "initial": line()}, rows[:1])["out"]
    assert [0.5] == [each["prediction"] for each in found]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"left": [0, -1, 3, -1, -1]}, "node 0 does not lead to a later node"),
        ({"right": [2, -1, 5, -1, -1]}, "node 2 does not lead to a later node"),
        ({"left": [1, -1, -1, -1, -1]}, "node 2 does not lead to a later node"),
        ({"left": [1, -1, -9, -1, -1]}, "Expected `int` >= -1"),
        ({"field": [0, 0, 2, 0, 0]}, "the field of node 2 does not exist"),
        ({"field": [-1, 0, 1, 0, 0]}, "the field of node 0 does not exist"),
        ({"leaf": [0, 0, 1, 1, 3]}, "the class of a node does not exist"),
        ({"threshold": [0.1]}, "its lists of nodes are empty or differ in length"),
        ({name: [] for name in LEAF}, "its lists of nodes are empty or differ in length"),
        ({"threshold": ["0.1"]}, "Expected `float`, got `str`"),
        ({"fields": ["v", "x"]}, "the model needs the field 'x', which this task does not read; add it to 'fields'"),
    ],
)
def test_a_tree_is_whole_or_refused(changed: dict[str, Any], reason: str) -> None:
    """Before it classifies any event."""
    with pytest.raises(Parked, match=reason):
        try_out("decision_tree_classify", {"fields": FIELDS}, [("model", {"model": tree(**changed)})], BOTH)


def test_a_line_is_whole_or_refused() -> None:
    """It needs a coefficient for each field, and finite numbers. Its predictions must be finite too."""
    for text, reason in (
        ("", "the text is not a model: Input data was truncated"),
        ("[" * 100_000, "the text is not a model"),
        (line(coefficients=[1.0]), "it has 1 coefficients for 2 fields"),
        (line().replace("0.5", "1e999"), "Number out of range|not finite"),
        (line(fields=["v" * 4_000_000]), "characters; the most allowed are 4,000,000"),
    ):
        with pytest.raises(Parked, match=reason):
            try_out("linear_regression_predict", {"fields": FIELDS}, [("model", {"model": text})], BOTH)
    with pytest.raises(
        Parked, match="the field 'prediction' would be inf; the numbers that it is computed from are too large"
    ):
        try_out(
            "linear_regression_predict",
            {"fields": ["v"], "initial": line(fields=["v"], coefficients=[10.0])},
            [{"v": 1.7e308}],
        )


def test_models_come_back_as_they_were_written() -> None:
    """To the last bit."""
    one = LinearRegression(fields=("a", "b"), intercept=0.1 + 0.2, coefficients=(1e-320, -1 / 3))
    assert one == read_model(written(one), LinearRegression, ["b", "a"])
    other = read_model(tree(), DecisionTree, FIELDS)
    assert other is not None
    assert other == read_model(written(other), DecisionTree, FIELDS)


def test_fitting_a_line() -> None:
    """One model per window of complete events, that of the normal equations."""
    random = Random(5)
    rows: list[dict[str, Any]] = [
        {"v": random.uniform(-9, 9), "w": random.randrange(-9, 9), "sold": random.uniform(0, 9)} for _ in range(40)
    ]
    config = {"fields": FIELDS, "target": "sold", "window": 20}
    models = [
        as_line(each)
        for each in try_out("linear_regression_train", config, [*rows[:20], {**rows[0], "w": None}, *rows[20:]])["out"]
    ]
    for model, block in zip(models, (rows[:20], rows[20:]), strict=True):
        exact = references.least_squares([[row["v"], row["w"]] for row in block], [row["sold"] for row in block])
        assert pytest.approx([float(each) for each in exact], rel=1e-9) == [model.intercept, *model.coefficients]


@settings(max_examples=10)
@given(st.lists(EVENT, min_size=15, max_size=30), st.integers(1, 8))
def test_fitting_lines(events: list[Event], window: int) -> None:
    """The same text for any batches, even if fields are too few or all alike."""

    def in_one_batch(seen: Any) -> Any:
        for rows in references.whole(seen, ["v", "w"], window):
            ((port, model),) = (
                ("out", each) for each in try_out("linear_regression_train", config, rows, SCHEMA)["out"]
            )
            yield port, model

    config = {"fields": ["w"], "target": "v", "window": window}
    agrees(
        predictive.linear_regression_train,
        config,
        events,
        in_one_batch,
        SCHEMA,
        poisonous=[{"v": -1e39, "w": 0}],
    )


@settings(max_examples=12)
@given(
    st.lists(
        st.fixed_dictionaries({"k": st.sampled_from(["a", "b"]), "v": VALUES, "prediction": VALUES}).map(
            lambda event: ("in", event)
        )
        | st.fixed_dictionaries({"k": st.sampled_from(["a", "b"]), "mean": MEANS}).map(
            lambda event: ("average", event)
        ),
        min_size=15,
        max_size=30,
    ),
    st.sampled_from([[], ["k"]]),
)
def test_estimating_errors(events: list[At], by: list[str]) -> None:
    """By the latest average of the key. There is none without it, or if it is 0."""
    agrees(
        predictive.error_estimate,
        {"observed": "v", "average": "mean", "by": by},
        events,
        lambda seen: references.error_estimate(seen, by),
        {
            "in": Schema.of(k=Kind.STRING, v=Kind.FLOAT, prediction=Kind.FLOAT),
            "average": Schema.of(k=Kind.STRING, mean=Kind.FLOAT),
        },
        poisonous=[("in", {"k": "a", "v": math.nan}), ("average", {"k": "b", "mean": math.inf})],
        exact=True,
    )


@settings(max_examples=12)
@given(
    st.lists(EVENT.map(lambda event: {name: event[name] for name in ("k", "v", "w")}), min_size=15, max_size=30),
    st.integers(1, 9),
    st.integers(2, 5),
)
def test_annotating_classes(events: list[Event], window: int, many: int) -> None:
    """One window at a time, in equal parts."""
    classes = [f"class {number}" for number in range(many)]
    agrees(
        predictive.annotate_class,
        {"field": "v", "classes": classes, "window": window},
        events,
        lambda seen: references.annotate_class(seen, classes, window),
        SCHEMA.without("class"),
        poisonous=POISON,
        exact=True,
    )


def test_classes_can_be_learned() -> None:
    """A tree learns a number that determines its own class without errors."""
    rows = [{"v": float(number % 300)} for number in range(300)]
    annotated = try_out("annotate_class", {"field": "v"}, rows)["out"]
    assert dict.fromkeys(("BAD", "GOOD", "VERYGOOD", "EXCELLENT"), 75) == {
        name: sum(each["class"] == name for each in annotated) for name in ("BAD", "GOOD", "VERYGOOD", "EXCELLENT")
    }
    (model,) = try_out("decision_tree_train", {"fields": ["v"]}, annotated)["out"]
    found = try_out("decision_tree_classify", {"fields": ["v"]}, [("model", model), *(("in", row) for row in rows)])[
        "out"
    ]
    assert annotated == found
