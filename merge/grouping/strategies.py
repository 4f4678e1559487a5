"""The strategies by which tasks are cut into groups, by name; `hybrid` is here.

`hybrid` begins with the cheapest of the groups of `connection`, those of `node`, and some that are packed, and improves
them by the model. The groups of `connection` are made whatever the effort; what comes then takes no more than that.

`connection` and `node` are in `merge/grouping/construction.py`, `optimal` and `plan` in `merge/grouping/optimal.py`,
which is loaded only when one of these is asked for.
"""

from collections.abc import Callable, Iterator, Mapping

from merge.grouping.construction import connected, filled, node, packed
from merge.grouping.improvement import descend, dissolve_groups, part_branches
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition, grouping_of, score, settle_images
from merge.grouping.problem import Effort, Grouping, GroupingProblem, SearchAllowance

_PARTS = (1.0, 0.7, 0.5, 0.25)
"""What parts of the capacity clusters have that groups are packed with."""
_FIRST = 80
"""What the layout and the first groups take for each task and stream, in steps."""


def improved(layout: NodeLayout, allowance: SearchAllowance) -> Partition:
    """The groups of `hybrid`, which are never dearer than those of `connection`."""
    allowance.spend(_FIRST * (layout.nodes + len(layout.streams)))
    begin = connected(layout)
    beginnings = allowance.part(0.4)
    best = min([begin, *_others(layout, beginnings)], key=score).copy()
    allowance.back(beginnings)
    best = in_stages(allowance, best)
    return min(begin, best, key=score)


def in_stages(allowance: SearchAllowance, partition: Partition) -> Partition:
    """A partition improved by all that there is, in turn."""
    stages: tuple[tuple[float, Callable[[Partition, SearchAllowance], Partition]], ...] = (
        (0.4, descend),
        (0.5, dissolve_groups),
        (0.5, part_branches),
        (1.0, descend),
    )
    for share, stage in stages:
        part = allowance.part(share)
        partition = stage(partition, part)
        allowance.back(part)
    settle_images(partition)
    return partition


def _others(layout: NodeLayout, allowance: SearchAllowance) -> Iterator[Partition]:
    """What else it may begin with, as far as the allowance goes."""
    if not allowance.is_spent:
        yield filled(layout, allowance)
    for part in _PARTS:
        if not allowance.is_spent:
            yield packed(layout, part, allowance)


# Loading the solver takes a second, and most that imports this never solves anything.
def _optimal(problem: GroupingProblem, effort: Effort) -> Grouping:
    from merge.grouping.optimal import optimal  # noqa: PLC0415 - as above

    return optimal(problem, effort.seconds)


def _plan(problem: GroupingProblem, effort: Effort) -> Grouping:
    from merge.grouping.optimal import best_plan  # noqa: PLC0415 - as above

    return best_plan(problem, effort.seconds)


GROUPING_STRATEGIES: Mapping[str, Callable[[GroupingProblem, Effort], Grouping]] = {
    "node": lambda problem, _: node(problem),
    "connection": lambda problem, _: grouping_of(connected(NodeLayout(problem))),
    "hybrid": lambda problem, effort: grouping_of(improved(NodeLayout(problem), SearchAllowance(effort.seconds))),
    "optimal": _optimal,
    "plan": _plan,
}
"""What answers a problem, by name."""
