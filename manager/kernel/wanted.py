"""What is wanted: the committed state as the reconciler sees it, and the jobs that events of a source reach."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import NamedTuple

from engine.plan import Bridged, Plan
from manager.kernel.transitions import Move, Reconfiguration
from merge import Home, Instance, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJob:
    """A job as it shall be."""

    job: str
    host: str
    plan: Plan | None
    """None: it shall be stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """A dataflow that shall be removed once what its sources have sent is worked off."""

    dataflow: str
    since: float
    """When that was asked for, in seconds since 1970."""
    streams: frozenset[str]
    """The raw streams of the running DAGs that it is in, and of those that hang together with them."""
    instances: frozenset[int]
    """Its tasks, but for sources, which have nothing to work off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """A move with all that decides how it goes on."""

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
    """A job that events of some sources reach."""

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
        return self.raw | {bridge.stream for bridge in self.bridges}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfiguring:
    """A reconfiguration with all that decides how it goes on."""

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


class JobStreams:
    """Knows which streams each job reads, and from which job; made for some searches by the same plans."""

    def __init__(self, plans: Mapping[JobId, Plan], homes: Mapping[Instance, Home]) -> None:
        self._versions = {job: plan.version for job, plan in plans.items()}
        self._raw: defaultdict[int, set[tuple[JobId, str]]] = defaultdict(set)
        self._bridges: defaultdict[JobId, set[SentStream]] = defaultdict(set)
        self._readers: defaultdict[JobId, set[JobId]] = defaultdict(set)
        for job, plan in plans.items():
            for ingress in plan.ingress:
                if not isinstance(ingress.supply, Bridged):
                    self._raw[ingress.instance].add((job, ingress.stream))
                elif (home := homes.get(Instance(ingress.instance))) is not None:
                    self._bridges[job].add(SentStream(ingress.stream, home.job))
                    self._readers[home.job].add(job)

    def reached(self, sources: AbstractSet[int]) -> tuple[ReachedJob, ...]:
        """The jobs that events of some sources reach, each after those that it reads.

        A job counts as a whole: whatever it sends on may come of what it reads.
        """
        raw: defaultdict[JobId, set[str]] = defaultdict(set)
        for source in sources:
            for job, stream in self._raw.get(source, ()):
                raw[job].add(stream)
        there = set(raw)
        ends = list(there)
        while ends:
            below = self._readers.get(ends.pop(), set()) - there
            there |= below
            ends += below
        return tuple(self._in_order(raw, there))

    def _in_order(self, raw: Mapping[JobId, AbstractSet[str]], there: AbstractSet[JobId]) -> Iterator[ReachedJob]:
        entering = {job: {bridge for bridge in self._bridges.get(job, ()) if bridge.by in there} for job in there}
        above = {job: {stream.by for stream in streams} for job, streams in entering.items()}
        for job in TopologicalSorter(above).static_order():
            yield ReachedJob(
                job=job,
                version=self._versions[job],
                raw=frozenset(raw.get(job, ())),
                bridges=frozenset(entering[job]),
            )
