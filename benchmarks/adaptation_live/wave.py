"""A wave of events through a dataflow on real Spark: how much is worked off, how well, and at which cost."""

import math
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.adaptation_live.documents import HIGHEST, LOWEST, document
from benchmarks.adaptation_live.outcome import outcome
from benchmarks.instruments import Figures, awaited
from benchmarks.manager_test_bed import attended_service
from benchmarks.reconfiguration.steady_events import SteadyEvents
from engine.host.cpu_meter import WORKER
from manager.answers.overview import OperationKind
from workloads.replay.measurement import cores_between

_BOUND = 400.0
"""Seconds within which all events must have left; with the best alternate alone most of them wait."""


def wave(folder: Path, way: str, work: Mapping[str, int], seconds: int) -> Figures:
    """One wave, from its trough over the crest to the trough, by one way to choose.

    The core-seconds are all of the service's until the last event has left, and those of the Python workers alone.
    """
    with attended_service(folder) as (service, ann, operator):
        sending = SteadyEvents(service, LOWEST)
        sending.begin(ann, document(way, work))
        before, started, begun = service.reading(), time.time(), time.perf_counter()
        while (passed := time.perf_counter() - begun) < seconds:
            sending.per_second = _rate(passed / seconds)
            time.sleep(0.2)
        sending.stop()
        awaited(lambda: len(service.came()) >= len(sending.sent), "all events to have left", within=_BOUND, every=0.5)
        left = service.came()
        after = service.reading()
        journal = list(operator.operations(kind=OperationKind.ADAPT))
    spent = {part: cores * (after.at - before.at) for part, cores in cores_between(before, after).items()}
    return {
        **outcome(left, sending.sent, begun, seconds),
        "core_s": round(sum(spent.values()), 1),
        "core_s_workers": round(spent[WORKER], 1),
        "drained_s": round(left[-1][0] - begun - seconds, 1),
        "switches": {round(entry.at.timestamp() - started): entry.note for entry in reversed(journal)},
    }


def _rate(share: float) -> float:
    return LOWEST + (HIGHEST - LOWEST) * (1 - math.cos(2 * math.pi * share)) / 2
