"""The writer of a report: the page, the files of its figures, and the summary."""

from collections.abc import Sequence
from importlib.resources import files
from json import dumps
from pathlib import Path

from workloads.report.analysis.runs import read_runs
from workloads.report.analysis.summary import Summary, summary_of

REPORT_PAGE = "report.html"
SUMMARY = "summary.json"


def write_report(results: Sequence[Path], into: Path) -> Summary:
    """Write a page on results folders, with its figures (`.svg`, `.png`) and `summary.json` beside it."""
    from workloads.report.drawings.figure_files import write_figure  # noqa: PLC0415 - matplotlib takes a second to load
    from workloads.report.drawings.figures import figures_of  # noqa: PLC0415 - as above
    from workloads.report.web_page.report_page import page  # noqa: PLC0415 - as above

    every = read_runs(results)
    summary = summary_of(every)
    path = page_in(into)
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {name: (figure.title, write_figure(figure, folder)) for name, figure in figures_of(every).items()}
    style = files("workloads.report").joinpath("page.css").read_text(encoding="utf-8")
    path.write_text(page(every, summary, pictures, style), encoding="utf-8")
    text = dumps(summary.as_json(), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / SUMMARY).write_text(f"{text}\n", encoding="utf-8")
    return summary


def page_in(into: Path) -> Path:
    """The path of the page: `into` itself if it ends in `.html`, else a file in that folder.

    >>> page_in(Path("a/b.html")).as_posix(), page_in(Path("a")).as_posix()
    ('a/b.html', 'a/report.html')
    """
    return into if into.suffix == ".html" else into / REPORT_PAGE
