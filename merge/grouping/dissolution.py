"""Dissolution: a group given up, and its tasks divided among the others, where the bridges cost less than the group."""

from collections import defaultdict

from merge.grouping.effort import SearchAllowance
from merge.grouping.packing import clustered
from merge.grouping.partition import NEW, Partition
from merge.grouping.score import score

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
        for group in sorted(partition.members, key=lambda each: (partition.work[each], each)):
            if group not in best.members or best.anchor(group) is not None or allowance.is_spent:
                continue
            found = _without(best, group, clusters, allowance)
            if found is not None and (found_score := score(found)) < best_score:
                best, best_score = found, found_score
    return best


def _without(partition: Partition, group: int, clusters: Partition, allowance: SearchAllowance) -> Partition | None:
    """The partition without a group; None if its tasks do not fit into the others."""
    allowance.spend(4 * partition.layout.nodes)
    found = partition.copy()
    pieces: defaultdict[int, list[int]] = defaultdict(list)
    for node in sorted(partition.members[group]):
        pieces[clusters.of[node]].append(node)
    work = {cluster: sum(partition.layout.work[node] for node in nodes) for cluster, nodes in pieces.items()}
    # Those with most work first, because they fit into fewest.
    for cluster in sorted(pieces, key=lambda each: (-work[each], each)):
        nodes = tuple(pieces[cluster])
        allowance.spend(4 * len(found.members))
        ways = sorted(
            (found.more_bridges(nodes, to), -found.work[to], to)
            for to in found.members
            if to != group and found.takes(to, nodes)
        )
        if not any(_moves(found, nodes, to) for _, _, to in ways):
            return None
    return found


def _moves(partition: Partition, nodes: tuple[int, ...], to: int) -> bool:
    """Whether tasks can move to a group that takes them; if so, they do."""
    here, over = partition.of[nodes[0]], partition.overload()
    partition.move(nodes, to)
    if not partition.is_on_cycle(to) and partition.overload() <= over:
        return True
    partition.move(nodes, here if here in partition.members else NEW)
    return False
