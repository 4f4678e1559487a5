"""Feasibility: any valid groups, where heuristics found none, or the proof that there are none."""

from ortools.sat.python import cp_model

from merge.grouping.effort import SearchAllowance
from merge.grouping.exact.contraction import Contraction
from merge.grouping.exact.slot_model import SlotModel
from merge.grouping.exact.solver import new_solver, solved
from merge.grouping.layout import ROOM, NodeLayout
from merge.grouping.packing import clustered
from merge.grouping.partition import Partition
from merge.grouping.refusal import proof_of_none, tried_everything

_MANY = 3000
"""For so many tasks, or clusters of them, times groups the solver takes longer to read a model than there is time."""
_PARTS = (None, 0.1, 0.2, 0.35)
"""What parts of the capacity clusters have, for which the solver decides where there are too many tasks."""
_FIRST, _LONGER = 0.1, 1.5
"""The part of the time that the first try has, and how much longer each next one may take.

Some tries are very long and others short for the same problem, so it is better to begin anew."""


def any_valid(beyond: Partition, allowance: SearchAllowance) -> Partition | None:
    """Valid groups in place of some that are beyond the limits of images; None if none were found.

    Raises `Ungroupable` if there are none.
    """
    layout = beyond.layout
    if (proved := proof_of_none(layout)) is not None:
        raise proved
    for part in _PARTS:
        contraction = None if part is None else Contraction(clustered(layout, part))
        over = layout if contraction is None else contraction.layout
        slots = _most_groups(over, len(beyond.members))
        if over.nodes * slots <= _MANY:
            break
    else:
        return None
    model = SlotModel(over, slots, with_costs=False)
    seconds, seed = _FIRST * allowance.seconds, 1
    while not allowance.is_spent:
        solver = new_solver(min(seconds, allowance.seconds), seed)
        # The relaxation says little of what fits, and takes most of the time.
        solver.parameters.linearization_level = 0
        status = solved(model.solver_model, solver, allowance)
        if status in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
            found = model.partition(solver)
            return found if contraction is None else contraction.expanded(found)
        if status == cp_model.INFEASIBLE:
            # Where works are rounded up by more than limits leave room for, some that fit may be missed.
            if contraction is None and slots >= _most_groups(layout, layout.nodes) and layout.nodes <= ROOM:
                raise tried_everything(layout)
            return None
        seconds, seed = seconds * _LONGER, seed + 1
    return None


def _most_groups(layout: NodeLayout, otherwise: int) -> int:
    """How many groups there may be for the cores that there are; where there are any number of these, so many."""
    limits = [limit for limit in layout.limits if limit is not None]
    if len(limits) < len(layout.limits) or not layout.batch:
        return min(layout.nodes, otherwise)
    work = sum(layout.work[node] for node in range(layout.nodes) if layout.works(node))
    empty = sum(1 for node in range(layout.count, layout.nodes) if not layout.stays(node))
    return max(1, min(layout.nodes, (sum(limits) - work) // layout.batch + empty))
