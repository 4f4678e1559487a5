"""One command for each paper: run its benchmarks, keep what they measured, and write its page.

    python -m benchmarks.papers 003 [--full] [--page]

Results are kept after each benchmark, so an interrupted command goes on where it was if it is called again. A quick
run replaces nothing that was measured in full. With `--page` nothing is run, and the page is written from what was
kept.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer

from benchmarks.papers.catalogue import PAPERS
from benchmarks.papers.drawings import drawing_of
from benchmarks.papers.exhibits import Paper, PaperBenchmark
from benchmarks.papers.page import headlines_of, page_of, picture_path, results_for
from benchmarks.papers.records import EVIDENCE, Length, PaperRecord, Run
from workloads.report.drawings import svg_of
from workloads.results import machine


def main(
    number: str,
    *,
    full: Annotated[bool, typer.Option("--full")] = False,
    page: Annotated[bool, typer.Option("--page")] = False,
) -> None:
    """Run the benchmarks of a paper, and write its page."""
    paper = PAPERS.get(number)
    if paper is None:
        raise SystemExit(f"there is no paper {number}; choose one of {', '.join(PAPERS)}")
    failed = [] if page else _measured(paper, PaperRecord(paper), "full" if full else "quick")
    write_pages(paper)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; the same command runs them again")


def write_pages(paper: Paper) -> None:
    """Write a paper's page with its pictures, and the first page of the evidence."""
    record = PaperRecord(paper)
    results = record.results()
    (EVIDENCE / f"paper-{paper.number}.md").write_text(page_of(paper, record.shown(), results), encoding="utf-8")
    for path, svg in pictures_of_paper(paper, record.shown(), results).items():
        (EVIDENCE / path).parent.mkdir(exist_ok=True)
        (EVIDENCE / path).write_text(svg, encoding="utf-8")
    every = {number: PaperRecord(paper).results() for number, paper in PAPERS.items()}
    (EVIDENCE / "README.md").write_text(headlines_of(list(PAPERS.values()), every), encoding="utf-8")


def pictures_of_paper(paper: Paper, runs: Mapping[str, Run], results: Mapping[str, Any]) -> dict[str, str]:
    """The pictures that are drawn for a page, by their paths."""
    shown = [(exhibit, results_for(exhibit, runs, results)) for exhibit in paper.exhibits]
    return {
        path: svg_of(partial(drawing_of, exhibit, exhibit.plot, figures))
        for exhibit, figures in shown
        if exhibit.plot and (path := picture_path(paper, exhibit, figures)) != exhibit.picture
    }


def _measured(paper: Paper, record: PaperRecord, length: Length) -> list[str]:
    """Run what is left, and return the names of what failed."""
    runnable = {
        benchmark.name: benchmark
        for benchmark in paper.benchmarks
        if length == "full" or not (benchmark.quick is None or record.is_written_in_full(benchmark))
    }
    failed = []
    for name in record.begin(length, list(runnable)):
        run = _run(runnable[name], length)
        if run is None:
            failed.append(name)
        else:
            record.keep(name, length, run)
    return failed


def _run(benchmark: PaperBenchmark, length: Length) -> Run | None:
    """Run a benchmark as a process; None if it fails."""
    arguments = benchmark.full if length == "full" else benchmark.quick or ()
    begun, before, last = time.monotonic(), os.getloadavg()[0], ""
    command = [sys.executable, "-m", benchmark.module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own program
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line
    if process.returncode:
        return None
    return {
        "arguments": list(arguments),
        "date": datetime.now(UTC).date().isoformat(),
        "seconds": round(time.monotonic() - begun),
        "machine": machine(),
        "load": {"before": round(before, 2), "after": round(os.getloadavg()[0], 2)},
        "results": None if benchmark.written else json.loads(last),
    }


if __name__ == "__main__":
    typer.run(main)
