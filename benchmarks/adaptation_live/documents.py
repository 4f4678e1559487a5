"""The dataflow that adapts, for each way to choose among its alternates."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.reconfiguration.installation import work_of
from benchmarks.reconfiguration.steady_events import SteadyEvents

Found = dict[str, Any]
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
    return {each.name: round(turns * each.milliseconds) for each in QUALITIES}


def document(way: str, work: Mapping[str, int]) -> Found:
    """The dataflow: with the best alternate only, by thresholds of the rate, or as Braid decides by costs."""
    alternates = [
        {
            "name": each.name,
            "type": "bench:step",
            "config": {"work": work[each.name], "generation": number},
            "value": each.value,
            "cost": each.milliseconds * 1_000,
        }
        for number, each in enumerate(QUALITIES)
    ]
    best = {"type": "bench:step", "config": alternates[0]["config"]}
    found: Found = {
        "version": 1,
        "name": way,
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": SteadyEvents.TOPIC}},
            {"id": "work", **(best if way == NONE else {"alternates": alternates})},
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "work"}, {"from": "work", "to": "out"}],
    }
    if way == THRESHOLDS:
        found["policy"] = {"rules": _thresholds()}
    elif way == BRAID:
        found["policy"] = {}
    return found


def _thresholds() -> list[Found]:
    """Rates at which an alternate takes nine tenths of a core, less a tenth as a gap.

    Rules fix one alternate at a time, so nothing is left to decide by costs.
    """
    most = [900 / each.milliseconds for each in QUALITIES]
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
