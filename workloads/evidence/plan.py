"""The plan of the evidence's first part, as data: which traces are replayed how, beside each other or after. Pure.

What it is made of serves the second part too, whose plan is in `workloads.evidence.work_plan`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from workloads.replay.plan import STARTING, STOPPING, Pacing, seconds_of
from workloads.traces.random_walk import random_walk, sequential
from workloads.traces.trace_file import Trace
from workloads.way import DEFAULT, DEFAULT_PACKED, DEFRAGMENTED, REUSE, REUSE_PACKED, Way
from workloads.workload import Workload

LAUNCHED = (DEFAULT, REUSE)
"""As in the paper: a job for each submission, without and with sharing."""
WAYS = (*LAUNCHED, DEFRAGMENTED, DEFAULT_PACKED, REUSE_PACKED)
"""All: with few jobs too, without and with sharing, so that what packing saves is not taken for what sharing saves."""
WALKS = (1, 2)
"""The seeds of RW1 and RW2."""
_WALK = 40
"""Steps of each between filling and draining."""
REPORTING = 60.0
"""Seconds for dry replays and the report, about."""
MEASURED = Pacing(pace=10.0, windows=2, window=10.0, settle=1.5, points=8, hurry=True)
"""At a few steps; each job runs one batch in each window, and two cores are to keep up with a hundred jobs."""
WALKED = replace(MEASURED, settle=0.5, points=20)
"""At more steps; of their many jobs just one or two have a new plan, so they need not have their rhythm again."""
_RATES: Mapping[str, float] = {"opmw": 0.5, "riotbench": 0.2}
"""By what a workload's rates are multiplied, so that all services of a session together need less than two cores."""
WALKING_RATES: Mapping[str, float] = {"opmw": 0.5, "riotbench": 0.15}
"""By what they are where four services walk side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """A trace to replay in some ways."""

    workload: str
    trace: str
    ways: tuple[Way, ...]
    rate: float
    """By what the rates of its sources are multiplied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Traces that are replayed side by side; sessions come one after the other."""

    cues: tuple[Cue, ...]
    pacing: Pacing

    @property
    def name(self) -> str:
        """What is shown of it."""
        return ", ".join(f"{cue.workload} {cue.trace} ({_ways(cue.ways)})" for cue in self.cues)


def sessions(workloads: Sequence[str], *, full: bool, quick: bool = False) -> tuple[Session, ...]:
    """What is replayed live: fully at every step, else at a few; quickly at two, to see whether all of it works."""
    seq, walk = MEASURED, WALKED
    if full:
        # So many steps make up for each other.
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
    """The traces of each workload, by its name and theirs."""
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
    """Where the results of one replay lie."""
    return into / "results" / "-".join((Path(workload).name.replace(":", "-"), trace, way.name, *(["dry"] * dry)))


def seconds(session: Session, drawn: Mapping[tuple[str, str], Trace]) -> float:
    """How long a session takes, about: services start one by one, and its traces go on together."""
    services = sum(len(cue.ways) for cue in session.cues)
    longest = max(
        # The others' jobs start meanwhile.
        sum(seconds_of(drawn[cue.workload, cue.trace], session.pacing, cue.ways * len(session.cues)))
        for cue in session.cues
    )
    return services * (STARTING + STOPPING) + longest


def budget(every: Sequence[Session], drawn: Mapping[tuple[str, str], Trace]) -> Iterator[str]:
    """How long all of it takes, as lines to show before it begins."""
    total = REPORTING
    for session in every:
        took = seconds(session, drawn)
        total += took
        yield f"{took / 60:6.1f} min  {session.name}"
    yield f"{total / 60:6.1f} min  in all, with {REPORTING / 60:.0f} min for counts and report"


def where(every: Sequence[Session]) -> str:
    """At which steps of each trace cores are measured.

    >>> [where(sessions(["w"], full=full)) for full in (False, True)]
    ['8 or 20 steps', 'every step']
    """
    points = {session.pacing.points for session in every}
    return "every step" if None in points else f"{' or '.join(map(str, sorted(filter(None, points))))} steps"
