"""`plan`: what the service goes by: `optimal` within its time, and `hybrid` where the problem is too large for it."""

from merge.grouping.effort import SearchAllowance
from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.layout import NodeLayout
from merge.grouping.score import grouping_of
from merge.grouping.strategies.optimal import begun, optimal

_LARGE = 500
"""From so many tasks on the solver takes longer to read a problem than it has to improve on it."""


def best_plan(problem: GroupingProblem, seconds: float) -> Grouping:
    """Groups that are never dearer than those of `connection`."""
    if len(problem.tasks) <= _LARGE:
        return optimal(problem, seconds)
    return grouping_of(begun(NodeLayout(problem), SearchAllowance(seconds), 0.7))
