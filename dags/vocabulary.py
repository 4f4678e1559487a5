"""The enumerations, bounds and names that the client shares with the service; it needs nothing else of a decision."""

from enum import StrEnum

MOST_FIGURE = 1_000_000.0
"""What no figure of costs exceeds, so that sums of them stay whole numbers that a solver takes."""
LEAST_FIGURE = 1e-6
"""What no figure of costs is below that others are divided by."""
ONE_TIME_PRODUCER = "~"
"""The beginning of the name of a producer that is for one use."""


class Basis(StrEnum):
    """The ground of an estimate, best first."""

    MEASURED = "measured"
    """The CPU and the events of the task itself, where it runs already."""
    TYPE = "type"
    """The mean cost of an event to tasks of its type, and the rate of its sources."""
    ASSUMED = "assumed"


class Scheduler(StrEnum):
    """The ways to schedule a reconfiguration."""

    FRIES = "fries"
    """By components: only what has to switch in step does."""
    UNPRUNED = "unpruned"
    """The same without pruning; for comparison."""
    EPOCH = "epoch"
    """By markers from all sources through the whole dataflow; for comparison."""


class Criterion(StrEnum):
    """A figure that a plan of a pipeline makes as small or as large as it can."""

    CHANGES = "changes"
    """The vertices that hold something else than at present."""
    RESIDUE = "residue"
    """The tasks that do not run yet, counted once if several vertices need the same one."""
    COST = "cost"
    QUALITY = "quality"
    NO_OPS = "no-ops"

    @property
    def grows(self) -> bool:
        """True if more of it is better."""
        return self in {Criterion.QUALITY, Criterion.NO_OPS}


class ModuleShape(StrEnum):
    """The kind of stream that enters a module, and the kind that leaves it."""

    ONE_TO_ONE = "one-to-one"
    ONE_TO_PAIR = "one-to-pair"
    PAIR_TO_PAIR = "pair-to-pair"
    PAIR_TO_ONE = "pair-to-one"
    FILTER = "filter"
    """Some of the events of either kind, unchanged."""
    JOIN = "join"
    """Events of several streams, of either kind, made one."""

    @property
    def allows_no_op(self) -> bool:
        """True if doing nothing has this shape too."""
        return self in {ModuleShape.ONE_TO_ONE, ModuleShape.PAIR_TO_PAIR, ModuleShape.FILTER}
