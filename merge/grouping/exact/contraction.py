"""Contraction: a problem whose tasks are the clusters of another one, and what its answers mean there.

It is for finding good groups quickly, so it leaves out what makes the solver slow and decides little among few groups:
the slowest path, and the price of hosts.
"""

from dataclasses import replace

from merge.grouping.grouping_problem import GroupedStream, GroupedTask, GroupingProblem
from merge.grouping.layout import NANOCORES, NodeLayout
from merge.grouping.partition import NEW, Partition


class Contraction:
    """A problem of clusters, and of present groups as they are."""

    def __init__(self, clusters: Partition) -> None:
        """Make each group that is not there already a task."""
        self._of = layout = clusters.layout
        self._clusters: dict[int | str, list[int]] = {
            group: sorted(nodes) for group, nodes in clusters.members.items() if clusters.anchor(group) is None
        }
        numbers: dict[int, int | str] = {node: f"stays {node}" for node in range(layout.count, layout.nodes)}
        numbers |= {node: group for group, nodes in self._clusters.items() for node in nodes}
        self.layout = NodeLayout(
            GroupingProblem(
                tasks=tuple(self._task(group, nodes) for group, nodes in self._clusters.items()),
                streams=tuple(
                    GroupedStream(parent=numbers[flow.parent], child=numbers[child], port=str(at), raw=flow.raw)
                    for at, flow in enumerate(layout.flows)
                    for child in flow.children
                    if numbers[flow.parent] != numbers[child]
                ),
                images=layout.problem.images,
                costs=replace(layout.costs, hop=0.0, second=0.0, start=0.0, price=0.0),
                present=tuple(
                    replace(group, tasks=self._home(at, f"stays {layout.count + at}", stays=group.stays))
                    for at, group in enumerate(layout.present)
                ),
            )
        )

    def _task(self, group: int | str, nodes: list[int]) -> GroupedTask:
        tasks = [self._of.tasks[node] for node in nodes]
        return GroupedTask(
            id=group,
            tags=frozenset[str]().union(*(task.tags for task in tasks)),
            work=sum(self._of.work[node] for node in nodes) / NANOCORES,
            owner=max(task.owner for task in tasks),
        )

    def _home(self, present: int, name: str, *, stays: bool) -> frozenset[int | str]:
        """The clusters whose first task a present group runs, and what stays there."""
        home = self._of.count + present
        clusters = frozenset(group for group, nodes in self._clusters.items() if self._of.home[nodes[0]] == home)
        return clusters | {name} if stays else clusters

    def expanded(self, found: Partition) -> Partition:
        """A partition of the clusters as one of the tasks."""
        result = Partition(self._of)
        for group, nodes in found.members.items():
            clusters = [self.layout.tasks[each].id for each in nodes if each < self.layout.count]
            members = [node for cluster in clusters for node in self._clusters[cluster]]
            anchor = found.anchor(group)
            if members:
                to = NEW if anchor is None else result.of[self._of.count + anchor - self.layout.count]
                result.set_image(result.move(members, to), found.image[group])
        return result
