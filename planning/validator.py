"""The validator: checks a plan against the definitions, without the solver and without what the planner narrows."""

from collections.abc import Iterator

from planning.constraint import UNSET, State, affected, holds
from planning.places import Entry, base, entry, inlet, meetings
from planning.plan import Plan
from planning.problem import Action, Meeting, Problem, Step, Stream


def violations(problem: Problem, plan: Plan) -> Iterator[str]:
    """Everything that is wrong with a plan, in words."""
    domains = {each.name: each.domain for each in problem.variables}
    for place, state in plan.states.items():
        if wrong := sorted(name for name, domain in domains.items() if state[name] not in domain):
            yield f"{place}: {wrong[0]} has a value outside its domain"
    for stream, given in problem.given.items():
        if plan.states[stream] != {name: given.get(name, UNSET) for name in domains}:
            yield f"{stream}: another state than given"
    types = frozenset(each.name for each in problem.variables if each.is_type)
    for step in problem.steps:
        yield from _wrong_meetings(step, plan, types)
        action = next((each for each in step.actions if each.name == plan.actions[step.id]), None)
        if action is None:
            yield f"{step.id}: an action that it may not have"
        else:
            yield from _wrong_passage(step, action, plan, types)
        if step.same and plan.actions[step.id] != plan.actions[step.same]:
            yield f"{step.id}: another action than {step.same}"
    for goal in problem.goals:
        yield from (
            f"{each}: {goal.name} is missed" for each in goal.streams if not holds(goal.holds, plan.states[each])
        )


def _wrong_meetings(step: Step, plan: Plan, types: frozenset[str]) -> Iterator[str]:
    for place, parts in meetings(step):
        for name, value in plan.states[place].items():
            values = [plan.states[part][name] for part in parts]
            if name in types:
                fits = isinstance(place, Entry) or step.mixes_types or set(values) == {value}
            else:
                fits = set(values) == {value} if step.meeting is Meeting.EQUAL else value in values
            if not fits:
                yield f"{place}: {name} is {value}, of {values}"


def _wrong_passage(step: Step, action: Action, plan: Plan, types: frozenset[str]) -> Iterator[str]:
    """What is wrong between what enters a step and what leaves it."""
    before = plan.states[entry(step)]
    if not holds(step.requires, before):
        yield f"{step.id}: the pipeline's condition is missed"
    for each in step.inputs:
        if each.port in action.requires and not holds(action.requires[each.port], plan.states[inlet(step, each)]):
            yield f"{step.id}: {action.name} misses its precondition at {each.port}"
    for port in step.outputs:
        after = plan.states[Stream(step.id, port)]
        ensured = action.ensured(port)
        if not (holds(ensured, after) and holds(step.ensures, after)):
            yield f"{step.id}: an effect is missed at {port}"
        for name in after.keys() - affected(ensured):
            if after[name] != _carried(step, action, plan, types, name):
                yield f"{step.id}: {action.name} does not affect {name}, but it changes"


def _carried(step: Step, action: Action, plan: Plan, types: frozenset[str], name: str) -> str:
    state: State = plan.states[base(step, action) if name in types else entry(step)]
    return state[name]
