"""State changes of jobs and dataflows, reported to the live events from one look to the next.

Every state on the way is reported, in the order of the table, even if two looks or two statuses lie so far apart that
one was never observed. The states found at the first look are not reported.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from engine.job.lifecycle import JOB_LIFE, JobState
from manager.answers import DataflowState
from manager.committed.wanted import WantedJob
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight, Sight, news_of
from manager.reconciler.dataflow_life import DRAINS, REMOVED, find, passed
from manager.reconciler.dataflow_needs import DataflowLookup, DataflowNeeds
from manager.reconciler.live_events import LiveEvents

UNSEEN = "nobody saw it die; its host may have ended with it"
"""The reason for a death that was not observed, only the states before and after."""
_WRONG = frozenset({JobState.DIED, JobState.CANCELLING, JobState.STUCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerLook:
    """The wanted and the observed jobs at one look; made by the reconciler."""

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

    def __init__(self, events: LiveEvents, dataflows: DataflowLookup | None) -> None:
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
        for job in sorted(now.changed(before)) if before is not None else ():
            for content in job_news(before.job(job) if before is not None else _NOTHING, now.job(job)):
                self._events.add("job", content)
        for content in self._dataflow_news(flows, now) if flows is not None else ():
            if before is not None:
                self._events.add("dataflow", content)

    @property
    def states(self) -> Mapping[DataflowState, int]:
        """The number of dataflows in each state, as of the last look; from any thread."""
        counts = Counter(known.state for known in tuple(self._known.values()))
        return {state: counts[state] for state in DataflowState if state is not DataflowState.REMOVED}

    def _affected(self, dataflows: DataflowLookup, jobs: set[str]) -> "_Flows":
        """Look up the needs of all dataflows that are new, drain, are not running, or have tasks in these jobs."""
        every = dataflows.every()
        affected = (every - self._known.keys()) | dataflows.draining()
        affected |= {name for name, known in self._known.items() if known.state is not DataflowState.RUNNING}
        return _Flows(every, dataflows.needs(affected | dataflows.in_jobs(jobs) if jobs else affected))

    def _dataflow_news(self, flows: "_Flows", now: ReconcilerLook) -> Iterator[dict[str, Any]]:
        gone = sorted(self._known.keys() - flows.every)
        left = {known.dataflow: known for known in map(self._known.pop, gone)}
        seen = {name: sight.seen for name, sight in now.sight.jobs.items() if sight.seen is not None}
        for name, each in sorted(flows.affected.items()):
            # The revision before has just left.
            older = left.pop(each.dataflow, None)
            known = self._known.get(name) or older
            found = DRAINS if each.drains else find(each.needs, seen, now.sight.hosts)
            states = passed(known.state if known else None, found, replaced=older is not None)
            for state in states:
                yield _dataflow_content(each, state, found.reason if state is found.state else "")
            state = known.state if known and not states else states[-1]
            self._known[name] = _Known(dataflow=each.dataflow, tenant=each.tenant, state=state)
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
