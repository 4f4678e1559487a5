"""Checks of guards and policies against the document that they speak of."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adaptation.documents.dynamic_form import Policy, RuleForm
from adaptation.guards.conditions import KNOWN_METRICS, EventCondition, Guard, MetricCondition, ValueGuard
from adaptation.guards.faults import faults_of, shadows
from adaptation.guards.places import Place, conditions_of
from dags import Problem
from dags.problems import listed, pointer, quoted, suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What guards and rules may name."""

    tasks: Collection[str]
    """The ids of all tasks."""
    alternates: Mapping[str, Collection[str]]
    """Of each task that has some."""
    streams: Collection[str]
    """The names of guarded streams."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The guards of a document, each with its place."""

    activations: Mapping[Place, Guard]
    values: Mapping[Place, ValueGuard]


def guard_problems(guards: Guards, policy: Policy, names: Names) -> Iterator[Problem]:
    """What is wrong with the guards of a document."""
    for at, guard in guards.activations.items():
        yield from _wrong_guard(guard, at, policy, names)
    for at, value in guards.values.items():
        yield from _unknown_event(value.event, (*at, "event"), policy)


def policy_problems(policy: Policy, names: Names, at: Place = ("policy",)) -> Iterator[Problem]:
    """What is wrong with a policy at some place."""
    for name, stream in policy.events.items():
        if stream.dataflow is None:
            yield from _unknown(stream.output, names.tasks, "task", (*at, "events", name, "output"))
    seen: set[str] = set()
    for number, rule in enumerate(policy.rules):
        place = (*at, "rules", number)
        if rule.name in seen:
            message = f"another rule is called {quoted(rule.name)}"
            yield _problem((*place, "name"), "repeated-rule", message, "rename one of them")
        seen.add(rule.name)
        yield from _wrong_guard(rule.guard, place, policy, names)
        for key, value in rule.choose.items():
            yield from _wrong_choice(key, value, (*place, "choose", key), names)
        above = next((each for each in policy.rules[:number] if _shadows(each, rule)), None)
        if above is not None:
            message = f"the rule never has an effect, since {quoted(above.name)} is active whenever it is, and wins"
            yield _problem(place, "shadowed-rule", message, "move it before that rule, or remove it")


def lost_event_problems(guards: Guards, policy: Policy) -> Iterator[Problem]:
    """The events that the guards of a document need and that another policy for it does not name."""
    needed = {value.event for value in guards.values.values()}
    for at, guard in guards.activations.items():
        needed |= {each.event for _, each in conditions_of(guard, at) if isinstance(each, EventCondition)}
    for event in sorted(needed - policy.events.keys()):
        message = f"guards of the document need the event {quoted(event)}"
        yield _problem(("events",), "unknown-event", message, "name its output here")


def _shadows(earlier: RuleForm, later: RuleForm) -> bool:
    return later.choose.keys() <= earlier.choose.keys() and shadows(earlier.guard, later.guard)


def _wrong_guard(guard: Guard, at: Place, policy: Policy, names: Names) -> Iterator[Problem]:
    for place, each in conditions_of(guard, at):
        if isinstance(each, MetricCondition):
            yield from _unknown(each.metric, sorted(KNOWN_METRICS), "metric", (*place, "metric"))
            if each.task is not None:
                yield from _unknown(each.task, names.tasks, "task", (*place, "task"))
        elif isinstance(each, EventCondition):
            yield from _unknown_event(each.event, (*place, "event"), policy)
    for fault in faults_of(guard):
        yield _problem((*at, fault.at), fault.code, fault.message, fault.remedy)


def _wrong_choice(key: str, value: Any, at: Place, names: Names) -> Iterator[Problem]:
    if key in names.alternates:
        known = sorted(names.alternates[key])
        if not isinstance(value, str):
            message = f"what is chosen for the task {quoted(key)} is the name of an alternate"
            yield _problem(at, "wrong-type", message, f"name one of {listed(known)}")
        else:
            yield from _unknown(value, known, "alternate", at)
    elif key in names.streams:
        if not isinstance(value, bool):
            message = f"the stream {quoted(key)} is open or not"
            yield _problem(at, "wrong-type", message, "give true or false")
    else:
        known = sorted({*names.alternates, *names.streams})
        message = f"{quoted(key)} is neither a task with alternates nor a guarded stream"
        remedy = suggestion(key, known, f"there are {listed(known)}")
        yield _problem(at, "not-dynamic", message, remedy)


def _unknown_event(event: str, at: Place, policy: Policy) -> Iterator[Problem]:
    if event not in policy.events:
        otherwise = "name its output in 'events' of the policy"
        yield _problem(
            at, "unknown-event", f"unknown event {quoted(event)}", suggestion(event, policy.events, otherwise)
        )


def _unknown(name: str, known: Collection[str], what: str, at: Place) -> Iterator[Problem]:
    if name not in known:
        remedy = suggestion(name, known, f"there are {listed(known)}")
        yield _problem(at, f"unknown-{what}", f"unknown {what} {quoted(name)}", remedy)


def _problem(at: Place, code: str, message: str, remedy: str) -> Problem:
    return Problem(pointer=pointer(*at), code=code, message=message, remedy=remedy)
