"""The pages of papers: each is made of its results, and a run goes on where it was interrupted."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.adaptation import __main__ as adaptation
from benchmarks.instruments import named_parts
from benchmarks.papers.__main__ import _measured, _run, pictures_of_paper
from benchmarks.papers.catalogue import PAPERS
from benchmarks.papers.exhibits import (
    ComparedColumn,
    ComparedRow,
    Exhibit,
    Headline,
    MeasuredFigure,
    Paper,
    PaperBenchmark,
    Plot,
)
from benchmarks.papers.page import headlines_of, page_of, picture_path
from benchmarks.papers.records import EVIDENCE, PaperRecord
from benchmarks.planner import __main__ as planner
from benchmarks.reconfiguration import __main__ as reconfiguration
from workloads.report.summary import Summary, WaySummary, markdown_of

EACH_PAPER = pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS.keys())
RESULTS: Mapping[str, Any] = {
    "speed": {"rows": [{"what": "a", "ours": 3.0}, {"what": "b", "ours": 6.0, "ours_low": 5.0, "ours_high": 7.0}]}
}


@EACH_PAPER
def test_a_page_is_made_of_its_results(paper: Paper) -> None:
    """So no figure on it is copied by hand; `python -m benchmarks.papers NUMBER --page` makes it anew."""
    record = PaperRecord(paper)
    text = (EVIDENCE / f"paper-{paper.number}.md").read_text(encoding="utf-8")
    assert page_of(paper, record.shown(), record.results()) == text


@EACH_PAPER
def test_pictures_are_drawn_of_the_results(paper: Paper) -> None:
    """Those of a page, and no others."""
    record = PaperRecord(paper)
    drawn = pictures_of_paper(paper, record.shown(), record.results())
    kept = {f"papers/{path.name}": path for path in (EVIDENCE / "papers").glob(f"{paper.number}-*.svg")}
    assert sorted(drawn) == sorted(kept)
    assert [] == [name for name, svg in drawn.items() if svg != kept[name].read_text(encoding="utf-8")]


def test_the_first_page_has_a_headline_for_each_paper() -> None:
    """It is made of the results too."""
    results = {number: PaperRecord(paper).results() for number, paper in PAPERS.items()}
    made = headlines_of(list(PAPERS.values()), results)
    assert made == (EVIDENCE / "README.md").read_text(encoding="utf-8")
    assert all(f"](paper-{number}.md)" in made for number in PAPERS)


@pytest.mark.parametrize("part", ["light-tasks", "heavy-tasks"])
def test_the_tables_of_replays_are_made_of_their_summaries(part: str) -> None:
    """The page of each part of the replays has the table of its `summary.json`."""
    kept = json.loads((EVIDENCE / part / "summary.json").read_text(encoding="utf-8"))
    summary = Summary(
        workloads={
            workload: {trace: {way: WaySummary(**row) for way, row in ways.items()} for trace, ways in traces.items()}
            for workload, traces in kept.items()
        }
    )
    assert markdown_of(summary) in (EVIDENCE / part / "README.md").read_text(encoding="utf-8")


@EACH_PAPER
def test_every_row_has_an_entry_for_each_column(paper: Paper) -> None:
    """Of the paper and of ours; and no two pictures of a page share a file."""
    for exhibit in paper.exhibits:
        assert {len(exhibit.columns)} >= {len(cells) for row in exhibit.rows for cells in (row.paper, row.ours)}
    paths = [picture_path(paper, exhibit, PaperRecord(paper).results()) for exhibit in paper.exhibits]
    assert len(set(filter(None, paths))) == len(list(filter(None, paths)))


def test_a_reading_follows_its_path() -> None:
    """By keys, places and what an item holds; it may be divided, and is missing where there is nothing."""
    assert 3.0 == MeasuredFigure("speed", "rows", {"what": "a"}, "ours").taken(RESULTS)
    assert 2.0 == MeasuredFigure("speed", "rows", 1, "ours", over=("rows", 0, "ours")).taken(RESULTS)
    assert (5.0, 7.0) == MeasuredFigure("speed", "rows", 1, "ours", has_bounds=True).bounds(RESULTS)
    assert MeasuredFigure("speed", "rows", 2, "ours").taken(RESULTS) is None
    assert MeasuredFigure("memory", "rows").taken(RESULTS) is None
    assert MeasuredFigure("speed", "rows", 0, "ours", over=("none",)).taken(RESULTS) is None


def exhibit(*rows: ComparedRow, plot: Plot | None = None) -> Exhibit:
    columns = (ComparedColumn("events", ",.0f"), ComparedColumn("part", ".0%"))
    return Exhibit(place="Table 1", title="Speed", columns=columns, rows=rows, plot=plot)


def paper_with(shown: Exhibit, *benchmarks: PaperBenchmark) -> Paper:
    return Paper(
        number="999",
        title="Speed",
        source="A test",
        about="It compares.",
        benchmarks=benchmarks,
        exhibits=(shown,),
        missing={},
        headline=Headline(
            text="{0:.0%} of it.", readings=(MeasuredFigure("speed", "rows", 0, "ours"),), exhibit=shown.heading
        ),
    )


def test_the_paper_stands_on_the_left_and_empty_columns_are_left_out() -> None:
    """Intervals stand in brackets; what is missing is a dash."""
    shown = exhibit(
        ComparedRow(name="a", paper=(11432.0, None), ours=(MeasuredFigure("speed", "rows", 0, "ours"), None)),
        ComparedRow(
            name="b", paper=("many", None), ours=(None, MeasuredFigure("speed", "rows", 1, "ours", has_bounds=True))
        ),
    )
    page = page_of(paper_with(shown), {}, RESULTS)
    assert "| | paper: events | here: events | here: part |" in page
    assert "| a | 11,432 | 3 | - |" in page
    assert "| b | many | - | 600 % (500 % to 700 %) |" in page
    assert "300 % of it." in headlines_of([paper_with(shown)], {"999": RESULTS})


def test_what_was_not_measured_is_said() -> None:
    """On the page and in the headline, and no picture is drawn of it."""
    row = ComparedRow(name="a", paper=(2.0, None), ours=(MeasuredFigure("speed", "rows", 0, "ours"), None))
    paper = paper_with(exhibit(row, plot=Plot(kind="bars", up="events")))
    assert "Here it was not measured yet." in page_of(paper, {}, {})
    assert "It was not measured yet." in headlines_of([paper], {"999": {}})
    assert {} == pictures_of_paper(paper, {}, {})
    assert ["papers/999-table-1.svg"] == list(pictures_of_paper(paper, {}, RESULTS))


def test_what_needs_a_quiet_machine_is_left_out_of_a_busy_run() -> None:
    """By the load before it; ratios within a run count all the same, and the page says so."""
    row = ComparedRow(name="a", paper=(2.0, None), ours=(MeasuredFigure("speed", "rows", 0, "ours"), None))
    shown = exhibit(row)
    machine = {"cores": 2, "processor": "x", "memory": 1e9}
    run = {"arguments": [], "date": "2026-01-01", "seconds": 60, "machine": machine}
    benchmark = PaperBenchmark(name="speed", module="benchmarks.speed")
    for load, is_shown in ((1.0, True), (9.0, False)):
        runs = {"speed": {**run, "load": {"before": load, "after": load}}}
        loose = page_of(paper_with(shown, benchmark), runs, RESULTS)
        strict = page_of(paper_with(replace(shown, needs_quiet=True), benchmark), runs, RESULTS)
        assert "| a | 2 | 3 |" in loose
        assert is_shown == ("| a | 2 | 3 |" in strict)
        assert is_shown != ("other work took part of the machine" in strict)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """What is done is not done again, until all is; a run of another length begins anew."""
    paper = paper_with(exhibit())
    run: Mapping[str, Any] = {"results": {"rows": []}}
    record = PaperRecord(paper, tmp_path)
    assert ["speed", "memory"] == record.begin("quick", ["speed", "memory"])
    record.keep("speed", "quick", run)
    assert ["memory"] == PaperRecord(paper, tmp_path).begin("quick", ["speed", "memory"])
    assert ["speed", "memory"] == PaperRecord(paper, tmp_path).begin("full", ["speed", "memory"])
    record = PaperRecord(paper, tmp_path)
    record.begin("quick", ["speed", "memory"])
    record.keep("memory", "quick", run)
    assert ["speed", "memory"] == PaperRecord(paper, tmp_path).begin("quick", ["speed", "memory"])


def test_a_page_shows_the_full_run_where_there_is_one(tmp_path: Path) -> None:
    """A quick run later on does not hide it."""
    paper = paper_with(exhibit())
    for length, rows in (("full", 1), ("quick", 2)):
        record = PaperRecord(paper, tmp_path)
        record.begin(length, ["speed"])  # type: ignore[arg-type]
        record.keep("speed", length, {"results": {"rows": rows}})  # type: ignore[arg-type]
    assert {"speed": {"rows": 1}} == PaperRecord(paper, tmp_path).results()


def test_a_quick_run_leaves_alone_what_a_full_one_wrote(tmp_path: Path) -> None:
    """A benchmark that writes its own file has one for both lengths; others run, since each length has its place."""
    results = tmp_path / "kept.json"
    results.write_text('{"rows": [1]}', encoding="utf-8")
    arguments = ("--compact", str(results))
    written = PaperBenchmark(name="written", module="json.tool", quick=arguments, full=arguments, written="kept.json")
    paper = paper_with(exhibit(), written, replace(written, name="kept", written=""))
    record = PaperRecord(paper, tmp_path)
    assert [False, False] == [record.is_written_in_full(benchmark) for benchmark in paper.benchmarks]
    assert [] == _measured(paper, record, "full")
    assert [] == _measured(paper, PaperRecord(paper, tmp_path), "quick")
    runs = json.loads((tmp_path / "papers" / "999.json").read_text(encoding="utf-8"))["runs"]
    assert {"written": {"full"}, "kept": {"full", "quick"}} == {name: set(kept) for name, kept in runs.items()}


def test_a_benchmark_runs_as_a_process_and_its_last_line_is_kept(tmp_path: Path) -> None:
    """With what it was called with, where and when; what fails is not kept."""
    (tmp_path / "results.json").write_text('{"rows": [1]}', encoding="utf-8")
    benchmark = PaperBenchmark(
        name="speed",
        module="json.tool",
        quick=("--compact", str(tmp_path / "results.json")),
        full=(str(tmp_path / "none.json"),),
    )
    run = _run(benchmark, "quick")
    assert run is not None
    assert {"rows": [1]} == run["results"]
    assert ["--compact", str(tmp_path / "results.json")] == run["arguments"]
    assert {"arguments", "date", "load", "machine", "results", "seconds"} == set(run)
    assert _run(benchmark, "full") is None


@pytest.mark.parametrize("command", [adaptation, planner, reconfiguration], ids=lambda command: command.__name__)
def test_the_parts_that_papers_name_are_those_of_the_benchmarks(command: ModuleType) -> None:
    """Else a run of hours would end with a part that nobody has."""
    module = command.__name__.removesuffix(".__main__")
    benchmarks = [
        benchmark for paper in PAPERS.values() for benchmark in paper.benchmarks if benchmark.module == module
    ]
    named = {part for benchmark in benchmarks for part in benchmark.full}
    assert named
    assert named <= set(command._PARTS)


def test_a_command_measures_the_parts_that_it_names() -> None:
    """All without names; nothing if one is unknown."""
    parts = {"speed": 1, "memory": 2}
    assert {"memory": 2} == named_parts(parts, ["--quick", "memory"])
    assert parts == named_parts(parts, ["--quick"])
    with pytest.raises(SystemExit, match="there is no part weight; choose from speed, memory"):
        named_parts(parts, ["speed", "weight"])


def test_what_failed_runs_again_and_what_did_not_is_kept(tmp_path: Path) -> None:
    """The others run all the same; once all have, the next call begins anew."""
    good, late = tmp_path / "good.json", tmp_path / "late.json"
    good.write_text('{"rows": [1]}', encoding="utf-8")
    paper = paper_with(
        exhibit(),
        *(PaperBenchmark(name=path.stem, module="json.tool", quick=("--compact", str(path))) for path in (late, good)),
        PaperBenchmark(name="long", module="json.tool", quick=None),
    )
    assert ["late"] == _measured(paper, PaperRecord(paper, tmp_path), "quick")
    late.write_text('{"rows": [2]}', encoding="utf-8")
    good.write_text('{"rows": [3]}', encoding="utf-8")
    assert [] == _measured(paper, PaperRecord(paper, tmp_path), "quick")
    assert {"good": {"rows": [1]}, "late": {"rows": [2]}} == PaperRecord(paper, tmp_path).results()
    assert [] == _measured(paper, PaperRecord(paper, tmp_path), "quick")
    assert {"rows": [3]} == PaperRecord(paper, tmp_path).results()["good"]
