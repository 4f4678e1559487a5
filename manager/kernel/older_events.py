"""Older events: how it is known that all events that came before a moment have been worked off. Pure.

Drains: a dataflow is removed once every event is processed that its sources had sent before the request. A cut
is taken through the running DAGs of the dataflow. Once the cut has passed all its tasks, every earlier event has
been processed and recorded, and the dataflow is removed like any other. Other dataflows are not affected.

A cut may fail, because a job is down or a stream stands still. Then another cut with a new name is tried. The
name follows from the dataflow and the time, so the next leading manager continues with the same cut.

An event of a reconfiguration's sources may have met a changed task before that switched, and still wait
somewhere: for a job below the changed tasks, or for one beside them that reads the same sources. While one
waits, later reconfigurations have to cover the changed tasks. The proof counts positions alone, because clocks
differ, and a figure may be old or missing:

1. Once all jobs have switched, the hosts are asked where the spools of the sources end. They look after the question
   has come, and it was sent after the switch. So every event that met a changed task as it was lies before that end.
2. A job is past when it reports that it has read all those streams up to there. Positions never go back, so such a
   report is true however late it comes, even if another host runs the job by then. Without a report a job is not past.
3. When a past job reports that other jobs have all in their spools that it had emitted by then, the hosts are asked
   where the spools of its bridges end. The jobs that read these are past when they have read up to there; and so on.

Nothing is marked in any stream, so nothing waits for the proof but the reconfiguration itself, which has
switched long ago. What is known is kept in memory only: another manager asks anew, and waits for ends that lie a
little later.

While other transitions change what the jobs read, nothing is concluded. If a job reads other streams by a newer
plan, it has to run that plan, and to be past once more, as has everything below it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.host.spools import ELSEWHERE
from engine.plan_messages import CutRequest
from manager.kernel.transitions import HAS_SWITCHED
from manager.kernel.wanted import Draining, ReachedJob, Reconfiguring
from manager.observations.reports import HostSeen, JobSeen
from manager.observations.sight import JobSight, Sight
from merge import JobId

_PREFIX = "drain-"
"""The prefix of the names of all cuts for drains, and of no others."""
NEXT_CUT_AFTER = 60.0
"""Seconds after which another cut is tried; a host gives a cut up after thirty."""
REPEAT_WISH_AFTER = 5.0
"""Seconds after which an unfulfilled wish is repeated; wishes are idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A wish for a cut, to be sent to a host."""

    host: str
    wish: CutRequest

    @property
    def key(self) -> str:
        """The key under which it is remembered; a cut and its release have different ones."""
        return _released(self.wish.cut) if self.wish.release else self.wish.cut


def _released(cut: str) -> str:
    return f"release {cut}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """A dataflow that can be removed now."""

    dataflow: str


def cut_of(draining: Draining, now: float) -> str:
    """Return the name of the cut to try now.

    >>> from manager.kernel.wanted import Draining
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
    current = {cut_of(leaving, now): leaving for leaving in draining}
    passed: dict[str, set[int]] = {}
    for job in jobs.values():
        for cut, instances in job.cuts.items():
            if cut.startswith(_PREFIX):
                passed.setdefault(cut, set()).update(instances)
    wishing = Wishing(hosts, wished, now)
    for cut, leaving in current.items():
        if leaving.instances <= passed.get(cut, set()):
            yield Drained(dataflow=leaving.dataflow)
        else:
            yield from wishing.take(cut, leaving.streams)
    for cut in sorted(passed.keys() - current.keys()):
        yield from wishing.release(cut)


