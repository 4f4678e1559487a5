"""Planning for reuse: how many tasks run for random goals, planned against what runs and planned alone.

Sources and outputs run either way, so the tasks between them are counted too. In the narrow documents each place allows
a few modules by name, other ones in each, and there is one goal. In the open ones any module of the shape may fill a
place, and there are several goals; documents differ by what they prefer, and nothing says in which order the fields of
an event are treated.
"""

import json
import random
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from benchmarks.drawn_dataflows import CATALOGUE, Shape, registered
from dags import Dataflow, canonicalise
from manager.pipelines.composer import running_vertices, shareable
from merge import RunningGraph, merge
from planning.pipelines.module import Module, read_module
from planning.pipelines.planned import plan_pipeline
from planning.pipelines.reader import Surroundings, nothing_runs, read_pipeline
from planning.problem import Criterion, RunningVertex

Found = dict[str, Any]
_SHAPE = Shape(sources=5)
_FIELDS = ("temperature", "humidity", "light")
_ALTERNATIVES = 6
_OFFERED = 3
"""The modules of each kind that a narrow document allows; another document allows others."""
_NEEDS = {"clean": "", "smooth": "clean", "mean": "smooth"}
"""The kinds of modules, and the kind that each needs before it."""
_EITHER_WAY = {"source", "output"}
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def reuse(*, quick: bool) -> Found:
    """Tasks that run at the end, both ways, for the same documents of each kind."""
    many = 20 if quick else 100
    found: Found = {"documents": many}
    for name, drawn in (("narrow", _narrow), ("open", _open)):
        draw = random.Random(1)
        found[name] = _compared([drawn(draw, number) for number in range(many)])
    return found


def _compared(documents: Sequence[bytes]) -> Found:
    modules = _repository()
    alone, together = (_running(documents, modules, for_reuse=each) for each in (False, True))
    found = {"alone": len(alone), "for_reuse": len(together), "ratio": round(len(together) / len(alone), 3)}
    alone, together = ([each for each in tasks if each not in _EITHER_WAY] for tasks in (alone, together))
    return found | {
        "between_alone": len(alone),
        "between_for_reuse": len(together),
        "between_ratio": round(len(together) / len(alone), 3),
    }


def _repository() -> list[Module]:
    found = []
    for field in _FIELDS:
        for kind, need in _NEEDS.items():
            for at in range(_ALTERNATIVES):
                name, config = _task(kind, field, at)
                variables = {f"{each}-{field}": [True] for each in _NEEDS}
                form = {
                    "name": f"{kind}-{field}-{at}",
                    "version": 1,
                    "shape": "one-to-one",
                    "installed": {"type": name, "config": config},
                    "variables": variables,
                    "require": {f"{need}-{field}": True} if need else {},
                    "ensure": {f"{kind}-{field}": True},
                    # Alone, each document prefers another of those that it allows, or the cheapest or best of all.
                    "cost": 0.01 * (1 + at),
                    "quality": at,
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


def _narrow(draw: random.Random, number: int) -> bytes:
    field = draw.choice(_FIELDS)
    last = draw.choice(["smooth", "mean"])
    offered = [
        each
        for kind in _NEEDS
        for each in draw.sample([f"{kind}-{field}-{at}" for at in range(_ALTERNATIVES)], _OFFERED)
    ]
    return _document(draw, number, [{"modules": offered}] * len(_NEEDS), {f"{last}-{field}": True}, "cost")


def _open(draw: random.Random, number: int) -> bytes:
    kinds = list(_NEEDS)
    first, *others = draw.sample(_FIELDS, draw.randint(1, 2))
    # An average leaves no other field, so there is one at most.
    goals = {f"{draw.choice(kinds)}-{first}": True} | {f"{draw.choice(kinds[:-1])}-{each}": True for each in others}
    places = sum(1 + kinds.index(goal.split("-")[0]) for goal in goals)
    return _document(draw, number, [{}] * places, goals, draw.choice(["cost", "quality"]))


def _document(
    draw: random.Random, number: int, points: Sequence[Found], goals: Mapping[str, bool], prefer: str
) -> bytes:
    """Some places in a row below one of the sources."""
    places = [f"p{at}" for at in range(len(points))]
    return json.dumps(
        {
            "version": 1,
            "name": f"goal {number}",
            "tasks": [
                {"id": "source", "type": "source", "config": {"source": f"s{draw.randrange(_SHAPE.sources)}"}},
                *({"id": place, "point": point} for place, point in zip(places, points, strict=True)),
                {"id": "out", "type": "output"},
            ],
            "streams": [{"from": a, "to": b} for a, b in pairwise(["source", *places, "out"])],
            "goals": [{"holds": {name: value}} for name, value in goals.items()],
            "prefer": [prefer],
        }
    ).encode()


def _running(documents: Sequence[bytes], modules: Sequence[Module], *, for_reuse: bool) -> list[str]:
    """The types of the tasks that run once all documents are planned one after another, and merged."""
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
        pipeline = read_pipeline(raw, around)
        preferred = pipeline.blueprint.form.prefer
        criteria = (Criterion.RESIDUE, *preferred) if for_reuse else preferred
        planned = plan_pipeline(pipeline, lambda _made: (), criteria)
        flow: Dataflow = canonicalise(
            json.dumps(planned.assembled.document),
            dataflow=f"d{number}",
            tenant="city",
            catalogue=CATALOGUE,
            sources=sources,
        )
        graph.advance(merge(graph, flow, _NOW))
    return [task.type.name for task in graph.tasks.values()]
