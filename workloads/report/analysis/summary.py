"""The summary of a report: for each workload, trace and way what ran, what it took, and what sharing saved. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from workloads.report.analysis.runs import Runs
from workloads.report.analysis.savings import IntervalEstimate, Pair, saved, saved_at_peak, saving_of
from workloads.results import WindowRow
from workloads.way import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class WaySummary:
    """What came of one way to replay a trace; a part of one is a number between 0 and 1. What was not found is None."""

    against: str
    """The way that savings are told against: the same placement without sharing."""
    steps: int
    measured_steps: int
    windows: int
    windows_thrown_away: int
    """Those that count for nothing, because the service was behind."""
    tasks_mean: float | None
    tasks_most: int | None
    tasks_saved: float | None
    """The part of running tasks that sharing saves, over all steps."""
    tasks_saved_at_peak: float | None
    tasks_saved_between: float | None
    """The same against each dataflow by itself without its duplicates."""
    sources_mean: float | None
    """Of the running tasks."""
    steps_mean: float | None
    outputs_mean: float | None
    steps_saved: float | None
    """Of the tasks that sharing saves those with inputs and outputs."""
    work_saved: float | None
    """The part of the work that sharing saves, over all steps: of events times what one costs at each task."""
    work_saved_at_peak: float | None
    work_saved_between: float | None
    """The same against each dataflow by itself without its duplicates."""
    work_saved_where_measured: float | None
    """The same over the steps whose cores were measured both ways, to be set beside the cores saved."""
    jobs_mean: float | None
    paused_mean: float | None
    bridges_mean: float | None
    cores_mean: float | None
    """Over the measured steps."""
    cores_saved: float | None
    """The part of the cores that sharing saves, over the steps that were measured both ways."""
    cores_saved_low: float | None
    cores_saved_high: float | None
    cores_saved_at_peak: float | None
    latency_p50: float | None
    """Seconds, the mean over all windows in which something came."""
    latency_p99: float | None
    estimate_error: float | None
    """By how much the service's estimate of what is needed without sharing departs from what was measured then."""
    estimate_error_low: float | None
    estimate_error_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a report says in numbers; made by `summarised`, written as `summary.json`."""

    workloads: Mapping[str, Mapping[str, Mapping[str, WaySummary]]]
    """By workload, trace and way."""

    def told(self) -> dict[str, Any]:
        """As it stands in the file."""
        return {
            workload: {trace: {way: asdict(each) for way, each in ways.items()} for trace, ways in traces.items()}
            for workload, traces in self.workloads.items()
        }


def summarised(every: Sequence[Runs]) -> Summary:
    """The summary of all runs."""
    found: dict[str, dict[str, dict[str, WaySummary]]] = {}
    for runs in every:
        ways = {way.name: _way(runs, way) for way in runs.ways}
        found.setdefault(runs.workload, {})[runs.trace] = ways
    return Summary(workloads=found)


def markdown_of(summary: Summary) -> str:
    """The summary as a table in Markdown, a row for each workload, trace and way."""
    head = (
        "workload",
        "trace",
        "way",
        "running tasks, mean (sources + steps + outputs)",
        "tasks saved",
        "steps saved",
        "work saved",
        "windows",
        "cores, mean",
        "cores saved",
        "p50",
        "p99",
    )
    rows = [head, ("---", "---", "---", *["--:"] * 9)]
    for workload, traces in summary.workloads.items():
        for trace, ways in traces.items():
            for way, each in ways.items():
                baseline = way == each.against
                rows.append(
                    (
                        _cell(workload),
                        _cell(trace),
                        way,
                        tasks_by_kind(each),
                        "" if baseline else part(each.tasks_saved),
                        "" if baseline else part(each.steps_saved),
                        "" if baseline else part(each.work_saved),
                        windows_counted(each),
                        number(each.cores_mean, 3),
                        "" if baseline else part_of(cores_saving(each)),
                        seconds(each.latency_p50),
                        seconds(each.latency_p99),
                    )
                )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def cores_saving(each: WaySummary) -> IntervalEstimate | None:
    """What a way saves of the cores, with its interval."""
    if each.cores_saved is None:
        return None
    return IntervalEstimate(value=each.cores_saved, low=each.cores_saved_low, high=each.cores_saved_high)


def error_of(each: WaySummary) -> IntervalEstimate | None:
    """By how much the service's estimate departs from what was measured, with its interval."""
    if each.estimate_error is None:
        return None
    return IntervalEstimate(value=each.estimate_error, low=each.estimate_error_low, high=each.estimate_error_high)


def tasks_by_kind(each: WaySummary) -> str:
    """The running tasks of a way for a cell: all, and how many of each kind."""
    if each.tasks_mean is None:
        return number(None, 1)
    kinds = (each.sources_mean, each.steps_mean, each.outputs_mean)
    return f"{number(each.tasks_mean, 1)} ({' + '.join(number(kind, 1) for kind in kinds)})"


