"""A partition of a layout's nodes into groups, as strategies change it: every figure is kept up to date."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from copy import deepcopy

from merge.grouping.layout import NodeLayout

NEW = -1
"""Instead of a group: a new one."""


class Partition:
    """Groups by number, each with nodes; at first every node is alone."""

    def __init__(self, layout: NodeLayout) -> None:
        """Every node in a group of the same number."""
        self.layout = layout
        self.of = list(range(layout.nodes))
        """The group of each node."""
        self.members: dict[int, set[int]] = {}
        self.work: dict[int, int] = {}
        self.image: dict[int, int] = {}
        self.after: defaultdict[int, Counter[int]] = defaultdict(Counter)
        """For each group those that it feeds, by how many streams."""
        self.before: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.load = [0] * len(layout.images)
        """The cores taken of each image."""
        self.paid = 0
        """The groups that cost a batch of their own, because they would not run otherwise."""
        self.bridges = 0
        self.moves = 0
        self._anchors = {node: node for node in range(layout.count, layout.nodes)}
        self._next = layout.nodes
        self._takers: list[Counter[int]] = [Counter() for _ in layout.flows]
        self._sent: list[list[int]] = [[] for _ in range(layout.nodes)]
        self._taken: list[list[int]] = [[] for _ in range(layout.nodes)]
        for at, flow in enumerate(layout.flows):
            if flow.raw:
                continue
            self._sent[flow.parent].append(at)
            for child in flow.children:
                self._taken[child].append(at)
                self._takers[at][child] += 1
            self.bridges += len(self._takers[at].keys() - {flow.parent})
        for node in range(layout.nodes):
            for child in layout.children[node]:
                self._count(node, child, 1)
            self.members[node], self.work[node] = {node}, layout.work[node]
            self.image[node] = next(layout.images_in(layout.may[node]), 0)
            self._tally(node, 1)
            self.moves += layout.home[node] >= 0

    def runs(self, group: int) -> bool:
        """Whether a group runs at all: one that is there with nothing that stays may be empty."""
        return len(self.members[group]) > (group in self._anchors) or self._stays(group)

    def cores(self, group: int) -> int:
        """The cores that a group takes."""
        return self.work[group] + self.layout.batch if self.runs(group) else 0

    def anchor(self, group: int) -> int | None:
        """The node of the present group that a group is; None if it is a new one."""
        return self._anchors.get(group)

    def overload(self) -> int:
        """The cores by which images are beyond their limits."""
        limits = zip(self.load, self.layout.limits, strict=True)
        return sum(max(0, load - limit) for load, limit in limits if limit is not None)

    def mask(self, nodes: Iterable[int]) -> int:
        """The images that may run all of these nodes."""
        found = (1 << len(self.layout.images)) - 1
        for node in nodes:
            found &= self.layout.may[node]
        return found

    def holds(self, nodes: Sequence[int]) -> bool:
        """Whether nodes may be one group: images, owners, capacity, and what takes no more."""
        layout = self.layout
        anchors = [node for node in nodes if node >= layout.count]
        if len(anchors) > 1 or not self.mask(nodes):
            return False
        joining = any(layout.home[node] != anchor for anchor in anchors for node in nodes if node < layout.count)
        if joining and not layout.present[anchors[0] - layout.count].takes_more:
            return False
        if len({layout.owner[node] for node in nodes} - {""}) > 1:
            return False
        working = sum(1 for node in nodes if node < layout.count or layout.stays(node))
        return layout.fits(sum(layout.work[node] for node in nodes), working)

    def joins(self, one: int, other: int) -> bool:
        """Whether two groups may become one."""
        nodes = [*self.members[one], *self.members[other]]
        return self.holds(nodes) and self._finds_room(one, other, nodes) and not self.is_between(one, other)

    def _finds_room(self, one: int, other: int, nodes: Sequence[int]) -> bool:
        """Whether an image has the cores for two groups as one, or is beyond its limit with both already."""
        cores = self.work[one] + self.work[other] + self.layout.batch
        for image in self.layout.images_in(self.mask(nodes)):
            freed = sum(self.cores(group) for group in (one, other) if self.image[group] == image)
            if freed >= cores or self._has_room(image, cores - freed):
                return True
        return False

    def join(self, one: int, other: int) -> int:
        """Make two groups one; its number."""
        to = max(one, other, key=lambda group: (self.anchor(group) is not None, len(self.members[group]), -group))
        return self.move(tuple(self.members[other if to == one else one]), to)

    def is_between(self, one: int, other: int) -> bool:
        """Whether a way over a third group leads from one of two groups to the other."""
        return self._leads(one, other) or self._leads(other, one)

    def is_on_cycle(self, group: int) -> bool:
        """Whether a group waits for itself."""
        return self._leads(group, group)

    def _leads(self, begin: int, end: int) -> bool:
        ends = [each for each in self.after[begin] if each != end]
        seen = set(ends)
        while ends:
            for each in self.after[ends.pop()]:
                if each == end:
                    return True
                if each not in seen:
                    seen.add(each)
                    ends.append(each)
        return False

    def move(self, nodes: Iterable[int], to: int) -> int:
        """Put nodes into a group, or into a new one; the group. Its image is changed if it can't run them."""
        if to == NEW:
            to, self._next = self._next, self._next + 1
            self.members[to], self.work[to] = set(), 0
        moved = [node for node in nodes if self.of[node] != to]
        if not moved:
            return to
        touched = {to, *(self.of[node] for node in moved)}
        for group in touched:
            if group in self.image:
                self._tally(group, -1)
        for node in moved:
            self._shift(node, to)
        for group in touched:
            if self.members[group]:
                mask = self.mask(self.members[group])
                image = self.image.get(group)
                if image is None or not mask >> image & 1 or not self._has_room(image, self.cores(group)):
                    self.image[group] = self.roomiest(mask, self.cores(group))
                self._tally(group, 1)
            else:
                del self.members[group], self.work[group]
                self.image.pop(group, None)
                self.after.pop(group, None)
                self.before.pop(group, None)
        return to

    def set_image(self, group: int, image: int) -> None:
        """Have a group run on another image."""
        self.load[self.image[group]] -= self.cores(group)
        self.image[group] = image
        self.load[image] += self.cores(group)

    def roomiest(self, mask: int, cores: int) -> int:
        """Of some images the one that is least beyond its limit with so many cores more; the cheapest of equals."""
        return min(self.layout.images_in(mask), key=lambda image: self._strain(image, cores))

    def more_bridges(self, nodes: Iterable[int], to: int) -> int:
        """How many more bridges there would be with nodes in another group."""
        moved, flows = set(nodes), self.layout.flows
        change = 0
        for at in {at for node in moved for at in (*self._sent[node], *self._taken[node])}:
            parent = flows[at].parent
            home = to if parent in moved else self.of[parent]
            change += len({to if child in moved else self.of[child] for child in flows[at].children} - {home})
            change -= len(self._takers[at].keys() - {self.of[parent]})
        return change

    def copy(self) -> "Partition":
        """Another one, which changes apart from this."""
        return deepcopy(self, {id(self.layout): self.layout})

    def _stays(self, group: int) -> bool:
        return group in self._anchors and self.layout.stays(self._anchors[group])

    def _tally(self, group: int, sign: int) -> None:
        self.load[self.image[group]] += sign * self.cores(group)
        self.paid += sign * (self.runs(group) and not self._stays(group))

    def _has_room(self, image: int, cores: int) -> bool:
        limit = self.layout.limits[image]
        return limit is None or self.load[image] + cores <= limit

    def _strain(self, image: int, cores: int) -> tuple[int, float, int, int]:
        layout, limit = self.layout, self.layout.limits[image]
        over = 0 if limit is None else max(0, self.load[image] + cores - limit)
        dearer = layout.host_cost(image, self.load[image] + cores) - layout.host_cost(image, self.load[image])
        return over, dearer, -(1 << 60) if limit is None else self.load[image] - limit, image

    def _shift(self, node: int, to: int) -> None:
        layout, old = self.layout, self.of[node]
        for at in self._taken[node]:
            takers, home = self._takers[at], self.of[layout.flows[at].parent]
            takers[old] -= 1
            if not takers[old]:
                del takers[old]
                self.bridges -= old != home
            self.bridges += to not in takers and to != home
            takers[to] += 1
        for at in self._sent[node]:
            self.bridges += (old in self._takers[at]) - (to in self._takers[at])
        for parent in layout.parents[node]:
            self._count(self.of[parent], old, -1)
            self._count(self.of[parent], to, 1)
        for child in layout.children[node]:
            self._count(old, self.of[child], -1)
            self._count(to, self.of[child], 1)
        if layout.home[node] >= 0:
            home = self.of[layout.home[node]]
            self.moves += (old == home) - (to == home)
        elif node >= layout.count:
            del self._anchors[old]
            self._anchors[to] = node
            settled = [task for task in range(layout.count) if layout.home[task] == node]
            self.moves += sum((self.of[task] == old) - (self.of[task] == to) for task in settled)
        self.members[old].remove(node)
        self.work[old] -= layout.work[node]
        self.members[to].add(node)
        self.work[to] += layout.work[node]
        self.of[node] = to

    def _count(self, parent: int, child: int, change: int) -> None:
        if parent == child:
            return
        self.after[parent][child] += change
        self.before[child][parent] += change
        if not self.after[parent][child]:
            del self.after[parent][child], self.before[child][parent]
