"""The figures of a report: their titles, alternative texts and panels."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log10
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from manager.costs.measured import ASSUMED
from workloads.report.analysis.means import MANY, cores_by_packing_and_sharing, latencies, shares_by_users
from workloads.report.analysis.regimes import measured_savings, regime_of
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import number, seconds
from workloads.report.drawings.panels import (
    FAINT,
    INK,
    OTHER,
    PAPER,
    WAY_STYLES,
    Panel,
    draw_counts,
    label_ways,
    line_of,
    name_of,
    panels,
)
from workloads.way import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE, Way

_COUNTED = (DEFAULT, REUSE)
_COMPARED = (*_COUNTED, DEFRAGMENTED)
_SCATTERED = (REUSE, DEFRAGMENTED)
_SAVINGS = {"sharing": REUSE, "packing": DEFAULT_PACKED, "defragmenting": DEFRAGMENTED}
"""The ways whose styles the three savings have."""
_STEP, _TASKS, _JOBS, _PAUSED = "step", "running tasks", "jobs", "paused tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure that is not drawn yet."""

    name: str
    """The name of its files, without suffixes."""
    title: str
    alt: str
    """The alternative text for those who cannot see it."""
    shown: Sequence[Runs]
    rows: Sequence[str]
    """The quantities shown for each workload, one row of panels each."""
    across: str
    panel: Panel

    def draw(self) -> Drawing:
        """Draw the figure."""
        return panels(self.shown, self.rows, self.panel, self.across)


def figures_of(every: Sequence[Runs]) -> dict[str, Figure]:
    """The figures that the results suffice for, by name."""
    made = (
        _tasks([runs for runs in every if _counted(runs)]),
        _cores([runs for runs in every if _measured(runs)]),
        _reuse([runs for runs in every if shares_by_users(runs)]),
        _defragmentation([runs for runs in every if all(runs.counts(way) for way in _SCATTERED)]),
        _latency([runs for runs in every if latencies(runs)]),
        _packing([runs for runs in every if len(cores_by_packing_and_sharing(runs)) > len(_COUNTED)]),
        _regimes([runs for runs in every if regime_of(runs)]),
    )
    return {figure.name: figure for figure in made if figure.shown}


def _tasks(shown: Sequence[Runs]) -> Figure:
    def panel(axes: Axes, runs: Runs, _what: str) -> None:
        for way in _counted(runs):
            tasks = [row.running_tasks for row in runs.counts(way)]
            draw_counts(axes, tasks, way)

    def describe(runs: Runs) -> Iterable[str]:
        for way in _counted(runs):
            yield f"at most {max(row.running_tasks for row in runs.counts(way))} with {way.name}"

    return Figure(
        name="tasks-per-step",
        title="Running tasks after each step (the paper's figure 2)",
        alt=_alt("Lines of the running tasks after each step, a panel for each workload and trace.", shown, describe),
        shown=shown,
        rows=(_TASKS,),
        across=_STEP,
        panel=panel,
    )


def _cores(shown: Sequence[Runs]) -> Figure:
    def panel(axes: Axes, runs: Runs, _what: str) -> None:
        for way in _measured(runs):
            found = {step + 1: each for step, each in runs.estimates(way).items()}
            if found:
                axes.errorbar(
                    list(found),
                    [each.value for each in found.values()],
                    yerr=[0.0 if each.high is None else each.high - each.value for each in found.values()],
                    marker=WAY_STYLES.get(way, OTHER).marker,
                    markersize=3.5,
                    capsize=2,
                    elinewidth=0.8,
                    **line_of(way),
                )

    def describe(runs: Runs) -> Iterable[str]:
        for way in _measured(runs):
            if cores := runs.cores(way):
                yield f"{number(fmean(cores.values()), 2)} cores on average with {way.name}"

    return Figure(
        name="cores-per-step",
        title="Cores at each measured step (the paper's figure 3)",
        alt=_alt("Lines of the cores used at the measured steps, with 95 % intervals.", shown, describe),
        shown=shown,
        rows=("cores",),
        across=_STEP,
        panel=panel,
    )


def _reuse(shown: Sequence[Runs]) -> Figure:
    def panel(axes: Axes, runs: Runs, _what: str) -> None:
        found = shares_by_users(runs)
        bars = axes.bar(list(found), [100 * each for each in found.values()], color=WAY_STYLES[REUSE].color, width=0.7)
        axes.bar_label(bars, fmt="%.1f", fontsize=7, color=INK, padding=1)
        axes.set_xticks(list(found), [f"{users}+" if users == MANY else str(users) for users in found])
        axes.margins(y=0.15)

    def describe(runs: Runs) -> Iterable[str]:
        for users, each in shares_by_users(runs).items():
            yield f"{100 * each:.1f} % by {users}{' or more' if users == MANY else ''}"

    return Figure(
        name="reuse-histogram",
        title="Running tasks that several dataflows use (the paper's figure 4)",
        alt=_alt(
            "Bars of the part of the running tasks that several dataflows use, by their number.",
            shown,
            describe,
        ),
        shown=shown,
        rows=("% of running tasks",),
        across="dataflows that use a task",
        panel=panel,
    )


