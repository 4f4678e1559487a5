"""Statistics over the events of a stream."""

from typing import Annotated, Protocol, Self

from pydantic import Field, model_validator

from dags import NUMBER, Config, FieldFates, Kind, Read, Resized, Schemas, State, StateFate, TaskType
from dags.task_type import Continuation
from engine.tasks.parse import PLAIN, extended, listed

Window = Annotated[int, Field(ge=1, le=10_000)]
"""A number of events, which the state may have to keep."""
Key = Annotated[tuple[str, ...], Field(description="The fields of the key; empty for one over the whole stream.")]


class HasKey(Protocol):
    """A config that names the fields of the key."""

    @property
    def by(self) -> Key:
        """The fields."""


def key_reads(config: HasKey) -> tuple[Read, ...]:
    """The fields of the key, for a type's `reads`."""
    return listed("by", config.by)


def key_of(config: HasKey) -> Key:
    """The fields of the key, for a type's `key_fields`."""
    return config.by


class _FieldConfig(Config):
    """The base of the configs of tasks that work on a field per key."""

    field: str
    by: Key = ()


def _number_reads(config: _FieldConfig) -> tuple[Read, ...]:
    return Read(at="field", field=config.field, kinds=NUMBER), *key_reads(config)


def _value_reads(config: _FieldConfig) -> tuple[Read, ...]:
    return Read(at="field", field=config.field), *key_reads(config)


def _as_float(config: _FieldConfig, inputs: Schemas) -> Schemas:
    """The fields of the input, with the config's field as a float."""
    return {"out": inputs["in"].plus(config.field, Kind.FLOAT)}


class BlockWindowAverageConfig(_FieldConfig):
    """The field to average, and the size of a block."""

    field: str
    """The number to average."""
    window: Annotated[int, Field(ge=1)] = 10
    """The number of values in a block."""


BLOCK_WINDOW_AVERAGE = TaskType(
    name="block_window_average",
    summary="Emits the mean of a field once per block of `window` events of a key. Skips nulls.",
    selectivity="one event per block of `window` events of a key",
    gathers="window",
    config=BlockWindowAverageConfig,
    sets=lambda config: (config.field,),
    reads=_number_reads,
    output_schema=lambda config, inputs: {"out": inputs["in"].only(config.by).plus(config.field, Kind.FLOAT)},
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(window=StateFate.KEPT),
)


class CountConfig(Config):
    """The key to count by."""

    by: Key = ()


COUNT = TaskType(
    name="count",
    summary="Emits at every event the number of events of its key so far, as the field `count`.",
    config=CountConfig,
    sets=lambda _config: ("count",),
    reads=key_reads,
    output_schema=lambda config, inputs: {"out": inputs["in"].only(config.by).plus("count", Kind.INTEGER)},
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(),
)


class KalmanFilterConfig(_FieldConfig):
    """The field to smooth, and the variances of process, sensor and first estimate."""

    field: str
    """The number to smooth."""
    process_noise: Annotated[float, Field(ge=0)] = 0.125
    """The variance of the true value's change from event to event."""
    sensor_noise: Annotated[float, Field(gt=0)] = 0.32
    """The variance of the sensor's error."""
    estimated_error: Annotated[float, Field(ge=0)] = 30.0
    """The variance of the first estimate, which is 0."""


KALMAN_FILTER = TaskType(
    name="kalman_filter",
    summary="Replaces a field by its estimate from a one-dimensional Kalman filter per key. Null stays null, and does "
    "not change the filter.",
    config=KalmanFilterConfig,
    sets=lambda config: (config.field,),
    reads=_number_reads,
    output_schema=_as_float,
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(process_noise=StateFate.KEPT, sensor_noise=StateFate.KEPT, estimated_error=StateFate.KEPT),
    continues=(Continuation("interpolate", same=("field",)),),
)


class InterpolateConfig(_FieldConfig):
    """The field to fill, and the number of values to fill it from."""

    field: str
    """The number to fill."""
    window: Window = 5
    """The number of last values to average."""


INTERPOLATE = TaskType(
    name="interpolate",
    summary="Replaces a null by the mean of the last `window` values of its key. Before the first value it stays null.",
    config=InterpolateConfig,
    sets=lambda config: (config.field,),
    reads=_number_reads,
    output_schema=_as_float,
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(window=Resized(grown=StateFate.KEPT, shrunk=StateFate.TRANSFORMED)),
    continues=(Continuation("kalman_filter", same=("field",)),),
)


