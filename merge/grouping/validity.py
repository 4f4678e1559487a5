"""The validity of groups, straight from its definition, for any answer from anywhere."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import networkx as nx

from merge.grouping.expense import places_of, taken, work_of
from merge.grouping.grouping_problem import GroupedTask, GroupingProblem
from merge.grouping.groups import Group

_ROUNDING = 1e-6
"""By how many cores sums may exceed a limit, since decimal fractions are rounded."""


def problems_of(problem: GroupingProblem, groups: Sequence[Group]) -> tuple[str, ...]:
    """What is wrong with groups as an answer to a problem; nothing if they are one."""
    strange = tuple(_strange(problem, groups))
    if strange:
        return strange
    of = {task.id: task for task in problem.tasks}
    each_group = (wrong for group in groups for wrong in _within(problem, group, [of[task] for task in group.tasks]))
    return (*each_group, *_cores(problem, groups), *_cycle(problem, groups))


def _strange(problem: GroupingProblem, groups: Sequence[Group]) -> Iterator[str]:
    """What makes them no groups of this problem at all."""
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
    """What is wrong within one group."""
    shown = f"the group of {group.tasks[0]!r} on {group.image!r}"
    image = next(each for each in problem.images if each.name == group.image)
    present = next((each for each in problem.present if each.id == group.present), None)
    lacking = frozenset[str]().union(*(task.tags for task in tasks)) - image.tags
    if lacking:
        yield f"{shown} lacks {', '.join(sorted(lacking))}"
    stays = present is not None and present.stays
    owners = {task.owner for task in tasks} | ({present.owner} if present and stays else set())
    if len(owners - {""}) > 1:
        yield f"{shown} mixes code of {', '.join(sorted(owners - {''}))}"
    work = math.fsum(task.work for task in tasks) + (present.work if present and stays else 0.0)
    if (len(tasks) > 1 or stays) and not problem.costs.fits(work - _ROUNDING):
        yield f"{shown} is beyond capacity with {work:g} cores of work"
    if present and not present.takes_more and not set(group.tasks) <= present.tasks:
        yield f"{shown} takes no more tasks"


def _cores(problem: GroupingProblem, groups: Sequence[Group]) -> Iterator[str]:
    """Which images have too few hosts."""
    works, before = work_of(problem, groups), work_of(problem, ())
    for image in problem.images:
        needed = taken(problem, groups, works, image.name)
        # What stays is there already, and may be more than there should be.
        if image.limit is not None and needed > max(image.limit, taken(problem, (), before, image.name)) + _ROUNDING:
            yield f"image {image.name!r} needs {needed:g} cores and has {image.limit:g}"


def _cycle(problem: GroupingProblem, groups: Sequence[Group]) -> Iterator[str]:
    """Whether groups wait for each other, or are listed before what feeds them."""
    places = places_of(problem, groups)
    order = {places[group.tasks[0]]: at for at, group in enumerate(groups)}
    feeding = {(places[each.parent], places[each.child]) for each in problem.streams}
    graph = nx.DiGraph([each for each in feeding if each[0] != each[1]])
    if not nx.is_directed_acyclic_graph(graph):
        yield f"groups wait for each other: {nx.find_cycle(graph)}"
    elif any(order.get(parent, -1) > order.get(child, len(order)) for parent, child in graph.edges):
        yield "a group is listed before one that feeds it"
