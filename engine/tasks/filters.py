"""Filters: tasks that make unwanted values null, or drop their events, by bounds, conditions or sets of values.

Sets are held by Bloom filters.
"""

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from dags import NUMBER, Config, FieldFates, Kind, Place, Read, Resized, Schema, Schemas, State, StateFate, TaskType
from dags.task_type import sets_nothing
from engine.tasks import expressions
from engine.tasks.code import Digest

Outside = Literal["drop", "null"]
"""For a value that does not pass, make a field null, as in the benchmark, or drop the event."""
FEWER = "one for one, or fewer if events are dropped"


class Range(Config):
    """Two bounds, both inclusive."""

    min: float
    max: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min:g} is greater than max {self.max:g}")
        return self


class RangeFilterConfig(Range):
    """The bounds of one field, both inclusive."""

    field: str
    """The field that the task works on."""
    outside: Outside = "null"
    """For a value out of range, make the field null, or drop the event."""


RANGE_FILTER = TaskType(
    name="range_filter",
    summary="Makes a number null if it is not within two bounds, or drops its event.",
    config=RangeFilterConfig,
    sets=lambda config: (config.field,),
    reads=lambda config: (Read(at="field", field=config.field, kinds=NUMBER),),
    selectivity=FEWER,
)


class MultiRangeFilterConfig(Config):
    """The bounds of several fields, or of several measurements in one field."""

    ranges: Annotated[dict[str, Range], Field(min_length=1)]
    """The bounds by field; with `named_by`, by the name of the measurement."""
    named_by: str | None = None
    """The field with the name of the measurement."""
    field: str | None = None
    """The field with the measured number."""
    outside: Outside = "null"
    """For a number out of range, make it null, or drop the event."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.named_by is None) != (self.field is None):
            raise ValueError("named_by and field must be given together; give both or neither")
        if self.field is not None and self.field == self.named_by:
            raise ValueError("named_by and field are the same; give the field with the name and that with the number")
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
    summary="Makes numbers of an event null if they are not within their bounds, or drops the event.",
    config=MultiRangeFilterConfig,
    sets=lambda config: tuple(config.ranges) if config.field is None else (config.field,),
    reads=_ranged,
    selectivity=FEWER,
)


class WhereConfig(Config):
    """The condition that events must meet."""

    expression: str

    @cached_property
    def parsed(self) -> expressions.Node:
        """The expression, parsed once."""
        return expressions.read(self.expression)

    @model_validator(mode="after")
    def _readable(self) -> Self:
        _ = self.parsed
        return self


def _suited(config: WhereConfig, inputs: Schemas) -> Schemas:
    expressions.suited(config.parsed, inputs["in"])
    return {"out": inputs["in"]}


WHERE = TaskType(
    name="where",
    summary="Keeps the events for which an expression over their fields is true.",
    config=WhereConfig,
    sets=sets_nothing,
    reads=lambda config: tuple(
        Read(at="expression", field=name) for name in dict.fromkeys(expressions.names(config.parsed))
    ),
    output_schema=_suited,
    selectivity="one for one, or none",
    # The copy keeps what was parsed, since the canonical text means the same.
    normalise=lambda config: config.model_copy(update={"expression": expressions.written(config.parsed)}),
)


class GateConfig(Config):
    """Whether events pass."""

    open: bool = True
    """Pass every event on, or none."""


GATE = TaskType(
    name="gate",
    summary="Passes every event on unchanged while it is open, and none while it is closed.",
    config=GateConfig,
    sets=sets_nothing,
    selectivity="one for one, or none",
)


Expected = Annotated[int, Field(ge=1, le=100_000_000)]
Rate = Annotated[float, Field(gt=0, lt=1)]
_VALUES = frozenset({Kind.STRING, Kind.INTEGER})
MOST_FILTER_BITS: Final = 2**28
"""Bits of one Bloom filter: 32 MiB."""
_MOST_BITS_TOGETHER: Final = 4 * MOST_FILTER_BITS
"""Bits of all Bloom filters of one task."""
_MOST_MODEL_BITS: Final = 2**24
"""Bits of a Bloom filter that is emitted: as text it has to be smaller than an event may be."""


def _check_bits(filters: Iterable["_Sized"], most: int) -> None:
    bits = sum(sized.bits for sized in filters)
    if bits > most:
        raise ValueError(
            f"the filter would take {bits / 8e6:,.0f} MB, and may take {most / 8e6:,.0f} MB; expect fewer values, or "
            "allow more false positives"
        )


class _Sized(Config):
    """The size and quality of a Bloom filter."""

    expected: Expected = 20_000_000
    """The number of values that the filter is made for. With more values, more others pass."""
    false_positives: Rate = 0.01
    """The share of other values that pass nevertheless, for the expected number of values."""

    @property
    def bits(self) -> float:
        """The size of the filter, which follows from both."""
        return -self.expected * math.log(self.false_positives) / math.log(2) ** 2

    @model_validator(mode="after")
    def _small(self) -> Self:
        _check_bits([self], MOST_FILTER_BITS)
        return self


class Members(_Sized):
    """The members of a set: values, or a Bloom filter in a file."""

    known: tuple[str, ...] = ()
    """The members. Numbers are given as texts."""
    file: Place | None = None
    """A file with the text of a model from `bloom_filter_train`."""
    sha256: Digest | None = None
    """The SHA-256 digest of the file in hexadecimal digits. It makes the config complete."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.file is None) != (self.sha256 is None):
            raise ValueError("file and sha256 must be given together; give both, or the values themselves as known")
        if (self.file is None) == (not self.known):
            raise ValueError("give either the values as known, or a file with a model")
        return self

    @property
    def bits(self) -> float:
        """The size of the filter; that in a file may have any size that is allowed."""
        return super().bits if self.file is None else MOST_FILTER_BITS

    def sorted(self) -> Self:
        """The same set, with its values sorted and without repetitions."""
        return self.model_copy(update={"known": tuple(sorted(set(self.known)))})


