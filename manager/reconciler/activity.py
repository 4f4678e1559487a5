"""The activity of a reconciler since its start, for metrics and the overview."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerActivity:
    """Counts of a reconciler's work; made by the reconciler on demand."""

    connected: bool
    """The broker is connected, and all its retained messages have arrived."""
    unread: int
    """Messages that could not be read."""
    looks: int
    failures: int
    """Looks that failed."""
    steps: Mapping[str, int]
    """Instructions sent to hosts, by kind."""
    turns: Mapping[str, int]
    """Events in the life of moves, by kind."""
    reconfigurations: Mapping[str, int]
    """Events in the life of reconfigurations, by kind."""
    reconfiguration_seconds: float
    """Seconds from the requests of reconfigurations until all their jobs had switched, in sum."""
    dataflows: Mapping[str, int]
    """Dataflows in each state, as of the last look."""
