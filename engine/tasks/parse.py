"""Parsing: tasks that make events of texts or texts of events, or that add known fields."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from dags import ANY, NUMBER, Config, Emission, Kind, Read, Schema, Schemas, TaskType

TEXT = frozenset({Kind.STRING, Kind.JSON})
"""The kinds of fields that contain a text."""
PLAIN = ANY - {Kind.JSON}
"""The kinds of simple values."""
TIME, FIELD, VALUE = "time", "field", "value"
"""The fields of a measurement's event, besides those that the config names."""


def _once(*names: str) -> None:
    """Refuse a config that would give an event two fields of one name."""
    if twice := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ValueError(f"two fields of the new event would be named {twice[0]!r}; remove one of them")


def listed(at: str, fields: Sequence[str], kinds: frozenset[Kind] = ANY, port: str = "in") -> tuple[Read, ...]:
    """The `reads` of a config field that lists fields of the event."""
    return tuple(Read(at=f"{at}/{i}", field=field, kinds=kinds, port=port) for i, field in enumerate(fields))


def extended(schema: Schema, fields: Mapping[str, Kind]) -> Schema:
    """The schema with more fields, or with other kinds for existing ones."""
    return Schema(schema.fields.update(fields))


class KeepingConfig(Config):
    """The base of the configs of tasks that make new events."""

    keep: tuple[str, ...] = ()
    """Fields to copy from the event that came in."""

    def kept(self) -> tuple[Read, ...]:
        """The fields that are copied, for a type's `reads`."""
        return listed("keep", self.keep)


class _TextConfig(KeepingConfig):
    """The base of the configs of tasks that read a text."""

    field: str
    """The field with the text."""


def _text_reads(config: _TextConfig) -> tuple[Read, ...]:
    return Read(at="field", field=config.field, kinds=TEXT), *config.kept()


def _parsed(config: _TextConfig, inputs: Schemas, fields: Mapping[str, Kind]) -> Schemas:
    """The fields that are kept, and those from the text."""
    return {"out": extended(inputs["in"].only(config.keep), fields)}


