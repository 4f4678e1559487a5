"""`node`: groups with as many tasks as may be.

As in the paper a stream costs 5 within groups and between them, and a group very much. So only the number of groups
decides: of all images, and groups that are there, the one that can take most of the tasks that come next takes them.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator

from merge.grouping.effort import SearchAllowance
from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import NEW, Partition
from merge.grouping.score import grouping_of, settle_images
from merge.grouping.strategies.connection import connected


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
        image, found = max(candidates, key=lambda each: (sum(one < layout.count for one in each[1]), -each[0]))
        group = partition.move(found, partition.of[found[0]] if found[0] >= layout.count else NEW)
        partition.set_image(group, image)
        filling.close(image, found)
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
        for each in range(layout.nodes):
            self._free(each)
        self._taken = [0] * len(layout.images)
        for each in filter(layout.stays, range(layout.nodes)):
            self._taken[next(layout.images_in(layout.may[each]))] += layout.work[each] + layout.batch

    def close(self, image: int, group: list[int]) -> None:
        """Take a group out of what is left."""
        self.left.difference_update(group)
        self._taken[image] += self._more(group)
        for each in group:
            entry = self._layout.work[each], each
            at = bisect_left(self._ready, entry)
            if self._ready[at : at + 1] == [entry]:
                del self._ready[at]
        self._anchors = [each for each in self._anchors if each in self.left]
        for each in group:
            for child in self._layout.children[each]:
                self._waits[child] -= 1
                if child in self.left:
                    self._free(child)

    def _free(self, each: int) -> None:
        if not self._waits[each]:
            if each >= self._layout.count:
                self._anchors.append(each)
            else:
                insort(self._ready, (self._layout.work[each], each))

    def candidates(self, *, within: bool = True) -> Iterator[tuple[int, list[int]]]:
        """What each image, and each group that is there, could take of what comes next; within limits or beyond."""
        layout = self._layout
        self.allowance.spend(len(self._ready))
        able = 0
        for mask in {layout.may[each] for _, each in self._ready}:
            able |= mask
        for each in self._anchors:
            image = next(layout.images_in(layout.may[each]))
            yield image, self._grown(image, [each], within=within)
        for image in layout.images_in(able):
            if found := self._grown(image, [], within=within):
                yield image, found

    def _grown(self, image: int, group: list[int], *, within: bool) -> list[int]:
        """A group grown by what waits for nothing but itself, the least work first."""
        layout, limit = self._layout, self._layout.limits[image]
        freed: list[tuple[int, int]] = []
        unmet: dict[int, int] = {}
        self._unlock(group, unmet, freed)
        place, work, owner, looked = 0, sum(layout.work[each] for each in group), "", 0
        anchor = group[0] if group else None
        owner = "" if anchor is None else layout.owner[anchor]
        running = any(map(layout.stays, group))
        while freed or place < len(self._ready):
            if not freed or (place < len(self._ready) and self._ready[place] < freed[0]):
                more, each = self._ready[place]
                place += 1
            else:
                more, each = heapq.heappop(freed)
            looked += 1
            if running and work + more > layout.capacity:
                # All others have as much work or more.
                break
            cores = work + more + layout.batch if anchor is None or not layout.stays(anchor) else work + more
            if anchor is not None and layout.stays(anchor):
                cores -= layout.work[anchor]
            if within and limit is not None and self._taken[image] + cores > limit:
                break
            if not layout.may[each] >> image & 1 or (owner and layout.owner[each] and owner != layout.owner[each]):
                continue
            if anchor is not None and layout.home[each] != anchor and not layout.takes_more(anchor):
                continue
            group, work, running, owner = [*group, each], work + more, True, owner or layout.owner[each]
            self._unlock([each], unmet, freed)
        self.allowance.spend(looked + len(group) ** 2 // 8)
        return group

    def _unlock(self, nodes: list[int], unmet: dict[int, int], freed: list[tuple[int, int]]) -> None:
        """Have the tasks wait no longer that wait for nothing but a group, of which these nodes are new."""
        layout = self._layout
        for each in nodes:
            for child in layout.children[each]:
                unmet[child] = unmet.get(child, self._waits[child]) - 1
                if not unmet[child] and child < layout.count:
                    heapq.heappush(freed, (layout.work[child], child))

    def _more(self, group: list[int]) -> int:
        """The cores that a group takes beside what stays."""
        layout = self._layout
        work = sum(layout.work[each] for each in group if each < layout.count)
        runs = any(each < layout.count for each in group)
        return work + (layout.batch if runs and not any(map(layout.stays, group)) else 0)
