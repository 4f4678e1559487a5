"""A wave of events through a dataflow on real Spark: how much is worked off, how well, and at which cost.

The dataflow adapts by each way to choose among its alternates. Of a wave there are Omega over time, values, and the
events that were lost or doubled.
"""

import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.documents import row_document
from benchmarks.instruments import Figures, awaited
from benchmarks.manager_test_bed import attended_service
from benchmarks.reconfiguration.installation import work_of
from benchmarks.reconfiguration.running_workflow import SteadyEvents
from braid_client.answers.overview import OperationKind
from engine.host.cpu_meter import WORKER
from workloads.replay.player import cores_between

NONE, THRESHOLDS, BRAID = "none", "thresholds", "braid"
CONTENDERS = (NONE, THRESHOLDS, BRAID)
LOWEST, HIGHEST = 20.0, 200.0
"""Events a second in the trough and on the crest of the wave."""


class Quality(NamedTuple):
    """An alternate: how good it is, and what an event costs."""

    name: str
    value: float
    milliseconds: float


QUALITIES = (Quality("best", 1.0, 10.0), Quality("good", 0.8, 5.0), Quality("rough", 0.4, 1.0))
"""A core takes the best up to half of the wave, the good one nearly to the crest. Their order is their generation."""


def works() -> Mapping[str, int]:
    """The work of each alternate, as fast as this machine is now."""
    turns = work_of(1_000.0) / 1_000
    return {quality.name: round(turns * quality.milliseconds) for quality in QUALITIES}


def document(way: str, work: Mapping[str, int]) -> Figures:
    """The dataflow: with the best alternate only, by thresholds of the rate, or as Braid decides by costs."""
    alternates = [
        {
            "name": quality.name,
            "type": "bench:step",
            "config": {"work": work[quality.name], "generation": number},
            "value": quality.value,
            "cost": quality.milliseconds * 1_000,
        }
        for number, quality in enumerate(QUALITIES)
    ]
    best = {"type": "bench:step", "config": alternates[0]["config"]}
    task: Figures = best if way == NONE else {"alternates": alternates}
    policies: dict[str, Figures] = {
        NONE: {},
        THRESHOLDS: {"policy": {"rules": _thresholds()}},
        BRAID: {"policy": {}},
    }
    return row_document(way, SteadyEvents.TOPIC, {"work": task}, **policies[way])


def _thresholds() -> list[Figures]:
    """Rates at which an alternate takes nine tenths of a core, less a tenth as a gap.

    Rules fix one alternate at a time, so nothing is left to decide by costs.
    """
    most = [900 / quality.milliseconds for quality in QUALITIES]
    return [
        {
            "name": "crest",
            "activate": {"metric": "rate", "above": most[1]},
            "deactivate": {"metric": "rate", "below": most[1] * 0.85},
            "choose": {"work": "rough"},
        },
        {
            "name": "slope",
            "activate": {"metric": "rate", "above": most[0]},
            "deactivate": {"metric": "rate", "below": most[0] * 0.85},
            "choose": {"work": "good"},
        },
        {"name": "trough", "activate": {"metric": "rate", "below": most[0] * 2}, "choose": {"work": "best"}},
    ]


TARGET = 0.8 - 0.05
"""The share that a policy asks for by default, less its tolerance."""
_WINDOW = 5.0
"""Seconds that a figure of Omega covers."""
_GRACE = 2.0
"""Seconds that an event may take in any case: two paces."""
_SHOWN = 5
"""Of Omega, the figure of every fifth second is shown."""


def outcome(left: Sequence[tuple[float, Mapping[str, Any]]], sent: Sequence[float], begun: float, seconds: int) -> Any:
    """The figures, from when each event left and was sent, the latter by number."""
    at = {event["n"]: when for when, event in left}
    omegas = [_omega(sent, at, begun + second) for second in range(1, seconds + 1)]
    values = [QUALITIES[event["generation"]].value for _, event in left]
    return {
        "below_target_s": sum(omega < TARGET for omega in omegas),
        "omega_mean": round(sum(omegas) / len(omegas), 3),
        "omega": [round(omega, 2) for omega in omegas[_SHOWN - 1 :: _SHOWN]],
        "value_mean": round(sum(values) / len(values), 3),
        "latency_worst_s": round(max(when - sent[number] for number, when in at.items()), 1),
        "events": len(sent),
        "lost": len(sent) - len(at),
        "doubled": len(left) - len(at),
    }


def _omega(sent: Sequence[float], left: Mapping[int, float], now: float) -> float:
    """The share of what was due in the seconds before now that has left: what came, and what had waited before."""
    last = bisect_right(sent, now - _GRACE)
    due = [left.get(number, float("inf")) for number in range(last)]
    waiting = [at for at in due if at > now - _WINDOW]
    return bisect_left(sorted(waiting), now) / len(waiting) if waiting else 1.0


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
