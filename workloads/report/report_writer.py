"""Writing a report: the page, its figures as files, and the summary."""

from collections.abc import Sequence
from importlib.resources import files
from json import dumps
from pathlib import Path

from workloads.report.analysis.runs import read_runs
from workloads.report.analysis.summary import Summary, summarised

REPORT_PAGE = "report.html"
SUMMARY = "summary.json"


def write_report(results: Sequence[Path], into: Path) -> Summary:
    """Write a page on results folders; beside it come its figures (`.svg`, `.png`) and `summary.json`."""
    from workloads.report.drawings.figure_files import drawn  # noqa: PLC0415 - matplotlib takes a second to load
    from workloads.report.drawings.figures import figures_of  # noqa: PLC0415 - as above
    from workloads.report.web_page.report_page import page  # noqa: PLC0415 - as above

    every = read_runs(results)
    summary = summarised(every)
    written = page_in(into)
    folder = written.parent
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {name: (figure.title, drawn(figure, folder)) for name, figure in figures_of(every).items()}
    style = files("workloads.report").joinpath("page.css").read_text(encoding="utf-8")
    written.write_text(page(every, summary, pictures, style), encoding="utf-8")
    told = dumps(summary.told(), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / SUMMARY).write_text(f"{told}\n", encoding="utf-8")
    return summary


def page_in(into: Path) -> Path:
    """Where the page is written: into a file that is named as HTML, or else into a folder.

    >>> page_in(Path("a/b.html")).as_posix(), page_in(Path("a")).as_posix()
    ('a/b.html', 'a/report.html')
    """
    return into if into.suffix == ".html" else into / REPORT_PAGE
