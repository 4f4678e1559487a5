"""Live replays: counts, cores by part, traces side by side, and windows that count."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from braid_client.answers.jobs import JobAnswer
from engine.host.cpu_meter import ProcessCpu
from tests.workloads.replay import test_dry_replay
from tests.workloads.rows import window_row as measured
from workloads.replay.dry_replay import dry_rows
from workloads.replay.live_replay import ReplayPart, _Ready, _side_by_side, replay_live
from workloads.replay.plan import Pacing
from workloads.replay.player import CoresReading, Player, cores_between, read_cores, why_behind
from workloads.results import STEP_LINES, StepRow, WindowRow, WrongResults, read_manifest, read_results
from workloads.traces import REUSE, Way, sequential
from workloads.workload import load_workload

PACING = Pacing(pace=0.5, windows=1, window=1.5, settle=1.0, tenants=2)


# The demo replays in the quick suite, without being interrupted.
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.mosquitto
def test_a_replay_that_is_interrupted_goes_on_and_counts_what_a_dry_one_counts(tmp_path: Path) -> None:
    """Each step is there once; jobs and paused tasks are as if nothing had happened; what runs takes CPU and sends."""
    workload = load_workload(str(test_dry_replay.make(tmp_path / "toy")))
    trace = sequential(workload.name, tuple(workload.dataflows), 1)
    folder = tmp_path / "results"
    way = Way("reuse", "launch", "step")
    part = ReplayPart(workload=workload, trace=trace, ways={folder: way})

    def interrupt(what: str, _seconds: float) -> None:
        if what.startswith("step 4 "):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay_live((part,), PACING, interrupt)
    assert (3, False) == (len((folder / STEP_LINES).read_text().splitlines()), read_manifest(folder).complete)
    with pytest.raises(WrongResults, match="holds the results of another replay"):
        replay_live((part,), Pacing(windows=7), interrupt)
    said: list[str] = []
    replay_live((part,), PACING, lambda what, _seconds: said.append(what))
    assert [f"step {number} of 6" for number in (4, 5, 6)] == [
        each.partition(":")[0] for each in said if each.startswith("step")
    ]
    results = read_results(folder)
    assert [(counts(row), users) for row, users in dry_rows(workload, trace, way)] == [
        (counts(row), tuple(each for each in results.users if each.step == row.step)) for row in results.steps
    ]
    assert list(range(6)) == [window.step for window in results.windows]
    assert all(window.cores > 0.0 and window.cores_manager > 0.0 for window in results.windows[:5])
    assert all(window.seconds >= 1.5 for window in results.windows)
    # Within one window a machine that is busy otherwise may be late.
    assert any(window.events_out > 0.0 for window in results.windows[:5])
    assert 0 == results.windows[5].lag_events


def counts(row: StepRow) -> dict[str, Any]:
    """What is the same in dry and live runs."""
    return {name: value for name, value in asdict(row).items() if name not in {"measured", "seconds"}}


BURN = "import time\nwhile time.process_time() < 0.4: pass"
DAEMON = f"""
import subprocess, sys
for line in sys.stdin:
    subprocess.Popen([sys.executable, "-c", {BURN!r}]).wait()
    print("done", flush=True)
"""
JVM = f'"{sys.executable}" -c "$0"; exit 0'
DRIVER = """
import subprocess
subprocess.Popen([{java!r}, "-c", {jvm!r}, {daemon!r}]).wait()
"""
KEEPER = """
import subprocess, sys
broker = subprocess.Popen(["sleep", "600"])
try:
    subprocess.Popen([sys.executable, "-c", {driver!r}, "engine.machines.process"]).wait()
finally:
    broker.kill()
    broker.wait()
"""
MANAGER = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {keeper!r}, "manager.process.keeper_process"]).wait()
"""


