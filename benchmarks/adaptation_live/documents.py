"""The dataflow that adapts, for each way to choose among its alternates."""

from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.documents import row_document
from benchmarks.instruments import Figures
from benchmarks.reconfiguration.installation import work_of
from benchmarks.reconfiguration.steady_events import SteadyEvents

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
