"""What has to be told so that jobs become what is wanted of them: pure decisions on what is wanted and what is seen.

Order matters only where streams cross jobs:

1. A job that newly reads a stream has logged the plan that does so before the plan is told that forwards the stream. By
   then its host has joined the spool and the broker has confirmed the subscription, so that nothing of the stream is
   lost, whenever the job's first batch comes. It need not run yet: a new job takes seconds to start, and its producer
   begins meanwhile.
2. A job that reads a stream no longer is told so after its producer has ended the stream. A job that goes on keeps its
   spools for some batches, in which it hears of the end, so it waits only until the producer runs the plan without the
   forward. A job that is stopped lets go at once, so it waits until it has confirmed the end: else the producer would
   keep records for it for ever. A producer that is stopped itself ends no stream, and nobody waits for it.

A job of which both is true, that begins to read one stream and leaves another, follows the first rule only. So who
waits by the second rule is waited for by nobody, streams lead in no circle by the first, and nobody waits for ever.
Moreover, nobody waits for a job that cannot come (its host is away, or refused its plan, or it died), nor longer than
`_PATIENCE` for any: streams are numbered, and who comes late asks for what it misses. A job that fails holds up nobody.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from bridge.machine.back_off import BackOff
from engine.job.lifecycle import JobState
from engine.plan import Plan, Port
from manager.committed.wanted import WantedJob
from manager.observations.host_messages import PlanWiring, wiring
from manager.observations.listener import JobSight, Sight
from manager.observations.reports import JobSeen
from manager.transitions.move import MOVE_CUTS

_PATIENCE = 15.0
"""Seconds that a job may wait for others before it is told nevertheless."""
_BACK_OFF = BackOff((5.0, 15.0, 60.0, 300.0))
"""Seconds after which a host that is there and did not take up a plan, or refused it, is told again."""
_ENDING = {JobState.STOPPING, JobState.CANCELLING, JobState.STUCK, JobState.STOPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishPlan:
    """A job's plan is to be published, or that it shall stop; made by `decide`."""

    job: str
    plan: Plan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """A job is gone, so what the broker keeps of it is to go too; made by `decide`."""

    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPublished:
    """What was published last for a job since there is this connection."""

    plan: tuple[int, int, str] | None
    """Term, version and host; None where it shall stop."""
    at: float
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one decision has to know of those before it."""

    told: Mapping[str, LastPublished] = field(default_factory=lambda: MappingProxyType({}))
    waiting: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Since when jobs wait for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now; made by `decide`."""

    steps: tuple[PublishPlan | Clean, ...] = ()
    waits: Mapping[str, str] = field(default_factory=dict)
    """For each job that is not told yet what it waits for."""
    gone: frozenset[str] = frozenset()
    """Jobs that were to stop and are stopped, so that nothing needs to be wanted of them any more."""
    behind: frozenset[str] = frozenset()
    """Jobs that are not as they are wanted yet, and may be expected to become so."""
    memory: Memory


def decide(
    wanted: Mapping[str, WantedJob],
    sight: Sight,
    memory: Memory,
    now: float,
    *,
    belongs: Callable[[str], bool] = lambda _job: True,
) -> Decision:
    """What has to be published now. Jobs that nobody wants are stopped where they belong to this service.

    Nothing is decided before all is known that the broker has.
    """
    if not sight.complete:
        return Decision(memory=memory)
    ground = _Ground(wanted, sight, memory, now)
    unwanted = [job for job in sight.jobs if job not in wanted and belongs(job)]
    for job in sorted([*wanted, *unwanted]):
        ground.settle(job)
    return Decision(
        steps=tuple(ground.steps),
        waits=ground.waits,
        gone=frozenset(ground.gone),
        behind=frozenset(ground.behind),
        memory=Memory(
            told={job: told for job, told in ground.told.items() if job in wanted or job in sight.jobs},
            waiting={job: memory.waiting.get(job, now) for job in ground.waits},
        ),
    )


def has_taken_up(seen: JobSeen | None, plan: Plan) -> bool:
    """Whether the host that a plan names has logged it, or a newer one, and means to run it."""
    return (
        seen is not None
        and seen.host == plan.host
        and (seen.term, seen.version) >= (plan.term, plan.version)
        and seen.state not in _ENDING
    )