class SenmlParseConfig(_TextConfig):
    """The measurements to take from rows of SenML."""

    per: Literal["field", "row"] = "field"
    """One event per observed field, or one per row."""
    observed: Annotated[tuple[str, ...], Field(min_length=1)]
    """The names of the measurements to take. They are numbers."""
    also: dict[str, Kind] = Field(default_factory=dict)
    """Names and kinds of other entries of a row, such as its sensor. Every event gets them."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _once(TIME, *((FIELD, VALUE) if self.per == "field" else self.observed), *self.also, *self.keep)
        _once(*self.observed)
        return self


def _senml(config: SenmlParseConfig, inputs: Schemas) -> Schemas:
    measured = {FIELD: Kind.STRING, VALUE: Kind.FLOAT}
    values = measured if config.per == "field" else dict.fromkeys(config.observed, Kind.FLOAT)
    return _parsed(config, inputs, {**config.also, TIME: Kind.TIMESTAMP, **values})


SENML_PARSE = TaskType(
    name="senml_parse",
    summary="Reads rows of sensor measurements (SenML), and emits the observed ones, one event each or one per row.",
    config=SenmlParseConfig,
    sets=lambda config: (TIME, FIELD, VALUE, *config.observed, *config.also),
    reads=_text_reads,
    output_schema=_senml,
    emission=Emission.MANY,
    selectivity="one per observed field, or one for one",
)


class Column(Config):
    """A column of CSV."""

    name: str
    kind: Kind


class CsvParseConfig(_TextConfig):
    """The columns of a line of CSV."""

    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    """The line's columns, in order."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1, pattern=r'[^"\r\n]')] = ","

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _once(*(column.name for column in self.columns), *self.keep)
        return self


CSV_PARSE = TaskType(
    name="csv_parse",
    summary="Reads a line of CSV in each event. Its columns become fields.",
    config=CsvParseConfig,
    sets=lambda config: tuple(column.name for column in config.columns),
    reads=_text_reads,
    output_schema=lambda config, inputs: _parsed(
        config, inputs, {column.name: column.kind for column in config.columns}
    ),
)


class FieldsConfig(_TextConfig):
    """The fields to take from a structured text."""

    fields: Annotated[dict[str, Kind], Field(min_length=1)]
    """Names and kinds of the fields to take."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _once(*self.fields, *self.keep)
        return self


JSON_PARSE = TaskType(
    name="json_parse",
    summary="Reads a JSON object in each event. The members that the config names become fields.",
    config=FieldsConfig,
    sets=lambda config: tuple(config.fields),
    reads=_text_reads,
    output_schema=lambda config, inputs: _parsed(config, inputs, config.fields),
)

XML_PARSE = replace(
    JSON_PARSE,
    name="xml_parse",
    summary="Reads an XML document in each event. The elements and attributes that the config names become fields.",
)


class Measurement(Config):
    """One measurement of a row."""

    name: str
    unit: str = ""
    type: Literal["v", "sv"] = "v"
    """SenML's name for a number (v) or a text (sv)."""


class CsvToSenmlConfig(KeepingConfig):
    """The values that become the measurements of a row."""

    measurements: Annotated[tuple[Measurement, ...], Field(min_length=1)]
    time: str
    """The field or column with the row's time, in milliseconds since 1970."""
    field: str | None = None
    """The text field with a line of CSV. Without it, the values are fields of the event itself."""
    columns: tuple[str, ...] = ()
    """The names of the line's columns, in order."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        _once("senml", *self.keep)
        _once(*(measurement.name for measurement in self.measurements))
        if (self.field is None) != (not self.columns):
            raise ValueError("field and columns must be given together; give both for lines of CSV, else neither")
        _once(*self.columns)
        if self.field is not None:
            for name in (self.time, *(measurement.name for measurement in self.measurements)):
                if name not in self.columns:
                    raise ValueError(f"the line has no column {name!r}; add it to columns")
        return self


def _measured(config: CsvToSenmlConfig) -> tuple[Read, ...]:
    if config.field is not None:
        return Read(at="field", field=config.field, kinds=TEXT), *config.kept()
    return (
        Read(at="time", field=config.time, kinds=frozenset({Kind.INTEGER, Kind.TIMESTAMP})),
        *(
            Read(
                at=f"measurements/{i}/name", field=measurement.name, kinds=NUMBER if measurement.type == "v" else PLAIN
            )
            for i, measurement in enumerate(config.measurements)
        ),
        *config.kept(),
    )


CSV_TO_SENML = TaskType(
    name="csv_to_senml",
    summary="Writes the values of each event, or of a line of CSV in it, as a row of SenML.",
    config=CsvToSenmlConfig,
    sets=lambda _config: ("senml",),
    reads=_measured,
    output_schema=lambda config, inputs: {"out": inputs["in"].only(config.keep).plus("senml", Kind.STRING)},
)


_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.BOOLEAN: (bool,),
    Kind.INTEGER: (int,),
    Kind.FLOAT: (int, float),
    Kind.STRING: (str,),
    Kind.TIMESTAMP: (str, int),
    Kind.JSON: (object,),
}


def _is_of(kind: Kind, value: JsonValue) -> bool:
    if kind is Kind.TIMESTAMP and isinstance(value, str):
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return False
    return isinstance(value, _TYPES[kind]) and (kind in {Kind.BOOLEAN, Kind.JSON} or not isinstance(value, bool))


class AnnotateConfig(Config):
    """The known fields of each id."""

    field: str
    """The field with the id."""
    fields: Annotated[dict[str, Kind], Field(min_length=1)]
    """Names and kinds of the fields to add."""
    known: dict[str, dict[str, JsonValue]]
    """The values of these fields for each id. A missing value is null."""
    unknown: Literal["drop", "null"] = "drop"
    """For an unknown id, drop the event, or make the fields null."""

    @model_validator(mode="after")
    def _only_declared(self) -> Self:
        for key, values in self.known.items():
            if more := sorted(values.keys() - self.fields.keys()):
                raise ValueError(f"{key!r} has a value for {more[0]!r}, which is not one of the fields; add it there")
            for name, value in values.items():
                if value is not None and not _is_of(self.fields[name], value):
                    raise ValueError(f"the value of {name!r} for {key!r} should be of kind {self.fields[name]}")
        if self.field in self.fields:
            raise ValueError(f"the field {self.field!r} is the id; give the added field another name")
        return self


ANNOTATE = TaskType(
    name="annotate",
    summary="Adds to each event the fields that the config has for its id.",
    config=AnnotateConfig,
    sets=lambda config: tuple(config.fields),
    reads=lambda config: (Read(at="field", field=config.field, kinds=frozenset({Kind.STRING, Kind.INTEGER})),),
    output_schema=lambda config, inputs: {"out": extended(inputs["in"], config.fields)},
    selectivity="one for one, or fewer if ids are unknown",
)
