"""Import: a plan of any planner for an exported problem, as a grouping."""

from collections import defaultdict

from merge.grouping.expense import cost_of
from merge.grouping.grouping_problem import GroupingProblem, TaskId, in_order
from merge.grouping.groups import Group, Grouping
from merge.grouping.order import arranged
from merge.grouping.pddl.grouping_export import PddlWeights, exported, said
from merge.grouping.pddl.pddl_texts import PddlError, parts
from merge.grouping.pddl.replay import replayed
from merge.grouping.validity import problems_of


def planned_grouping(problem: GroupingProblem, weights: PddlWeights, plan: str) -> Grouping:
    """The grouping that a plan makes. Raises `PddlError` if it is no plan for the problem, and says at which step."""
    state = replayed(exported(problem, weights), plan)
    images = {group: parts(image)[1] for predicate, group, image in _about_two(state.facts) if predicate == "uses"}
    ids = {said(task.id): task.id for task in problem.tasks}
    tasks: defaultdict[str, list[TaskId]] = defaultdict(list)
    for predicate, task, group in sorted(_about_two(state.facts)):
        if predicate == "in":
            tasks[group].append(ids[parts(task)[1]])
    groups = arranged(
        problem,
        [Group(image=images[group], tasks=tuple(sorted(each, key=in_order))) for group, each in tasks.items()],
    )
    if wrong := problems_of(problem, groups):
        raise PddlError(f"the plan makes no valid groups: {'; '.join(wrong)}")
    return Grouping(groups=groups, cost=cost_of(problem, groups))


def _about_two(facts: set[tuple[str, ...]]) -> set[tuple[str, str, str]]:
    return {(each[0], each[1], each[2]) for each in facts if len(each) == 3}  # noqa: PLR2004 - a predicate and two
