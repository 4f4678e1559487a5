"""The summary of a report: counts, cores and savings for each workload, trace and way. Pure.

Beside it are the savings that the paper and its journal version report, and a comparison with those found here.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, NamedTuple

from workloads.report.runs import IntervalEstimate, Pair, Runs, saved, saved_at_peak, saving_of
from workloads.traces import DEFRAGMENTED, REUSE, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class WaySummary:
    """The results of one way to replay a trace; parts are between 0 and 1, and unknown numbers are None."""

    against: str
    """The baseline of the savings: the same placement without sharing."""
    steps: int
    measured_steps: int
    windows: int
    windows_thrown_away: int
    """Windows that were discarded because the service was behind."""
    tasks_mean: float | None
    tasks_most: int | None
    tasks_saved: float | None
    """The part of the running tasks that sharing saves, over all steps."""
    tasks_saved_at_peak: float | None
    tasks_saved_between: float | None
    """The same, compared with each dataflow by itself without its duplicates."""
    sources_mean: float | None
    """The sources among the running tasks."""
    steps_mean: float | None
    outputs_mean: float | None
    steps_saved: float | None
    """The saved part of the tasks that are neither sources nor outputs."""
    work_saved: float | None
    """The part of the work that sharing saves, over all steps; work is events times their cost at each task."""
    work_saved_at_peak: float | None
    work_saved_between: float | None
    """The same, compared with each dataflow by itself without its duplicates."""
    work_saved_where_measured: float | None
    """The same over the steps whose cores were measured both ways, for comparison with the saved cores."""
    jobs_mean: float | None
    paused_mean: float | None
    bridges_mean: float | None
    cores_mean: float | None
    """The mean over the measured steps."""
    cores_saved: float | None
    """The part of the cores that sharing saves, over the steps that were measured both ways."""
    cores_saved_low: float | None
    cores_saved_high: float | None
    cores_saved_at_peak: float | None
    latency_p50: float | None
    """Seconds; the mean over all windows with events."""
    latency_p99: float | None
    estimate_error: float | None
    """The error of the service's estimate of the cores without sharing, compared with the measurement."""
    estimate_error_low: float | None
    estimate_error_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of a report; made by `summary_of`, written as `summary.json`."""

    workloads: Mapping[str, Mapping[str, Mapping[str, WaySummary]]]
    """By workload, trace and way."""

    def as_json(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            workload: {trace: {way: asdict(row) for way, row in ways.items()} for trace, ways in traces.items()}
            for workload, traces in self.workloads.items()
        }

    def rows(self) -> Iterator[tuple[str, str, str, WaySummary]]:
        """The workload, the trace, the way and its results, in order."""
        for workload, traces in self.workloads.items():
            for trace, ways in traces.items():
                yield from ((workload, trace, way, row) for way, row in ways.items())


def summary_of(every: Sequence[Runs]) -> Summary:
    """The summary of all runs."""
    by_workload: dict[str, dict[str, dict[str, WaySummary]]] = {}
    for runs in every:
        ways = {way.name: _way(runs, way) for way in runs.ways}
        by_workload.setdefault(runs.workload, {})[runs.trace] = ways
    return Summary(workloads=by_workload)


def markdown_of(summary: Summary) -> str:
    """The summary as a table in Markdown, with a row for each workload, trace and way."""
    columns = {
        "tasks": "running tasks, mean (sources + steps + outputs)",
        **{name: name for name in ("tasks saved", "steps saved", "work saved", "windows")},
        "cores": "cores, mean",
        **{name: name for name in ("cores saved", "p50", "p99")},
    }
    rows = [("workload", "trace", "way", *columns.values()), (*["---"] * 3, *["--:"] * len(columns))]
    for workload, trace, way, row in summary.rows():
        shown = cells(way, row)
        rows.append((_cell(workload), _cell(trace), way, *(shown[name] for name in columns)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def cells(way: str, row: WaySummary) -> dict[str, str]:
    """The cells of tables on a way; those of savings are empty for a baseline."""
    saved = {
        "tasks saved": part(row.tasks_saved),
        "tasks saved at the peak": part(row.tasks_saved_at_peak),
        "steps saved": part(row.steps_saved),
        "work saved": part(row.work_saved),
        "cores saved": part_of(interval_of(row, "cores_saved")),
        "cores saved at the peak": part(row.cores_saved_at_peak),
    }
    return {
        "tasks": tasks_by_kind(row),
        "jobs": number(row.jobs_mean, 1),
        "windows": windows_counted(row),
        "cores": number(row.cores_mean, 3),
        "p50": seconds(row.latency_p50),
        "p99": seconds(row.latency_p99),
        **(dict.fromkeys(saved, "") if way == row.against else saved),
    }


def interval_of(row: WaySummary, name: str) -> IntervalEstimate | None:
    """A number of a way with its interval; None if it is unknown."""
    value, low, high = (getattr(row, f"{name}{bound}") for bound in ("", "_low", "_high"))
    return None if value is None else IntervalEstimate(value=value, low=low, high=high)


def tasks_by_kind(row: WaySummary) -> str:
    """The running tasks of a way for a table cell: all, and the number of each kind."""
    if row.tasks_mean is None:
        return number(None, 1)
    kinds = (row.sources_mean, row.steps_mean, row.outputs_mean)
    return f"{number(row.tasks_mean, 1)} ({' + '.join(number(kind, 1) for kind in kinds)})"


def windows_counted(row: WaySummary) -> str:
    """The valid windows for a table cell, and their total if some were discarded."""
    many = row.windows + row.windows_thrown_away
    if not many:
        return "-"
    return f"{row.windows} of {many}" if row.windows_thrown_away else str(many)


def number(value: float | None, digits: int) -> str:
    """A number for a table cell; a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}"


