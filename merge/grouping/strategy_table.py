"""The table of strategies."""

from collections.abc import Callable, Mapping

from merge.grouping.effort import Effort
from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.strategies.at_random import at_random
from merge.grouping.strategies.connection import connection
from merge.grouping.strategies.hybrid import hybrid
from merge.grouping.strategies.node import node


# Loading the solver takes a second, and most that imports this never solves anything.
def _optimal(problem: GroupingProblem, effort: Effort) -> Grouping:
    from merge.grouping.strategies.optimal import optimal  # noqa: PLC0415 - as above

    return optimal(problem, effort.seconds)


def _plan(problem: GroupingProblem, effort: Effort) -> Grouping:
    from merge.grouping.strategies.best_plan import best_plan  # noqa: PLC0415 - as above

    return best_plan(problem, effort.seconds)


GROUPING_STRATEGIES: Mapping[str, Callable[[GroupingProblem, Effort], Grouping]] = {
    "random": at_random,
    "node": lambda problem, _: node(problem),
    "connection": lambda problem, _: connection(problem),
    "hybrid": lambda problem, effort: hybrid(problem, effort.seconds),
    "optimal": _optimal,
    "plan": _plan,
}
"""What answers a problem, by name."""
