"""What groups cost, their order, and what is wrong with them: straight from the definitions, for any answer.

None of it relies on the figures that searches keep, so it can judge any answer: of strategies, planners and people. In
their order, each group is after those that feed it.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import networkx as nx

from merge.grouping.problem import Expense, Group, GroupedTask, GroupId, GroupingProblem, TaskId

_EDGE = 1e-6
"""By how many cores work may exceed the hosts that it fills, since decimal fractions are rounded."""
Place = tuple[str, GroupId]
"""A group: its present id, or its number among the new ones."""


def cost_of(problem: GroupingProblem, groups: Sequence[Group]) -> Expense:
    """What groups cost beyond what is paid anyway; they have every task, and make no cycle."""
    costs = problem.costs
    places = places_of(problem, groups)
    works = work_of(problem, groups)
    new_hosts = {image.name: _new_hosts(problem, groups, works, image.name) for image in problem.images}
    movable = {task.id for task in problem.tasks}
    return Expense(
        groups=costs.cores(0.0) * sum(1 for group in groups if group.tasks and group.present is None),
        bridges=costs.bridge * (len(_bridges(problem, places)) - len(_bridges(problem, places, without=movable))),
        latency=_latency(problem, places, works),
        starts=costs.start * sum(new_hosts[image.name] * image.start for image in problem.images),
        prices=costs.price * sum(new_hosts[image.name] * image.price for image in problem.images),
    )


def places_of(problem: GroupingProblem, groups: Sequence[Group]) -> dict[TaskId, Place]:
    """The group of every task, of those that stay too."""
    places: dict[TaskId, Place] = {task: ("present", group.id) for group in problem.present for task in group.tasks}
    for number, group in enumerate(groups):
        here = ("new", number) if group.present is None else ("present", group.present)
        places |= dict.fromkeys(group.tasks, here)
    return places


def work_of(problem: GroupingProblem, groups: Sequence[Group]) -> dict[Place, float]:
    """The work of every group that runs something, with what stays there."""
    works: defaultdict[Place, float] = defaultdict(float)
    for present in problem.present:
        works["present", present.id] = present.work
    work = {task.id: task.work for task in problem.tasks}
    for number, group in enumerate(groups):
        here = ("new", number) if group.present is None else ("present", group.present)
        works[here] += math.fsum(work[task] for task in group.tasks)
    return works


def taken(problem: GroupingProblem, groups: Sequence[Group], works: dict[Place, float], image: str) -> float:
    """The cores that groups take of the hosts of an image."""
    here = [("present", group.id) for group in problem.present if group.image == image]
    here += [("new", at) for at, group in enumerate(groups) if group.present is None and group.image == image]
    return math.fsum(problem.costs.cores(works[place]) for place in here if place in works)


def _new_hosts(problem: GroupingProblem, groups: Sequence[Group], works: dict[Place, float], name: str) -> int:
    image = next(image for image in problem.images if image.name == name)
    needed = math.ceil((taken(problem, groups, works, name) - _EDGE) / image.cores)
    return max(0, needed - image.there)


def _bridges(
    problem: GroupingProblem, places: dict[TaskId, Place], without: set[TaskId] | frozenset[TaskId] = frozenset()
) -> set[tuple[TaskId, str, Place]]:
    """What is sent to which group; without some tasks, what the others have sent anyway."""
    return {
        (stream.parent, stream.port, places[stream.child])
        for stream in problem.streams
        if not stream.raw
        and without.isdisjoint((stream.parent, stream.child))
        and places[stream.parent] != places[stream.child]
    }


def _latency(problem: GroupingProblem, places: dict[TaskId, Place], works: dict[Place, float]) -> float:
    """What the slowest path is worth: its bridges, and the batches of its groups."""
    graph: nx.DiGraph[Place] = nx.DiGraph()
    graph.add_nodes_from(works)
    for stream in problem.streams:
        if not stream.raw and places[stream.parent] != places[stream.child]:
            graph.add_edge(places[stream.parent], places[stream.child])
    reached: dict[Place, float] = {}
    for place in nx.topological_sort(graph):
        before = max((reached[above] + problem.costs.hop for above in graph.predecessors(place)), default=0.0)
        reached[place] = before + problem.costs.second * problem.costs.batch_of(works[place])
    return max(reached.values(), default=0.0)


def arranged(problem: GroupingProblem, groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups in order; as they are if they wait for each other, which `problems_of` says then."""
    places = places_of(problem, groups)
    named = {places[group.tasks[0]]: group for group in groups if group.tasks}
    graph: nx.DiGraph[Place] = nx.DiGraph()
    graph.add_nodes_from(named)
    graph.add_edges_from(
        (places[stream.parent], places[stream.child])
        for stream in problem.streams
        if places[stream.parent] != places[stream.child]
    )
    if not nx.is_directed_acyclic_graph(graph):
        return tuple(groups)
    return tuple(named[place] for place in nx.topological_sort(graph) if place in named)


