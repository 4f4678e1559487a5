"""Live events: operations, and new states of jobs and dataflows, in a ring that any thread may read.

Every state on the way is reported, in the order of the table, even if two looks or two statuses lie so far apart that
one was never observed. The states found at the first look are not reported.
"""

import math
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import func, select
from sqlmodel import col

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.overview import AUDIT_ONLY, EventAnswer, OperationAnswer, OperationKind
from engine.job.lifecycle import JOB_LIFE, JobState
from manager.kernel.dataflow_life import DRAINS, REMOVED, CommittedDataflowLookup, DataflowNeeds, find, passed
from manager.kernel.wanted import WantedJob
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight, Sight, news_of
from manager.store.database import Store
from manager.store.tables import OperationRow

DELAY_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, math.inf)
"""The most seconds of each class of delays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Delays, counted by class."""

    counts: tuple[int, ...] = (0,) * len(DELAY_BOUNDS)
    seconds: float = 0.0
    """In sum."""

    def plus(self, seconds: float) -> "Delays":
        """These, and one more.

        >>> Delays().plus(0.25).plus(0.3).counts[:4]
        (0, 1, 1, 0)
        """
        at = bisect_left(DELAY_BOUNDS, seconds)
        return Delays(
            counts=(*self.counts[:at], self.counts[at] + 1, *self.counts[at + 1 :]), seconds=self.seconds + seconds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerActivity:
    """Counts of a reconciler's work."""

    connected: bool
    """The broker is connected, and all its retained messages have arrived."""
    unread: int
    """Messages that could not be read."""
    looks: int
    failures: int
    """Looks that failed."""
    steps: Mapping[str, int]
    """Instructions sent to hosts, by kind."""
    turns: Mapping[str, int]
    """Events in the life of moves, by kind."""
    reconfigurations: Mapping[str, int]
    """Events in the life of reconfigurations, by kind."""
    reconfiguration_delays: Delays
    """Seconds from the requests of reconfigurations until all their jobs had switched."""
    dataflows: Mapping[str, int]
    """Dataflows in each state, as of the last look."""


_MOST_KEPT = 10_000
"""Events kept for readers that reconnect; one that was away for longer reads the lists instead."""


class LiveEvents:
    """The newest events of a manager, numbered without gaps."""

    def __init__(self, most: int = _MOST_KEPT, *, last: int | None = None) -> None:
        """`last` is the number before the first; by default, the milliseconds since 1970.

        So numbers keep rising from one manager to the next, and a reader that reconnects with an old one misses none.
        """
        self._kept: deque[EventAnswer] = deque(maxlen=most)
        self._last = time.time_ns() // 1_000_000 if last is None else last
        self._closed = False
        self._changed = threading.Condition()

    @property
    def last(self) -> int:
        """The number of the newest event, or the one before the first."""
        with self._changed:
            return self._last

    def add(self, kind: Literal["operation", "job", "dataflow"], content: dict[str, Any]) -> EventAnswer:
        """Add an event."""
        with self._changed:
            self._last += 1
            event = EventAnswer(id=self._last, kind=kind, told=content)
            self._kept.append(event)
            self._changed.notify_all()
            return event

    def add_operation(self, operation: OperationAnswer) -> EventAnswer:
        """Add a committed operation."""
        return self.add("operation", operation.model_dump(mode="json"))

    def since(self, event: int) -> tuple[EventAnswer, ...]:
        """Return the events after one, as far as they are kept, oldest first."""
        with self._changed:
            return self._since(event)

    def wait(self, event: int, timeout: float) -> tuple[EventAnswer, ...]:
        """Return the events after one as soon as there are any; none after the timeout, or once it is closed."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not (events := self._since(event)) and not self._closed:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return events

    @property
    def closed(self) -> bool:
        """Tell whether the manager has ended, so that no more events come."""
        with self._changed:
            return self._closed

    def close(self) -> None:
        """Release all waiting readers: the manager ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _since(self, event: int) -> tuple[EventAnswer, ...]:
        if event >= self._last:
            return ()
        # Numbers have no gaps, so the index follows from the number.
        skipped = max(0, event - (self._last - len(self._kept)))
        return tuple(self._kept)[skipped:]


_MOST_READ = 1_000
"""Operations read at once."""

NOT_OF_TENANTS = frozenset(
    {
        *(OperationKind.SUBMIT, OperationKind.REPLACE, OperationKind.REMOVE, OperationKind.ADAPT),
        *(OperationKind.QUARANTINE, OperationKind.TRY, OperationKind.LOOK),
        *AUDIT_ONLY,
        *(OperationKind.TAKE_OVER, OperationKind.HAND_OVER, OperationKind.BALANCE, OperationKind.MACHINE_WAITS),
    }
)
"""The operations that change nothing of what tenants may do on the broker."""


class JournalTail:
    """Follows the journal from its present end; used by one thread."""

    def __init__(self, store: Store, events: LiveEvents) -> None:
        self._store = store
        self._events = events
        with store.read() as session:
            self._last = session.scalar(select(func.max(col(OperationRow.id)))) or 0

    def follow(self) -> frozenset[OperationKind]:
        """Add the new operations to the live events, and return their kinds."""
        wanted = select(OperationRow).order_by(col(OperationRow.id)).where(col(OperationRow.id) > self._last)
        with self._store.read() as session:
            rows = session.scalars(wanted.limit(_MOST_READ)).all()
        for row in rows:
            self._last = row.id or self._last
            if row.kind in AUDIT_ONLY:
                continue
            self._events.add_operation(
                OperationAnswer.model_validate(
                    row.model_dump() | {"at": datetime.fromtimestamp(row.at, UTC), "kind": OperationKind(row.kind)}
                )
            )
        return frozenset(OperationKind(row.kind) for row in rows)


UNSEEN = "nobody saw it die; its host may have ended with it"
"""The reason for a death that was not observed, only the states before and after."""
_WRONG = frozenset({JobState.DIED, JobState.CANCELLING, JobState.STUCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerLook:
    """The wanted and the observed jobs at one look of the reconciler."""

    wanted: Mapping[str, WantedJob]
    sight: Sight

    def job(self, job: str) -> JobSight:
        """Return the sight of a job."""
        return self.sight.jobs.get(job, _NOTHING)

    def changed(self, before: "ReconcilerLook") -> set[str]:
        """Return the jobs with news since the look before."""
        every = self.wanted.keys() | self.sight.jobs.keys() | before.wanted.keys() | before.sight.jobs.keys()
        return {
            job
            for job in every
            if self.job(job).transition_count != before.job(job).transition_count
            or news_of(self.job(job).seen) != news_of(before.job(job).seen)
        }

    def ailing(self, before: "ReconcilerLook") -> set[str]:
        """Return the jobs whose health has changed since the look before, or that of their hosts or their streams."""
        every = self.sight.hosts.keys() | before.sight.hosts.keys()
        turned = {name for name in every if _alive(self.sight, name) != _alive(before.sight, name)}
        streams = {stream for name in every for stream in _supplied(self.sight, name) ^ _supplied(before.sight, name)}
        return {
            job
            for job, wanted in self.wanted.items()
            if wanted.host in turned
            or _health(self.job(job)) != _health(before.job(job))
            or (streams and not streams.isdisjoint(_read(self.job(job))))
        }


class StateReporter:
    """Reports state changes to the live events; called by the reconciler after each look."""

    def __init__(self, events: LiveEvents, dataflows: CommittedDataflowLookup | None) -> None:
        self._events = events
        self._dataflows = dataflows
        self._before: ReconcilerLook | None = None
        self._known: dict[str, _Known] = {}
        """The states reported last, by the running graph's ids."""

    def report(self, now: ReconcilerLook) -> None:
        """Report the changes since the look before."""
        before = self._before
        flows = None
        if self._dataflows is not None:
            flows = self._affected(self._dataflows, now.ailing(before) if before is not None else set())
        # Nothing below can fail, so every change is reported exactly once.
        self._before = now
        news = [] if flows is None else list(self._dataflow_news(flows, now))
        if before is None:
            return
        for job in sorted(now.changed(before)):
            for content in job_news(before.job(job), now.job(job)):
                self._events.add("job", content)
        for content in news:
            self._events.add("dataflow", content)

    @property
    def states(self) -> Mapping[DataflowState, int]:
        """The number of dataflows in each state, as of the last look; from any thread."""
        counts = Counter(known.state for known in tuple(self._known.values()))
        return {state: counts[state] for state in DataflowState if state is not DataflowState.REMOVED}

    def _affected(self, dataflows: CommittedDataflowLookup, jobs: set[str]) -> "_Flows":
        """Look up the needs of all dataflows that are new, drain, are not running, or have tasks in these jobs."""
        every = dataflows.every()
        affected = (every - self._known.keys()) | dataflows.draining()
        affected |= {name for name, known in self._known.items() if known.state is not DataflowState.RUNNING}
        return _Flows(every, dataflows.needs(affected | dataflows.in_jobs(jobs) if jobs else affected))

    def _dataflow_news(self, flows: "_Flows", now: ReconcilerLook) -> Iterator[dict[str, Any]]:
        gone = sorted(self._known.keys() - flows.every)
        left = {known.dataflow: known for known in map(self._known.pop, gone)}
        seen = {name: sight.seen for name, sight in now.sight.jobs.items() if sight.seen is not None}
        for name, flow in sorted(flows.affected.items()):
            # The revision before has just left.
            older = left.pop(flow.dataflow, None)
            known = self._known.get(name) or older
            finding = DRAINS if flow.drains else find(flow.needs, seen, now.sight.hosts)
            states = passed(known.state if known else None, finding, replaced=older is not None)
            for state in states:
                yield _dataflow_content(flow, state, finding.reason if state is finding.state else "")
            state = known.state if known and not states else states[-1]
            self._known[name] = _Known(dataflow=flow.dataflow, tenant=flow.tenant, state=state)
        for known in left.values():
            for state in passed(known.state, REMOVED):
                yield _dataflow_content(known, state, "")


class _Flows(NamedTuple):
    every: frozenset[str]
    affected: Mapping[str, DataflowNeeds]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    dataflow: str
    tenant: str
    state: DataflowState


def job_news(before: JobSight, now: JobSight) -> Iterator[dict[str, Any]]:
    """Yield the live events of a job: one for each state since the sight before, and one for its present status."""
    last = before.seen
    for seen in now.transitions[max(0, len(now.transitions) - (now.transition_count - before.transition_count)) :]:
        for state in between(last.state if last else "", seen.state):
            trouble = UNSEEN if state is JobState.DIED else ""
            yield _job_content(replace(seen, state=state, trouble=trouble, back_off=None, refused=""))
        yield _job_content(seen)
        last = seen
    if now.seen is not None and news_of(now.seen) != news_of(last):
        yield _job_content(now.seen)
    if now.seen is None and last is not None:
        for state in (*between(last.state, JobState.STOPPED), JobState.STOPPED):
            if last.state != JobState.STOPPED:
                yield _job_content(replace(last, state=state, trouble="", refused=""))


def between(before: str, after: str) -> Sequence[JobState]:
    """Return the unobserved states of a job between two observed ones, by the table.

    A job that was stopped, or unknown, starts anew.

    >>> between("running", "starting"), between("stopping", "running"), between("", "starting")
    ([<JobState.DIED: 'died'>], [<JobState.STOPPED: 'stopped'>, <JobState.STARTING: 'starting'>], [])
    """
    if after not in set(JobState):
        return []
    anew = _way(JobState.STARTING, JobState(after))[:-1]
    if before not in set(JobState):
        return anew
    if way := _way(JobState(before), JobState(after)):
        return way[1:-1]
    return [*_way(JobState(before), JobState.STOPPED)[1:], *anew]


def _way(before: JobState, after: JobState) -> list[JobState]:
    """Return the shortest path in the table, avoiding failure states if possible; empty if there is none."""
    for avoided in (_WRONG, frozenset[JobState]()):
        ways, reached = deque([[before]]), {before}
        while ways:
            way = ways.popleft()
            if way[-1] is after:
                return way
            for state in JOB_LIFE[way[-1]].values():
                if state not in reached and (state is after or state not in avoided):
                    reached.add(state)
                    ways.append([*way, state])
    return []


_NOTHING = JobSight()


def _alive(sight: Sight, host: str) -> bool:
    return host in sight.hosts and sight.hosts[host].alive


def _supplied(sight: Sight, host: str) -> frozenset[str]:
    return sight.hosts[host].supplied if host in sight.hosts else frozenset()


def _read(sight: JobSight) -> Iterable[str]:
    return sight.seen.positions if sight.seen is not None else ()


def _health(sight: JobSight) -> object:
    """The part of a job's sight that can make dataflows degraded."""
    seen = sight.seen
    if seen is None:
        return None
    return seen.state, seen.refused, seen.host, tuple(sorted(seen.failed.items()))


def _dataflow_content(whose: "DataflowNeeds | _Known", state: DataflowState, reason: str) -> dict[str, Any]:
    return {"dataflow": whose.dataflow, "tenant": whose.tenant, "state": state, "reason": reason}


def _job_content(seen: JobSeen) -> dict[str, Any]:
    content: dict[str, Any] = {
        "job": seen.job,
        "host": seen.host,
        "state": seen.state,
        "trouble": seen.trouble or seen.refused,
        "version": seen.version,
        "in_effect": seen.in_effect,
        "failed": {str(instance): reason for instance, reason in sorted(seen.failed.items())},
    }
    return content if seen.back_off is None else {**content, "back_off": seen.back_off}
