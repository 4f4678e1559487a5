"""Planned pipelines: the best plan whose document passes all checks, of one pipeline or of several together.

A plan makes a plain document of a pipeline; a place that holds nothing is not in it. Where there is no plan, problems
say why, and what would help, in the terms of the document.

Pipelines that are planned together are one problem. Their streams do not meet, so each has a plan if and only if it has
one alone; together they are planned for what they start, where equal tasks count once.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dags import InvalidDocument, Problem
from dags.problems import listed, pointer, problem_at, quoted
from dags.vocabulary import Criterion
from planning.constraint import PAIR, UNSET
from planning.explanation import Asked, Demand, Remedy, conflict, remedies
from planning.pipelines.blueprint import Spot
from planning.pipelines.reader import FIELD, NO_OP, Pipeline
from planning.plan import OutOfTime, PipelinePlan, TimeLeft
from planning.planner import find_plan, half_a_minute, plan_with
from planning.problem import Inflow, Outlet, PlanningProblem, StateVariable, Vertex


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A document that a plan made."""

    document: Mapping[str, Any]
    spots: tuple[str, ...]
    """The spot of each of its tasks."""
    doubled: frozenset[str] = frozenset()
    """The places that hold nothing between a stream and a port that it then enters twice, which no document can say."""


def assembled(pipeline: Pipeline, options: Mapping[str, str]) -> Assembled:
    """The document with the chosen option at every place."""
    spots = {spot.id: spot for spot in pipeline.blueprint.spots}
    present = [spot for spot in pipeline.blueprint.spots if not _is_idle(spot, options)]
    order = sorted(present, key=lambda spot: (spot.at, pipeline.blueprint.spots.index(spot)))
    types = {
        spot.id: kind
        for spot in order
        if (kind := spot.type if spot.choice is None else pipeline.candidates[spot.id][options[spot.id]].type)
        is not None
    }
    streams: list[dict[str, str]] = []
    doubled: set[str] = set()
    for spot in order:
        for port, outlets in spot.inputs:
            seen: dict[Outlet, frozenset[str]] = {}
            for outlet in outlets:
                for origin, passed in _origins(outlet, spots, options):
                    if origin in seen:
                        doubled |= seen[origin] | passed
                        continue
                    seen[origin] = passed
                    # As somebody would write it: without a port that is the only one.
                    from_port = {"from_port": origin.port} if len(types[origin.origin].outputs) > 1 else {}
                    to_port = {"to_port": port} if len(types[spot.id].inputs) > 1 else {}
                    streams.append({"from": origin.origin, **from_port, "to": spot.id, **to_port})
    return Assembled(
        document={
            "version": 1,
            "name": pipeline.blueprint.form.name,
            "tasks": [_task(pipeline, spot, options) for spot in order],
            "streams": streams,
        },
        spots=tuple(spot.id for spot in order),
        doubled=frozenset(doubled),
    )


def _is_idle(spot: Spot, options: Mapping[str, str]) -> bool:
    return spot.choice is not None and options[spot.id] == NO_OP


def _origins(
    outlet: Outlet, spots: Mapping[str, Spot], options: Mapping[str, str]
) -> Iterator[tuple[Outlet, frozenset[str]]]:
    """The streams that reach an outlet through places that hold nothing, and those places."""
    spot = spots[outlet.origin]
    if not _is_idle(spot, options):
        yield outlet, frozenset()
        return
    for inflow in spot.inputs:
        for stream in inflow.streams:
            for origin, passed in _origins(stream, spots, options):
                yield origin, passed | {spot.id}


def _task(pipeline: Pipeline, spot: Spot, options: Mapping[str, str]) -> Mapping[str, Any]:
    if spot.task is not None:
        return spot.task.model_dump(exclude_defaults=True)
    candidate = pipeline.candidates[spot.id][options[spot.id]]
    tags = [] if candidate.module is None else sorted({*candidate.module.form.host_tags})
    return {
        "id": spot.id,
        "type": candidate.type.name,
        "config": dict(candidate.config),
        "module": candidate.name,
        **({"tags": tags} if tags else {}),
    }


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
    helps = [_remedy(remedy) for remedy in remedies[:_MOST_REMEDIES]]
    remedy = ", or ".join(helps) or "ask for less"
    if not why:
        return [problem_at("no-plan", "no choice of modules fits together", remedy)]
    problems = []
    for demand in why:
        others = " and ".join(_words(other) for other in why if other != demand)
        message = f"there is no plan: {_words(demand)} cannot hold{' together with ' if others else ''}{others}"
        place = _place(pipeline, demand)
        problems.append(Problem(pointer=place, code="no-plan", message=message, remedy=remedy))
    return problems


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


