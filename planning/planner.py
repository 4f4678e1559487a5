"""The planner: finds the best plan for a problem, or that there is none.

Sound and complete: it answers with a plan if and only if one exists, unless it runs out of time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ortools.sat.python import cp_model

from planning.formulas import Values
from planning.model import Model
from planning.pipeline_plan import OutOfTime, PipelinePlan, Reached
from planning.planning_problem import Criterion, PlanningProblem
from planning.reach import reach

TimeLeft = Callable[[], float]
"""The seconds that are left; one clock for all plans that a request needs."""
_LONGEST_S = 30.0
_SEED = 1
_CORES_WORK = 0.05
"""The work of a search by cores, as the solver counts it; about as many seconds."""
_SYMMETRY, _PROBING = 2, 2
"""The levels that the solver has by default."""


def half_a_minute() -> float:
    """The time that is left where nobody counts it."""
    return _LONGEST_S


def find_plan(
    problem: PlanningProblem, criteria: Sequence[Criterion] = (), *, left: TimeLeft = half_a_minute
) -> PipelinePlan | None:
    """The best plan by the first criterion; of several, the best by the second; and so on. None if there is no plan.

    When no time is left the answer is the best plan so far, and a bound for better ones. Raises `OutOfTime` if there is
    none yet.
    """
    reached = reach(problem)
    if reached is None:
        return None
    search = _Search(Model(problem, reached), left)
    expressions = [search.model.figure(each) for each in criteria]
    if all(isinstance(each, int) for each in expressions) and not search.solves():
        return None
    for criterion, expression in zip(criteria, expressions, strict=True):
        if not search.improves(criterion, expression):
            return None
        if not search.is_optimal:
            break
    return search.plan()


class _Search:
    """One model, solved by one criterion after another."""

    def __init__(self, model: Model, left: TimeLeft) -> None:
        self.model = model
        self.reached: list[Reached] = []
        self.is_optimal = True
        self._left = left
        self._solver = cp_model.CpSolver()
        # One worker: the same problem then always has the same answer.
        self._solver.parameters.num_workers = 1
        self._solver.parameters.random_seed = _SEED
        # Else the solver takes the signal over, and a process that has planned once dies of the next one.
        self._solver.parameters.catch_sigint_signal = False
        # The models are clauses. Their linear relaxation says little: 20 meetings of either took half a minute with it
        # and a tenth of a second without.
        self._solver.parameters.linearization_level = 0
        # They are narrow already; looking for more takes longer than the search.
        self._solver.parameters.cp_model_presolve = False
        self._plan: PipelinePlan | None = None

    def solves(self) -> bool:
        """Find any plan, or that there is none."""
        status = self._solved(by_cores=True)
        if status not in {cp_model.OPTIMAL, cp_model.INFEASIBLE}:
            status = self._solved(by_cores=False)
        self.is_optimal = status == cp_model.OPTIMAL
        if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
            self._plan = self._read()
        elif status != cp_model.INFEASIBLE and self._plan is None:
            raise OutOfTime("no plan was found in the time allowed, nor that there is none; allow more")
        return status != cp_model.INFEASIBLE

    def _solved(self, *, by_cores: bool) -> cp_model.CpSolverStatus:
        """Run the solver. By cores it comes from below, for a while; else from above, with better and better plans."""
        parameters = self._solver.parameters
        parameters.max_time_in_seconds = max(0.0, self._left())
        parameters.optimize_with_core = by_cores
        parameters.max_deterministic_time = _CORES_WORK if by_cores else math.inf
        # With landmarks a search by cores needs neither, and looking for them takes longer. The other one needs both.
        parameters.symmetry_level = 0 if by_cores else _SYMMETRY
        parameters.cp_model_probing_level = 0 if by_cores else _PROBING
        status = self._solver.solve(self.model.solver_model)
        if status == cp_model.MODEL_INVALID:
            raise RuntimeError(self._solver.solution_info())
        return status

    def improves(self, criterion: Criterion, expression: cp_model.LinearExprT) -> bool:
        """Find the best plan by a criterion, and let no later one be worse by it; false if there is no plan."""
        model = self.model.solver_model
        if isinstance(expression, int):
            self.reached.append(Reached(criterion=criterion, value=expression, bound=expression))
            return True
        before = self._plan
        if criterion.grows:
            model.maximize(expression)
        else:
            model.minimize(expression)
        if not self.solves():
            return False
        if self._plan is before:
            # Out of time. The plan before stays; nothing is known of a better one.
            self.is_optimal = False
            return True
        value = int(self._solver.value(expression))
        bound = value if self.is_optimal else round(self._solver.best_objective_bound)
        self.reached.append(Reached(criterion=criterion, value=value, bound=bound))
        model.add(expression >= value if criterion.grows else expression <= value)
        model.clear_hints()  # type: ignore[no-untyped-call]  # the library's own hints leave it out
        for options in self.model.options.values():
            for literal in options.values():
                if not isinstance(literal, bool):
                    model.add_hint(literal, self._solver.boolean_value(literal))
        return True

    def plan(self) -> PipelinePlan:
        """The plan so far."""
        if self._plan is None:
            raise RuntimeError("nothing was solved")
        return replace(self._plan, reached=tuple(self.reached), is_optimal=self.is_optimal)

    def _read(self) -> PipelinePlan:
        return PipelinePlan(
            options={vertex: self._chosen(literals) for vertex, literals in self.model.options.items()},
            states={
                place: {name: self._chosen(values) for name, values in state.items()}
                for place, state in self.model.states.items()
            },
        )

    def _chosen(self, literals: Values) -> str:
        return next(name for name, each in literals.items() if each is True or self._solver.boolean_value(each))
