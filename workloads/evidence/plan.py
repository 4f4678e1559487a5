"""The plan of the evidence's first part, as data: the traces, their ways, and which of them run side by side. Pure.

The second part uses the same records; its plan is in `workloads.evidence.work_plan`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workloads.replay.plan import STARTING, STOPPING, Pacing, seconds_of
from workloads.traces.random_walk import random_walk
from workloads.traces.sequential import sequential
from workloads.traces.trace_file import Trace
from workloads.way import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE, REUSE_PACKED, Way
from workloads.workload import Workload

LAUNCHED = (DEFAULT, REUSE)
"""The paper's ways: a job for each submission, without and with sharing."""
WAYS = (*LAUNCHED, DEFRAGMENTED, DEFAULT_PACKED, REUSE_PACKED)
"""All ways; the packed ones show what packing saves, so that it is not mistaken for sharing."""
WALKS = (1, 2)
"""The seeds of RW1 and RW2."""
_WALK = 40
"""Steps of each walk between filling and draining."""
REPORTING = 60.0
"""Approximate seconds for the dry replays and the report."""
MEASURED = Pacing(pace=10.0, windows=2, window=10.0, settle=1.5, points=8, hurry=True)
"""For few measured steps; each job runs one batch in each window, so that two cores keep up with a hundred jobs."""
WALKED = replace(MEASURED, settle=0.5, points=20)
"""For more measured steps; only one or two of many jobs have a new plan, so a short wait suffices."""
_RATES: Mapping[str, float] = {"opmw": 0.5, "riotbench": 0.2}
"""Factors on a workload's rates, so that all services of a session together need less than two cores."""
WALKING_RATES: Mapping[str, float] = {"opmw": 0.5, "riotbench": 0.15}
"""The same factors where four services replay walks side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """A trace and the ways in which it is replayed."""

    workload: str
    trace: str
    ways: tuple[Way, ...]
    rate: float
    """The factor on the rates of its sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Traces that are replayed side by side; sessions run one after the other."""

    cues: tuple[Cue, ...]
    pacing: Pacing

    @property
    def name(self) -> str:
        """The name on the screen."""
        return ", ".join(f"{cue.workload} {cue.trace} ({_ways(cue.ways)})" for cue in self.cues)


def sessions(workloads: Sequence[str], *, full: bool, quick: bool = False) -> tuple[Session, ...]:
    """The live replays, measured at few steps; `full` measures every step, `quick` only two, as a trial."""
    seq, walk = MEASURED, WALKED
    if full:
        # Over so many steps the windows average out.
        seq = walk = replace(WALKED, points=None, hurry=False)
    if quick:
        seq = walk = replace(MEASURED, pace=2.0, window=2.0, points=2)
    return (
        *(Session(cues=(_cue(each, "SEQ", *WAYS),), pacing=seq) for each in workloads),
        *(
            Session(cues=tuple(_cue(each, f"RW{seed}", *LAUNCHED, rates=WALKING_RATES) for seed in WALKS), pacing=walk)
            for each in workloads
        ),
    )


def _cue(workload: str, trace: str, *ways: Way, rates: Mapping[str, float] = _RATES) -> Cue:
    return Cue(workload=workload, trace=trace, ways=ways, rate=rates.get(workload, 1.0))


def _ways(ways: Sequence[Way]) -> str:
    return ways[0].name if len(ways) == 1 else f"{len(ways)} services"


def traces(workloads: Mapping[str, Workload]) -> Mapping[tuple[str, str], Trace]:
    """The traces of each workload, by workload and trace."""
    drawn: dict[tuple[str, str], Trace] = {}
    for name, workload in workloads.items():
        dataflows = tuple(workload.dataflows)
        for trace in (
            sequential(name, dataflows, 1),
            *(random_walk(name, dataflows, seed, steps=_WALK) for seed in WALKS),
        ):
            drawn[name, trace.name] = trace
    return drawn


def folder_of(into: Path, workload: str, trace: str, way: Way, *, dry: bool) -> Path:
    """The folder for the results of one replay."""
    return into / "results" / "-".join((Path(workload).name.replace(":", "-"), trace, way.name, *(["dry"] * dry)))


def seconds(session: Session, drawn: Mapping[tuple[str, str], Trace]) -> float:
    """The approximate duration of a session: services start one by one, then its traces run together."""
    services = sum(len(cue.ways) for cue in session.cues)
    longest = max(
        # The jobs of the other traces start at the same time.
        sum(seconds_of(drawn[cue.workload, cue.trace], session.pacing, cue.ways * len(session.cues)))
        for cue in session.cues
    )
    return services * (STARTING + STOPPING) + longest


def budget(every: Sequence[Session], drawn: Mapping[tuple[str, str], Trace]) -> Iterator[str]:
    """The expected durations, as lines to show at the start."""
    total = REPORTING
    for session in every:
        took = seconds(session, drawn)
        total += took
        yield f"{took / 60:6.1f} min  {session.name}"
    yield f"{total / 60:6.1f} min  in total, with {REPORTING / 60:.0f} min for counts and report"


def measured_at(every: Sequence[Session]) -> str:
    """The measured steps of each trace, as text.

    >>> [measured_at(sessions(["w"], full=full)) for full in (False, True)]
    ['8 or 20 steps', 'every step']
    """
    points = {session.pacing.points for session in every}
    return "every step" if None in points else f"{' or '.join(map(str, sorted(filter(None, points))))} steps"
