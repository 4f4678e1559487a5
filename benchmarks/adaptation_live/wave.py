"""A wave of events through a dataflow on real Spark: how much is worked off, how well, and at which cost."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.adaptation_live.documents import HIGHEST, LOWEST, document
from benchmarks.adaptation_live.outcome import outcome
from benchmarks.manager_test_bed import MeasuredService, serving
from benchmarks.reconfiguration.running_workflow import wait_until_runs
from benchmarks.reconfiguration.steady_events import SteadyEvents
from engine.host.cpu_meter import WORKER
from manager.answers.overview import OperationKind
from manager.client import Client
from workloads.replay.measurement import cores_between

Found = dict[str, Any]
_BOUND = 400.0
"""Seconds within which all events must have left; with the best alternate alone most of them wait."""


def wave(folder: Path, way: str, work: Mapping[str, int], seconds: int) -> Found:
    """One wave, from its trough over the crest to the trough, by one way to choose.

    The core-seconds are all of the service's until the last event has left, and those of the Python workers alone.
    """
    with serving(folder) as service:
        service.start()
        service.listen()
        service.events = {}
        with Client(service.url, service.admit("ann")) as ann, service.operator() as operator:
            sending = SteadyEvents(service, LOWEST)
            sending.register(ann)
            flow = ann.submit(document(way, work))
            wait_until_runs(ann, flow.id)
            sending.start()
            service.first_output(flow.outputs[0].topic)
            before, started, begun = service.reading(), time.time(), time.perf_counter()
            while (passed := time.perf_counter() - begun) < seconds:
                sending.per_second = _rate(passed / seconds)
                time.sleep(0.2)
            sending.stop()
            left = _all(service, len(sending.sent))
            after = service.reading()
            journal = list(operator.operations(kind=OperationKind.ADAPT))
        spent = {part: cores * (after.at - before.at) for part, cores in cores_between(before, after).items()}
        return {
            **outcome(left, sending.sent, begun, seconds),
            "core_s": round(sum(spent.values()), 1),
            "core_s_workers": round(spent[WORKER], 1),
            "drained_s": round(left[-1][0] - begun - seconds, 1),
            "switches": {round(each.at.timestamp() - started): each.note for each in reversed(journal)},
        }


def _all(service: MeasuredService, many: int) -> list[tuple[float, Found]]:
    """When each event left, once all have."""
    until = time.monotonic() + _BOUND
    while True:
        came = [each for every in list((service.events or {}).values()) for each in list(every)]
        if sum(len(events) for _, events in came) >= many:
            return [(at, event) for at, events in came for event in events]
        if time.monotonic() > until:
            raise TimeoutError(f"not within {_BOUND:g} s: all events to have left")
        time.sleep(0.5)


def _rate(share: float) -> float:
    """Events a second after a share of the wave."""
    return LOWEST + (HIGHEST - LOWEST) * (1 - math.cos(2 * math.pi * share)) / 2
