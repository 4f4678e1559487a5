"""Statistics over the events of a stream."""

from typing import Annotated, Protocol, Self

from pydantic import Field, model_validator

from dags import ANY, NUMBER, Config, Kind, Read, Schemas, State, TaskType

Window = Annotated[int, Field(ge=1, le=10_000)]
"""So many events, all of which may have to be kept."""
Key = tuple[str, ...]
"""The fields that make the key; none for one over the whole stream."""

PLAIN = ANY - {Kind.JSON}
"""What is a value and no structure."""


class HasKey(Protocol):
    """A config that names the fields that make the key."""

    @property
    def by(self) -> Key:
        """The fields."""


class HasField(HasKey, Protocol):
    """A config that names a field too."""

    @property
    def field(self) -> str:
        """The field."""


def key_reads(config: HasKey) -> tuple[Read, ...]:
    """The fields that make the key, for a type's `reads`."""
    return tuple(Read(at=f"by/{i}", field=key) for i, key in enumerate(config.by))


def key_of(config: HasKey) -> Key:
    """The same, for a type's `key_fields`."""
    return config.by


def _number_reads(config: HasField) -> tuple[Read, ...]:
    return Read(at="field", field=config.field, kinds=NUMBER), *key_reads(config)


def _value_reads(config: HasField) -> tuple[Read, ...]:
    return Read(at="field", field=config.field), *key_reads(config)


def _as_float(config: HasField, inputs: Schemas) -> Schemas:
    """Everything that comes in, with the field as a float."""
    return {"out": inputs["in"].plus(config.field, Kind.FLOAT)}


class BlockWindowAverageConfig(Config):
    """The field to average, in blocks of so many events for each key."""

    field: str
    """The number to average."""
    by: Key = ()
    window: Annotated[int, Field(ge=1)] = 10
    """How many values make a block."""


def _average(config: BlockWindowAverageConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].only(config.by).plus(config.field, Kind.FLOAT)}


BLOCK_WINDOW_AVERAGE = TaskType(
    name="block_window_average",
    summary="Emits the mean of a field once per block of `window` events of a key; nulls are passed over.",
    selectivity="one event per block of `window` events of a key",
    gathers="window",
    config=BlockWindowAverageConfig,
    reads=_number_reads,
    output_schema=_average,
    state=State.KEY,
    key_fields=key_of,
)
"""The mean of every block of events, for each key."""


class CountConfig(Config):
    """What to count by."""

    by: Key = ()


def _count(config: CountConfig, inputs: Schemas) -> Schemas:
    return {"out": inputs["in"].only(config.by).plus("count", Kind.INTEGER)}


COUNT = TaskType(
    name="count",
    summary="Emits at every event how many there were so far for its key, as the field `count`.",
    config=CountConfig,
    reads=key_reads,
    output_schema=_count,
    state=State.KEY,
    key_fields=key_of,
)
"""How many events there were so far, for each key, at every event."""


class KalmanFilterConfig(Config):
    """The field to smooth, and how much its process, its sensor and the first guess are trusted."""

    field: str
    """The number to smooth."""
    by: Key = ()
    process_noise: Annotated[float, Field(ge=0)] = 0.125
    """The variance by which the true value drifts from event to event."""
    sensor_noise: Annotated[float, Field(gt=0)] = 0.32
    """The variance of what the sensor measures."""
    estimated_error: Annotated[float, Field(ge=0)] = 30.0
    """The variance of the first guess, which is 0."""


KALMAN_FILTER = TaskType(
    name="kalman_filter",
    summary="Replaces a field by its estimate from a one-dimensional Kalman filter of its key; null stays null and "
    "leaves the filter as it is.",
    config=KalmanFilterConfig,
    reads=_number_reads,
    output_schema=_as_float,
    state=State.KEY,
    key_fields=key_of,
)
"""A smoothed field."""


class InterpolateConfig(Config):
    """The field to fill, and from how many values."""

    field: str
    """The number whose gaps are filled."""
    by: Key = ()
    window: Window = 5
    """How many of the last values a gap is filled from."""


INTERPOLATE = TaskType(
    name="interpolate",
    summary="Replaces a null by the mean of the last `window` values of its key; it stays null where there was none.",
    config=InterpolateConfig,
    reads=_number_reads,
    output_schema=_as_float,
    state=State.KEY,
    key_fields=key_of,
)
"""A field without gaps."""


