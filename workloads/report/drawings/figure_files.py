"""The files of figures: PNG, SVG, and SVG within a page, which sets its colours."""

import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Drawing

from workloads.report.drawings.figures import Figure
from workloads.report.drawings.panels import COLORS, INK, PAPER
from workloads.report.web_page.html_tags import Html, escaped

_SETTINGS: Mapping[Any, Any] = MappingProxyType(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "braid",
        "font.family": "sans-serif",
        "hatch.linewidth": 0.6,
        "text.color": INK,
    }
)


def write_figure(figure: Figure, folder: Path) -> Html:
    """Write a figure's files to a folder, and return its SVG for the page."""
    return within_page(write_drawing(figure.draw, figure.name, folder), figure.name, figure.alt)


def write_drawing(draw: Callable[[], Drawing], name: str, folder: Path) -> str:
    """Write a drawing's files to a folder, and return its SVG without a background."""
    with mpl.rc_context(dict(_SETTINGS)):
        drawing = draw()
        drawing.savefig(folder / f"{name}.png", dpi=160, facecolor=PAPER)
        (folder / f"{name}.svg").write_text(_svg(drawing, clear=False), encoding="utf-8")
        return _svg(drawing, clear=True)


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
