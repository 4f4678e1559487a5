"""Saved CPU: the one set of figures that every report shows of savings.

Sharing saves work: a task that several dataflows use runs once. Packing saves the rest of what separate jobs would
take: batches, less what bridges and paused tasks cost. So both add up to the difference from running alone.
"""

from dataclasses import dataclass

from manager.savings.cpu_estimate import CpuEstimate
from manager.savings.settlement import Work
from merge import work_saved


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCpu:
    """What sharing and packing saved; made by `saved_cpu`."""

    work_by_sharing: float | None
    """The part of the work that sharing saved, between 0 and 1; None where no work was shared."""
    by_sharing: int | None
    """That work in nanoseconds; measured."""
    by_packing: CpuEstimate
    """Nanoseconds; below 0 where the layout of jobs costs more than it saves."""


def saved_cpu(work: Work, difference: CpuEstimate) -> SavedCpu:
    """Divide the difference between running alone and what was measured.

    >>> saved_cpu(Work(done=6, alone=8), CpuEstimate(low=1, likely=5, high=9))
    SavedCpu(work_by_sharing=0.25, by_sharing=2, by_packing=CpuEstimate(low=-1, likely=3, high=7))
    >>> saved_cpu(Work(done=6, alone=6), CpuEstimate(low=1, likely=5, high=9))
    SavedCpu(work_by_sharing=None, by_sharing=None, by_packing=CpuEstimate(low=1, likely=5, high=9))
    """
    if work.alone <= work.done:
        return SavedCpu(work_by_sharing=None, by_sharing=None, by_packing=difference)
    shared = work.alone - work.done
    return SavedCpu(
        work_by_sharing=work_saved(work.done, work.alone),
        by_sharing=shared,
        by_packing=difference.less(shared),
    )
