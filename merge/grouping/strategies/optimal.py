"""`optimal`: the cheapest groups, by CP-SAT, with a bound that proves how near they are to it.

It begins with the best groups that heuristics found, and ends at once if they cost no more than the bound. Where these
are beyond the limits of images, the solver first looks for any that are not. A problem that is small enough is solved
exactly. In a larger one the solver decides for clusters of tasks: whether there may be as few groups as are proved to
be needed, and if that is not found, one more; the bound is what small models of parts of the problem prove.
"""

from dataclasses import replace

from ortools.sat.python import cp_model

from merge.grouping.bound import LowerBound, lower_bound
from merge.grouping.descent import descend
from merge.grouping.effort import SearchAllowance
from merge.grouping.exact.contraction import Contraction
from merge.grouping.exact.feasibility import any_valid
from merge.grouping.exact.slot_model import SlotModel
from merge.grouping.exact.solver import new_solver, solved
from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.layout import NANOCORES, NodeLayout
from merge.grouping.packing import clustered
from merge.grouping.partition import Partition
from merge.grouping.score import grouping_of, score, settle_images
from merge.grouping.strategies.hybrid import improved, in_stages

_EXACT = 1200
"""For so many tasks times groups the solver decides for tasks."""
_MANY = 6000
"""For so many clusters times groups it takes longer to read the model than there is time."""
_PART = 0.35
"""What part of the capacity clusters have: with smaller ones less is found in the same time, larger ones fit badly."""


def optimal(problem: GroupingProblem, seconds: float) -> Grouping:
    """The cheapest groups that were found in time, and a bound for cheaper ones."""
    layout, allowance = NodeLayout(problem), SearchAllowance(seconds)
    best = begun(layout, allowance, 0.4)
    proved = lower_bound(layout, allowance)
    bound = proved.cost
    if score(best) > (0, bound) and not allowance.is_spent:
        if layout.nodes * _slots(layout, best) <= _EXACT:
            best, bound = _exact(best, bound, allowance)
        else:
            best = _by_clusters(best, proved, allowance)
    found = grouping_of(best)
    return replace(found, bound=min(found.cost.total, max(0.0, (bound - layout.base) / NANOCORES)))


def begun(layout: NodeLayout, allowance: SearchAllowance, share: float) -> Partition:
    """The groups of heuristics, which have a share of the time.

    Where these are beyond the limits of images, any that the solver finds, improved.
    """
    first = allowance.part(share)
    best = improved(layout, first)
    allowance.back(first)
    if best.overload() and (valid := any_valid(best, allowance)) is not None:
        second = allowance.part(0.3)
        best = in_stages(second, valid)
        allowance.back(second)
    return best


def _exact(best: Partition, bound: int, allowance: SearchAllowance) -> tuple[Partition, int]:
    """The cheapest partition that was found, and a bound."""
    model = SlotModel(best.layout, _slots(best.layout, best))
    model.solver_model.add(model.cost >= bound)
    model.hint(best)
    solver = new_solver(allowance.seconds)
    status = solved(model.solver_model, solver, allowance)
    if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        best = min(best, model.partition(solver), key=score)
    return best, score(best)[1] if status == cp_model.OPTIMAL else max(bound, int(solver.best_objective_bound))


def _by_clusters(best: Partition, proved: LowerBound, allowance: SearchAllowance) -> Partition:
    """The best partition, or a better one that has clusters in one piece, improved."""
    contraction = Contraction(clustered(best.layout, _PART))
    fewest = max(1, proved.groups + len(best.layout.present))
    for slots, share in ((fewest, 0.6), (fewest + 1, 1.0)):
        if contraction.layout.nodes * slots > _MANY or allowance.is_spent:
            return best
        model = SlotModel(contraction.layout, slots)
        part = allowance.part(share)
        solver = new_solver(part.seconds)
        # The relaxation says little of so few groups, and takes most of the time.
        solver.parameters.linearization_level = 0
        if solved(model.solver_model, solver, part) in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
            found = contraction.expanded(model.partition(solver))
            descend(found, part)
            settle_images(found)
            best = min(best, found, key=score)
        allowance.back(part)
        if score(best)[1] <= proved.cost + best.layout.batch:
            break
    return best


def _slots(layout: NodeLayout, begin: Partition) -> int:
    """How many groups the cheapest grouping may have: no more than are paid for by what the first one costs."""
    over, cost = score(begin)
    if over or not layout.batch:
        return layout.nodes
    return min(layout.nodes, (cost - layout.base) // layout.batch + len(layout.present))