class SecondOrderMomentConfig(Config):
    """The field whose values are told apart, and how many counters estimate."""

    field: str
    """The field whose values are told apart; of any kind."""
    by: Key = ()
    counters: Annotated[int, Field(ge=1, le=512)] = 10
    """The estimate's relative error is about the root of 2 / counters."""


SECOND_ORDER_MOMENT = TaskType(
    name="second_order_moment",
    summary="Adds the estimated second moment of a field's values so far (the sum, over distinct values, of the square "
    "of how often each came) for its key, after Alon, Matias and Szegedy; null does not count.",
    config=SecondOrderMomentConfig,
    reads=_value_reads,
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("second_order_moment", Kind.FLOAT)},
    state=State.KEY,
    key_fields=key_of,
)
"""How uneven values are."""


class DistinctApproxCountConfig(Config):
    """The field whose values are counted, and in how many buckets."""

    field: str
    """The field whose values are counted; of any kind."""
    by: Key = ()
    buckets: Annotated[int, Field(ge=16, le=2**21)] = 2**10
    """A power of two. The estimate's relative error is about 1 / the root of it."""

    @model_validator(mode="after")
    def _power(self) -> Self:
        if self.buckets & (self.buckets - 1):
            raise ValueError(f"{self.buckets} buckets are not a power of two; take {1 << self.buckets.bit_length()}")
        return self


DISTINCT_APPROX_COUNT = TaskType(
    name="distinct_approx_count",
    summary="Adds how many distinct values of a field there were so far for its key, as the field `distinct`, "
    "estimated by a HyperLogLog sketch; null does not count.",
    config=DistinctApproxCountConfig,
    reads=_value_reads,
    output_schema=lambda _config, inputs: {"out": inputs["in"].plus("distinct", Kind.FLOAT)},
    state=State.KEY,
    key_fields=key_of,
)
"""How many values are distinct."""


class AccumulateConfig(Config):
    """The fields to collect, and how many events at a time."""

    fields: Annotated[tuple[str, ...], Field(min_length=1)]
    """The fields to collect."""
    by: Key = ()
    window: Window = 20
    """How many events become one."""


def _accumulate_reads(config: AccumulateConfig) -> tuple[Read, ...]:
    fields = (Read(at=f"fields/{i}", field=field, kinds=PLAIN) for i, field in enumerate(config.fields))
    return *fields, *key_reads(config)


def _accumulated(config: AccumulateConfig, inputs: Schemas) -> Schemas:
    schema = inputs["in"].only(config.by)
    for field in config.fields:
        schema = schema.plus(field, Kind.JSON)
    return {"out": schema}


ACCUMULATE = TaskType(
    name="accumulate",
    summary="Collects the values of fields over `window` events of a key and emits each field as one JSON array; a "
    "null is a null in it.",
    selectivity="one event per `window` events of a key",
    gathers="window",
    config=AccumulateConfig,
    reads=_accumulate_reads,
    output_schema=_accumulated,
    state=State.KEY,
    key_fields=key_of,
)
"""Several events in one."""


class SlidingLinearRegressionConfig(Config):
    """The field to predict, from how many of its last values, and how far."""

    field: str
    """The number to predict."""
    by: Key = ()
    train: Annotated[int, Field(ge=2, le=10_000)] = 10
    """How many of the last values the line is fitted to."""
    predict: Annotated[int, Field(ge=1, le=1_000)] = 10
    """How many values to come are predicted."""


SLIDING_LINEAR_REGRESSION = TaskType(
    name="sliding_linear_regression",
    summary="Fits a line to the last `train` values of a key by their running number and adds the next `predict` "
    "values as the JSON array `predictions`, and their mean as `predicted`; both are null at a null, and until there "
    "are `train` values.",
    config=SlidingLinearRegressionConfig,
    reads=_number_reads,
    output_schema=lambda _config, inputs: {
        "out": inputs["in"].plus("predicted", Kind.FLOAT).plus("predictions", Kind.JSON)
    },
    state=State.KEY,
    key_fields=key_of,
)
"""The next values, as far as a line tells."""

TYPES = (
    BLOCK_WINDOW_AVERAGE,
    COUNT,
    KALMAN_FILTER,
    INTERPOLATE,
    SECOND_ORDER_MOMENT,
    DISTINCT_APPROX_COUNT,
    ACCUMULATE,
    SLIDING_LINEAR_REGRESSION,
)
"""All of this family."""
