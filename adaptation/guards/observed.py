"""What is observed of a dataflow at one look."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adaptation.guards.cases import MetricKey


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainEvent:
    """An event that a policy names; made by who reads its output."""

    name: str
    at: float
    """When it came, in seconds since 1970."""
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One look: made by who observes, at most a few a second."""

    now: float
    """Seconds since 1970."""
    metrics: Mapping[MetricKey, float] = field(default_factory=dict)
    """Those that were measured. A bound on one that was not does not hold."""
    events: tuple[DomainEvent, ...] = ()
    """Those that came since the look before."""
