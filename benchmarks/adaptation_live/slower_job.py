"""A job that beats slower: the cores of a light dataflow before and after, and how long its events take."""

import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.manager_test_bed import serving
from benchmarks.reconfiguration.running_workflow import wait_until_runs
from benchmarks.reconfiguration.steady_events import SteadyEvents
from manager.answers.overview import OperationKind
from manager.client import Client

Found = dict[str, Any]
_PER_SECOND = 10.0
_LATENCY = 10.0
"""Seconds that the policy allows."""
_BOUND = 240.0
"""Seconds within which the pace has to change. It must have been right for a minute first."""


def slower_job(folder: Path, *, seconds: float) -> Found:
    """Cores of broker, host, JVM and workers, for so long before and after the change."""
    with serving(folder, settings={"BRAID_AUTOSCALE": "on"}) as service:
        service.start()
        service.listen()
        service.events = {}
        with Client(service.url, service.admit("ann")) as ann, service.operator() as operator:
            sending = SteadyEvents(service, _PER_SECOND)
            sending.register(ann)
            flow = ann.submit(_document())
            wait_until_runs(ann, flow.id)
            sending.start()
            service.first_output(flow.outputs[0].topic)
            (job,) = operator.jobs()
            begun = time.perf_counter()
            cores = [service.cores(seconds)]
            plan = job.job, job.version + 1
            changed = _awaited(service.in_effect, plan)
            cores.append(service.cores(seconds))
            ended = time.perf_counter()
            sending.stop()
            why = next(operator.operations(kind=OperationKind.REPACE)).note
        came = [(at, event["n"]) for each in service.events.values() for at, events in each for event in events]
    slow = [at - sending.sent[number] for at, number in came if changed < sending.sent[number] and at < ended]
    quick = [at - sending.sent[number] for at, number in came if begun < at < changed]
    return {
        "cores_before": cores[0],
        "cores_after": cores[1],
        "ratio": round(cores[1] / cores[0], 2),
        "bound_s": _LATENCY,
        "latency_before_s": _percentiles(quick),
        "latency_after_s": _percentiles(slow),
        "why": why,
    }


def _awaited(in_effect: dict[tuple[str, int], float], plan: tuple[str, int]) -> float:
    until = time.monotonic() + _BOUND
    while plan not in in_effect:
        if time.monotonic() > until:
            raise TimeoutError(f"the job has the same pace after {_BOUND:g} s")
        time.sleep(0.2)
    return in_effect[plan]


def _percentiles(latencies: list[float]) -> Found:
    return {
        "p50": round(statistics.median(latencies), 2),
        "p99": round(statistics.quantiles(latencies, n=100)[98], 2),
        "max": round(max(latencies), 2),
    }


def _document() -> Found:
    return {
        "version": 1,
        "name": "light",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": SteadyEvents.TOPIC}},
            {"id": "task", "type": "bench:step", "config": {}},
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "task"}, {"from": "task", "to": "out"}],
        "policy": {"latency": _LATENCY},
    }
