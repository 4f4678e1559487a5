"""The order of running tasks: each after its parents.

A task that is merged is younger than its parents, so mostly the order of their numbers does. A task that was inserted
while others ran is younger than those it feeds.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from merge.task import Instance, RunningTask


def downwards(tasks: Iterable[RunningTask]) -> tuple[RunningTask, ...]:
    """The tasks, each after its parents; else by their numbers."""
    there = {task.instance: task for task in sorted(tasks, key=lambda task: task.instance)}
    if all(edge.parent < task.instance or edge.parent not in there for task in there.values() for edge in task.inputs):
        return tuple(there.values())
    awaited: dict[Instance, int] = {}
    children: dict[Instance, list[Instance]] = {}
    for instance, task in there.items():
        above = {Instance(edge.parent) for edge in task.inputs if edge.parent in there}
        awaited[instance] = len(above)
        for parent in above:
            children.setdefault(parent, []).append(instance)
    ready = [instance for instance, count in awaited.items() if not count]
    heapify(ready)
    found: list[RunningTask] = []
    while ready:
        instance = heappop(ready)
        found.append(there[instance])
        for child in children.get(instance, ()):
            awaited[child] -= 1
            if not awaited[child]:
                heappush(ready, child)
    return tuple(found)
