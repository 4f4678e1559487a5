"""Planning a second time, by trying everything: each choice of actions, and each state that the definitions allow."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from planning import All, Constraint, Criterion, Equals, Meeting, Not, Problem, Same, Step, Stream
from planning.problem import Action

State = Mapping[str, str]
States = Mapping[Stream, State]


class Answer(NamedTuple):
    """One way to fill a problem, and what the criteria say of it."""

    actions: Mapping[str, str]
    figures: Mapping[Criterion, int]


def answers(problem: Problem) -> Iterator[Answer]:
    """Every choice of actions under which some states reach the goals."""
    for chosen in product(*(step.actions for step in problem.steps)):
        actions = dict(zip((step.id for step in problem.steps), chosen, strict=True))
        if all(not step.same or actions[step.id].name == actions[step.same].name for step in problem.steps):
            names = [variable.name for variable in problem.variables]
            given = {at: {name: state.get(name, "null") for name in names} for at, state in problem.given.items()}
            if any(_reaches(problem, states) for states in _runs(problem, actions, given, 0)):
                yield Answer({step: action.name for step, action in actions.items()}, _figures(problem, actions))


def best(problem: Problem, criteria: tuple[Criterion, ...]) -> tuple[int, ...] | None:
    """The figures of the best answer; None if there is none."""
    found = [tuple(each.figures[criterion] for criterion in criteria) for each in answers(problem)]
    signs = [-1 if criterion.grows else 1 for criterion in criteria]
    return min(found, key=lambda figures: [s * f for s, f in zip(signs, figures, strict=True)], default=None)


def true(constraint: Constraint, state: State) -> bool:
    """Whether a constraint is true of a state."""
    if isinstance(constraint, Equals):
        return state[constraint.variable] == constraint.value
    if isinstance(constraint, Same):
        return state[constraint.variable] == state[constraint.other]
    if isinstance(constraint, Not):
        return not true(constraint.part, state)
    found = [true(part, state) for part in constraint.parts]
    return all(found) if isinstance(constraint, All) else any(found)


def _reaches(problem: Problem, states: States) -> bool:
    return all(true(goal.holds, states[stream]) for goal in problem.goals for stream in goal.streams)


def _runs(problem: Problem, actions: Mapping[str, Action], states: States, at: int) -> Iterator[States]:
    """All states of all streams, from a step on."""
    if at == len(problem.steps):
        yield states
        return
    step = problem.steps[at]
    for emitted in _emitted(problem, step, actions[step.id], states):
        yield from _runs(problem, actions, {**states, **emitted}, at + 1)


def _emitted(problem: Problem, step: Step, action: Action, states: States) -> Iterator[States]:
    """All states that a step may emit."""
    types = {variable.name for variable in problem.variables if variable.is_type}
    ports = [each.port for each in step.inputs]
    # Those on which all streams that meet have one value.
    equal = set() if step.mixes_types else types
    if step.meeting is Meeting.EQUAL:
        equal = equal | {variable.name for variable in problem.variables if not variable.is_type}
    for met in product(*(list(_met([states[each] for each in given.streams], equal)) for given in step.inputs)):
        entering = dict(zip(ports, met, strict=True))
        if not all(true(constraint, entering[port]) for port, constraint in action.requires.items()):
            continue
        base = entering[action.base or ports[0]]
        plain = [{name: value for name, value in each.items() if name not in types} for each in met]
        for both in _met(plain, equal):
            # What the pipeline requires is asked of the first port's types.
            if true(step.requires, {**entering[ports[0]], **both}):
                options = [list(_changed(problem, action, port, {**base, **both})) for port in step.outputs]
                for after in product(*options):
                    if all(true(step.ensures, each) for each in after):
                        yield {Stream(step.id, port): each for port, each in zip(step.outputs, after, strict=True)}


def _met(states: Sequence[State], equal: set[str]) -> Iterator[State]:
    values_of = {name: sorted({state[name] for state in states}) for name in states[0]}
    options = [[] if name in equal and len(values) > 1 else values for name, values in values_of.items()]
    for values in product(*options):
        yield dict(zip(states[0], values, strict=True))


def _changed(problem: Problem, action: Action, port: str, state: State) -> Iterator[State]:
    ensured = action.ensures_at.get(port, action.ensures)
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


def _figures(problem: Problem, actions: Mapping[str, Action]) -> Mapping[Criterion, int]:
    return {
        Criterion.CHANGES: sum(
            step in problem.present and problem.present[step] != action.name for step, action in actions.items()
        ),
        Criterion.RESIDUE: _residue(problem, actions),
        Criterion.COST: sum(action.cost for action in actions.values()),
        Criterion.QUALITY: sum(action.quality for action in actions.values()),
        Criterion.NO_OPS: sum(action.is_no_op for action in actions.values()),
    }


def _residue(problem: Problem, actions: Mapping[str, Action]) -> int:
    """The distinct tasks that do not run, where a task is its text and all above it."""
    running: dict[str, str] = {stream.origin: f"source {stream.origin}" for stream in problem.given}
    for task in problem.running:
        running[task.id] = _text(task.computes, running, task.inputs)
    made = {stream.origin: running[stream.origin] for stream in problem.given}
    started: set[str] = set()
    for step in problem.steps:
        action = actions[step.id]
        if action.is_no_op:
            # Its one input is what everybody below reads.
            made[step.id] = made[step.inputs[0].streams[0].origin]
            continue
        made[step.id] = _text(action.computes, made, step.inputs) if action.computes else f"only {step.id}"
        if made[step.id] not in running.values():
            started.add(made[step.id])
    return len(started)


def _text(computes: str, made: Mapping[str, str], inputs: tuple[tuple[str, tuple[Stream, ...]], ...]) -> str:
    entering = sorted((port, sorted(f"{made[each.origin]}" for each in streams)) for port, streams in inputs)
    return f"{computes} of {entering}"
