"""The expense of a grouping, straight from its definition."""

import math
from collections import defaultdict
from collections.abc import Sequence

import networkx as nx

from merge.grouping.grouping_problem import GroupId, GroupingProblem, TaskId
from merge.grouping.groups import Expense, Group

_EDGE = 1e-6
"""By how many cores work may exceed the hosts that it fills, since decimal fractions are rounded."""
Place = tuple[str, GroupId]
"""A group: its present id, or its number among the new ones."""


def cost_of(problem: GroupingProblem, groups: Sequence[Group]) -> Expense:
    """What groups cost beyond what is paid anyway; they have every task, and make no cycle."""
    costs = problem.costs
    there = {group.id: group for group in problem.present}
    places = places_of(problem, groups)
    works = work_of(problem, groups)
    before = {task: group.id for group in problem.present for task in group.tasks}
    new_hosts = {image.name: _new_hosts(problem, groups, works, image.name) for image in problem.images}
    movable = {task.id for task in problem.tasks}
    return Expense(
        groups=costs.cores(0.0)
        * sum(1 for group in groups if group.tasks and (group.present is None or not there[group.present].stays)),
        bridges=costs.bridge * (len(_bridges(problem, places)) - len(_bridges(problem, places, without=movable))),
        latency=_latency(problem, places, works),
        starts=costs.start * sum(new_hosts[image.name] * image.start for image in problem.images),
        prices=costs.price * sum(new_hosts[image.name] * image.price for image in problem.images),
        moves=costs.move * sum(1 for task in movable if task in before and places[task] != ("present", before[task])),
    )


def places_of(problem: GroupingProblem, groups: Sequence[Group]) -> dict[TaskId, Place]:
    """The group of every task, of those that stay too."""
    movable = {task.id for task in problem.tasks}
    places: dict[TaskId, Place] = {
        task: ("present", group.id) for group in problem.present for task in group.tasks if task not in movable
    }
    for number, group in enumerate(groups):
        here = ("new", number) if group.present is None else ("present", group.present)
        places |= dict.fromkeys(group.tasks, here)
    return places


def work_of(problem: GroupingProblem, groups: Sequence[Group]) -> dict[Place, float]:
    """The work of every group that runs something, with what stays there."""
    works: defaultdict[Place, float] = defaultdict(float)
    for each in problem.present:
        if each.stays:
            works["present", each.id] = each.work
    of = {task.id: task.work for task in problem.tasks}
    for number, group in enumerate(groups):
        here = ("new", number) if group.present is None else ("present", group.present)
        works[here] += math.fsum(of[task] for task in group.tasks)
    return works


def taken(problem: GroupingProblem, groups: Sequence[Group], works: dict[Place, float], image: str) -> float:
    """The cores that groups take of the hosts of an image."""
    here = [("present", group.id) for group in problem.present if group.image == image]
    here += [("new", at) for at, group in enumerate(groups) if group.present is None and group.image == image]
    return math.fsum(problem.costs.cores(works[each]) for each in here if each in works)


def _new_hosts(problem: GroupingProblem, groups: Sequence[Group], works: dict[Place, float], name: str) -> int:
    image = next(each for each in problem.images if each.name == name)
    needed = math.ceil((taken(problem, groups, works, name) - _EDGE) / image.cores)
    return max(0, needed - image.there)


def _bridges(
    problem: GroupingProblem, places: dict[TaskId, Place], without: set[TaskId] | frozenset[TaskId] = frozenset()
) -> set[tuple[TaskId, str, Place]]:
    """What is sent to which group; without some tasks, what the others have sent anyway."""
    return {
        (each.parent, each.port, places[each.child])
        for each in problem.streams
        if not each.raw and without.isdisjoint((each.parent, each.child)) and places[each.parent] != places[each.child]
    }


def _latency(problem: GroupingProblem, places: dict[TaskId, Place], works: dict[Place, float]) -> float:
    """What the slowest path is worth: its bridges, and the batches of its groups."""
    graph: nx.DiGraph[Place] = nx.DiGraph()
    graph.add_nodes_from(works)
    for each in problem.streams:
        if not each.raw and places[each.parent] != places[each.child]:
            graph.add_edge(places[each.parent], places[each.child])
    reached: dict[Place, float] = {}
    for place in nx.topological_sort(graph):
        before = max((reached[each] + problem.costs.hop for each in graph.predecessors(place)), default=0.0)
        reached[place] = before + problem.costs.second * problem.costs.batch_of(works[place])
    return max(reached.values(), default=0.0)
