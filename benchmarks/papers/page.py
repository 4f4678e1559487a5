"""The page of a paper, in Markdown: its tables and figures beside ours, and what was not reproduced. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeVar

from benchmarks.papers.exhibits import ComparedColumn, Exhibit, MeasuredFigure, Paper, PaperRange, Shown

_T = TypeVar("_T")

_NOTHING = "-"
_BUSY = """Where the load before a run is above the number of cores, other work took part of the machine: only
figures of one run can be compared with each other, and what needs a quiet machine is left out.
"""
_BEGINNING = """# Evidence

Braid follows five papers. Each has a page with its tables and figures beside what was measured here, and with what was
not reproduced. `make paper-000` to `make paper-004` run the benchmarks and write the pages, quickly or with `FULL=1` in
full. [A picture](peers.svg) has fifty dataflows beside Node-RED, PyFlink and PySpark.
"""


def results_for(
    exhibit: Exhibit, runs: Mapping[str, Mapping[str, Any]], results: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The results that count for an exhibit."""
    if not exhibit.needs_quiet:
        return results
    return {name: figures for name, figures in results.items() if name not in runs or not _was_busy(runs[name])}


def _was_busy(run: Mapping[str, Any]) -> bool:
    """Whether others wanted more than all cores when a run began."""
    return bool(run["load"]["before"] > run["machine"]["cores"])


def page_of(paper: Paper, runs: Mapping[str, Mapping[str, Any]], results: Mapping[str, Any]) -> str:
    """The whole page, from the shown runs of a paper and their results."""
    target = f"make paper-{paper.number}"
    parts = [
        f"# {paper.title}\n",
        f"{paper.source}. {paper.about}\n",
        f"`{target}` measures this and writes the page; with `FULL=1` it takes longer and leaves nothing out.\n",
        _table(("benchmark", "measured", "machine", "load before and after"), list(_measured(paper, runs))),
    ]
    if any(map(_was_busy, runs.values())):
        parts.append(_BUSY)
    for exhibit in paper.exhibits:
        parts += [f"## {exhibit.heading}\n", *_shown(paper, exhibit, results_for(exhibit, runs, results))]
    parts.append("## What was not reproduced\n")
    parts.append(_table(("in the paper", "why"), list(paper.missing.items())))
    return "\n".join(parts)


def headlines_of(papers: Sequence[Paper], results: Mapping[str, Mapping[str, Any]]) -> str:
    """The first page of the evidence: a headline for each paper, with a picture."""
    parts = [_BEGINNING]
    for paper in papers:
        headline = paper.headline
        figures = [reading.taken(results[paper.number]) for reading in headline.readings]
        said = "It was not measured yet." if None in figures else spaced(headline.text.format(*figures))
        (exhibit,) = (exhibit for exhibit in paper.exhibits if exhibit.heading == headline.exhibit)
        parts.append(f"## [{paper.title}](paper-{paper.number}.md)\n\n{said}\n")
        if picture := picture_path(paper, exhibit, results[paper.number]):
            parts.append(f"![{exhibit.heading}]({picture})\n")
    return "\n".join(parts)


def picture_path(paper: Paper, exhibit: Exhibit, results: Mapping[str, Any]) -> str:
    """The path of an exhibit's picture below `docs/evidence`; empty if it has none, or nothing was measured."""
    if exhibit.plot is None or not _is_measured(exhibit, results):
        return exhibit.picture
    name = (exhibit.place or exhibit.title).lower()
    return str(PurePosixPath("papers", f"{paper.number}-{'-'.join(''.join(_letters(name)).split())}.svg"))


def _letters(name: str) -> Iterator[str]:
    return (letter if letter.isascii() and letter.isalnum() else " " for letter in name)


def _measured(paper: Paper, runs: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for benchmark in paper.benchmarks:
        run = runs.get(benchmark.name)
        arguments = (
            (benchmark.full if benchmark.quick is None else benchmark.quick) if run is None else run["arguments"]
        )
        name = f"`{' '.join(('python -m', benchmark.module, *arguments))}`"
        if run is None and benchmark.written:
            folder = str(PurePosixPath(benchmark.written).parent)
            yield name, f"as [its page]({folder}/README.md) says", _NOTHING, _NOTHING
        elif run is None:
            yield name, "not yet", _NOTHING, _NOTHING
        else:
            machine, load = run["machine"], run["load"]
            yield (
                name,
                f"{run['date']}, {run['seconds'] / 60:.1f} min",
                f"{machine['cores']} cores, {machine['processor']}, {machine['memory'] / 1e9:.0f} GB",
                f"{load['before']:.1f}, {load['after']:.1f}",
            )


def _shown(paper: Paper, exhibit: Exhibit, results: Mapping[str, Any]) -> Iterator[str]:
    if picture := picture_path(paper, exhibit, results):
        yield f"![{exhibit.heading}]({picture})\n"
    if exhibit.rows and not _is_measured(exhibit, results):
        yield "Here it was not measured yet.\n"
    yield from _comparison(exhibit, results)
    if exhibit.note:
        yield f"{exhibit.note}\n"


def _is_measured(exhibit: Exhibit, results: Mapping[str, Any]) -> bool:
    readings = (reading for row in exhibit.rows for reading in row.ours)
    return any(reading is not None and reading.taken(results) is not None for reading in readings)


def _comparison(exhibit: Exhibit, results: Mapping[str, Any]) -> Iterator[str]:
    """The table with the paper's columns on the left and ours on the right, without what is empty."""
    sides = {
        "paper": [[written(value, column.form) for value, column in _with(row.paper, exhibit)] for row in exhibit.rows],
        "here": [
            [_taken(reading, column.form, results) for reading, column in _with(row.ours, exhibit)]
            for row in exhibit.rows
        ],
    }
    head, rows = [""], [[row.name] for row in exhibit.rows]
    for side, cells in sides.items():
        for column, title in enumerate(column.title for column in exhibit.columns):
            if any(row[column] != _NOTHING for row in cells):
                head.append(f"{side}: {title}" if title else side)
                for row, shown in zip(rows, cells, strict=True):
                    row.append(shown[column])
    if filled := [row for row in rows if set(row[1:]) - {_NOTHING}]:
        yield _table(head, filled)


def _with(cells: Sequence[_T], exhibit: Exhibit) -> Iterator[tuple[_T, ComparedColumn]]:
    return zip(cells, exhibit.columns, strict=True)


def _taken(reading: MeasuredFigure | None, form: str, results: Mapping[str, Any]) -> str:
    if reading is None:
        return _NOTHING
    shown = written(reading.taken(results), form)
    bounds = reading.bounds(results)
    return shown if bounds is None else f"{shown} ({written(bounds[0], form)} to {written(bounds[1], form)})"


def written(value: Shown, form: str) -> str:
    """A figure as a table has it.

    >>> written(0.456, ".0%"), written(11432.0, ",.0f"), written(None, ".2f")
    ('46 %', '11,432', '-')
    >>> written(PaperRange(0.36, 0.51), ".0%"), written(PaperRange(0.8), ".1f"), written("falls", ".2f")
    ('36 % to 51 %', 'at least 0.8', 'falls')
    """
    if value is None:
        return _NOTHING
    if isinstance(value, PaperRange):
        low, high = (written(bound, form) for bound in value)
        return f"at least {low}" if value.high is None else f"{low} to {high}"
    return value if isinstance(value, str) else spaced(format(value, form))


def spaced(text: str) -> str:
    """Text with a space before each percent sign that follows a digit."""
    return re.sub(r"(?<=\d)%", " %", text)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("|  |", "| |")
