"""The figures of a report, drawn with matplotlib: their panels, titles and alternative texts, and their files.

Panels need no display. The files are PNG, SVG, and SVG within a page, which sets its colours.
"""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import log10
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from manager.costs.measured import ASSUMED
from workloads.report.findings import measured_savings, regime_of
from workloads.report.runs import MANY, Runs, cores_by_packing_and_sharing, latencies, shares_by_users
from workloads.report.summary import number, seconds
from workloads.report.web_page import Html, escaped
from workloads.traces import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE, REUSE_PACKED, Way

INK, FAINT, PAPER = "#1b2430", "#8a94a3", "#ffffff"
WIDTH, HEIGHT = 3.6, 2.5
"""Inches of a panel."""
Panel: TypeAlias = Callable[[Axes, Runs, str], None]
"""Draws one panel: a quantity of these runs."""


class WayStyle(NamedTuple):
    """The style of a way in every figure; styles differ by more than colour."""

    color: str
    line: str
    marker: str
    hatch: str


WAY_STYLES = {
    DEFAULT: WayStyle("#c2410c", "-", "o", ""),
    REUSE: WayStyle("#0369a1", "-", "s", ""),
    DEFRAGMENTED: WayStyle("#15803d", "--", "^", "//"),
    DEFAULT_PACKED: WayStyle("#b7791f", ":", "D", ".."),
    REUSE_PACKED: WayStyle("#7c3aed", "-.", "v", "\\\\"),
}
OTHER = WayStyle("#64748b", "--", "x", "xx")
COLORS = (INK, FAINT, *(style.color for style in WAY_STYLES.values()), OTHER.color)
"""All colours of figures; pages replace them by their own, for light and dark mode."""


def _name_of(runs: Runs) -> str:
    """A panel's name, in letters that every font has."""
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in runs.name)[-40:]


def line_of(way: Way) -> dict[str, Any]:
    """The options to draw a way's line."""
    style = WAY_STYLES.get(way, OTHER)
    return {"color": style.color, "linestyle": style.line, "linewidth": 1.4, "label": way.name}


def draw_counts(axes: Axes, counts: Sequence[int], way: Way) -> None:
    """Draw a way's counts after each step."""
    axes.step(range(1, len(counts) + 1), counts, where="mid", **line_of(way))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def label_ways(axes: Axes, ways: Sequence[Way]) -> None:
    """Label the places on a panel's x axis with the ways."""
    axes.set_xticks(range(len(ways)), [way.name.replace("-", "-\n") for way in ways], fontsize=6.5)
    axes.set_xlim(-0.6, len(ways) - 0.4)


def _finish(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_title(title, fontsize=9, color=INK, parse_math=False)
    axes.set_xlabel(across, fontsize=8, color=INK)
    axes.set_ylabel(up, fontsize=8, color=INK)
    if axes.dataLim.y0 >= 0.0:
        axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=7, colors=FAINT, labelcolor=INK)
    axes.grid(visible=True, axis="y", color=FAINT, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)


