"""Predictive tasks: they train models on events, and apply them to others.

Models travel as events: plain JSON with numbers and names, and no code. A trainer writes a model into a field of its
event, where a predictor reads it. Any tenant may have written it, so every model is checked before it is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, ClassVar, Literal, Self, TypeVar

import msgspec
from pydantic import Field, model_validator

from dags import NUMBER, Config, Emission, FieldFates, Kind, Read, Resized, Schema, Schemas, State, StateFate, TaskType
from engine.tasks.parse import TEXT, listed
from engine.tasks.stream_statistics import Window, key_of

_MOST = 4_000_000
"""The longest text of a model."""
_NODE = Annotated[int, msgspec.Meta(ge=-1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearRegression:
    """A field as a weighted sum of others; made by `linear_regression_train`.

    >>> written(LinearRegression(fields=("a",), intercept=1.5, coefficients=(2.0,)))
    '{"kind":"linear_regression","fields":["a"],"intercept":1.5,"coefficients":[2.0]}'
    """

    kind: Literal["linear_regression"] = "linear_regression"
    fields: tuple[str, ...]
    intercept: float
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.coefficients) != len(self.fields):
            raise ValueError(f"it has {len(self.coefficients)} coefficients for {len(self.fields)} fields")
        _check_finite((self.intercept, *self.coefficients))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionTree:
    """Comparisons that lead to a class; made by `decision_tree_train`. Nodes are numbered from the root, 0.

    A field is compared as a float of 32 bits, as in the training.
    """

    kind: Literal["decision_tree"] = "decision_tree"
    fields: tuple[str, ...]
    classes: tuple[str, ...]
    left: tuple[_NODE, ...]
    """The next node of each node if the field is at most the threshold; -1 for a leaf."""
    right: tuple[_NODE, ...]
    """The next node otherwise."""
    field: tuple[int, ...]
    """The index of the field to compare; any at a leaf."""
    threshold: tuple[float, ...]
    leaf: tuple[int, ...]
    """The index of the class, for a leaf."""

    def __post_init__(self) -> None:
        nodes = len(self.left)
        if not nodes or {len(column) for column in (self.right, self.field, self.threshold, self.leaf)} != {nodes}:
            raise ValueError("its lists of nodes are empty or differ in length")
        _check_finite(self.threshold)
        if not all(0 <= index < len(self.classes) for index in self.leaf):
            raise ValueError("the class of a node does not exist")
        for node, (left, right, field) in enumerate(zip(self.left, self.right, self.field, strict=True)):
            if left == right == -1:
                continue
            # Always forward, so that every walk ends.
            if not (node < left < nodes and node < right < nodes):
                raise ValueError(f"node {node} does not lead to a later node")
            if not 0 <= field < len(self.fields):
                raise ValueError(f"the field of node {node} does not exist")


def _check_finite(numbers: Sequence[float]) -> None:
    if not all(map(isfinite, numbers)):
        raise ValueError("it contains a number that is not finite")


M = TypeVar("M", bound=LinearRegression | DecisionTree)


def written(model: LinearRegression | DecisionTree) -> str:
    """The text of a model."""
    return msgspec.json.encode(model).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The common part of all models."""

    kind: Literal["linear_regression", "decision_tree"]


_NAMES = {LinearRegression: "linear_regression", DecisionTree: "decision_tree"}


def read_model(text: str, kind: type[M], fields: Sequence[str]) -> M | None:
    """Read a model from its text; None if it is of another kind.

    Raises ValueError if the text is not a model, or the model needs other fields.
    """
    if len(text) > _MOST:
        raise ValueError(f"the model has {len(text):,} characters; the most allowed are {_MOST:,}")
    try:
        if msgspec.json.decode(text, type=_Head).kind != _NAMES[kind]:
            return None
        model = msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"the text is not a model: {error}") from None
    if missing := [field for field in model.fields if field not in fields]:
        raise ValueError(f"the model needs the field {missing[0]!r}, which this task does not read; add it to 'fields'")
    return model


Fields = Annotated[tuple[str, ...], Field(min_length=1, max_length=250)]


def _model(_config: Config, _inputs: Schemas) -> Schemas:
    return {"out": Schema.of(model=Kind.STRING)}


class _TrainConfig(Config):
    """The base of the trainers' configs."""

    fields: Fields
    """The numbers to learn from."""
    window: Window = 300
    """The number of events per model."""


class DecisionTreeTrainConfig(_TrainConfig):
    """The class to learn, and the numbers to learn it from."""

    label: str = "class"
    """The field with the class."""


DECISION_TREE_TRAIN = TaskType(
    name="decision_tree_train",
    summary="Trains a decision tree on every `window` events, and emits it as the text field `model`. Skips events in "
    "which a field or the class is null.",
    selectivity="one event per `window` events",
    gathers="window",
    config=DecisionTreeTrainConfig,
    reads=lambda config: (
        *listed("fields", config.fields, NUMBER),
        Read(at="label", field=config.label, kinds=frozenset({Kind.STRING})),
    ),
    output_schema=_model,
    state=State.STREAM,
    state_change=FieldFates(window=StateFate.KEPT),
)


