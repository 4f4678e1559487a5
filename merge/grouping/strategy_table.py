"""The table of strategies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.strategies.at_random import at_random
from merge.grouping.strategies.connection import connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How a strategy may go about it."""

    seconds: float = 2.0
    """How long `optimal` and `plan` may search."""
    seed: int = 1
    """What `random` draws by."""


STRATEGIES: Mapping[str, Callable[[GroupingProblem, Effort], Grouping]] = {
    "random": lambda problem, effort: at_random(problem, effort.seed),
    "connection": lambda problem, _: connection(problem),
}
"""What answers a problem, by name."""
