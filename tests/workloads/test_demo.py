"""The demo: what it shows is so, and nothing is left of it however it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from bridge import Message
from manager.command import app
from workloads import demo, service
from workloads.demo import Board
from workloads.replay.dry_replay import dry_rows
from workloads.results import read_results
from workloads.service import Outputs, OutputTally, RunFailed
from workloads.traces import REUSE_PACKED

BOUND = 240.0
DEMO_DATAFLOWS = ("taxi-3", "taxi-4", "grid-1")
"""Of the workload, what takes part here."""
COUNTS = ("dataflows", "running_tasks", "submitted_tasks")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo makes its temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_shows_what_is_shared_and_that_the_others_never_stop(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dataflows share tasks, one leaves and comes back, the others miss nothing, a report is written, nothing is left.

    People read it, and with --json programs as one document.
    """
    monkeypatch.setattr(demo, "DEMO_DATAFLOWS", DEMO_DATAFLOWS)
    monkeypatch.setattr(demo, "RATE", 5.0)
    monkeypatch.setattr(demo, "PACING", replace(demo.PACING, window=1.0, settle=0.5))
    monkeypatch.setattr(demo, "EARLY_MEASURED_STEPS", frozenset({1}))
    monkeypatch.setattr(demo, "MOST_WINDOWS", 2)
    into = tmp_path_factory.mktemp("report") / "of the demo"
    result = CliRunner().invoke(app, ["demo", "--json", "--into", str(into)])
    assert 0 == result.exit_code, result.output
    shown = result.stderr
    document = json.loads(result.stdout)
    part = demo.scenario(folder)
    counted = [
        (row.dataflows, row.running_tasks, row.submitted_tasks)
        for row, _ in dry_rows(part.workload, part.trace, REUSE_PACKED)
    ]
    assert (3, 20, 29) == counted[-1]
    in_all = [each["in_all"] for each in (*document["submitted"][:3], document["removed"], document["submitted"][3])]
    assert counted == [tuple(each[name] for name in COUNTS) for each in in_all]
    assert [tuple(map(str, each)) for each in counted] == re.findall(
        r"(\d+) dataflows?, (\d+) running tasks instead of (\d+)", shown
    )
    assert [0, 0, 9, 9] == [len(each["reused"]) for each in document["submitted"]]
    assert ["average", "output value"] == document["removed"]["stopped"]
    assert all(each["after"] >= each["before"] + 3 for each in document["others"])
    assert len(re.findall(r"^ +tenant-\d +\S+ +[\w ]+ +[\d,]+ +[\d,]+ +none +", shown, re.MULTILINE)) == len(
        document["others"]
    )
    both = (document["with_sharing"], document["without_sharing"])
    assert [20, 29] == [each["in_all"]["running_tasks"] for each in both]
    assert all(window["cores"] > 0.0 for each in both for window in each["windows"])
    assert [("3", "3", "3"), ("20", "29", "29")] == [
        re.findall(rf"^ +{name} +(\d+) +(\d+) +(\d+) *$", shown, re.MULTILINE)[-1] for name in ("dataflows", "tasks")
    ]
    assert "shared and packed   not shared, packed   not shared, a job for each" in re.sub(" {2,}", "   ", shown)
    assert str(into / "report.html") == document["report"]
    assert "<h1>What sharing saves</h1>" in (into / "report.html").read_text()
    kept = {each.name: read_results(each) for each in (into / "results").iterdir()}
    assert {"reuse-packed": counted[-1][1], "default-packed": counted[-1][2]} == {
        name: results.steps[-1].running_tasks for name, results in kept.items()
    }
    assert "no process is left" in shown.splitlines()[-1]
    assert [] == list(folder.iterdir())


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    """Neither a process nor a file, whichever way it is asked to end."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", "from manager.command import app; app()", "demo"],
        cwd=here,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    below: list[psutil.Process] = []
    try:
        assert process.stdout is not None
        # Something was submitted by then, so that there are workers too.
        assert any("submits" in line for line in process.stdout)
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        rest, _ = process.communicate(timeout=BOUND)
        assert 130 == process.returncode, rest
        assert rest.splitlines()[-1].startswith("Interrupted: everything was stopped")
        assert len(below) > 3
        assert [] == [each for each in below if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
        assert [] == [*here.iterdir(), *temporary.iterdir()]
    finally:
        process.kill()
        process.wait()
        for each in below:
            with suppress(psutil.NoSuchProcess):
                each.kill()


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which somebody listens already."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_demo_that_cannot_begin_says_why_and_where_the_log_is(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, taken_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the service wrote last is shown, to programs as a problem, and its log is kept."""
    monkeypatch.setattr(service, "free_port", lambda: taken_port)
    result = CliRunner().invoke(app, ["demo", "--json", "--into", str(tmp_path_factory.mktemp("report"))])
    assert 8 == result.exit_code
    why = f"REST cannot be served on 127.0.0.1, port {taken_port}"
    problem = json.loads(result.stdout)["problem"]
    assert ("demo-failed", True, True) == (problem["code"], why in problem["detail"], why in result.stderr)
    (kept,) = folder.iterdir()
    assert f"The service's log is {kept / 'serve.log'}" in result.stderr
    assert "REST cannot be served" in (kept / "serve.log").read_text()


