"""Decisions on which plans to publish, and when: pure functions of the wanted jobs and the observed ones.

The order of publishing matters only for streams between jobs:

1. A plan that starts to forward a stream is published after every new reader of the stream has logged the plan that
   reads it. By then the reader's host has joined the spool and the broker has confirmed its subscription, so no event
   is lost however late the reader's first batch is. The reader does not have to run yet: a new job takes seconds to
   start, and its producer can start meanwhile.
2. A plan that stops reading a stream is published after the producer has ended the stream. A reader that keeps running
   keeps the spool for some batches and receives the end during these, so it waits only until the producer runs the plan
   without the forward. A reader that is stopped releases its spools at once, so it waits until it has confirmed the
   end; otherwise the producer would keep records for it forever. A producer that is stopped ends no stream, and no
   reader waits for it.

A job that starts to read one stream and stops reading another follows the first rule only. So no job waits for one that
waits under the second rule, and waits under the first rule follow the streams, which have no cycles: nothing deadlocks.
No job waits for another that cannot take up its plan (its host is away or refused the plan, or the job died), and none
waits longer than `_PATIENCE`: streams are numbered, so a late reader requests the events that it missed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from bridge.machine import BackOff
from engine.job.lifecycle import JobState
from engine.plan import Plan, Port
from manager.kernel.transitions import MOVE_CUTS
from manager.kernel.wanted import WantedJob
from manager.observations.messages import PlanWiring, wiring
from manager.observations.reports import JobSeen
from manager.observations.sight import JobSight, Sight

_PATIENCE = 15.0
"""Seconds that a plan waits for other jobs before it is published anyway."""
_BACK_OFF = BackOff((5.0, 15.0, 60.0, 300.0))
"""Seconds after which a plan is published again that a live host did not take up, or refused."""
_ENDING = {JobState.STOPPING, JobState.CANCELLING, JobState.STUCK, JobState.STOPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPlan:
    """A plan to publish."""

    job: str
    plan: Plan | None
    """None stops the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """A job that is gone, whose retained messages are to be cleared."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPublished:
    """The plan last published for a job over this connection."""

    plan: tuple[int, int, str] | None
    """Term, version and host; None if the job is to stop."""
    at: float
    times: int = 1
    """The number of times that it was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The state carried from one decision to the next."""

    published: Mapping[str, LastPublished] = field(default_factory=lambda: MappingProxyType({}))
    waiting: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The time since when each job waits for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The steps to take now."""

    steps: tuple[PublishPlan | Clean, ...] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    """The reason why each waiting job waits."""
    gone: frozenset[str] = frozenset()
    """Jobs that have stopped as wanted, and can be forgotten."""
    behind: frozenset[str] = frozenset()
    """Jobs that have not taken up their plan yet, but are expected to."""
    memory: Memory


def decide(  # noqa: PLR0913 - what is wanted and seen, the last decision, the clock, and two sets of jobs
    wanted: Mapping[str, WantedJob],
    sight: Sight,
    memory: Memory,
    now: float,
    *,
    belongs: Callable[[str], bool] = lambda _job: True,
    awaited: frozenset[str] = frozenset(),
) -> Decision:
    """Decide what to publish now. Unwanted jobs are stopped if they belong to this service.

    The reports of `awaited` jobs are still needed, so these are not forgotten though they have stopped.

    Nothing is decided before all the broker's retained messages have arrived.
    """
    if not sight.complete:
        return Decision(memory=memory)
    making = _DecisionInProgress(wanted, sight, memory, now, awaited)
    unwanted = [job for job in sight.jobs if job not in wanted and belongs(job)]
    for job in sorted([*wanted, *unwanted]):
        making.settle(job)
    return Decision(
        steps=tuple(making.steps),
        waits=making.waits,
        gone=frozenset(making.gone),
        behind=frozenset(making.behind),
        memory=Memory(
            published={job: last for job, last in making.published.items() if job in wanted or job in sight.jobs},
            waiting={job: memory.waiting.get(job, now) for job in making.waits},
        ),
    )


def has_taken_up(seen: JobSeen | None, plan: Plan) -> bool:
    """Return true once the plan's host has logged it, or a newer one, unless the job is ending."""
    return (
        seen is not None
        and seen.host == plan.host
        and (seen.term, seen.version) >= (plan.term, plan.version)
        and seen.state not in _ENDING
    )