def _words(demand: Demand) -> str:
    return _WORDS[demand.kind].format(at=demand.at if demand.kind is Asked.GOAL else quoted(demand.at))


def _place(pipeline: Pipeline, demand: Demand) -> str:
    if demand.kind is Asked.GOAL:
        return demand.at
    if demand.kind is Asked.MEETING and demand.at in pipeline.blueprint.form.meets:
        return pointer("meets", demand.at)
    spot = next(spot for spot in pipeline.blueprint.spots if spot.id == demand.at)
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


MOST_TRIES = 50
"""Plans whose documents did not pass, before planning gives up."""

_NO_PLAN = problem_at(
    "no-plan",
    "no choice of modules reaches all goals",
    "ask for less, or name fewer modules at each place, so that there is time to find the demands at fault",
)

Check = Callable[[Assembled], Sequence[Problem]]
"""What is wrong with the document of a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPipeline:
    """A pipeline, its plan, and the document that runs."""

    pipeline: Pipeline
    plan: PipelinePlan
    assembled: Assembled

    @property
    def fillings(self) -> Mapping[str, str]:
        """The module at each open place, or `nothing`."""
        vertices = [vertex for vertex in self.pipeline.problem.vertices if vertex.is_open]
        return {vertex.id: vertex.chosen(self.plan.options).filling for vertex in vertices}


def plan_pipeline(
    pipeline: Pipeline,
    check: Check,
    criteria: Sequence[Criterion] | None = None,
    *,
    left: TimeLeft = half_a_minute,
    reasons: bool = True,
) -> PlannedPipeline:
    """The best plan for a pipeline. Raises `InvalidDocument` if there is none, and `OutOfTime`.

    To find the reasons why there is none takes longer than to find that out, so not everybody asks.

    Planning knows of task types what it can ask them about single fields. What the whole document does not pass is
    excluded, and planned again.
    """
    order = pipeline.blueprint.form.prefer if criteria is None else criteria
    problem = pipeline.problem
    refused: Sequence[Problem] = ()
    for _ in range(MOST_TRIES):
        plan = find_plan(problem, order, left=left)
        if plan is None:
            break
        made = assembled(pipeline, plan.options)
        wrong = shortcoming(problem, plan.options, made, check)
        if wrong is None:
            return PlannedPipeline(pipeline=pipeline, plan=plan, assembled=made)
        refused = refused or wrong.problems
        problem = replace(problem, excluded=(*problem.excluded, wrong.excluded))
    if refused:
        message = "no choice of modules passes the checks; of one of them:"
        raise InvalidDocument(problem_at("no-plan", f"{message} {one.message}", one.remedy) for one in refused)
    if not reasons:
        raise InvalidDocument([_NO_PLAN])
    try:
        why = conflict(pipeline.problem, left)
    except OutOfTime as late:
        # That there is no plan is known; only the reasons are not.
        raise InvalidDocument([_NO_PLAN]) from late
    raise InvalidDocument(refusal_of(pipeline, why, remedies(pipeline.problem, why, left)))


class Shortcoming(NamedTuple):
    """Why a document does not pass; made by `shortcoming`."""

    problems: Sequence[Problem]
    excluded: Mapping[str, str]
    """The options that must not be chosen together again."""


def shortcoming(
    problem: PlanningProblem, options: Mapping[str, str], made: Assembled, check: Check
) -> Shortcoming | None:
    """What is wrong with the document of a plan with these options; None if it passes."""
    if made.doubled:
        message = f"a stream enters one port twice if {listed(sorted(made.doubled))} hold nothing"
        remedy = "leave one of the ways out, or have a module hold the place"
        wrong: Sequence[Problem] = [problem_at("no-plan", message, remedy)]
    else:
        wrong = check(made)
    if not wrong:
        return None
    return Shortcoming(wrong, {name: options[name] for name in made.doubled or _blamed(problem, made, wrong)})


def _blamed(problem: PlanningProblem, made: Assembled, wrong: Sequence[Problem]) -> set[str]:
    """The places on whose options a problem depends: the task and all above it."""
    at = int(wrong[0].pointer.split("/")[2]) if wrong[0].pointer.startswith("/tasks/") else None
    wanted = set(problem.by_id) if at is None else {made.spots[at]}
    for vertex in reversed(problem.vertices):
        if vertex.id in wanted:
            wanted |= {stream.origin for inflow in vertex.inputs for stream in inflow.streams}
    return {vertex.id for vertex in problem.vertices if vertex.id in wanted}


class InvalidDocuments(Exception):
    """Some of several documents cannot be planned."""

    def __init__(self, refusals: Mapping[int, InvalidDocument]) -> None:
        self.refusals = refusals
        """By the places of the documents."""
        super().__init__("; ".join(map(str, refusals.values())))


def plan_together(
    pipelines: Sequence[Pipeline], checks: Sequence[Check], *, left: TimeLeft = half_a_minute
) -> tuple[PlannedPipeline, ...]:
    """The plans that start the fewest tasks in all, and are best by what the pipelines prefer, in this order.

    Raises `InvalidDocuments` if some have no plan, and `OutOfTime`.
    """
    problem = joint_problem([pipeline.problem for pipeline in pipelines])
    order = tuple(
        dict.fromkeys([Criterion.RESIDUE, *(criterion for one in pipelines for criterion in one.blueprint.form.prefer)])
    )
    for _ in range(MOST_TRIES):
        plan = find_plan(problem, order, left=left)
        if plan is None:
            break
        options = [
            {vertex.id: plan.options[_name(at, vertex.id)] for vertex in pipeline.problem.vertices}
            for at, pipeline in enumerate(pipelines)
        ]
        made = [assembled(pipeline, chosen) for pipeline, chosen in zip(pipelines, options, strict=True)]
        together = zip(pipelines, options, made, checks, strict=True)
        wrong = [
            shortcoming(pipeline.problem, chosen, document, check) for pipeline, chosen, document, check in together
        ]
        if not any(wrong):
            # Each with its own figures.
            plans = [
                plan_with(pipeline.problem, chosen, pipeline.blueprint.form.prefer)
                for pipeline, chosen in zip(pipelines, options, strict=True)
            ]
            return tuple(
                PlannedPipeline(pipeline=pipeline, plan=replace(own, is_optimal=plan.is_optimal), assembled=document)
                for pipeline, own, document in zip(pipelines, plans, made, strict=True)
            )
        excluded = (_named(at, one.excluded) for at, one in enumerate(wrong) if one is not None)
        problem = replace(problem, excluded=(*problem.excluded, *excluded))
    return _alone(pipelines, checks, left)


def joint_problem(problems: Sequence[PlanningProblem]) -> PlanningProblem:
    """Several problems as one; the names of vertices and streams begin with the place of their problem."""
    variables: dict[str, StateVariable] = {}
    for variable in (variable for problem in problems for variable in problem.variables):
        known = variables.get(variable.name)
        variables[variable.name] = variable if known is None else replace(known, domain=known.domain | variable.domain)
    numbered = list(enumerate(problems))
    return PlanningProblem(
        variables=tuple(variables.values()),
        given={
            _numbered_stream(at, stream): state for at, problem in numbered for stream, state in problem.given.items()
        },
        vertices=tuple(_numbered_vertex(at, vertex) for at, problem in numbered for vertex in problem.vertices),
        goals=tuple(
            replace(
                goal, name=f"/{at}{goal.name}", streams=tuple(_numbered_stream(at, stream) for stream in goal.streams)
            )
            for at, problem in numbered
            for goal in problem.goals
        ),
        running=tuple({task.id: task for problem in problems for task in problem.running}.values()),
        origins={_name(at, spot): source for at, problem in numbered for spot, source in problem.origins.items()},
        confined=frozenset(_name(at, spot) for at, problem in numbered for spot in problem.confined),
        present={_name(at, place): held for at, problem in numbered for place, held in problem.present.items()},
        excluded=tuple(_named(at, options) for at, problem in numbered for options in problem.excluded),
    )


def _name(at: int, name: str) -> str:
    return f"{at}/{name}"


def _named(at: int, options: Mapping[str, str]) -> dict[str, str]:
    return {_name(at, vertex): option for vertex, option in options.items()}


def _numbered_stream(at: int, stream: Outlet) -> Outlet:
    return stream._replace(origin=_name(at, stream.origin))


def _numbered_vertex(at: int, vertex: Vertex) -> Vertex:
    return replace(
        vertex,
        id=_name(at, vertex.id),
        inputs=tuple(
            Inflow(inflow.port, tuple(_numbered_stream(at, stream) for stream in inflow.streams))
            for inflow in vertex.inputs
        ),
        same=vertex.same and _name(at, vertex.same),
    )


def _alone(pipelines: Sequence[Pipeline], checks: Sequence[Check], left: TimeLeft) -> tuple[PlannedPipeline, ...]:
    """The plans of pipelines without a joint one, of which some have no plan at all."""
    planned: list[PlannedPipeline] = []
    refusals: dict[int, InvalidDocument] = {}
    for at, (pipeline, check) in enumerate(zip(pipelines, checks, strict=True)):
        try:
            planned.append(plan_pipeline(pipeline, check, left=left))
        except InvalidDocument as refused:
            refusals[at] = refused
    if refusals:
        raise InvalidDocuments(refusals)
    return tuple(planned)
