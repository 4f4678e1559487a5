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
from typing import Any

from benchmarks.documents import row_document
from benchmarks.drawn_dataflows import CATALOGUE, Shape, registered
from benchmarks.instruments import Figures
from dags import Dataflow
from dags.canonical import canonicalise
from dags.vocabulary import Criterion
from manager.pipelines.composer import running_vertices, shareable
from merge import RunningGraph, merge
from planning.pipelines.module import Module, read_module
from planning.pipelines.planned import plan_pipeline
from planning.pipelines.reader import Surroundings, nothing_runs, read_pipeline
from planning.problem import RunningVertex

_SHAPE = Shape(sources=5)
_FIELDS = ("temperature", "humidity", "light")
_ALTERNATIVES = 6
_OFFERED = 3
"""The modules of each kind that a narrow document allows; another document allows others."""
_NEEDS = {"clean": "", "smooth": "clean", "mean": "smooth"}
"""The kinds of modules, and the kind that each needs before it."""
_EITHER_WAY = {"source", "output"}
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def reuse(*, quick: bool) -> Figures:
    """Tasks that run at the end, both ways, for the same documents of each kind."""
    many = 20 if quick else 100
    figures: Figures = {"documents": many}
    for name, drawn in (("narrow", _narrow), ("open", _open)):
        draw = random.Random(1)
        figures[name] = _compared([drawn(draw, number) for number in range(many)])
    return figures


def _compared(documents: Sequence[bytes]) -> Figures:
    modules = _repository()
    alone, together = (_running(documents, modules, for_reuse=for_reuse) for for_reuse in (False, True))
    figures = {"alone": len(alone), "for_reuse": len(together), "ratio": round(len(together) / len(alone), 3)}
    alone, together = ([kind for kind in tasks if kind not in _EITHER_WAY] for tasks in (alone, together))
    return figures | {
        "between_alone": len(alone),
        "between_for_reuse": len(together),
        "between_ratio": round(len(together) / len(alone), 3),
    }


def _repository() -> list[Module]:
    modules = []
    for field in _FIELDS:
        for kind, need in _NEEDS.items():
            for at in range(_ALTERNATIVES):
                name, config = _task(kind, field, at)
                variables = {f"{name}-{field}": [True] for name in _NEEDS}
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
                modules.append(read_module(json.dumps(form), CATALOGUE))
    return modules


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
        module
        for kind in _NEEDS
        for module in draw.sample([f"{kind}-{field}-{at}" for at in range(_ALTERNATIVES)], _OFFERED)
    ]
    return _document(draw, number, [{"modules": offered}] * len(_NEEDS), {f"{last}-{field}": True}, "cost")


def _open(draw: random.Random, number: int) -> bytes:
    kinds = list(_NEEDS)
    first, *others = draw.sample(_FIELDS, draw.randint(1, 2))
    # An average leaves no other field, so there is one at most.
    goals = {f"{draw.choice(kinds)}-{first}": True} | {f"{draw.choice(kinds[:-1])}-{other}": True for other in others}
    places = sum(1 + kinds.index(goal.split("-")[0]) for goal in goals)
    return _document(draw, number, [{}] * places, goals, draw.choice(["cost", "quality"]))


def _document(
    draw: random.Random, number: int, points: Sequence[Figures], goals: Mapping[str, bool], prefer: str
) -> bytes:
    """Some places in a row below one of the sources."""
    document = row_document(
        f"goal {number}",
        f"s{draw.randrange(_SHAPE.sources)}",
        {f"p{at}": {"point": point} for at, point in enumerate(points)},
        goals=[{"holds": {name: value}} for name, value in goals.items()],
        prefer=[prefer],
    )
    return json.dumps(document).encode()


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
