"""Baselines of grouping: groups at random, as in the paper, and first fit decreasing over connections.

At random, an image is drawn, then how many of the tasks that it can run, then which; they become a group. So on until
no task is left. Tasks that would make the graph of groups cyclic, or a group too large, are left for later ones. Groups
that are beyond the limits of images are drawn again.

First fit is how somebody without this project would cut tasks into groups. The tasks with most streams come first. Each
goes into the first group that may have it, beginning with those of what it has streams with.
"""

import random

from merge.grouping import Grouping, GroupingProblem
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition, grouping_of
from merge.grouping.problem import SearchAllowance

_DRAWS = 50
"""How often groups are drawn at most."""


def at_random(problem: GroupingProblem, seed: int = 1, seconds: float = 2.0) -> Grouping:
    """Random groups; the same for the same seed."""
    layout, allowance = NodeLayout(problem), SearchAllowance(seconds)
    draw = random.Random(seed)
    partition = _drawn(layout, draw, allowance)
    for _ in range(_DRAWS - 1):
        if not partition.overload() or allowance.is_spent:
            break
        partition = _drawn(layout, draw, allowance)
    return grouping_of(partition)


def _drawn(layout: NodeLayout, draw: random.Random, allowance: SearchAllowance) -> Partition:
    partition = Partition(layout)
    left = list(range(layout.count))
    while left:
        image = draw.choice(
            [at for at in range(len(layout.images)) if any(layout.masks[node] >> at & 1 for node in left)]
        )
        able = [node for node in left if layout.masks[node] >> image & 1]
        allowance.spend(4 * len(left))
        first, *others = draw.sample(able, draw.randint(1, len(able)))
        group = partition.group_of[first]
        partition.set_image(group, image)
        gone = {first}
        for other in others:
            if partition.joins(group, partition.group_of[other]):
                partition.move((other,), group)
                gone.add(other)
        left = [node for node in left if node not in gone]
    return partition


def first_fit(problem: GroupingProblem) -> Grouping:
    """The groups."""
    layout = NodeLayout(problem)
    partition = Partition(layout)
    groups: list[int] = []
    for node in sorted(range(layout.count), key=lambda node: (-len(layout.near[node]), node)):
        near = {partition.group_of[other] for other in layout.near[node]}
        ordered = sorted(groups, key=lambda group: (group not in near, groups.index(group)))
        to = next((group for group in ordered if partition.joins(node, group)), None)
        if to is None:
            groups.append(node)
        else:
            partition.move((node,), to)
    return grouping_of(partition)
