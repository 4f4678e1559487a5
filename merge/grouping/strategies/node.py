"""`node`: groups with as many tasks as may be.

As in the paper a stream costs 5 within groups and between them, and a group very much. So only the number of groups
decides: of all images, and groups that are there, the one that can take most of the tasks that come next takes them.
"""

import heapq
from collections.abc import Iterator

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


def filled(layout: NodeLayout) -> Partition:
    """The same, as a partition, which may be beyond the limits of images."""
    partition = Partition(layout)
    filling = _Filling(partition)
    while filling.left:
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

    def __init__(self, partition: Partition) -> None:
        self._layout = layout = partition.layout
        self._partition = partition
        self.left = set(range(layout.nodes))
        self._taken = [0] * len(layout.images)
        for each in filter(layout.stays, range(layout.nodes)):
            self._taken[next(layout.images_in(layout.may[each]))] += layout.work[each] + layout.batch

    def close(self, image: int, group: list[int]) -> None:
        """Take a group out of what is left."""
        self.left.difference_update(group)
        self._taken[image] += self._more(group)

    def candidates(self, *, within: bool = True) -> Iterator[tuple[int, list[int]]]:
        """What each image, and each group that is there, could take of what comes next; within limits or beyond."""
        layout = self._layout
        ready = [each for each in sorted(self.left) if not layout.parents[each] & self.left]
        able = 0
        for each in ready:
            if each >= layout.count:
                image = next(layout.images_in(layout.may[each]))
                yield image, self._grown(image, [each], ready, within=within)
            else:
                able |= layout.may[each]
        for image in layout.images_in(able):
            if found := self._grown(image, [], ready, within=within):
                yield image, found

    def _grown(self, image: int, group: list[int], ready: list[int], *, within: bool) -> list[int]:
        """A group grown by what waits for nothing but itself, the least work first."""
        layout, limit = self._layout, self._layout.limits[image]
        waiting = {*ready, *self._freed(group)}
        heap = [(layout.work[each], each) for each in waiting if each < layout.count]
        heapq.heapify(heap)
        while heap:
            _, each = heapq.heappop(heap)
            grown = [*group, each]
            if not layout.may[each] >> image & 1 or not self._partition.holds(grown):
                continue
            if within and limit is not None and self._taken[image] + self._more(grown) > limit:
                continue
            group = grown
            for child in self._freed(group):
                if child < layout.count and child not in waiting:
                    waiting.add(child)
                    heapq.heappush(heap, (layout.work[child], child))
        return group

    def _freed(self, group: list[int]) -> list[int]:
        """What waits for nothing but a group, the last of which was added just now."""
        layout = self._layout
        inside = set(group)
        children = sorted(layout.children[group[-1]] & self.left - inside) if group else []
        return [child for child in children if not layout.parents[child] & self.left - inside]

    def _more(self, group: list[int]) -> int:
        """The cores that a group takes beside what stays."""
        layout = self._layout
        work = sum(layout.work[each] for each in group if each < layout.count)
        runs = any(each < layout.count for each in group)
        return work + (layout.batch if runs and not any(map(layout.stays, group)) else 0)
