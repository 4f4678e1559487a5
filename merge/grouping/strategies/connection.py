"""`connection`: groups with few streams between them.

As in the paper a stream within a group costs 5, one between groups 20, and a group so little that it decides only
where no stream does. Groups that have most streams between them become one, as long as any may; then any that may.
"""

import heapq
import math

from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition
from merge.grouping.score import grouping_of, settle_images


def connection(problem: GroupingProblem) -> Grouping:
    """Few streams between groups."""
    return grouping_of(connected(NodeLayout(problem)))


def connected(layout: NodeLayout) -> Partition:
    """The same, as a partition."""
    partition = Partition(layout)
    join_connected(partition)
    join_others(partition)
    settle_images(partition)
    return partition


def join_connected(partition: Partition, *, most_work: float = math.inf, with_present: bool = True) -> None:
    """Join groups that have streams between them, those with most first, up to so much work."""
    heap = [entry for group in partition.members for entry in _entries(partition, group)]
    heapq.heapify(heap)
    while heap:
        count, one, other = heapq.heappop(heap)
        if partition.after[one][other] != -count or partition.work[one] + partition.work[other] > most_work:
            continue
        if not with_present and (partition.anchor(one) is not None or partition.anchor(other) is not None):
            continue
        if partition.joins(one, other):
            joined = partition.join(one, other)
            for entry in _entries(partition, joined):
                heapq.heappush(heap, entry)


def join_others(partition: Partition) -> None:
    """Join any groups that may be one, the fullest with the fullest that fits it, because each saves a batch."""
    left = sorted(partition.members, key=lambda group: (-partition.work[group], min(partition.members[group])))
    while left:
        group = left.pop(0)
        for other in tuple(left):
            if partition.joins(group, other):
                left.remove(other)
                group = partition.join(group, other)


def _entries(partition: Partition, group: int) -> list[tuple[int, int, int]]:
    """The neighbours of a group, by how many streams there are between them."""
    found = [(-count, group, other) for other, count in partition.after[group].items()]
    return found + [(-count, other, group) for other, count in partition.before[group].items()]
