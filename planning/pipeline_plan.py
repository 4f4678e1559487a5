"""Plans: what fills each vertex, and the state of every stream under it."""

from collections.abc import Mapping
from dataclasses import dataclass

from planning.constraint import State
from planning.places import Place
from planning.planning_problem import Criterion


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What a plan reaches by one criterion."""

    criterion: Criterion
    value: int
    bound: int
    """No plan that is as good by the criteria before this one does better."""

    @property
    def is_optimal(self) -> bool:
        """True if nothing better exists."""
        return self.value == self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinePlan:
    """An answer to a planning problem; made by the planner."""

    options: Mapping[str, str]
    """The option of each vertex, by name."""
    states: Mapping[Place, State]
    """The value of each variable on every stream, and wherever streams or ports meet."""
    reached: tuple[Reached, ...] = ()
    """In the order in which they were optimised."""
    is_optimal: bool = True
    """True if no plan is better by the criteria in their order."""


class OutOfTime(Exception):
    """No plan was found in the time allowed, nor that there is none."""
