"""A grouping problem: tasks to cut into groups, the images that can run them, and what runs already."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import networkx as nx

from merge.capacity import Beat, refuse, wrong_figure
from merge.grouping.images import Image

_MOST_TOGETHER = 1e8
"""Cores that all costs may come to: as billionths they are whole numbers that a solver takes."""
TaskId: TypeAlias = int | str
"""The id of a task."""
GroupId: TypeAlias = int | str
"""The id of a group that is there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedTask:
    """A task as far as groups depend on it. Raises `ValueError` for impossible work."""

    id: TaskId
    tags: frozenset[str] = frozenset()
    """What its image must offer."""
    work: float = 0.0
    """The cores that it keeps busy."""
    owner: str = ""
    """Whose code it runs; empty if nobody's. The code of two owners is never in one group."""

    def __post_init__(self) -> None:
        """Refuse work that no task can have."""
        refuse(f"no task {self.id!r} can be", wrong_figure("work", self.work))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedStream:
    """What one task takes from another.

    All that a group takes from one port of a task comes over one bridge.
    """

    parent: TaskId
    child: TaskId
    port: str = "out"
    raw: bool = False
    """Whether every job reads it from its own spool anyway, so that it takes no bridge and no hop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentGroup:
    """A group that is there already: a running job. Raises `ValueError` for impossible work."""

    id: GroupId
    image: str
    """The name of its image, which stays."""
    tasks: frozenset[TaskId] = frozenset()
    """What it runs. Tasks of the problem may move elsewhere; all others stay."""
    stays: bool = True
    """Whether it runs something that stays, so that it is paid for anyway."""
    work: float = 0.0
    """The work of what stays."""
    owner: str = ""
    """Whose code is among what stays."""
    takes_more: bool = True
    """Whether tasks may join it."""

    def __post_init__(self) -> None:
        """Refuse work that no group can have."""
        refuse(f"no present group {self.id!r} can be", wrong_figure("work", self.work))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingCosts(Beat):
    """What things cost, in cores or what is worth as much. Raises `ValueError` for what costs nothing can have."""

    bridge: float = 0.0
    """Cores that a bridge takes."""
    hop: float = 0.0
    """What one more bridge on the slowest path is worth."""
    second: float = 0.0
    """What one more second of batches on the slowest path is worth."""
    start: float = 0.0
    """What a second is worth for which a new host is not there."""
    price: float = 0.0
    """What a unit of the price of images is worth."""
    move: float = 0.0
    """What it costs that a task leaves the group that runs it."""

    def __post_init__(self) -> None:
        """Refuse costs that are none."""
        Beat.__post_init__(self)
        costs = {"bridge": self.bridge, "hop": self.hop, "second": self.second}
        costs |= {"start": self.start, "price": self.price, "move": self.move}
        refuse("these are no costs", (wrong for name, cost in costs.items() for wrong in wrong_figure(name, cost)))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupingProblem:
    """What is to be cut into groups.

    Raises `ValueError` if it is no acyclic graph of known tasks and images, or if its figures are too large together.
    """

    tasks: tuple[GroupedTask, ...]
    streams: tuple[GroupedStream, ...]
    images: tuple[Image, ...]
    costs: GroupingCosts
    present: tuple[PresentGroup, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no strategy could answer."""
        ids = {task.id for task in self.tasks}
        known = ids.union(*(group.tasks for group in self.present))
        images = {image.name for image in self.images}
        wrong = [
            *_twice("task", [task.id for task in self.tasks]),
            *_twice("image", [image.name for image in self.images]),
            *_twice("present group", [group.id for group in self.present]),
            *_twice("task of present groups", [task for group in self.present for task in group.tasks]),
            *(f"unknown task {end!r}" for each in self.streams for end in {each.parent, each.child} - known),
            *(f"unknown image {group.image!r}" for group in self.present if group.image not in images),
            *(f"{group.id!r} has tasks that stay, but stays is false"
              for group in self.present if not group.stays and group.tasks - ids),
            *self._too_much(),
        ]  # fmt: skip
        if wrong:
            raise ValueError(f"this is no grouping problem: {'; '.join(wrong)}")
        places = {task: group.id for group in self.present for task in group.tasks - ids}
        graph: nx.DiGraph[tuple[str, TaskId | GroupId]] = nx.DiGraph()
        for each in self.streams:
            ends = [("group", places[end]) if end in places else ("task", end) for end in (each.parent, each.child)]
            if ends[0] != ends[1] or ends[0][0] == "task":
                graph.add_edge(*ends)
        if not nx.is_directed_acyclic_graph(graph):
            names = [name for (_, name), *_ in nx.find_cycle(graph)]
            cycle = " > ".join(map(str, [*names, names[0]]))
            raise ValueError(f"this is no grouping problem: streams make a cycle, {cycle}")

    def _too_much(self) -> Iterator[str]:
        """Which cost is beyond what can be reckoned with, if each task has a group to itself."""
        costs, count = self.costs, len(self.tasks) + len(self.present)
        work = sum(task.work for task in self.tasks) + sum(group.work for group in self.present)
        cores = work + costs.cores(0.0) * count
        worst = {
            "work": work,
            "batch": costs.cores(0.0) * count,
            "bridge": costs.bridge * len(self.streams),
            "hop": costs.hop * count,
            "second": costs.second * (costs.pace * work + costs.batch * count),
            "move": costs.move * len(self.tasks),
        } | {
            f"start and price of image {image.name!r}": (1 + cores / image.cores)
            * (costs.start * image.start + costs.price * image.price)
            for image in self.images
        }
        dearest = max(worst, key=worst.__getitem__)
        if sum(worst.values()) > _MOST_TOGETHER:
            yield (
                f"{dearest} comes to {worst[dearest]:g} cores at worst, and all costs to {sum(worst.values()):g}; "
                f"no more than {_MOST_TOGETHER:,.0f} can be reckoned with, so give smaller figures"
            )


def in_order(id_: TaskId | GroupId) -> tuple[bool, int, str]:
    """What ids are sorted by: numbers first."""
    return (True, 0, id_) if isinstance(id_, str) else (False, id_, "")


def _twice(what: str, ids: list[TaskId] | list[GroupId] | list[str]) -> list[str]:
    return [f"{what} {id_!r} is there twice" for id_, count in Counter(ids).items() if count > 1]
