"""The evidence: what is compared runs together, tasks cost alike, and each part takes about an hour."""

from itertools import count, pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest

from merge import BATCH_SECONDS
from workloads.evidence.__main__ import _calibrated
from workloads.evidence.pipeline import UNDER_WAY
from workloads.evidence.plan import (
    CORES,
    FOUR,
    LAUNCHED,
    WAYS,
    Session,
    budget,
    event_seconds,
    folder_of,
    seconds,
    sessions,
    sessions_of_work,
    tempo_of,
    traces,
    with_uniform_tasks,
)
from workloads.replay.dry_replay import dry_rows
from workloads.replay.plan import Pacing, measured_steps
from workloads.results import StepRow
from workloads.traces import DEFAULT, REUSE, Trace, Way
from workloads.workload import Workload, load_workload

NAMES = ("opmw", "riotbench")


def test_the_evidence_takes_less_than_an_hour() -> None:
    """By its own reckoning, which it shows before it begins; and at every step it takes longer."""
    drawn = traces({name: load_workload(name) for name in NAMES})
    short, full = (sum(seconds(each, drawn) for each in sessions(NAMES, full=full)) for full in (False, True))
    assert short < 58 * 60 < full
    *lines, total = budget(sessions(NAMES, full=False), drawn)
    assert len(sessions(NAMES, full=False)) == len(lines)
    assert "in total" in total


def test_every_way_runs_beside_that_without_sharing_at_the_same_steps_and_windows() -> None:
    """Of each trace: 8 points of SEQ, 20 steps of each walk, in windows of at least 10 s that are repeated."""
    drawn = traces({name: load_workload(name) for name in NAMES})
    points = {}
    for session in sessions(NAMES, full=False):
        assert session.pacing.windows >= 2
        assert session.pacing.window >= 10.0
        for cue in session.cues:
            assert {"default", "reuse"} == {way.mode for way in cue.ways}
            assert {way.baseline for way in cue.ways} <= {*cue.ways}
            assert cue.ways == (WAYS if cue.trace == "SEQ" else LAUNCHED)
            points[cue.workload, cue.trace] = len(measured_steps(drawn[cue.workload, cue.trace], session.pacing.points))
    assert {(name, trace): 8 if trace == "SEQ" else 20 for name in NAMES for trace in ("SEQ", "RW1", "RW2")} == points


def test_no_two_results_share_a_folder() -> None:
    """Neither live ones, nor dry ones, nor one of each."""
    live = [
        folder_of(Path("x"), cue.workload, cue.trace, way, dry=False)
        for session in sessions(NAMES, full=False)
        for cue in session.cues
        for way in cue.ways
    ]
    dry = [
        folder_of(Path("x"), name, trace, way, dry=True)
        for name in NAMES
        for trace in ("SEQ", "RW1", "RW2")
        for way in WAYS
    ]
    assert 2 * (5 + 2 + 2) + 2 * 3 * 5 == len({*live, *dry})


def worked_off(pacing: Pacing) -> float:
    """The part of what comes in a step's windows that a job works off in them, after a plan that it has run at once."""
    first = pacing.settling
    last = first + pacing.windows * pacing.window
    batches = takewhile(lambda begun: begun < last, (pacing.pace * place for place in count(1)))
    return sum(pacing.pace for begun in batches if begun >= first) / (last - first)


@pytest.mark.parametrize("full", [False, True])
def test_windows_hold_as_much_work_as_comes_in_them(*, full: bool) -> None:
    """Else a way of few jobs seems cheaper."""
    for session in sessions(NAMES, full=full):
        assert worked_off(session.pacing) == pytest.approx(1.0, abs=0.01)


AN_EVENT = 0.0065
WORKLOADS = {
    f"{name}-alike": with_uniform_tasks(load_workload(name), seconds=AN_EVENT) for name in ("opmw", "riotbench")
}


def rows(workload: Workload, trace: Trace, mode: Any = "default") -> list[StepRow]:
    return [row for row, _ in dry_rows(workload, trace, Way(mode))]


def planned() -> tuple[dict[tuple[str, str], Trace], tuple[Session, ...]]:
    drawn = dict(traces(WORKLOADS))
    tempos = {at: tempo_of(rows(WORKLOADS[at[0]], trace), AN_EVENT) for at, trace in drawn.items()}
    return drawn, sessions_of_work(tempos)


