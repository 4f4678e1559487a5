"""Scenarios of pipelines: how long each takes to plan, and what its plan costs at run time against plain tasks."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import replace

from benchmarks.instruments import Figures, scratch_folder
from benchmarks.planner.memory_job import Batches, MemoryJob, batches_of
from dags import Dataflow, InvalidDocument
from planning.pipelines.reader import NO_OP, Surroundings
from workloads.pipelines.scenario import (
    SCENARIOS,
    PipelineScenario,
    canonical_form,
    load_scenario,
    planned_scenario,
    surroundings_of,
)

_ROUNDS = 1_000
"""In a batch."""
_WARM = 2
"""Batches before those that are measured."""
_TIMES = 9
"""Each is planned so often."""


def scenarios(*, quick: bool) -> Figures:
    """Of each scenario: CPU-ms of planning and of the slowest fallback, CPU-µs per event both ways, and their ratio."""
    return {name: _measured(load_scenario(name), batches=6 if quick else 30) for name in SCENARIOS}


def _measured(scenario: PipelineScenario, *, batches: int) -> Figures:
    around = surroundings_of(scenario)
    planned, planning = planned_scenario(scenario.pipeline, around), list[float]()
    for _ in range(_TIMES):
        begun = time.process_time()
        planned_scenario(scenario.pipeline, around)
        planning.append(time.process_time() - begun)
    fallbacks = [
        seconds
        for module in sorted(set(planned.fillings.values()) - {NO_OP})
        if (seconds := _fallback(scenario, replace(around, without=frozenset({module}), present=planned.fillings)))
    ]
    flows = {
        "planned": canonical_form(planned.assembled.document, around),
        "static": canonical_form(scenario.static, around),
    }
    events = batches_of(scenario, 1, batches=_WARM + batches, rounds=_ROUNDS)
    taken = _taken(scenario, flows, events)
    per_batch = _ROUNDS * len(scenario.schemas)
    ratios = [one / other for one, other in zip(taken["planned"], taken["static"], strict=True)]
    return {
        "open_places": len(planned.fillings),
        "planning_ms": round(statistics.median(planning) * 1_000, 1),
        "fallbacks": len(fallbacks),
        "fallback_ms": round(max(fallbacks) * 1_000, 1),
        "events": per_batch * batches,
        **{f"{way}_us": round(statistics.median(seconds) / per_batch * 1e6, 2) for way, seconds in taken.items()},
        "ratio": round(statistics.median(ratios), 3),
    }


def _fallback(scenario: PipelineScenario, around: Surroundings) -> float | None:
    """Seconds of CPU to plan without a module, from the text on; None if there is no plan without it."""
    begun = time.process_time()
    try:
        planned_scenario(scenario.pipeline, around, reasons=False)
    except InvalidDocument:
        return None
    return time.process_time() - begun


def _taken(scenario: PipelineScenario, flows: Mapping[str, Dataflow], events: Batches) -> dict[str, list[float]]:
    """Seconds of CPU of each batch but the first ones, of each dataflow. They take turns at being the first."""
    taken: dict[str, list[float]] = {way: [] for way in flows}
    with scratch_folder() as folder:
        jobs = {way: MemoryJob(folder / way, scenario, flow) for way, flow in flows.items()}
        for at, arrived in enumerate(events):
            for way in sorted(jobs, reverse=at % 2 == 1):
                begun = time.process_time()
                jobs[way].run(arrived)
                taken[way].append(time.process_time() - begun)
    return {way: seconds[_WARM:] for way, seconds in taken.items()}
