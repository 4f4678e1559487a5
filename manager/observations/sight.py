"""The manager's view of hosts and jobs at one moment, assembled by the listener from their messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.job.lifecycle import JobState
from engine.plan import Port
from manager.observations.host_messages import PlanWiring
from manager.observations.machine_messages import MachineStatus
from manager.observations.reports import HostSeen, JobSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSight:
    """Everything known of one job."""

    seen: JobSeen | None = None
    """The latest status from its host; None if there was none."""
    planned: PlanWiring | None = None
    """The plan that the broker retains for it."""
    wirings: tuple[PlanWiring, ...] = ()
    """The latest plans published for it."""
    unconfirmed: frozenset[Port] = frozenset()
    """The streams that it forwards, or whose end its consumer has not confirmed."""
    transitions: tuple[JobSeen, ...] = ()
    """Its status on entering each of its latest states."""
    transition_count: int = 0
    """The number of all state changes, including those no longer kept."""

    @property
    def taken_up(self) -> PlanWiring | None:
        """The wiring of the plan that the job has logged, if it is known; None for a stopped job."""
        if self.seen is None or self.seen.state == JobState.STOPPED:
            return None
        return next((each for each in self.wirings if each.key == (self.seen.term, self.seen.version)), None)

    @property
    def may_send(self) -> frozenset[Port]:
        """The streams between jobs that it sends, or may soon send under a plan that is on its way."""
        since = self.seen.in_effect if self.seen else 0
        coming = (each.forwards for each in self.wirings if each.version >= since)
        return self.unconfirmed.union(*coming)

    @property
    def news(self) -> object:
        """The part whose change is news."""
        return self.unconfirmed, self.planned, news_of(self.seen)


class SpoolEnd(NamedTuple):
    """The end of a spool, as a host answered it."""

    question: int
    """The number of the question, which had come before the host looked."""
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Everything known of all machines, hosts and jobs."""

    complete: bool
    """The broker is connected, and all its retained messages have arrived."""
    connection: int = 0
    """The number of connections so far."""
    jobs: Mapping[str, JobSight] = field(default_factory=dict)
    hosts: Mapping[str, HostSeen] = field(default_factory=dict)
    machines: Mapping[str, tuple[MachineStatus, ...]] = field(default_factory=dict)
    """All that report under each name, the likeliest first; see `manager.carriages.admission`."""
    carriers: Mapping[str, bytes] = field(default_factory=dict)
    """The message that the broker retains on who carries each host."""
    ends: Mapping[tuple[str, str], SpoolEnd] = field(default_factory=dict)
    """For hosts and streams the last answer of the host to a question of this manager."""


def news_of(seen: JobSeen | None) -> object:
    """The part of a job's status whose change is news. Batches and counters change all the time, so they are not."""
    if seen is None:
        return None
    scalars = (
        seen.host,
        seen.state,
        seen.trouble,
        seen.back_off,
        seen.term,
        seen.version,
        seen.in_effect,
        seen.refused,
    )
    return *scalars, tuple(sorted(seen.failed.items())), tuple(sorted(seen.cuts.items()))
