"""Using models that come as events, and telling how wrong they are.

A model counts from its own place among the events on. It is kept as the text that it came as.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.blocks import each_key
from engine.implementations.keys import keyed
from engine.implementations.values import Flags, Floats, check_present, floats, nullable, replaced
from engine.records.staged_state import Staged
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
"""Where the state has the last model."""

M = TypeVar("M", LinearRegression, DecisionTree)


def _decision_tree_classify(config: DecisionTreeClassifyConfig) -> Behaviour:
    """The class of the leaf that an event's numbers lead to. Only the last model is kept.

    A model of another kind is passed over, so that models of several kinds may come by one stream. A text that is no
    model, or a tree that asks for fields that the task does not read, is parked; the model before it goes on.

    >>> from engine.trial import try_out
    >>> cold = [{"t": 4.0, "class": "cold"}, {"t": 5.0, "class": "cold"}]
    >>> warm = [{"t": 21.0, "class": "warm"}, {"t": 22.0, "class": "warm"}]
    >>> (model,) = try_out("decision_tree_train", {"fields": ["t"], "window": 4}, cold + warm)["out"]
    >>> try_out("decision_tree_classify", {"fields": ["t"]}, [("in", {"t": 9.0}), ("model", model), ("in", {"t": 9.0})])
    {'out': [{'t': 9.0, 'class': None}, {'t': 9.0, 'class': 'cold'}]}
    """

    def classify(events: pa.RecordBatch, tree: DecisionTree | None) -> pa.RecordBatch:
        # What cannot be used is found also where there is no model yet.
        columns, present = _features(events, config.fields)
        if tree is None:
            return replaced(events, "class", pa.nulls(events.num_rows, pa.string()))
        leaves = np.array(tree.leaf, np.int64)[_walk(tree, columns, events.num_rows)]
        classes = pa.array(tree.classes, pa.string()).take(pa.array(leaves, mask=~present))
        return replaced(events, "class", classes)

    return _applied(DecisionTree, config, classify)


def _walk(tree: DecisionTree, columns: Mapping[str, Floats], count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The leaf that each event comes to."""
    left, right, field = (np.array(each, np.int64) for each in (tree.left, tree.right, tree.field))
    threshold = np.array(tree.threshold)
    with np.errstate(over="ignore"):
        # What no such float can hold is more than any threshold, or less.
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
    """The intercept and, one after the other, each field times its coefficient. Only the last model is kept.

    A model of another kind is passed over, so that models of several kinds may come by one stream. A text that is no
    model, or one that needs fields that the task does not read, is parked; the model before it goes on.

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
    config: DecisionTreeClassifyConfig | LinearRegressionPredictConfig,
    apply: Callable[[pa.RecordBatch, M | None], pa.RecordBatch],
) -> Behaviour:
    """What keeps the last model that came, and applies it to the events that come."""

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


def _features(events: pa.RecordBatch, fields: Sequence[str]) -> tuple[dict[str, Floats], Flags]:
    """The numbers of each field, and where none is null."""
    read = {name: floats(events, name) for name in fields}
    return {name: each.values for name, each in read.items()}, np.logical_and.reduce(
        [each.present for each in read.values()]
    )


def _error_estimate(config: ErrorEstimateConfig) -> Behaviour:
    """What is observed less what was predicted, over the last average of the key. Of each key the average is kept.

    An average that is null is passed over.

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
                told = [place for place in places if present[place]]
                if told:
                    state.put(key, float(averages[told[-1]]))
            return {}
        observed, predicted = floats(events, config.observed), floats(events, config.prediction)
        known = np.zeros(events.num_rows)
        for key, places in groups:
            known[places] = state.get(key) or 0.0
        usable = observed.present & predicted.present & (known != 0)
        with np.errstate(over="ignore", invalid="ignore"):
            error = (observed.values - predicted.values) / np.where(usable, known, 1.0)
        return {"out": PortEmission(_finite(events, "error", error, usable))}

    return behave


def _finite(events: pa.RecordBatch, name: str, values: Floats, present: Flags) -> pa.RecordBatch:
    """The events with what was computed; raises where that is beyond all numbers."""
    beyond = values[present & ~np.isfinite(values)]
    if len(beyond):
        raise ValueError(f"the field {name!r} would be {beyond[0]}; what it is computed of is too large")
    return replaced(events, name, nullable(np.where(present, values, 0.0), present))


decision_tree_classify = Implementation(type=DECISION_TREE_CLASSIFY, make=_decision_tree_classify)
"""Classes by decision tree."""
error_estimate = Implementation(type=ERROR_ESTIMATE, make=_error_estimate)
"""How wrong predictions are."""
linear_regression_predict = Implementation(type=LINEAR_REGRESSION_PREDICT, make=_linear_regression_predict)
"""Numbers by linear regression."""
