"""Planned pipelines: the best plan whose document passes all checks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dags import InvalidDocument, Problem
from dags.problems import listed
from planning.conflict import conflict, remedies
from planning.pipeline_plan import OutOfTime, PipelinePlan, TimeLeft
from planning.pipelines.assembly import Assembled, assembled
from planning.pipelines.pipeline import Pipeline
from planning.pipelines.words import refusal_of
from planning.planner import find_plan, half_a_minute
from planning.planning_problem import Criterion, PlanningProblem

MOST_TRIES = 50
"""Plans whose documents did not pass, before planning gives up."""

_NO_PLAN = Problem(
    pointer="",
    code="no-plan",
    message="no choice of modules reaches all goals",
    remedy="ask for less, or name fewer modules at each place, so that there is time to find the demands at fault",
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
        return {
            vertex.id: next(each.filling for each in vertex.options if each.name == self.plan.options[vertex.id])
            for vertex in self.pipeline.problem.vertices
            if vertex.is_open
        }


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
        raise InvalidDocument([_refused(each) for each in refused])
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
    wrong = [_doubled(made)] if made.doubled else check(made)
    if not wrong:
        return None
    return Shortcoming(wrong, {name: options[name] for name in made.doubled or _blamed(problem, made, wrong)})


def _doubled(made: Assembled) -> Problem:
    return Problem(
        pointer="",
        code="no-plan",
        message=f"a stream enters one port twice if {listed(sorted(made.doubled))} hold nothing",
        remedy="leave one of the ways out, or have a module hold the place",
    )


def _blamed(problem: PlanningProblem, made: Assembled, wrong: Sequence[Problem]) -> set[str]:
    """The places on whose options a problem depends: the task and all above it."""
    at = int(wrong[0].pointer.split("/")[2]) if wrong[0].pointer.startswith("/tasks/") else None
    wanted = set(problem.by_id) if at is None else {made.spots[at]}
    for vertex in reversed(problem.vertices):
        if vertex.id in wanted:
            wanted |= {stream.origin for each in vertex.inputs for stream in each.streams}
    return {vertex.id for vertex in problem.vertices if vertex.id in wanted}


def _refused(problem: Problem) -> Problem:
    return replace(
        problem,
        pointer="",
        code="no-plan",
        message=f"no choice of modules passes the checks; of one of them: {problem.message}",
    )
