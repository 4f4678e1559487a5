"""Predictive tasks: they train models on events, and apply them to others."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dags import NUMBER, Config, Emission, FieldFates, Kind, Read, Resized, Schema, Schemas, State, StateFate, TaskType
from engine.tasks.models import DecisionTree, LinearRegression, M, read_model
from engine.tasks.parse import TEXT
from engine.tasks.stream_statistics import Window, key_of

Fields = Annotated[tuple[str, ...], Field(min_length=1, max_length=250)]


def _features(fields: tuple[str, ...]) -> tuple[Read, ...]:
    return tuple(Read(at=f"fields/{i}", field=field, kinds=NUMBER) for i, field in enumerate(fields))


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
        *_features(config.fields),
        Read(at="label", field=config.label, kinds=frozenset({Kind.STRING})),
    ),
    output_schema=_model,
    state=State.STREAM,
    state_change=FieldFates(window=StateFate.KEPT),
)
"""Decision trees."""


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
    reads=lambda config: (*_features(config.fields), Read(at="target", field=config.target, kinds=NUMBER)),
    output_schema=_model,
    state=State.STREAM,
    state_change=FieldFates(window=StateFate.KEPT),
)
"""Linear regressions."""


class _ModelConfig(Config):
    """The base of the predictors' configs."""

    fields: Fields
    """The numbers that models may use."""
    model: str = "model"
    """The field with the model, at the port `model`."""
    initial: str | None = None
    """The text of the first model. Without it, the result is null until a model arrives."""

    def reads(self) -> tuple[Read, ...]:
        """The fields that are read at both ports."""
        return *_features(self.fields), Read(at="model", field=self.model, kinds=TEXT, port="model")

    def check_initial(self, kind: type[M], description: str) -> None:
        """Refuse a first model of another kind."""
        if self.initial is not None and read_model(self.initial, kind, self.fields) is None:
            raise ValueError(f"the initial model is of another kind; give a {description}")


class DecisionTreeClassifyConfig(_ModelConfig):
    """The fields for decision trees, and the first tree."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        self.check_initial(DecisionTree, "decision tree")
        return self


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
"""Classes by decision tree."""


class LinearRegressionPredictConfig(_ModelConfig):
    """The fields for linear regressions, and the first regression."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        self.check_initial(LinearRegression, "linear regression")
        return self


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
"""Numbers by linear regression."""


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
        *(Read(at=f"by/{i}", field=key, port=port) for port in ("in", "average") for i, key in enumerate(config.by)),
    ),
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("error", Kind.FLOAT)},
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(prediction=StateFate.KEPT),
)
"""Errors of predictions."""


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
"""Classes to learn from."""

PREDICTIVE_TYPES = (
    DECISION_TREE_TRAIN,
    LINEAR_REGRESSION_TRAIN,
    DECISION_TREE_CLASSIFY,
    LINEAR_REGRESSION_PREDICT,
    ERROR_ESTIMATE,
    ANNOTATE_CLASS,
)
