"""Plans: what fills each vertex, and the state of every stream under it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planning.constraint import State
from planning.places import Place
from planning.planning_problem import Criterion, Option, PlanningProblem
from planning.task_identity import residue

TimeLeft = Callable[[], float]
"""The seconds that are left; one clock for all plans that a request needs."""


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


def look(left: TimeLeft) -> None:
    """Raise `OutOfTime` if no time is left."""
    if left() <= 0:
        raise OutOfTime("no plan was found in the time allowed, nor that there is none; allow more")


def figure(problem: PlanningProblem, options: Mapping[str, str], criterion: Criterion) -> int:
    """What a plan with some options reaches by a criterion."""
    chosen = {
        vertex.id: next(each for each in vertex.options if each.name == options[vertex.id])
        for vertex in problem.vertices
    }
    if criterion is Criterion.RESIDUE:
        return residue(problem, chosen)
    return sum(problem.weight(vertex, chosen[vertex.id], criterion) for vertex in problem.vertices)


def bound(problem: PlanningProblem, options: Mapping[str, Sequence[Option]], criterion: Criterion) -> int:
    """What no plan does better than by a criterion, without a search among the options that are left."""
    if criterion is Criterion.RESIDUE:
        return 0
    best = max if criterion.grows else min
    return sum(
        best(problem.weight(vertex, option, criterion) for option in options[vertex.id]) for vertex in problem.vertices
    )
