"""A live replay: its counts are those of a dry one, it measures what runs, and an interrupted one goes on."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.replay import toy
from workloads.replay.dry_replay import dry_rows
from workloads.replay.live_replay import ReplayPart, replay_live
from workloads.replay.plan import Pacing
from workloads.results import STEP_LINES, StepRow, WrongResults, read_manifest, read_results
from workloads.traces import Way, sequential
from workloads.workload import load_workload

PACING = Pacing(pace=0.5, windows=1, window=1.5, settle=1.0, tenants=2)


# The demo replays in the quick suite, without being interrupted.
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.mosquitto
def test_a_replay_that_is_interrupted_goes_on_and_counts_what_a_dry_one_counts(tmp_path: Path) -> None:
    """Each step is there once; jobs and paused tasks are as if nothing had happened; what runs takes CPU and sends."""
    workload = load_workload(str(toy.make(tmp_path / "toy")))
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
