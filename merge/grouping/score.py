"""The score of a partition: what it costs, and the grouping that it is."""

from collections import defaultdict

import networkx as nx

from merge.grouping.expense import cost_of
from merge.grouping.grouping_problem import TaskId
from merge.grouping.groups import Group, Grouping
from merge.grouping.layout import NANOCORES
from merge.grouping.partition import Partition
from merge.grouping.refusal import refusal


def score(partition: Partition) -> tuple[int, int]:
    """The cores beyond the limits of images, and the cost; in units. What is paid anyway counts, too."""
    return partition.overload(), linear(partition) + latency(partition)


def linear(partition: Partition) -> int:
    """All costs but that of the slowest path, in units."""
    layout = partition.layout
    hosts = sum(layout.host_cost(image, load) for image, load in enumerate(partition.load) if load)
    bridges, moves = round(layout.costs.bridge * NANOCORES), round(layout.costs.move * NANOCORES)
    return partition.paid * layout.batch + partition.bridges * bridges + partition.moves * moves + hosts


def latency(partition: Partition) -> int:
    """What the slowest path is worth, in units."""
    layout = partition.layout
    hop, second, pace = round(layout.costs.hop * NANOCORES), layout.costs.second, layout.costs.pace
    if not hop and not second:
        return 0
    feeding: defaultdict[int, set[int]] = defaultdict(set)
    for parent, child, raw in layout.streams:
        one, other = partition.of[parent], partition.of[child]
        if not raw and one != other:
            feeding[other].add(one)
    reached: dict[int, int] = {}
    for group in ordered(partition):
        before = max((reached[each] + hop for each in feeding[group]), default=0)
        batch = layout.costs.batch * NANOCORES + pace * partition.work[group] if partition.runs(group) else 0
        reached[group] = before + round(second * batch)
    return max(reached.values(), default=0)


def ordered(partition: Partition) -> list[int]:
    """The groups, each after those that feed it. They make no cycle."""
    waits = {group: len(partition.before[group]) for group in partition.members}
    ready = [group for group, count in waits.items() if not count]
    found: list[int] = []
    while ready:
        group = ready.pop()
        found.append(group)
        for each in partition.after[group]:
            waits[each] -= 1
            if not waits[each]:
                ready.append(each)
    return found


def settle_images(partition: Partition) -> None:
    """Have each group run on the best image for it, given the others, until that changes nothing."""
    layout = partition.layout
    changed = layout.is_limited or any(layout.prices)
    while changed:
        changed = False
        for group in sorted(partition.members, key=lambda each: min(partition.members[each])):
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
