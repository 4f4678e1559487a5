"""The strategies by which tasks are cut into groups, by name; `random` and `hybrid` are here.

`random` is the baseline of the paper: an image is drawn, then how many of the tasks that it can run, then which. Tasks
that would make the graph of groups cyclic, or a group too large, are left for later ones. Groups that are beyond the
limits of images are drawn again.

`hybrid` begins with the cheapest of the groups of `connection`, those of `node`, and some that are packed, and improves
them by the model. The groups of `connection` are made whatever the effort; what comes then takes no more than that.

`connection` and `node` are in `merge/grouping/construction.py`, `optimal` and `plan` in `merge/grouping/optimal.py`,
which is loaded only when one of these is asked for.
"""

import random
from collections.abc import Callable, Iterator, Mapping

from merge.grouping.construction import connected, connection, filled, node, packed
from merge.grouping.improvement import descend, dissolve_groups, part_branches
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition, grouping_of, score, settle_images
from merge.grouping.problem import Effort, Grouping, GroupingProblem, SearchAllowance

_DRAWS = 50
"""How often groups are drawn at most."""


def at_random(problem: GroupingProblem, effort: Effort) -> Grouping:
    """Random groups; the same for the same seed."""
    layout, allowance = NodeLayout(problem), SearchAllowance(effort.seconds)
    draw = random.Random(effort.seed)  # noqa: S311 - it keeps no secret
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
            [at for at in range(len(layout.images)) if any(layout.may[node] >> at & 1 for node in left)]
        )
        able = [node for node in left if layout.may[node] >> image & 1]
        allowance.spend(4 * len(left))
        first, *others = draw.sample(able, draw.randint(1, len(able)))
        group = partition.of[first]
        partition.set_image(group, image)
        gone = {first}
        for other in others:
            if partition.joins(group, partition.of[other]):
                partition.move((other,), group)
                gone.add(other)
        left = [node for node in left if node not in gone]
    return partition


_PARTS = (1.0, 0.7, 0.5, 0.25)
"""What parts of the capacity clusters have that groups are packed with."""
_FIRST = 80
"""What the layout and the first groups take for each task and stream, in steps."""


def hybrid(problem: GroupingProblem, seconds: float) -> Grouping:
    """Groups that are never dearer than those of `connection`."""
    return grouping_of(improved(NodeLayout(problem), SearchAllowance(seconds)))


def improved(layout: NodeLayout, allowance: SearchAllowance) -> Partition:
    """The same, as a partition."""
    allowance.spend(_FIRST * (layout.nodes + len(layout.streams)))
    begin = connected(layout)
    beginnings = allowance.part(0.4)
    best = min([begin, *_others(layout, beginnings)], key=score).copy()
    allowance.back(beginnings)
    best = in_stages(allowance, best)
    return min(begin, best, key=score)


def in_stages(allowance: SearchAllowance, partition: Partition) -> Partition:
    """A partition improved by all that there is, in turn."""
    stages: tuple[tuple[float, Callable[[Partition, SearchAllowance], Partition]], ...] = (
        (0.4, _descended),
        (0.5, dissolve_groups),
        (0.5, part_branches),
        (1.0, _descended),
    )
    for share, stage in stages:
        part = allowance.part(share)
        partition = stage(partition, part)
        allowance.back(part)
    settle_images(partition)
    return partition


def _others(layout: NodeLayout, allowance: SearchAllowance) -> Iterator[Partition]:
    """What else it may begin with, as far as the allowance goes."""
    if not allowance.is_spent:
        yield filled(layout, allowance)
    for part in _PARTS:
        if not allowance.is_spent:
            yield packed(layout, part, allowance)


def _descended(partition: Partition, allowance: SearchAllowance) -> Partition:
    descend(partition, allowance)
    return partition


# Loading the solver takes a second, and most that imports this never solves anything.
def _optimal(problem: GroupingProblem, effort: Effort) -> Grouping:
    from merge.grouping.optimal import optimal  # noqa: PLC0415 - as above

    return optimal(problem, effort.seconds)


def _plan(problem: GroupingProblem, effort: Effort) -> Grouping:
    from merge.grouping.optimal import best_plan  # noqa: PLC0415 - as above

    return best_plan(problem, effort.seconds)


GROUPING_STRATEGIES: Mapping[str, Callable[[GroupingProblem, Effort], Grouping]] = {
    "random": at_random,
    "node": lambda problem, _: node(problem),
    "connection": lambda problem, _: connection(problem),
    "hybrid": lambda problem, effort: hybrid(problem, effort.seconds),
    "optimal": _optimal,
    "plan": _plan,
}
"""What answers a problem, by name."""