def test_every_task_computes_alike_and_sources_are_followed_by_one_that_does() -> None:
    """But for sources and outputs, which compute nothing; each source sends as often as any other."""
    for workload in WORKLOADS.values():
        assert {1.0} == {source.per_second for source in workload.sources}
        for document in workload.dataflows.values():
            tasks = {task["id"]: task for task in document["tasks"]}
            steps = [task for task in tasks.values() if task["type"] not in {"source", "output"}]
            assert {1_600} == {task["config"]["iterations"] for task in steps}
            for source in (task["id"] for task in tasks.values() if task["type"] == "source"):
                (taker,) = (stream["to"] for stream in document["streams"] if stream["from"] == source)
                assert "opmw:parsing" == tasks[taker]["type"]


def test_what_is_shared_stays_shared_and_what_is_not_stays_apart() -> None:
    """Of the steps that do the workload's own work, all but those whose defaults are written out differently."""
    for name, workload in WORKLOADS.items():
        plain = load_workload(name.removesuffix("-alike"))
        before, after = (
            max(row.running_tasks for row in rows(each, traces({"w": each})["w", "SEQ"], "reuse"))
            for each in (plain, workload)
        )
        parsing = len(workload.sources)
        assert before <= after <= before + parsing + 3


def test_default_takes_what_it_should_at_the_peak_of_each_trace() -> None:
    """Work, batches and the host together; and a whole number of events comes in each batch."""
    for (name, _), trace in traces(WORKLOADS).items():
        counted = rows(WORKLOADS[name], trace)
        tempo = tempo_of(counted, AN_EVENT)
        peak = max(counted, key=lambda row: row.work_running)
        cores = 0.03 + peak.jobs * BATCH_SECONDS / tempo.pace + peak.work_running * tempo.rate * AN_EVENT
        assert CORES == pytest.approx(cores, abs=0.05)
        assert tempo.rate * tempo.pace == pytest.approx(round(tempo.rate * tempo.pace), abs=1e-4)
        assert 15.0 < tempo.pace < 25.0


def test_an_event_costs_something_here() -> None:
    """More with more iterations."""
    assert 0.0 < event_seconds(20) < event_seconds(800)


def test_what_was_interrupted_goes_on_with_the_cost_that_it_began_with(tmp_path: Path) -> None:
    """Else its rates would differ, and all that was measured would be thrown away; anew begun, it is measured anew."""
    (tmp_path / "calibrated.json").write_text('{"event_seconds": 4.2}')
    (tmp_path / UNDER_WAY).write_text("a plan")
    assert 4.2 == _calibrated(tmp_path)
    (tmp_path / UNDER_WAY).unlink()
    assert 4.2 != _calibrated(tmp_path)


def test_it_takes_about_an_hour_and_each_way_runs_by_itself() -> None:
    """Default and reuse launched everywhere, of SEQ both packed too; at the same steps of a trace, and at its peak."""
    drawn, every = planned()
    assert sum(seconds(session, drawn) for session in every) < 70 * 60
    assert "in total" in [*budget(every, drawn)][-1]
    found = {(cue.workload, cue.trace, way) for session in every for cue in session.cues for way in cue.ways}
    ways = {"SEQ": FOUR, "RW1": (DEFAULT, REUSE), "RW2": (DEFAULT, REUSE)}
    assert {(name, trace, way) for name in WORKLOADS for trace, those in ways.items() for way in those} == found
    assert {1} == {len(cue.ways) for session in every for cue in session.cues}
    for one, other in pairwise(every):
        if one.cues[0].trace == other.cues[0].trace and one.cues[0].workload == other.cues[0].workload:
            assert (one.pacing, one.cues[0].rate) == (other.pacing, other.cues[0].rate)


def test_no_two_results_of_work_share_a_folder(tmp_path: Path) -> None:
    """Every session has one of its own."""
    _, every = planned()
    folders = {
        folder_of(tmp_path, cue.workload, cue.trace, way, dry=False)
        for session in every
        for cue in session.cues
        for way in cue.ways
    }
    assert len(every) == len(folders)
