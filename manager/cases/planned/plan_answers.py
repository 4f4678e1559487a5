"""The answers about plans."""

from collections.abc import Collection, Mapping
from typing import Any

from manager.answers import FallbackAnswer, FigureAnswer, GoalAnswer, PlaceAnswer, PlanAnswer
from manager.cases.planned.composer import countdown
from planning.pipelines.candidates import NO_OP
from planning.pipelines.planned import PlannedPipeline
from planning.support import alternatives, supports

_MOST_PLACES = 20
"""With more places, what would do as well takes too long to find."""


def changed_places(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[PlaceAnswer, ...]:
    """The places that hold something else afterwards."""
    return tuple(
        PlaceAnswer(id=place, module=_module(filling))
        for place, filling in after.items()
        if before.get(place) != filling
    )


def plan_answer(
    planned: PlannedPipeline, *, with_alternatives: bool = False, fallbacks: tuple[FallbackAnswer, ...] = ()
) -> PlanAnswer:
    """A plan, and where it is wanted what would do as well."""
    problem, plan = planned.pipeline.problem, planned.plan
    open_places = [vertex.id for vertex in problem.vertices if vertex.is_open]
    asked: Collection[str] = open_places if with_alternatives and len(open_places) <= _MOST_PLACES else ()
    left = countdown()
    criteria = [each.criterion for each in plan.reached]
    document: dict[str, Any] = dict(planned.assembled.document)
    return PlanAnswer(
        places=tuple(
            PlaceAnswer(
                id=place,
                module=_module(filling),
                alternatives=alternatives(problem, plan, criteria, place, left=left) if place in asked else (),
            )
            for place, filling in planned.fillings.items()
        ),
        goals=tuple(GoalAnswer(goal=goal.name, rests_on=supports(problem, plan, goal)) for goal in problem.goals),
        figures=tuple(
            FigureAnswer(criterion=each.criterion, value=each.value, bound=each.bound) for each in plan.reached
        ),
        optimal=plan.is_optimal,
        document=document,
        fallbacks=fallbacks,
    )


def _module(filling: str) -> str | None:
    return None if filling == NO_OP else filling
