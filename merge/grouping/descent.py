"""Descent: a partition changed step by step while that makes it cheaper.

A step moves a task, or with it all of its group that follows or precedes it, to another group that streams join it
with, to the one that ran it, or to a new one; or it makes two groups one. What is still cheaper after no such step is
for the solver to find.
"""

from collections.abc import Iterator

from merge.grouping.effort import SearchAllowance
from merge.grouping.partition import NEW, Partition
from merge.grouping.score import latency, linear


def descend(partition: Partition, allowance: SearchAllowance) -> None:
    """Take steps until none helps, or nothing is left of the allowance."""
    search = _Descent(partition, allowance)
    while search.moves_tasks() or search.joins_groups():
        pass


class _Descent:
    def __init__(self, partition: Partition, allowance: SearchAllowance) -> None:
        self._partition = partition
        self._allowance = allowance
        self._overload, self._linear, self._latency = partition.overload(), linear(partition), latency(partition)

    def moves_tasks(self) -> bool:
        """Whether moving tasks helped."""
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
        """Whether making two groups one helped."""
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
            inside = partition.members[partition.of[node]]
            found, ends = {node}, [node]
            while ends:
                more = nexts[ends.pop()] & inside - found
                found |= more
                ends += more
            if 1 < len(found) < len(inside) and max(found) < layout.count:
                yield tuple(sorted(found))

    def _targets(self, nodes: tuple[int, ...]) -> list[int]:
        """Where nodes may move to."""
        partition, layout = self._partition, self._partition.layout
        here = partition.of[nodes[0]]
        near = {partition.of[each] for node in nodes for each in layout.near[node]}
        near |= {partition.of[layout.home[node]] for node in nodes if layout.home[node] >= 0}
        found = sorted(near - {here})
        return [*found, NEW] if len(nodes) < len(partition.members[here]) else found

    def _may_help(self, nodes: tuple[int, ...], here: int, to: int) -> bool:
        """Whether a move may make anything cheaper; what only shortens a path or saves a host is not looked for."""
        partition, layout = self._partition, self._partition.layout
        return (
            bool(self._overload or layout.costs.second)
            or len(nodes) >= len(partition.members[here]) - 1
            or any(layout.home[node] >= 0 for node in nodes)
            or partition.more_bridges(nodes, to) < 0
        )

    def _moved(self, nodes: tuple[int, ...], to: int) -> bool:
        """Whether a move is possible and helps; if so, it is made."""
        partition = self._partition
        self._allowance.spend(4 + len(nodes))
        here = partition.of[nodes[0]]
        # What is a part of a group may be one.
        if not self._may_help(nodes, here, to) or not (to == NEW or partition.takes(to, nodes)):
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
