"""Predictive tasks: they train models on events, and apply them to others.

Trainers make models from blocks of events, with scikit-learn, and the classes to learn from. Predictors apply models
that arrive as events, and estimate their errors. A model applies to the events after it, and the state is its text.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, NoBehaviour, PortEmission
from engine.implementations.values import (
    Flags,
    Floats,
    Numbers,
    blocks,
    check_present,
    events_by_key,
    floats,
    keyed,
    nullable,
    one_port,
    plain,
    replaced,
    restored,
)
from engine.records.state import Staged
from engine.tasks import predictive as described

_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST_LEAF = 2
"""The fewest events of a leaf, as in the benchmark's trees."""
_MODEL_SCHEMA = pa.schema({"model": pa.string()})


def _decision_tree_train(config: described.DecisionTreeTrainConfig) -> Behaviour:
    """Emits a tree at the event that completes a window.

    Splits are chosen by entropy, and leaves have at least two events. Equal events give equal models. The state is the
    events of the incomplete window.

    >>> rows = [{"t": t, "class": "cold" if t < 10 else "warm"} for t in (4.0, 21.0, 5.0, 22.0)]
    >>> try_out("decision_tree_train", {"fields": ["t"], "window": 4}, rows)["out"][0]["model"][:81]
    '{"kind":"decision_tree","fields":["t"],"classes":["cold","warm"],"left":[1,-1,-1]'
    """
    try:
        from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415 - an optional package, which only trainers need
    except ImportError as error:
        raise _lacking("decision_tree_train", error) from None

    def fit(features: Floats, labels: list[str]) -> str:
        made = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=_SMALLEST_LEAF, random_state=0)
        made.fit(features, labels)
        tree = made.tree_
        return described.written(
            described.DecisionTree(
                fields=config.fields,
                classes=tuple(made.classes_.tolist()),
                left=tuple(tree.children_left.tolist()),
                right=tuple(tree.children_right.tolist()),
                field=tuple(np.maximum(tree.feature, 0).tolist()),
                threshold=tuple(tree.threshold.tolist()),
                leaf=tuple(tree.value[:, 0, :].argmax(axis=1).tolist()),
            )
        )

    return _train(config, lambda events: _labels(events, config.label), fit)


def _linear_regression_train(config: described.LinearRegressionTrainConfig) -> Behaviour:
    """Emits the coefficients of least squares at the event that completes a window.

    The state is the events of the incomplete window.

    >>> from engine.tasks.predictive import LinearRegression, read_model
    >>> rows = [{"t": t, "sold": 3 * t + 1} for t in (1.0, 2.0, 4.0)]
    >>> out = try_out("linear_regression_train", {"fields": ["t"], "target": "sold", "window": 3}, rows)["out"]
    >>> model = read_model(out[0]["model"], LinearRegression, ["t"])
    >>> model and [round(model.intercept, 6), round(model.coefficients[0], 6)]
    [1.0, 3.0]
    """
    try:
        from sklearn.linear_model import LinearRegression  # noqa: PLC0415 - as above
    except ImportError as error:
        raise _lacking("linear_regression_train", error) from None

    def fit(features: Floats, targets: list[float]) -> str:
        made = LinearRegression().fit(features, np.array(targets))
        return described.written(
            described.LinearRegression(
                fields=config.fields, intercept=float(made.intercept_), coefficients=tuple(made.coef_.tolist())
            )
        )

    return _train(config, lambda events: _numbers(events, config.target), fit)


def _lacking(type_: str, error: ImportError) -> NoBehaviour:
    return NoBehaviour(f"{type_} needs scikit-learn ({error}); install braid[predictive] on every worker")


def _train(
    config: described.DecisionTreeTrainConfig | described.LinearRegressionTrainConfig,
    read_target: Callable[[pa.RecordBatch], pa.Array],
    fit: Callable[[Floats, list[Any]], str],
) -> Behaviour:
    """A behaviour that emits a model at every event that completes a window. Skips events with nulls."""

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        read = [*(_numbers(events, field) for field in config.fields), read_target(events)]
        present = np.logical_and.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in read])
        known = np.flatnonzero(present)
        columns = [column.take(pa.array(known)).to_pylist() for column in read]
        completed = blocks(keyed(events.take(pa.array(known)), ()), columns, config.window, state)
        models = [fit(np.array(block.columns[:-1]).T, block.columns[-1]) for block in completed]
        ends = np.array([block.end for block in completed], np.int64)
        return {
            "out": PortEmission(pa.record_batch([pa.array(models, pa.string())], schema=_MODEL_SCHEMA), known[ends])
        }

    return behave


def _numbers(events: pa.RecordBatch, name: str) -> pa.Array:
    """The numbers of a field for training. A number that would spoil its whole window is refused at once."""
    values, present = floats(events, name)
    large = values[np.abs(values) > _LARGEST]
    if len(large):
        raise ValueError(f"the field {name!r} is {large[0]}; the largest number to learn from is {_LARGEST:.3g}")
    return nullable(values, present)


