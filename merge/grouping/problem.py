"""Grouping problems and their answers: tasks and images, groups and what they cost, and the effort of a search.

A problem has the tasks to cut into groups, the images that can run them, and what runs already. Images are what hosts
are made from, and so say which tags they offer. A strategy answers with groups, the whole of them, and their cost.

Searches are bounded by what they do, and not by the clock: so the same problem has the same answer, however busy the
machine is. A second of effort takes about one on a machine that does nothing else.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import networkx as nx

from dags.vocabulary import LEAST_FIGURE
from merge.capacity import Beat, refuse, wrong_figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A named set of tags, and what a host of it has and costs; registered by operators.

    Raises `ValueError` for figures that no host can have.
    """

    name: str
    tags: frozenset[str]
    cores: float
    """The cores of each host."""
    start: float = 0.0
    """Seconds until a new host is there."""
    price: float = 0.0
    """The price of a host for an hour."""
    most: int | None = None
    """How many hosts there may be; None if any number."""
    there: int = 0
    """How many hosts run already."""

    def __post_init__(self) -> None:
        most = () if self.most is None else wrong_figure("most", self.most, whole=True)
        wrong = (*wrong_figure("start", self.start), *wrong_figure("price", self.price), *most)
        wrong = (*wrong_figure("cores", self.cores, least=LEAST_FIGURE), *wrong)
        refuse(f"no image {self.name!r} can be", (*wrong, *wrong_figure("there", self.there, whole=True)))

    @property
    def limit(self) -> float | None:
        """The cores of all hosts that there may be; None if any number."""
        return None if self.most is None else max(self.most, self.there) * self.cores


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
        refuse(f"no task {self.id!r} can be", wrong_figure("work", self.work))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedStream:
    """What one task takes from another. All that a group takes from one port of a task comes over one bridge."""

    parent: TaskId
    child: TaskId
    port: str = "out"
    raw: bool = False
    """Whether every job reads it from its own spool anyway, so that it takes no bridge and no hop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentGroup:
    """A group that is there already and stays: a running job. Raises `ValueError` for impossible work."""

    id: GroupId
    image: str
    """The name of its image."""
    tasks: frozenset[TaskId] = frozenset()
    """What it runs; none of the tasks of the problem."""
    work: float = 0.0
    owner: str = ""
    """Whose code it runs."""
    takes_more: bool = True
    """Whether tasks may join it."""

    def __post_init__(self) -> None:
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

    def __post_init__(self) -> None:
        Beat.__post_init__(self)
        names = ("bridge", "hop", "second", "start", "price")
        refuse("these are no costs", (wrong for name in names for wrong in wrong_figure(name, getattr(self, name))))


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
        ids = {task.id for task in self.tasks}
        known = ids.union(*(group.tasks for group in self.present))
        images = {image.name for image in self.images}
        wrong = [
            *_twice("task", [task.id for task in self.tasks]),
            *_twice("image", [image.name for image in self.images]),
            *_twice("present group", [group.id for group in self.present]),
            *_twice("task of present groups", [task for group in self.present for task in group.tasks]),
            *(f"unknown task {end!r}" for stream in self.streams for end in {stream.parent, stream.child} - known),
            *(f"unknown image {group.image!r}" for group in self.present if group.image not in images),
            *(f"task {task!r} is in a present group already" for group in self.present for task in group.tasks & ids),
            *self._too_much(),
        ]
        if wrong:
            raise ValueError(f"this is no grouping problem: {'; '.join(wrong)}")
        places = {task: group.id for group in self.present for task in group.tasks}
        graph: nx.DiGraph[tuple[str, TaskId | GroupId]] = nx.DiGraph()
        for stream in self.streams:
            ends = [("group", places[end]) if end in places else ("task", end) for end in (stream.parent, stream.child)]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Tasks that become one job, or join one."""

    image: str
    """The name of the image whose hosts run it."""
    tasks: tuple[TaskId, ...]
    """In order of their ids."""
    present: GroupId | None = None
    """The group that they join or stay in; None if it is a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expense:
    """What a grouping costs beyond what is paid anyway, in cores or what is worth as much."""

    groups: float = 0.0
    """Batches of jobs that would not run otherwise."""
    bridges: float = 0.0
    latency: float = 0.0
    """The hops and batches on the slowest path."""
    starts: float = 0.0
    """Waiting for new hosts."""
    prices: float = 0.0
    """Paying for new hosts."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.groups + self.bridges + self.latency + self.starts + self.prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Every task of a problem in exactly one group."""

    groups: tuple[Group, ...]
    """Each after those that feed it."""
    cost: Expense
    bound: float | None = None
    """What no grouping costs less than, as was proven; None if nothing was."""

    @property
    def gap(self) -> float | None:
        """How much it may cost more than the best, as a part of its cost; None if that is unknown."""
        if self.bound is None:
            return None
        return max(0.0, self.cost.total - self.bound) / self.cost.total if self.cost.total else 0.0


class NoGrouping(ValueError):
    """There is no answer: either it is proved that no groups are valid, or none were found."""


class GroupingNotFound(NoGrouping):
    """No valid groups were found within the effort; there may be some."""

    def __init__(self, why: str) -> None:
        """`why` says what was in the way of those that were tried."""
        super().__init__(
            f"no valid groups were found, and it is not proved that there are none: {why}; let it search for more "
            "seconds, take the strategy 'plan', or let the image have more hosts"
        )


class Ungroupable(NoGrouping):
    """It is proved that no images can run the tasks."""

    def __init__(self, task: TaskId, tags: frozenset[str], why: str) -> None:
        """`why` says what is in the way, and what helps."""
        super().__init__(f"no image can run task {task!r}: {why}")
        self.task = task
        self.tags = tags
        """The tags to blame."""


_STEPS = 1_000_000
"""What a search does in a second: looks at so many nodes, groups or images."""

PATIENCE = 4.0
"""How many times as long as it should a search of the solver may take by the clock, where the machine is busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How a strategy may go about it. Raises `ValueError` if it may not search at all."""

    seconds: float = 2.0
    """How long it may search; the first groups are made however little that is."""

    def __post_init__(self) -> None:
        refuse("this is no effort", wrong_figure("seconds", self.seconds, least=LEAST_FIGURE))


class SearchAllowance:
    """What is left of an effort."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.seconds <= 0.0

    def spend(self, steps: int) -> None:
        """Take off what so many steps take."""
        self.seconds -= steps / _STEPS

    def part(self, share: float) -> "SearchAllowance":
        """A part of what is left, for one stage; `back` returns what it has left."""
        taken = SearchAllowance(max(0.0, self.seconds) * share)
        self.seconds -= taken.seconds
        return taken

    def back(self, rest: "SearchAllowance") -> None:
        """Have what a stage has left, or has spent too much."""
        self.seconds += rest.seconds
        rest.seconds = 0.0
