"""Groups made from nothing: by few streams between them, by as many tasks as may be, or packed with clusters.

As in the paper a stream within a group costs 5. For `connection` one between groups costs 20, and a group so little
that it decides only where no stream does: groups that have most streams between them become one, as long as any may;
then any that may. For `node` a stream between groups costs 5 as well, and a group very much. So only the number of
groups decides: of all images, and groups that are there, the one that can take most of the tasks that come next takes
them.

Groups of whole dataflows leave room that nothing fits. So packing fills groups with clusters, which are tasks with many
streams between them and not too much work, at the price of a few more bridges.
"""

import heapq
import math
from bisect import bisect_left, insort
from collections.abc import Iterator

from merge.grouping.layout import NodeLayout
from merge.grouping.partition import NEW, Partition, grouping_of, settle_images
from merge.grouping.problem import Grouping, GroupingProblem, SearchAllowance


def connected(layout: NodeLayout) -> Partition:
    """The groups of `connection`: few streams between them."""
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
        heap = [
            (-count, group, other) for group in partition.members for other, count in partition.after[group].items()
        ]
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
                    for begin, end in ((to, group), (group, to)):
                        if count := partition.after[begin][end]:
                            heapq.heappush(heap, (-count, begin, end))


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


def node(problem: GroupingProblem) -> Grouping:
    """Few groups; where images have too few cores for these, those of `connection`."""
    layout = NodeLayout(problem)
    partition = filled(layout)
    return grouping_of(connected(layout) if partition.overload() else partition)


def filled(layout: NodeLayout, allowance: SearchAllowance | None = None) -> Partition:
    """The same, as a partition, which may be beyond the limits of images; what it takes is taken off an allowance.

    Once nothing is left of that, every task that is left has a group to itself.
    """
    partition = Partition(layout)
    filling = _Filling(partition, allowance or SearchAllowance(float("inf")))
    while filling.left and not filling.allowance.is_spent:
        # A task that no image has cores for goes beyond the limit of one.
        candidates = tuple(filling.candidates()) or tuple(filling.candidates(within=False))
        image, nodes = max(
            candidates, key=lambda candidate: (sum(one < layout.count for one in candidate[1]), -candidate[0])
        )
        group = partition.move(nodes, partition.group_of[nodes[0]] if nodes[0] >= layout.count else NEW)
        partition.set_image(group, image)
        filling.close(image, nodes)
    settle_images(partition)
    return partition


class _Filling:
    """What is left to be grouped, and the cores that are taken."""

    def __init__(self, partition: Partition, allowance: SearchAllowance) -> None:
        self._layout = layout = partition.layout
        self._partition = partition
        self.allowance = allowance
        self.left = set(range(layout.nodes))
        self._waits = [len(parents) for parents in layout.parents]
        """For each node how many of its parents are left."""
        self._anchors: list[int] = []
        """The present groups that come next."""
        self._ready: list[tuple[int, int]] = []
        """The tasks that come next, those with least work first."""
        for node in range(layout.nodes):
            self._free(node)
        self._taken = [0] * len(layout.images)
        for node in range(layout.count, layout.nodes):
            self._taken[next(layout.images_in(layout.masks[node]))] += layout.work[node] + layout.batch

    def close(self, image: int, group: list[int]) -> None:
        self.left.difference_update(group)
        # A group with a node of what stays costs no batch of its own.
        tasks = [node for node in group if node < self._layout.count]
        batch = self._layout.batch if len(tasks) == len(group) else 0
        self._taken[image] += sum(self._layout.work[task] for task in tasks) + batch
        for node in group:
            entry = self._layout.work[node], node
            at = bisect_left(self._ready, entry)
            if self._ready[at : at + 1] == [entry]:
                del self._ready[at]
        self._anchors = [anchor for anchor in self._anchors if anchor in self.left]
        for node in group:
            for child in self._layout.children[node]:
                self._waits[child] -= 1
                if child in self.left:
                    self._free(child)

    def _free(self, node: int) -> None:
        if not self._waits[node]:
            if node >= self._layout.count:
                self._anchors.append(node)
            else:
                insort(self._ready, (self._layout.work[node], node))

    def candidates(self, *, within: bool = True) -> Iterator[tuple[int, list[int]]]:
        """What each image, and each group that is there, could take of what comes next; within limits or beyond."""
        layout = self._layout
        self.allowance.spend(len(self._ready))
        able = 0
        for mask in {layout.masks[node] for _, node in self._ready}:
            able |= mask
        for anchor in self._anchors:
            image = next(layout.images_in(layout.masks[anchor]))
            yield image, self._grown(image, [anchor], within=within)
        for image in layout.images_in(able):
            if group := self._grown(image, [], within=within):
                yield image, group

    def _grown(self, image: int, group: list[int], *, within: bool) -> list[int]:
        """A group grown by what waits for nothing but itself, the least work first."""
        layout, limit = self._layout, self._layout.limits[image]
        freed: list[tuple[int, int]] = []
        unmet: dict[int, int] = {}
        self._unlock(group, unmet, freed)
        place, work, owner, looked = 0, sum(layout.work[node] for node in group), "", 0
        anchor = group[0] if group else None
        owner = "" if anchor is None else layout.owner[anchor]
        running = anchor is not None
        while freed or place < len(self._ready):
            if not freed or (place < len(self._ready) and self._ready[place] < freed[0]):
                more, node = self._ready[place]
                place += 1
            else:
                more, node = heapq.heappop(freed)
            looked += 1
            if running and work + more > layout.capacity:
                # All others have as much work or more.
                break
            cores = work + more + (layout.batch if anchor is None else -layout.work[anchor])
            if within and limit is not None and self._taken[image] + cores > limit:
                break
            if not layout.masks[node] >> image & 1 or (owner and layout.owner[node] and owner != layout.owner[node]):
                continue
            if anchor is not None and not layout.takes_more(anchor):
                continue
            group, work, running, owner = [*group, node], work + more, True, owner or layout.owner[node]
            self._unlock([node], unmet, freed)
        self.allowance.spend(looked + len(group) ** 2 // 8)
        return group

    def _unlock(self, nodes: list[int], unmet: dict[int, int], freed: list[tuple[int, int]]) -> None:
        """Have the tasks wait no longer that wait for nothing but a group, of which these nodes are new."""
        layout = self._layout
        for node in nodes:
            for child in layout.children[node]:
                unmet[child] = unmet.get(child, self._waits[child]) - 1
                if not unmet[child] and child < layout.count:
                    heapq.heappush(freed, (layout.work[child], child))


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
        key=lambda group: (partition.mask_of(group).bit_count(), -partition.work[group], min(partition.members[group])),
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
