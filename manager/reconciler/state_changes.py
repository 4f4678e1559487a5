"""Telling: what the live stream says of jobs and dataflows, from one look to the next.

Every state that one comes through is told, in the order of its life's table, also where two looks, or two words of a
host, lie so far apart that one was passed over. What is found at the first look is no news.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from engine.job.lifecycle import JOB_LIFE, JobState
from manager.answers import DataflowState
from manager.committed.wanted import WantedJob
from manager.observations.listener import JobSight, Sight, news_of
from manager.observations.reports import JobSeen
from manager.reconciler.concerning import Concerned, Concerning
from manager.reconciler.dataflow_life import DRAINS, REMOVED, find, passed
from manager.reconciler.live_events import Events

UNSEEN = "nobody saw it die; its host may have ended with it"
"""Why a job died that was heard of only before and after that."""
_WRONG = frozenset({JobState.DIED, JobState.CANCELLING, JobState.STUCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerLook:
    """What was wanted and seen at one look; made by the reconciler."""

    wanted: Mapping[str, WantedJob]
    sight: Sight

    def job(self, job: str) -> JobSight:
        """What was seen of a job."""
        return self.sight.jobs.get(job, _NOTHING)

    def changed(self, before: "ReconcilerLook") -> set[str]:
        """The jobs of which something is not as it was."""
        every = self.wanted.keys() | self.sight.jobs.keys() | before.wanted.keys() | before.sight.jobs.keys()
        return {
            job
            for job in every
            if self.job(job).turned != before.job(job).turned
            or news_of(self.job(job).seen) != news_of(before.job(job).seen)
        }

    def ailing(self, before: "ReconcilerLook") -> set[str]:
        """The jobs whose health, or whose host's, is not as it was."""
        every = self.sight.hosts.keys() | before.sight.hosts.keys()
        turned = {name for name in every if _alive(self.sight, name) != _alive(before.sight, name)}
        return {
            job
            for job, wanted in self.wanted.items()
            if wanted.host in turned or _health(self.job(job)) != _health(before.job(job))
        }


class StateReporter:
    """Tells the live stream what becomes of jobs and dataflows; called by the reconciler after each look."""

    def __init__(self, events: Events, dataflows: Concerning | None) -> None:
        self._events = events
        self._dataflows = dataflows
        self._before: ReconcilerLook | None = None
        self._known: dict[str, _Known] = {}
        """What was told last, by the running graph's ids."""

    def tell(self, now: ReconcilerLook) -> None:
        """Tell what is not as it was."""
        before = self._before
        flows = None
        if self._dataflows is not None:
            flows = self._asked(self._dataflows, now.ailing(before) if before is not None else set())
        # Whatever can fail has not by now: all of it is told, and once.
        self._before = now
        for job in sorted(now.changed(before)) if before is not None else ():
            for told in job_news(before.job(job) if before is not None else _NOTHING, now.job(job)):
                self._events.tell("job", told)
        for told in self._of_dataflows(flows, now) if flows is not None else ():
            if before is not None:
                self._events.tell("dataflow", told)

    @property
    def states(self) -> Mapping[DataflowState, int]:
        """How many dataflows are in each state, as of the last look; from any thread."""
        counts = Counter(known.state for known in tuple(self._known.values()))
        return {state: counts[state] for state in DataflowState if state is not DataflowState.REMOVED}

    def _asked(self, dataflows: Concerning, jobs: set[str]) -> "_Flows":
        """Every dataflow, and the needs of those that are new, or drain, or did not just run, or are in these jobs."""
        every = dataflows.every()
        asked = (every - self._known.keys()) | dataflows.draining()
        asked |= {name for name, known in self._known.items() if known.state is not DataflowState.RUNNING}
        return _Flows(every, dataflows.concerned(asked | dataflows.in_jobs(jobs) if jobs else asked))

    def _of_dataflows(self, flows: "_Flows", now: ReconcilerLook) -> Iterator[dict[str, Any]]:
        gone = sorted(self._known.keys() - flows.every)
        left = {known.dataflow: known for known in map(self._known.pop, gone)}
        seen = {name: sight.seen for name, sight in now.sight.jobs.items() if sight.seen is not None}
        for name, each in sorted(flows.concerned.items()):
            # The revision before it has left just now.
            older = left.pop(each.dataflow, None)
            known = self._known.get(name) or older
            found = DRAINS if each.drains else find(each.needs, seen, now.sight.hosts)
            states = passed(known.state if known else None, found, replaced=older is not None)
            for state in states:
                yield _told(each, state, found.reason if state is found.state else "")
            state = known.state if known and not states else states[-1]
            self._known[name] = _Known(dataflow=each.dataflow, tenant=each.tenant, state=state)
        for known in left.values():
            for state in passed(known.state, REMOVED):
                yield _told(known, state, "")


class _Flows(NamedTuple):
    every: frozenset[str]
    concerned: Mapping[str, Concerned]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    dataflow: str
    tenant: str
    state: DataflowState


def job_news(before: JobSight, now: JobSight) -> Iterator[dict[str, Any]]:
    """What is told of a job that is not as it was: each state that it came into since, and how it is."""
    last = before.seen
    for seen in now.turns[max(0, len(now.turns) - (now.turned - before.turned)) :]:
        for state in between(last.state if last else "", seen.state):
            trouble = UNSEEN if state is JobState.DIED else ""
            yield _job_told(replace(seen, state=state, trouble=trouble, back_off=None, refused=""))
        yield _job_told(seen)
        last = seen
    if now.seen is not None and news_of(now.seen) != news_of(last):
        yield _job_told(now.seen)
    if now.seen is None and last is not None:
        for state in (*between(last.state, JobState.STOPPED), JobState.STOPPED):
            if last.state != JobState.STOPPED:
                yield _job_told(replace(last, state=state, trouble="", refused=""))


def between(before: str, after: str) -> Sequence[JobState]:
    """The states that a job came through unseen, by the table; one that was stopped, or unknown, begins anew.

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
    """The shortest way by the table, past what is wrong only where nothing else leads there; empty where none does."""
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


def _health(sight: JobSight) -> object:
    """What of a job may make dataflows degraded."""
    seen = sight.seen
    if seen is None:
        return None
    return seen.state, seen.refused, seen.host, tuple(sorted(seen.failed.items()))


def _told(whose: "Concerned | _Known", state: DataflowState, reason: str) -> dict[str, Any]:
    return {"dataflow": whose.dataflow, "tenant": whose.tenant, "state": state, "reason": reason}


def _job_told(seen: JobSeen) -> dict[str, Any]:
    told: dict[str, Any] = {
        "job": seen.job,
        "host": seen.host,
        "state": seen.state,
        "trouble": seen.trouble or seen.refused,
        "version": seen.version,
        "in_effect": seen.in_effect,
        "failed": {str(instance): reason for instance, reason in sorted(seen.failed.items())},
    }
    return told if seen.back_off is None else {**told, "back_off": seen.back_off}
