"""The table of strategies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.strategies.at_random import at_random
from merge.grouping.strategies.connection import connection
from merge.grouping.strategies.hybrid import hybrid
from merge.grouping.strategies.node import node


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How a strategy may go about it."""

    seconds: float = 2.0
    """How long `optimal` and `plan` may search."""
    seed: int = 1
    """What `random` draws by."""


# Loading the solver takes a second, and most that imports this never solves anything.
def _optimal(problem: GroupingProblem, effort: Effort) -> Grouping:
    from merge.grouping.strategies.optimal import optimal  # noqa: PLC0415 - as above

    return optimal(problem, effort.seconds)


def _plan(problem: GroupingProblem, effort: Effort) -> Grouping:
    from merge.grouping.strategies.best_plan import best_plan  # noqa: PLC0415 - as above

    return best_plan(problem, effort.seconds)


GROUPING_STRATEGIES: Mapping[str, Callable[[GroupingProblem, Effort], Grouping]] = {
    "random": lambda problem, effort: at_random(problem, effort.seed),
    "node": lambda problem, _: node(problem),
    "connection": lambda problem, _: connection(problem),
    "hybrid": lambda problem, _: hybrid(problem),
    "optimal": _optimal,
    "plan": _plan,
}
"""What answers a problem, by name."""
