"""The groups of a consolidation by planning, where they cost less than those of the rule of thumb.

All tasks are cut anew, as one grouping problem: the fewest batches, bridges and hops. What the rule of thumb found
stands where the model cannot judge it, as with shards, where there are too many tasks to plan, and where it costs no
more. So do the jobs as they are: nothing moves for the sake of a plan.
"""

from collections.abc import Iterable, Sequence

from merge.grouping import (
    GROUPING_STRATEGIES,
    Effort,
    GroupingProblem,
    NoGrouping,
    cost_of,
    problems_of,
)
from merge.grouping.groups import Group as TaskGroup
from merge.grouping.order import arranged
from merge.placement.board import Group, PlacementBoard, tags_of
from merge.placement.planned import SECONDS, costs_of, grouped_streams, grouped_tasks, images_of
from merge.task import Instance, RunningTask
from merge.task_order import downwards

_MOST = 500
"""For more tasks planning takes longer than others can wait."""
_ROUNDING = 1e-9


def planned_groups(ground: PlacementBoard, present: list[Group], ruled: list[Group]) -> list[Group]:
    """The cheapest of the present groups, those of the rule, and planned ones; of equals the first."""
    tasks = {task.instance: task for group in ruled for task in group}
    if not tasks or len(tasks) > _MOST:
        return ruled
    problem = problem_anew(ground, tasks.values())
    if _cost(problem, ruled) is None:
        return ruled
    try:
        found = GROUPING_STRATEGIES["plan"](problem, Effort(seconds=SECONDS))
    except NoGrouping:
        return ruled
    planned = [downwards(tasks[Instance(int(each))] for each in group.tasks) for group in found.groups]
    costs = [(cost, groups) for groups in (present, ruled, planned) if (cost := _cost(problem, groups)) is not None]
    least = min(cost for cost, _ in costs)
    return next(groups for cost, groups in costs if cost <= least + _ROUNDING)


def problem_anew(ground: PlacementBoard, tasks: Iterable[RunningTask]) -> GroupingProblem:
    """The problem of cutting running tasks as if no job ran; they take nothing from others."""
    tasks, images = tuple(tasks), images_of(ground)
    return GroupingProblem(
        tasks=grouped_tasks(ground, tasks),
        streams=tuple(dict.fromkeys(grouped_streams(ground, tasks))),
        images=images,
        costs=costs_of(ground.costs, images),
    )


def as_grouped(problem: GroupingProblem, groups: Sequence[Group]) -> tuple[TaskGroup, ...] | None:
    """Running tasks in groups as an answer to a problem; None if no image offers the tags of one."""
    found = []
    for group in groups:
        image = next((each.name for each in problem.images if tags_of(group) <= each.tags), None)
        if image is None:
            return None
        found.append(TaskGroup(image=image, tasks=tuple(sorted(task.instance for task in group))))
    return arranged(problem, found)


def _cost(problem: GroupingProblem, groups: Sequence[Group]) -> float | None:
    """What groups cost; None if they are no answer to the problem."""
    grouped = as_grouped(problem, groups)
    if grouped is None or problems_of(problem, grouped):
        return None
    return cost_of(problem, grouped).total