@pytest.fixture
def service(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Processes that stand in for those of a service; at each line a worker works and ends, at their end all do."""
    java = tmp_path / "java"
    java.symlink_to("/bin/sh")
    keeper = KEEPER.format(driver=DRIVER.format(java=str(java), jvm=JVM, daemon=DAEMON))
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", MANAGER.format(keeper=keeper)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    below: list[psutil.Process] = []
    try:
        yield process
        below = psutil.Process(process.pid).children(recursive=True)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
        psutil.wait_procs(below, timeout=30)


def test_a_worker_that_ended_counts_for_the_workers(service: "subprocess.Popen[str]") -> None:
    """What it used is in the times of its parent; every other process plays the part that its place tells."""
    process = psutil.Process(service.pid)
    work(service)
    begun = read_cores(process)
    work(service)
    ended = read_cores(process)
    assert cores_between(begun, ended)["worker"] * (ended.at - begun.at) >= 0.35
    assert ["broker", "driver", "jvm", "manager", "manager", "worker"] == sorted(
        used.part for used in ended.used.values()
    )


def work(service: "subprocess.Popen[str]") -> None:
    """Have a worker work, and wait until it has ended."""
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write("\n")
    service.stdin.flush()
    assert "done\n" == service.stdout.readline()


def test_cores_are_means_over_the_time_between() -> None:
    """Half a second of CPU in two seconds is a quarter of a core, and a part without a process has none."""
    begun, ended = (
        CoresReading(at=at, used={(1, ""): ProcessCpu(part="manager", parent=None, own=own, reaped=0.0)})
        for at, own in ((10.0, 1.0), (12.0, 1.5))
    )
    assert {"broker": 0.0, "driver": 0.0, "jvm": 0.0, "worker": 0.0, "manager": 0.25} == cores_between(begun, ended)


class Noting:
    """Stands in for a player, and notes what is asked of it; it is behind in the second window of each step."""

    way = REUSE

    def __init__(self, name: str, heard: list[str]) -> None:
        self._name = name
        self._heard = heard

    def catch_up(self, _pace: float) -> None:
        self._heard.append(f"{self._name} catches up")

    def open_window(self) -> Any:
        self._heard.append(f"{self._name} opens")

    def close_window(self, _opened: Any, step: int, window: int, _pace: float) -> WindowRow:
        self._heard.append(f"{self._name} shuts {step}.{window}")
        return measured(step, window, 1.0, behind="an event has waited" if window else "")


def play(name: str, steps: int, heard: list[str], found: list[Any]) -> Iterator[_Ready | None]:
    for step in range(steps):
        heard.append(f"{name} begins {step}")
        yield None
        heard.append(f"{name} waits for {step}")
        ready = _Ready(step=step, players={Path(name): cast("Player", Noting(name, heard))}, windows={})
        yield ready
        found.append((name, [f"{row.step}.{row.window}" for row in ready.windows[Path(name)]]))


def test_all_begin_a_step_before_any_is_waited_for_and_windows_are_opened_together() -> None:
    """One that is at its end is not waited for; each gets the windows of its own step."""
    heard: list[str] = []
    found: list[Any] = []
    plays = [play("a", 2, heard, found), play("b", 1, heard, found)]
    said: list[str] = []
    pacing = Pacing(pace=1.0, windows=2, window=0.0, settle=0.0)
    _side_by_side(plays, pacing, lambda what, _seconds: said.append(what))
    together = ["a begins 0", "b begins 0", "a waits for 0", "b waits for 0", "a catches up", "b catches up"]
    windows = [
        each for window in range(2) for each in ("a opens", "b opens", f"a shuts 0.{window}", f"b shuts 0.{window}")
    ]
    alone = ["a begins 1", "a waits for 1", "a catches up", "a opens", "a shuts 1.0", "a opens", "a shuts 1.1"]
    assert together + windows + alone == heard
    assert [("a", ["0.0", "0.1"]), ("b", ["0.0", "0.1"]), ("a", ["1.0", "1.1"])] == found
    thrown = "reuse: window 2 is discarded: an event has waited"
    assert [f"step 1, {thrown}", f"step 1, {thrown}", f"step 2, {thrown}"] == said


def job(number: int, **figures: Any) -> JobAnswer:
    reported: dict[str, Any] = {
        "job": str(number),
        "host": "local",
        "version": 1,
        "in_effect": 1,
        "state": "running",
        "trouble": "",
        "active": 3,
        "paused": 0,
        "batch": 7,
        "batch_seconds_p50": 1.0,
        "events_in_per_second": 10.0,
        "lag_events": 50,
        "lag_seconds": 9.0,
    }
    return JobAnswer.model_validate(reported | figures)


WELL = (job(1), job(2))


def why(*after: JobAnswer, seconds: float = 20.0) -> str:
    """Of a window that began well, at a pace of 10 s."""
    return why_behind(WELL, after, pace=10.0, seconds=seconds)


def test_what_keeps_up_counts() -> None:
    """Also where nothing runs, where little is known yet, and where one batch more or less was done."""
    assert not why(*WELL)
    assert not why_behind((), (), pace=10.0, seconds=10.0)
    unknown = job(1, batch_seconds_p50=None, events_in_per_second=None, lag_events=None, lag_seconds=None)
    assert not why_behind((unknown,), (unknown,), pace=10.0, seconds=10.0)
    assert not why(job(1, lag_events=140), job(2), seconds=10.0)


def test_a_service_with_long_lags_and_long_batches_is_behind() -> None:
    """As one was that ran batches of 40 to 90 s, and had events wait for 150 s: the worst of its jobs is named."""
    assert "an event waited 150 s for job 2, at a pace of 10 s" == why(job(1), job(2, lag_seconds=150.0))
    assert "a batch of job 1 took 40.0 s, at a pace of 10 s" == why(job(1, batch_seconds_p50=40.0), job(2))


def test_events_that_pile_up_give_it_away_before_any_is_late() -> None:
    """Beyond what comes in one pace, which is chance."""
    assert "only 400 of 1200 events were processed" == why(job(1, lag_events=850), job(2))
    assert not why(job(1, lag_events=150), job(2))


@pytest.mark.parametrize("pace", [0.5, 1.0])
def test_a_short_pace_is_not_held_against_what_jobs_tell_now_and_then(pace: float) -> None:
    """They say every now and then how late they are, and a second or two are within that."""
    late = job(1, lag_seconds=4.0, batch_seconds_p50=0.3)
    assert not why_behind((late,), (late,), pace=pace, seconds=10.0)
    assert why_behind((late,), (job(1, lag_seconds=6.0, batch_seconds_p50=0.3),), pace=pace, seconds=10.0)
