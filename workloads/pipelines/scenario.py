"""Scenarios: pipelines to plan, with the modules and sources that they need, and the events of these sources."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from dags import Kind, Schema
from workloads.pipelines.rounds import highway_rounds, house_rounds, ward_rounds
from workloads.workload import Document, Event

_HERE = Path(__file__).parent

Rounds: TypeAlias = Callable[[int], Iterator[Mapping[str, Event]]]
"""Endless rounds, the same for the same seed, each with an event of every source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineScenario:
    """A pipeline and all that it needs; made by `load_scenario`."""

    name: str
    pipeline: Document
    static: Document
    """The same as plain tasks."""
    modules: tuple[Mapping[str, Any], ...]
    """Their forms, as an operator publishes them."""
    schemas: Mapping[str, Schema]
    """By the names of the sources."""
    rounds: Rounds


_ROUNDS: Mapping[str, Rounds] = {"house": house_rounds, "highway": highway_rounds, "patients": ward_rounds}
SCENARIOS = tuple(_ROUNDS)
"""Their names, the simplest first."""


def load_scenario(name: str) -> PipelineScenario:
    """The scenario of a name.

    >>> load_scenario("house").pipeline["name"]
    'Heating power of a house'
    """
    schemas = _read(name, "sources")
    return PipelineScenario(
        name=name,
        pipeline=_read(name, "pipeline"),
        static=_read(name, "static"),
        modules=tuple(_read(name, "modules")),
        schemas={each: Schema.of({field: Kind(kind) for field, kind in schemas[each].items()}) for each in schemas},
        rounds=_ROUNDS[name],
    )


def _read(name: str, part: str) -> Any:
    return json.loads((_HERE / name / f"{part}.json").read_text(encoding="utf-8"))