class LookedUp(Config):
    """The field to look up, and the effect of a value outside the set."""

    field: str
    """The field to look up."""
    outside: Outside = "null"
    """For a value outside the set, make a field null, or drop the event."""
    nulls: str | None = None
    """The field that becomes null; by default, the one that is looked up."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if self.nulls is not None and self.outside == "drop":
            raise ValueError('nulls has no effect unless outside is "null"; remove one of the two')
        return self


def _looked_up(config: LookedUp) -> tuple[Read, ...]:
    nulls = () if config.nulls is None else (Read(at="nulls", field=config.nulls),)
    return Read(at="field", field=config.field, kinds=_VALUES), *nulls


class BloomFilterConfig(Members, LookedUp):
    """The field to look up, and the set."""


BLOOM_FILTER = TaskType(
    name="bloom_filter",
    summary="Makes a field null if a value is not in a set, by a Bloom filter, or drops the event.",
    config=BloomFilterConfig,
    sets=lambda config: (config.field if config.nulls is None else config.nulls,),
    reads=_looked_up,
    selectivity=FEWER,
    normalise=BloomFilterConfig.sorted,
)


class MultiBloomFilterConfig(Config):
    """The fields to look up, each with its own set."""

    filters: Annotated[dict[str, Members], Field(min_length=1)]
    """The sets by field."""
    outside: Outside = "null"
    """For a value outside its set, make its field null, or drop the event."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        _check_bits(self.filters.values(), _MOST_BITS_TOGETHER)
        return self


MULTI_BLOOM_FILTER = TaskType(
    name="multi_bloom_filter",
    summary="Makes values of an event null if they are not in their sets, or drops the event.",
    config=MultiBloomFilterConfig,
    sets=lambda config: tuple(config.filters),
    reads=lambda config: tuple(Read(at=f"filters/{name}", field=name, kinds=_VALUES) for name in config.filters),
    selectivity=FEWER,
    normalise=lambda config: config.model_copy(
        update={"filters": {name: members.sorted() for name, members in config.filters.items()}}
    ),
)


class BloomFilterTrainConfig(_Sized):
    """The values of a model, and its quality."""

    field: str
    """The field with the members of the set."""
    every: Annotated[int, Field(ge=1, le=100_000)] = 300
    """The number of events per model."""
    expected: Expected = 10_000
    """The number of values that a model is made for."""

    @model_validator(mode="after")
    def _fits_an_event(self) -> Self:
        _check_bits([self], _MOST_MODEL_BITS)
        return self


BLOOM_FILTER_TRAIN = TaskType(
    name="bloom_filter_train",
    summary="Makes a Bloom filter from the values of every block of events, and emits it as a model.",
    config=BloomFilterTrainConfig,
    reads=lambda config: (Read(at="field", field=config.field, kinds=_VALUES),),
    output_schema=lambda _config, _inputs: {"out": Schema.of(model=Kind.STRING)},
    state=State.STREAM,
    state_change=FieldFates(
        every=Resized(grown=StateFate.KEPT, shrunk=StateFate.TRANSFORMED),
        expected=StateFate.KEPT,
        false_positives=StateFate.KEPT,
    ),
    selectivity="one per full block",
    gathers="every",
)


class TrainedBloomFilterConfig(LookedUp):
    """The field to look up in the latest model."""


TRAINED_BLOOM_FILTER = TaskType(
    name="trained_bloom_filter",
    summary="Makes a field null if a value is not in the set of the latest model, or drops the event.",
    config=TrainedBloomFilterConfig,
    inputs=("in", "model"),
    reads=lambda config: (
        *_looked_up(config),
        Read(at="", field="model", port="model", kinds=frozenset({Kind.STRING})),
    ),
    output_schema=lambda _config, inputs: {"out": inputs["in"]},
    state=State.STREAM,
    state_change=FieldFates(field=StateFate.KEPT, outside=StateFate.KEPT, nulls=StateFate.KEPT),
    selectivity=f"at the port in {FEWER}; none for a model",
)