def _legend(drawing: Drawing) -> None:
    named = {name: line for axes in drawing.axes for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    if named:
        drawing.legend(
            list(named.values()),
            list(named),
            loc="outside upper center",
            ncols=len(named),
            fontsize=8,
            frameon=False,
            labelcolor=INK,
        )


_COUNTED = (DEFAULT, REUSE)
_COMPARED = (*_COUNTED, DEFRAGMENTED)
_SCATTERED = (REUSE, DEFRAGMENTED)
_SAVINGS = {"sharing": REUSE, "packing": DEFAULT_PACKED, "defragmenting": DEFRAGMENTED}
"""The ways whose styles the three savings have."""
_JOBS = "jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure that is not drawn yet."""

    name: str
    """The name of its files, without suffixes."""
    title: str
    alt: str
    """The beginning of the alternative text for those who cannot see it."""
    rows: Sequence[str]
    """The quantities shown for each workload, one row of panels each."""
    across: str
    suits: Callable[[Runs], Any]
    """Whether runs suffice for a panel."""
    panel: Panel
    describe: Callable[[Runs], Iterable[str]]
    """The rest of the alternative text, for each panel."""


def _draw_tasks(axes: Axes, runs: Runs, _what: str) -> None:
    for way in _counted(runs):
        draw_counts(axes, [row.running_tasks for row in runs.counts(way)], way)


def _say_tasks(runs: Runs) -> Iterable[str]:
    return (f"at most {max(row.running_tasks for row in runs.counts(way))} with {way.name}" for way in _counted(runs))


def _draw_cores(axes: Axes, runs: Runs, _what: str) -> None:
    for way in _measured(runs):
        if estimates := runs.estimates(way):
            axes.errorbar(
                [step + 1 for step in estimates],
                [cores.value for cores in estimates.values()],
                yerr=[0.0 if cores.high is None else cores.high - cores.value for cores in estimates.values()],
                marker=WAY_STYLES.get(way, OTHER).marker,
                markersize=3.5,
                capsize=2,
                elinewidth=0.8,
                **line_of(way),
            )


def _say_cores(runs: Runs) -> Iterable[str]:
    for way in _measured(runs):
        if cores := runs.cores(way):
            yield f"{number(fmean(cores.values()), 2)} cores on average with {way.name}"


def _draw_reuse(axes: Axes, runs: Runs, _what: str) -> None:
    shares = shares_by_users(runs)
    bars = axes.bar(list(shares), [100 * part for part in shares.values()], color=WAY_STYLES[REUSE].color, width=0.7)
    axes.bar_label(bars, fmt="%.1f", fontsize=7, color=INK, padding=1)
    axes.set_xticks(list(shares), [f"{users}+" if users == MANY else str(users) for users in shares])
    axes.margins(y=0.15)


def _say_reuse(runs: Runs) -> Iterable[str]:
    for users, share in shares_by_users(runs).items():
        yield f"{100 * share:.1f} % by {users}{' or more' if users == MANY else ''}"


def _draw_defragmentation(axes: Axes, runs: Runs, what: str) -> None:
    for way in _SCATTERED:
        draw_counts(axes, [row.jobs if what == _JOBS else row.paused_tasks for row in runs.counts(way)], way)


def _say_defragmentation(runs: Runs) -> Iterable[str]:
    for way in _SCATTERED:
        steps = runs.counts(way)
        jobs, paused = max(row.jobs for row in steps), max(row.paused_tasks for row in steps)
        yield f"at most {jobs} jobs and {paused} paused tasks with {way.name}"


def _draw_latency(axes: Axes, runs: Runs, _what: str) -> None:
    by_way = latencies(runs)
    for place, (way, (p50, p99)) in enumerate(by_way.items()):
        color = WAY_STYLES.get(way, OTHER).color
        axes.plot([place, place], [p50, p99], color=color, linewidth=1)
        axes.plot(place, p50, marker="o", color=color)
        axes.plot(place, p99, marker="_", markersize=14, color=color)
    label_ways(axes, list(by_way))


def _say_latency(runs: Runs) -> Iterable[str]:
    return (f"{seconds(p50)} and {seconds(p99)} with {way.name}" for way, (p50, p99) in latencies(runs).items())


def _draw_packing(axes: Axes, runs: Runs, _what: str) -> None:
    by_way = cores_by_packing_and_sharing(runs)
    for place, (way, cores) in enumerate(by_way.items()):
        style = WAY_STYLES[way]
        bars = axes.bar(place, cores, color=style.color, hatch=style.hatch, edgecolor=PAPER, linewidth=0, width=0.7)
        axes.bar_label(bars, fmt="%.2f", fontsize=7, color=INK, padding=1)
    label_ways(axes, list(by_way))
    axes.margins(y=0.15)


def _say_packing(runs: Runs) -> Iterable[str]:
    return (f"{cores:.2f} with {way.name}" for way, cores in cores_by_packing_and_sharing(runs).items())


def _draw_regime(axes: Axes, runs: Runs, _what: str) -> None:
    regime = regime_of(runs)
    if regime is None:
        return
    across = [10.0 ** (exponent / 20) for exponent in range(-60, round(20 * log10(regime.pace)))]
    modelled = [regime.at(load) for load in across]
    dots = measured_savings(runs)
    for name, way in _SAVINGS.items():
        saved = [100 * getattr(savings.saves, name) / (savings.alone + ASSUMED.host) for savings in modelled]
        axes.plot([1_000 * load for load in across], saved, **{**line_of(way), "label": name})
        measured = getattr(dots, name) if dots else None
        if measured is not None:
            style = WAY_STYLES[way]
            axes.plot(1_000 * regime.per_batch, 100 * measured, marker=style.marker, color=style.color)
    if regime.crossover is not None:
        axes.axvline(1_000 * regime.crossover, color=FAINT, linewidth=1)
    axes.set_xscale("log")


def _say_regime(runs: Runs) -> Iterable[str]:
    regime = regime_of(runs)
    if regime is not None:
        over = regime.crossover
        yield f"{1_000 * regime.per_batch:.0f} ms of work in a batch"
        yield "no crossover" if over is None else f"sharing saves more than packing from {1_000 * over:.0f} ms"


def _counted(runs: Runs) -> list[Way]:
    """The ways in the figure of tasks: launched ones, or else all ways."""
    return [way for way in _COUNTED if runs.counts(way)] or [way for way in runs.ways if way.defragment == "off"]


def _measured(runs: Runs) -> list[Way]:
    """The ways in the figure of cores: launched ones, or else all measured ways."""
    measured = [way for way in runs.ways if runs.cores(way)]
    return [way for way in _COMPARED if way in measured] or measured


FIGURES = (
    Figure(
        name="tasks-per-step",
        title="Running tasks after each step (the paper's figure 2)",
        alt="Lines of the running tasks after each step, a panel for each workload and trace.",
        rows=("running tasks",),
        across="step",
        suits=_counted,
        panel=_draw_tasks,
        describe=_say_tasks,
    ),
    Figure(
        name="cores-per-step",
        title="Cores at each measured step (the paper's figure 3)",
        alt="Lines of the cores used at the measured steps, with 95 % intervals.",
        rows=("cores",),
        across="step",
        suits=_measured,
        panel=_draw_cores,
        describe=_say_cores,
    ),
    Figure(
        name="reuse-histogram",
        title="Running tasks that several dataflows use (the paper's figure 4)",
        alt="Bars of the part of the running tasks that several dataflows use, by their number.",
        rows=("% of running tasks",),
        across="dataflows that use a task",
        suits=shares_by_users,
        panel=_draw_reuse,
        describe=_say_reuse,
    ),
    Figure(
        name="defragmentation",
        title="Jobs and paused tasks, with and without defragmentation",
        alt="Lines of jobs and of paused tasks after each step.",
        rows=(_JOBS, "paused tasks"),
        across="step",
        suits=lambda runs: all(map(runs.counts, _SCATTERED)),
        panel=_draw_defragmentation,
        describe=_say_defragmentation,
    ),
    Figure(
        name="latency",
        title="Latency from event to output: the median (dot) and the 99th percentile (bar)",
        alt="The median and the 99th percentile of the latency.",
        rows=("seconds",),
        across="",
        suits=latencies,
        panel=_draw_latency,
        describe=_say_latency,
    ),
    Figure(
        name="packing-and-sharing",
        title="Mean cores with and without packing, with and without sharing",
        alt="Bars of the mean cores over the common steps of all ways.",
        rows=("cores",),
        across="",
        suits=lambda runs: len(cores_by_packing_and_sharing(runs)) > len(_COUNTED),
        panel=_draw_packing,
        describe=_say_packing,
    ),
    Figure(
        name="regimes",
        title="Savings of default's cores, by the work in a batch",
        alt="Lines of what sharing, packing and defragmenting save by the model; dots are measured.",
        rows=("% of default's cores",),
        across="milliseconds of work in a batch",
        suits=regime_of,
        panel=_draw_regime,
        describe=_say_regime,
    ),
)


def panels(shown: Sequence[Runs], figure: Figure) -> Drawing:
    """Draw a figure's panels: a row for each workload and quantity, a column for each trace."""
    kinds = list(product(dict.fromkeys(runs.workload for runs in shown), figure.rows))
    traces = list(dict.fromkeys(runs.trace for runs in shown))
    size = (max(WIDTH * len(traces), WIDTH * 1.6), HEIGHT * len(kinds) + 0.4)
    drawing = Drawing(figsize=size, layout="constrained")
    for runs, what in product(shown, figure.rows):
        at = kinds.index((runs.workload, what)) * len(traces) + traces.index(runs.trace) + 1
        axes = drawing.add_subplot(len(kinds), len(traces), at)
        figure.panel(axes, runs, what)
        _finish(axes, _name_of(runs), figure.across, what)
    _legend(drawing)
    return drawing


def pictures_of(every: Sequence[Runs], folder: Path) -> dict[str, tuple[str, Html]]:
    """Draw the figures that the results suffice for into a folder; their titles and SVG for the page, by name."""
    pictures = {}
    for figure in FIGURES:
        if shown := [runs for runs in every if figure.suits(runs)]:
            svg = write_drawing(partial(panels, shown, figure), figure.name, folder)
            described = "; ".join(f"{_name_of(runs)}: {', '.join(figure.describe(runs))}" for runs in shown)
            pictures[figure.name] = figure.title, within_page(svg, figure.name, f"{figure.alt} {described}.")
    return pictures


_SETTINGS: Mapping[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "braid",
    "font.family": "sans-serif",
    "hatch.linewidth": 0.6,
    "text.color": INK,
}


def write_drawing(draw: Callable[[], Drawing], name: str, folder: Path) -> str:
    """Write a drawing's files to a folder, and return its SVG without a background."""
    with mpl.rc_context(dict(_SETTINGS)):
        drawing = draw()
        drawing.savefig(folder / f"{name}.png", dpi=160, facecolor=PAPER)
        (folder / f"{name}.svg").write_text(_svg(drawing, clear=False), encoding="utf-8")
        return _svg(drawing, clear=True)


def svg_of(draw: Callable[[], Drawing]) -> str:
    """A drawing as the text of its SVG file."""
    with mpl.rc_context(dict(_SETTINGS)):
        return _svg(draw(), clear=False)


def within_page(svg: str, name: str, alt: str) -> Html:
    """An SVG file as an element of a page, with unique ids, the page's colours and an alternative text."""
    start = svg.index("<svg")
    inside = svg[svg.index(">", start) + 1 :]
    inside = re.sub(r"<metadata>.*?</metadata>", "", inside, flags=re.DOTALL)
    inside = re.sub(r'\bid="', f'id="{name}-', inside)
    inside = re.sub(r"url\(#", f"url(#{name}-", inside)
    inside = re.sub(r'href="#', f'href="#{name}-', inside)
    for color in COLORS:
        inside = inside.replace(color, f"var(--c{color[1:]}, {color})")
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None  # noqa: S101 - matplotlib writes one
    return Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {box.group()}'
        f' role="img" aria-label="{escaped(alt)}">{inside}'
    )


def _svg(drawing: Drawing, *, clear: bool) -> str:
    file = io.StringIO()
    # Without a date the same figure is the same file.
    drawing.savefig(
        file, format="svg", transparent=clear, metadata={"Date": None}, **({} if clear else {"facecolor": PAPER})
    )
    return file.getvalue()
