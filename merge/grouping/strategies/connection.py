"""`connection`: groups with few streams between them.

As in the paper a stream within a group costs 5, one between groups 20, and a group so little that it decides only
where no stream does. Groups that have most streams between them become one, as long as any may; then any that may.
"""

import heapq
import math
from bisect import bisect_left

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
    joined = True
    # What was between two groups may be in one of them by now, so they are looked at again.
    while joined:
        joined = False
        heap = [entry for group in partition.members for entry in _entries(partition, group)]
        heapq.heapify(heap)
        while heap:
            count, one, other = heapq.heappop(heap)
            if partition.after[one][other] != -count or partition.work[one] + partition.work[other] > most_work:
                continue
            if not with_present and (partition.anchor(one) is not None or partition.anchor(other) is not None):
                continue
            if partition.joins(one, other):
                near = {group: {*partition.after[group], *partition.before[group]} for group in (one, other)}
                to = partition.join(one, other)
                joined = True
                # All others have their entries, since nothing between them and the group has changed.
                for group in near[other if to == one else one] - {to}:
                    for entry in _between(partition, to, group):
                        heapq.heappush(heap, entry)


def join_others(partition: Partition) -> None:
    """Join any groups that may be one, the fullest with the fullest that fits it, because each saves a batch."""
    left = sorted(partition.members, key=lambda group: (-partition.work[group], min(partition.members[group])))
    works = [-partition.work[group] for group in left]
    gone: set[int] = set()
    capacity = max(0, partition.layout.capacity)
    for at, first in enumerate(left):
        group = first
        if group in gone:
            continue
        # Those before the place have too much work.
        for place in range(max(at + 1, bisect_left(works, partition.work[group] - capacity)), len(left)):
            if left[place] not in gone and partition.joins(group, left[place]):
                gone.add(left[place])
                group = partition.join(group, left[place])


def _entries(partition: Partition, group: int) -> list[tuple[int, int, int]]:
    """The groups that a group feeds, by how many streams there are between them."""
    return [(-count, group, other) for other, count in partition.after[group].items()]


def _between(partition: Partition, one: int, other: int) -> list[tuple[int, int, int]]:
    """The entries of two groups."""
    found = []
    if count := partition.after[one][other]:
        found.append((-count, one, other))
    if count := partition.before[one][other]:
        found.append((-count, other, one))
    return found
