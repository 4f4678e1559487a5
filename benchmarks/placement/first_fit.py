"""First fit decreasing over connections: how somebody without this project would cut tasks into groups.

The tasks with most streams come first. Each goes into the first group that may have it, beginning with those of what it
has streams with.
"""

from merge.grouping import Grouping, GroupingProblem
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import Partition, grouping_of


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
