"""Predictors: they apply models that arrive as events, and estimate their errors.

A model applies to the events after it. The state is its text.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.blocks import each_key
from engine.implementations.keys import keyed
from engine.implementations.values import Flags, Floats, check_present, floats, nullable, replaced
from engine.records.state import Staged
from engine.tasks.models import DecisionTree, LinearRegression, read_model
from engine.tasks.predictive import (
    DECISION_TREE_CLASSIFY,
    ERROR_ESTIMATE,
    LINEAR_REGRESSION_PREDICT,
    DecisionTreeClassifyConfig,
    ErrorEstimateConfig,
    LinearRegressionPredictConfig,
)

_MODEL = ("model",)
"""The state's key for the latest model."""

_AnyPredictor: TypeAlias = DecisionTreeClassifyConfig | LinearRegressionPredictConfig
M = TypeVar("M", LinearRegression, DecisionTree)


def _decision_tree_classify(config: DecisionTreeClassifyConfig) -> Behaviour:
    """The class is that of the leaf for the event's numbers. The state is the latest model.

    Models of several kinds may arrive in one stream. A text that is not a model is parked, and so is a tree that needs
    fields that the task does not read. Then the earlier model stays.

    >>> from engine.trial import try_out
    >>> cold = [{"t": 4.0, "class": "cold"}, {"t": 5.0, "class": "cold"}]
    >>> warm = [{"t": 21.0, "class": "warm"}, {"t": 22.0, "class": "warm"}]
    >>> (model,) = try_out("decision_tree_train", {"fields": ["t"], "window": 4}, cold + warm)["out"]
    >>> try_out("decision_tree_classify", {"fields": ["t"]}, [("in", {"t": 9.0}), ("model", model), ("in", {"t": 9.0})])
    {'out': [{'t': 9.0, 'class': None}, {'t': 9.0, 'class': 'cold'}]}
    """

    def classify(events: pa.RecordBatch, tree: DecisionTree | None) -> pa.RecordBatch:
        # First, so that unfit numbers are found even before the first model.
        columns, present = _features(events, config.fields)
        if tree is None:
            return replaced(events, "class", pa.nulls(events.num_rows, pa.string()))
        leaves = np.array(tree.leaf, np.int64)[_walk(tree, columns, events.num_rows)]
        classes = pa.array(tree.classes, pa.string()).take(pa.array(leaves, mask=~present))
        return replaced(events, "class", classes)

    return _applied(DecisionTree, config, classify)


def _walk(tree: DecisionTree, columns: Mapping[str, Floats], count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The leaf of each event."""
    left, right, field = (np.array(each, np.int64) for each in (tree.left, tree.right, tree.field))
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


def _linear_regression_predict(config: LinearRegressionPredictConfig) -> Behaviour:
    """Adds to the intercept each field times its coefficient, in their order. The state is the latest model.

    Models of several kinds may arrive in one stream. A text that is not a model is parked, and so is a model that needs
    fields that the task does not read. Then the earlier model stays.

    >>> from engine.trial import try_out
    >>> model = '{"kind":"linear_regression","fields":["t"],"intercept":1.0,"coefficients":[3.0]}'
    >>> rows = [("in", {"t": 2.0}), ("model", {"model": model}), ("in", {"t": 2.0})]
    >>> try_out("linear_regression_predict", {"fields": ["t"]}, rows)
    {'out': [{'t': 2.0, 'prediction': None}, {'t': 2.0, 'prediction': 7.0}]}
    """

    def predict(events: pa.RecordBatch, model: LinearRegression | None) -> pa.RecordBatch:
        columns, present = _features(events, config.fields)
        if model is None:
            return replaced(events, "prediction", pa.nulls(events.num_rows, pa.float64()))
        total = np.full(events.num_rows, model.intercept)
        with np.errstate(over="ignore", invalid="ignore"):
            for name, coefficient in zip(model.fields, model.coefficients, strict=True):
                total += coefficient * columns[name]
        return _finite(events, "prediction", total, present)

    return _applied(LinearRegression, config, predict)


def _applied(
    kind: type[M],
    config: _AnyPredictor,
    apply: Callable[[pa.RecordBatch, M | None], pa.RecordBatch],
) -> Behaviour:
    """A behaviour that keeps the latest model, and applies it to events."""

    @lru_cache(maxsize=2)
    def model_of(text: str) -> M | None:
        return read_model(text, kind, config.fields)

    def behave(port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        if port == "model":
            check_present(events, config.model)
            for text in events.column(config.model).to_pylist():
                if model_of(text) is not None:
                    state.put(_MODEL, text)
            return {}
        text = state.get(_MODEL) or config.initial
        return {"out": PortEmission(apply(events, None if text is None else model_of(text)))}

    return behave


def _usable(kind: type[M]) -> Callable[[_AnyPredictor, _AnyPredictor, tuple[Any, ...], str], str | None]:
    """The transform for other fields: drops a model that needs a field which the task no longer reads."""

    def usable(_old: _AnyPredictor, new: _AnyPredictor, _key: tuple[Any, ...], text: str) -> str | None:
        try:
            read_model(text, kind, new.fields)
        except ValueError:
            return None
        return text

    return usable


def _features(events: pa.RecordBatch, fields: Sequence[str]) -> tuple[dict[str, Floats], Flags]:
    """The numbers of each field, and the events in which none is null."""
    read = {name: floats(events, name) for name in fields}
    return {name: each.values for name, each in read.items()}, np.logical_and.reduce(
        [each.present for each in read.values()]
    )


def _error_estimate(config: ErrorEstimateConfig) -> Behaviour:
    """Skips averages that are null. The state is the latest average per key.

    >>> from engine.trial import try_out
    >>> rows = [("average", {"mean": 20.0}), ("in", {"prediction": 21.0, "t": 22.0})]
    >>> try_out("error_estimate", {"observed": "t", "average": "mean"}, rows)
    {'out': [{'prediction': 21.0, 't': 22.0, 'error': 0.05}]}
    """

    def behave(port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        groups = each_key(keyed(events, config.by))
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
    type=DECISION_TREE_CLASSIFY, make=_decision_tree_classify, transform=_usable(DecisionTree)
)
error_estimate = Implementation(type=ERROR_ESTIMATE, make=_error_estimate)
linear_regression_predict = Implementation(
    type=LINEAR_REGRESSION_PREDICT, make=_linear_regression_predict, transform=_usable(LinearRegression)
)
