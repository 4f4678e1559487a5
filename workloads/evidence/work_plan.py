"""The plan of the evidence's second part, as data: the paper's own regime, with expensive tasks. Pure.

Without sharing the peak of a trace takes more than one of two cores, so that services cannot run side by side. Each way
is a session of its own, at the same rate and pace as the others of its trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.evidence.plan import LAUNCHED, Cue, Session
from workloads.replay.plan import Pacing
from workloads.way import DEFAULT_PACKED, REUSE_PACKED

FOUR = (*LAUNCHED, DEFAULT_PACKED, REUSE_PACKED)
"""The ways of SEQ; the defragmented one is in the first part only, where batches take most of the CPU."""
POINTS, WALKED = 3, 1
"""Measured steps of SEQ (while it fills, at the peak, while it drains), and of each walk."""
WINDOWS, WALKED_WINDOWS = 2, 4
"""The windows of each step of SEQ, and of each walk: with two, the interval of what a walk saves was 200 points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """The rate and the pace of a trace; made by `workloads.evidence.calibration.tempo_of`."""

    rate: float
    """Events per second of each source."""
    pace: float
    """Seconds of a batch; a whole number of events comes in each, so that all batches and windows are alike."""


def sessions_of_work(tempos: Mapping[tuple[str, str], Tempo], *, quick: bool = False) -> tuple[Session, ...]:
    """The live replays at the tempo of each workload's traces; `quick` measures only the peak of SEQ, in one window.

    A window is one pace, so that each job runs one batch in it. The replay waits only for measured steps.
    """
    found = []
    for (workload, trace), tempo in tempos.items():
        is_walk = trace != "SEQ"
        if is_walk and quick:
            continue
        pacing = Pacing(
            pace=tempo.pace,
            windows=1 if quick else WALKED_WINDOWS if is_walk else WINDOWS,
            window=tempo.pace,
            settle=1.5,
            points=1 if quick else WALKED if is_walk else POINTS,
            hurry=True,
        )
        for way in LAUNCHED if is_walk or quick else FOUR:
            cue = Cue(workload=workload, trace=trace, ways=(way,), rate=tempo.rate)
            found.append(Session(cues=(cue,), pacing=pacing))
    return tuple(found)
