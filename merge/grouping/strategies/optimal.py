"""`optimal`: the cheapest groups, by CP-SAT, with a bound that proves how near they are to it.

The search begins with the best groups that heuristics found. In the time allowed it ends with the cheapest, or with
better ones and a bound.
"""

from dataclasses import replace

from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.layout import MICROCORES, NodeLayout
from merge.grouping.partition import Partition
from merge.grouping.score import grouping_of, score
from merge.grouping.strategies.hybrid import improved

_SEED = 1


def optimal(problem: GroupingProblem, seconds: float) -> Grouping:
    """The cheapest groups that were found in time, and a bound for cheaper ones."""
    # Loading the solver takes a second, and most that imports this never solves anything.
    from ortools.sat.python import cp_model  # noqa: PLC0415 - as above

    from merge.grouping.slot_model import SlotModel  # noqa: PLC0415 - as above

    layout = NodeLayout(problem)
    begin = improved(layout)
    model = SlotModel(layout, _slots(layout, begin))
    model.hint(begin)
    solver = cp_model.CpSolver()
    # One worker: the same problem then has the same answer.
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = _SEED
    solver.parameters.max_time_in_seconds = seconds
    # Else the solver takes the signal over, and a process that has planned once dies of the next one.
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(model.solver_model)
    if status == cp_model.MODEL_INVALID:
        raise RuntimeError(solver.solution_info())
    best = begin
    if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        best = min(best, model.partition(solver), key=score)
    found = grouping_of(best)
    bound = (solver.best_objective_bound - layout.base) / MICROCORES
    return replace(
        found, bound=found.cost.total if status == cp_model.OPTIMAL else min(found.cost.total, max(0.0, bound))
    )


def _slots(layout: NodeLayout, begin: Partition) -> int:
    """How many groups the cheapest grouping may have: no more than are paid for by what the first one costs."""
    over, cost = score(begin)
    if over or not layout.batch:
        return layout.nodes
    return min(layout.nodes, (cost - layout.base) // layout.batch + len(layout.present))
