"""The panels of figures: layout, styles and legend. Needs matplotlib, but no display."""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from workloads.report.analysis.runs import Runs
from workloads.way import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE, REUSE_PACKED, Way

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


def panels(shown: Sequence[Runs], rows: Sequence[str], panel: Panel, across: str) -> Drawing:
    """Draw panels: a row for each workload and quantity, a column for each trace."""
    kinds = list(product(dict.fromkeys(runs.workload for runs in shown), rows))
    traces = list(dict.fromkeys(runs.trace for runs in shown))
    size = (max(WIDTH * len(traces), WIDTH * 1.6), HEIGHT * len(kinds) + 0.4)
    drawing = Drawing(figsize=size, layout="constrained")
    for runs, what in product(shown, rows):
        at = kinds.index((runs.workload, what)) * len(traces) + traces.index(runs.trace) + 1
        axes = drawing.add_subplot(len(kinds), len(traces), at)
        panel(axes, runs, what)
        _finish(axes, name_of(runs), across, what)
    _legend(drawing)
    return drawing


def name_of(runs: Runs) -> str:
    """A panel's name, in letters that every font has."""
    name = f"{runs.workload}, {runs.trace}"
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in name)[-40:]


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