def _defragmentation(shown: Sequence[Runs]) -> Figure:
    def panel(axes: Axes, runs: Runs, what: str) -> None:
        for way in _SCATTERED:
            counts = [row.jobs if what == _JOBS else row.paused_tasks for row in runs.counts(way)]
            draw_counts(axes, counts, way)

    def describe(runs: Runs) -> Iterable[str]:
        for way in _SCATTERED:
            steps = runs.counts(way)
            jobs, paused = max(row.jobs for row in steps), max(row.paused_tasks for row in steps)
            yield f"at most {jobs} jobs and {paused} paused tasks with {way.name}"

    return Figure(
        name="defragmentation",
        title="Jobs and paused tasks, with and without defragmentation",
        alt=_alt("Lines of jobs and of paused tasks after each step.", shown, describe),
        shown=shown,
        rows=(_JOBS, _PAUSED),
        across=_STEP,
        panel=panel,
    )


def _latency(shown: Sequence[Runs]) -> Figure:
    def panel(axes: Axes, runs: Runs, _what: str) -> None:
        found = latencies(runs)
        for place, (way, (p50, p99)) in enumerate(found.items()):
            color = WAY_STYLES.get(way, OTHER).color
            axes.plot([place, place], [p50, p99], color=color, linewidth=1)
            axes.plot(place, p50, marker="o", color=color)
            axes.plot(place, p99, marker="_", markersize=14, color=color)
        label_ways(axes, list(found))

    def describe(runs: Runs) -> Iterable[str]:
        for way, (p50, p99) in latencies(runs).items():
            yield f"{seconds(p50)} and {seconds(p99)} with {way.name}"

    return Figure(
        name="latency",
        title="Latency from event to output: the median (dot) and the 99th percentile (bar)",
        alt=_alt("The median and the 99th percentile of the latency.", shown, describe),
        shown=shown,
        rows=("seconds",),
        across="",
        panel=panel,
    )


def _packing(shown: Sequence[Runs]) -> Figure:
    def panel(axes: Axes, runs: Runs, _what: str) -> None:
        found = cores_by_packing_and_sharing(runs)
        for place, (way, cores) in enumerate(found.items()):
            style = WAY_STYLES[way]
            bars = axes.bar(place, cores, color=style.color, hatch=style.hatch, edgecolor=PAPER, linewidth=0, width=0.7)
            axes.bar_label(bars, fmt="%.2f", fontsize=7, color=INK, padding=1)
        label_ways(axes, list(found))
        axes.margins(y=0.15)

    def describe(runs: Runs) -> Iterable[str]:
        return (f"{cores:.2f} with {way.name}" for way, cores in cores_by_packing_and_sharing(runs).items())

    return Figure(
        name="packing-and-sharing",
        title="Mean cores with and without packing, with and without sharing",
        alt=_alt("Bars of the mean cores over the common steps of all ways.", shown, describe),
        shown=shown,
        rows=("cores",),
        across="",
        panel=panel,
    )


def _regimes(shown: Sequence[Runs]) -> Figure:
    def panel(axes: Axes, runs: Runs, _what: str) -> None:
        regime = regime_of(runs)
        if regime is None:
            return
        across = [10.0 ** (exponent / 20) for exponent in range(-60, round(20 * log10(regime.pace)))]
        found = [regime.at(each) for each in across]
        dots = measured_savings(runs, regime)
        for name, way in _SAVINGS.items():
            saved = [100 * getattr(each.saves, name) / (each.alone + ASSUMED.host) for each in found]
            axes.plot([1_000 * each for each in across], saved, **{**line_of(way), "label": name})
            measured = getattr(dots, name) if dots else None
            if dots and measured is not None:
                axes.plot(
                    1_000 * dots.per_batch, 100 * measured, marker=WAY_STYLES[way].marker, color=WAY_STYLES[way].color
                )
        if regime.crossover is not None:
            axes.axvline(1_000 * regime.crossover, color=FAINT, linewidth=1)
        axes.set_xscale("log")

    def describe(runs: Runs) -> Iterable[str]:
        regime = regime_of(runs)
        if regime is not None:
            over = regime.crossover
            yield f"{1_000 * regime.per_batch:.0f} ms of work in a batch"
            yield "no crossover" if over is None else f"sharing saves more than packing from {1_000 * over:.0f} ms"

    return Figure(
        name="regimes",
        title="Savings of default's cores, by the work in a batch",
        alt=_alt(
            "Lines of what sharing, packing and defragmenting save by the model; dots are measured.",
            shown,
            describe,
        ),
        shown=shown,
        rows=("% of default's cores",),
        across="milliseconds of work in a batch",
        panel=panel,
    )


def _counted(runs: Runs) -> list[Way]:
    """The ways in the figure of tasks: launched ones, or else all ways."""
    return [way for way in _COUNTED if runs.counts(way)] or [way for way in runs.ways if way.defragment == "off"]


def _measured(runs: Runs) -> list[Way]:
    """The ways in the figure of cores: launched ones, or else all measured ways."""
    measured = [way for way in runs.ways if runs.cores(way)]
    return [way for way in _COMPARED if way in measured] or measured


def _alt(what: str, shown: Sequence[Runs], describe: Callable[[Runs], Iterable[str]]) -> str:
    by_trace = [f"{name_of(runs)}: {', '.join(describe(runs))}" for runs in shown]
    return f"{what} {'; '.join(by_trace)}."
