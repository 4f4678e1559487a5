"""A reconfiguration in one job: from the request to the first event of the new config, and what that is made of."""

import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.documents import row_document
from benchmarks.instruments import Figures, percentiles
from benchmarks.manager_test_bed import MeasuredService, attended_service
from benchmarks.reconfiguration.running_workflow import SteadyEvents, settled
from braid_client import Client
from braid_client.answers.reconfigurations import ReconfigurationForm

_PER_SECOND = 100.0


def one_job(folder: Path, pace: float, times: int) -> Figures:
    """Milliseconds, at one pace."""
    with attended_service(folder, pace=pace) as (service, ann, operator):
        sending = SteadyEvents(service, _PER_SECOND)
        flow = sending.begin(ann, document("one", "bench:step", {"generation": 0}))
        samples = _samples(service, ann, operator, flow.id, flow.outputs[0].topic, pace, times)
        sending.stop()
    delays = [sample["first event"] for sample in samples]
    return {
        **percentiles(delays),
        "samples": len(delays),
        "parts_p50": {name: round(statistics.median(sample[name] for sample in samples)) for name in samples[0]},
        "slowest": max(samples, key=lambda sample: sample["first event"]),
    }


def _samples(  # noqa: PLR0913, PLR0917 - the service with its two clients, and what runs there
    service: MeasuredService, ann: Client, operator: Client, flow: str, topic: str, pace: float, times: int
) -> Sequence[dict[str, int]]:
    draw = random.Random(1)
    samples = []
    for generation in range(1, times + 1):
        time.sleep(draw.uniform(0.0, pace))
        (job,) = operator.jobs()
        plan = job.job, job.version + 1
        begun = time.perf_counter()
        answer = ann.reconfigure(flow, ReconfigurationForm(tasks={"task": {"config": {"generation": generation}}}))
        marks = {"answered": time.perf_counter(), "first event": _first(service, topic, generation)}
        marks |= {"published": service.published[plan], "in effect": service.in_effect.get(plan, marks["first event"])}
        ordered = sorted(marks.items(), key=lambda mark: mark[1])
        samples.append({name: round((at - begun) * 1_000) for name, at in ordered})
        settled(ann, flow, answer.id)
    return samples


def _first(service: MeasuredService, topic: str, generation: int) -> float:
    def look() -> float | None:
        return next((at for at, event in list(service.events[topic]) if event["generation"] == generation), None)

    return service.wait(look, "an event of the new config")


def document(name: str, kind: str, config: Figures) -> Figures:
    """One task between the steady events and an output."""
    return row_document(name, SteadyEvents.TOPIC, {"task": {"type": kind, "config": config}})
