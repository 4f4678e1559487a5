"""Checks of dynamic documents: of guards, policies, alternates and the budget.

- A guard must be able to become active, not for a moment only, and must not oscillate.
- Guards and policies may name only what the document has.
- Each alternate makes a document that passes all checks, and all of a task emit the same. What passes with one
  alternate passes with another that emits the same, so they need not be tried in every combination.
- The cheapest choice at the declared costs must keep the policy's budget.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adaptation.documents import DynamicDocument, DynamicTask, Policy, Selection, placed_guards, placed_values, resolve
from adaptation.flow import FlowAlternate, FlowFigures, flow_of
from adaptation.guards import (
    KNOWN_METRICS,
    AllCondition,
    AnyCondition,
    Condition,
    EventCondition,
    Guard,
    MetricCondition,
    Place,
    TooManyCases,
    cases_of,
    conditions_of,
    feedback_in,
)
from dags import Dataflow, InvalidDocument, Problem, Schemas
from dags.problems import listed, pointer, problem_at, quoted, suggestion
from dags.reconfiguration import emitted

_LESS, _MORE = 0.8, 1.25


def faults_of(guard: Guard, at: Place = ()) -> Iterator[Problem]:
    """What can be said against a guard before anything is observed."""
    opens, closes = (*at, "activate"), (*at, "deactivate")
    try:
        activates = cases_of(guard.activate)
        deactivates = cases_of(guard.deactivate) if guard.deactivate is not None else ()
    except TooManyCases:
        message = "the conditions have too many cases to be checked"
        yield problem_at("too-many-cases", message, "simplify them", *opens)
        return
    if not activates:
        message = "the condition can never hold: its bounds exclude each other, or no time is left"
        yield problem_at("never-fires", message, "change its bounds, or remove what it guards", *opens)
    if guard.deactivate is not None and not deactivates:
        message = "the condition can never hold, so it would stay active for ever"
        yield problem_at("never-fires", message, "change its bounds, or leave 'deactivate' out", *closes)
    if guard.deactivate is None:
        if is_momentary(guard.activate):
            message = "it would be active only for the moment at which the event comes"
            yield problem_at("momentary", message, "give the event 'within', or give 'deactivate'", *opens)
        if any(case.feeds_back for case in activates):
            message = "it follows a metric that its own effect changes, so it can switch to and fro"
            yield problem_at("oscillates", message, _gap(feedback_in(guard.activate)), *opens)
    elif any(
        one.feeds_back and other.feeds_back and not one.is_apart(other) for one in activates for other in deactivates
    ):
        message = "'activate' and 'deactivate' leave no gap between them, so it can switch to and fro"
        yield problem_at("oscillates", message, _gap(feedback_in(guard.activate)), *opens)


def is_momentary(condition: Condition) -> bool:
    """Whether a condition holds only at the moment at which an event comes."""
    match condition:
        case EventCondition():
            return condition.within is None
        case AllCondition():
            return any(map(is_momentary, condition.parts))
        case AnyCondition():
            return all(map(is_momentary, condition.parts))
        case _:
            return False


def shadows(earlier: Guard, later: Guard) -> bool:
    """Whether one is active whenever another is, as far as can be known."""
    if earlier == later:
        return True
    if earlier.deactivate is not None or later.deactivate is not None:
        return False
    try:
        wide, narrow = cases_of(earlier.activate), cases_of(later.activate)
    except TooManyCases:
        return False
    return bool(narrow) and all(any(other.covers(case) for other in wide) for case in narrow)


def _gap(conditions: Sequence[MetricCondition]) -> str:
    if not conditions:
        return "leave a gap between the bounds of 'activate' and 'deactivate'"
    bound, metric = conditions[0], conditions[0].metric
    if bound.above is not None:
        lower = bound.above * _LESS
        return f'let it deactivate at a lower bound, such as {{"metric": "{metric}", "below": {lower:g}}}'
    higher = (bound.below or 0) * _MORE
    return f'let it deactivate at a higher bound, such as {{"metric": "{metric}", "above": {higher:g}}}'


def guard_problems(dynamic: DynamicDocument, policy: Policy) -> Iterator[Problem]:
    """What is wrong with the guards of a document."""
    for at, guard in placed_guards(dynamic):
        yield from _wrong_guard(guard, at, policy, dynamic)
    for at, value in placed_values(dynamic):
        yield from _unknown_event(value.event, (*at, "event"), policy)


def policy_problems(policy: Policy, dynamic: DynamicDocument, at: Place = ("policy",)) -> Iterator[Problem]:
    """What is wrong with a policy at some place."""
    for name, stream in policy.events.items():
        if stream.dataflow is None:
            yield from _unknown(stream.output, dynamic.ids, "task", (*at, "events", name, "output"))
    seen: set[str] = set()
    for number, rule in enumerate(policy.rules):
        place = (*at, "rules", number)
        if rule.name in seen:
            message = f"another rule is called {quoted(rule.name)}"
            yield problem_at("repeated-rule", message, "rename one of them", *place, "name")
        seen.add(rule.name)
        yield from _wrong_guard(rule.guard, place, policy, dynamic)
        for key, value in rule.choose.items():
            yield from _wrong_choice(key, value, (*place, "choose", key), dynamic)
        covering = (earlier for earlier in policy.rules[:number] if rule.choose.keys() <= earlier.choose.keys())
        if above := next((earlier for earlier in covering if shadows(earlier.guard, rule.guard)), None):
            message = f"the rule never has an effect, since {quoted(above.name)} is active whenever it is, and wins"
            yield problem_at("shadowed-rule", message, "move it before that rule, or remove it", *place)


def lost_event_problems(dynamic: DynamicDocument, policy: Policy) -> Iterator[Problem]:
    """The events that the guards of a document need and that another policy for it does not name."""
    needed = {value.event for _, value in placed_values(dynamic)}
    for at, guard in placed_guards(dynamic):
        needed |= {
            condition.event for _, condition in conditions_of(guard, at) if isinstance(condition, EventCondition)
        }
    for event in sorted(needed - policy.events.keys()):
        message = f"guards of the document need the event {quoted(event)}"
        yield problem_at("unknown-event", message, "name its output here", "events")


def _wrong_guard(guard: Guard, at: Place, policy: Policy, dynamic: DynamicDocument) -> Iterator[Problem]:
    for place, condition in conditions_of(guard, at):
        if isinstance(condition, MetricCondition):
            yield from _unknown(condition.metric, sorted(KNOWN_METRICS), "metric", (*place, "metric"))
            if condition.task is not None:
                yield from _unknown(condition.task, dynamic.ids, "task", (*place, "task"))
        elif isinstance(condition, EventCondition):
            yield from _unknown_event(condition.event, (*place, "event"), policy)
    yield from faults_of(guard, at)


def _wrong_choice(key: str, value: Any, at: Place, dynamic: DynamicDocument) -> Iterator[Problem]:
    if key in dynamic.tasks:
        known = sorted(dynamic.tasks[key].alternates)
        if not isinstance(value, str):
            message = f"what is chosen for the task {quoted(key)} is the name of an alternate"
            yield problem_at("wrong-type", message, f"name one of {listed(known)}", *at)
        else:
            yield from _unknown(value, known, "alternate", at)
    elif key in dynamic.streams:
        if not isinstance(value, bool):
            yield problem_at("wrong-type", f"the stream {quoted(key)} is open or not", "give true or false", *at)
    else:
        known = sorted({*dynamic.tasks, *dynamic.streams})
        message = f"{quoted(key)} is neither a task with alternates nor a guarded stream"
        yield problem_at("not-dynamic", message, suggestion(key, known, f"there are {listed(known)}"), *at)


def _unknown_event(event: str, at: Place, policy: Policy) -> Iterator[Problem]:
    if event not in policy.events:
        remedy = suggestion(event, policy.events, "name its output in 'events' of the policy")
        yield problem_at("unknown-event", f"unknown event {quoted(event)}", remedy, *at)


def _unknown(name: str, known: Collection[str], what: str, at: Place) -> Iterator[Problem]:
    if name not in known:
        remedy = suggestion(name, known, f"there are {listed(known)}")
        yield problem_at(f"unknown-{what}", f"unknown {what} {quoted(name)}", remedy, *at)


_MOST_ALONE = 20_000
"""The most tasks in all documents in which one alternate is tried alone, so that a bad document stays cheap."""

Canonical = Callable[[bytes], Dataflow]
"""Makes a plain document canonical. Raises `InvalidDocument`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one resolution: a dataflow, or problems by their places in the dynamic document."""

    dataflow: Dataflow | None
    problems: tuple[Problem, ...]


def alternate_problems(dynamic: DynamicDocument, canonical: Canonical) -> Iterator[Problem]:
    """What is wrong with the documents that a dynamic one resolves to."""
    first = _outcome(dynamic, dynamic.first, canonical)
    yield from first.problems
    for entry in dynamic.tasks.values():
        kind = None if first.dataflow is None else first.dataflow.tasks[first.dataflow.places[entry.id]].type
        if kind is not None and (kind.is_source or kind.is_sink):
            message = "a task with alternates is neither where a dataflow begins nor where it ends"
            remedy = "give the alternates to a task between the two"
            yield problem_at("dynamic-end", message, remedy, "tasks", entry.at)
    left = max(1, _MOST_ALONE // len(dynamic.written["tasks"]))
    others = {task.id: [name for name in task.alternates if name != task.first] for task in dynamic.tasks.values()}
    # Every alternate that is not the first one of its task; many at once, since most documents are right.
    for number in range(max(map(len, others.values()), default=0)):
        changed = {task: names[number] for task, names in others.items() if number < len(names)}
        together = _outcome(dynamic, _changed(dynamic, changed), canonical)
        is_sound = together.dataflow is not None and first.dataflow is not None
        problems: list[Problem] = []
        for task, name in list(changed.items())[: None if is_sound else left]:
            alone = together if is_sound else _outcome(dynamic, _changed(dynamic, {task: name}), canonical)
            problems += _of_one(dynamic.tasks[task], name, first, alone)
        left = left if is_sound else max(0, left - len(changed))
        # Where not each could be tried alone, it is at least said what is wrong with all of them.
        yield from problems or together.problems


def _changed(dynamic: DynamicDocument, changed: Mapping[str, str]) -> Selection:
    first = dynamic.first
    return replace(first, alternates={**first.alternates, **changed})


def _outcome(dynamic: DynamicDocument, choice: Selection, canonical: Canonical) -> _Outcome:
    text = json.dumps(resolve(dynamic, choice), ensure_ascii=False).encode("utf-8", "surrogatepass")
    try:
        return _Outcome(dataflow=canonical(text), problems=())
    except InvalidDocument as refused:
        problems = [replace(problem, pointer=_place(problem.pointer, dynamic, choice)) for problem in refused.problems]
        return _Outcome(dataflow=None, problems=tuple(problems))


def _of_one(task: DynamicTask, name: str, first: _Outcome, alone: _Outcome) -> Iterator[Problem]:
    at = ("tasks", task.at, "alternates", list(task.alternates).index(name))
    own = [problem for problem in alone.problems if f"{problem.pointer}/".startswith(f"{pointer(*at)}/")]
    if own:
        yield from own
    elif first.dataflow is not None and alone.dataflow is None:
        why = alone.problems[0].message
        yield _differs(at, f"it does not fit in the place of {quoted(task.first)}: {why}")
    elif first.dataflow is not None and alone.dataflow is not None:
        one, other = (_emitted(dataflow, task.id) for dataflow in (first.dataflow, alone.dataflow))
        if one != other:
            message = f"it emits {_words(other)}, but {quoted(task.first)} emits {_words(one)}"
            yield _differs(at, message)


def _differs(at: Place, message: str) -> Problem:
    remedy = "let all alternates of a task emit the same fields at the same ports"
    return problem_at("alternates-differ", message, remedy, *at)


def _emitted(dataflow: Dataflow, task: str) -> Mapping[str, Mapping[str, str]]:
    emitter = dataflow.tasks[dataflow.places[task]]
    schemas: Schemas = {} if emitter.type.is_source else emitted(emitter)
    return {port: dict(schema.fields) for port, schema in schemas.items()}


def _words(ports: Mapping[str, Mapping[str, str]]) -> str:
    parts = [
        f"{', '.join(f'{quoted(name)} ({fields[name]})' for name in sorted(fields)) or 'no fields'} at {quoted(port)}"
        for port, fields in sorted(ports.items())
    ]
    return " and ".join(parts) or "nothing"


def _place(at: str, dynamic: DynamicDocument, choice: Selection) -> str:
    """The place in a dynamic document of a place in what it resolves to."""
    part, *rest = at.split("/")[1:] or [""]
    if part not in {"tasks", "streams"} or not rest:
        return at
    position = int(rest[0])
    written = dynamic.written[part]
    if position >= len(written):
        stream = list(dynamic.streams.values())[position - len(written)]
        end = [] if part == "tasks" or rest[1:2] == ["from"] else rest[1:]
        return _joined("streams", stream.at, *end)
    task = next((task for task in dynamic.tasks.values() if task.at == position), None)
    if part == "streams" or task is None or rest[1:] == ["id"]:
        return at
    return _joined("tasks", position, "alternates", *_in_alternate(task, choice.alternates[task.id], rest[1:], written))


def _in_alternate(task: DynamicTask, name: str, rest: list[str], written: Any) -> tuple[str | int, ...]:
    number = list(task.alternates).index(name)
    given = written[task.at]["alternates"][number]
    is_given = rest[:1] != ["type"] and (rest[:1] != ["config"] or not {*rest[1:2]} - given.get("config", {}).keys())
    return (number, *rest) if is_given or task.alternates[name].module is None else (number, "module")


def _joined(*tokens: str | int) -> str:
    return "".join(f"/{token}" for token in tokens)


_MARGIN = 1.05
"""What a remedy is multiplied by, so that it is enough after it was rounded."""


def budget_problems(
    dynamic: DynamicDocument, policy: Policy, rates: Mapping[str, float], at: Place
) -> Iterator[Problem]:
    """Whether no choice can keep the budget, at these rates of source tasks."""
    if policy.cores is None:
        return
    needed = _least_cores(dynamic, rates) * policy.throughput
    if needed > policy.cores:
        message = f"no choice can keep the budget: at the declared costs, the cheapest one needs {needed:.3g} cores"
        remedy = f"allow at least {needed * _MARGIN:.2g} cores, ask for less throughput, or add a cheaper alternate"
        yield problem_at("unattainable-budget", message, remedy, *at, "cores")


def _least_cores(dynamic: DynamicDocument, rates: Mapping[str, float]) -> float:
    """The fewest cores that any choice may need: with the least of all figures, and guarded streams closed."""
    flow = flow_of(dynamic, FlowFigures(rates=rates))
    least = [
        FlowAlternate(
            cost=min(alternate.cost for alternate in task.alternates.values()),
            selectivity=min(alternate.selectivity for alternate in task.alternates.values()),
            value=0.0,
        )
        for task in flow.tasks
    ]
    entering = flow.entering(least, dict.fromkeys(dynamic.streams, False))
    return sum(rate * alternate.cost for rate, alternate in zip(entering, least, strict=True))