def seconds(value: float | None) -> str:
    """Seconds for a table cell."""
    return "-" if value is None else f"{value:.2f} s"


def part(value: float | None) -> str:
    """A part for a table cell, in per cent.

    >>> part(0.3777), part(-0.02), part(None)
    ('37.8 %', '-2.0 %', '-')
    """
    return "-" if value is None else f"{100 * value:.1f} %"


def part_of(estimate: IntervalEstimate | None) -> str:
    """A part with its interval.

    >>> part_of(IntervalEstimate(value=0.4, low=0.38, high=0.42))
    '40.0 % (38.0 to 42.0)'
    """
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return part(estimate.value)
    return f"{part(estimate.value)} ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def _way(runs: Runs, way: Way) -> WaySummary:
    step_weights = runs.step_weights
    counts, without = runs.counts(way), runs.counts(way.baseline)
    tasks, work = [row.running_tasks for row in counts], [row.work_running for row in counts]
    steps = [row.running_steps for row in counts]
    pairs = runs.pairs(way)
    cores = saving_of(pairs, dict(enumerate(step_weights)))
    windows = [row for rows in runs.windows(way).values() for row in rows]
    measured = runs.cores(way)
    error = _estimate_error(runs, way)
    return WaySummary(
        against=way.baseline.name,
        steps=len(counts),
        measured_steps=len(measured),
        windows=len(windows),
        windows_thrown_away=len(runs.discarded_windows(way)),
        tasks_mean=_weighted_mean(tasks, step_weights),
        tasks_most=max(tasks),
        tasks_saved=_saved([row.running_tasks for row in without], tasks, step_weights),
        tasks_saved_at_peak=saved_at_peak([row.running_tasks for row in without], tasks),
        tasks_saved_between=saved([row.submitted_tasks for row in counts], tasks, step_weights),
        sources_mean=_weighted_mean([row.running_sources for row in counts], step_weights),
        steps_mean=_weighted_mean(steps, step_weights),
        outputs_mean=_weighted_mean([row.running_outputs for row in counts], step_weights),
        steps_saved=_saved([row.running_steps for row in without], steps, step_weights),
        work_saved=_saved([row.work_running for row in without], work, step_weights),
        work_saved_at_peak=saved_at_peak([row.work_running for row in without], work),
        work_saved_between=saved([row.work_alone for row in counts], work, step_weights),
        work_saved_where_measured=_work_where_measured(runs, way),
        jobs_mean=_weighted_mean([row.jobs for row in counts], step_weights),
        paused_mean=_weighted_mean([row.paused_tasks for row in counts], step_weights),
        bridges_mean=_weighted_mean([row.bridges for row in counts], step_weights),
        cores_mean=_weighted_mean(list(measured.values()), [step_weights[step] for step in measured]),
        cores_saved=cores.value if cores else None,
        cores_saved_low=cores.low if cores else None,
        cores_saved_high=cores.high if cores else None,
        cores_saved_at_peak=_cores_at_peak(runs, way),
        latency_p50=_mean([row.latency_p50 for row in windows]),
        latency_p99=_mean([row.latency_p99 for row in windows]),
        estimate_error=error.value if error else None,
        estimate_error_low=error.low if error else None,
        estimate_error_high=error.high if error else None,
    )


