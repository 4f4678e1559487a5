"""The plan of the evidence: the traces, their ways, which of them run side by side, and tasks that cost the same.

The second part is in the paper's own regime, with expensive tasks that all cost the same. Without sharing the peak of a
trace takes more than one of two cores, so that services cannot run side by side. Each way is a session of its own, at
the same rate and pace as the others of its trace.

There each task becomes a step that computes pi for every event. Type, config and inputs stay, so the same tasks are
shared as before, with two exceptions: the ports of a task become one, and a config field that is left out differs from
its default. Tasks that are not shared because they write to the outside stay unshared. A step behind each source stands
for parsing, and is shared as the source is. Filters and windows let every event through. All sources have the same
rate. The cost of an event is measured on this machine, and the rates follow from it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from engine import installed_catalogue
from engine.trial import try_out
from manager.costs.measured import ASSUMED
from workloads.opmw.document_encoder import workload_source
from workloads.replay.plan import STARTING, STOPPING, Pacing, seconds_of
from workloads.results import StepRow
from workloads.traces import (
    DEFAULT,
    DEFAULT_PACKED,
    DEFRAGMENTED,
    REUSE,
    REUSE_PACKED,
    Trace,
    Way,
    random_walk,
    sequential,
)
from workloads.workload import Document, Workload, WorkloadSource

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
        ways = [cue.ways[0].name if len(cue.ways) == 1 else f"{len(cue.ways)} services" for cue in self.cues]
        return ", ".join(f"{cue.workload} {cue.trace} ({shown})" for cue, shown in zip(self.cues, ways, strict=True))


def sessions(workloads: Sequence[str], *, full: bool, quick: bool = False) -> tuple[Session, ...]:
    """The live replays, measured at few steps; `full` measures every step, `quick` only two, as a trial."""
    seq, walk = MEASURED, WALKED
    if full:
        # Over so many steps the windows average out.
        seq = walk = replace(WALKED, points=None, hurry=False)
    if quick:
        seq = walk = replace(MEASURED, pace=2.0, window=2.0, points=2)
    return (
        *(Session(cues=(_cue(workload, "SEQ", *WAYS),), pacing=seq) for workload in workloads),
        *(
            Session(
                cues=tuple(_cue(workload, f"RW{seed}", *LAUNCHED, rates=WALKING_RATES) for seed in WALKS), pacing=walk
            )
            for workload in workloads
        ),
    )


def _cue(workload: str, trace: str, *ways: Way, rates: Mapping[str, float] = _RATES) -> Cue:
    return Cue(workload=workload, trace=trace, ways=ways, rate=rates.get(workload, 1.0))


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


FOUR = (*LAUNCHED, DEFAULT_PACKED, REUSE_PACKED)
"""The ways of SEQ; the defragmented one is in the first part only, where batches take most of the CPU."""
POINTS, WALKED_POINTS = 3, 1
"""Measured steps of SEQ (while it fills, at the peak, while it drains), and of each walk."""
WINDOWS, WALKED_WINDOWS = 2, 4
"""The windows of each step of SEQ, and of each walk: with two, the interval of what a walk saves was 200 points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempo:
    """The rate and the pace of a trace; made by `workloads.evidence.plan.tempo_of`."""

    rate: float
    """Events per second of each source."""
    pace: float
    """Seconds of a batch; a whole number of events comes in each, so that all batches and windows are alike."""


def sessions_of_work(tempos: Mapping[tuple[str, str], Tempo], *, quick: bool = False) -> tuple[Session, ...]:
    """The live replays at the tempo of each workload's traces; `quick` measures only the peak of SEQ, in one window.

    A window is one pace, so that each job runs one batch in it. The replay waits only for measured steps.
    """
    planned = []
    for (workload, trace), tempo in tempos.items():
        is_walk = trace != "SEQ"
        if is_walk and quick:
            continue
        pacing = Pacing(
            pace=tempo.pace,
            windows=1 if quick else WALKED_WINDOWS if is_walk else WINDOWS,
            window=tempo.pace,
            settle=1.5,
            points=1 if quick else WALKED_POINTS if is_walk else POINTS,
            hurry=True,
        )
        for way in LAUNCHED if is_walk or quick else FOUR:
            cue = Cue(workload=workload, trace=trace, ways=(way,), rate=tempo.rate)
            planned.append(Session(cues=(cue,), pacing=pacing))
    return tuple(planned)


