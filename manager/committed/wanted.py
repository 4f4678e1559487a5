"""The wanted jobs, drains, moves and reconfigurations: the committed state as the reconciler sees it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from engine.plan import Plan
from manager.transitions.move import Move
from manager.transitions.reconfiguration import Reconfiguration
from merge import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJob:
    """A job as it shall be; made by the committer."""

    job: str
    host: str
    plan: Plan | None
    """None: it shall be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """A dataflow that shall be removed once what its sources have sent is worked off; made by the committer."""

    dataflow: str
    since: float
    """When that was asked for, in seconds since 1970."""
    streams: frozenset[str]
    """The raw streams of the running DAGs that it is in, and of those that hang together with them."""
    instances: frozenset[int]
    """Its tasks, but for sources, which have nothing to work off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """A move with all that decides how it goes on; made by the committer."""

    move: Move
    plans: Mapping[JobId, Plan]
    """The newest plans of the jobs that it is about."""
    streams: frozenset[str]
    """The raw streams of what moves."""


class SentStream(NamedTuple):
    """A stream between two jobs, and the job that sends it."""

    stream: str
    by: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedJob:
    """A job that events of some sources reach; made by `reached_jobs`."""

    job: JobId
    version: int
    """The version of its newest plan."""
    raw: frozenset[str] = frozenset()
    """The streams of these sources that it reads."""
    bridges: frozenset[SentStream] = frozenset()
    """What it reads of others that these events reach."""

    @property
    def streams(self) -> frozenset[str]:
        """The streams over which the events come."""
        return self.raw | {each.stream for each in self.bridges}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguring:
    """A reconfiguration with all that decides how it goes on; made by the committer."""

    reconfiguration: Reconfiguration
    plans: Mapping[JobId, Plan]
    """The newest plans of the jobs that switch."""
    streams: frozenset[str]
    """The raw streams that carry its marker."""
    below: frozenset[JobId]
    """The jobs of what it changed and of all below it."""
    waits: bool = False
    """Whether another transition is still in the way of one that waits."""
    reached: tuple[ReachedJob, ...] = ()
    """All jobs that events of its sources reach, each after those that it reads; known once it has switched."""
    is_held: bool = False
    """Whether others are about to change what these jobs read."""


class Wanting(Protocol):
    """A source of wanted jobs; the committer, or a test."""

    def wanted(self) -> Mapping[str, WantedJob]:
        """Every job that shall run, and every one that was stopped until its host has confirmed it."""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have a listener called after each commit; from any thread."""
