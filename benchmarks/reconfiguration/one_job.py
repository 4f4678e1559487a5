"""A reconfiguration in one job: from the request to the first event of the new config, and what that is made of."""

import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.manager_test_bed import MeasuredService, serving
from benchmarks.reconfiguration.running_workflow import settled, wait_until_runs
from benchmarks.reconfiguration.steady_events import SteadyEvents
from manager.answers.reconfigurations import ReconfigurationForm
from manager.client import Client

Found = dict[str, Any]
_PER_SECOND = 100.0


def one_job(folder: Path, pace: float, times: int) -> Found:
    """Milliseconds, at one pace."""
    with serving(folder, pace=pace) as service:
        service.start()
        service.listen()
        service.events = {}
        with Client(service.url, service.admit("ann")) as ann, service.operator() as operator:
            sending = SteadyEvents(service, _PER_SECOND)
            sending.register(ann)
            flow = ann.submit(document("one", "bench:step", {"generation": 0}))
            wait_until_runs(ann, flow.id)
            sending.start()
            service.first_output(flow.outputs[0].topic)
            samples = _samples(service, ann, operator, flow.id, flow.outputs[0].topic, pace, times)
            sending.stop()
    delays = [each["first event"] for each in samples]
    return {
        "p50": round(statistics.median(delays)),
        "p99": round(statistics.quantiles(delays, n=100)[98]),
        "samples": len(delays),
        "parts_p50": {name: round(statistics.median(each[name] for each in samples)) for name in samples[0]},
        "slowest": max(samples, key=lambda each: each["first event"]),
    }


def _samples(  # noqa: PLR0913, PLR0917 - the service with its two clients, and what runs there
    service: MeasuredService, ann: Client, operator: Client, flow: str, topic: str, pace: float, times: int
) -> Sequence[dict[str, int]]:
    draw = random.Random(1)
    found = []
    for generation in range(1, times + 1):
        time.sleep(draw.uniform(0.0, pace))
        (job,) = operator.jobs()
        plan = job.job, job.version + 1
        begun = time.perf_counter()
        answer = ann.reconfigure(flow, ReconfigurationForm(tasks={"task": {"config": {"generation": generation}}}))
        marks = {"answered": time.perf_counter(), "first event": _first(service, topic, generation)}
        marks |= {"published": service.published[plan], "in effect": service.in_effect.get(plan, marks["first event"])}
        ordered = sorted(marks.items(), key=lambda each: each[1])
        found.append({name: round((at - begun) * 1_000) for name, at in ordered})
        settled(ann, flow, answer.id)
    return found


def _first(service: MeasuredService, topic: str, generation: int) -> float:
    def found() -> float | None:
        came = (service.events or {}).get(topic, ())
        return next((at for at, events in came if any(each["generation"] == generation for each in events)), None)

    return service.wait(found, "an event of the new config")


def document(name: str, kind: str, config: Found) -> Found:
    """One task between the steady events and an output."""
    return {
        "version": 1,
        "name": name,
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": SteadyEvents.TOPIC}},
            {"id": "task", "type": kind, "config": config},
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "task"}, {"from": "task", "to": "out"}],
    }
