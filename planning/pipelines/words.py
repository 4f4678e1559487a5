"""Words: why there is no plan, and what would help, in the terms of the document."""

import json
from collections.abc import Sequence

from dags import Problem
from dags.problems import pointer, quoted
from planning.conflict import Asked, Demand, Remedy
from planning.constraint import UNSET
from planning.pipelines.candidates import FIELD
from planning.pipelines.pipeline import Pipeline
from planning.shape import PAIR

_MOST_REMEDIES = 3
_WORDS = {
    Asked.GOAL: "the goal {at}",
    Asked.REQUIRED: "what the point {at} requires",
    Asked.ENSURED: "what the point {at} ensures",
    Asked.CONDITIONS: "what the modules for {at} require",
    Asked.TYPES: "the fields that {at} needs",
    Asked.MEETING: "that the streams that meet at {at} have equal values",
    Asked.MEETING_TYPES: "that the streams that meet at {at} have equal fields",
    Asked.SAME: "that {at} has the same module as another point",
}


def refusal_of(pipeline: Pipeline, why: Sequence[Demand], remedies: Sequence[Remedy]) -> list[Problem]:
    """A problem for each demand in a conflict."""
    helps = [_remedy(each) for each in remedies[:_MOST_REMEDIES]]
    remedy = ", or ".join(helps) or "ask for less"
    if not why:
        return [Problem(pointer="", code="no-plan", message="no choice of modules fits together", remedy=remedy)]
    return [
        Problem(
            pointer=_place(pipeline, demand),
            code="no-plan",
            message=f"there is no plan: {_words(demand)} cannot hold{_others(demand, why)}",
            remedy=remedy,
        )
        for demand in why
    ]


def assignment_words(variable: str, value: str) -> str:
    """A variable and its value as a tenant would say it.

    >>> assignment_words("unit", '"kelvin"'), assignment_words("field:hot", '"boolean"')
    ("unit = 'kelvin'", "a field 'hot' of kind boolean")
    """
    if variable == PAIR:
        return "pairs" if value != UNSET else "single events"
    if variable.startswith(FIELD):
        name = quoted(variable.removeprefix(FIELD))
        return f"no field {name}" if value == UNSET else f"a field {name} of kind {json.loads(value)}"
    read = json.loads(value)
    return f"{variable} = {quoted(read) if isinstance(read, str) else value}"


def _others(demand: Demand, why: Sequence[Demand]) -> str:
    others = [_words(each) for each in why if each != demand]
    return f" together with {' and '.join(others)}" if others else ""


def _words(demand: Demand) -> str:
    if demand.kind is Asked.GOAL:
        return _WORDS[demand.kind].format(at=demand.at)
    return _WORDS[demand.kind].format(at=quoted(demand.at))


def _place(pipeline: Pipeline, demand: Demand) -> str:
    if demand.kind is Asked.GOAL:
        return demand.at
    if demand.kind is Asked.MEETING and demand.at in pipeline.blueprint.form.meets:
        return pointer("meets", demand.at)
    spot = next(each for each in pipeline.blueprint.spots if each.id == demand.at)
    if spot.choice is None:
        return pointer("tasks", spot.at)
    within = {Asked.REQUIRED: ("require",), Asked.ENSURED: ("ensure",), Asked.SAME: ("same",)}.get(demand.kind, ())
    return pointer("tasks", spot.at, "gap" if spot.point is None else "point", *within)


def _remedy(remedy: Remedy) -> str:
    if remedy.meets_by_either:
        return f"let streams meet by either at {quoted(remedy.vertex)}"
    if not remedy.ensures:
        return f"allow a module at {quoted(remedy.vertex)} that requires less"
    effects = " and ".join(assignment_words(name, value) for name, value in remedy.ensures)
    return f"publish a module for {quoted(remedy.vertex)} that ensures {effects}"
