"""What a reconciler has done and found since it was started, for whoever watches it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerActivity:
    """Made by the reconciler whenever somebody asks."""

    connected: bool
    """Whether the broker is there, and all that it had kept has come."""
    unread: int
    """Messages over it that nobody could read."""
    looks: int
    failures: int
    """Looks that failed."""
    steps: Mapping[str, int]
    """What hosts were told to do, by what it was."""
    turns: Mapping[str, int]
    """What happened to moves, by what it was."""
    dataflows: Mapping[str, int]
    """How many dataflows are in each state of their life, as of the last look."""
