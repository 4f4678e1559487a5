"""Predictive tasks: learning models from events, and using them on others."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from dags import NUMBER, Config, Emission, Kind, Read, Schema, Schemas, State, TaskType
from engine.tasks.models import DecisionTree, LinearRegression, M, read_model
from engine.tasks.parse import TEXT
from engine.tasks.stream_statistics import Key, Window, key_of

Fields = Annotated[tuple[str, ...], Field(min_length=1, max_length=250)]


def _features(fields: tuple[str, ...]) -> tuple[Read, ...]:
    return tuple(Read(at=f"fields/{i}", field=field, kinds=NUMBER) for i, field in enumerate(fields))


def _model(_config: Config, _inputs: Schemas) -> Schemas:
    return {"out": Schema.of(model=Kind.STRING)}


class _TrainConfig(Config):
    """What every config has by which something is learned."""

    fields: Fields
    """The numbers that it is learned from."""
    window: Window = 300
    """How many events make a model."""


class DecisionTreeTrainConfig(_TrainConfig):
    """What to learn a class from."""

    label: str = "class"
    """The field that holds the class."""


DECISION_TREE_TRAIN = TaskType(
    name="decision_tree_train",
    summary="Grows a decision tree from every `window` events and emits it as the text field `model`. Events that "
    "lack a field or the class are passed over.",
    selectivity="one event per `window` events",
    gathers="window",
    config=DecisionTreeTrainConfig,
    reads=lambda config: (
        *_features(config.fields),
        Read(at="label", field=config.label, kinds=frozenset({Kind.STRING})),
    ),
    output_schema=_model,
    state=State.STREAM,
)
"""Decision trees."""


class LinearRegressionTrainConfig(_TrainConfig):
    """What to learn a number from."""

    target: str
    """The field that holds it."""


LINEAR_REGRESSION_TRAIN = TaskType(
    name="linear_regression_train",
    summary="Fits a linear regression to every `window` events and emits it as the text field `model`. Events "
    "that lack a field or the target are passed over.",
    selectivity="one event per `window` events",
    gathers="window",
    config=LinearRegressionTrainConfig,
    reads=lambda config: (*_features(config.fields), Read(at="target", field=config.target, kinds=NUMBER)),
    output_schema=_model,
    state=State.STREAM,
)
"""Linear regressions."""


class _ModelConfig(Config):
    """What every config has by which models are used."""

    fields: Fields
    """The numbers that models may use."""
    model: str = "model"
    """The field that holds a model, at the port `model`."""
    initial: str | None = None
    """The model until one comes, as text; without one, what it would tell is null until then."""

    def reads(self) -> tuple[Read, ...]:
        """The fields that are read at both ports."""
        return *_features(self.fields), Read(at="model", field=self.model, kinds=TEXT, port="model")

    def check_initial(self, kind: type[M], called: str) -> None:
        """Refuse a first model of another kind."""
        if self.initial is not None and read_model(self.initial, kind, self.fields) is None:
            raise ValueError(f"the initial model is of another kind; give a {called}")


class DecisionTreeClassifyConfig(_ModelConfig):
    """Which fields the models that come may use, and the first model."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        self.check_initial(DecisionTree, "decision tree")
        return self


DECISION_TREE_CLASSIFY = TaskType(
    name="decision_tree_classify",
    summary="Adds the field `class`, as the decision tree tells that came last at the port `model`. It is null "
    "where a field is null, and until there is a model. Models of another kind are passed over.",
    config=DecisionTreeClassifyConfig,
    inputs=("in", "model"),
    reads=_ModelConfig.reads,
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("class", Kind.STRING)},
    state=State.STREAM,
)
"""Classes by decision tree."""


class LinearRegressionPredictConfig(_ModelConfig):
    """Which fields the models that come may use, and the first model."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        self.check_initial(LinearRegression, "linear regression")
        return self


LINEAR_REGRESSION_PREDICT = TaskType(
    name="linear_regression_predict",
    summary="Adds the field `prediction`, as the linear regression tells that came last at the port `model`. It is "
    "null where a field is null, and until there is a model. Models of another kind are passed over.",
    config=LinearRegressionPredictConfig,
    inputs=("in", "model"),
    reads=_ModelConfig.reads,
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("prediction", Kind.FLOAT)},
    state=State.STREAM,
)
"""Numbers by linear regression."""


class ErrorEstimateConfig(Config):
    """Which prediction is held against what, and where the average is found."""

    observed: str
    """The field that holds what came to be."""
    prediction: str = "prediction"
    """The field that holds what was predicted."""
    average: str
    """The field that holds an average of what is observed, at the port `average`."""
    by: Key = ()
    """The fields that make the key, at both ports; none for one average of the whole stream."""


ERROR_ESTIMATE = TaskType(
    name="error_estimate",
    summary="Adds the field `error`: how far what is observed lies above its prediction, as a share of the average "
    "that came last at the port `average` for the key. It is null where one of them is null, and where the "
    "average is 0.",
    config=ErrorEstimateConfig,
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
)
"""How wrong predictions are."""


class AnnotateClassConfig(Config):
    """Which number decides, and how many events are compared."""

    field: str
    """The number that decides the class."""
    classes: Annotated[tuple[str, ...], Field(min_length=2, max_length=1_000)] = (
        "BAD",
        "GOOD",
        "VERYGOOD",
        "EXCELLENT",
    )
    """The classes, from that of the smallest numbers to that of the greatest."""
    window: Window = 300
    """How many events are compared with each other."""


ANNOTATE_CLASS = TaskType(
    name="annotate_class",
    summary="Adds the field `class`: `window` events are divided by their numbers into as many equal parts as there "
    "are classes. They are emitted together, at the last of them. A null has no class.",
    selectivity="one for one, `window` at a time",
    config=AnnotateClassConfig,
    reads=lambda config: (Read(at="field", field=config.field, kinds=NUMBER),),
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("class", Kind.STRING)},
    state=State.STREAM,
    emission=Emission.MANY,
    unique_per_cause=False,
)
"""Classes to learn from."""

TYPES = (
    DECISION_TREE_TRAIN,
    LINEAR_REGRESSION_TRAIN,
    DECISION_TREE_CLASSIFY,
    LINEAR_REGRESSION_PREDICT,
    ERROR_ESTIMATE,
    ANNOTATE_CLASS,
)
"""All of this family."""
