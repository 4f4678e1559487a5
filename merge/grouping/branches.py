"""Branches: the parts of a group that run side by side, so that they may be groups of their own.

A task that comes before or after every other one of its group is on no branch. What is left without these falls into
branches.
"""

import networkx as nx

from merge.grouping.effort import SearchAllowance
from merge.grouping.partition import NEW, Partition
from merge.grouping.score import score


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
            found = _parted(best, group, *ways)
            allowance.spend(8 * partition.layout.nodes + len(best.members[group]) ** 2)
            if found is not None and (found_score := score(found)) < best_score:
                # What is after the branches may have branches, too.
                waiting += found.members.keys() - best.members.keys()
                best, best_score = found, found_score
                break
    return best


def _parted(partition: Partition, group: int, with_first: bool, with_last: bool) -> Partition | None:  # noqa: FBT001 - the ways above
    """The branches of a group apart; with or without what is before them with one, and what is after with another."""
    before, branches, after = _parts(partition, group)
    anchor = partition.anchor(group)
    if len(branches) <= 1 or anchor in after:
        return None
    found = partition.copy()
    # What is there stays where it is.
    branches.sort(key=lambda branch: (anchor not in branch, -sum(partition.layout.work[each] for each in branch)))
    keeps_first = with_first or not before or anchor in branches[0]
    last = NEW
    for branch in branches[1:] if keeps_first else branches:
        last = found.move(branch, NEW)
    if after:
        found.move(after, last if with_last else NEW)
    return found


def _parts(partition: Partition, group: int) -> tuple[set[int], list[set[int]], set[int]]:
    """What of a group is before its first branches, these branches, and all that is after them."""
    layout = partition.layout
    inside = partition.members[group]
    above: dict[int, set[int]] = {}
    """For each task what of the group is before it."""
    below: dict[int, set[int]] = {node: set() for node in inside}
    for node in (each for each in layout.order if each in inside):
        parents = layout.parents[node] & inside
        above[node] = parents.union(*(above[parent] for parent in parents))
        for each in above[node]:
            below[each].add(node)
    between = {node for node in inside if len(above[node]) + len(below[node]) + 1 < len(inside)}
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(sorted(between))
    graph.add_edges_from((node, child) for node in between for child in layout.children[node] & between)
    branches = [set(each) for each in nx.connected_components(graph)]
    depths = [len(set[int]().union(*(above[node] - between for node in branch))) for branch in branches]
    first = [branch for branch, depth in zip(branches, depths, strict=True) if depth == min(depths)]
    before = {each for branch in first for node in branch for each in above[node] - between}
    return before, first, inside - before - set[int]().union(*first)
