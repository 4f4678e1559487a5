"""Running DAGs: the connected components of the running graph, tracked on the small graph of its sources.

Whatever connects running tasks was brought by some dataflow, so two sources are connected exactly when a chain of
dataflows' connected parts joins them. Each part of a submitted dataflow links its sources into a path; links are
counted. Joining relabels the smaller side. A removal takes its counts back, and only a link that falls to zero causes a
search, which walks from both ends by turns and so costs no more than the smaller side of a split.
"""

# rpds's classes take no parameters at run time.
from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NewType

from rpds import HashTrieMap

from merge.task import Instance

DagId = NewType("DagId", int)
Parts = Iterable[tuple[Instance, ...]]


@dataclass(frozen=True, slots=True)
class RunningDags:
    """The running DAG of each source, and the counted links that connect sources."""

    of_source: HashTrieMap[Instance, DagId] = field(default_factory=HashTrieMap)
    links: HashTrieMap[Instance, HashTrieMap[Instance, int]] = field(default_factory=HashTrieMap)
    next_dag: DagId = DagId(1)

    def join(self, parts: Parts) -> RunningDags:
        """Add the links of a submitted dataflow's parts. Running DAGs that become one take the id of the larger.

        >>> sorted(RunningDags().join([(1, 2), (3,)]).join([(2, 3)]).of_source.items())
        [(1, 1), (2, 1), (3, 1)]
        """
        dags = self
        for part in parts:
            if part[0] not in dags.of_source:
                dags = replace(_relabelled(dags, part[:1], dags.next_dag), next_dag=DagId(dags.next_dag + 1))
            for one, other in pairwise(part):
                if other not in dags.of_source:
                    dags = _relabelled(dags, [other], dags.of_source[one])
                elif dags.of_source[one] != dags.of_source[other]:
                    dags = _united(dags, one, other)
                dags = _counted(dags, one, other, +1)
        return dags

    def leave(self, parts: Parts, stopped: frozenset[Instance]) -> RunningDags:
        """Take back the links of a removed dataflow's parts, whose stopped sources go; what falls apart gets new ids.

        >>> sorted(RunningDags().join([(1, 2)]).leave([(1, 2)], frozenset()).of_source.items())
        [(1, 2), (2, 1)]
        """
        dags = self
        for part in parts:
            for one, other in pairwise(part):
                if one in stopped or other in stopped:
                    dags = _counted(dags, one, other, -1)
            left = [source for source in part if source not in stopped]
            neighbours = set(pairwise(part))
            # Sources that were joined only through a stopped one get a link of their own for the moment: taking back
            # one link after the other, each separation is found with the rest still in place.
            for pair in pairwise(left):
                if pair not in neighbours:
                    dags = _counted(dags, *pair, +1)
            for one, other in pairwise(left):
                dags = _counted(dags, one, other, -1)
                if other not in dags.links.get(one, {}) and (side := _smaller_side(dags, one, other)) is not None:
                    dags = replace(_relabelled(dags, side, dags.next_dag), next_dag=DagId(dags.next_dag + 1))
            for source in stopped.intersection(part):
                dags = replace(dags, of_source=dags.of_source.remove(source))
        return dags


def _united(dags: RunningDags, one: Instance, other: Instance) -> RunningDags:
    side = _smaller_side(dags, one, other) or frozenset()
    large = other if one in side else one
    return _relabelled(dags, side, dags.of_source[large])


def _relabelled(dags: RunningDags, sources: Iterable[Instance], dag: DagId) -> RunningDags:
    of_source = dags.of_source
    for source in sources:
        of_source = of_source.insert(source, dag)
    return replace(dags, of_source=of_source)


def _counted(dags: RunningDags, one: Instance, other: Instance, more: int) -> RunningDags:
    links = dags.links
    for here, there in ((one, other), (other, one)):
        around = links.get(here, HashTrieMap())
        count = around.get(there, 0) + more
        around = around.insert(there, count) if count else around.discard(there)
        links = links.insert(here, around) if around else links.discard(here)
    return replace(dags, links=links)


def _smaller_side(dags: RunningDags, one: Instance, other: Instance) -> frozenset[Instance] | None:
    """The side that is walked through first, or None where the two are connected."""
    seen: tuple[set[Instance], set[Instance]] = ({one}, {other})
    walks = _walk(dags, one, seen[0]), _walk(dags, other, seen[1])
    while True:
        for mine, theirs, walk in ((seen[0], seen[1], walks[0]), (seen[1], seen[0], walks[1])):
            found = next(walk, None)
            if found is None:
                return frozenset(mine)
            if found in theirs:
                return None


def _walk(dags: RunningDags, start: Instance, seen: set[Instance]) -> Iterator[Instance]:
    """Follow the links, one at each step, noting what was seen."""
    open_ends = [start]
    while open_ends:
        for source in dags.links.get(open_ends.pop(), HashTrieMap()):
            if source not in seen:
                seen.add(source)
                open_ends.append(source)
            yield source
