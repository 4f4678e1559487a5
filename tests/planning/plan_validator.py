"""The validator: checks a plan against the definitions, without the solver and without what the planner narrows."""

from collections.abc import Iterator

from planning.constraint import UNSET, State, affected, holds
from planning.plan import PipelinePlan
from planning.problem import Junction, Meeting, Option, Outlet, PlanningProblem, Vertex, base, entry, inlet, meetings


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
