"""Planted problems: valid groups are made first, then the cores of the images are set so that just these fit."""

import math
import random
from dataclasses import dataclass

from merge.grouping import Group, GroupedStream, GroupedTask, GroupingCosts, GroupingProblem, Image

COSTS = GroupingCosts(pace=1.0, batch=0.06, bridge=0.01, hop=0.002, start=1e-4, price=0.01)
TAGS = ("arm", "gpu", "ram", "sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedProblem:
    """A problem, and groups that answer it; made by `planted_problem` and `planted_chain`."""

    problem: GroupingProblem
    groups: tuple[Group, ...]


def planted_problem(tasks: int, seed: int, *, spare: float = 0.0, decimals: int | None = 4) -> PlantedProblem:
    """So many tasks in groups over two to four images, which have a part of their cores to spare, or none.

    Streams lead to the same group or a later one, so groups make no cycle. Works have so many decimals, or all.
    """
    draw = random.Random(f"planted {tasks} {seed}")
    images = [frozenset(draw.sample(TAGS, draw.randint(0, 3))) for _ in range(draw.randint(2, 4))]
    place, works = [], []
    count = max(2, round(tasks / draw.uniform(2.5, 6.0)))
    on = [draw.randrange(len(images)) for _ in range(count)]
    owner = [draw.choice(["", "", "", "ann", "bob"]) for _ in range(count)]
    place = sorted([*range(count), *(draw.randrange(count) for _ in range(tasks - count))])
    for group in range(count):
        works += _works(draw, place.count(group), decimals)
    # A task may read from any that is not in a later group.
    streams = [
        GroupedStream(parent=parent, child=child)
        for child in range(1, tasks)
        for parent in sorted({draw.randrange(max(0, child - 8), child) for _ in range(draw.randint(0, 2))})
    ]
    # Ids are not in the order of the groups.
    ids = draw.sample(range(tasks), tasks)
    return _planted(
        tuple(
            GroupedTask(
                id=ids[at],
                tags=_some(draw, images[on[group]]),
                work=works[at],
                owner=owner[group] if draw.random() < 0.5 else "",
            )
            for at, group in enumerate(place)
        ),
        tuple(GroupedStream(parent=ids[int(each.parent)], child=ids[int(each.child)]) for each in streams),
        [tuple(ids[at] for at in range(tasks) if place[at] == group) for group in range(count)],
        on,
        images,
        spare,
    )


def planted_chain(tasks: int, seed: int, *, lines: int = 1, spare: float = 0.0) -> PlantedProblem:
    """So many tasks in lines, each cut into groups from its begin to its end."""
    draw = random.Random(f"chain {tasks} {seed}")
    images = [frozenset(draw.sample(TAGS, draw.randint(1, 3))) for _ in range(3)]
    made: list[GroupedTask] = []
    groups: list[tuple[int, ...]] = []
    on: list[int] = []
    for line in range(lines):
        end = tasks * (line + 1) // lines
        while len(made) < end:
            size = min(end - len(made), draw.randint(4, 16))
            image = draw.randrange(3)
            groups.append(tuple(range(len(made), len(made) + size)))
            on.append(image)
            for work in _works(draw, size, 4):
                made.append(GroupedTask(id=len(made), tags=_some(draw, images[image]), work=work))
    begins = {tasks * line // lines for line in range(lines)}
    streams = tuple(GroupedStream(parent=at - 1, child=at) for at in range(1, tasks) if at not in begins)
    return _planted(tuple(made), streams, groups, on, images, spare)


def _works(draw: random.Random, count: int, decimals: int | None) -> list[float]:
    """Works of one group: a part of its capacity in as many random parts."""
    shares = [draw.uniform(0.2, 1.0) for _ in range(count)]
    total = draw.uniform(0.6, 1.0) * (0.5 - COSTS.batch)
    works = [total * share / sum(shares) for share in shares]
    # Rounded down, so that they still fit.
    return works if decimals is None else [math.floor(work * 10**decimals) / 10**decimals for work in works]


def _some(draw: random.Random, tags: frozenset[str]) -> frozenset[str]:
    return frozenset(draw.sample(sorted(tags), 1)) if tags and draw.random() < 0.4 else frozenset()


def _planted(  # noqa: PLR0913, PLR0917 - all that a problem has, and the groups that answer it
    tasks: tuple[GroupedTask, ...],
    streams: tuple[GroupedStream, ...],
    groups: list[tuple[int, ...]],
    on: list[int],
    images: list[frozenset[str]],
    spare: float,
) -> PlantedProblem:
    work = {task.id: task.work for task in tasks}
    needed = [0.0] * len(images)
    for group, image in zip(groups, on, strict=True):
        needed[image] += COSTS.batch + math.fsum(work[task] for task in group)
    return PlantedProblem(
        problem=GroupingProblem(
            tasks=tasks,
            streams=streams,
            images=tuple(
                Image(name=f"image {at}", tags=tags, cores=needed[at] * (1 + spare), most=1, there=1)
                for at, tags in enumerate(images)
                if needed[at]
            ),
            costs=COSTS,
        ),
        groups=tuple(
            Group(image=f"image {image}", tasks=tuple(sorted(group))) for group, image in zip(groups, on, strict=True)
        ),
    )