def _labels(events: pa.RecordBatch, name: str) -> pa.Array:
    column = events.column(name)
    if not pa.types.is_string(column.type):
        raise ValueError(f"the field {name!r} is of type {column.type}, not a text; choose a field of kind string")
    return column


def _annotate_class(config: described.AnnotateClassConfig, events: pa.RecordBatch, state: Staged) -> PortEmission:
    """A class includes its greatest number.

    The classes have the same number of events, except that equal numbers are all in the lowest class of any of them.
    An event whose number is null has no class, but counts for the window. The state is the events of the incomplete
    window.

    >>> rows = [{"t": t} for t in (7.0, 1.0, 3.0, 5.0)]
    >>> [event["class"] for event in try_out("annotate_class", {"field": "t", "window": 4}, rows)["out"]]
    ['EXCELLENT', 'BAD', 'GOOD', 'VERYGOOD']
    """
    floats(events, config.field)
    columns = [plain(column) for column in events.columns]
    completed = blocks(keyed(events, ()), columns, config.window, state)
    at = events.schema.get_field_index(config.field)
    rows = {
        field.name: restored([value for block in completed for value in block.columns[place]], field.type)
        for place, field in enumerate(events.schema)
    }
    classes = [name for block in completed for name in _classes(block.columns[at], config.classes)]
    rows["class"] = pa.array(classes, pa.string())
    ends = [block.end for block in completed for _ in block.columns[at]]
    return PortEmission(pa.record_batch(rows), np.array(ends, np.int64))


