"""The plan of the evidence's second part, as data: the paper's own regime, in which tasks are what costs. Pure.

Without sharing the peak of a trace takes more than one of two cores, so that services cannot run side by side. Each way
is a session of its own, at the same rate and pace as the others of its trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.evidence.plan import LAUNCHED, Cue, Session
from workloads.replay.plan import Pacing
from workloads.way import DEFAULT_PACKED, REUSE_PACKED

FOUR = (*LAUNCHED, DEFAULT_PACKED, REUSE_PACKED)
"""Those of SEQ; its defragmented one is left to the first part, where batches are what costs."""
POINTS, WALKED = 3, 1
"""At how many steps is measured: of SEQ as it fills, at the peak and as it drains; and of each walk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """At which rate a trace is replayed, and at which pace; made by `workloads.evidence.calibration.tempo_of`."""

    rate: float
    """Events of each source in a second."""
    pace: float
    """Seconds in which a whole number of events of each source comes, so that every batch and window holds the same."""


def sessions_of_work(tempos: Mapping[tuple[str, str], Tempo], *, quick: bool = False) -> tuple[Session, ...]:
    """What is replayed live, given the tempo of each workload's traces; quickly only the peak of SEQ, in one window.

    A window is one pace, so that each job runs one batch in it. All but the measured steps are just committed.
    """
    found = []
    for (workload, trace), tempo in tempos.items():
        is_walk = trace != "SEQ"
        if is_walk and quick:
            continue
        pacing = Pacing(
            pace=tempo.pace,
            windows=1 if quick else 2,
            window=tempo.pace,
            settle=1.5,
            points=1 if quick else WALKED if is_walk else POINTS,
            hurry=True,
        )
        for way in LAUNCHED if is_walk or quick else FOUR:
            cue = Cue(workload=workload, trace=trace, ways=(way,), rate=tempo.rate)
            found.append(Session(cues=(cue,), pacing=pacing))
    return tuple(found)
