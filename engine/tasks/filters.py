"""Filters: tasks that make null what does not belong, or drop its event."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from dags import NUMBER, Config, Kind, Place, Read, Schema, Schemas, State, TaskType
from engine.tasks import expressions

Outside = Literal["drop", "null"]
"""What happens to what does not pass: a field becomes null, as in the benchmark, or its event is dropped."""
_FEWER = "one for one, or fewer where events are dropped"


class Range(Config):
    """Two bounds, both included."""

    min: float
    max: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        return self


class RangeFilterConfig(Range):
    """Bounds of one field, both included."""

    field: str
    outside: Outside = "null"
    """What happens to a value out of range: the field becomes null, or its event is dropped."""


RANGE_FILTER = TaskType(
    name="range_filter",
    summary="Makes a number null that does not lie within two bounds, or drops its event.",
    config=RangeFilterConfig,
    reads=lambda config: (Read(at="field", field=config.field, kinds=NUMBER),),
    selectivity=_FEWER,
)
"""Lets pass what is in range."""


class MultiRangeFilterConfig(Config):
    """Bounds for several fields, or for several kinds of measurement in one field."""

    ranges: Annotated[dict[str, Range], Field(min_length=1)]
    """The bounds by field; with `named_by` by the name of what was measured."""
    named_by: str | None = None
    """The field that names what was measured."""
    field: str | None = None
    """The field with the number that was measured."""
    outside: Outside = "null"
    """What happens out of range: the number that is out of range becomes null, or the event is dropped."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.named_by is None) != (self.field is None):
            raise ValueError("named_by and field belong together; give both where a field names what was measured")
        if self.field is not None and self.field == self.named_by:
            raise ValueError("named_by and field are the same; name the one with the name and the one with the number")
        return self


def _ranged(config: MultiRangeFilterConfig) -> tuple[Read, ...]:
    if config.named_by is None or config.field is None:
        return tuple(Read(at=f"ranges/{name}", field=name, kinds=NUMBER) for name in config.ranges)
    return (
        Read(at="named_by", field=config.named_by, kinds=frozenset({Kind.STRING})),
        Read(at="field", field=config.field, kinds=NUMBER),
    )


MULTI_RANGE_FILTER = TaskType(
    name="multi_range_filter",
    summary="Makes the numbers of an event null that do not lie within bounds, or drops the event.",
    config=MultiRangeFilterConfig,
    reads=_ranged,
    selectivity=_FEWER,
)
"""Lets pass what is in range, field by field."""

Expected = Annotated[int, Field(ge=1, le=100_000_000)]
Rate = Annotated[float, Field(gt=0, lt=1)]
_VALUES = frozenset({Kind.STRING, Kind.INTEGER})
_DIGEST = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class _Sized(Config):
    """How good a Bloom filter is."""

    expected: Expected = 20_000_000
    """For how many values the filter is made; with more it passes more that do not belong."""
    false_positives: Rate = 0.01
    """Which part of what does not belong passes all the same, if there are as many values as expected."""


class Members(_Sized):
    """What belongs to a set: values, or a Bloom filter in a file."""

    known: tuple[str, ...] = ()
    """The values that belong to it; numbers as their digits."""
    file: Place | None = None
    """A file with the text of a model, as `bloom_filter_train` emits it."""
    sha256: _DIGEST | None = None
    """The digest of the file in hexadecimal digits, so that the config says all that the task does."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.file is None) != (self.sha256 is None):
            raise ValueError("file and sha256 belong together; give both, or the values themselves as known")
        if (self.file is None) == (not self.known):
            raise ValueError("give the values that belong as known, or a file with a model; one of the two")
        return self

    def sorted(self) -> Self:
        """The same set, its values in order and each once."""
        return self.model_copy(update={"known": tuple(sorted(set(self.known)))})


class LookedUp(Config):
    """Which field to look up, and what becomes of a value that does not belong."""

    field: str
    """The field whose value is looked up."""
    outside: Outside = "null"
    """What happens to a value that does not belong: a field becomes null, or its event is dropped."""
    nulls: str | None = None
    """The field that becomes null; the one that is looked up where none is named."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if self.nulls is not None and self.outside == "drop":
            raise ValueError('nulls only means something where outside is "null"')
        return self


