"""Calibrating the second part: what an event costs on this machine, and at which rates default takes what it should."""

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

from engine.trial import try_out
from manager.defragmentation.calibration import ASSUMED
from workloads.evidence.uniform_tasks import UNIFORM_ITERATIONS
from workloads.evidence.work_plan import Tempo
from workloads.results import StepRow

CORES = 1.35
"""What default is to take at its peak: between 1.2 and 1.5 of two cores."""
_PACE = 20.0
"""Seconds between two batches, about. Each of the many jobs runs one in every pace, whatever sharing saves: at 10 s
these were a sixth of the cores of what is launched, and hid five points of the work that sharing saved."""
_AT_ONCE, _TIMES = 8, 15
"""Events of a batch, and how many batches: a second or less in all."""


def event_seconds(iterations: int = UNIFORM_ITERATIONS) -> float:
    """The CPU seconds that an event costs a task here; measured on two cores at once, as jobs will use them."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as both:
        return median([*both.map(_event_seconds, [iterations] * 2)])


def tempo_of(default: Sequence[StepRow], seconds: float) -> Tempo:
    """The tempo at which a trace takes `CORES` at its peak, by what runs in default with one event a second each.

    An event costs so many seconds at every step. What batches and the host take is left to them.
    """
    peak = max(default, key=lambda row: row.work_running)
    left = CORES - ASSUMED.host - peak.jobs * ASSUMED.batch / _PACE
    rate = left / (peak.work_running * seconds)
    events = max(1, round(rate * _PACE))
    pace = round(events / rate, 2)
    return Tempo(rate=round(events / pace, 6), pace=pace)


def _event_seconds(iterations: int) -> float:
    events = [{"value": float(number)} for number in range(_AT_ONCE)]
    found = []
    for _ in range(_TIMES):
        begun = time.process_time()
        try_out("pi_viete", {"iterations": iterations}, events)
        found.append((time.process_time() - begun) / len(events))
    return median(found)
