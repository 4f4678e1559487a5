"""Filters: tasks that pass on some of what they take."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from dags import NUMBER, Config, Kind, Place, Read, Schema, Schemas, State, TaskType
from engine.tasks import expressions

Outside = Literal["drop", "null"]
"""What happens to what does not pass: its event is dropped, or a field becomes null."""
_FEWER = "one for one, or fewer where events are dropped"


class RangeFilterConfig(Config):
    """Bounds of one field, both included."""

    field: str
    min: float
    max: float
    outside: Outside = "drop"
    """What happens to a value out of range: its event is dropped, or the field becomes null."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _in_order(self.min, self.max)
        return self


def _in_order(least: float, most: float) -> None:
    if least > most:
        raise ValueError(f"min {least:g} is above max {most:g}")


RANGE_FILTER = TaskType(
    name="range_filter",
    summary="Keeps the events whose number lies within two bounds, or makes the number of the others null.",
    config=RangeFilterConfig,
    reads=lambda config: (Read(at="field", field=config.field, kinds=NUMBER),),
    selectivity=_FEWER,
)
"""Keeps the events whose field is in range."""


class Range(Config):
    """Two bounds, both included."""

    min: float
    max: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        _in_order(self.min, self.max)
        return self


class MultiRangeFilterConfig(Config):
    """Bounds for several fields, or for several kinds of measurement in one field."""

    ranges: Annotated[dict[str, Range], Field(min_length=1)]
    """The bounds by field; with `named_by` by the name of what was measured."""
    named_by: str | None = None
    """The field that names what was measured."""
    field: str | None = None
    """The field with the number that was measured."""
    outside: Outside = "drop"
    """What happens out of range: the event is dropped, or the number that is out of range becomes null."""

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
    summary="Keeps the events all of whose numbers lie within bounds, or makes those null that do not.",
    config=MultiRangeFilterConfig,
    reads=_ranged,
    selectivity=_FEWER,
)
"""Keeps the events whose fields are in range."""

Expected = Annotated[int, Field(ge=1, le=100_000_000)]
Rate = Annotated[float, Field(gt=0, lt=1)]
_VALUES = frozenset({Kind.STRING, Kind.INTEGER})
_DIGEST = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class Members(Config):
    """What belongs to a set: values, or a Bloom filter in a file."""

    known: tuple[str, ...] = ()
    """The values that belong to it; numbers as their digits."""
    file: Place | None = None
    """A file with the text of a model, as `bloom_filter_train` emits it."""
    sha256: _DIGEST | None = None
    """The digest of the file in hexadecimal digits, so that the config says all that the task does."""
    expected: Expected = 20_000_000
    """For how many values the filter is made; with more it passes more that do not belong."""
    false_positives: Rate = 0.01
    """Which part of what does not belong passes all the same, if there are as many values as expected."""

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


class BloomFilterConfig(Members):
    """Which field to look up, in which set."""

    field: str
    """The field whose value is looked up."""
    outside: Outside = "drop"
    """What happens to a value that does not belong: its event is dropped, or a field becomes null."""
    nulls: str | None = None
    """The field that becomes null; the one that is looked up where none is named."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        _only_with_null(self.nulls, self.outside)
        return self


def _only_with_null(nulls: str | None, outside: Outside) -> None:
    if nulls is not None and outside == "drop":
        raise ValueError('nulls only means something where outside is "null"')


def _looked_up(config: "BloomFilterConfig | TrainedBloomFilterConfig") -> tuple[Read, ...]:
    nulls = () if config.nulls is None else (Read(at="nulls", field=config.nulls),)
    return Read(at="field", field=config.field, kinds=_VALUES), *nulls


BLOOM_FILTER = TaskType(
    name="bloom_filter",
    summary="Keeps the events whose value belongs to a set, by a Bloom filter, or makes a field of the others null.",
    config=BloomFilterConfig,
    reads=_looked_up,
    selectivity=_FEWER,
    normalise=BloomFilterConfig.sorted,
)
"""Keeps the events whose value is known."""


class MultiBloomFilterConfig(Config):
    """Which fields to look up, each in its own set."""

    filters: Annotated[dict[str, Members], Field(min_length=1)]
    """The sets by field."""
    outside: Outside = "drop"
    """What happens to a value that does not belong: its event is dropped, or its field becomes null."""


def _all_sorted(config: MultiBloomFilterConfig) -> MultiBloomFilterConfig:
    return config.model_copy(update={"filters": {name: each.sorted() for name, each in config.filters.items()}})


MULTI_BLOOM_FILTER = TaskType(
    name="multi_bloom_filter",
    summary="Keeps the events of which several values all belong to sets, or makes those null that do not.",
    config=MultiBloomFilterConfig,
    reads=lambda config: tuple(Read(at=f"filters/{name}", field=name, kinds=_VALUES) for name in config.filters),
    selectivity=_FEWER,
    normalise=_all_sorted,
)
"""Keeps the events whose values are known."""


class BloomFilterTrainConfig(Config):
    """Which values make a model, and how good it is."""

    field: str
    """The field whose values belong to the set."""
    every: Annotated[int, Field(ge=1, le=100_000)] = 300
    """A model is made of so many events, and then the next one."""
    expected: Expected = 10_000
    """For how many values a model is made."""
    false_positives: Rate = 0.01
    """Which part of what does not belong passes all the same, if there are as many values as expected."""


BLOOM_FILTER_TRAIN = TaskType(
    name="bloom_filter_train",
    summary="Makes a Bloom filter of the values of every block of events, and emits it as a model.",
    config=BloomFilterTrainConfig,
    reads=lambda config: (Read(at="field", field=config.field, kinds=_VALUES),),
    output_schema=lambda _config, _inputs: {"out": Schema.of(model=Kind.STRING)},
    state=State.STREAM,
    selectivity="one for each full block",
)
"""Models of what belongs to a set."""


class TrainedBloomFilterConfig(Config):
    """Which field to look up in the latest model."""

    field: str
    """The field whose value is looked up."""
    outside: Outside = "drop"
    """What happens to a value that does not belong: its event is dropped, or a field becomes null."""
    nulls: str | None = None
    """The field that becomes null; the one that is looked up where none is named."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        _only_with_null(self.nulls, self.outside)
        return self


TRAINED_BLOOM_FILTER = TaskType(
    name="trained_bloom_filter",
    summary="Keeps the events whose value belongs to a set, by the latest model that came in.",
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
"""Keeps the events whose value the latest model knows."""


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
