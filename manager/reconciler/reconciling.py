"""The reconciler: one thread that drives hosts and jobs to the committed state, and tells of what becomes of them.

It looks whenever something is committed, something is heard, or a connection begins, and every two seconds. No request
waits for it, and it waits for no host: it publishes what is due, and what is seen next decides what comes then.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from bridge import topics
from engine.plan import written_cut, written_plan
from manager.answers import DataflowState
from manager.committing.seen import HostSeen
from manager.committing.wanted import Draining, WantedJob, Wanting
from manager.reconciler.concerning import Concerning
from manager.reconciler.deciding import Clean, Memory, Tell, decide
from manager.reconciler.draining import WISHING, Drained, Wish, drain
from manager.reconciler.events import Events
from manager.reconciler.life import find, path, turn
from manager.reconciler.listening import Listener, Sight, news_of

LOOKING = 2.0
"""Seconds between two looks where there is no news."""
FALLING = 1.0
"""Seconds without a look after one that failed."""
log = logging.getLogger("braid.reconciler")


class Drains(Protocol):
    """Who knows which dataflows drain; the committer, or a test."""

    def draining(self) -> Iterable[Draining]:
        """The dataflows that drain."""

    def drained(self, dataflow: str) -> None:
        """What the sources of one had sent is worked off."""


class Reconciler:
    """Drives hosts from `start` to `stop`."""

    def __init__(  # noqa: PLR0913 - what is wanted, what is seen, whom to tell what, and when to act are eight things
        self,
        wanting: Wanting,
        listener: Listener,
        events: Events,
        *,
        dataflows: Concerning | None = None,
        belongs: Callable[[str], bool] = lambda _job: False,
        leads: Callable[[], bool] = lambda: True,
        on_gone: Callable[[str], None] = lambda _job: None,
        drains: Drains | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """While this manager does not lead, nothing is done.

        `belongs` says of a job that nobody wants whether it is this service's to stop. `on_gone` is told of each
        job that was to stop and is stopped.
        """
        self._wanting = wanting
        self._listener = listener
        self._events = events
        self._dataflows = dataflows
        self._belongs = belongs
        self._leads = leads
        self._on_gone = on_gone
        self._drains = drains
        self._wished: dict[str, float] = {}
        self._clock = clock
        self._memory = Memory()
        self._connection = 0
        self._waits: Mapping[str, str] = {}
        self._settled = False
        self._before: _Before | None = None
        self._states: dict[str, DataflowState] = {}
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciles", daemon=True)

    def start(self) -> None:
        """Drive hosts from now on."""
        self._wanting.on_change(self.wake)
        self._listener.on_news(self.wake)
        self._thread.start()

    def stop(self) -> None:
        """Drive them no more; once is enough."""
        self._stopping.set()
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()

    def wake(self) -> None:
        """There is news; from any thread."""
        self._woken.set()

    @property
    def waits(self) -> Mapping[str, str]:
        """For each job that was not told yet what is wanted of it, what it waits for; from any thread."""
        return self._waits

    @property
    def settled(self) -> bool:
        """Whether hosts have once taken up all that was wanted, but for what cannot come; from any thread."""
        return self._settled

    def look(self) -> None:
        """Publish what is due now, and tell what has become of jobs and dataflows."""
        # What is seen first: a job that was committed since cannot be taken for one that nobody wants.
        sight = self._listener.sight()
        if not sight.complete or not self._leads():
            return
        wanted = self._wanting.wanted()
        if not self._leads():
            # Who does not lead any more wants nothing, which must not be taken for that all shall stop.
            return
        if sight.connection != self._connection:
            # What was sent over the last one may be lost.
            self._connection, self._memory = sight.connection, Memory()
        decision = decide(wanted, sight, self._memory, self._clock(), belongs=self._belongs)
        for step in decision.steps:
            self._do(step)
        self._memory, self._waits = decision.memory, decision.waits
        self._settled = self._settled or not decision.behind
        for job in sorted(decision.gone & wanted.keys()):
            self._on_gone(job)
        if self._drains is not None:
            self._drain(self._drains, sight)
        self._tell(_Before(wanted=wanted, sight=sight))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.wait(LOOKING)
            self._woken.clear()
            try:
                self.look()
            except Exception:  # a database that is away for a while must not end the only one that drives hosts
                log.exception("hosts and jobs stay as they are until the next look")
                self._stopping.wait(FALLING)

    def _drain(self, drains: Drains, sight: Sight) -> None:
        now = time.time()
        jobs = {name: each.seen for name, each in sight.jobs.items() if each.seen is not None}
        for step in drain(drains.draining(), jobs, sight.hosts, self._wished, now):
            match step:
                case Wish(host=host, wish=wish):
                    self._wished[wish.cut] = now
                    self._listener.publish(topics.host(host, "cut"), written_cut(wish))
                case Drained(dataflow=dataflow):
                    log.info("dataflow %s has drained", dataflow)
                    drains.drained(dataflow)
        self._wished = {cut: at for cut, at in self._wished.items() if now - at < WISHING}

    def _do(self, step: Tell | Clean) -> None:
        match step:
            case Tell(job=job, plan=None):
                log.info("job %s shall stop", job)
                self._listener.publish(topics.job(job, "plan"), b"", retain=True)
            case Tell(job=job, plan=plan) if plan is not None:
                log.info("job %s shall run version %d on host %s", job, plan.version, plan.host)
                self._listener.publish(topics.job(job, "plan"), written_plan(plan), retain=True)
            case Clean(job=job):
                self._listener.publish(topics.job(job, "status"), b"", retain=True)

    def _tell(self, now: "_Before") -> None:
        """Tell what is not as it was; what is found at the first look is no news."""
        before, self._before = self._before, now
        changed = now.changed(before)
        if before is not None:
            for job in sorted(changed):
                if now.seen(job) != before.seen(job):
                    self._events.tell("job", _job_told(job, now.sight))
        if self._dataflows is not None and changed:
            self._tell_dataflows(self._dataflows, now, now.ailing(before), first=before is None)

    def _tell_dataflows(self, dataflows: Concerning, now: "_Before", jobs: set[str], *, first: bool) -> None:
        """Tell of the dataflows whose state may have changed: those that are new, or not running, or in these jobs."""
        every = dataflows.every()
        asked = (every - self._states.keys()) | dataflows.in_jobs(jobs)
        asked |= {name for name, state in self._states.items() if state is not DataflowState.RUNNING}
        seen = {name: sight.seen for name, sight in now.sight.jobs.items() if sight.seen is not None}
        for name, each in sorted(dataflows.concerned(asked).items()):
            found, known = find(each.needs, seen, now.sight.hosts), self._states.get(name)
            state = known or DataflowState.DEPLOYING
            state = reduce(turn, path(state, found), state)
            if known != state and not first:
                told = {"dataflow": each.dataflow, "tenant": each.tenant, "state": state, "reason": found.reason}
                self._events.tell("dataflow", told)
            self._states[name] = state
        for name in self._states.keys() - every:
            del self._states[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What was wanted and seen at one look."""

    wanted: Mapping[str, WantedJob]
    sight: Sight

    def seen(self, job: str) -> object:
        """What of a job would be news."""
        sight = self.sight.jobs.get(job)
        return news_of(sight.seen) if sight else None

    def changed(self, other: "_Before | None") -> set[str]:
        """The jobs of which something is not as it was; all of them at the first look."""
        every = self.wanted.keys() | self.sight.jobs.keys()
        if other is None:
            return set(every)
        every |= other.wanted.keys() | other.sight.jobs.keys()
        return {
            job for job in every if self.seen(job) != other.seen(job) or self.version(job) != other.version(job)
        } | self.ailing(other)

    def ailing(self, other: "_Before | None") -> set[str]:
        """The jobs whose health, or whose host's, is not as it was; none at the first look."""
        if other is None:
            return set()
        every = self.sight.hosts.keys() | other.sight.hosts.keys()
        turned = {name for name in every if self.alive(name) != other.alive(name)}
        return {
            job for job, wanted in self.wanted.items() if wanted.host in turned or self.health(job) != other.health(job)
        }

    def health(self, job: str) -> object:
        """What of a job may make dataflows degraded."""
        sight = self.sight.jobs.get(job)
        if sight is None or sight.seen is None:
            return None
        return sight.seen.state, sight.seen.refused, sight.seen.host, tuple(sorted(sight.seen.failed.items()))

    def alive(self, host: str) -> bool:
        """Whether a host is there."""
        seen: HostSeen | None = self.sight.hosts.get(host)
        return seen is not None and seen.alive

    def version(self, job: str) -> object:
        """Which plan is wanted of a job."""
        wanted = self.wanted.get(job)
        return (wanted.plan.term, wanted.plan.version) if wanted is not None and wanted.plan is not None else None


def _job_told(job: str, sight: Sight) -> dict[str, object]:
    known = sight.jobs.get(job)
    seen = known.seen if known else None
    if seen is None:
        return {"job": job, "state": "gone"}
    return {
        "job": job,
        "host": seen.host,
        "state": seen.state,
        "trouble": seen.trouble or seen.refused,
        "version": seen.version,
        "in_effect": seen.in_effect,
        "failed": {str(instance): reason for instance, reason in sorted(seen.failed.items())},
    }
