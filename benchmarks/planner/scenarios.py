"""Scenarios of pipelines: how long each takes to plan, and what its plan costs at run time against plain tasks."""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.planner.memory_job import Batches, MemoryJob, batches_of
from workloads.pipelines.scenario import SCENARIOS, PipelineScenario, load_scenario
from workloads.pipelines.scenario_plan import canonical_form, planned_scenario
from workloads.workload import Document

Found = dict[str, Any]
_ROUNDS = 1_000
"""In a batch."""
_WARM = 2
"""Batches before those that are measured."""
_TIMES = 9
"""Each is planned so often."""


def scenarios(*, quick: bool) -> Found:
    """Of each scenario: CPU-milliseconds of planning, CPU-microseconds per event both ways, and their ratio."""
    return {name: _measured(load_scenario(name), batches=6 if quick else 60) for name in SCENARIOS}


def _measured(scenario: PipelineScenario, *, batches: int) -> Found:
    planned, planning = planned_scenario(scenario), list[float]()
    for _ in range(_TIMES):
        begun = time.process_time()
        planned_scenario(scenario)
        planning.append(time.process_time() - begun)
    events = batches_of(scenario, 1, batches=_WARM + batches, rounds=_ROUNDS)
    taken = _taken(scenario, planned.assembled.document, events)
    per_batch = _ROUNDS * len(scenario.schemas)
    per_event = {way: round(statistics.median(each) / per_batch * 1e6, 2) for way, each in taken.items()}
    ratios = [one / other for one, other in zip(taken["planned"], taken["static"], strict=True)]
    return {
        "open_places": len(planned.fillings),
        "planning_ms": round(statistics.median(planning) * 1_000, 1),
        "events": per_batch * batches,
        **{f"{way}_us": each for way, each in per_event.items()},
        "ratio": round(statistics.median(ratios), 3),
    }


def _taken(scenario: PipelineScenario, document: Document, events: Batches) -> dict[str, list[float]]:
    """Seconds of CPU of each batch but the first ones, both ways. They take turns at being the first to run it."""
    taken: dict[str, list[float]] = {"planned": [], "static": []}
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as folder:
        jobs = {
            "planned": MemoryJob(Path(folder) / "planned", scenario, canonical_form(scenario, document)),
            "static": MemoryJob(Path(folder) / "static", scenario, canonical_form(scenario, scenario.static)),
        }
        for at, arrived in enumerate(events):
            for way in sorted(jobs, reverse=at % 2 == 1):
                begun = time.process_time()
                jobs[way].run(arrived)
                taken[way].append(time.process_time() - begun)
    return {way: each[_WARM:] for way, each in taken.items()}