def windows_counted(each: WaySummary) -> str:
    """How many windows count, and of how many where some were thrown away."""
    many = each.windows + each.windows_thrown_away
    if not many:
        return "-"
    return f"{each.windows} of {many}" if each.windows_thrown_away else str(many)


def number(value: float | None, digits: int) -> str:
    """A number for a cell, which is a dash where nothing was found."""
    return "-" if value is None else f"{value:.{digits}f}"


def seconds(value: float | None) -> str:
    """Seconds for a cell."""
    return "-" if value is None else f"{value:.2f} s"


def part(value: float | None) -> str:
    """A part for a cell, in per cent; below nothing where more was used.

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
    """A name within a table in Markdown."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")


def _way(runs: Runs, way: Way) -> WaySummary:
    lasting = runs.lasting
    counts, without = runs.counts(way), runs.counts(way.baseline)
    tasks, work = [row.running_tasks for row in counts], [row.work_running for row in counts]
    steps = [row.running_steps for row in counts]
    pairs = runs.pairs(way)
    cores = saving_of(pairs, dict(enumerate(lasting)))
    windows = [row for rows in runs.windows(way).values() for row in rows]
    measured = runs.cores(way)
    error = _estimate_error(runs, way)
    return WaySummary(
        against=way.baseline.name,
        steps=len(counts),
        measured_steps=len(measured),
        windows=len(windows),
        windows_thrown_away=len(runs.thrown_away(way)),
        tasks_mean=_weighed(tasks, lasting),
        tasks_most=max(tasks),
        tasks_saved=_saved([row.running_tasks for row in without], tasks, lasting),
        tasks_saved_at_peak=saved_at_peak([row.running_tasks for row in without], tasks),
        tasks_saved_between=saved([row.submitted_tasks for row in counts], tasks, lasting),
        sources_mean=_weighed([row.running_sources for row in counts], lasting),
        steps_mean=_weighed(steps, lasting),
        outputs_mean=_weighed([row.running_outputs for row in counts], lasting),
        steps_saved=_saved([row.running_steps for row in without], steps, lasting),
        work_saved=_saved([row.work_running for row in without], work, lasting),
        work_saved_at_peak=saved_at_peak([row.work_running for row in without], work),
        work_saved_between=saved([row.work_alone for row in counts], work, lasting),
        work_saved_where_measured=_work_where_measured(runs, way),
        jobs_mean=_weighed([row.jobs for row in counts], lasting),
        paused_mean=_weighed([row.paused_tasks for row in counts], lasting),
        bridges_mean=_weighed([row.bridges for row in counts], lasting),
        cores_mean=_weighed(list(measured.values()), [lasting[step] for step in measured]),
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


def _saved(without: Sequence[float], shared: Sequence[float], lasting: Sequence[float]) -> float | None:
    """What is saved against a baseline, if that was replayed."""
    return saved(without, shared, lasting) if without else None


def _weighed(values: Sequence[float], lasting: Sequence[float]) -> float | None:
    """The mean of what there was at each step."""
    whole = math.fsum(lasting)
    return math.fsum(weight * each for weight, each in zip(lasting, values, strict=True)) / whole if whole else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return fmean(known) if known else None


def _cores_at_peak(runs: Runs, way: Way) -> float | None:
    """What is saved at the measured step at which most is used without sharing."""
    shared, without = runs.cores(way), runs.cores(way.baseline)
    both = [step for step in without if step in shared]
    return saved_at_peak([without[step] for step in both], [shared[step] for step in both])


def _work_where_measured(runs: Runs, way: Way) -> float | None:
    shared = {row.step: row.work_running for row in runs.counts(way)}
    without = {row.step: row.work_running for row in runs.counts(way.baseline)}
    steps = sorted({pair.step for pair in runs.pairs(way)} & shared.keys() & without.keys())
    lasting = [runs.lasting[step] for step in steps]
    return saved([without[step] for step in steps], [shared[step] for step in steps], lasting)


def _estimate_error(runs: Runs, way: Way) -> IntervalEstimate | None:
    """By how much the estimate that a service made while it shared departs from what was measured without sharing."""
    pairs = [
        Pair(step=other.step, without=one.cores, shared=estimated)
        for one, other in runs.both(way)
        if (estimated := _alone(other, way)) is not None
    ]
    less = saving_of(pairs, dict(enumerate(runs.lasting))) if way.mode == "reuse" else None
    if less is None:
        return None
    low, high = (None if each is None else -each for each in (less.high, less.low))
    return IntervalEstimate(value=-less.value, low=low, high=high)


def _alone(row: WindowRow, way: Way) -> float | None:
    return {"launch": row.alone_launched, "pack": row.alone_packed}.get(way.placement)
