"""Placements for other planners: the tasks of one dataflow as PDDL, and a plan of theirs as groups.

PDDL says nothing of groups that run already, so the tasks are planned as if nothing else ran. What is asked of the plan
is how it compares with the groups in which the tasks are now.
"""

from dataclasses import replace

from merge.grouping import Grouping, GroupingProblem, cost_of
from merge.grouping.pddl.grouping_export import exported, model_weights
from merge.grouping.pddl.grouping_import import planned_grouping
from merge.grouping.pddl.pddl_texts import Pddl
from merge.placement.explained import PlacementQuestion


def placement_pddl(asked: PlacementQuestion) -> Pddl:
    """The two texts of the problem. Raises `PddlError` where PDDL cannot say it."""
    problem = _alone(asked.problem)
    return exported(problem, model_weights(problem), _most_groups(asked))


def placement_plan(asked: PlacementQuestion, plan: str) -> Grouping:
    """The groups that a plan makes. Raises `PddlError` if it is no plan for the problem, and says at which step."""
    problem = _alone(asked.problem)
    return planned_grouping(problem, model_weights(problem), plan)


def present_cost(asked: PlacementQuestion) -> float:
    """What the groups in which the tasks are now would cost by the same measure, in cores."""
    return cost_of(_alone(asked.problem), tuple(replace(group, present=None) for group in asked.now)).total


def _alone(problem: GroupingProblem) -> GroupingProblem:
    tasks = {task.id for task in problem.tasks}
    streams = tuple(each for each in problem.streams if {each.parent, each.child} <= tasks)
    return replace(problem, present=(), streams=streams)


def _most_groups(asked: PlacementQuestion) -> int:
    """So many as there are now, and one more: engines take long where there are many."""
    return len(asked.now) + 1
