"""Partitions made cheaper: step by step, by branches apart, and by giving groups up.

- **Descent.** A step moves a task, or with it all of its group that follows or precedes it, to another group that
  streams join it with, or to a new one; or it makes two groups one. It goes on while that makes the partition cheaper.
  What is still cheaper after no such step is for the solver to find.
- **Branches** are the parts of a group that run side by side, so that they may be groups of their own. A task that
  comes before or after every other one of its group is on no branch. What is left without these falls into branches.
- **Dissolution.** A group is given up, and its tasks are divided among the others, where the bridges cost less than the
  group.
"""

from collections import defaultdict
from collections.abc import Iterator

import networkx as nx

from merge.grouping.construction import clustered
from merge.grouping.partition import NEW, Partition, latency, linear, score
from merge.grouping.problem import SearchAllowance


def descend(partition: Partition, allowance: SearchAllowance) -> Partition:
    """The partition itself, after steps until none helps, or nothing is left of the allowance."""
    search = _Descent(partition, allowance)
    while search.moves_tasks() or search.joins_groups():
        pass
    return partition


class _Descent:
    def __init__(self, partition: Partition, allowance: SearchAllowance) -> None:
        self._partition = partition
        self._allowance = allowance
        self._overload, self._linear, self._latency = partition.overload(), linear(partition), latency(partition)

    def moves_tasks(self) -> bool:
        helped = False
        for node in range(self._partition.layout.count):
            if self._allowance.is_spent:
                return False
            for nodes in self._sets(node):
                for to in self._targets(nodes):
                    if self._moved(nodes, to):
                        helped = True
                        break
        return helped

    def joins_groups(self) -> bool:
        partition = self._partition
        helped = False
        for one in sorted(partition.members):
            if self._allowance.is_spent:
                return False
            self._allowance.spend(len(partition.members))
            for other in sorted(partition.members):
                if other <= one or not {one, other} <= partition.members.keys():
                    continue
                moving, to = (one, other) if partition.anchor(other) is not None else (other, one)
                if partition.anchor(moving) is None and partition.joins(one, other):
                    helped = self._moved(tuple(partition.members[moving]), to) or helped
        return helped

    def _sets(self, node: int) -> Iterator[tuple[int, ...]]:
        """What may move together with a node."""
        partition, layout = self._partition, self._partition.layout
        yield (node,)
        for nexts in (layout.children, layout.parents):
            inside = partition.members[partition.group_of[node]]
            together, ends = {node}, [node]
            while ends:
                more = nexts[ends.pop()] & inside - together
                together |= more
                ends += more
            if 1 < len(together) < len(inside) and max(together) < layout.count:
                yield tuple(sorted(together))

    def _targets(self, nodes: tuple[int, ...]) -> list[int]:
        partition, layout = self._partition, self._partition.layout
        here = partition.group_of[nodes[0]]
        near = {partition.group_of[neighbour] for node in nodes for neighbour in layout.near[node]}
        targets = sorted(near - {here})
        return [*targets, NEW] if len(nodes) < len(partition.members[here]) else targets

    def _moved(self, nodes: tuple[int, ...], to: int) -> bool:
        """Whether a move is possible and helps; if so, it is made."""
        partition = self._partition
        self._allowance.spend(4 + len(nodes))
        here = partition.group_of[nodes[0]]
        # What only shortens a path or saves a host is not looked for.
        helps = (
            self._overload
            or partition.layout.costs.second
            or len(nodes) >= len(partition.members[here]) - 1
            or partition.more_bridges(nodes, to) < 0
        )
        # What is a part of a group may be one.
        if not helps or not (to == NEW or partition.takes(to, nodes)):
            return False
        looked = partition.looked
        images = {group: partition.image[group] for group in (here, to) if group != NEW}
        moved = partition.move(nodes, to)
        over, cost = partition.overload(), linear(partition)
        if (over, cost) < (self._overload, self._linear + self._latency) and not partition.is_on_cycle(moved):
            slowest = latency(partition)
            self._allowance.spend(partition.layout.nodes if partition.layout.costs.hop else 0)
            if (over, cost + slowest) < (self._overload, self._linear + self._latency):
                self._overload, self._linear, self._latency = over, cost, slowest
                return True
        self._allowance.spend(20 * len(nodes) + partition.looked - looked)
        back = partition.move(nodes, here if here in partition.members else NEW)
        partition.set_image(back, images[here])
        if to != NEW:
            partition.set_image(to, images[to])
        return False