def _saved(without: Sequence[float], shared: Sequence[float], step_weights: Sequence[float]) -> float | None:
    """The saved part of a baseline; None if that was not replayed."""
    return saved(without, shared, step_weights) if without else None


def _weighted_mean(values: Sequence[float], step_weights: Sequence[float]) -> float | None:
    whole = math.fsum(step_weights)
    return (
        math.fsum(weight * value for weight, value in zip(step_weights, values, strict=True)) / whole if whole else None
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _cores_at_peak(runs: Runs, way: Way) -> float | None:
    """The saved part at the measured step with the highest use without sharing."""
    shared, without = runs.cores(way), runs.cores(way.baseline)
    both = [step for step in without if step in shared]
    return saved_at_peak([without[step] for step in both], [shared[step] for step in both])


def _work_where_measured(runs: Runs, way: Way) -> float | None:
    shared = {row.step: row.work_running for row in runs.counts(way)}
    without = {row.step: row.work_running for row in runs.counts(way.baseline)}
    steps = sorted({pair.step for pair in runs.pairs(way)} & shared.keys() & without.keys())
    step_weights = [runs.step_weights[step] for step in steps]
    return saved([without[step] for step in steps], [shared[step] for step in steps], step_weights)


def _estimate_error(runs: Runs, way: Way) -> IntervalEstimate | None:
    """The error of a sharing service's estimate, compared with the cores measured without sharing."""
    column = {"launch": "alone_launched", "pack": "alone_packed"}.get(way.placement)
    pairs = [
        Pair(step=other.step, without=one.cores, shared=estimated)
        for one, other in runs.both(way)
        if column and (estimated := getattr(other, column)) is not None
    ]
    less = saving_of(pairs, dict(enumerate(runs.step_weights))) if way.mode == "reuse" else None
    if less is None:
        return None
    low, high = (None if bound is None else -bound for bound in (less.high, less.low))
    return IntervalEstimate(value=-less.value, low=low, high=high)


class Claim(NamedTuple):
    """A range of savings in the paper or its journal version."""

    quantity: str
    publication: str
    low: float
    high: float
    way: Way
    """The corresponding way here."""
    saved: str
    """The field of its summary with the saving; that at the peak has `_at_peak` behind it."""


CLAIMS = (
    Claim("running tasks", "paper", 0.38, 0.46, REUSE, "tasks_saved"),
    Claim("running tasks", "journal version", 0.34, 0.45, REUSE, "tasks_saved"),
    Claim("CPU", "paper", 0.36, 0.51, REUSE, "cores_saved"),
    Claim("CPU", "journal version", 0.29, 0.63, REUSE, "cores_saved"),
    Claim("cost with defragmentation", "journal version", 0.36, 0.44, DEFRAGMENTED, "cores_saved"),
)
WHY = (
    "In the paper each task is a thread that processes every event, so the CPU is proportional to the tasks. Here tasks"
    " run within jobs, and each micro-batch of a job has a fixed cost: that part is proportional to the number of jobs,"
    " and sharing saves it only if it saves jobs. The number of tasks that can be saved depends on what the dataflows"
    " of a workload have in common, and on how many of them run at a time."
)
"""The general reason for different savings of tasks and of cores."""


def values(summary: Summary, way: Way, field: str) -> list[float]:
    """A number of a way in all workloads and traces that have it."""
    every = (getattr(row, field) for _, _, name, row in summary.rows() if name == way.name)
    return [value for value in every if value is not None]


def percent_range(parts: Sequence[float]) -> str:
    """A range of parts in per cent.

    >>> percent_range([0.38, 0.4611]), percent_range([0.2]), percent_range([])
    ('38.0 to 46.1 %', '20.0 %', 'not measured')
    """
    if not parts:
        return "not measured"
    low, high = f"{100 * min(parts):.1f}", f"{100 * max(parts):.1f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def verdict(claim: Claim, savings: Sequence[float]) -> str:
    """The number of savings within, below and above a claimed range."""
    if not savings:
        return "not measured here"
    inside = sum(claim.low <= saving <= claim.high for saving in savings)
    below = sum(saving < claim.low for saving in savings)
    counts = ((inside, "within"), (below, "below"), (len(savings) - inside - below, "above"))
    return ", ".join(f"{count} of {len(savings)} {where}" for count, where in counts if count)
