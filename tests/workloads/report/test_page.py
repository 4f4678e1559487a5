"""The page: what it holds, that it is whole by itself, and what it says of what was found."""

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from manager.command import app
from tests.workloads.rows import DEFAULT_TASKS, results, runs
from tests.workloads.rows import window_row as window
from workloads.report.findings import (
    against_packed_default,
    bridge_latency,
    consolidated_less_often,
    count_differences,
    crossover,
    defragmentation_effect,
    discarded_windows,
    missing_measurements,
    packing_and_sharing,
    reasons,
)
from workloads.report.runs import Runs, tenant_cores
from workloads.report.summary import CLAIMS, markdown_of, summary_of, verdict
from workloads.report.web_page import Html, tag, write_report
from workloads.results import TenantCoresRow, WindowRow, write_results
from workloads.traces import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE, REUSE_PACKED

HOSTILE = "<script>alert('$x_1$')</script>&\"'\x00\ud7ff|"
XHTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"


def windows(*cores: float) -> list[WindowRow]:
    """Two windows of each step, a little apart, with latencies and estimates."""
    return [
        window(step, number, each + number / 100, latency_p50=0.5, latency_p99=2.0, alone_launched=2.0)
        for step, each in enumerate(cores)
        for number in (0, 1)
    ]


def every_way() -> Runs:
    """All that a report may be on."""
    tenants = [TenantCoresRow(step=1, tenant="<b>ann</b>", cores=0.9), TenantCoresRow(step=1, tenant=None, cores=0.3)]
    return runs(
        results(DEFAULT, tasks=DEFAULT_TASKS, jobs=(1, 3, 1, 0)),
        results(REUSE),
        results(DEFAULT, tasks=DEFAULT_TASKS, jobs=(1, 3, 1, 0), windows=windows(1.0, 2.0, 0.8)),
        results(REUSE, windows=windows(0.9, 1.2, 0.9), tenants=tenants),
        results(DEFRAGMENTED, windows=windows(0.8, 1.0, 0.5)),
        results(DEFAULT_PACKED, tasks=DEFAULT_TASKS, jobs=(1, 1, 1, 0), windows=windows(0.9, 1.4, 0.7)),
        results(REUSE_PACKED, windows=windows(0.8, 1.0, 0.6)),
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report on all that there may be, of a workload with a hostile name."""
    folder = tmp_path_factory.mktemp("report")
    found = []
    for number, run in enumerate(every_way().every):
        made = run.results
        trace = {**made.manifest.trace, "workload": HOSTILE}
        way = run.way
        again = results(
            way,
            tasks=[row.running_tasks for row in made.steps],
            jobs=[row.jobs for row in made.steps],
            windows=made.windows,
            tenants=made.tenants,
            trace=trace,
            workload={"name": HOSTILE, "nested": {"</pre>": "]]>"}},
        )
        write_results(again, folder / f"results-{number}")
        found.append(folder / f"results-{number}")
    write_report(found, folder / "out" / "page.html")
    return folder / "out"


def parsed(page: Path) -> ET.Element:
    """The page, which has to be well-formed."""
    head, _, rest = page.read_text(encoding="utf-8").partition("\n")
    assert "<!DOCTYPE html>" == head
    return ET.fromstring(rest)  # noqa: S314 - our own page


def test_the_page_is_whole_and_says_each_figure_in_words(report: Path) -> None:
    """Well-formed, with seven figures that each have a label and a caption, and headings for each column and row."""
    page = parsed(report / "page.html")
    figures = page.findall(f".//{XHTML}figure")
    assert 7 == len(figures)
    for figure in figures:
        (picture,) = figure.findall(f"{SVG}svg")
        assert "img" == picture.get("role")
        assert len(picture.get("aria-label", "")) > 60
        assert figure.findtext(f"{XHTML}figcaption")
    for table in page.findall(f".//{XHTML}table"):
        assert table.findtext(f"{XHTML}caption")
        assert {"col"} == {each.get("scope") for each in table.findall(f"{XHTML}thead//{XHTML}th")}
        body = table.findall(f"{XHTML}tbody/{XHTML}tr")
        assert all("row" == row[0].get("scope") for row in body)
        assert {len(table.findall(f"{XHTML}thead//{XHTML}th"))} == {len(row) for row in body}


def test_the_page_asks_nobody_for_anything(report: Path) -> None:
    """No script, no link but within the page, and nothing loaded; ids are there once."""
    page = parsed(report / "page.html")
    ids = [each.get("id") for each in page.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    names = {each.tag.rpartition("}")[2] for each in page.iter()}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "image", "foreignObject"}
    for each in page.iter():
        for key, value in each.attrib.items():
            if key.rpartition("}")[2] in {"href", "src"}:
                assert value.startswith("#")
                assert value[1:] in ids
    text = (report / "page.html").read_text(encoding="utf-8")
    assert not re.findall(r"@import|url\((?!#)", text)


def test_hostile_names_are_text(report: Path) -> None:
    """They stand on the page and in the files as they are, and change nothing of either."""
    text = (report / "page.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;alert(&#x27;$x_1$&#x27;)" in text
    assert "&lt;b&gt;ann&lt;/b&gt;" in text
    assert HOSTILE in json.loads((report / "summary.json").read_text(encoding="utf-8"))
    for name in report.glob("*.svg"):
        assert "<script" not in name.read_text(encoding="utf-8")
        ET.parse(name)  # noqa: S314 - our own figure


def test_every_figure_is_a_file_too(report: Path) -> None:
    """As SVG and as PNG, drawn without a display; the page's own colours stand for those of the files."""
    names = {
        *("tasks-per-step", "cores-per-step", "reuse-histogram", "defragmentation", "latency", "packing-and-sharing"),
        "regimes",
    }
    assert names == {path.stem for path in report.glob("*.svg")} == {path.stem for path in report.glob("*.png")}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in report.glob("*.png"))
    assert "matplotlib.pyplot" not in sys.modules
    assert "var(--cc2410c, #c2410c)" in (report / "page.html").read_text(encoding="utf-8")
    assert "var(" not in (report / "tasks-per-step.svg").read_text(encoding="utf-8")


