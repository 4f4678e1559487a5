"""A partition of a layout's nodes into groups, as strategies change it; its score; and why one is no answer.

Every figure is kept up to date with every move, so that the score is found quickly. `grouping_of` turns a partition
into the grouping that it is, or refuses it and says whether that is proved. A proof is that some images have fewer
cores than is needed by the tasks that only they can run: for these, and for the fewest groups that have them. What else
makes groups impossible is for the solver to prove, by trying everything.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import reduce
from operator import and_, or_
from typing import TypeVar

import networkx as nx

from merge.grouping.evaluation import cost_of
from merge.grouping.layout import NANOCORES, ROOM, NodeLayout
from merge.grouping.problem import Group, Grouping, GroupingNotFound, NoGrouping, TaskId, Ungroupable

_Key = TypeVar("_Key", int, str)
NEW = -1
"""Instead of a group: a new one."""


class Partition:
    """Groups by number, each with nodes; at first every node is alone."""

    def __init__(self, layout: NodeLayout) -> None:
        self.layout = layout
        self.group_of = list(range(layout.nodes))
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
        self._masks: dict[int, Counter[int]] = {}
        """For each group which images its nodes may run on, as bits, by how many nodes."""
        self._owners: dict[int, Counter[str]] = {}
        self._anchors = {node: node for node in range(layout.count, layout.nodes)}
        self._next = layout.nodes
        self.looked = 0
        """The groups that were looked at to find ways: what that cost."""
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
            self._masks[node] = Counter((layout.masks[node],))
            self._owners[node] = Counter([layout.owner[node]] if layout.owner[node] else [])
            self.image[node] = next(layout.images_in(layout.masks[node]), 0)
            self._tally(node, 1)

    def cores(self, group: int) -> int:
        """The cores that a group takes."""
        return self.work[group] + self.layout.batch

    def anchor(self, group: int) -> int | None:
        """The node of the present group that a group is; None if it is a new one."""
        return self._anchors.get(group)

    def overload(self) -> int:
        """The cores by which images are beyond their limits."""
        limits = zip(self.load, self.layout.limits, strict=True)
        return sum(max(0, load - limit) for load, limit in limits if limit is not None)

    def mask_of(self, group: int) -> int:
        """The images that may run a group."""
        return reduce(and_, self._masks[group], -1)

    def takes(self, group: int, nodes: Iterable[int]) -> bool:
        """Whether nodes, none of which is a present group, may be in a group, beside what is there."""
        layout, moved = self.layout, [node for node in nodes if self.group_of[node] != group]
        mask, owners = self.mask_of(group), set(self._owners[group])
        anchor = self._anchors.get(group)
        for node in moved:
            mask &= layout.masks[node]
            if layout.owner[node]:
                owners.add(layout.owner[node])
            if anchor is not None and not layout.takes_more(anchor):
                return False
        work = self.work[group] + sum(layout.work[node] for node in moved)
        return bool(mask) and len(owners) <= 1 and layout.fits(work, len(self.members[group]) + len(moved))

    def is_one(self, one: int, other: int) -> bool:
        """Whether two groups may be one by what is in them: images, owners, capacity, and what takes no more."""
        work = self.work[one] + self.work[other]
        if not self.layout.fits(work, len(self.members[one]) + len(self.members[other])):
            return False
        if not self.mask_of(one) & self.mask_of(other) or len({*self._owners[one], *self._owners[other]}) > 1:
            return False
        anchors = [group for group in (one, other) if group in self._anchors]
        if len(anchors) != 1:
            return not anchors
        moving = other if anchors[0] == one else one
        return self.takes(anchors[0], self.members[moving])

    def joins(self, one: int, other: int) -> bool:
        """Whether two groups may become one."""
        return self.is_one(one, other) and self._finds_room(one, other) and not self.is_between(one, other)

    def _finds_room(self, one: int, other: int) -> bool:
        """Whether an image has the cores for two groups as one, or is beyond its limit with both already."""
        if not self.layout.is_limited:
            return True
        cores = self.work[one] + self.work[other] + self.layout.batch
        for image in self.layout.images_in(self.mask_of(one) & self.mask_of(other)):
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
        # Where one feeds the other, no way leads back, since groups make no cycle.
        back, on = other in self.after[one], one in self.after[other]
        return (not on and self._leads(one, other)) or (not back and self._leads(other, one))

    def is_on_cycle(self, group: int) -> bool:
        """Whether a group waits for itself."""
        return self._leads(group, group)

    def _leads(self, begin: int, end: int) -> bool:
        """Whether a way over others leads from a group to one; looked for from both ends, where there is less."""
        ahead = {group for group in self.after[begin] if group != end}
        behind = {group for group in self.before[end] if group != begin}
        seen_ahead, seen_behind = set(ahead), set(behind)
        while ahead and behind:
            if not seen_ahead.isdisjoint(behind) or not seen_behind.isdisjoint(ahead):
                return True
            if len(ahead) <= len(behind):
                ahead = set().union(*(self.after[group] for group in ahead)) - seen_ahead
                seen_ahead |= ahead
            else:
                behind = set().union(*(self.before[group] for group in behind)) - seen_behind
                seen_behind |= behind
            self.looked += len(ahead) + len(behind)
        return not seen_ahead.isdisjoint(seen_behind)

    def move(self, nodes: Iterable[int], to: int) -> int:
        """Put nodes into a group, or into a new one; the group. Its image is changed if it can't run them."""
        if to == NEW:
            to, self._next = self._next, self._next + 1
            self.members[to], self.work[to] = set(), 0
            self._masks[to], self._owners[to] = Counter(), Counter()
        moved = [node for node in nodes if self.group_of[node] != to]
        if not moved:
            return to
        touched = {to, *(self.group_of[node] for node in moved)}
        for group in touched:
            if group in self.image:
                self._tally(group, -1)
        for node in moved:
            self._shift(node, to)
        for group in touched:
            if self.members[group]:
                mask = self.mask_of(group)
                image = self.image.get(group)
                if image is None or not mask >> image & 1 or not self._has_room(image, self.cores(group)):
                    self.image[group] = self._roomiest(mask, self.cores(group))
                self._tally(group, 1)
            else:
                del self.members[group], self.work[group], self._masks[group], self._owners[group]
                self.image.pop(group, None)
                self.after.pop(group, None)
                self.before.pop(group, None)
        return to

    def set_image(self, group: int, image: int) -> None:
        """Have a group run on another image."""
        self.load[self.image[group]] -= self.cores(group)
        self.image[group] = image
        self.load[image] += self.cores(group)

    def _roomiest(self, mask: int, cores: int) -> int:
        """Of some images the one that is least beyond its limit with so many cores more; the cheapest of equals."""
        return min(self.layout.images_in(mask), key=lambda image: self._strain(image, cores))

    def more_bridges(self, nodes: Iterable[int], to: int) -> int:
        """How many more bridges there would be with nodes in another group."""
        moved, flows = set(nodes), self.layout.flows
        change = 0
        for at in {at for node in moved for at in (*self._sent[node], *self._taken[node])}:
            parent = flows[at].parent
            home = to if parent in moved else self.group_of[parent]
            change += len({to if child in moved else self.group_of[child] for child in flows[at].children} - {home})
            change -= len(self._takers[at].keys() - {self.group_of[parent]})
        return change

    def copy(self) -> "Partition":
        """Another one, which changes apart from this."""
        copy = object.__new__(type(self))  # what is not listed is the same for all of a layout, or a number
        copy.__dict__ |= self.__dict__ | {
            "group_of": self.group_of.copy(),
            "members": {group: nodes.copy() for group, nodes in self.members.items()},
            "work": self.work.copy(),
            "image": self.image.copy(),
            "after": defaultdict(Counter, {group: count.copy() for group, count in self.after.items() if count}),
            "before": defaultdict(Counter, {group: count.copy() for group, count in self.before.items() if count}),
            "load": self.load.copy(),
            "_masks": {group: count.copy() for group, count in self._masks.items()},
            "_owners": {group: count.copy() for group, count in self._owners.items()},
            "_anchors": self._anchors.copy(),
            "_takers": [count.copy() for count in self._takers],
        }
        return copy

    def _tally(self, group: int, sign: int) -> None:
        self.load[self.image[group]] += sign * self.cores(group)
        self.paid += sign * (group not in self._anchors)

    def _has_room(self, image: int, cores: int) -> bool:
        limit = self.layout.limits[image]
        return limit is None or self.load[image] + cores <= limit

    def _strain(self, image: int, cores: int) -> tuple[int, float, int, int]:
        layout, limit = self.layout, self.layout.limits[image]
        over = 0 if limit is None else max(0, self.load[image] + cores - limit)
        dearer = layout.host_cost(image, self.load[image] + cores) - layout.host_cost(image, self.load[image])
        return over, dearer, -(1 << 60) if limit is None else self.load[image] - limit, image

    def _shift(self, node: int, to: int) -> None:
        layout, old = self.layout, self.group_of[node]
        for at in self._taken[node]:
            takers, home = self._takers[at], self.group_of[layout.flows[at].parent]
            takers[old] -= 1
            if not takers[old]:
                del takers[old]
                self.bridges -= old != home
            self.bridges += to not in takers and to != home
            takers[to] += 1
        for at in self._sent[node]:
            self.bridges += (old in self._takers[at]) - (to in self._takers[at])
        for parent in layout.parents[node]:
            self._count(self.group_of[parent], old, -1)
            self._count(self.group_of[parent], to, 1)
        for child in layout.children[node]:
            self._count(old, self.group_of[child], -1)
            self._count(to, self.group_of[child], 1)
        if node >= layout.count:
            del self._anchors[old]
            self._anchors[to] = node
        self.members[old].remove(node)
        self.work[old] -= layout.work[node]
        _tell(self._masks, layout.masks[node], old, to)
        if layout.owner[node]:
            _tell(self._owners, layout.owner[node], old, to)
        self.members[to].add(node)
        self.work[to] += layout.work[node]
        self.group_of[node] = to

    def _count(self, parent: int, child: int, change: int) -> None:
        if parent == child:
            return
        self.after[parent][child] += change
        self.before[child][parent] += change
        if not self.after[parent][child]:
            del self.after[parent][child], self.before[child][parent]