class _DecisionInProgress:
    """A decision while it is made, job by job."""

    def __init__(
        self, wanted: Mapping[str, WantedJob], sight: Sight, memory: Memory, now: float, awaited: frozenset[str]
    ) -> None:
        self.steps: list[PublishPlan | Clean] = []
        self.waits: dict[str, str] = {}
        self.gone: set[str] = set()
        self.behind: set[str] = set()
        self.published = dict(memory.published)
        self._wanted = wanted
        self._sight = sight
        self._waiting = memory.waiting
        self._now = now
        self._awaited = awaited

    # Most decisions are about jobs whose streams do not change, and need neither.
    @cached_property
    def _readers(self) -> Mapping[Port, list[str]]:
        readers: dict[Port, list[str]] = {}
        for name, job in self._wanted.items():
            for origin in wiring(job.plan).reads if job.plan else ():
                readers.setdefault(origin, []).append(name)
        return readers

    @cached_property
    def _producers(self) -> Mapping[Port, list[str]]:
        producers: dict[Port, list[str]] = {}
        for name, seen in self._sight.jobs.items():
            for origin in seen.may_send:
                producers.setdefault(origin, []).append(name)
        return producers

    def settle(self, job: str) -> None:
        """Decide on one job."""
        wanted = self._wanted.get(job)
        if wanted is None or wanted.plan is None:
            self._stop(job)
        elif not has_taken_up(self._of(job).seen, wanted.plan):
            if self._is_expected(job):
                self.behind.add(job)
            self._publish(job, wanted.plan, _key(wanted.plan), self._reason_to_wait(job, wanted.plan))

    def _stop(self, job: str) -> None:
        sight = self._of(job)
        ran = sight.seen is not None and sight.seen.state not in {"", JobState.STOPPED}
        last = self.published.get(job)
        # A job whose plan was published a moment ago may be about to start.
        if ran or sight.planned is not None or (last is not None and last.plan is not None):
            reason = next(self._unended_streams(job, frozenset(), stopping=True), "") or self._kept_states(job)
            self._publish(job, None, None, reason)
            return
        if sight.seen is not None and job in self._awaited:
            return
        self.gone.add(job)
        self.published.pop(job, None)
        if sight.seen is not None:
            self.steps.append(Clean(job=job))

    def _kept_states(self, job: str) -> str:
        """Return the reason to wait if the job keeps states: a stopped job no longer reports them for release."""
        seen = self._of(job).seen
        kept = sorted(cut for cut in seen.cuts if cut.startswith(MOVE_CUTS)) if seen is not None else []
        return f"its states at the cut {kept[0]!r} are to be released first" if kept else ""

    def _publish(self, job: str, plan: Plan | None, key: tuple[int, int, str] | None, reason_to_wait: str) -> None:
        last = self.published.get(job)
        planned = self._of(job).planned
        if last is None and planned is not None and _key(planned) == key:
            # The manager that led before has published it, and the broker retains it.
            self.published[job] = LastPublished(plan=key, at=self._now)
            return
        times = 1
        if last is not None and last.plan == key:
            due = last.at + _BACK_OFF.after(last.times)
            if self._now < due or not self._host_is_alive(job):
                return
            times = last.times + 1
        elif reason_to_wait and self._now - self._waiting.get(job, self._now) < _PATIENCE:
            self.waits[job] = reason_to_wait
            return
        self.steps.append(PublishPlan(job=job, plan=plan))
        self.published[job] = LastPublished(plan=key, at=self._now, times=times)

    def _reason_to_wait(self, job: str, plan: Plan) -> str:
        if plan.at_cut or (plan.switch is not None and plan.switch.awaits):
            # The producers end their streams at the same cut, or send the marker once this plan is logged.
            return ""
        runs, comes = self._of(job).taken_up, wiring(plan)
        begun = comes.forwards - (runs.forwards if runs else frozenset())
        for origin in sorted(begun):
            for reader in self._readers.get(origin, ()):
                if reader != job and not self._reads(reader, origin) and self._is_expected(reader):
                    return f"job {reader} is to read {origin.port!r} of instance {origin.instance} first"
        # Other jobs may wait for one that starts to read a stream, so it waits for none.
        if runs is None or comes.reads - runs.reads:
            return ""
        return next(self._unended_streams(job, comes.reads, stopping=False), "")

    def _unended_streams(self, job: str, kept: frozenset[Port], *, stopping: bool) -> Iterator[str]:
        """Yield a reason to wait for each producer that has not ended a stream which the job stops reading."""
        runs = self._of(job).taken_up
        for origin in sorted((runs.reads if runs else frozenset()) - kept):
            for producer in self._producers.get(origin, ()):
                if producer != job and self._still_sends(producer, origin, stopping=stopping):
                    yield f"job {producer} is to end {origin.port!r} of instance {origin.instance} first"

    def _still_sends(self, producer: str, origin: Port, *, stopping: bool) -> bool:
        wanted, seen = self._wanted.get(producer), self._of(producer).seen
        if wanted is None or wanted.plan is None or origin in wiring(wanted.plan).forwards:
            return False
        if not self._is_expected(producer):
            return False
        if seen is None or not has_taken_up(seen, wanted.plan) or seen.in_effect < wanted.plan.version:
            return True
        return stopping and origin in self._of(producer).unconfirmed

    def _reads(self, job: str, origin: Port) -> bool:
        runs = self._of(job).taken_up
        if runs is not None:
            return origin in runs.reads
        plan = self._wanted[job].plan
        return plan is not None and has_taken_up(self._of(job).seen, plan)

    def _is_expected(self, job: str) -> bool:
        """Return true if the job can be expected to take up its plan soon."""
        sight, wanted = self._of(job), self._wanted.get(job)
        if not self._host_is_alive(job):
            return False
        if sight.seen is None or wanted is None or wanted.plan is None:
            return True
        refused = sight.seen.refused and sight.planned is not None and _key(sight.planned) == _key(wanted.plan)
        return sight.seen.state != JobState.DIED and not refused

    def _host_is_alive(self, job: str) -> bool:
        """Return true if the host that has to act on the job is alive."""
        wanted, seen = self._wanted.get(job), self._of(job).seen
        name = wanted.plan.host if wanted is not None and wanted.plan is not None else seen.host if seen else ""
        host = self._sight.hosts.get(name)
        return host is not None and host.alive

    def _of(self, job: str) -> JobSight:
        return self._sight.jobs.get(job, _NOTHING)


_NOTHING = JobSight()


def _key(plan: Plan | PlanWiring) -> tuple[int, int, str]:
    return plan.term, plan.version, plan.host
