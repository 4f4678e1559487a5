"""The reconciler: one thread that drives hosts and jobs to the committed state, and tells of what becomes of them.

It looks whenever something is committed, something is heard, or a connection begins, and every two seconds. No request
waits for it, and it waits for no host: it publishes what is due, and what is seen next decides what comes then.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from bridge import topics
from engine.log_lines import about
from engine.plan_messages import written_cut, written_plan
from manager.committed.wanted import Draining, Moving, WantedJob, Wanting
from manager.observations.listener import Listener, Sight
from manager.problem import Conflict, DatabaseAway
from manager.reconciler.activity import ReconcilerActivity
from manager.reconciler.concerning import Concerning
from manager.reconciler.drains import WISHING, Drained, Wish, drain
from manager.reconciler.job_decisions import Clean, Memory, PublishPlan, decide, has_taken_up
from manager.reconciler.live_events import Events
from manager.reconciler.moves import Turn, go_on, wish_of
from manager.reconciler.state_changes import ReconcilerLook, StateReporter
from manager.transitions.life import MOVE_EVENTS, Phase, TransitionEvent
from merge import JobId

_LOOK_EVERY = 2.0
"""Seconds between two looks where there is no news."""
FALLING = 1.0
"""Seconds without a look after one that failed."""
RUN, STOP, CLEAN = _STEPS = ("run", "stop", "clean")
"""What hosts are told to do with a job: to run a plan, to stop it, and to keep nothing more of it."""
log = logging.getLogger("braid.reconciler")


class Drains(Protocol):
    """Ends drains; the committer, or a test."""

    def under_way(self) -> Iterable[Draining]:
        """The dataflows that drain."""

    def drained(self, dataflow: str) -> None:
        """What the sources of one had sent is worked off."""


class Moves(Protocol):
    """Takes moves on; the committer, or a test."""

    def under_way(self) -> Iterable[Moving]:
        """The moves under way."""

    def cut(self, move: int) -> None:
        """All are ready for the cut."""

    def take_over(self, move: int, passed: Mapping[JobId, Mapping[str, int]]) -> None:
        """All have passed it."""

    def go_back(self, move: int, *, why: str) -> None:
        """Something hinders it once the cut may have been taken."""

    def put_off(self, move: int, *, why: str) -> None:
        """Something hinders it before."""

    def end(self, move: int) -> None:
        """All have begun."""


class Reconciler:
    """Drives hosts from `start` to `stop`."""

    def __init__(  # noqa: PLR0913 - what is wanted, what is seen, whom to tell what, and when to act are nine things
        self,
        wanting: Wanting,
        listener: Listener,
        events: Events,
        *,
        dataflows: Concerning | None = None,
        belongs: Callable[[str], bool] = lambda _job: False,
        leads: Callable[[], bool] = lambda: True,
        on_gone: Callable[[str], None] = lambda _job: None,
        on_fed: Callable[[str, int], None] = lambda _job, _version: None,
        drains: Drains | None = None,
        moves: Moves | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """While this manager does not lead, nothing is done.

        `belongs` says of a job that nobody wants whether it is this service's to stop. `on_gone` is told of each
        job that was to stop and is stopped, `on_fed` of each that has run a plan that feeds it something.
        """
        self._wanting = wanting
        self._listener = listener
        self._teller = StateReporter(events, dataflows)
        self._belongs = belongs
        self._leads = leads
        self._on_gone = on_gone
        self._on_fed = on_fed
        self._drains = drains
        self._moves = moves
        self._wished: dict[str, float] = {}
        self._clock = clock
        self._memory = Memory()
        self._connection = 0
        self._waits: Mapping[str, str] = {}
        self._settled = False
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciles", daemon=True)
        # Only its thread counts; whoever reads them in between misses one at most.
        self._looks = self._failures = 0
        self._steps, self._turns = Counter[str](), Counter[str]()

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

    @property
    def driven(self) -> ReconcilerActivity:
        """What was done so far; from any thread."""
        return ReconcilerActivity(
            connected=self._listener.sight().complete,
            unread=self._listener.malformed,
            looks=self._looks,
            failures=self._failures,
            steps={step: self._steps[step] for step in _STEPS},
            turns={str(event): self._turns[event] for event in MOVE_EVENTS},
            dataflows={str(state): count for state, count in self._teller.states.items()},
        )

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
            with about(job=step.job):
                self._do(step)
        self._memory, self._waits = decision.memory, decision.waits
        self._settled = self._settled or not decision.behind
        for job in sorted(decision.gone & wanted.keys()):
            self._on_gone(job)
        for job, version in _fed(wanted, sight):
            self._on_fed(job, version)
        if self._drains is not None:
            self._drain(self._drains, sight)
        if self._moves is not None:
            self._go_on(self._moves, sight)
        self._teller.tell(ReconcilerLook(wanted=wanted, sight=sight))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.wait(_LOOK_EVERY)
            self._woken.clear()
            self._looks += 1
            try:
                self.look()
            except DatabaseAway as error:
                self._failures += 1
                # The store has said so already; hosts and jobs run on as they are.
                log.debug("the next look waits: %s", error)
                self._stopping.wait(FALLING)
            except Exception:  # whatever it is must not end the only one that drives hosts
                self._failures += 1
                log.exception("hosts and jobs stay as they are until the next look")
                self._stopping.wait(FALLING)

    def _drain(self, drains: Drains, sight: Sight) -> None:
        now = time.time()
        jobs = {name: each.seen for name, each in sight.jobs.items() if each.seen is not None}
        for step in drain(drains.under_way(), jobs, sight.hosts, self._wished, now):
            match step:
                case Wish(host=host, wish=wish):
                    self._wished[wish.cut] = now
                    self._listener.publish(topics.host(host, "cut"), written_cut(wish))
                case Drained(dataflow=dataflow):
                    with about(dataflow=dataflow):
                        log.info("dataflow %s has drained", dataflow)
                        drains.drained(dataflow)
        self._wished = {cut: at for cut, at in self._wished.items() if now - at < WISHING}

    def _go_on(self, moves: Moves, sight: Sight) -> None:
        now = time.time()
        for step in go_on(tuple(moves.under_way()), sight, self._wished, now):
            match step:
                case Wish(host=host, wish=wish):
                    self._wished[wish_of(wish)] = now
                    self._listener.publish(topics.host(host, "cut"), written_cut(wish))
                case Turn(move=move):
                    self._turns[step.event] += 1
                    try:
                        _turn(moves, step)
                    except Conflict as error:
                        log.debug("the move %s: %s", move.cut, error)

    def _do(self, step: PublishPlan | Clean) -> None:
        match step:
            case PublishPlan(job=job, plan=None):
                self._steps[STOP] += 1
                log.info("job %s shall stop", job)
                self._listener.publish(topics.job(job, "plan"), b"", retain=True)
            case PublishPlan(job=job, plan=plan) if plan is not None:
                self._steps[RUN] += 1
                log.info("job %s shall run version %d on host %s", job, plan.version, plan.host)
                self._listener.publish(topics.job(job, "plan"), written_plan(plan), retain=True)
            case Clean(job=job):
                self._steps[CLEAN] += 1
                self._listener.publish(topics.job(job, "status"), b"", retain=True)


def _turn(moves: Moves, turn: Turn) -> None:
    move = turn.move
    log.info("the move %s: %s%s", move.cut, turn.event, f", because {turn.why}" if turn.why else "")
    match turn.event:
        case TransitionEvent.READY:
            moves.cut(move.id)
        case TransitionEvent.PASSED:
            moves.take_over(move.id, turn.passed)
        case TransitionEvent.BEGUN:
            moves.end(move.id)
        case TransitionEvent.HINDERED if move.phase is Phase.PREPARING:
            moves.put_off(move.id, why=turn.why)
        case TransitionEvent.HINDERED:
            moves.go_back(move.id, why=turn.why)


def _fed(wanted: Mapping[str, WantedJob], sight: Sight) -> Iterator[tuple[str, int]]:
    """The jobs that have taken what their plans feed them, each with the version of its plan."""
    for name, job in wanted.items():
        if job.plan is not None and job.plan.feeds and name in sight.jobs:
            seen = sight.jobs[name].seen
            if seen is not None and has_taken_up(seen, job.plan) and seen.in_effect >= job.plan.version:
                yield name, job.plan.version
