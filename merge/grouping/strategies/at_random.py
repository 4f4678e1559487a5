"""`random`: images and tasks at random, the baseline of the paper.

An image is drawn, then how many of the tasks that it can run, then which; they become a group. So on until no task is
left. Tasks that would make the graph of groups cyclic, or a group too large, are left for later ones.
"""

import random

from merge.grouping.grouping_problem import GroupingProblem
from merge.grouping.groups import Grouping
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition
from merge.grouping.score import grouping_of


def at_random(problem: GroupingProblem, seed: int) -> Grouping:
    """Random groups; the same for the same seed."""
    layout = NodeLayout(problem)
    draw = random.Random(seed)  # noqa: S311 - it keeps no secret
    partition = Partition(layout)
    left = list(range(layout.count))
    while left:
        image = draw.choice(
            [at for at in range(len(layout.images)) if any(layout.may[node] >> at & 1 for node in left)]
        )
        able = [node for node in left if layout.may[node] >> image & 1]
        first, *others = draw.sample(able, draw.randint(1, len(able)))
        group = partition.of[first]
        partition.set_image(group, image)
        for node in others:
            if partition.joins(group, partition.of[node]):
                partition.move((node,), group)
                left.remove(node)
        left.remove(first)
    return grouping_of(partition)
