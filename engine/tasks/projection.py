"""Projections: tasks that choose the fields of events, compute new ones, and take lists apart."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from dags import Config, Emission, Kind, Read, Schemas, TaskType, Unsuitable
from engine.tasks import expressions
from engine.tasks.parse import TEXT, KeepingConfig, listed

_FieldName = Annotated[str, StringConstraints(min_length=1)]


class ProjectConfig(Config):
    """The fields that leave."""

    fields: tuple[str, ...] = ()
    """The fields to keep."""
    computed: dict[_FieldName, str] = Field(default_factory=dict)
    """Names of new fields, each with an expression over the fields that enter."""

    @cached_property
    def parsed(self) -> Mapping[str, expressions.Node]:
        """The expression of each new field, parsed once."""
        return {name: expressions.read(text) for name, text in self.computed.items()}

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not self.fields and not self.computed:
            raise ValueError("its events would have no fields; keep or compute some")
        if both := sorted(set(self.fields) & set(self.computed)):
            raise ValueError(f"the field {both[0]!r} is both kept and computed; choose one")
        _ = self.parsed
        return self


def _project_reads(config: ProjectConfig) -> tuple[Read, ...]:
    named = {name: dict.fromkeys(expressions.names(node)) for name, node in config.parsed.items()}
    computed = (Read(at=f"computed/{name}", field=field) for name, fields in named.items() for field in fields)
    return *listed("fields", config.fields), *computed


def _projected(config: ProjectConfig, inputs: Schemas) -> Schemas:
    schema = inputs["in"].only(config.fields)
    for name, node in config.parsed.items():
        try:
            schema = schema.plus(name, expressions.typed(node, inputs["in"])[1])
        except Unsuitable as error:
            raise Unsuitable(error.message, error.remedy, at=f"computed/{name}") from None
    return {"out": schema}


def _canonical(config: ProjectConfig) -> ProjectConfig:
    written = {name: expressions.written(node) for name, node in config.parsed.items()}
    # The copy keeps what was parsed, since the canonical texts mean the same.
    return config.model_copy(update={"fields": tuple(sorted(set(config.fields))), "computed": written})


PROJECT = TaskType(
    name="project",
    summary="Keeps some of the fields of each event, and adds others that expressions compute.",
    config=ProjectConfig,
    sets=lambda config: tuple(config.computed),
    reads=_project_reads,
    output_schema=_projected,
    normalise=_canonical,
)


class UnnestConfig(KeepingConfig):
    """The list to take apart."""

    field: str
    """The field with the JSON array. In the events that leave it holds the item."""
    kind: Kind
    """The kind of the items."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.field in self.keep:
            raise ValueError(f"the field {self.field!r} is both kept and taken apart; keep others only")
        return self


UNNEST = TaskType(
    name="unnest",
    summary="Emits an event for each item of a JSON array, in its order; the reverse of `accumulate`.",
    config=UnnestConfig,
    sets=lambda config: (config.field,),
    reads=lambda config: (Read(at="field", field=config.field, kinds=TEXT), *config.kept()),
    output_schema=lambda config, inputs: {"out": inputs["in"].only(config.keep).plus(config.field, config.kind)},
    emission=Emission.MANY,
    selectivity="one event per item",
)
