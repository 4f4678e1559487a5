"""Workloads whose tasks need tags at random, and what the service would decide for them by `pack` and by `plan`."""

import random
import statistics
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from benchmarks.instruments import extremes
from dags import Dataflow
from merge import BATCH_SECONDS, Conditions, Host, Jobs, RunningGraph, Submit, decide
from merge.consolidation.defragmentation import forwarded
from merge.placement.planned import ASSUMED_BRIDGE
from workloads.replay.dry_replay import checked_dataflows
from workloads.workload import Workload

IMAGES: Mapping[str, frozenset[str]] = {"red": frozenset({"t1", "t2"}), "blue": frozenset({"t2", "t3"})}
"""The tags that hosts offer, by the names of their images."""
COMPARED = ("pack", "plan")
_TAGGED = 0.25
_TAGS = ("t1", "t2", "t3")


def tagged(workload: Workload, seed: int, most: int | None = None) -> Workload:
    """The first dataflows of a workload, in which a quarter of the tasks needs a tag."""
    dataflows = {}
    for name, document in islice(workload.dataflows.items(), most):
        draw = random.Random(f"{seed} {name}")
        tasks = [
            {**task, "tags": [draw.choice(_TAGS)]}
            if draw.random() < _TAGGED and task["type"] not in {"source", "output"}
            else task
            for task in document["tasks"]
        ]
        dataflows[name] = {**document, "tasks": tasks}
    return replace(workload, dataflows=dataflows)


_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def decided(workload: Workload, draws: int) -> Mapping[str, Any]:
    """Jobs, bridges and cores of a workload, in the mean over draws of tags, and the cores of plan against pack."""
    counted: dict[str, list[tuple[int, int]]] = {strategy: [] for strategy in COMPARED}
    for seed in range(1, draws + 1):
        drawn = tagged(workload, seed).dataflows
        by_name = checked_dataflows(replace(workload, dataflows=drawn), drawn, "reuse")
        dataflows = [by_name[name] for name in drawn]
        for strategy in COMPARED:
            counted[strategy].append(_counted(dataflows, strategy))
    cores = {
        strategy: [jobs * BATCH_SECONDS + bridges * ASSUMED_BRIDGE for jobs, bridges in counts]
        for strategy, counts in counted.items()
    }
    ratios = [plan / pack for pack, plan in zip(*(cores[strategy] for strategy in COMPARED), strict=True)]
    return {
        "workload": workload.name,
        "dataflows": len(workload.dataflows),
        "draws": draws,
        **{
            strategy: {
                "jobs": round(statistics.mean(jobs for jobs, _ in counts), 1),
                "bridges": round(statistics.mean(bridges for _, bridges in counts), 1),
            }
            for strategy, counts in counted.items()
        },
        "modelled_cores_ratio": extremes(ratios, 3),
    }


def _counted(dataflows: list[Dataflow], strategy: str) -> tuple[int, int]:
    """The jobs and bridges once all dataflows are submitted, one after the other."""
    hosts = tuple(Host(name=name, cores=2.0, tags=frozenset(tags)) for name, tags in IMAGES.items())
    conditions = Conditions(now=_NOW, hosts=hosts, strategy=strategy)
    running, jobs = RunningGraph(), Jobs()
    for dataflow in dataflows:
        step = decide(running, jobs, Submit(dataflow=dataflow), conditions)
        running.advance(step.change)
        jobs = step.jobs
    return len(jobs.jobs), len(forwarded(running, jobs))