UNIFORM_ITERATIONS = 1_600
"""Iterations of each computation, as in the paper."""
_SOURCE, _SINK, _STEP = "source", "output", "opmw:"
_STEPS = (_STEP, "opmw-join:")
"""Types of tasks that compute pi already; they stay as they are, ports included."""
_PARSING = f"{_STEP}parsing"
_WORK = "iterations"


def with_uniform_tasks(workload: Workload, *, seconds: float, iterations: int = UNIFORM_ITERATIONS) -> Workload:
    """The workload with uniform tasks; an event takes `seconds` of CPU, and each source sends one event a second."""
    dataflows = {name: _document(document, iterations) for name, document in workload.dataflows.items()}
    read = {task["config"]["source"] for document in dataflows.values() for task in document["tasks"] if _reads(task)}
    return Workload(
        name=f"{workload.name}-alike",
        about={
            "made": "every task computes pi for each event, and so does a step behind each source",
            "iterations of each step": iterations,
            "CPU seconds of an event at each step": seconds,
            "of": {"name": workload.name, **workload.about},
        },
        sources=tuple(_source(name) for name in sorted(read)),
        dataflows=dataflows,
    )


def _source(name: str) -> WorkloadSource:
    made = workload_source(name)
    return WorkloadSource(name=name, schema=made.schema, events=made.events, per_second=1.0)


def _document(document: Document, iterations: int) -> Document:
    tasks: list[dict[str, Any]] = []
    parsed: dict[str, str] = {}
    for task in document["tasks"]:
        tasks.append(_step(task, iterations))
        if _reads(task):
            parsed[task["id"]] = f"{task['id']} parsed"
            tasks.append({"id": parsed[task["id"]], "type": _PARSING, "config": {_WORK: iterations}})
    streams = [{"from": source, "to": step} for source, step in parsed.items()]
    stay = {task["id"] for task in document["tasks"] if task["type"].startswith(_STEPS)}
    streams += [
        {
            "from": parsed.get(stream["from"], stream["from"]),
            **{
                end: stream[end] for end in ("to", "to_port") if end in stream and (end == "to" or stream["to"] in stay)
            },
        }
        for stream in document["streams"]
    ]
    # Streams that differed only in their ports are one.
    return {
        **document,
        "tasks": tasks,
        "streams": [stream for at, stream in enumerate(streams) if stream not in streams[:at]],
    }


def _step(task: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    if task["type"] in {_SOURCE, _SINK}:
        return dict(task)
    config = {f"of {name}" if name == _WORK else name: value for name, value in task.get("config", {}).items()}
    kept = {name: value for name, value in task.items() if name not in {"type", "config"}}
    if task["type"].startswith(_STEPS):
        return {**kept, "type": task["type"], "config": {**task["config"], _WORK: iterations}}
    kind = installed_catalogue().find(task["type"])
    if kind is not None and not kind.shareable:
        kept["fresh"] = True
    return {**kept, "type": _STEP + task["type"], "config": {**config, _WORK: iterations}}


def _reads(task: Mapping[str, Any]) -> bool:
    return bool(task["type"] == _SOURCE)


CORES = 1.35
"""The cores that default should take at its peak: between 1.2 and 1.5 of two."""
_PACE = 20.0
"""Approximate seconds between two batches. Each of the many jobs runs a batch in every pace, whatever sharing saves:
at 10 s the batches took a sixth of the cores of launched dataflows, and hid five points of the saved work."""
_AT_ONCE, _TIMES = 8, 15
"""Events of a batch, and the number of batches: at most a second in total."""


def event_seconds(iterations: int = UNIFORM_ITERATIONS) -> float:
    """Measure the CPU seconds of an event at a task, on two cores at once, as jobs use them."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as both:
        return median([*both.map(_event_seconds, [iterations] * 2)])


def tempo_of(default: Sequence[StepRow], seconds: float) -> Tempo:
    """The tempo at which a trace takes `CORES` at its peak; `default` has its counts at one event a second.

    An event takes `seconds` of CPU at every step. The cores of batches and of the host are subtracted.
    """
    peak = max(default, key=lambda row: row.work_running)
    left = CORES - ASSUMED.host - peak.jobs * ASSUMED.batch / _PACE
    rate = left / (peak.work_running * seconds)
    events = max(1, round(rate * _PACE))
    pace = round(events / rate, 2)
    return Tempo(rate=round(events / pace, 6), pace=pace)


def _event_seconds(iterations: int) -> float:
    events = [{"value": float(number)} for number in range(_AT_ONCE)]
    taken = []
    for _ in range(_TIMES):
        begun = time.process_time()
        try_out("pi_viete", {"iterations": iterations}, events)
        taken.append((time.process_time() - begun) / len(events))
    return median(taken)
