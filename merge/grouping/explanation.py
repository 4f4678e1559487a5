"""The explanation of a grouping: why a task is where it is, what the second best costs, what more hosts would save."""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace

from ortools.sat.python import cp_model

from merge.grouping.evaluation import arranged, cost_of, problems_of
from merge.grouping.layout import NodeLayout
from merge.grouping.partition import NEW, Partition, grouping_of
from merge.grouping.problem import Group, GroupId, Grouping, GroupingProblem, NoGrouping, TaskId
from merge.grouping.slot_model import SlotModel, new_solver

_EXACT = 1200
"""For so many tasks times groups the second best is looked for among all, else among those with one task moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPlace:
    """Where else a task could be; made by `other_places`."""

    image: str
    """The name of the image."""
    with_tasks: tuple[TaskId, ...] = ()
    """The group that it would join; empty if it had one to itself."""
    present: GroupId | None = None
    """The id of that group, if it is there already."""
    more: float | None = None
    """How much more the grouping would cost; None if it is not possible."""
    why_not: tuple[str, ...] = ()
    """Why it is not possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorthOfMore:
    """What one more of something of an image would save; made by `worth_of_more`."""

    image: str
    """The name of the image."""
    host: float
    """One more host that is there."""
    core: float
    """One more core in each host."""


def other_places(problem: GroupingProblem, grouping: Grouping, task: TaskId) -> tuple[OtherPlace, ...]:
    """Where else a task could be, all else being as it is: the cheapest first, and last what is not possible."""
    judged = []
    for place in _places(problem, grouping, task):
        groups = _moved(problem, grouping, task, place)
        if wrong := problems_of(problem, groups):
            judged.append(replace(place, why_not=wrong))
        else:
            judged.append(replace(place, more=cost_of(problem, groups).total - grouping.cost.total))
    return tuple(sorted(judged, key=lambda place: (place.more is None, place.more or 0.0, place.image)))


def second_best(problem: GroupingProblem, grouping: Grouping, seconds: float = 2.0) -> Grouping | None:
    """The cheapest that cuts the tasks otherwise; None if there is no other, or none was found in time."""
    layout = NodeLayout(problem)
    slots = min(layout.nodes, len(grouping.groups) + len(problem.present) + 2)
    if layout.nodes * slots > _EXACT:
        return _nearest(problem, grouping)
    model = SlotModel(layout, slots)
    model.exclude(_partition(layout, grouping))
    solver = new_solver(seconds)
    status = solver.solve(model.solver_model)
    if status not in {cp_model.OPTIMAL, cp_model.FEASIBLE}:
        return None
    second = grouping_of(model.partition(solver))
    return replace(second, bound=second.cost.total) if status == cp_model.OPTIMAL else second


def worth_of_more(
    problem: GroupingProblem,
    grouping: Grouping,
    planned: Callable[[GroupingProblem], Grouping],
    only: Container[str] | None = None,
) -> tuple[WorthOfMore, ...]:
    """What one more host or core of each image would save, as it is planned anew with that; of some images `only`."""

    def saved(at: int, **more: float | None) -> float:
        image = replace(problem.images[at], **more)  # type: ignore[arg-type]  # fields of images by their names
        images = (*problem.images[:at], image, *problem.images[at + 1 :])
        try:
            return max(0.0, grouping.cost.total - planned(replace(problem, images=images)).cost.total)
        except NoGrouping:
            return 0.0

    return tuple(
        WorthOfMore(
            image=image.name,
            host=saved(at, there=image.there + 1, most=None if image.most is None else image.most + 1),
            core=saved(at, cores=image.cores + 1.0),
        )
        for at, image in enumerate(problem.images)
        if only is None or image.name in only
    )


def _places(problem: GroupingProblem, grouping: Grouping, task: TaskId) -> Iterator[OtherPlace]:
    joined = {group.present for group in grouping.groups}
    for group in grouping.groups:
        if task not in group.tasks:
            yield OtherPlace(image=group.image, with_tasks=group.tasks, present=group.present)
    for there in problem.present:
        if there.id not in joined:
            yield OtherPlace(image=there.image, present=there.id)
    alone = next(group for group in grouping.groups if task in group.tasks)
    for image in problem.images:
        if alone.tasks != (task,) or alone.present is not None or alone.image != image.name:
            yield OtherPlace(image=image.name)


def _moved(problem: GroupingProblem, grouping: Grouping, task: TaskId, place: OtherPlace) -> tuple[Group, ...]:
    left = [replace(group, tasks=tuple(other for other in group.tasks if other != task)) for group in grouping.groups]
    there = [group for group in left if group.tasks and group.tasks != place.with_tasks]
    joined = Group(image=place.image, tasks=(*place.with_tasks, task), present=place.present)
    return arranged(problem, [*there, joined])


def _nearest(problem: GroupingProblem, grouping: Grouping) -> Grouping | None:
    """The cheapest in which one task is elsewhere."""
    places = ((task.id, place) for task in problem.tasks for place in other_places(problem, grouping, task.id)[:1])
    possible = [(place.more, task, place) for task, place in places if place.more is not None]
    if not possible:
        return None
    _, task, place = min(possible, key=lambda candidate: candidate[0])
    groups = _moved(problem, grouping, task, place)
    return Grouping(groups=groups, cost=cost_of(problem, groups))


def _partition(layout: NodeLayout, grouping: Grouping) -> Partition:
    nodes = {task.id: node for node, task in enumerate(layout.tasks)}
    anchors = {group.id: layout.count + at for at, group in enumerate(layout.present)}
    partition = Partition(layout)
    for group in grouping.groups:
        partition.move(
            [nodes[task] for task in group.tasks],
            NEW if group.present is None else partition.group_of[anchors[group.present]],
        )
    return partition
