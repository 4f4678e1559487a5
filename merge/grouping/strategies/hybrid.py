"""`hybrid`: few streams between groups, and branches apart where that is cheaper.

It begins with the cheapest of the groups of `connection`, those of `node`, some that are packed, and what is there as
it is. They are improved by what the model says: branches run side by side where images have the cores, and tasks go
where they cost less. The groups of `connection` are made whatever the effort; what comes then takes no more than that.
"""

from collections.abc import Callable, Iterator

from merge.grouping.branches import part_branches
from merge.grouping.descent import descend
from merge.grouping.dissolution import dissolve_groups
from merge.grouping.effort import SearchAllowance
from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.layout import NodeLayout
from merge.grouping.packing import packed
from merge.grouping.partition import Partition
from merge.grouping.score import grouping_of, score, settle_images
from merge.grouping.strategies.connection import connected, join_connected, join_others
from merge.grouping.strategies.node import filled

_PARTS = (1.0, 0.7, 0.5, 0.25)
"""What parts of the capacity clusters have that groups are packed with."""
_FIRST = 80
"""What the layout and the first groups take for each task and stream, in steps."""


def hybrid(problem: GroupingProblem, seconds: float) -> Grouping:
    """Groups that are never dearer than those of `connection`."""
    return grouping_of(improved(NodeLayout(problem), SearchAllowance(seconds)))


def improved(layout: NodeLayout, allowance: SearchAllowance) -> Partition:
    """The same, as a partition."""
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
        (0.4, _descended),
        (0.5, dissolve_groups),
        (0.5, part_branches),
        (1.0, _descended),
    )
    for share, stage in stages:
        part = allowance.part(share)
        partition = stage(partition, part)
        allowance.back(part)
    settle_images(partition)
    return partition


def _others(layout: NodeLayout, allowance: SearchAllowance) -> Iterator[Partition]:
    """What else it may begin with, as far as the allowance goes."""
    if layout.present and not allowance.is_spent:
        allowance.spend(_FIRST * layout.nodes)
        yield present(layout)
    if not allowance.is_spent:
        yield filled(layout, allowance)
    for part in _PARTS:
        if not allowance.is_spent:
            yield packed(layout, part, allowance)


def _descended(partition: Partition, allowance: SearchAllowance) -> Partition:
    descend(partition, allowance)
    return partition


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