_ROUNDING = 1e-6
"""By how many cores sums may exceed a limit, since decimal fractions are rounded."""


def problems_of(problem: GroupingProblem, groups: Sequence[Group]) -> tuple[str, ...]:
    """What is wrong with groups as an answer to a problem; nothing if they are one."""
    strange = tuple(_strange(problem, groups))
    if strange:
        return strange
    by_id = {task.id: task for task in problem.tasks}
    of_groups = (wrong for group in groups for wrong in _within(problem, group, [by_id[task] for task in group.tasks]))
    return (*of_groups, *_cores(problem, groups), *_cycle(problem, groups))


def _strange(problem: GroupingProblem, groups: Sequence[Group]) -> Iterator[str]:
    asked = {task.id for task in problem.tasks}
    counts = Counter(task for group in groups for task in group.tasks)
    yield from (f"task {task!r} is in no group" for task in asked if task not in counts)
    yield from (f"task {task!r} is not to be grouped" for task in counts if task not in asked)
    yield from (f"task {task!r} is in {count} groups" for task, count in counts.items() if count > 1)
    images = {image.name for image in problem.images}
    yield from (f"there is no image {group.image!r}" for group in groups if group.image not in images)
    there = {group.id: group for group in problem.present}
    joined = Counter(group.present for group in groups if group.present is not None)
    yield from (f"no group {id_!r} is there" for id_ in joined if id_ not in there)
    yield from (f"group {id_!r} is named {count} times" for id_, count in joined.items() if count > 1)
    yield from ("a group is empty" for group in groups if not group.tasks)
    for group in groups:
        present = there.get(group.present) if group.present is not None else None
        if present and present.image != group.image:
            yield f"group {present.id!r} has image {present.image!r}, not {group.image!r}"


def _within(problem: GroupingProblem, group: Group, tasks: Sequence[GroupedTask]) -> Iterator[str]:
    shown = f"the group of {group.tasks[0]!r} on {group.image!r}"
    image = next(image for image in problem.images if image.name == group.image)
    present = next((there for there in problem.present if there.id == group.present), None)
    lacking = frozenset[str]().union(*(task.tags for task in tasks)) - image.tags
    if lacking:
        yield f"{shown} lacks {', '.join(sorted(lacking))}"
    owners = {task.owner for task in tasks} | ({present.owner} if present else set())
    if len(owners - {""}) > 1:
        yield f"{shown} mixes code of {', '.join(sorted(owners - {''}))}"
    work = math.fsum(task.work for task in tasks) + (present.work if present else 0.0)
    if (len(tasks) > 1 or present) and not problem.costs.fits(work - _ROUNDING):
        yield f"{shown} is beyond capacity with {work:g} cores of work"
    if present and not present.takes_more:
        yield f"{shown} takes no more tasks"


def _cores(problem: GroupingProblem, groups: Sequence[Group]) -> Iterator[str]:
    works, before = work_of(problem, groups), work_of(problem, ())
    for image in problem.images:
        needed = taken(problem, groups, works, image.name)
        # What stays is there already, and may be more than there should be.
        if image.limit is not None and needed > max(image.limit, taken(problem, (), before, image.name)) + _ROUNDING:
            yield f"image {image.name!r} needs {needed:g} cores and has {image.limit:g}"


def _cycle(problem: GroupingProblem, groups: Sequence[Group]) -> Iterator[str]:
    places = places_of(problem, groups)
    order = {places[group.tasks[0]]: at for at, group in enumerate(groups)}
    feeding = {(places[stream.parent], places[stream.child]) for stream in problem.streams}
    graph = nx.DiGraph([edge for edge in feeding if edge[0] != edge[1]])
    if not nx.is_directed_acyclic_graph(graph):
        yield f"groups wait for each other: {nx.find_cycle(graph)}"
    elif any(order.get(parent, -1) > order.get(child, len(order)) for parent, child in graph.edges):
        yield "a group is listed before one that feeds it"
