"""Trainers: they make models from blocks of events, with scikit-learn, and the classes to learn from."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.behaviour import Behaviour, Implementation, NoBehaviour, PortEmission
from engine.implementations.blocks import blocks
from engine.implementations.keys import keyed
from engine.implementations.values import Floats, floats, nullable, plain, restored
from engine.records.state import Staged
from engine.tasks.models import DecisionTree, LinearRegression, written
from engine.tasks.predictive import (
    ANNOTATE_CLASS,
    DECISION_TREE_TRAIN,
    LINEAR_REGRESSION_TRAIN,
    AnnotateClassConfig,
    DecisionTreeTrainConfig,
    LinearRegressionTrainConfig,
)

_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST_LEAF = 2
"""The fewest events of a leaf, as in the benchmark's trees."""
_MODEL = pa.schema({"model": pa.string()})


def _decision_tree_train(config: DecisionTreeTrainConfig) -> Behaviour:
    """Emits a tree at the event that completes a window.

    Splits are chosen by entropy, and leaves have at least two events. Equal events give equal models. The state is the
    events of the incomplete window.

    >>> from engine.trial import try_out
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
        return written(
            DecisionTree(
                fields=config.fields,
                classes=tuple(made.classes_.tolist()),
                left=tuple(tree.children_left.tolist()),
                right=tuple(tree.children_right.tolist()),
                field=tuple(np.maximum(tree.feature, 0).tolist()),
                threshold=tuple(tree.threshold.tolist()),
                leaf=tuple(tree.value[:, 0, :].argmax(axis=1).tolist()),
            )
        )

    return _train(config, (config.label, _labels), fit)


def _linear_regression_train(config: LinearRegressionTrainConfig) -> Behaviour:
    """Emits the coefficients of least squares at the event that completes a window.

    The state is the events of the incomplete window.

    >>> from engine.tasks.models import LinearRegression, read_model
    >>> from engine.trial import try_out
    >>> rows = [{"t": t, "sold": 3 * t + 1} for t in (1.0, 2.0, 4.0)]
    >>> out = try_out("linear_regression_train", {"fields": ["t"], "target": "sold", "window": 3}, rows)["out"]
    >>> model = read_model(out[0]["model"], LinearRegression, ["t"])
    >>> model and [round(model.intercept, 6), round(model.coefficients[0], 6)]
    [1.0, 3.0]
    """
    try:
        from sklearn.linear_model import LinearRegression as Regression  # noqa: PLC0415 - as above
    except ImportError as error:
        raise _lacking("linear_regression_train", error) from None

    def fit(features: Floats, targets: list[float]) -> str:
        made = Regression().fit(features, np.array(targets))
        return written(
            LinearRegression(
                fields=config.fields, intercept=float(made.intercept_), coefficients=tuple(made.coef_.tolist())
            )
        )

    return _train(config, (config.target, _numbers), fit)


def _lacking(type_: str, error: ImportError) -> NoBehaviour:
    return NoBehaviour(f"{type_} needs scikit-learn ({error}); install braid[predictive] on every worker")


def _train(
    config: DecisionTreeTrainConfig | LinearRegressionTrainConfig,
    target: tuple[str, Callable[[pa.RecordBatch, str], pa.Array]],
    fit: Callable[[Floats, list[Any]], str],
) -> Behaviour:
    """A behaviour that emits a model at every event that completes a window. Skips events with nulls."""
    name, read_target = target

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        read = [*(_numbers(events, field) for field in config.fields), read_target(events, name)]
        present = np.logical_and.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in read])
        known = np.flatnonzero(present)
        columns = [column.take(pa.array(known)).to_pylist() for column in read]
        found = blocks(keyed(events.take(pa.array(known)), ()), columns, config.window, state)
        models = [fit(np.array(block.columns[:-1]).T, block.columns[-1]) for block in found]
        ends = np.array([block.end for block in found], np.int64)
        return {"out": PortEmission(pa.record_batch([pa.array(models, pa.string())], schema=_MODEL), known[ends])}

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


def _annotate_class(config: AnnotateClassConfig) -> Behaviour:
    """A class includes its greatest number.

    The classes have the same number of events, except that equal numbers are all in the lowest class of any of them.
    An event whose number is null has no class, but counts for the window. The state is the events of the incomplete
    window.

    >>> from engine.trial import try_out
    >>> rows = [{"t": t} for t in (7.0, 1.0, 3.0, 5.0)]
    >>> [each["class"] for each in try_out("annotate_class", {"field": "t", "window": 4}, rows)["out"]]
    ['EXCELLENT', 'BAD', 'GOOD', 'VERYGOOD']
    """

    def behave(_port: str, events: pa.RecordBatch, state: Staged) -> Mapping[str, PortEmission]:
        floats(events, config.field)
        columns = [plain(column) for column in events.columns]
        found = blocks(keyed(events, ()), columns, config.window, state)
        at = events.schema.get_field_index(config.field)
        rows: dict[str, pa.Array] = {}
        for place, field in enumerate(events.schema):
            values = [value for block in found for value in block.columns[place]]
            rows[field.name] = restored(values, field.type)
        classes = [name for block in found for name in _classes(block.columns[at], config.classes)]
        rows["class"] = pa.array(classes, pa.string())
        ends = [block.end for block in found for _ in block.columns[at]]
        return {"out": PortEmission(pa.record_batch(rows), np.array(ends, np.int64))}

    return behave


def _classes(values: Sequence[float | None], classes: Sequence[str]) -> list[str | None]:
    ranked = sorted(value for value in values if value is not None)
    # The index of the last number of each class, rounded up.
    bounds = [ranked[-(-len(ranked) * part // len(classes)) - 1] for part in range(1, len(classes))] if ranked else []
    return [None if value is None else classes[bisect_left(bounds, value)] for value in values]


annotate_class = Implementation(type=ANNOTATE_CLASS, make=_annotate_class)
decision_tree_train = Implementation(type=DECISION_TREE_TRAIN, make=_decision_tree_train)
linear_regression_train = Implementation(type=LINEAR_REGRESSION_TRAIN, make=_linear_regression_train)
