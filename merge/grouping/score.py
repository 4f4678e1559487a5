"""The score of a partition: what it costs, and the grouping that it is."""

from collections import defaultdict

import networkx as nx

from merge.grouping.expense import cost_of
from merge.grouping.grouping_problem import TaskId
from merge.grouping.groups import Group, Grouping, Ungroupable
from merge.grouping.layout import MICROCORES
from merge.grouping.partition import Partition


def score(partition: Partition) -> tuple[int, int]:
    """The cores beyond the limits of images, and the cost; in units. What is paid anyway counts, too."""
    return partition.overload(), linear(partition) + latency(partition)


def linear(partition: Partition) -> int:
    """All costs but that of the slowest path, in units."""
    layout = partition.layout
    hosts = sum(layout.host_cost(image, load) for image, load in enumerate(partition.load) if load)
    bridges, moves = round(layout.costs.bridge * MICROCORES), round(layout.costs.move * MICROCORES)
    return partition.paid * layout.batch + partition.bridges * bridges + partition.moves * moves + hosts


def latency(partition: Partition) -> int:
    """What the slowest path is worth, in units."""
    layout = partition.layout
    hop, second, pace = round(layout.costs.hop * MICROCORES), layout.costs.second, layout.costs.pace
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
        batch = layout.costs.batch * MICROCORES + pace * partition.work[group] if partition.runs(group) else 0
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
    changed = True
    while changed:
        changed = False
        for group in sorted(partition.members, key=lambda each: min(partition.members[each])):
            here = partition.image[group]
            mask = partition.mask(partition.members[group])
            if not mask & (mask - 1):
                continue
            best, best_score = here, _image_score(partition)
            for image in partition.layout.images_in(mask):
                partition.set_image(group, image)
                if (found := _image_score(partition)) < best_score:
                    best, best_score = image, found
            partition.set_image(group, best)
            changed = changed or best != here


def grouping_of(partition: Partition) -> Grouping:
    """The groups with their costs. Raises `Ungroupable` if they are beyond the limit of an image."""
    layout = partition.layout
    for image, (load, limit) in enumerate(zip(partition.load, layout.limits, strict=True)):
        if limit is not None and load > limit:
            raise _too_few_cores(partition, image, load, limit)
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


def _image_score(partition: Partition) -> tuple[int, int]:
    layout = partition.layout
    return partition.overload(), sum(layout.host_cost(image, load) for image, load in enumerate(partition.load))


def _too_few_cores(partition: Partition, image: int, load: int, limit: int) -> Ungroupable:
    layout = partition.layout
    here = [node for node in range(layout.count) if partition.image[partition.of[node]] == image]
    task = layout.tasks[max(here, key=lambda node: (layout.work[node], -node))]
    name = layout.images[image].name
    return Ungroupable(
        task.id,
        task.tags,
        f"the hosts of image {name!r} have {limit / MICROCORES:g} cores and {load / MICROCORES:g} are needed; "
        "let the image have more hosts, or another one offer these tags",
    )
