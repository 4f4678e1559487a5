"""Pictures of what papers show: the paper's on the left and ours on the right, along the same axes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from benchmarks.papers.exhibits import ComparedRow, Exhibit, PaperRange, Plot, Shown
from workloads.report.drawings import FAINT, HEIGHT, INK, PAPER, WIDTH


class _Style(NamedTuple):
    color: str
    marker: str
    hatch: str


_STYLES = (
    _Style("#0369a1", "s", ""),
    _Style("#c2410c", "o", "//"),
    _Style("#15803d", "^", ".."),
    _Style("#7c3aed", "v", "\\\\"),
    _Style("#b7791f", "D", "xx"),
    _Style("#64748b", "x", "--"),
)
"""The columns of an exhibit, in their order."""
_SIDES = ("the paper", "Braid")
_BESIDE = 0.8
"""The part of a place on the axis that bars take."""
_LONG = 7
"""More letters than this under bars are turned."""
_Bounds = tuple[float, float]
_Point = tuple[int, _Bounds]
"""The place of a row, and what is drawn there."""
Numbers = Sequence[Sequence[_Bounds | None]]
"""Rows of an exhibit by columns: from where to where, which is the same for a number; None where there is none."""


def drawing_of(exhibit: Exhibit, plot: Plot, results: Mapping[str, Any]) -> Drawing:
    """Two panels, or ours alone where the paper's text has no numbers."""
    both = list(zip(_of_paper(exhibit.rows), _of_ours(exhibit.rows, results), strict=True))
    shown = [
        at
        for at, column in enumerate(exhibit.columns)
        if column.is_drawn and any(side[at] is not None for row in both for side in row)
    ]
    filled = [at for at, row in enumerate(both) if any(side[column] is not None for side in row for column in shown)]
    names = [exhibit.rows[at].name for at in filled]
    by_side = {title: [both[at][side] for at in filled] for side, title in enumerate(_SIDES)}
    sides = {
        title: numbers
        for title, numbers in by_side.items()
        if any(row[at] is not None for row in numbers for at in shown)
    }
    width = WIDTH * len(sides) * (1.0 if len(names) < _LONG else 1.3)
    drawing = Drawing(figsize=(max(width, 1.5 * WIDTH), HEIGHT + 0.4), layout="constrained")
    panels = drawing.subplots(1, len(sides), sharey=True, squeeze=False)[0]
    for axes, (title, numbers) in zip(panels, sides.items(), strict=True):
        for place, at in enumerate(shown):
            style = _STYLES[at % len(_STYLES)]
            points = [(x, bounds) for x, row in enumerate(numbers) if (bounds := row[at]) is not None]
            if plot.kind == "lines":
                _draw_line(axes, points, style, exhibit.columns[at].title)
            else:
                _draw_bars(axes, points, style, exhibit.columns[at].title, (place, len(shown)))
        _finish(axes, title, plot, names)
    panels[0].set_ylabel(plot.up, fontsize=8, color=INK)
    handles = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if len(shown) > 1:
        drawing.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return drawing


def _of_paper(rows: Sequence[ComparedRow]) -> Numbers:
    return [[_range_of(value) for value in row.paper] for row in rows]


def _of_ours(rows: Sequence[ComparedRow], results: Mapping[str, Any]) -> Numbers:
    return [[_range_of(figure.taken(results)) if figure else None for figure in row.ours] for row in rows]


def _range_of(value: Shown) -> _Bounds | None:
    if isinstance(value, float | int):
        return value, value
    return (value.low, value.low if value.high is None else value.high) if isinstance(value, PaperRange) else None


def _draw_bars(axes: Axes, points: Sequence[_Point], style: _Style, label: str, place: tuple[int, int]) -> None:
    """Draw a column's bars, which have a place of several on each row's part of the axis."""
    at, many = place
    width = _BESIDE / many
    bottoms = [low if low < high else 0.0 for _, (low, high) in points]
    axes.bar(
        [x - _BESIDE / 2 + width * (at + 0.5) for x, _ in points],
        [high - bottom for (_, (_, high)), bottom in zip(points, bottoms, strict=True)],
        bottom=bottoms,
        width=width,
        color=style.color,
        hatch=style.hatch,
        edgecolor=PAPER,
        linewidth=0,
        label=label,
    )


def _draw_line(axes: Axes, points: Sequence[_Point], style: _Style, label: str) -> None:
    middles = [(low + high) / 2 for _, (low, high) in points]
    axes.errorbar(
        [x for x, _ in points],
        middles,
        yerr=[middle - low for middle, (_, (low, _)) in zip(middles, points, strict=True)],
        capsize=2,
        color=style.color,
        marker=style.marker,
        markersize=4,
        linewidth=1.4,
        label=label,
    )


def _finish(axes: Axes, side: str, plot: Plot, names: Sequence[str]) -> None:
    axes.set_title(side, fontsize=9, color=INK)
    axes.set_xlabel(plot.across, fontsize=8, color=INK)
    if max(map(len, names)) > _LONG:
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    else:
        axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.6, len(names) - 0.4)
    if plot.is_log:
        axes.set_yscale("log")
    axes.tick_params(labelsize=7, colors=FAINT, labelcolor=INK)
    axes.grid(visible=True, axis="y", color=FAINT, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
