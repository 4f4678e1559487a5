"""Prices for settling: the calibrated ones, scaled down where they would exceed the CPU that was measured."""

from dataclasses import dataclass

from manager.savings.cost_split import PART, CostSplit
from manager.savings.counter_growth import SECOND

_PARTS_OF_CORE = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The prices of everything but tasks, whose CPU is measured; made from the calibration."""

    batch: float
    """Seconds of CPU per batch."""
    batch_low: float
    """The lower bound of `batch`."""
    batch_high: float
    """The upper bound of `batch`."""
    bridge: float
    """Cores per bridge."""
    paused: float
    """Cores per paused task."""
    pace: float
    """Seconds between two batches of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPrices:
    """Prices in whole numbers that together do not exceed the measured CPU; made by `fit`."""

    task_parts: tuple[int, int]
    """The fraction of the tasks' CPU that counts. It is below one only if clocks read at different times disagree."""
    batch: int
    """Nanoseconds per batch."""
    bridge: int
    """Billionths of a core per bridge."""
    rest: int
    """Nanoseconds that tasks, batches, bridges and paused tasks do not account for."""

    def tasks(self, taken: int) -> int:
        """Return the nanoseconds that count for tasks."""
        part, whole = self.task_parts
        return taken * part // whole

    def batches(self, parts: int) -> int:
        """Return the nanoseconds for parts of batches."""
        return parts * self.batch // PART

    def bridges(self, nanoseconds: int) -> int:
        """Return the nanoseconds of CPU for the time that bridges existed."""
        return nanoseconds * self.bridge // _PARTS_OF_CORE


def fit(split: CostSplit, price: Price, batch: float) -> FittedPrices:
    """Scale prices to the measured CPU; `batch` is the price of a batch."""
    whole = sum(split.cpu.values())
    tasks = min(split.tasks, whole)
    room, done = whole - tasks, sum(split.batches.values())
    wanted = done * batch * SECOND + split.bridges * price.bridge + split.paused * price.paused
    part = min(1.0, room / wanted) if wanted else 1.0
    per_batch, per_bridge = int(batch * SECOND * part), int(price.bridge * _PARTS_OF_CORE * part)
    spent = done * per_batch + split.bridges * per_bridge // _PARTS_OF_CORE + int(split.paused * price.paused * part)
    return FittedPrices(
        task_parts=(tasks, split.tasks) if split.tasks else (1, 1),
        batch=per_batch,
        bridge=per_bridge,
        rest=max(0, room - spent),
    )