def test_windows_of_a_service_that_was_behind_enter_no_mean_and_are_named() -> None:
    """Neither the cores of their step, nor its pairs, nor latencies; a step whose windows all were is not measured."""
    late = "an event waited 150 s for job 3, at a pace of 10 s"
    found = runs(
        results(DEFAULT, tasks=DEFAULT_TASKS, windows=[window(0, 0, 1.0), window(0, 1, 1.0), window(1, 0, 2.0)]),
        results(
            REUSE,
            windows=[
                window(0, 0, 90.0, behind=late, latency_p50=70.0),
                window(0, 1, 0.5, latency_p50=1.0),
                window(1, 0, 90.0, behind=late),
            ],
            tenants=[TenantCoresRow(step=0, tenant="ann", cores=0.5), TenantCoresRow(step=1, tenant="ann", cores=90.0)],
        ),
    )
    assert {"ann": 0.5} == tenant_cores(found, REUSE)
    shared = summary_of([found]).workloads["toy"]["SEQ"]["reuse"]
    assert {0: 0.5} == found.cores(REUSE)
    assert (0.5, 0.5, 1.0) == (shared.cores_mean, shared.cores_saved, shared.latency_p50)
    assert (1, 2) == (shared.windows, shared.windows_thrown_away)
    sentence = "toy, SEQ, reuse: 2 of 3 windows were discarded because the service was behind, first at step 1: "
    assert [f"{sentence}{late}."] == list(discarded_windows([found]))
    assert "| 1 of 3 |" in markdown_of(summary_of([found]))


def test_a_report_is_written_where_every_window_was_thrown_away(tmp_path: Path) -> None:
    """It says so, and shows what was counted."""
    for way in (DEFAULT, REUSE, DEFAULT_PACKED):
        late = [window(0, 0, 1.0, behind="a batch of job 1 took 40.0 s, at a pace of 10 s", latency_p50=90.0)]
        share = [TenantCoresRow(step=0, tenant="ann", cores=1.0)]
        write_results(results(way, windows=late, tenants=share), tmp_path / way.name)
    write_report([tmp_path / way.name for way in (DEFAULT, REUSE, DEFAULT_PACKED)], tmp_path / "out")
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert (
        "toy, SEQ, default: 1 of 1 windows were discarded because the service was behind, first at step 1: a batch of"
        in text
    )
    assert "toy, SEQ: the cores and latency of default were not measured." in text


def test_dry_results_alone_make_a_report(tmp_path: Path) -> None:
    """By the command; what was not measured is said, not invented."""
    for way, tasks in ((DEFAULT, DEFAULT_TASKS), (REUSE, (4, 6, 4, 0))):
        write_results(results(way, tasks=tasks), tmp_path / way.name)
    folders = [str(tmp_path / each) for each in ("default", "reuse")]
    into = tmp_path / "out"
    done = CliRunner().invoke(app, ["report", *folders, "--into", str(into), "--json"])
    assert 0 == done.exit_code, done.output
    summary = json.loads(done.stdout)
    assert json.loads((into / "summary.json").read_text(encoding="utf-8")) == summary
    assert 0.3 == round(summary["toy"]["SEQ"]["reuse"]["tasks_saved"], 9)
    assert None is summary["toy"]["SEQ"]["reuse"]["cores_saved"]
    text = (into / "report.html").read_text(encoding="utf-8")
    assert "toy, SEQ: the cores and latency of reuse were not measured." in text
    assert "not measured here" in text
    assert {"tasks-per-step", "reuse-histogram", "regimes"} == {path.stem for path in into.glob("*.svg")}


