"""The manager's view of hosts, jobs and machines at one moment, and when one that is silent counts as away.

A host or machine announces its end by a last will at the broker, but a broker that was killed delivers none. So one
that was not heard for a while counts as away, too. Several processes may report under one machine's name, each with a
key of its own: one that came back with an empty disk, or one that has no right to the name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from engine.job.lifecycle import JobState
from engine.plan import Port
from manager.observations.messages import PlanWiring
from manager.observations.reports import HostSeen, JobSeen, MachineStatus, read_machine_status

MACHINE_SILENT_AFTER = 12.0
"""Seconds of silence after which a machine counts as lost; a live one reports at least every five."""
_MOST_CLAIMS = 8
"""Keys under one name that are remembered."""


class MachineSights:
    """The machines as the listener hears them; guarded by its lock."""

    def __init__(self) -> None:
        self.carriers: dict[str, bytes] = {}
        """The message that was retained for each host over this connection."""
        self._latest: dict[str, dict[str, MachineStatus]] = {}
        """By name and key, in the order in which they were heard."""
        self._heard_at: dict[tuple[str, str], float] = {}

    def take_status(self, machine: str, payload: bytes, now: float) -> bool:
        """Keep the status of a machine, or forget one that is gone; true if it is news. Raises ValueError."""
        if not payload:
            return self._latest.pop(machine, None) is not None
        status = read_machine_status(machine, payload)
        claims = self._latest.setdefault(machine, {})
        before = claims.pop(status.key, None)
        if not status.seen.alive and before is not None:
            # A last will says nothing else.
            status = replace(before, seen=replace(before.seen, alive=False))
        claims[status.key], self._heard_at[machine, status.key] = status, now
        if len(claims) > _MOST_CLAIMS:
            dropped = min(claims, key=lambda key: claims[key].seen.alive)
            del claims[dropped], self._heard_at[machine, dropped]
        return before is None or _news_of(before) != _news_of(status)

    def take_carrier(self, host: str, payload: bytes) -> None:
        """Keep what is retained on who carries a host."""
        if payload:
            self.carriers[host] = payload
        else:
            self.carriers.pop(host, None)

    def seen(self, connected_at: float | None, now: float) -> Mapping[str, tuple[MachineStatus, ...]]:
        """The latest statuses under each name: those that are alive first, and of these the one that was heard last.

        Machines that were silent for too long while the broker was connected are not alive.
        """
        seen = {}
        for name, claims in self._latest.items():
            heard = [self._with_silence(name, status, connected_at, now) for status in reversed(claims.values())]
            seen[name] = tuple(sorted(heard, key=lambda status: not status.seen.alive))
        return seen

    def _with_silence(self, name: str, status: MachineStatus, connected_at: float | None, now: float) -> MachineStatus:
        if connected_at is None or now - max(self._heard_at[name, status.key], connected_at) <= MACHINE_SILENT_AFTER:
            return status
        return replace(status, seen=replace(status.seen, alive=False))


def _news_of(status: MachineStatus) -> MachineStatus:
    """The part of a status whose change is news. What peers do not have yet changes all the time."""
    hosts = {host: replace(report, behind_bytes=0, troubles={}) for host, report in status.seen.hosts.items()}
    return replace(status, seen=replace(status.seen, hosts=hosts, full="full" if status.seen.full else ""))


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
        return next((wiring for wiring in self.wirings if wiring.key == (self.seen.term, self.seen.version)), None)

    @property
    def may_send(self) -> frozenset[Port]:
        """The streams between jobs that it sends, or may soon send under a plan that is on its way."""
        since = self.seen.in_effect if self.seen else 0
        coming = (wiring.forwards for wiring in self.wirings if wiring.version >= since)
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
    """All that report under each name, the likeliest first; see `manager.machines.admission`."""
    carriers: Mapping[str, bytes] = field(default_factory=dict)
    """The message that the broker retains on who carries each host."""
    ends: Mapping[tuple[str, str], SpoolEnd] = field(default_factory=dict)
    """For hosts and streams the last answer of the host to a question of this manager."""


def news_of(seen: JobSeen | None) -> object:
    """The part of a job's status whose change is news. Batches and counters change all the time, so they are not."""
    if seen is None:
        return None
    return _NEWS(seen), tuple(sorted(seen.failed.items())), tuple(sorted(seen.cuts.items()))


_NEWS = attrgetter("host", "state", "trouble", "back_off", "term", "version", "in_effect", "leaving", "refused")


HOST_SILENT_AFTER = 30.0
"""Seconds of silence after which a host counts as away; a live one reports every five."""


def away_if_silent(host: HostSeen, *, heard_at: float, connected_at: float | None, now: float) -> HostSeen:
    """The host, marked as not alive if it was silent for too long while the broker was connected."""
    if not host.alive or connected_at is None:
        return host
    silence = now - max(heard_at, connected_at)
    return replace(host, alive=False) if silence > HOST_SILENT_AFTER else host
