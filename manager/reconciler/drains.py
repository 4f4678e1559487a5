"""Draining: a dataflow is removed once everything is done that its sources had sent when that was asked for.

A cut is taken through the running DAGs that it is in. When the cut has passed all of its tasks, whatever came in before
has been worked off and recorded, and the dataflow is removed like any other. Others notice nothing.

A cut may not come about, because a job is down or a stream of it stands still. Then another one is tried, with a name
of its own. Names follow from the dataflow and the time, so that whoever leads next goes on where the last one was.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.host.spools import ELSEWHERE
from engine.plan import CutRequest
from manager.committed.wanted import Draining
from manager.observations.reports import HostSeen, JobSeen

_PREFIX = "drain-"
"""How the cuts are called that are taken for this, and no others."""
TRYING = 60.0
"""Seconds after which another cut is tried; a host gives one up after thirty."""
WISHING = 5.0
"""Seconds after which a wish that nothing came of is repeated; who has heard it takes no second cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Something to tell a host."""

    host: str
    wish: CutRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """A dataflow that can be removed now."""

    dataflow: str


def cut_of(draining: Draining, now: float) -> str:
    """The cut that is tried now.

    >>> from manager.committed.wanted import Draining
    >>> flow = Draining(dataflow="d-1", since=100.0, streams=frozenset(), instances=frozenset())
    >>> cut_of(flow, 101.0), cut_of(flow, 161.0)
    ('drain-d-1-0', 'drain-d-1-1')
    """
    return f"{_PREFIX}{draining.dataflow}-{max(0, int((now - draining.since) / TRYING))}"


def drain(
    draining: Iterable[Draining],
    jobs: Mapping[str, JobSeen],
    hosts: Mapping[str, HostSeen],
    wished: Mapping[str, float],
    now: float,
) -> Iterator[Wish | Drained]:
    """What is due: cuts to take, dataflows to remove, and cuts whose states nobody needs.

    `wished` says when each cut was wished for last.
    """
    current = {cut_of(each, now): each for each in draining}
    passed: dict[str, set[int]] = {}
    for job in jobs.values():
        for cut, instances in job.cuts.items():
            if cut.startswith(_PREFIX):
                passed.setdefault(cut, set()).update(instances)
    alive = [host for _, host in sorted(hosts.items()) if host.alive]
    due = {cut for cut in current.keys() | passed.keys() if may_wish(cut, wished, now)}
    for cut, each in current.items():
        if each.instances <= passed.get(cut, set()):
            yield Drained(dataflow=each.dataflow)
        elif cut in due:
            yield from taken(cut, each.streams, alive)
    for cut in sorted(due & passed.keys() - current.keys()):
        yield from (Wish(host=host.host, wish=CutRequest(cut=cut, release=True)) for host in alive)


def may_wish(cut: str, wished: Mapping[str, float], now: float) -> bool:
    """Whether a cut was not wished for just before; what was after now was before the clock was set back."""
    return cut not in wished or not 0.0 <= now - wished[cut] < WISHING


def taken(cut: str, streams: frozenset[str], hosts: Iterable[HostSeen]) -> Iterator[Wish]:
    """The wishes for a cut in raw streams, each to the host that supplies it; also those of a move."""
    for host in hosts:
        supplied = {stream for stream, state in host.spools.items() if state != ELSEWHERE}
        if here := sorted(streams & supplied):
            yield Wish(host=host.host, wish=CutRequest(cut=cut, streams=tuple(here)))
