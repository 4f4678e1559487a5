"""The residue of a plan a second time: its document is built, made canonical, and merged into what runs.

Nothing here knows how the planner counts. Types compute different things or are not shareable; places may hold nothing,
also where streams meet; what runs was merged from documents of the same places, so that much of it is found again.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

from dags import Catalogue, Config, Dataflow, Ports, Schema, Source, TaskType, Visibility, canonicalise
from manager.pipelines.composer import running_vertices, shareable
from merge import RunningGraph, merge
from planning.pipelines.reader import computes
from planning.problem import Inflow, Option, Outlet, PlanningProblem, Vertex

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_SHARED, _CONFINED = ("clean", "sort"), "look"
NOTHING = Option(name="nothing", is_no_op=True)


class _Nothing(Config):
    """For types with nothing to configure."""


class _Named(Config):
    source: str


class _Ways(Config):
    inputs: tuple[str, ...] = ("in",)
    outputs: tuple[str, ...] = ("out",)


def _type(name: str, *, deterministic: bool = True) -> TaskType[_Ways]:
    return TaskType(
        name=name,
        config=_Ways,
        ports=lambda config: Ports(inputs=config.inputs, outputs=config.outputs),
        output_schema=lambda config, _: dict.fromkeys(config.outputs, Schema.of()),
        deterministic=deterministic,
    )


_SINK = "sink"
_CATALOGUE = Catalogue.of(
    [
        TaskType(name="source", config=_Named, inputs=(), output_schema=lambda *_: {"out": Schema.of()}),
        TaskType(name=_SINK, config=_Nothing, outputs=()),
        *(_type(name) for name in _SHARED),
        _type(_CONFINED, deterministic=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Merged:
    """A problem whose residue merging decides, and what runs."""

    problem: PlanningProblem
    running: RunningGraph

    def choices(self) -> Iterator[Mapping[str, Option]]:
        """Every choice of options."""
        names = [vertex.id for vertex in self.problem.vertices]
        for chosen in product(*(vertex.options for vertex in self.problem.vertices)):
            yield dict(zip(names, chosen, strict=True))

    def problem_without(self, excluded: tuple[Mapping[str, str], ...]) -> PlanningProblem:
        """The problem without some choices."""
        return replace(self.problem, excluded=excluded)

    def residue(self, options: Mapping[str, Option]) -> int | None:
        """The tasks that start between sources and sinks; None if no document says it: a stream enters a port twice."""
        flow = _flow(self.problem, options)
        if flow is None:
            return None
        return sum(task.type.name not in {"source", _SINK} for task in merge(self.running, flow, _NOW).starts)


def doubled(problem: PlanningProblem, options: Mapping[str, Option]) -> bool:
    """Whether a stream enters a port twice."""
    return _document(problem, options) is None


def merged_problem(seed: int, *, most_vertices: int = 4, most_options: int = 3) -> Merged:
    """A random problem without goals, and a graph that runs some other choices of such places."""
    draw = random.Random(seed)
    problem = _problem(draw, draw.randint(2, most_vertices), most_options)
    running = RunningGraph()
    # Some choices are no documents, so there are more than one.
    for number in range(draw.randint(2, 6)):
        options = {vertex.id: draw.choice(vertex.options) for vertex in problem.vertices}
        flow = _flow(problem, options, f"before {number}")
        if flow is not None:
            running.advance(merge(running, flow, _NOW))
    return Merged(_with_running(problem, running), running)


def _with_running(problem: PlanningProblem, running: RunningGraph) -> PlanningProblem:
    texts = {option.computes for vertex in problem.vertices for option in vertex.options} - {""}
    sources = {
        stream.origin: computes("source", 1, f'{{"source":"{stream.origin}"}}'.encode()) for stream in problem.given
    }
    texts |= set(sources.values())
    tasks = running_vertices(shareable(running, texts), texts)
    known = {task.computes: task.id for task in tasks if not task.inputs}
    return PlanningProblem(
        variables=(),
        given=problem.given,
        vertices=problem.vertices,
        running=tuple(tasks),
        origins={origin: known.get(text, text) for origin, text in sources.items()},
    )


def _problem(draw: random.Random, many: int, most_options: int) -> PlanningProblem:
    sources = [Outlet(name) for name in ("s", "r")[: draw.randint(1, 2)]]
    streams, vertices = list(sources), list[Vertex]()
    for at in range(many):
        inputs = [Inflow("in", _some(draw, streams))]
        if draw.random() < 0.15:
            inputs.append(Inflow("more", _some(draw, streams)))
        outputs = ("out", "other") if draw.random() < 0.15 else ("out",)
        ports = tuple(each.port for each in inputs)
        may_idle = len(ports) == len(outputs) == 1 and draw.random() < 0.7
        names = draw.sample([*_SHARED, _CONFINED], draw.randint(1, most_options - may_idle))
        vertex = Vertex(
            id=f"p{at}",
            inputs=tuple(inputs),
            outputs=outputs,
            options=(*([NOTHING] if may_idle else []), *(_option(name, ports, outputs) for name in names)),
        )
        vertices.append(vertex)
        streams += vertex.streams()
    return PlanningProblem(variables=(), given={each: {} for each in sources}, vertices=tuple(vertices))


def _some(draw: random.Random, streams: Sequence[Outlet]) -> tuple[Outlet, ...]:
    near = streams[-4:]
    return tuple(draw.sample(near, min(len(near), draw.choice([1, 1, 2, 2, 3]))))


def _option(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Option:
    config = json.dumps({"inputs": inputs, "outputs": outputs}, separators=(",", ":")).encode()
    return Option(name=name, computes="" if name == _CONFINED else computes(name, 1, config))


def _flow(problem: PlanningProblem, options: Mapping[str, Option], name: str = "flow") -> Dataflow | None:
    document = _document(problem, options)
    if document is None:
        return None
    sources = {
        stream.origin: Source(name=stream.origin, owner="ann", schema=Schema.of(), visibility=Visibility.PUBLIC)
        for stream in problem.given
    }
    return canonicalise(json.dumps(document), dataflow=name, tenant="ann", catalogue=_CATALOGUE, sources=sources)


def _document(problem: PlanningProblem, options: Mapping[str, Option]) -> dict[str, Any] | None:
    """The document of a choice, with a sink at every stream; None if a stream enters a port twice."""
    passed: dict[Outlet, list[Outlet]] = {stream: [stream] for stream in problem.given}
    tasks: list[dict[str, Any]] = [
        {"id": stream.origin, "type": "source", "config": {"source": stream.origin}} for stream in problem.given
    ]
    edges: list[tuple[Outlet, str, str]] = []
    for vertex in problem.vertices:
        entering = {each.port: [real for one in each.streams for real in passed[one]] for each in vertex.inputs}
        if max(Counter((port, real) for port, reals in entering.items() for real in reals).values()) > 1:
            return None
        option = options[vertex.id]
        if option.is_no_op:
            passed[Outlet(vertex.id)] = entering["in"]
            continue
        config = {"inputs": [each.port for each in vertex.inputs], "outputs": list(vertex.outputs)}
        tasks.append({"id": vertex.id, "type": option.name, "config": config})
        edges += [(real, vertex.id, port) for port, reals in entering.items() for real in reals]
        passed |= {stream: [stream] for stream in vertex.streams()}
    real = sorted({each for reals in passed.values() for each in reals})
    for number, stream in enumerate(real):
        tasks.append({"id": f"sink{number}", "type": _SINK})
        edges.append((stream, f"sink{number}", "in"))
    streams = [
        {"from": stream.origin, "from_port": stream.port, "to": to, "to_port": port} for stream, to, port in edges
    ]
    return {"version": 1, "name": "flow", "tasks": tasks, "streams": streams}
