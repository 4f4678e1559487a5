"""Random planning problems, small enough to try everything, which is done here to plan a second time.

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
from typing import Any, NamedTuple

from hypothesis import strategies as st

from dags import Catalogue, Config, Dataflow, Ports, Schema, Source, TaskType, Visibility
from dags.canonical import canonicalise
from dags.vocabulary import Criterion
from manager.pipelines.composer import running_vertices, shareable
from merge import RunningGraph, merge
from planning.constraint import UNSET, All, Constraint, Equals, Not, Same, Some, State, affected, holds
from planning.pipelines.reader import computes
from planning.plan import PipelinePlan
from planning.problem import (
    Goal,
    Inflow,
    Junction,
    Meeting,
    Option,
    Outlet,
    PlanningProblem,
    RunningVertex,
    StateVariable,
    Vertex,
    base,
    entry,
    inlet,
    meetings,
)

VALUES = ("null", "true", "1")
NAMES = ("x", "y", "t")
"""The last is a type."""
_TEXTS = ("", "clean", "count", "sort")
MOST_STEPS, MOST_ACTIONS = 6, 4


@st.composite
def constraints(draw: st.DrawFn, depth: int = 2) -> Constraint:
    """Constraints over the variables."""
    kinds = ["equals", "same", *(["not", "all", "some"] if depth else [])]
    match draw(st.sampled_from(kinds)):
        case "equals":
            return Equals(draw(st.sampled_from(NAMES)), draw(st.sampled_from(VALUES)))
        case "same":
            return Same(draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES)))
        case "not":
            return Not(draw(constraints(depth - 1)))
        case "all":
            return All(tuple(draw(st.lists(constraints(depth - 1), max_size=2))))
        case _:
            return Some(tuple(draw(st.lists(constraints(depth - 1), min_size=1, max_size=2))))


def _maybe(draw: st.DrawFn, often: int = 3) -> Constraint:
    return All() if draw(st.integers(0, often)) else draw(constraints(1))


@st.composite
def problems(draw: st.DrawFn) -> PlanningProblem:
    """Problems with splits, meetings of both kinds, several ports, no-ops and running tasks."""
    sources = [Outlet("s"), *([Outlet("r")] if draw(st.booleans()) else [])]
    vertices: list[Vertex] = []
    streams = list(sources)
    for at in range(draw(st.integers(1, MOST_STEPS))):
        inputs = [Inflow("in", tuple(draw(_streams(streams))))]
        if draw(st.integers(0, 4)) == 0:
            inputs.append(Inflow("more", tuple(draw(_streams(streams)))))
        outputs = ("out", "other") if draw(st.integers(0, 5)) == 0 else ("out",)
        # A vertex that does nothing has one port on each side.
        idle = len(inputs) == 1 and outputs == ("out",) and draw(st.booleans())
        options = [Option(name="nothing", is_no_op=True)] if idle else []
        ports = [each.port for each in inputs]
        most = draw(st.integers(1, MOST_ACTIONS))
        options += [draw(_actions(f"a{number}", ports, outputs)) for number in range(most)]
        vertex = Vertex(
            id=f"p{at}",
            inputs=tuple(inputs),
            outputs=outputs,
            options=tuple(options),
            meeting=draw(st.sampled_from(Meeting)),
            requires=_maybe(draw, 6),
            ensures=_maybe(draw, 6),
            same=draw(st.sampled_from(["", "", "", *(each.id for each in vertices)])),
        )
        vertices.append(vertex)
        streams += vertex.streams()
    return PlanningProblem(
        variables=tuple(StateVariable(name=name, domain=frozenset(VALUES), is_type=name == "t") for name in NAMES),
        given={each: draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))) for each in sources},
        vertices=tuple(vertices),
        goals=tuple(
            Goal(name=f"goal {at}", holds=draw(constraints()), streams=tuple(draw(_streams(streams))))
            for at in range(draw(st.integers(0, 2)))
        ),
        running=draw(_running(sources)),
        excluded=tuple(draw(_excluded(vertices)) for _ in range(draw(st.integers(0, 2)))),
        present={
            vertex.id: draw(st.sampled_from(vertex.options)).filling for vertex in vertices if draw(st.booleans())
        },
    )


def _streams(streams: list[Outlet]) -> st.SearchStrategy[list[Outlet]]:
    return st.lists(st.sampled_from(streams[-4:]), min_size=1, max_size=2, unique=True)


@st.composite
def _actions(draw: st.DrawFn, name: str, ports: list[str], outputs: tuple[str, ...]) -> Option:
    return Option(
        name=name,
        module=draw(st.sampled_from(["", "", "m"])),
        requires={port: draw(constraints(1)) for port in ports if draw(st.integers(0, 2)) == 0},
        ensures=_maybe(draw, 1),
        ensures_at={port: draw(constraints(1)) for port in outputs if draw(st.integers(0, 5)) == 0},
        base=draw(st.sampled_from(["", *ports])),
        cost=draw(st.integers(0, 3)),
        quality=draw(st.integers(0, 3)),
        # Tasks with several ports are not distinguished by the port that is read.
        computes=draw(st.sampled_from(_TEXTS)) if outputs == ("out",) else "",
    )


@st.composite
def _excluded(draw: st.DrawFn, vertices: list[Vertex]) -> dict[str, str]:
    some = draw(st.lists(st.sampled_from(vertices), min_size=1, max_size=2, unique_by=lambda each: each.id))
    return {each.id: draw(st.sampled_from(each.options)).name for each in some}


@st.composite
def _running(draw: st.DrawFn, sources: list[Outlet]) -> tuple[RunningVertex, ...]:
    found: list[RunningVertex] = []
    streams = list(sources)
    for at in range(draw(st.integers(0, 3))):
        inputs = (Inflow("in", tuple(draw(_streams(streams)))),)
        found.append(RunningVertex(id=f"t{at}", computes=draw(st.sampled_from(_TEXTS[1:])), inputs=inputs))
        streams.append(Outlet(f"t{at}"))
    return tuple(found)


Reached = Mapping[str, str]
States = Mapping[Outlet, Reached]


class Answer(NamedTuple):
    """One way to fill a problem, and what the criteria say of it."""

    options: Mapping[str, str]
    reached: Mapping[Criterion, int]


def answers(problem: PlanningProblem) -> Iterator[Answer]:
    """Every choice of options under which some states reach the goals."""
    for chosen in product(*(vertex.options for vertex in problem.vertices)):
        options = dict(zip((vertex.id for vertex in problem.vertices), chosen, strict=True))
        if any(all(options[at].name == name for at, name in each.items()) for each in problem.excluded):
            continue
        if all(
            not vertex.same or options[vertex.id].filling == options[vertex.same].filling for vertex in problem.vertices
        ):
            names = [variable.name for variable in problem.variables]
            given = {at: {name: state.get(name, "null") for name in names} for at, state in problem.given.items()}
            if any(_reaches(problem, states) for states in _runs(problem, options, given, 0)):
                yield Answer({vertex: option.name for vertex, option in options.items()}, _figures(problem, options))


def best(problem: PlanningProblem, criteria: tuple[Criterion, ...]) -> tuple[int, ...] | None:
    """The reached of the best answer; None if there is none."""
    found = [tuple(each.reached[criterion] for criterion in criteria) for each in answers(problem)]
    signs = [-1 if criterion.grows else 1 for criterion in criteria]
    return min(found, key=lambda reached: [s * f for s, f in zip(signs, reached, strict=True)], default=None)


def true(constraint: Constraint, state: Reached) -> bool:
    """Whether a constraint is true of a state."""
    if isinstance(constraint, Equals):
        return state[constraint.variable] == constraint.value
    if isinstance(constraint, Same):
        return state[constraint.variable] == state[constraint.other]
    if isinstance(constraint, Not):
        return not true(constraint.part, state)
    found = [true(part, state) for part in constraint.parts]
    return all(found) if isinstance(constraint, All) else any(found)


def _reaches(problem: PlanningProblem, states: States) -> bool:
    return all(true(goal.holds, states[stream]) for goal in problem.goals for stream in goal.streams)


def _runs(problem: PlanningProblem, options: Mapping[str, Option], states: States, at: int) -> Iterator[States]:
    """All states of all streams, from a vertex on."""
    if at == len(problem.vertices):
        yield states
        return
    vertex = problem.vertices[at]
    for emitted in _emitted(problem, vertex, options[vertex.id], states):
        yield from _runs(problem, options, {**states, **emitted}, at + 1)


def _emitted(problem: PlanningProblem, vertex: Vertex, option: Option, states: States) -> Iterator[States]:
    """All states that a vertex may emit."""
    types = {variable.name for variable in problem.variables if variable.is_type}
    ports = [each.port for each in vertex.inputs]
    # Those on which all streams that meet have one value.
    equal = set() if vertex.mixes_types else types
    if vertex.meeting is Meeting.EQUAL:
        equal = equal | {variable.name for variable in problem.variables if not variable.is_type}
    for met in product(*(list(_met([states[each] for each in given.streams], equal)) for given in vertex.inputs)):
        entering = dict(zip(ports, met, strict=True))
        if not all(true(constraint, entering[port]) for port, constraint in option.requires.items()):
            continue
        base = entering[option.base or ports[0]]
        plain = [{name: value for name, value in each.items() if name not in types} for each in met]
        for both in _met(plain, equal):
            # What the pipeline requires is asked of the first port's types.
            if true(vertex.requires, {**entering[ports[0]], **both}):
                options = [list(_changed(problem, option, port, {**base, **both})) for port in vertex.outputs]
                for after in product(*options):
                    if all(true(vertex.ensures, each) for each in after):
                        yield {Outlet(vertex.id, port): each for port, each in zip(vertex.outputs, after, strict=True)}


def _met(states: Sequence[Reached], equal: set[str]) -> Iterator[Reached]:
    values_of = {name: sorted({state[name] for state in states}) for name in states[0]}
    options = [[] if name in equal and len(values) > 1 else values for name, values in values_of.items()]
    for values in product(*options):
        yield dict(zip(states[0], values, strict=True))


def _changed(problem: PlanningProblem, option: Option, port: str, state: Reached) -> Iterator[Reached]:
    ensured = option.ensures_at.get(port, option.ensures)
    free = [variable for variable in problem.variables if variable.name in _left(ensured)]
    for values in product(*(sorted(variable.domain) for variable in free)):
        after = {**state, **dict(zip((variable.name for variable in free), values, strict=True))}
        if true(ensured, after):
            yield after


def _left(constraint: Constraint) -> set[str]:
    if isinstance(constraint, Equals | Same):
        return {constraint.variable}
    parts = [constraint.part] if isinstance(constraint, Not) else constraint.parts
    return {name for part in parts for name in _left(part)}


def _figures(problem: PlanningProblem, options: Mapping[str, Option]) -> Mapping[Criterion, int]:
    return {
        Criterion.CHANGES: sum(
            vertex in problem.present and problem.present[vertex] != option.filling
            for vertex, option in options.items()
        ),
        Criterion.RESIDUE: _residue(problem, options),
        Criterion.COST: sum(option.cost for option in options.values()),
        Criterion.QUALITY: sum(option.quality for option in options.values()),
        Criterion.NO_OPS: sum(option.is_no_op for option in options.values()),
    }


def _residue(problem: PlanningProblem, options: Mapping[str, Option]) -> int:
    """The distinct tasks that do not run, where a task is its text and all above it."""
    made: dict[Outlet, list[str]] = {stream: [f"source {stream}"] for stream in problem.given}
    runs = dict(made)
    for task in problem.running:
        runs[Outlet(task.id)] = [_text(task.computes, runs, task.inputs)]
    known = {text for texts in runs.values() for text in texts}
    scopes: dict[Outlet, set[str]] = {stream: {""} for stream in problem.given}
    started: set[str] = set()
    for vertex in problem.vertices:
        option = options[vertex.id]
        above = {scope for _, streams in vertex.inputs for each in streams for scope in scopes[each]}
        if option.is_no_op:
            # All that enters is what everybody below reads.
            made[Outlet(vertex.id)] = [text for each in vertex.inputs[0].streams for text in made[each]]
            scopes[Outlet(vertex.id)] = above
            continue
        text = _text(option.computes, made, vertex.inputs)
        if not option.computes or len(above) > 1:
            # It is not shared, or mixes what is shared with what is not, or what different tasks do not share.
            text, above = f"only {vertex.id}", {vertex.id}
        made |= {stream: [text if stream.port == "out" else f"{text}, {stream.port}"] for stream in vertex.streams()}
        scopes |= dict.fromkeys(vertex.streams(), above)
        if text not in known:
            started.add(text)
    return len(started)


def _text(computes: str, made: Mapping[Outlet, list[str]], inputs: tuple[Inflow, ...]) -> str:
    entering = {port: sorted(text for each in streams for text in made[each]) for port, streams in inputs}
    return f"{computes} of {sorted(entering.items())}"


def violations(problem: PlanningProblem, plan: PipelinePlan) -> Iterator[str]:
    """Everything that is wrong with a plan, in words."""
    domains = {each.name: each.domain for each in problem.variables}
    for place, state in plan.states.items():
        if wrong := sorted(name for name, domain in domains.items() if state[name] not in domain):
            yield f"{place}: {wrong[0]} has a value outside its domain"
    for stream, given in problem.given.items():
        if plan.states[stream] != {name: given.get(name, UNSET) for name in domains}:
            yield f"{stream}: another state than given"
    types = frozenset(each.name for each in problem.variables if each.is_type)
    chosen = {
        vertex.id: option
        for vertex in problem.vertices
        for option in vertex.options
        if option.name == plan.options[vertex.id]
    }
    for vertex in problem.vertices:
        yield from _wrong_meetings(vertex, plan, types)
        option = chosen.get(vertex.id)
        if option is None:
            yield f"{vertex.id}: an option that it may not have"
            continue
        yield from _wrong_passage(vertex, option, plan, types)
        if vertex.same and (vertex.same not in chosen or chosen[vertex.same].filling != option.filling):
            yield f"{vertex.id}: another option than {vertex.same}"
    yield from _missed(problem, plan)


def _missed(problem: PlanningProblem, plan: PipelinePlan) -> Iterator[str]:
    for options in problem.excluded:
        if all(plan.options[vertex] == name for vertex, name in options.items()):
            yield f"{sorted(options)}: options that are excluded together"
    for goal in problem.goals:
        for stream in goal.streams:
            if not holds(goal.holds, plan.states[stream]):
                yield f"{stream}: {goal.name} is missed"


def _wrong_meetings(vertex: Vertex, plan: PipelinePlan, types: frozenset[str]) -> Iterator[str]:
    for place, parts in meetings(vertex):
        for name, value in plan.states[place].items():
            values = [plan.states[part][name] for part in parts]
            if name in types:
                fits = isinstance(place, Junction) or vertex.mixes_types or set(values) == {value}
            else:
                fits = set(values) == {value} if vertex.meeting is Meeting.EQUAL else value in values
            if not fits:
                yield f"{place}: {name} is {value}, of {values}"


def _wrong_passage(vertex: Vertex, option: Option, plan: PipelinePlan, types: frozenset[str]) -> Iterator[str]:
    """What is wrong between what enters a vertex and what leaves it."""
    before = plan.states[entry(vertex)]
    if not holds(vertex.requires, before):
        yield f"{vertex.id}: the pipeline's condition is missed"
    for each in vertex.inputs:
        if each.port in option.requires and not holds(option.requires[each.port], plan.states[inlet(vertex, each)]):
            yield f"{vertex.id}: {option.name} misses its precondition at {each.port}"
    for port in vertex.outputs:
        after = plan.states[Outlet(vertex.id, port)]
        ensured = option.ensured(port)
        if not (holds(ensured, after) and holds(vertex.ensures, after)):
            yield f"{vertex.id}: an effect is missed at {port}"
        for name in after.keys() - affected(ensured):
            if after[name] != _carried(vertex, option, plan, types, name):
                yield f"{vertex.id}: {option.name} does not affect {name}, but it changes"


def _carried(vertex: Vertex, option: Option, plan: PipelinePlan, types: frozenset[str], name: str) -> str:
    state: State = plan.states[base(vertex, option) if name in types else entry(vertex)]
    return state[name]


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
