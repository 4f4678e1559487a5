"""Pipelines planned together: of the plans that reach the goals of all of them, those that share most are chosen.

They are one problem. Their streams do not meet, so each has a plan if and only if it has one alone; together they are
planned for what they start, where equal tasks count once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dags import InvalidDocument
from planning.pipeline_plan import PipelinePlan, TimeLeft
from planning.pipelines.assembly import Assembled, assembled
from planning.pipelines.pipeline import Pipeline
from planning.pipelines.planned import MOST_TRIES, Check, PlannedPipeline, plan_pipeline, shortcoming
from planning.planner import find_plan, half_a_minute, plan_with
from planning.planning_problem import Criterion, Inflow, Outlet, PlanningProblem, StateVariable, Vertex


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
    problem = joint_problem([each.problem for each in pipelines])
    order = tuple(
        dict.fromkeys([Criterion.RESIDUE, *(each for one in pipelines for each in one.blueprint.form.prefer)])
    )
    for _ in range(MOST_TRIES):
        plan = find_plan(problem, order, left=left)
        if plan is None:
            break
        options = [_options_of(plan, at, each.problem) for at, each in enumerate(pipelines)]
        made = [assembled(each, chosen) for each, chosen in zip(pipelines, options, strict=True)]
        excluded = _shortcomings(pipelines, options, made, checks)
        if not excluded:
            return tuple(
                PlannedPipeline(pipeline=each, plan=_plan_of(each, chosen, plan), assembled=document)
                for each, chosen, document in zip(pipelines, options, made, strict=True)
            )
        problem = replace(problem, excluded=(*problem.excluded, *excluded))
    return _alone(pipelines, checks, left)


def joint_problem(problems: Sequence[PlanningProblem]) -> PlanningProblem:
    """Several problems as one; the names of vertices and streams begin with the place of their problem."""
    variables: dict[str, StateVariable] = {}
    for each in (each for problem in problems for each in problem.variables):
        known = variables.get(each.name)
        variables[each.name] = each if known is None else replace(known, domain=known.domain | each.domain)
    numbered = list(enumerate(problems))
    return PlanningProblem(
        variables=tuple(variables.values()),
        given={_stream(at, stream): state for at, each in numbered for stream, state in each.given.items()},
        vertices=tuple(_vertex(at, vertex) for at, each in numbered for vertex in each.vertices),
        goals=tuple(
            replace(goal, name=f"/{at}{goal.name}", streams=tuple(_stream(at, stream) for stream in goal.streams))
            for at, each in numbered
            for goal in each.goals
        ),
        running=tuple({task.id: task for each in problems for task in each.running}.values()),
        origins={_name(at, spot): source for at, each in numbered for spot, source in each.origins.items()},
        confined=frozenset(_name(at, spot) for at, each in numbered for spot in each.confined),
        present={_name(at, place): held for at, each in numbered for place, held in each.present.items()},
        excluded=tuple(_named(at, options) for at, each in numbered for options in each.excluded),
    )


def _name(at: int, name: str) -> str:
    return f"{at}/{name}"


def _named(at: int, options: Mapping[str, str]) -> dict[str, str]:
    return {_name(at, vertex): option for vertex, option in options.items()}


def _stream(at: int, stream: Outlet) -> Outlet:
    return stream._replace(origin=_name(at, stream.origin))


def _vertex(at: int, vertex: Vertex) -> Vertex:
    return replace(
        vertex,
        id=_name(at, vertex.id),
        inputs=tuple(
            Inflow(each.port, tuple(_stream(at, stream) for stream in each.streams)) for each in vertex.inputs
        ),
        same=vertex.same and _name(at, vertex.same),
    )


def _options_of(plan: PipelinePlan, at: int, problem: PlanningProblem) -> dict[str, str]:
    return {vertex.id: plan.options[_name(at, vertex.id)] for vertex in problem.vertices}


def _shortcomings(
    pipelines: Sequence[Pipeline],
    options: Sequence[Mapping[str, str]],
    made: Sequence[Assembled],
    checks: Sequence[Check],
) -> list[dict[str, str]]:
    """What must not be chosen together again, of each document that does not pass its check."""
    found = []
    for at, (pipeline, chosen, document, check) in enumerate(zip(pipelines, options, made, checks, strict=True)):
        if (wrong := shortcoming(pipeline.problem, chosen, document, check)) is not None:
            found.append(_named(at, wrong.excluded))
    return found


def _plan_of(pipeline: Pipeline, chosen: Mapping[str, str], joint: PipelinePlan) -> PipelinePlan:
    """The part of a joint plan that is one pipeline's, with its own figures."""
    plan = plan_with(pipeline.problem, chosen, pipeline.blueprint.form.prefer)
    return replace(plan, is_optimal=joint.is_optimal)


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
