"""The savings that the paper and its journal version report, and a comparison with those found here. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workloads.report.analysis.summary import Summary, WaySummary
from workloads.way import DEFRAGMENTED, REUSE, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A range of savings in the paper or its journal version."""

    what: str
    by: str
    low: float
    high: float
    way: Way
    """The corresponding way here."""
    found: Callable[[WaySummary], float | None]
    at_peak: Callable[[WaySummary], float | None]


def _tasks(each: WaySummary) -> float | None:
    return each.tasks_saved


def _tasks_at_peak(each: WaySummary) -> float | None:
    return each.tasks_saved_at_peak


def _cores(each: WaySummary) -> float | None:
    return each.cores_saved


def _cores_at_peak(each: WaySummary) -> float | None:
    return each.cores_saved_at_peak


def _claim(what: str, by: str, low: float, high: float, way: Way) -> Claim:
    found, at_peak = (_tasks, _tasks_at_peak) if what == _TASKS else (_cores, _cores_at_peak)
    return Claim(what=what, by=by, low=low, high=high, way=way, found=found, at_peak=at_peak)


_TASKS = "running tasks"
CLAIMS = (
    _claim(_TASKS, "paper", 0.38, 0.46, REUSE),
    _claim(_TASKS, "journal version", 0.34, 0.45, REUSE),
    _claim("CPU", "paper", 0.36, 0.51, REUSE),
    _claim("CPU", "journal version", 0.29, 0.63, REUSE),
    _claim("cost with defragmentation", "journal version", 0.36, 0.44, DEFRAGMENTED),
)
WHY = (
    "In the paper each task is a thread that processes every event, so the CPU is proportional to the tasks. Here tasks"
    " run within jobs, and each micro-batch of a job has a fixed cost: that part is proportional to the number of jobs,"
    " and sharing saves it only if it saves jobs. The number of tasks that can be saved depends on what the dataflows"
    " of a workload have in common, and on how many of them run at a time."
)
"""The general reason for different savings of tasks and of cores."""


def values(summary: Summary, way: Way, found: Callable[[WaySummary], float | None]) -> list[float]:
    """A number of a way in all workloads and traces that have it."""
    every = (ways.get(way.name) for traces in summary.workloads.values() for ways in traces.values())
    return [value for each in every if each is not None and (value := found(each)) is not None]


def percent_range(found: Sequence[float]) -> str:
    """A range of parts in per cent.

    >>> percent_range([0.38, 0.4611]), percent_range([0.2]), percent_range([])
    ('38.0 to 46.1 %', '20.0 %', 'not measured')
    """
    if not found:
        return "not measured"
    low, high = f"{100 * min(found):.1f}", f"{100 * max(found):.1f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def verdict(claim: Claim, found: Sequence[float]) -> str:
    """The number of savings within, below and above a claimed range."""
    if not found:
        return "not measured here"
    inside = sum(claim.low <= each <= claim.high for each in found)
    below = sum(each < claim.low for each in found)
    counts = ((inside, "within"), (below, "below"), (len(found) - inside - below, "above"))
    return ", ".join(f"{count} of {len(found)} {where}" for count, where in counts if count)
