"""The planner: finds the best plan for a problem, or that there is none.

Sound and complete: it answers with a plan if and only if one exists, unless it runs out of time. A sweep decides what
is narrow, and a search from below most of the rest. What both leave open a search from above finds better and better
plans for, as long as there is time.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ortools.sat.python import cp_model

from dags.vocabulary import Criterion
from planning.model import Model, Values
from planning.plan import OutOfTime, Peers, PipelinePlan, Reached, TimeLeft, apart, bound, figure, look, peers_of
from planning.problem import PlanningProblem
from planning.reach import Reach, reach
from planning.sweep import Sweep, SweepEffort, TooManySituations

_LONGEST_S = 30.0
_SEED = 1
_CORES_WORK = 0.05
"""The work of a search by cores, as the solver counts it; about as many seconds."""
_LOAD_S = 4e-6
"""What a constraint takes until the solver has it and looks at the clock."""
_SOME_WAYS = 500_000
"""What a sweep may try before there is a model."""
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
    reached = reach(problem, left)
    if reached is None:
        return None
    nobody = apart(problem.vertices)
    if Criterion.RESIDUE not in criteria:
        return _searched(problem, reached, criteria, nobody, None, left)
    peers = peers_of(problem.vertices, reached.options, lambda: look(left))
    try:
        # A model of what may be shared takes longer to build than most sweeps.
        known = Sweep(problem, reached, criteria, nobody, SweepEffort(left, _SOME_WAYS)).best()
    except TooManySituations:
        return _searched(problem, reached, criteria, peers, None, left)
    if known is None:
        return None
    if not peers.pairs:
        return plan_with(problem, known, criteria)
    return _searched(problem, reached, criteria, peers, known, left)


def _searched(  # noqa: PLR0913, PLR0917 - a problem in three parts, what is known of it, and the time
    problem: PlanningProblem,
    reached: Reach,
    criteria: Sequence[Criterion],
    peers: Peers,
    known: Mapping[str, str] | None,
    left: TimeLeft,
) -> PipelinePlan | None:
    """The best plan, where a good one may be known already."""
    try:
        search = _Search(Model(problem, reached, left), left)
    except OutOfTime:
        if known is None:
            raise
        # Of this plan nothing is known but a bound for better ones by the first criterion.
        plan, best = plan_with(problem, known, criteria[:1]), bound(problem, reached.options, criteria[0])
        return replace(plan, reached=tuple(replace(result, bound=best) for result in plan.reached), is_optimal=False)
    if known is not None:
        search.begin(plan_with(problem, known))
    try:
        return search.best(criteria)
    except _Undecided:
        pass
    with suppress(TooManySituations):
        if known is None:
            known = Sweep(problem, reached, criteria, apart(problem.vertices), SweepEffort(left)).best()
        if known is not None and peers.pairs:
            known = Sweep(problem, reached, criteria, peers, SweepEffort(left)).best(known)
        return None if known is None else plan_with(problem, known, criteria)
    search.is_from_below = False
    if known is not None:
        search.begin(plan_with(problem, known))
    return search.best(criteria)


def plan_with(problem: PlanningProblem, options: Mapping[str, str], criteria: Sequence[Criterion] = ()) -> PipelinePlan:
    """The plan with some options that are known to be the best. However many places there are, that is quick."""
    fixed = replace(
        problem, vertices=tuple(replace(vertex, options=(vertex.chosen(options),)) for vertex in problem.vertices)
    )
    left = reach(fixed, half_a_minute)
    if left is None:
        raise RuntimeError("what was found to be the best plan is none")
    search = _Search(Model(fixed, left, half_a_minute), half_a_minute)
    search.is_from_below = False
    plan = search.best(())
    if plan is None:
        raise RuntimeError("what was found to be the best plan is none")
    figures = ((criterion, figure(problem, options, criterion)) for criterion in criteria)
    reached = tuple(Reached(criterion=criterion, value=value, bound=value) for criterion, value in figures)
    return replace(plan, reached=reached)


class _Undecided(Exception):
    """A search from below has not come to an end."""


class _Search:
    """One model, solved by one criterion after another."""

    def __init__(self, model: Model, left: TimeLeft) -> None:
        self.model = model
        self.reached: list[Reached] = []
        self.is_optimal = True
        self._left = left
        self.is_from_below = True
        self._figures: dict[Criterion, cp_model.LinearExprT] = {}
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

    def best(self, criteria: Sequence[Criterion]) -> PipelinePlan | None:
        """The best plan, as far as there is time; None if there is none. Raises `OutOfTime` or `_Undecided`."""
        for criterion in criteria[len(self.reached) :]:
            try:
                expression = self._figure(criterion)
            except OutOfTime:
                if self._plan is None:
                    raise
                self.is_optimal = False
                value = figure(self.model.problem, self._plan.options, criterion)
                best = bound(self.model.problem, self.model.left.options, criterion)
                self.reached.append(Reached(criterion=criterion, value=value, bound=best))
                break
            if not self.improves(criterion, expression):
                return None
            if not self.is_optimal:
                break
        if self._plan is None and not self.solves():
            return None
        if self._plan is None:
            raise RuntimeError("nothing was solved")
        return replace(self._plan, reached=tuple(self.reached), is_optimal=self.is_optimal)

    def begin(self, plan: PipelinePlan) -> None:
        """Begin with a plan, unless it is worse than what was reached."""
        problem = self.model.problem
        if all(result.value == figure(problem, plan.options, result.criterion) for result in self.reached):
            self._plan = plan
            self._hint(plan)

    def solves(self) -> bool:
        """Find any plan, or that there is none."""
        status = self._solved(by_cores=True)
        if status not in {cp_model.OPTIMAL, cp_model.INFEASIBLE}:
            if self.is_from_below and self._left() > 0:
                raise _Undecided
            status = self._solved(by_cores=False)
        self.is_optimal = status == cp_model.OPTIMAL
        if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
            options = {vertex: self._chosen(literals) for vertex, literals in self.model.options.items()}
            states = {
                place: {name: self._chosen(values) for name, values in state.items()}
                for place, state in self.model.states.items()
            }
            self._plan = PipelinePlan(options=options, states=states)
        elif status != cp_model.INFEASIBLE and self._plan is None:
            raise OutOfTime
        return status != cp_model.INFEASIBLE

    def _solved(self, *, by_cores: bool) -> cp_model.CpSolverStatus:
        """Run the solver. By cores it comes from below, for a while; else from above, with better and better plans."""
        if self._left() < _LOAD_S * len(self.model.solver_model.proto.constraints):
            return cp_model.UNKNOWN
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
        if self._plan is None:
            raise RuntimeError("nothing was solved")
        value = figure(self.model.problem, self._plan.options, criterion)
        if self.is_optimal:
            best = value
        elif self._plan is before:
            # Out of time; the plan before stays.
            best = bound(self.model.problem, self.model.left.options, criterion)
        else:
            best = round(self._solver.best_objective_bound)
        self.reached.append(Reached(criterion=criterion, value=value, bound=best))
        model.add(expression >= value if criterion.grows else expression <= value)
        self._hint(self._plan)
        return True

    def _hint(self, plan: PipelinePlan) -> None:
        model = self.model.solver_model
        model.clear_hints()  # type: ignore[no-untyped-call]  # the library's own hints leave it out
        for vertex, options in self.model.options.items():
            for name, literal in options.items():
                if not isinstance(literal, bool):
                    model.add_hint(literal, name == plan.options[vertex])

    def _figure(self, criterion: Criterion) -> cp_model.LinearExprT:
        if criterion not in self._figures:
            self._figures[criterion] = self.model.figure(criterion)
        return self._figures[criterion]

    def _chosen(self, literals: Values) -> str:
        return next(
            name for name, literal in literals.items() if literal is True or self._solver.boolean_value(literal)
        )