def _looked_up(config: LookedUp) -> tuple[Read, ...]:
    nulls = () if config.nulls is None else (Read(at="nulls", field=config.nulls),)
    return Read(at="field", field=config.field, kinds=_VALUES), *nulls


class BloomFilterConfig(Members, LookedUp):
    """Which field to look up, in which set."""


BLOOM_FILTER = TaskType(
    name="bloom_filter",
    summary="Makes a field null where a value does not belong to a set, by a Bloom filter, or drops the event.",
    config=BloomFilterConfig,
    reads=_looked_up,
    selectivity=_FEWER,
    normalise=BloomFilterConfig.sorted,
)
"""Lets pass what is known."""


class MultiBloomFilterConfig(Config):
    """Which fields to look up, each in its own set."""

    filters: Annotated[dict[str, Members], Field(min_length=1)]
    """The sets by field."""
    outside: Outside = "null"
    """What happens to a value that does not belong: its field becomes null, or its event is dropped."""


def _all_sorted(config: MultiBloomFilterConfig) -> MultiBloomFilterConfig:
    return config.model_copy(update={"filters": {name: each.sorted() for name, each in config.filters.items()}})


MULTI_BLOOM_FILTER = TaskType(
    name="multi_bloom_filter",
    summary="Makes the values of an event null that do not belong to sets, or drops the event.",
    config=MultiBloomFilterConfig,
    reads=lambda config: tuple(Read(at=f"filters/{name}", field=name, kinds=_VALUES) for name in config.filters),
    selectivity=_FEWER,
    normalise=_all_sorted,
)
"""Lets pass what is known, field by field."""


class BloomFilterTrainConfig(_Sized):
    """Which values make a model, and how good it is."""

    field: str
    """The field whose values belong to the set."""
    every: Annotated[int, Field(ge=1, le=100_000)] = 300
    """A model is made of so many events, and then the next one."""
    expected: Expected = 10_000
    """For how many values a model is made."""


BLOOM_FILTER_TRAIN = TaskType(
    name="bloom_filter_train",
    summary="Makes a Bloom filter of the values of every block of events, and emits it as a model.",
    config=BloomFilterTrainConfig,
    reads=lambda config: (Read(at="field", field=config.field, kinds=_VALUES),),
    output_schema=lambda _config, _inputs: {"out": Schema.of(model=Kind.STRING)},
    state=State.STREAM,
    selectivity="one for each full block",
    gathers="every",
)
"""Models of what belongs to a set."""


class TrainedBloomFilterConfig(LookedUp):
    """Which field to look up in the latest model."""


TRAINED_BLOOM_FILTER = TaskType(
    name="trained_bloom_filter",
    summary="Makes a field null where a value does not belong to a set, by the latest model that came in, or drops the "
    "event.",
    config=TrainedBloomFilterConfig,
    inputs=("in", "model"),
    reads=lambda config: (
        *_looked_up(config),
        Read(at="", field="model", port="model", kinds=frozenset({Kind.STRING})),
    ),
    output_schema=lambda _config, inputs: {"out": inputs["in"]},
    state=State.STREAM,
    selectivity=f"at the port in {_FEWER}; none for a model",
)
"""Lets pass what the latest model knows."""


class WhereConfig(Config):
    """What has to be true of an event."""

    expression: str

    @model_validator(mode="after")
    def _readable(self) -> Self:
        expressions.read(self.expression)
        return self


def _suited(config: WhereConfig, inputs: Schemas) -> Schemas:
    expressions.suited(expressions.read(config.expression), inputs["in"])
    return {"out": inputs["in"]}


WHERE = TaskType(
    name="where",
    summary="Keeps the events of which an expression over their fields is true.",
    config=WhereConfig,
    reads=lambda config: tuple(
        Read(at="expression", field=name)
        for name in dict.fromkeys(expressions.names(expressions.read(config.expression)))
    ),
    output_schema=_suited,
    selectivity="one for one, or none",
    normalise=lambda config: WhereConfig(expression=expressions.written(expressions.read(config.expression))),
)
"""Keeps the events of which something is true."""

TYPES = (
    RANGE_FILTER,
    MULTI_RANGE_FILTER,
    BLOOM_FILTER,
    MULTI_BLOOM_FILTER,
    BLOOM_FILTER_TRAIN,
    TRAINED_BLOOM_FILTER,
    WHERE,
)
"""All of this family."""
