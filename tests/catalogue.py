"""A small catalogue for tests: one task type for every kind of behaviour that merging has to respect."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from dags import (
    NUMBER,
    AnyTaskType,
    Catalogue,
    Config,
    Effect,
    Emission,
    Kind,
    Namespace,
    NamesSource,
    Ports,
    Read,
    Schema,
    Secret,
    Source,
    State,
    TaskType,
    Visibility,
)
from dags.task_type import sets_nothing


class NoConfig(Config):
    """For types with nothing to configure."""


class MapConfig(Config):
    add: int = 0


class ScaleConfig(Config):
    factor: float = 1.0
    label: str = ""


class CountConfig(Config):
    by: str = "place"


class WindowConfig(Config):
    size: Annotated[int, Field(ge=1)] = 3


class TagsConfig(Config):
    needs: str = ""


class FetchConfig(Config):
    password: Secret


class RouteConfig(Config):
    ways: tuple[str, ...] = ("even", "odd")


class ClockConfig(Config):
    every: int = 1


class OwnedConfig(Config):
    owner: str


class AnyOrderConfig(Config):
    names: tuple[str, ...] = ()


SCHEMA = Schema.of(place=Kind.STRING, value=Kind.INTEGER)

TYPES: tuple[AnyTaskType, ...] = (
    TaskType(name="source", config=NamesSource, inputs=()),
    TaskType(name="map", config=MapConfig, reads=lambda _: (Read(at="", field="value", kinds=NUMBER),)),  # value + add
    TaskType(
        name="scale",
        config=ScaleConfig,
        reads=lambda _: (Read(at="", field="value", kinds=NUMBER),),
        output_schema=lambda _, inputs: {"out": inputs["in"].plus("value", Kind.FLOAT)},
    ),  # value * factor
    TaskType(
        name="split",
        config=NoConfig,
        outputs=("even", "odd"),
        output_schema=lambda _, i: dict.fromkeys(("even", "odd"), i["in"]),
    ),  # by the value's parity
    TaskType(
        name="join",
        config=NoConfig,
        inputs=("left", "right"),
        output_schema=lambda _, i: {"out": i["left"]},
        state=State.STREAM,
        emission=Emission.AT_MOST_ONE,
    ),  # left - last right
    TaskType(
        name="prefer",
        config=NoConfig,
        inputs=("in", "side"),
        optional=frozenset({"side"}),
        output_schema=lambda _, i: {"out": i["in"]},
    ),  # whatever comes
    TaskType(
        name="route",
        config=RouteConfig,
        ports=lambda config: Ports(outputs=config.ways),
        output_schema=lambda config, i: dict.fromkeys(config.ways, i["in"]),
    ),  # by the value, to one way after the other
    TaskType(name="clock", config=ClockConfig, inputs=(), output_schema=lambda *_: {"out": SCHEMA}),  # from itself
    TaskType(name="echo", config=MapConfig, emission=Emission.MANY),  # each event twice
    TaskType(name="count", config=CountConfig, state=State.KEY, key_fields=lambda config: (config.by,)),
    TaskType(name="window", config=WindowConfig, state=State.STREAM, gathers="size"),  # sum of each block of events
    TaskType(name="connecting_code", config=OwnedConfig),  # what a tenant wrote
    TaskType(name="random", config=NoConfig, deterministic=False),
    TaskType(name="look", config=NoConfig, effect=Effect.READS_OUTSIDE),
    TaskType(name="write", config=NoConfig, effect=Effect.WRITES_OUTSIDE),
    TaskType(name="fetch", config=FetchConfig),
    TaskType(
        name="anyorder",
        config=AnyOrderConfig,
        normalise=lambda config: AnyOrderConfig(names=tuple(sorted(config.names))),
    ),
    TaskType(name="gpu", config=TagsConfig, tags=frozenset({"gpu"})),
    TaskType(name="fpga", config=TagsConfig, tags=frozenset({"fpga"})),
    TaskType(
        name="either",
        config=TagsConfig,
        tags=frozenset({"gpu"}),
        config_tags=lambda config: frozenset({config.needs} - {""}),
    ),
    TaskType(name="sink", config=NoConfig, outputs=()),
    TaskType(name="file", config=NoConfig, outputs=(), effect=Effect.WRITES_OUTSIDE),
)


def _lab(name: str) -> AnyTaskType | None:
    return TaskType(name=name, config=MapConfig) if name.removeprefix("lab:").isalpha() else None


CATALOGUE = Catalogue.of([*TYPES, Namespace("lab:", _lab)])


def type_of(name: str, config: Mapping[str, Any]) -> AnyTaskType:
    """The type of a task with a config, as a document has it."""
    found = CATALOGUE.find(name)
    assert found is not None
    return found.of(found.config.model_validate_json(json.dumps(config)))


SOURCES = {
    "weather": Source(name="weather", owner="ann", schema=SCHEMA, visibility=Visibility.PUBLIC),
    "traffic": Source(name="traffic", owner="bob", schema=SCHEMA, visibility=Visibility.PUBLIC),
    "power": Source(name="power", owner="ann", schema=SCHEMA, visibility=Visibility.NAMED, readers=frozenset({"bob"})),
    "diary": Source(name="diary", owner="ann", schema=SCHEMA),
}


class FieldsConfig(Config):
    """Some fields."""

    fields: tuple[str, ...] = ()


class OnceConfig(Config):
    """The fields by which a task emits once; without any, once for all."""

    by: tuple[str, ...] = ("place",)
    again: bool = False
    """Emit again and again instead."""
    generation: int = 0


OWN: tuple[AnyTaskType, ...] = (
    TaskType(name="pass", config=OnceConfig, sets=sets_nothing),
    TaskType(name="set", config=FieldsConfig, sets=lambda config: config.fields),
    TaskType(
        name="spread", config=FieldsConfig, sets=lambda config: config.fields, emission=Emission.MANY
    ),  # several of each event
    TaskType(
        name="once",
        config=OnceConfig,
        state=State.STREAM,
        unique_by=lambda config: None if config.again else config.by,
    ),
)
UNIQUE_TYPES = Catalogue.of([*TYPES, *OWN])