class Wishing(NamedTuple):
    """Asks hosts for cuts, but for nothing that they were asked for a moment ago."""

    hosts: Mapping[str, HostSeen]
    wished: Mapping[str, float]
    """The times of the last wishes, by their keys."""
    now: float

    def take(self, cut: str, streams: frozenset[str]) -> Iterator[Wish]:
        """Yield the wishes for a cut in raw streams, one for each host that supplies some of them."""
        for name, filled in self._filled(cut):
            if here := sorted(streams & filled):
                yield Wish(host=name, wish=CutRequest(cut=cut, streams=tuple(here)))

    def release(self, cut: str) -> Iterator[Wish]:
        """Yield the wishes to release a cut."""
        for name, _ in self._filled(_released(cut)):
            yield Wish(host=name, wish=CutRequest(cut=cut, release=True))

    def _filled(self, key: str) -> Iterator[tuple[str, frozenset[str]]]:
        # A time in the future means that the clock was set back.
        if key not in self.wished or not 0.0 <= self.now - self.wished[key] < REPEAT_WISH_AFTER:
            yield from ((name, filled_by(host)) for name, host in sorted(self.hosts.items()) if host.alive)


def filled_by(host: HostSeen) -> frozenset[str]:
    """The streams whose spools a host fills."""
    return frozenset(stream for stream, state in host.spools.items() if state != ELSEWHERE)


ASK_AGAIN_AFTER = 5.0
"""Seconds after which a question is asked again whose answer has not come."""


class PastJob(NamedTuple):
    """A job that has read its streams up to the ends that were asked for."""

    ends: Mapping[str, int]
    batch: int
    """The last batch that it had run by then."""


class AskedStream(NamedTuple):
    """A stream whose end is asked for."""

    by: tuple[JobId, PastJob] | None
    """Who had sent all its older events; None for that of a source."""
    after: int
    """The number of the last question before. Only answers to later ones count."""
    ends: Mapping[str, int]
    """The answers, for each root: where hosts do not share their files, each has spools of its own."""


class ReadStreams(NamedTuple):
    """The streams that a job reads, and the version of the first plan that was seen to say so."""

    streams: frozenset[str]
    version: int


