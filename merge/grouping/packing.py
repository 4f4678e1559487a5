"""Packing: groups filled with clusters, which are tasks with many streams between them and not too much work.

Groups of whole dataflows leave room that nothing fits. Clusters of a part of the capacity fill it, at the price of a
few more bridges.
"""

from merge.grouping.effort import SearchAllowance
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition
from merge.grouping.score import settle_images
from merge.grouping.strategies.connection import join_connected


def clustered(layout: NodeLayout, part: float) -> Partition:
    """The clusters, each of at most that part of the capacity."""
    partition = Partition(layout)
    join_connected(partition, most_work=round(part * layout.capacity), with_present=False)
    return partition


def packed(layout: NodeLayout, part: float, allowance: SearchAllowance) -> Partition:
    """Groups of clusters: those that fewest images can run first, each where most streams join it and it fits best.

    Once nothing is left of the allowance, clusters stay as they are.
    """
    partition = clustered(layout, part)
    allowance.spend(2 * layout.nodes)
    open_ = {group: partition.mask_of(group) for group in partition.members if partition.anchor(group) is not None}
    for group in sorted(
        partition.members,
        key=lambda each: (partition.mask_of(each).bit_count(), -partition.work[each], min(partition.members[each])),
    ):
        if partition.anchor(group) is not None or allowance.is_spent:
            continue
        near, mask = partition.after[group] + partition.before[group], partition.mask_of(group)
        fitting = [to for to, images in open_.items() if images & mask and partition.is_one(group, to)]
        fitting.sort(key=lambda to: (-near[to], -(open_[to] & mask).bit_count(), -partition.work[to], to))
        looked = partition.looked
        best = next((to for to in fitting if partition.joins(group, to)), None)
        allowance.spend(len(open_) + 4 * len(fitting) + partition.looked - looked)
        if best is None:
            open_[group] = mask
        else:
            del open_[best]
            joined = partition.join(group, best)
            open_[joined] = partition.mask_of(joined)
    settle_images(partition)
    return partition