class _Ground:
    """One decision while it is made."""

    def __init__(self, wanted: Mapping[str, WantedJob], sight: Sight, memory: Memory, now: float) -> None:
        self.steps: list[PublishPlan | Clean] = []
        self.waits: dict[str, str] = {}
        self.gone: set[str] = set()
        self.behind: set[str] = set()
        self.told = dict(memory.told)
        self._wanted = wanted
        self._sight = sight
        self._waiting = memory.waiting
        self._now = now

    # Most decisions are on jobs whose streams stay as they are, and ask for neither.
    @cached_property
    def _readers(self) -> Mapping[Port, list[str]]:
        found: dict[Port, list[str]] = {}
        for name, job in self._wanted.items():
            for origin in wiring(job.plan).reads if job.plan else ():
                found.setdefault(origin, []).append(name)
        return found

    @cached_property
    def _producers(self) -> Mapping[Port, list[str]]:
        found: dict[Port, list[str]] = {}
        for name, seen in self._sight.jobs.items():
            for origin in seen.may_send:
                found.setdefault(origin, []).append(name)
        return found

    def settle(self, job: str) -> None:
        """Decide on one job."""
        wanted = self._wanted.get(job)
        if wanted is None or wanted.plan is None:
            self._stop(job)
        elif not has_taken_up(self._of(job).seen, wanted.plan):
            if self._can_come(job):
                self.behind.add(job)
            self._tell(job, wanted.plan, _key(wanted.plan), self._what_it_waits_for(job, wanted.plan))

    def _stop(self, job: str) -> None:
        sight = self._of(job)
        ran = sight.seen is not None and sight.seen.state not in {"", JobState.STOPPED}
        told = self.told.get(job)
        # One that was told a plan a moment ago may be about to start.
        if ran or sight.planned is not None or (told is not None and told.plan is not None):
            self._tell(job, None, None, next(self._left(job, frozenset(), stopping=True), "") or self._keeps(job))
            return
        self.gone.add(job)
        self.told.pop(job, None)
        if sight.seen is not None:
            self.steps.append(Clean(job=job))

    def _keeps(self, job: str) -> str:
        """Whether it keeps states yet: once it is stopped it says nothing of them, and nobody would release them."""
        seen = self._of(job).seen
        kept = sorted(cut for cut in seen.cuts if cut.startswith(MOVE_CUTS)) if seen is not None else []
        return f"its states at the cut {kept[0]!r} are to be released first" if kept else ""

    def _tell(self, job: str, plan: Plan | None, key: tuple[int, int, str] | None, waits: str) -> None:
        told = self.told.get(job)
        planned = self._of(job).planned
        if told is None and planned is not None and _key(planned) == key:
            # Whoever led before has told it, and the broker keeps it.
            self.told[job] = LastPublished(plan=key, at=self._now)
            return
        again = told is not None and told.plan == key
        if told is not None and again:
            due = told.at + _BACK_OFF.after(told.times)
            if self._now < due or not self._is_there(job):
                return
        elif waits and self._now - self._waiting.get(job, self._now) < _PATIENCE:
            self.waits[job] = waits
            return
        self.steps.append(PublishPlan(job=job, plan=plan))
        self.told[job] = LastPublished(
            plan=key, at=self._now, times=told.times + 1 if told is not None and again else 1
        )

    def _what_it_waits_for(self, job: str, plan: Plan) -> str:
        if plan.at_cut:
            # Whoever it waits for ends its streams there too.
            return ""
        runs, comes = self._of(job).taken_up, wiring(plan)
        begun = comes.forwards - (runs.forwards if runs else frozenset())
        for origin in sorted(begun):
            for reader in self._readers.get(origin, ()):
                if reader != job and not self._reads(reader, origin) and self._can_come(reader):
                    return f"job {reader} is to read {origin.port!r} of instance {origin.instance} first"
        # Whoever begins to read may be waited for, and so waits for nobody.
        if runs is None or comes.reads - runs.reads:
            return ""
        return next(self._left(job, comes.reads, stopping=False), "")

    def _left(self, job: str, kept: frozenset[Port], *, stopping: bool) -> Iterator[str]:
        """Which producers have not ended the streams yet that a job reads no longer."""
        runs = self._of(job).taken_up
        for origin in sorted((runs.reads if runs else frozenset()) - kept):
            for producer in self._producers.get(origin, ()):
                if producer != job and self._still_sends(producer, origin, stopping=stopping):
                    yield f"job {producer} is to end {origin.port!r} of instance {origin.instance} first"

    def _still_sends(self, producer: str, origin: Port, *, stopping: bool) -> bool:
        wanted, seen = self._wanted.get(producer), self._of(producer).seen
        if wanted is None or wanted.plan is None or origin in wiring(wanted.plan).forwards:
            return False
        if not self._can_come(producer):
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

    def _can_come(self, job: str) -> bool:
        """Whether a job may be expected to become what is wanted of it soon."""
        sight, wanted = self._of(job), self._wanted.get(job)
        if not self._is_there(job):
            return False
        if sight.seen is None or wanted is None or wanted.plan is None:
            return True
        refused = sight.seen.refused and sight.planned is not None and _key(sight.planned) == _key(wanted.plan)
        return sight.seen.state != JobState.DIED and not refused

    def _is_there(self, job: str) -> bool:
        """Whether the host that has to act on a job is there."""
        wanted, seen = self._wanted.get(job), self._of(job).seen
        name = wanted.plan.host if wanted is not None and wanted.plan is not None else seen.host if seen else ""
        host = self._sight.hosts.get(name)
        return host is not None and host.alive

    def _of(self, job: str) -> JobSight:
        return self._sight.jobs.get(job, _NOTHING)


_NOTHING = JobSight()


def _key(plan: Plan | PlanWiring) -> tuple[int, int, str]:
    return plan.term, plan.version, plan.host
