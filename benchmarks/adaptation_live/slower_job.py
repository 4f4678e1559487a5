"""A job that beats slower: the cores of a light dataflow before and after, and how long its events take."""

import time
from pathlib import Path

from benchmarks.documents import row_document
from benchmarks.instruments import Figures, awaited, percentiles
from benchmarks.manager_test_bed import attended_service
from benchmarks.reconfiguration.running_workflow import SteadyEvents
from braid_client.answers.overview import OperationKind

_PER_SECOND = 10.0
_LATENCY = 10.0
"""Seconds that the policy allows."""
_BOUND = 240.0
"""Seconds within which the pace has to change. It must have been right for a minute first."""


def slower_job(folder: Path, *, seconds: float) -> Figures:
    """Cores of broker, host, JVM and workers, for so long before and after the change."""
    task = {"type": "bench:step", "config": {}}
    document = row_document("light", SteadyEvents.TOPIC, {"task": task}, policy={"latency": _LATENCY})
    with attended_service(folder, settings={"BRAID_AUTOSCALE": "on"}) as (service, ann, operator):
        sending = SteadyEvents(service, _PER_SECOND)
        sending.begin(ann, document)
        (job,) = operator.jobs()
        begun = time.perf_counter()
        before = service.cores(seconds)
        plan = job.job, job.version + 1
        changed = awaited(lambda: service.in_effect.get(plan), "another pace of the job", within=_BOUND, every=0.2)
        after = service.cores(seconds)
        ended = time.perf_counter()
        sending.stop()
        why = next(operator.operations(kind=OperationKind.REPACE)).note
        came = [(at, sending.sent[event["n"]]) for at, event in service.came()]
    slow = [at - sent for at, sent in came if changed < sent and at < ended]
    quick = [at - sent for at, sent in came if begun < at < changed]
    return {
        "cores_before": before,
        "cores_after": after,
        "ratio": round(after / before, 2),
        "bound_s": _LATENCY,
        "latency_before_s": percentiles(quick, 2) | {"max": round(max(quick), 2)},
        "latency_after_s": percentiles(slow, 2) | {"max": round(max(slow), 2)},
        "why": why,
    }
