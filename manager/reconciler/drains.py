"""Drains: a dataflow is removed once every event is processed that its sources had sent before the request.

A cut is taken through the running DAGs of the dataflow. Once the cut has passed all its tasks, every earlier event has
been processed and recorded, and the dataflow is removed like any other. Other dataflows are not affected.

A cut may fail, because a job is down or a stream stands still. Then another cut with a new name is tried. The name
follows from the dataflow and the time, so the next leading manager continues with the same cut.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.host.spools import ELSEWHERE
from engine.plan_messages import CutRequest
from manager.committed.wanted import Draining
from manager.observations.reports import HostSeen, JobSeen

_PREFIX = "drain-"
"""The prefix of the names of all cuts for drains, and of no others."""
NEXT_CUT_AFTER = 60.0
"""Seconds after which another cut is tried; a host gives a cut up after thirty."""
REPEAT_WISH_AFTER = 5.0
"""Seconds after which an unfulfilled wish is repeated; wishes are idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A wish for a cut, to be sent to a host; made by `drain` and by `manager.reconciler.moves.go_on`."""

    host: str
    wish: CutRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """A dataflow that can be removed now; made by `drain`."""

    dataflow: str


def cut_of(draining: Draining, now: float) -> str:
    """Return the name of the cut to try now.

    >>> from manager.committed.wanted import Draining
    >>> flow = Draining(dataflow="d-1", since=100.0, streams=frozenset(), instances=frozenset())
    >>> cut_of(flow, 101.0), cut_of(flow, 161.0)
    ('drain-d-1-0', 'drain-d-1-1')
    """
    return f"{_PREFIX}{draining.dataflow}-{max(0, int((now - draining.since) / NEXT_CUT_AFTER))}"


def drain(
    draining: Iterable[Draining],
    jobs: Mapping[str, JobSeen],
    hosts: Mapping[str, HostSeen],
    wished: Mapping[str, float],
    now: float,
) -> Iterator[Wish | Drained]:
    """Yield the wishes for cuts to take or release, and the dataflows that have drained.

    `wished` has the time of the last wish for each cut.
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
            yield from wishes_for(cut, each.streams, alive)
    for cut in sorted(due & passed.keys() - current.keys()):
        yield from (Wish(host=host.host, wish=CutRequest(cut=cut, release=True)) for host in alive)


def may_wish(cut: str, wished: Mapping[str, float], now: float) -> bool:
    """Return true unless the cut was wished for a moment ago. A time in the future means the clock was set back."""
    return cut not in wished or not 0.0 <= now - wished[cut] < REPEAT_WISH_AFTER


def wishes_for(cut: str, streams: frozenset[str], hosts: Iterable[HostSeen]) -> Iterator[Wish]:
    """Yield the wishes for a cut in raw streams, one for each host that supplies some of them."""
    for host in hosts:
        supplied = {stream for stream, state in host.spools.items() if state != ELSEWHERE}
        if here := sorted(streams & supplied):
            yield Wish(host=host.host, wish=CutRequest(cut=cut, streams=tuple(here)))
