"""Scenarios: pipelines to plan, with the modules, sources and events that they need; and the plans of them.

Events come in rounds, in each of which every source has one. The same seed draws the same rounds. Plans are made as a
service makes them for the tenant who owns the sources, with the installed types.
"""

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from dags import Dataflow, InvalidDocument, Kind, Problem, Schema, Source
from dags.canonical import canonicalise
from engine import installed_catalogue
from planning.pipelines.module import read_module
from planning.pipelines.planned import Assembled, PlannedPipeline, plan_pipeline
from planning.pipelines.reader import Surroundings, read_pipeline
from workloads.workload import Document, Event, Rounds

_START = datetime(2026, 1, 12, tzinfo=UTC)
_BROKEN = 0.01
"""The part of readings that a broken sensor sends."""
_HOUSES = ("north", "east", "south", "west")
_VEHICLES = 40
_PATIENTS = 12
_ILL = 4
"""Every so many patients one is ill, and gets worse and better again."""
_HOUR = 60
"""Minutes."""


def house_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A minute between readings; temperatures in degrees Fahrenheit."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        time = _START + timedelta(minutes=number)
        phase = 2 * math.pi * (time.hour * _HOUR + time.minute) / (24 * _HOUR)
        inside = 66.0 - 4.0 * math.cos(phase) + draw.gauss(0, 1)
        reading = {
            "house": draw.choice(_HOUSES),
            "time": time,
            "inside": 900.0 if draw.random() < _BROKEN else inside,
            "outside": 36.0 - 9.0 * math.cos(phase) + draw.gauss(0, 2),
        }
        yield {"house": reading}


def highway_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A tenth of a second between readings, each of a vehicle that approaches an accident at 10 kilometres."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        reading = {"reading": number, "time": _START + timedelta(milliseconds=100 * number)}
        position = draw.uniform(0, 9_500)
        vehicle = {
            "vehicle": f"v{draw.randrange(_VEHICLES)}",
            "position": position,
            "speed": draw.uniform(20, 36),
            "ahead_position": position + draw.uniform(15, 200),
            "ahead_speed": draw.uniform(20, 36),
        }
        yield {"highway.vehicles": {**reading, **vehicle}, "highway.accidents": {**reading, "site": 10_000.0}}


def ward_rounds(seed: int) -> Iterator[Mapping[str, Event]]:
    """A tenth of a second between readings, each of the next patient."""
    draw = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    for number in count():
        turn, patient = divmod(number, _PATIENTS)
        about = {"patient": f"p{patient}", "round": turn, "time": _START + timedelta(milliseconds=100 * number)}
        illness = 0.0 if patient % _ILL else max(0.0, math.sin(turn / 20 + patient))
        bpm = 72 + 85 * illness + draw.gauss(0, 6)
        yield {
            "ward.heart": {**about, "bpm": 999.0 if draw.random() < _BROKEN else bpm},
            "ward.pressure": {**about, "systolic": 122 - 35 * illness + draw.gauss(0, 5)},
            "ward.movement": {**about, "movement": max(0.0, 3 * (1 - illness) + draw.gauss(0, 0.4))},
            "ward.bed": {**about, "in_bed": draw.random() < 0.9 - 0.5 * illness},
        }


_HERE = Path(__file__).parent


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
        schemas={
            source: Schema.of({field: Kind(kind) for field, kind in schemas[source].items()}) for source in schemas
        },
        rounds=_ROUNDS[name],
    )


def _read(name: str, part: str) -> Any:
    return json.loads((_HERE / name / f"{part}.json").read_text(encoding="utf-8"))


_OWNER = "city"


def surroundings_of(scenario: PipelineScenario) -> Surroundings:
    """What its pipeline is planned against. Its modules are an operator's, who vouches for their code."""
    catalogue = installed_catalogue()
    return Surroundings(
        dataflow=scenario.name,
        tenant=_OWNER,
        catalogue=catalogue,
        sources={name: Source(name=name, owner=_OWNER, schema=schema) for name, schema in scenario.schemas.items()},
        modules=[read_module(json.dumps(module), catalogue) for module in scenario.modules],
    )


def planned_scenario(pipeline: Document, around: Surroundings, *, reasons: bool = True) -> PlannedPipeline:
    """The best plan of a pipeline that passes all checks; refused with or without reasons."""

    def check(made: Assembled) -> Sequence[Problem]:
        try:
            canonical_form(made.document, around)
        except InvalidDocument as refused:
            return refused.problems
        return ()

    return plan_pipeline(read_pipeline(json.dumps(pipeline), around), check, reasons=reasons)


def canonical_form(document: Document, around: Surroundings) -> Dataflow:
    """A plain document in canonical form."""
    return canonicalise(
        json.dumps(document),
        dataflow=around.dataflow,
        tenant=around.tenant,
        catalogue=around.catalogue,
        sources=around.sources,
    )
