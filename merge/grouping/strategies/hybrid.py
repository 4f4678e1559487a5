"""`hybrid`: few streams between groups, and branches apart where that is cheaper.

It begins with the cheapest of the groups of `connection`, those of `node`, some that are packed, and what is there as
it is. They are improved by what the model says: branches run side by side where images have the cores, and tasks go
where they cost less.
"""

from merge.grouping.branches import part_branches
from merge.grouping.descent import descend
from merge.grouping.dissolution import dissolve_groups
from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.layout import NodeLayout
from merge.grouping.packing import packed
from merge.grouping.partition import Partition
from merge.grouping.score import grouping_of, score, settle_images
from merge.grouping.strategies.connection import connected, join_connected, join_others
from merge.grouping.strategies.node import filled

_TRIES = 20_000
"""The steps that are tried at most; a few seconds."""
_PARTS = (1.0, 0.7, 0.5, 0.25)
"""What parts of the capacity clusters have that groups are packed with."""


def hybrid(problem: GroupingProblem) -> Grouping:
    """Groups that are never dearer than those of `connection`."""
    return grouping_of(improved(NodeLayout(problem)))


def improved(layout: NodeLayout) -> Partition:
    """The same, as a partition."""
    begin = connected(layout)
    candidates = [begin, filled(layout), *(packed(layout, part) for part in _PARTS)]
    if layout.present:
        candidates.append(present(layout))
    best = min(candidates, key=score).copy()
    descend(best, most=_TRIES)
    best = part_branches(dissolve_groups(best))
    descend(best, most=_TRIES)
    settle_images(best)
    return min(begin, best, key=score)


def present(layout: NodeLayout) -> Partition:
    """What is there stays as far as it may, and what is new is joined to it."""
    partition = Partition(layout)
    for node in layout.order:
        if layout.home[node] >= 0 and partition.joins(partition.of[node], partition.of[layout.home[node]]):
            partition.move((node,), partition.of[layout.home[node]])
    join_connected(partition)
    join_others(partition)
    settle_images(partition)
    return partition
