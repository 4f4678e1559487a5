"""The capacity of a job: how much work it takes at its pace, and what work, batches and bridges cost."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real

from dags.vocabulary import LEAST_FIGURE, MOST_FIGURE
from merge.tasks import Instance

BEARABLE = 0.8
"""The part of its pace that a job's batches may take where it cannot be helped. A half is what it should take; the rest
is for catching up, and is no reserve any more where most of it is taken all the time."""
_LONG = 10**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The figures that capacity goes by. Raises `ValueError` for those that no job can have."""

    pace: float
    """Seconds between two batches of a job."""
    batch: float
    """Seconds that a batch takes whatever it holds."""

    def __post_init__(self) -> None:
        refuse(
            "these are no costs",
            (*wrong_figure("pace", self.pace, least=LEAST_FIGURE), *wrong_figure("batch", self.batch)),
        )

    def fits(self, busy: float) -> bool:
        """Whether a job so busy is within capacity: its predicted batch time is at most half the pace."""
        return self.batch_of(busy) <= self.pace / 2

    def bears(self, seconds: float) -> bool:
        """Whether the pace bears batches that take so long, if with little left for catching up."""
        return seconds <= BEARABLE * self.pace

    def batch_of(self, busy: float) -> float:
        """The seconds that a batch of a job so busy is predicted to take."""
        return self.batch + self.pace * busy

    def cores(self, busy: float) -> float:
        """The cores that a job so busy takes of its host."""
        return self.batch / self.pace + busy


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs(Beat):
    """The costs that placement goes by."""

    busy: Mapping[Instance, float]
    """For each instance the part of a second that it works in a second: cost per event times rate."""
    bridge: float = 0.0
    """Cores that a bridge takes."""
    paused: float = 0.0
    """Cores that a paused task takes."""
    start: float = 0.0
    """Seconds of CPU to start and warm a job."""
    interruption: float = 0.0
    """Seconds for which what moves to another job stands still."""
    moving: float = 0.0
    """Seconds of CPU to move a byte of state."""

    def holds(self, work: float, busiest: float) -> bool:
        """Whether one job shall run tasks so busy together, of which the busiest is so busy.

        It shall within its capacity. Where the busiest alone is beyond any, it shall too as long as the others are idle
        or its pace bears them: to have them run elsewhere would cost jobs and bridges, and help little.
        """
        return self.fits(work) or (not self.fits(busiest) and (work <= busiest or self.bears(self.batch_of(work))))


def wrong_figure(
    name: str, figure: object, *, least: float = 0.0, most: float = MOST_FIGURE, whole: bool = False
) -> tuple[str, ...]:
    """What is wrong with a figure, and what would be right; nothing if it is right.

    >>> wrong_figure("pace", 0, least=0.001)
    ('pace is 0; give a number from 0.001 to 1,000,000',)
    """
    is_number = isinstance(figure, Integral if whole else Real) and not isinstance(figure, bool)
    # Written so that nan is wrong; and a whole number is never converted, since it may be too large for that.
    if is_number and least <= figure <= most:  # type: ignore[operator]  # mypy does not follow the name
        return ()
    is_long = isinstance(figure, int) and abs(figure) > _LONG
    shown = f"a number of {figure.bit_length()} bits" if is_long else repr(figure)  # type: ignore[attr-defined]  # likewise
    return (f"{name} is {shown}; give a {'whole ' if whole else ''}number from {least:g} to {most:,.0f}",)


def refuse(what: str, wrong: Iterable[str]) -> None:
    """Raise `ValueError` with all that is wrong with something, if anything is."""
    if problems := "; ".join(wrong):
        raise ValueError(f"{what}: {problems}")
