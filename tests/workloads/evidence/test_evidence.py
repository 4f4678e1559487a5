"""The plan of the evidence: what is compared runs together, everything is kept apart, and it takes an hour at most."""

from itertools import count, takewhile
from pathlib import Path

import pytest

from workloads.evidence.plan import LAUNCHED, WAYS, budget, folder_of, seconds, sessions, traces
from workloads.replay.plan import Pacing, measured_steps
from workloads.workload import load_workload

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