def _classes(values: Sequence[float | None], classes: Sequence[str]) -> list[str | None]:
    ranked = sorted(value for value in values if value is not None)
    # The index of the last number of each class, rounded up.
    bounds = [ranked[-(-len(ranked) * part // len(classes)) - 1] for part in range(1, len(classes))] if ranked else []
    return [None if value is None else classes[bisect_left(bounds, value)] for value in values]


annotate_class = Implementation(type=described.ANNOTATE_CLASS, make=one_port(_annotate_class))
decision_tree_train = Implementation(type=described.DECISION_TREE_TRAIN, make=_decision_tree_train)
linear_regression_train = Implementation(type=described.LINEAR_REGRESSION_TRAIN, make=_linear_regression_train)


_LATEST_MODEL = ("model",)
"""The state's key for the latest model."""

_AnyPredictor: TypeAlias = described.DecisionTreeClassifyConfig | described.LinearRegressionPredictConfig
M = TypeVar("M", described.LinearRegression, described.DecisionTree)


def _decision_tree_classify(config: described.DecisionTreeClassifyConfig) -> Behaviour:
    """The class is that of the leaf for the event's numbers. The state is the latest model.

    Models of several kinds may arrive in one stream. A text that is not a model is parked, and so is a tree that needs
    fields that the task does not read. Then the earlier model stays.

    >>> cold = [{"t": 4.0, "class": "cold"}, {"t": 5.0, "class": "cold"}]
    >>> warm = [{"t": 21.0, "class": "warm"}, {"t": 22.0, "class": "warm"}]
    >>> (model,) = try_out("decision_tree_train", {"fields": ["t"], "window": 4}, cold + warm)["out"]
    >>> try_out("decision_tree_classify", {"fields": ["t"]}, [("in", {"t": 9.0}), ("model", model), ("in", {"t": 9.0})])
    {'out': [{'t': 9.0, 'class': None}, {'t': 9.0, 'class': 'cold'}]}
    """

    def classify(events: pa.RecordBatch, tree: described.DecisionTree | None) -> pa.RecordBatch:
        # First, so that unfit numbers are found even before the first model.
        columns, present = _features(events, config.fields)
        if tree is None:
            return replaced(events, "class", pa.nulls(events.num_rows, pa.string()))
        leaves = np.array(tree.leaf, np.int64)[_walk(tree, columns, events.num_rows)]
        classes = pa.array(tree.classes, pa.string()).take(pa.array(leaves, mask=~present))
        return replaced(events, "class", classes)

    return _applied(described.DecisionTree, config, classify)


def _walk(tree: described.DecisionTree, columns: Mapping[str, Floats], count: int) -> Numbers:
    """The leaf of each event."""
    left, right, field = (np.array(column, np.int64) for column in (tree.left, tree.right, tree.field))
    threshold = np.array(tree.threshold)
    with np.errstate(over="ignore"):
        # A number beyond float32 becomes infinite, and is beyond every threshold too.
        values = np.array([columns[name] for name in tree.fields]).reshape(len(tree.fields), count).astype(np.float32)
    at = np.zeros(count, np.int64)
    walking = np.flatnonzero(left[at] >= 0)
    while len(walking):
        node = at[walking]
        below = values[field[node], walking] <= threshold[node]
        at[walking] = np.where(below, left[node], right[node])
        walking = walking[left[at[walking]] >= 0]
    return at


def _linear_regression_predict(config: described.LinearRegressionPredictConfig) -> Behaviour:
    """Adds to the intercept each field times its coefficient, in their order. The state is the latest model.

    Models of several kinds may arrive in one stream. A text that is not a model is parked, and so is a model that needs
    fields that the task does not read. Then the earlier model stays.

    >>> model = '{"kind":"linear_regression","fields":["t"],"intercept":1.0,"coefficients":[3.0]}'
    >>> rows = [("in", {"t": 2.0}), ("model", {"model": model}), ("in", {"t": 2.0})]
    >>> try_out("linear_regression_predict", {"fields": ["t"]}, rows)
    {'out': [{'t': 2.0, 'prediction': None}, {'t': 2.0, 'prediction': 7.0}]}
    """

    def predict(events: pa.RecordBatch, model: described.LinearRegression | None) -> pa.RecordBatch:
        columns, present = _features(events, config.fields)
        if model is None:
            return replaced(events, "prediction", pa.nulls(events.num_rows, pa.float64()))
        total = np.full(events.num_rows, model.intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            for name, coefficient in zip(model.fields, model.coefficients, strict=True):
                total += coefficient * columns[name]
        return _finite(events, "prediction", total, present)

    return _applied(described.LinearRegression, config, predict)


def _applied(
    kind: type[M],
    config: _AnyPredictor,
    apply: Callable[[pa.RecordBatch, M | None], pa.RecordBatch],
) -> Behaviour:
    """A behaviour that keeps the latest model, and applies it to events."""

    @lru_cache(maxsize=2)
    def model_of(text: str) -> M | None:
        return described.read_model(text, kind, config.fields)

    def behave(port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        if port == "model":
            check_present(events, config.model)
            for text in events.column(config.model).to_pylist():
                if model_of(text) is not None:
                    state.put(_LATEST_MODEL, text)
            return {}
        text = state.get(_LATEST_MODEL) or config.initial
        return {"out": PortEmission(apply(events, None if text is None else model_of(text)))}

    return behave


def _usable(_old: _AnyPredictor, new: _AnyPredictor, _key: tuple[Any, ...], text: str) -> str | None:
    """The state for other fields, without a model that needs a field which the task no longer reads."""
    try:
        described.read_model(text, new.kind, new.fields)
    except ValueError:
        return None
    return text


def _features(events: pa.RecordBatch, fields: Sequence[str]) -> tuple[dict[str, Floats], Flags]:
    """The numbers of each field, and the events in which none is null."""
    read = {name: floats(events, name) for name in fields}
    present = np.logical_and.reduce([numbers.present for numbers in read.values()])
    return {name: numbers.values for name, numbers in read.items()}, present


def _error_estimate(config: described.ErrorEstimateConfig) -> Behaviour:
    """Skips averages that are null. The state is the latest average per key.

    >>> rows = [("average", {"mean": 20.0}), ("in", {"prediction": 21.0, "t": 22.0})]
    >>> try_out("error_estimate", {"observed": "t", "average": "mean"}, rows)
    {'out': [{'prediction': 21.0, 't': 22.0, 'error': 0.05}]}
    """

    def behave(port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        groups = events_by_key(keyed(events, config.by))
        if port == "average":
            averages, present = floats(events, config.average)
            for key, places in groups:
                known = [place for place in places if present[place]]
                if known:
                    state.put(key, float(averages[known[-1]]))
            return {}
        observed, predicted = floats(events, config.observed), floats(events, config.prediction)
        average = np.zeros(events.num_rows)
        for key, places in groups:
            average[places] = state.get(key) or 0.0
        usable = observed.present & predicted.present & (average != 0)
        with np.errstate(over="ignore", invalid="ignore"):
            error = (observed.values - predicted.values) / np.where(usable, average, 1.0)
        return {"out": PortEmission(_finite(events, "error", error, usable))}

    return behave


def _finite(events: pa.RecordBatch, name: str, values: Floats, present: Flags) -> pa.RecordBatch:
    """Add computed numbers to the events. Raises if one is not finite."""
    beyond = values[present & ~np.isfinite(values)]
    if len(beyond):
        raise ValueError(f"the field {name!r} would be {beyond[0]}; the numbers that it is computed from are too large")
    return replaced(events, name, nullable(np.where(present, values, 0.0), present))


decision_tree_classify = Implementation(
    type=described.DECISION_TREE_CLASSIFY, make=_decision_tree_classify, transform=_usable
)
error_estimate = Implementation(type=described.ERROR_ESTIMATE, make=_error_estimate)
linear_regression_predict = Implementation(
    type=described.LINEAR_REGRESSION_PREDICT,
    make=_linear_regression_predict,
    transform=_usable,
)
