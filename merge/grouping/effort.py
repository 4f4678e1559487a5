"""The effort of a search, and what is left of it.

Searches are bounded by what they do, and not by the clock: so the same problem has the same answer, however busy the
machine is. A second of effort takes about one on a machine that does nothing else.
"""

from dataclasses import dataclass

from merge.capacity import LEAST_FIGURE, refuse, wrong_figure

_STEPS = 1_000_000
"""What a search does in a second: looks at so many nodes, groups or images."""

PATIENCE = 4.0
"""How many times as long as it should a search of the solver may take by the clock, where the machine is busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How a strategy may go about it. Raises `ValueError` if it may not search at all."""

    seconds: float = 2.0
    """How long it may search; the first groups are made however little that is."""
    seed: int = 1
    """What `random` draws by."""

    def __post_init__(self) -> None:
        """Refuse what is no length of time."""
        refuse("this is no effort", wrong_figure("seconds", self.seconds, least=LEAST_FIGURE))


class SearchAllowance:
    """What is left of an effort."""

    def __init__(self, seconds: float) -> None:
        """So many seconds."""
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
