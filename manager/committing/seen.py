"""What was seen of hosts and jobs: what they said last, as whoever listens to them keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """What a host said last of a job; made from its status."""

    job: str
    host: str
    state: str
    trouble: str = ""
    version: int = 0
    """The latest plan that it has logged."""
    term: int = 0
    in_effect: int = 0
    """The plan that its last batch ran."""
    batch: int = -1
    failed: Mapping[int, str] = field(default_factory=dict)
    """For each failed instance the reason."""
    cuts: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """For each cut whose states it keeps the instances that it has passed."""
    refused: str = ""
    """Why its newest plan was refused, if it was."""
    restarts: int = 0
    """How often it was seen to have died since the manager began."""
    metrics: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """For each instance what it has done since its job was started."""
    seen: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeen:
    """What a host said last of itself; made from its status."""

    host: str
    alive: bool
    jobs: tuple[str, ...] = ()
    spools: Mapping[str, str] = field(default_factory=dict)
    dropped: int = 0
    cpu: Mapping[str, float] = field(default_factory=dict)
    seen: datetime


class Seeing(Protocol):
    """Who listens to the hosts; the reconciler, or a test. From any thread."""

    def job(self, job: str) -> JobSeen | None:
        """What was seen last of a job, if anything."""

    def hosts(self) -> tuple[HostSeen, ...]:
        """What was seen last of every host, by name."""