def test_what_stands_in_the_way_is_reported(tmp_path: Path) -> None:
    """A folder that holds no results."""
    done = CliRunner().invoke(app, ["report", str(tmp_path / "nothing")])
    assert 1 == done.exit_code
    assert "manifest.json: No such file or directory; name a folder" in done.stderr.replace("\n", " ")


def test_sentences_follow_from_the_numbers() -> None:
    """The crossover and its cure, what packing and sharing save apart, and how reuse lies to the paper's figures."""
    every = every_way()
    summary = summary_of([every])
    assert (
        "toy, SEQ: measured at 1 step of the drain; reuse needs more cores than default at 1 of them (step 3; at 1 the"
        " intervals do not overlap); with defragmentation at none. So the paper's crossover occurs without"
        " defragmentation, and not with it." == crossover(every)
    )
    assert "saves 21.0 % of default's cores. Sharing alone" in (packing_and_sharing(every) or "")
    assert "needs 23.2 % fewer cores" in (against_packed_default(every) or "")
    assert "which is 0.00 s more" in (bridge_latency(every, summary) or "")
    assert "defragmentation reduces 1.0 jobs to 1.0" in (defragmentation_effect(every, summary) or "")
    (reason,) = reasons([every], summary)
    assert "sharing has 40.0 % fewer tasks, and over the whole trace 30.0 % fewer, since" in reason
    assert "Compared with dataflows without their own duplicates it has 22.2 % fewer." in reason
    assert [] == list(missing_measurements([every]))
    assert [] == list(count_differences(every))


def test_a_crossover_that_is_not_there_is_not_claimed() -> None:
    """Where reuse takes less all along there is nothing to cure, and without a measured drain nothing is said."""
    calm = runs(
        results(DEFAULT, tasks=DEFAULT_TASKS, windows=windows(1.0, 2.0, 0.8)),
        results(REUSE, windows=windows(0.9, 1.2, 0.5)),
    )
    assert "at none. This was not measured with defragmentation." in (crossover(calm) or "")
    brief = runs(results(DEFAULT, windows=windows(1.0)), results(REUSE, windows=windows(0.9)))
    assert None is crossover(brief)
    assert None is packing_and_sharing(brief)


def test_live_counts_that_are_not_the_dry_ones_are_reported() -> None:
    """With the first step at which they differ; what is consolidated less often is compared where it is measured."""
    consolidated = runs(results(DEFRAGMENTED), results(DEFRAGMENTED, jobs=(9, 9, 9, 9), windows=windows(1.0)))
    assert [] == list(count_differences(consolidated))
    differing = runs(results(REUSE), results(REUSE, jobs=(1, 2, 2, 0), windows=windows(1.0)))
    assert ["toy, SEQ, reuse: the jobs of the live and the dry run differ at 1 of 4 steps, first at step 3."] == list(
        count_differences(differing)
    )


def test_what_was_done_otherwise_than_it_seems_is_reported() -> None:
    """That live jobs were consolidated less often than dry ones, and that ways were measured one after the other."""
    later: dict[str, Any] = {"begun": "2026-01-01T02:00:00+00:00", "ended": "2026-01-01T03:00:00+00:00"}
    compared = runs(
        results(DEFAULT, tasks=DEFAULT_TASKS, windows=windows(1.0)),
        results(DEFRAGMENTED, windows=windows(0.5), settings={"hurry": True}),
        results(DEFAULT_PACKED, tasks=DEFAULT_TASKS, windows=windows(0.8), **later),
    )
    assert "consolidated only at measured steps" in (consolidated_less_often(compared) or "")
    assert (packing_and_sharing(compared) or "").endswith("one after the other, not side by side.")
    assert (against_packed_default(compared) or "").endswith("one after the other, not side by side.")
    assert None is consolidated_less_often(every_way())
    assert "one after the other" not in (packing_and_sharing(every_way()) or "")


def test_verdicts_count_traces() -> None:
    """How many lie within, below and above what was claimed."""
    assert "1 of 4 within, 2 of 4 below, 1 of 4 above" == verdict(CLAIMS[0], [0.1, 0.37, 0.4, 0.9])
    assert "not measured here" == verdict(CLAIMS[0], [])


def test_html_escapes_what_is_not_html() -> None:
    """Within elements and attributes; what no page may hold is replaced."""
    assert '<p title="&quot;&lt;">&amp;<br />\ufffd</p>' == tag("p", "&", Html("<br />"), "\x07", title='"<')
