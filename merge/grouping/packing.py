"""Packing: groups filled with clusters, which are tasks with many streams between them and not too much work.

Groups of whole dataflows leave room that nothing fits. Clusters of a part of the capacity fill it, at the price of a
few more bridges.
"""

from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition
from merge.grouping.score import settle_images
from merge.grouping.strategies.connection import join_connected


def clustered(layout: NodeLayout, part: float) -> Partition:
    """The clusters, each of at most that part of the capacity."""
    partition = Partition(layout)
    join_connected(partition, most_work=round(part * layout.capacity), with_present=False)
    return partition


def packed(layout: NodeLayout, part: float) -> Partition:
    """Groups of clusters: those that fewest images can run first, each where most streams join it and it fits best."""
    partition = clustered(layout, part)
    open_ = [group for group in partition.members if partition.anchor(group) is not None]
    images = {group: partition.mask(nodes) for group, nodes in partition.members.items()}
    for group in sorted(
        partition.members,
        key=lambda each: (images[each].bit_count(), -partition.work[each], min(partition.members[each])),
    ):
        if partition.anchor(group) is not None:
            continue
        fitting = [each for each in open_ if partition.joins(group, each)]
        if not fitting:
            open_.append(group)
            continue
        near, mask = partition.after[group] + partition.before[group], images[group]
        best = max(
            fitting, key=lambda each: (near[each], (images[each] & mask).bit_count(), partition.work[each], -each)
        )
        joined = partition.join(group, best)
        images[joined] = images[group] & images[best]
        open_[open_.index(best)] = joined
    settle_images(partition)
    return partition
