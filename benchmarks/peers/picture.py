"""The picture of the peers side by side: cores and latency by rate, a column for each number of dataflows."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from benchmarks.peers.measurement import Row, share_of_due
from workloads.report.drawings import FAINT, HEIGHT, INK, WIDTH, write_drawing

_SHOWN: Mapping[str, tuple[str, str]] = {
    "braid": ("#0369a1", "o"),
    "node-red": ("#c2410c", "s"),
    "pyflink": ("#7c3aed", "^"),
    "pyspark": ("#15803d", "D"),
}
"""The colour and marker of each system."""
_MEASURED: Mapping[str, str] = {"cores": "cores", "p50_s": "latency (median), s"}
_ALMOST_ALL = 0.95
"""The part of the due outputs that have to come in time for a system to count; a window's ends cut some off."""


def write_picture(rows: Sequence[Row], folder: Path) -> None:
    """Write the picture of some measurements as `peers.png` and `peers.svg`; nothing if no system was measured."""
    measured = [row for row in rows if "cores" in row and not row.get("trial")]
    # Where Braid is not among them, whatever there is.
    sizes = sorted({row["dataflows"] for row in [row for row in measured if row["system"] == "braid"] or measured})
    if sizes:
        write_drawing(lambda: _drawn(rows, sizes), "peers", folder)


def lines_of(
    rows: Iterable[Row], size: int, what: str, *, above: int = 0
) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """For each system its figure at each rate at which nearly all outputs came in time, with its number of dataflows.

    That number is at most `size` and more than `above`: a system may be unable to run as many as others.

    >>> row = {"system": "braid", "dataflows": 50, "outputs_per_s": 9.9, "due_per_s": 10.0}
    >>> lines_of([{**row, "events_per_s": 100.0, "cores": 0.1}], 50, "cores")
    {('braid', 50): [(100.0, 0.1)]}
    """
    lines: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row in rows:
        measured = above < row.get("dataflows", 0) <= size and what in row and not row.get("trial")
        if measured and row[what] is not None and share_of_due(row) >= _ALMOST_ALL:
            lines.setdefault((row["system"], row["dataflows"]), []).append((row["events_per_s"], row[what]))
    return lines


def _drawn(rows: Sequence[Row], sizes: Sequence[int]) -> Drawing:
    drawing = Drawing(figsize=(WIDTH * max(1.6, len(sizes)), HEIGHT * len(_MEASURED) + 0.4), layout="constrained")
    axes = drawing.subplots(len(_MEASURED), len(sizes), squeeze=False)
    for line, (what, up) in enumerate(_MEASURED.items()):
        for column, size in enumerate(sizes):
            lines = lines_of(rows, size, what, above=sizes[column - 1] if column else 0)
            _panel(axes[line][column], lines, size, up)
    handles = {
        label: handle for panel in axes.flat for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    drawing.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False
    )
    return drawing


def _panel(axes: Axes, lines: Mapping[tuple[str, int], Sequence[tuple[float, float]]], size: int, up: str) -> None:
    for (system, dataflows), points in lines.items():
        color, marker = _SHOWN[system]
        label = system if dataflows == size else f"{system}, only {dataflows:,} dataflows"
        axes.plot(*zip(*points, strict=True), color=color, marker=marker, markersize=4, linewidth=1.4, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(f"{size:,} dataflows", fontsize=9, color=INK)
    axes.set_xlabel("events a second", fontsize=8, color=INK)
    axes.set_ylabel(up, fontsize=8, color=INK)
    axes.tick_params(labelsize=7, colors=FAINT, labelcolor=INK)
    axes.grid(visible=True, which="major", color=FAINT, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
