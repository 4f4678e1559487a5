"""The jobs that events of some sources reach, by the newest plans: those that read them, and all below over bridges."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from graphlib import TopologicalSorter

from engine.plan import Plan
from engine.supply import Bridged
from manager.committed.wanted import ReachedJob, SentStream
from merge import Home, Instance, JobId


class JobStreams:
    """What all jobs read, and of which others; made for some searches by the same plans."""

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
        entering = {job: {each for each in self._bridges.get(job, ()) if each.by in there} for job in there}
        above = {job: {each.by for each in streams} for job, streams in entering.items()}
        for job in TopologicalSorter(above).static_order():
            yield ReachedJob(
                job=job,
                version=self._versions[job],
                raw=frozenset(raw.get(job, ())),
                bridges=frozenset(entering[job]),
            )