def part_branches(partition: Partition, allowance: SearchAllowance) -> Partition:
    """The partition with branches apart where that is cheaper, as far as the allowance goes."""
    best, best_score = partition, score(partition)
    if not partition.layout.costs.second:
        # Then only the number of groups and bridges counts, and branches apart have more.
        return best
    waiting = sorted(partition.members, reverse=True)
    while waiting:
        group = waiting.pop()
        for ways in ((False, False), (False, True), (True, False), (True, True)):
            if allowance.is_spent:
                return best
            parted = _parted(best, group, *ways)
            allowance.spend(8 * partition.layout.nodes + len(best.members[group]) ** 2)
            if parted is not None and (better_score := score(parted)) < best_score:
                # What is after the branches may have branches, too.
                waiting += parted.members.keys() - best.members.keys()
                best, best_score = parted, better_score
                break
    return best


def _parted(partition: Partition, group: int, with_first: bool, with_last: bool) -> Partition | None:  # noqa: FBT001 - the ways above
    """The branches of a group apart; with or without what is before them with one, and what is after with another."""
    before, branches, after = _parts(partition, group)
    anchor = partition.anchor(group)
    if len(branches) <= 1 or anchor in after:
        return None
    parted = partition.copy()
    # What is there stays where it is.
    branches.sort(key=lambda branch: (anchor not in branch, -sum(partition.layout.work[node] for node in branch)))
    keeps_first = with_first or not before or anchor in branches[0]
    last = NEW
    for branch in branches[1:] if keeps_first else branches:
        last = parted.move(branch, NEW)
    if after:
        parted.move(after, last if with_last else NEW)
    return parted


def _parts(partition: Partition, group: int) -> tuple[set[int], list[set[int]], set[int]]:
    """What of a group is before its first branches, these branches, and all that is after them."""
    layout = partition.layout
    inside = partition.members[group]
    above: dict[int, set[int]] = {}
    """For each task what of the group is before it."""
    below: dict[int, set[int]] = {node: set() for node in inside}
    for node in (member for member in layout.order if member in inside):
        parents = layout.parents[node] & inside
        above[node] = parents.union(*(above[parent] for parent in parents))
        for earlier in above[node]:
            below[earlier].add(node)
    between = {node for node in inside if len(above[node]) + len(below[node]) + 1 < len(inside)}
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(sorted(between))
    graph.add_edges_from((node, child) for node in between for child in layout.children[node] & between)
    branches = [set(component) for component in nx.connected_components(graph)]
    depths = [len(set[int]().union(*(above[node] - between for node in branch))) for branch in branches]
    first = [branch for branch, depth in zip(branches, depths, strict=True) if depth == min(depths)]
    before = {earlier for branch in first for node in branch for earlier in above[node] - between}
    return before, first, inside - before - set[int]().union(*first)


_PARTS = (0.5, 0.2, 0.05)
"""What parts of the capacity the clusters have that a group is divided into."""


def dissolve_groups(partition: Partition, allowance: SearchAllowance) -> Partition:
    """The partition without the groups that are cheaper to do without, those with least work first.

    It ends once nothing is left of the allowance.
    """
    best, best_score = partition, score(partition)
    for part in _PARTS:
        if allowance.is_spent:
            break
        clusters = clustered(partition.layout, part)
        allowance.spend(2 * partition.layout.nodes)
        for group in sorted(partition.members, key=lambda group: (partition.work[group], group)):
            if group not in best.members or best.anchor(group) is not None or allowance.is_spent:
                continue
            smaller = _without(best, group, clusters, allowance)
            if smaller is not None and (better_score := score(smaller)) < best_score:
                best, best_score = smaller, better_score
    return best


def _without(partition: Partition, group: int, clusters: Partition, allowance: SearchAllowance) -> Partition | None:
    """The partition without a group; None if its tasks do not fit into the others."""
    allowance.spend(4 * partition.layout.nodes)
    smaller = partition.copy()
    pieces: defaultdict[int, list[int]] = defaultdict(list)
    for node in sorted(partition.members[group]):
        pieces[clusters.group_of[node]].append(node)
    work = {cluster: sum(partition.layout.work[node] for node in nodes) for cluster, nodes in pieces.items()}
    # Those with most work first, because they fit into fewest.
    for cluster in sorted(pieces, key=lambda cluster: (-work[cluster], cluster)):
        nodes = tuple(pieces[cluster])
        allowance.spend(4 * len(smaller.members))
        ways = sorted(
            (smaller.more_bridges(nodes, to), -smaller.work[to], to)
            for to in smaller.members
            if to != group and smaller.takes(to, nodes)
        )
        if not any(_moves(smaller, nodes, to) for _, _, to in ways):
            return None
    return smaller


def _moves(partition: Partition, nodes: tuple[int, ...], to: int) -> bool:
    """Whether tasks can move to a group that takes them; if so, they do."""
    here, over = partition.group_of[nodes[0]], partition.overload()
    partition.move(nodes, to)
    if not partition.is_on_cycle(to) and partition.overload() <= over:
        return True
    partition.move(nodes, here if here in partition.members else NEW)
    return False
