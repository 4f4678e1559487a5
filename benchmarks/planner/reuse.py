"""Planning for reuse: how many tasks run for random goals, planned against what runs and planned alone."""

import json
import random
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from benchmarks.drawn_dataflows import CATALOGUE, Shape, registered
from dags import Dataflow, canonicalise
from manager.cases.planned.running_vertices import running_vertices, shareable
from merge import RunningGraph, merge
from planning.pipelines.module import Module, read_module
from planning.pipelines.pipeline import Surroundings, nothing_runs, read_pipeline
from planning.pipelines.planned import plan_pipeline
from planning.planning_problem import Criterion, RunningVertex

Found = dict[str, Any]
_SHAPE = Shape(sources=5)
_FIELDS = ("temperature", "humidity", "light")
_ALTERNATIVES = 6
_OFFERED = 3
"""The modules of each kind that a document allows; another document allows others."""
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def reuse(*, quick: bool) -> Found:
    """Tasks that run at the end, both ways, for the same documents."""
    many = 20 if quick else 100
    draw = random.Random(1)
    modules = _repository()
    documents = [_document(draw, number) for number in range(many)]
    alone, together = (_running(documents, modules, for_reuse=each) for each in (False, True))
    return {"documents": many, "alone": alone, "for_reuse": together, "ratio": round(together / alone, 3)}


def _repository() -> list[Module]:
    needs = {"clean": "", "smooth": "clean", "mean": "smooth"}
    found = []
    for field in _FIELDS:
        for kind, need in needs.items():
            for at in range(_ALTERNATIVES):
                name, config = _task(kind, field, at)
                variables = {f"{each}-{field}": [True] for each in needs}
                form = {
                    "name": f"{kind}-{field}-{at}",
                    "version": 1,
                    "shape": "one-to-one",
                    "installed": {"type": name, "config": config},
                    "variables": variables,
                    "require": {f"{need}-{field}": True} if need else {},
                    "ensure": {f"{kind}-{field}": True},
                    # Alone, each document prefers another of those that it allows.
                    "cost": 0.01 * (1 + at),
                }
                found.append(read_module(json.dumps(form), CATALOGUE))
    return found


def _task(kind: str, field: str, at: int) -> tuple[str, dict[str, Any]]:
    """The type and config of one of some alternatives."""
    if kind == "clean":
        return "range_filter", {"field": field, "min": -at, "max": 100 + at, "outside": "drop"}
    if kind == "smooth":
        return "kalman_filter", {"field": field, "process_noise": 0.1 + at / 10}
    return "block_window_average", {"field": field, "window": 5 + at}


def _document(draw: random.Random, number: int) -> bytes:
    field = draw.choice(_FIELDS)
    last = draw.choice(["smooth", "mean"])
    offered = [
        each
        for kind in ("clean", "smooth", "mean")
        for each in draw.sample([f"{kind}-{field}-{at}" for at in range(_ALTERNATIVES)], _OFFERED)
    ]
    places = [f"p{at}" for at in range(3)]
    path = ["source", *places, "out"]
    return json.dumps(
        {
            "version": 1,
            "name": f"goal {number}",
            "tasks": [
                {"id": "source", "type": "source", "config": {"source": f"s{draw.randrange(_SHAPE.sources)}"}},
                *({"id": place, "point": {"modules": offered}} for place in places),
                {"id": "out", "type": "output"},
            ],
            "streams": [{"from": a, "to": b} for a, b in pairwise(path)],
            "goals": [{"holds": {f"{last}-{field}": True}}],
        }
    ).encode()


def _running(documents: Sequence[bytes], modules: Sequence[Module], *, for_reuse: bool) -> int:
    """The tasks that run once all documents are planned one after another, and merged."""
    sources = registered(_SHAPE)
    graph = RunningGraph()

    def running(texts: Collection[str]) -> Sequence[RunningVertex]:
        return running_vertices(shareable(graph, texts), texts)

    for number, raw in enumerate(documents):
        around = Surroundings(
            dataflow=f"d{number}",
            tenant="city",
            catalogue=CATALOGUE,
            sources=sources,
            modules=modules,
            running=running if for_reuse else nothing_runs,
        )
        criteria = (Criterion.RESIDUE, Criterion.COST) if for_reuse else (Criterion.COST,)
        planned = plan_pipeline(read_pipeline(raw, around), lambda _made: (), criteria)
        flow: Dataflow = canonicalise(
            json.dumps(planned.assembled.document),
            dataflow=f"d{number}",
            tenant="city",
            catalogue=CATALOGUE,
            sources=sources,
        )
        graph.advance(merge(graph, flow, _NOW))
    return len(graph.tasks)