class LinearRegressionTrainConfig(_TrainConfig):
    """The number to learn, and the numbers to learn it from."""

    target: str
    """The field with the number to learn."""


LINEAR_REGRESSION_TRAIN = TaskType(
    name="linear_regression_train",
    summary="Fits a linear regression to every `window` events, and emits it as the text field `model`. Skips events "
    "in which a field or the target is null.",
    selectivity="one event per `window` events",
    gathers="window",
    config=LinearRegressionTrainConfig,
    reads=lambda config: (
        *listed("fields", config.fields, NUMBER),
        Read(at="target", field=config.target, kinds=NUMBER),
    ),
    output_schema=_model,
    state=State.STREAM,
    state_change=FieldFates(window=StateFate.KEPT),
)


class _ModelConfig(Config):
    """The base of the predictors' configs."""

    fields: Fields
    """The numbers that models may use."""
    model: str = "model"
    """The field with the model, at the port `model`."""
    initial: str | None = None
    """The text of the first model. Without it, the result is null until a model arrives."""

    kind: ClassVar[type[LinearRegression | DecisionTree]]
    """The kind of the models."""

    def reads(self) -> tuple[Read, ...]:
        """The fields that are read at both ports."""
        return *listed("fields", self.fields, NUMBER), Read(at="model", field=self.model, kinds=TEXT, port="model")

    @model_validator(mode="after")
    def _begins_with_its_kind(self) -> Self:
        if self.initial is not None and read_model(self.initial, self.kind, self.fields) is None:
            raise ValueError(f"the initial model is of another kind; give a {_NAMES[self.kind].replace('_', ' ')}")
        return self


class DecisionTreeClassifyConfig(_ModelConfig):
    """The fields for decision trees, and the first tree."""

    kind = DecisionTree


DECISION_TREE_CLASSIFY = TaskType(
    name="decision_tree_classify",
    summary="Adds the field `class` by the latest decision tree from the port `model`. The class is null if a field is "
    "null, and before the first model. Skips models of another kind.",
    config=DecisionTreeClassifyConfig,
    inputs=("in", "model"),
    reads=_ModelConfig.reads,
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("class", Kind.STRING)},
    state=State.STREAM,
    state_change=FieldFates(fields=Resized(grown=StateFate.KEPT, shrunk=StateFate.TRANSFORMED), initial=StateFate.KEPT),
)


class LinearRegressionPredictConfig(_ModelConfig):
    """The fields for linear regressions, and the first regression."""

    kind = LinearRegression


LINEAR_REGRESSION_PREDICT = TaskType(
    name="linear_regression_predict",
    summary="Adds the field `prediction` by the latest linear regression from the port `model`. The prediction is null "
    "if a field is null, and before the first model. Skips models of another kind.",
    config=LinearRegressionPredictConfig,
    inputs=("in", "model"),
    reads=_ModelConfig.reads,
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("prediction", Kind.FLOAT)},
    state=State.STREAM,
    state_change=FieldFates(fields=Resized(grown=StateFate.KEPT, shrunk=StateFate.TRANSFORMED), initial=StateFate.KEPT),
)


class ErrorEstimateConfig(Config):
    """The values to compare, and the average."""

    observed: str
    """The field with the observed value."""
    prediction: str = "prediction"
    """The field with the prediction."""
    average: str
    """The field with an average of the observed values, at the port `average`."""
    by: tuple[str, ...] = ()
    """The fields of the key, at both ports; empty for one average of the whole stream."""


ERROR_ESTIMATE = TaskType(
    name="error_estimate",
    summary="Adds the field `error`: the observed value minus its prediction, divided by the key's latest average from "
    "the port `average`. The error is null if one of them is null, or if the average is 0.",
    config=ErrorEstimateConfig,
    sets=lambda _config: ("error",),
    inputs=("in", "average"),
    reads=lambda config: (
        Read(at="observed", field=config.observed, kinds=NUMBER),
        Read(at="prediction", field=config.prediction, kinds=NUMBER),
        Read(at="average", field=config.average, kinds=NUMBER, port="average"),
        *(read for port in ("in", "average") for read in listed("by", config.by, port=port)),
    ),
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("error", Kind.FLOAT)},
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(prediction=StateFate.KEPT),
)


class AnnotateClassConfig(Config):
    """The number to classify by, and the events to compare."""

    field: str
    """The number that determines the class."""
    classes: Annotated[tuple[str, ...], Field(min_length=2, max_length=1_000)] = (
        "BAD",
        "GOOD",
        "VERYGOOD",
        "EXCELLENT",
    )
    """The classes, from the smallest numbers to the greatest."""
    window: Window = 300
    """The number of events that are compared with each other."""


ANNOTATE_CLASS = TaskType(
    name="annotate_class",
    summary="Adds the field `class`: divides `window` events by their numbers into equal parts, one per class, and "
    "emits them together, at the last of them. The class of a null is null.",
    selectivity="one for one, `window` at a time",
    config=AnnotateClassConfig,
    reads=lambda config: (Read(at="field", field=config.field, kinds=NUMBER),),
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("class", Kind.STRING)},
    state=State.STREAM,
    state_change=FieldFates(classes=StateFate.KEPT, window=StateFate.KEPT),
    keeps_events=True,
    emission=Emission.MANY,
)
