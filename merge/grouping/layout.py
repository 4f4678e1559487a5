"""The layout of a problem: everything by number, in order of ids, so that the order of what is given decides nothing.

Nodes are the tasks, and after them a node for each present group. Work is counted in whole billionths of a core,
rounded up, and limits leave room for that: up to five hundred tasks that fit fit here, and what fits here is valid.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx

from merge.grouping.problem import GroupedTask, GroupingProblem, Image, PresentGroup, Ungroupable, in_order

NANOCORES = 1_000_000_000
"""The units of a core that work is counted in."""
_ROUNDING = 1e-3
"""The part of a unit that is not worth another one, because decimal fractions are rounded."""
ROOM = 500
"""The units that a limit may be exceeded by; half of what the definition of what is valid allows."""
_MANY_TAKERS = 16
"""The most takers of a stream that count as near each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFlow:
    """What leaves one port of a task: who sends it, and who takes it, by node."""

    parent: int
    children: tuple[int, ...]
    raw: bool


class NodeLayout:
    """A problem by number."""

    def __init__(self, problem: GroupingProblem) -> None:
        """Number everything, and find which images may run each node. Raises `Ungroupable` if none may."""
        self.problem = problem
        self.costs = problem.costs
        self.images: tuple[Image, ...] = tuple(sorted(problem.images, key=lambda image: image.name))
        self.tasks = tuple(sorted(problem.tasks, key=lambda task: in_order(task.id)))
        self.present: tuple[PresentGroup, ...] = tuple(sorted(problem.present, key=lambda group: in_order(group.id)))
        self.count = len(self.tasks)
        self.nodes = self.count + len(self.present)
        numbers = {task.id: at for at, task in enumerate(self.tasks)}
        for at, group in enumerate(self.present):
            numbers |= dict.fromkeys(group.tasks, self.count + at)
        nodes: list[GroupedTask | PresentGroup] = [*self.tasks, *self.present]
        self.work = [units(node.work) for node in nodes]
        self.owner = [node.owner for node in nodes]
        numbers_of_images = {image.name: at for at, image in enumerate(self.images)}
        open_images = [(at, image.tags) for at, image in enumerate(self.images) if image.limit != 0]
        self.masks = [sum(1 << at for at, tags in open_images if task.tags <= tags) for task in self.tasks]
        """For each node its possible images, as bits."""
        self.masks += [1 << numbers_of_images[group.image] for group in self.present]
        for task, mask in zip(self.tasks, self.masks, strict=False):
            if not mask:
                raise _blamed(task, [tags for _, tags in open_images])
        self.flows = self._flows(numbers)
        self.streams = [(numbers[stream.parent], numbers[stream.child], stream.raw) for stream in problem.streams]
        """Parent, child and whether it is raw, one for each stream between nodes."""
        self.streams = sorted(stream for stream in self.streams if stream[0] != stream[1])
        self.parents: list[set[int]] = [set() for _ in range(self.nodes)]
        self.children: list[set[int]] = [set() for _ in range(self.nodes)]
        for parent, child, _ in self.streams:
            self.parents[child].add(parent)
            self.children[parent].add(child)
        self.base = round(self.costs.bridge * NANOCORES) * sum(
            len({child for child in flow.children if child >= self.count} - {flow.parent})
            for flow in self.flows
            if flow.parent >= self.count and not flow.raw
        )
        """What bridges cost that are there anyway, in units."""
        self.near = self._near()
        """For each node those that it gives to, takes from, or takes the same with."""
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_nodes_from(range(self.nodes))
        graph.add_edges_from((parent, child) for parent, child, _ in self.streams)
        self.order = tuple(nx.lexicographical_topological_sort(graph))
        """The nodes, each after its parents."""
        self.batch = units(self.costs.cores(0.0))
        self.capacity = math.floor((0.5 - self.costs.batch / self.costs.pace) * NANOCORES) + ROOM
        """The work of a group within capacity; below 0 where a batch takes longer than half of the pace."""
        self.most_work = max(1, self.capacity + ROOM)
        """What no group is above, however decimals are rounded, if a task that is counts as so much."""
        self.limits = [self._limit(at) for at in range(len(self.images))]
        """The cores of each image; None if any number."""
        self.is_limited = any(limit is not None for limit in self.limits)
        costs = self.costs
        self.prices = [units(image.start * costs.start + image.price * costs.price) for image in self.images]
        """What a new host of each image costs, in units."""

    def takes_more(self, anchor: int) -> bool:
        """Whether tasks may join a present group, by its node."""
        return self.present[anchor - self.count].takes_more

    def fits(self, work: int, nodes: int) -> bool:
        """Whether one group can do so much work, of so many nodes."""
        return work <= self.capacity or nodes <= 1

    def host_cost(self, image: int, load: int) -> int:
        """What the new hosts of an image cost, in units, that so many cores need."""
        if not self.prices[image]:
            return 0
        hosts = -((ROOM - load) // self.host_cores(image))
        return max(0, hosts - self.images[image].there) * self.prices[image]

    def host_cores(self, image: int) -> int:
        """The cores of a host of an image, in units."""
        return round(self.images[image].cores * NANOCORES)

    def images_in(self, mask: int) -> Iterator[int]:
        """The images of a set."""
        return (at for at in range(len(self.images)) if mask >> at & 1)

    def _limit(self, at: int) -> int | None:
        image = self.images[at]
        if image.limit is None:
            return None
        stays = [node for node in range(self.count, self.nodes) if self.masks[node] == 1 << at]
        return max(math.floor(image.limit * NANOCORES) + ROOM, sum(self.work[node] + self.batch for node in stays))

    def _flows(self, numbers: dict[int | str, int]) -> tuple[PortFlow, ...]:
        takers: defaultdict[tuple[tuple[bool, int, str], str, bool, int], set[int]] = defaultdict(set)
        for stream in self.problem.streams:
            takers[in_order(stream.parent), stream.port, stream.raw, numbers[stream.parent]].add(numbers[stream.child])
        return tuple(
            PortFlow(parent=parent, children=tuple(sorted(children)), raw=raw)
            for (_, _, raw, parent), children in sorted(takers.items())
        )

    def _near(self) -> list[set[int]]:
        near = [self.parents[node] | self.children[node] for node in range(self.nodes)]
        for flow in self.flows:
            if len(flow.children) <= _MANY_TAKERS:
                for child in flow.children:
                    near[child].update(flow.children)
        return near


def _blamed(task: GroupedTask, offered: list[frozenset[str]]) -> Ungroupable:
    """The refusal that names the tags which no image offers; where each is offered by some, all of them."""
    if not offered:
        return Ungroupable(task.id, task.tags, "there is none; register one")
    nowhere = task.tags.difference(*offered)
    together = "" if nowhere else " together"
    said = ", ".join(sorted(nowhere or task.tags))
    return Ungroupable(task.id, nowhere or task.tags, f"none offers {said}{together}; register one that does")


def units(cores: float) -> int:
    """Cores in units, rounded up."""
    return math.ceil(cores * NANOCORES - _ROUNDING)
