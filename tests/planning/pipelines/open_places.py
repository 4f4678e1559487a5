"""Pipelines in the notation of dataflows, where `point` and `gap` are types; and modules over the tests' catalogue."""

import json
from collections.abc import Sequence
from typing import Any

from dags import InvalidDocument, Problem
from dags.canonical import canonicalise
from planning.pipelines.module import Module, read_module
from planning.pipelines.planned import Assembled, PlannedPipeline, plan_pipeline
from planning.pipelines.reader import Pipeline, Surroundings, read_pipeline
from planning.problem import RunningVertex
from tests.catalogue import CATALOGUE, SOURCES
from tests.notation import document

UNITS = {"unit": ["celsius", "kelvin"], "clean": [True]}


def module(name: str, kind: str, config: dict[str, Any] | None = None, **more: Any) -> Module:
    """A module of an installed type."""
    form = {
        "name": name,
        "version": 1,
        "shape": "one-to-one",
        "installed": {"type": kind, "config": config or {}},
        "variables": UNITS,
    }
    return read_module(json.dumps(form | more), CATALOGUE)


MODULES = (
    module("to-kelvin", "map", {"add": 273}, require={"unit": "celsius"}, ensure={"unit": "kelvin"}, cost=0.2),
    module("to-celsius", "map", {"add": -273}, require={"unit": "kelvin"}, ensure={"unit": "celsius"}, cost=0.2),
    module("clean", "lab:clean", ensure={"clean": True}, cost=0.5, tags=["thorough"]),
    module("wipe", "lab:wipe", ensure={"clean": True}, cost=0.1),
    module("measure", "scale", {"factor": 2.0}, require={"clean": True}),
)


def pipeline_document(text: str, **more: Any) -> dict[str, Any]:
    """The document of a pipeline."""
    plain = document(text)
    tasks = [
        {"id": each["id"], each["type"]: each["config"]} if each["type"] in {"point", "gap"} else each
        for each in plain["tasks"]
    ]
    return {**plain, "tasks": tasks, **more}


def surroundings(
    modules: Sequence[Module] = MODULES, running: Sequence[RunningVertex] = (), **more: Any
) -> Surroundings:
    """What tests plan against."""
    return Surroundings(
        dataflow="flow",
        tenant="ann",
        catalogue=CATALOGUE,
        sources=SOURCES,
        modules=modules,
        running=lambda _texts: running,
        **more,
    )


def pipeline(text: str, around: Surroundings | None = None, **more: Any) -> Pipeline:
    """The pipeline of a line."""
    return read_pipeline(json.dumps(pipeline_document(text, **more)), around or surroundings())


def planned(text: str, around: Surroundings | None = None, **more: Any) -> PlannedPipeline:
    """The plan of a line."""
    return plan_pipeline(pipeline(text, around, **more), check)


def check(made: Assembled) -> Sequence[Problem]:
    """What the passes for documents say of a plan's."""
    text = json.dumps(made.document)
    try:
        canonicalise(text, dataflow="flow", tenant="ann", catalogue=CATALOGUE, sources=SOURCES)
    except InvalidDocument as refused:
        return refused.problems
    return ()


def refusal(text: str, around: Surroundings | None = None, **more: Any) -> Sequence[Problem]:
    """The problems of a line that cannot be read or planned."""
    try:
        planned(text, around, **more)
    except InvalidDocument as refused:
        return refused.problems
    return ()