def _tell(counts: dict[int, Counter[_Key]], key: _Key, old: int, to: int) -> None:
    """Count a node with a key in another group."""
    counts[old][key] -= 1
    if not counts[old][key]:
        del counts[old][key]
    counts[to][key] += 1


def refusal(partition: Partition) -> NoGrouping:
    """What to raise in place of groups that are beyond the limits of images."""
    layout = partition.layout
    if (proved := proof_of_none(layout)) is not None:
        return proved
    image, load = next(
        (image, load)
        for image, (load, limit) in enumerate(zip(partition.load, layout.limits, strict=True))
        if limit is not None and load > limit
    )
    return GroupingNotFound(_lacking(layout, [image], load))


def proof_of_none(layout: NodeLayout) -> Ungroupable | None:
    """Why no groups of a problem are valid, if some images have too few cores for what only they can run."""
    masks = set(layout.masks[: layout.count])
    # The images that may be too few: those that run some task, and all of these together.
    for mask in (*dict.fromkeys(layout.masks[: layout.count]), reduce(or_, masks, 0)):
        images = list(layout.images_in(mask))
        limits = [limit for image in images if (limit := layout.limits[image]) is not None]
        nodes = [node for node in range(layout.nodes) if not layout.masks[node] & ~mask]
        tasks = [node for node in nodes if node < layout.count]
        if len(limits) < len(images) or not tasks:
            continue
        needed = _least_cores(layout, nodes)
        # Each work was rounded up, by less than a unit.
        if needed - len(nodes) > sum(limits) + ROOM * len(limits):
            busiest = layout.tasks[max(tasks, key=lambda node: (layout.work[node], -node))]
            why = _lacking(layout, images, needed)
            return Ungroupable(
                busiest.id, busiest.tags, f"{why}; let the image have more hosts, or another one offer these tags"
            )
    return None


