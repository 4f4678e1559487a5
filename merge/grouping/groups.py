"""Groups, the whole of them, and what they cost: what strategies answer with."""

from dataclasses import dataclass

from merge.grouping.grouping_problem import GroupId, TaskId


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
    moves: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.groups + self.bridges + self.latency + self.starts + self.prices + self.moves


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