def test_what_comes_twice_counts_once_and_what_is_missing_is_reported() -> None:
    """By the numbers: they begin where the first message does, and go on from there."""
    heard = OutputTally().take(7, ["a", "b"], 1.0).take(8, ["b", "c"], 3.0).take(8, ["b"], 4.0)
    assert OutputTally(begun=7, events=3, missing=0, last="c", at=3.0, longest_gap=2.0) == heard
    assert 2 == heard.take(12, ["f"], 5.0).missing
    assert 2 == heard.take(12, ["f"], 5.0).take(13, ["g"], 6.0).missing


def test_the_demo_fails_where_an_event_is_missing() -> None:
    """In whatever output; it names the output, and how many numbers are missing."""
    outputs = Outputs()
    outputs.deliver(Message("braid/1/out/ann/d-1/means", b'{"epoch": 1, "first": 4, "events": [1, 2]}', 1))
    demo.check_missing("reuse-packed", outputs)
    outputs.deliver(Message("braid/1/out/ann/d-1/means", b'{"epoch": 1, "first": 9, "events": [3]}', 2))
    with pytest.raises(RunFailed, match=r"reuse-packed: .* 3 of braid/1/out/ann/d-1/means"):
        demo.check_missing("reuse-packed", outputs)


def test_a_wait_counts_what_came_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends at once where all has come, and names the outputs that stay short."""
    monkeypatch.setattr("workloads.service._PATIENCE", 0.1)
    outputs = Outputs()
    outputs.deliver(Message("braid/1/out/ann/d-1/means", b'{"epoch": 1, "first": 4, "events": [1, 2]}', 1))
    outputs.wait_for_events({"braid/1/out/ann/d-1/means": 2})
    with pytest.raises(RunFailed, match=r"no further events on braid/1/out/ann/d-1/counts for 0\.1 s"):
        outputs.wait_for_events({"braid/1/out/ann/d-1/means": 2, "braid/1/out/ann/d-1/counts": 1})


def test_on_a_terminal_the_board_stands_below_the_lines_and_goes_away() -> None:
    """What is waited for is drawn anew there; elsewhere it is a line, once."""
    screen, paper = StringIO(), StringIO()
    for file, is_terminal in ((screen, True), (paper, False)):
        board = Board(Console(file=file, force_terminal=is_terminal, width=80))
        with board.live:
            for what in ("the [host]", "the [host]", "events"):
                board.show_wait(what)
            board.live.refresh()
    assert "... the [host]\n... events\n" == paper.getvalue()
    assert "events" in screen.getvalue()
    assert "..." not in screen.getvalue()


def test_where_no_report_can_be_written_the_demo_does_not_begin(tmp_path: Path) -> None:
    """It names the folder, and how another is named."""
    (tmp_path / "file").touch()
    result = CliRunner().invoke(app, ["demo", "--json", "--into", str(tmp_path / "file")])
    assert 8 == result.exit_code
    assert f"{tmp_path / 'file'}: File exists; choose a writable folder with --into" in result.stderr
