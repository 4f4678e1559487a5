"""The scenario of the demo: which dataflows of RIoTBench arrive, leave and return, and how they are measured. Pure."""

from dataclasses import replace
from pathlib import Path

from workloads.replay.live_replay import ReplayPart
from workloads.replay.plan import Pacing
from workloads.traces.random_walk import sequential
from workloads.traces.trace_file import Action, Trace, TracePhase, TraceStep
from workloads.way import DEFAULT_PACKED, REUSE_PACKED
from workloads.workload import Workload
from workloads.workload_loader import load_workload

WORKLOAD = "riotbench"
DEMO_DATAFLOWS = ("urban-1", "urban-3", "urban-stats", "taxi-3", "taxi-4", "grid-1", "grid-2", "grid-3")
"""Of its dataflows those that take part: of three data sets, with outputs that send something every few seconds."""
SEED = 8
"""Of the order in which they arrive, and of who submits which."""
RATE = 1.0
"""By what the rates of the sources are multiplied; drawing pictures makes these cost something as they are."""
_WAYS = (REUSE_PACKED, DEFAULT_PACKED)
"""Both packed, so that what differs between the two is sharing alone."""
PACING = Pacing(pace=1.0, windows=2, window=6.0, tenants=4)
ON_THE_WAY = frozenset({3})
"""The steps at which is measured, besides the last."""
LEAST_WINDOWS, MOST_WINDOWS = 3, 12
"""How often is measured at the last step: until the service has settled the account of a minute of it."""


def scenario(folder: Path) -> ReplayPart:
    """The demo as part of a replay, with results in a folder for each way below this one."""
    return ReplayPart(
        workload=_chosen(load_workload(WORKLOAD)),
        trace=_trace(),
        ways={folder / each.name: each for each in _WAYS},
        rate=RATE,
    )


def _trace() -> Trace:
    """All arrive one by one; then the first leaves, and returns."""
    drawn = sequential(WORKLOAD, DEMO_DATAFLOWS, SEED)
    arrivals = drawn.steps[: len(DEMO_DATAFLOWS)]
    first = arrivals[0].dataflow
    leaves = TraceStep(action=Action.REMOVE, dataflow=first, phase=TracePhase.WALK)
    returns = TraceStep(action=Action.SUBMIT, dataflow=first, phase=TracePhase.WALK)
    return replace(drawn, name="DEMO", steps=(*arrivals, leaves, returns))


def _chosen(whole: Workload) -> Workload:
    """A workload with the dataflows that take part, and what they read."""
    dataflows = {name: whole.dataflows[name] for name in DEMO_DATAFLOWS}
    tasks = [task for document in dataflows.values() for task in document["tasks"]]
    read = {task["config"]["source"] for task in tasks if task["type"] == "source"}
    return replace(
        whole,
        about={**whole.about, "dataflows": len(dataflows), "tasks": len(tasks)},
        sources=tuple(source for source in whole.sources if source.name in read),
        dataflows=dataflows,
    )