@dataclass(frozen=True, slots=True)
class Clearance:
    """The proof for one reconfiguration, as far as it has come."""

    reads: Mapping[JobId, ReadStreams] = field(default_factory=dict)
    asked: Mapping[str, AskedStream] = field(default_factory=dict)
    past: Mapping[JobId, PastJob] = field(default_factory=dict)
    lacking: frozenset[str] = frozenset()
    """The streams whose ends are still to be found out."""
    is_clear: bool = False
    """Whether all older events are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsWanted:
    """A question that a host shall be asked."""

    host: str
    number: int
    streams: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearances:
    """All proofs of a manager, and its questions so far."""

    of: Mapping[int, Clearance] = field(default_factory=dict)
    """By reconfiguration."""
    question: int = 0
    """The number of the last question."""
    asked_at: float = 0.0

    def get(self, reconfiguration: int) -> Clearance:
        """The proof for a reconfiguration."""
        return self.of.get(reconfiguration, _NOTHING_KNOWN)


_NOTHING_KNOWN = Clearance()
NO_CLEARANCES = Clearances()
"""What a manager begins with: no figure means no."""


def look_on(
    before: Clearances, under_way: Iterable[Reconfiguring], sight: Sight, now: float
) -> tuple[Clearances, tuple[EndsWanted, ...]]:
    """The proofs after one more look, and the questions to ask now; one question serves all that need an answer."""
    known = {
        transition.reconfiguration.id: advanced(
            before.get(transition.reconfiguration.id), transition, sight, before.question
        )
        for transition in under_way
        if transition.reconfiguration.phase in HAS_SWITCHED
    }
    lacking = frozenset[str]().union(*(clearance.lacking for clearance in known.values()))
    is_new = any(
        clearance.asked[stream].after == before.question for clearance in known.values() for stream in clearance.lacking
    )
    if not lacking or not (is_new or not 0.0 <= now - before.asked_at < ASK_AGAIN_AFTER):
        return Clearances(of=known, question=before.question, asked_at=before.asked_at), ()
    number = before.question + 1
    questions = tuple(_questions(number, lacking, sight.hosts.values()))
    return Clearances(of=known, question=number, asked_at=now), questions


def advanced(before: Clearance, reconfiguring: Reconfiguring, sight: Sight, question: int) -> Clearance:
    """The proof for a reconfiguration that has switched, after one more look; `question` was the last one asked."""
    if before.is_clear or reconfiguring.is_held:
        return before
    making = _ClearanceInProgress(before, sight, question)
    for reached in reconfiguring.reached:
        making.add(reached)
    is_clear = len(making.past) == len(reconfiguring.reached)
    return Clearance(making.reads, making.asked, making.past, frozenset(making.lacking), is_clear)


class _ClearanceInProgress:
    """A proof while it is advanced, job by job from the sources down."""

    def __init__(self, before: Clearance, sight: Sight, question: int) -> None:
        self.reads: dict[JobId, ReadStreams] = {}
        self.asked: dict[str, AskedStream] = {}
        self.past: dict[JobId, PastJob] = {}
        self.lacking: set[str] = set()
        self._before = before
        self._sight = sight
        self._question = question

    def add(self, reached: ReachedJob) -> None:
        """Add a job; those that it reads were added before."""
        self.reads[reached.job] = reads = self._reads(reached)
        for stream in reached.raw:
            self._ask(stream, None)
        for stream, by in reached.bridges:
            past = self.past.get(by)
            if past is not None and (self._was_asked(stream, by, past) or self._has_handed_on(by, past)):
                self._ask(stream, (by, past))
        if (past := self._passed(reached, reads)) is not None:
            self.past[reached.job] = past

    def _reads(self, reached: ReachedJob) -> ReadStreams:
        known = self._before.reads.get(reached.job)
        streams = reached.streams
        return known if known is not None and known.streams == streams else ReadStreams(streams, reached.version)

    def _was_asked(self, stream: str, by: JobId, past: PastJob) -> bool:
        known = self._before.asked.get(stream)
        return known is not None and known.by == (by, past)

    def _has_handed_on(self, job: JobId, past: PastJob) -> bool:
        """Tell whether all that a job had emitted when it was past is in the spools of its readers."""
        seen = self._seen(job)
        return seen is not None and seen.handed_on is not None and seen.handed_on > past.batch

    def _ask(self, stream: str, by: tuple[JobId, PastJob] | None) -> None:
        known = self._before.asked.get(stream)
        if known is None or known.by != by:
            known = AskedStream(by, self._question, {})
        ends = {
            host.root: answered.end
            for (name, asked), answered in self._sight.ends.items()
            if asked == stream and answered.question > known.after and (host := self._sight.hosts.get(name)) is not None
        }
        self.asked[stream] = known._replace(ends={**ends, **known.ends})

    def _passed(self, reached: ReachedJob, reads: ReadStreams) -> PastJob | None:
        seen = self._seen(reached.job)
        host = None if seen is None else self._sight.hosts.get(seen.host)
        if seen is None or host is None:
            return None
        known_ends = {
            stream: self.asked[stream].ends.get(host.root) for stream in reads.streams if stream in self.asked
        }
        self.lacking |= {stream for stream, end in known_ends.items() if end is None}
        ends = {stream: end for stream, end in known_ends.items() if end is not None}
        if len(ends) < len(reads.streams):
            return None
        known = self._before.past.get(reached.job)
        if known is not None and known.ends == ends and self._before.reads.get(reached.job) == reads:
            return known
        has_read = all(seen.positions.get(stream, -1) >= end for stream, end in ends.items())
        return PastJob(ends, seen.batch) if has_read and seen.in_effect >= reads.version else None

    def _seen(self, job: JobId) -> JobSeen | None:
        return self._sight.jobs.get(str(job), _NO_SIGHT).seen


_NO_SIGHT = JobSight()


def _questions(number: int, streams: frozenset[str], hosts: Iterable[HostSeen]) -> Iterator[EndsWanted]:
    """One question for each host that fills spools of some streams."""
    for host in hosts:
        if host.alive and (here := sorted(streams & filled_by(host))):
            yield EndsWanted(host=host.host, number=number, streams=tuple(here))
