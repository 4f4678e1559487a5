"""`hybrid`: few streams between groups, and branches apart where that is cheaper.

It begins with the groups of `connection`, with those of `node`, and with what is there as it is. Each is improved by
what the model says: branches run side by side where images have the cores, tasks go where they cost less.
"""

from merge.grouping.branches import part_branches
from merge.grouping.descent import descend
from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition
from merge.grouping.score import grouping_of, score, settle_images
from merge.grouping.strategies.connection import connected, join_connected, join_others
from merge.grouping.strategies.node import filled

_TRIES = 40_000
"""The steps that are tried at most from each beginning; a few seconds."""


def hybrid(problem: GroupingProblem) -> Grouping:
    """Groups that are never dearer than those of `connection`."""
    return grouping_of(improved(NodeLayout(problem)))


def improved(layout: NodeLayout) -> Partition:
    """The same, as a partition."""
    begin = connected(layout)
    candidates = [begin, *(_improved(each) for each in (begin.copy(), filled(layout), present(layout)))]
    return min(candidates, key=score)


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


def _improved(partition: Partition) -> Partition:
    descend(partition, most=_TRIES)
    parted = part_branches(partition)
    descend(parted, most=_TRIES)
    settle_images(parted)
    return parted
