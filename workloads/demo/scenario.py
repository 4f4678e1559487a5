"""The scenario of the demo: its dataflows of RIoTBench, their order, and the measured steps. Pure."""

from dataclasses import replace
from pathlib import Path

from workloads.replay.live_replay import ReplayPart
from workloads.replay.plan import Pacing
from workloads.traces.sequential import sequential
from workloads.traces.trace_file import Action, Trace, TracePhase, TraceStep
from workloads.way import DEFAULT_PACKED, REUSE_PACKED
from workloads.workload import Workload
from workloads.workload_loader import load_workload

WORKLOAD = "riotbench"
DEMO_DATAFLOWS = ("urban-1", "urban-3", "urban-stats", "taxi-3", "taxi-4", "grid-1", "grid-2", "grid-3")
"""The dataflows that take part: of three data sets, each with outputs that send an event every few seconds."""
SEED = 8
"""The seed of the order of arrivals and of the tenants."""
RATE = 1.0
"""The factor on the rates of the sources; drawing pictures keeps the tasks busy at the published rates."""
_WAYS = (REUSE_PACKED, DEFAULT_PACKED)
"""Both packed, so that the two differ only in sharing."""
PACING = Pacing(pace=1.0, windows=2, window=6.0, tenants=4)
EARLY_MEASURED_STEPS = frozenset({3})
"""The measured steps besides the last."""
LEAST_WINDOWS, MOST_WINDOWS = 3, 12
"""Windows at the last step: the demo measures until the service has metered a minute of it."""


def scenario(folder: Path) -> ReplayPart:
    """The demo as a part of a replay; each way has a results folder below `folder`."""
    return ReplayPart(
        workload=_chosen(load_workload(WORKLOAD)),
        trace=_trace(),
        ways={folder / each.name: each for each in _WAYS},
        rate=RATE,
    )


def _trace() -> Trace:
    """All dataflows arrive one by one; then the first leaves and returns."""
    drawn = sequential(WORKLOAD, DEMO_DATAFLOWS, SEED)
    arrivals = drawn.steps[: len(DEMO_DATAFLOWS)]
    first = arrivals[0].dataflow
    leaves = TraceStep(action=Action.REMOVE, dataflow=first, phase=TracePhase.WALK)
    returns = TraceStep(action=Action.SUBMIT, dataflow=first, phase=TracePhase.WALK)
    return replace(drawn, name="DEMO", steps=(*arrivals, leaves, returns))


def _chosen(whole: Workload) -> Workload:
    """The workload reduced to the dataflows that take part and the sources they read."""
    dataflows = {name: whole.dataflows[name] for name in DEMO_DATAFLOWS}
    tasks = [task for document in dataflows.values() for task in document["tasks"]]
    read = {task["config"]["source"] for task in tasks if task["type"] == "source"}
    return replace(
        whole,
        about={**whole.about, "dataflows": len(dataflows), "tasks": len(tasks)},
        sources=tuple(source for source in whole.sources if source.name in read),
        dataflows=dataflows,
    )
