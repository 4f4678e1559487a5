"""The calibration of the second part: the cost of an event on this machine, and the rates that follow from it."""

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median

from engine.trial import try_out
from manager.costs.measured import ASSUMED
from workloads.evidence.uniform_tasks import UNIFORM_ITERATIONS
from workloads.evidence.work_plan import Tempo
from workloads.results import StepRow

CORES = 1.35
"""The cores that default should take at its peak: between 1.2 and 1.5 of two."""
_PACE = 20.0
"""Approximate seconds between two batches. Each of the many jobs runs a batch in every pace, whatever sharing saves:
at 10 s the batches took a sixth of the cores of launched dataflows, and hid five points of the saved work."""
_AT_ONCE, _TIMES = 8, 15
"""Events of a batch, and the number of batches: at most a second in total."""


def event_seconds(iterations: int = UNIFORM_ITERATIONS) -> float:
    """Measure the CPU seconds of an event at a task, on two cores at once, as jobs use them."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as both:
        return median([*both.map(_event_seconds, [iterations] * 2)])


def tempo_of(default: Sequence[StepRow], seconds: float) -> Tempo:
    """The tempo at which a trace takes `CORES` at its peak; `default` has its counts at one event a second.

    An event takes `seconds` of CPU at every step. The cores of batches and of the host are subtracted.
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