def tried_everything(layout: NodeLayout) -> Ungroupable:
    """What to raise where the solver has proved that no groups are valid."""
    limited = [image for image, limit in enumerate(layout.limits) if limit is not None]
    busiest = layout.tasks[max(range(layout.count), key=lambda node: (layout.work[node], -node))]
    names = ", ".join(repr(layout.images[image].name) for image in limited)
    return Ungroupable(
        busiest.id,
        busiest.tags,
        f"of all ways to divide the tasks, none fits the cores of {names}; let one of these images have more hosts",
    )


def _least_cores(layout: NodeLayout, nodes: list[int]) -> int:
    """The cores that nodes take at least, in the fewest groups: the present ones that stay have room first."""
    staying = [node for node in nodes if node >= layout.count]
    # A task that is too much for a group counts as one that fills it.
    most = layout.most_work
    room = sum(max(0, most - layout.work[node]) for node in staying)
    filled = sum(min(layout.work[node], most) for node in nodes if node < layout.count)
    groups = max(0 if staying else 1, -(-(filled - len(nodes) - room) // most))
    return sum(layout.work[node] for node in nodes) + layout.batch * (len(staying) + groups)


def _lacking(layout: NodeLayout, images: list[int], needed: int) -> str:
    # As operators gave them: the layout's limits have room for rounding.
    there = sum(layout.images[image].limit or 0.0 for image in images)
    names = " and ".join(repr(layout.images[image].name) for image in images)
    said = f"image {names}" if len(images) == 1 else f"images {names}"
    return f"the hosts of {said} have {there:g} cores and {needed / NANOCORES:g} are needed"


def score(partition: Partition) -> tuple[int, int]:
    """The cores beyond the limits of images, and the cost; in units. What is paid anyway counts, too."""
    return partition.overload(), linear(partition) + latency(partition)


def linear(partition: Partition) -> int:
    """All costs but that of the slowest path, in units."""
    layout = partition.layout
    hosts = sum(layout.host_cost(image, load) for image, load in enumerate(partition.load) if load)
    return partition.paid * layout.batch + partition.bridges * round(layout.costs.bridge * NANOCORES) + hosts


def latency(partition: Partition) -> int:
    """What the slowest path is worth, in units."""
    layout = partition.layout
    hop, second, pace = round(layout.costs.hop * NANOCORES), layout.costs.second, layout.costs.pace
    if not hop and not second:
        return 0
    feeding: defaultdict[int, set[int]] = defaultdict(set)
    for parent, child, raw in layout.streams:
        one, other = partition.group_of[parent], partition.group_of[child]
        if not raw and one != other:
            feeding[other].add(one)
    reached: dict[int, int] = {}
    for group in ordered(partition):
        before = max((reached[parent] + hop for parent in feeding[group]), default=0)
        reached[group] = before + round(second * (layout.costs.batch * NANOCORES + pace * partition.work[group]))
    return max(reached.values(), default=0)


def ordered(partition: Partition) -> list[int]:
    """The groups, each after those that feed it. They make no cycle."""
    waits = {group: len(partition.before[group]) for group in partition.members}
    ready = [group for group, count in waits.items() if not count]
    order: list[int] = []
    while ready:
        group = ready.pop()
        order.append(group)
        for child in partition.after[group]:
            waits[child] -= 1
            if not waits[child]:
                ready.append(child)
    return order


def settle_images(partition: Partition) -> None:
    """Have each group run on the best image for it, given the others, until that changes nothing."""
    layout = partition.layout
    changed = layout.is_limited or any(layout.prices)
    while changed:
        changed = False
        for group in sorted(partition.members, key=lambda group: min(partition.members[group])):
            here, mask, cores = partition.image[group], partition.mask_of(group), partition.cores(group)
            if not cores or not mask & (mask - 1):
                continue
            partition.load[here] -= cores
            best = min(layout.images_in(mask), key=lambda image: (*_more(partition, image, cores), image != here))
            partition.load[here] += cores
            partition.set_image(group, best)
            changed = changed or best != here


def grouping_of(partition: Partition) -> Grouping:
    """The groups with their costs. Raises `NoGrouping` if they are beyond the limit of an image."""
    layout = partition.layout
    if partition.overload():
        raise refusal(partition)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(partition.members)
    graph.add_edges_from((one, other) for one, following in partition.after.items() for other in following)
    order = nx.lexicographical_topological_sort(graph, key=lambda group: min(partition.members[group]))
    groups = []
    for group in order:
        nodes = sorted(partition.members[group])
        tasks: tuple[TaskId, ...] = tuple(layout.tasks[node].id for node in nodes if node < layout.count)
        anchor = partition.anchor(group)
        present = None if anchor is None else layout.present[anchor - layout.count].id
        if tasks:
            groups.append(Group(image=layout.images[partition.image[group]].name, tasks=tasks, present=present))
    return Grouping(groups=tuple(groups), cost=cost_of(layout.problem, groups))


def _more(partition: Partition, image: int, cores: int) -> tuple[int, int]:
    """By how much an image is further beyond its limit, and dearer, with so many cores more."""
    layout, load = partition.layout, partition.load[image]
    limit = layout.limits[image]
    over = 0 if limit is None else max(0, load + cores - limit) - max(0, load - limit)
    return over, layout.host_cost(image, load + cores) - layout.host_cost(image, load)