class SecondOrderMomentConfig(_FieldConfig):
    """The field to measure, and the number of counters."""

    field: str
    """The field whose values are compared. Of any kind."""
    counters: Annotated[int, Field(ge=1, le=512)] = 10
    """The number of counters. The relative error of the estimate is about the square root of 2 / counters."""


SECOND_ORDER_MOMENT = TaskType(
    name="second_order_moment",
    summary="Adds the estimated second moment of a field's values so far, per key: the sum, over distinct values, of "
    "the square of their frequency. The algorithm is that of Alon, Matias and Szegedy. Null does not count.",
    config=SecondOrderMomentConfig,
    sets=lambda _config: ("second_order_moment",),
    reads=_value_reads,
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("second_order_moment", Kind.FLOAT)},
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(counters=Resized(grown=StateFate.FRESH, shrunk=StateFate.TRANSFORMED)),
)


class DistinctApproxCountConfig(_FieldConfig):
    """The field to count, and the number of buckets."""

    field: str
    """The field whose distinct values are counted. Of any kind."""
    buckets: Annotated[int, Field(ge=16, le=2**21)] = 2**10
    """A power of two. The relative error of the estimate is about 1 / its square root."""

    @model_validator(mode="after")
    def _power(self) -> Self:
        if self.buckets & (self.buckets - 1):
            raise ValueError(f"{self.buckets} is not a power of two; use {1 << self.buckets.bit_length()}")
        return self


DISTINCT_APPROX_COUNT = TaskType(
    name="distinct_approx_count",
    summary="Adds the number of distinct values of a field so far, per key, as the field `distinct`. It is estimated "
    "by a HyperLogLog sketch. Null does not count.",
    config=DistinctApproxCountConfig,
    sets=lambda _config: ("distinct",),
    reads=_value_reads,
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("distinct", Kind.FLOAT)},
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(buckets=Resized(grown=StateFate.FRESH, shrunk=StateFate.TRANSFORMED)),
)


class AccumulateConfig(Config):
    """The fields to collect, and the number of events."""

    fields: Annotated[tuple[str, ...], Field(min_length=1)]
    """The fields to collect."""
    by: Key = ()
    window: Window = 20
    """The number of events that become one."""


ACCUMULATE = TaskType(
    name="accumulate",
    summary="Collects the values of fields over `window` events of a key, and emits each field as one JSON array, in "
    "which a null is null.",
    selectivity="one event per `window` events of a key",
    gathers="window",
    config=AccumulateConfig,
    sets=lambda config: config.fields,
    reads=lambda config: (*listed("fields", config.fields, PLAIN), *key_reads(config)),
    output_schema=lambda config, inputs: {
        "out": extended(inputs["in"].only(config.by), dict.fromkeys(config.fields, Kind.JSON))
    },
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(window=StateFate.KEPT),
)


class SlidingLinearRegressionConfig(_FieldConfig):
    """The field to predict, and the numbers of values to fit and to predict."""

    field: str
    """The number to predict."""
    train: Annotated[int, Field(ge=2, le=10_000)] = 10
    """The number of last values to fit the line to."""
    predict: Annotated[int, Field(ge=1, le=1_000)] = 10
    """The number of next values to predict."""


SLIDING_LINEAR_REGRESSION = TaskType(
    name="sliding_linear_regression",
    summary="Fits a line to the last `train` values of a key by their running number, and adds the next `predict` "
    "values as the JSON array `predictions`, and their mean as `predicted`. Both are null at a null, and before there "
    "are `train` values.",
    config=SlidingLinearRegressionConfig,
    sets=lambda _config: ("predicted", "predictions"),
    reads=_number_reads,
    output_schema=lambda _config, inputs: {
        "out": inputs["in"].plus("predicted", Kind.FLOAT).plus("predictions", Kind.JSON)
    },
    state=State.KEY,
    key_fields=key_of,
    state_change=FieldFates(train=Resized(grown=StateFate.KEPT, shrunk=StateFate.TRANSFORMED), predict=StateFate.KEPT),
)
