"""The reconcile loop: one thread that drives hosts and jobs to the committed state, and reports their state changes.

It looks after every commit, every message, every new connection, and every two seconds. No request waits for it, and it
waits for no host: it publishes the steps that are due, and decides the next ones from what it observes at a later look.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from bridge import topics
from engine.log_lines import about
from engine.plan_messages import EndsQuestion, written_cut, written_plan, written_question
from manager.jobs.decisions import Clean, Memory, PublishPlan, decide, has_taken_up
from manager.kernel.dataflow_life import DataflowLookup
from manager.kernel.live_events import Delays, LiveEvents, ReconcilerActivity, ReconcilerLook, StateReporter
from manager.kernel.older_events import NO_CLEARANCES, REPEAT_WISH_AFTER, Drained, Wish, drain, look_on
from manager.kernel.transitions import MOVE_EVENTS, RECONFIGURATION_EVENTS, Phase, TransitionEvent
from manager.kernel.wanted import Draining, Moving, WantedJob, Wanting
from manager.moves.turns import Turn, go_on, wish_key
from manager.observations.listener import Listener
from manager.observations.sight import Sight
from manager.problem import Conflict, DatabaseAway, StateNotReady
from manager.reconfigurations.turns import ReconfigurationKeeper, ReconfigurationTurn, reconfigure, take_turn
from merge import JobId

_LOOK_EVERY = 2.0
"""Seconds between two looks without news."""
_FAILURE_PAUSE = 1.0
"""Seconds between a failed look and the next."""
_RUN, _STOP, _CLEAN = _STEPS = ("run", "stop", "clean")
"""The instructions for a job: run a plan, stop, and clear the retained status."""
log = logging.getLogger("braid.reconciler")


class Drains(Protocol):
    """The drains under way; the committer, or a test."""

    def under_way(self) -> Iterable[Draining]:
        """Return the dataflows that drain."""

    def drained(self, dataflow: str) -> None:
        """Remove a dataflow that has drained."""


class Moves(Protocol):
    """The moves under way; the committer, or a test."""

    def under_way(self) -> Iterable[Moving]:
        """Return the moves under way."""

    def cut(self, move: int) -> None:
        """Start the cut: all jobs are ready."""

    def take_over(self, move: int, passed: Mapping[JobId, Mapping[str, int]]) -> None:
        """Let the new jobs take over: all have passed the cut."""

    def go_back(self, move: int, *, why: str) -> None:
        """Reverse a move that is hindered when the cut may have been taken."""

    def put_off(self, move: int, *, why: str) -> None:
        """Abandon a move that is hindered before the cut."""

    def end(self, move: int) -> None:
        """End the move: all jobs have begun."""


class Reconciler:
    """Drives hosts and jobs from `start` to `stop`."""

    def __init__(  # noqa: PLR0913 - the sources of state, the callbacks and the clock have nothing in common
        self,
        wanting: Wanting,
        listener: Listener,
        events: LiveEvents,
        *,
        dataflows: DataflowLookup | None = None,
        belongs: Callable[[str], bool] = lambda _job: False,
        leads: Callable[[], bool] = lambda: True,
        on_gone: Callable[[str], None] = lambda _job: None,
        on_fed: Callable[[str, int], None] = lambda _job, _version: None,
        drains: Drains | None = None,
        moves: Moves | None = None,
        reconfigurations: ReconfigurationKeeper | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`belongs` decides if an unwanted job is this service's to stop. Nothing is done unless `leads` returns true.

        `on_gone` is called for each job that has stopped as wanted, `on_fed` for each that has run a plan with feeds.
        """
        self._wanting = wanting
        self._listener = listener
        self._reporter = StateReporter(events, dataflows)
        self._belongs = belongs
        self._leads = leads
        self._on_gone = on_gone
        self._on_fed = on_fed
        self._drains = drains
        self._moves = moves
        self._reconfigurations = reconfigurations
        self._wished: dict[str, float] = {}
        self._clearances = NO_CLEARANCES
        self._clock = clock
        self._memory = Memory()
        self._connection = 0
        self._waits: Mapping[str, str] = {}
        self._settled = False
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciles", daemon=True)
        # Written only by the thread; a concurrent reader misses one at most.
        self._looks = self._failures = 0
        self._steps, self._turns, self._reconfigured = Counter[str](), Counter[str](), Counter[str]()
        self._reconfiguration_delays = Delays()

    def start(self) -> None:
        """Start the thread."""
        self._wanting.on_change(self.wake)
        self._listener.on_news(self.wake)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; idempotent."""
        self._stopping.set()
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()

    def wake(self) -> None:
        """Cause a look soon; from any thread."""
        self._woken.set()

    @property
    def waits(self) -> Mapping[str, str]:
        """The reason why each waiting job waits; from any thread."""
        return self._waits

    @property
    def settled(self) -> bool:
        """Whether at some look all expected jobs had taken up their plans; from any thread."""
        return self._settled

    @property
    def driven(self) -> ReconcilerActivity:
        """The activity so far; from any thread."""
        return ReconcilerActivity(
            connected=self._listener.sight().complete,
            unread=self._listener.malformed,
            looks=self._looks,
            failures=self._failures,
            steps={step: self._steps[step] for step in _STEPS},
            turns={str(event): self._turns[event] for event in MOVE_EVENTS},
            reconfigurations={str(event): self._reconfigured[event] for event in RECONFIGURATION_EVENTS},
            reconfiguration_delays=self._reconfiguration_delays,
            dataflows={str(state): count for state, count in self._reporter.states.items()},
        )

    def look(self) -> None:
        """Publish the steps that are due, and report state changes."""
        # The sight comes first, so a job that is committed meanwhile is not taken for an unwanted one.
        sight = self._listener.sight()
        if not sight.complete or not self._leads():
            return
        wanted = self._wanting.wanted()
        if not self._leads():
            # A manager that no longer leads wants no jobs, but that must not stop them.
            return
        if sight.connection != self._connection:
            # Messages sent over the last connection may be lost.
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
        if self._reconfigurations is not None:
            self._reconfigure(self._reconfigurations, sight)
        self._reporter.report(ReconcilerLook(wanted=wanted, sight=sight))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.wait(_LOOK_EVERY)
            self._woken.clear()
            self._looks += 1
            try:
                self.look()
            except DatabaseAway as error:
                self._failures += 1
                # The store has logged the outage already. Hosts and jobs keep running.
                log.debug("the next look waits: %s", error)
                self._stopping.wait(_FAILURE_PAUSE)
            except Exception:  # no error may end the only thread that drives hosts
                self._failures += 1
                log.exception("hosts and jobs stay as they are until the next look")
                self._stopping.wait(_FAILURE_PAUSE)

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
        self._wished = {cut: at for cut, at in self._wished.items() if now - at < REPEAT_WISH_AFTER}

    def _go_on(self, moves: Moves, sight: Sight) -> None:
        now = time.time()
        for step in go_on(tuple(moves.under_way()), sight, self._wished, now):
            match step:
                case Wish(host=host, wish=wish):
                    self._wished[wish_key(wish)] = now
                    self._listener.publish(topics.host(host, "cut"), written_cut(wish))
                case Turn(move=move):
                    self._turns[step.event] += 1
                    try:
                        _turn(moves, step)
                    except Conflict as error:
                        log.debug("the move %s: %s", move.cut, error)

    def _reconfigure(self, reconfigurations: ReconfigurationKeeper, sight: Sight) -> None:
        now, under_way = time.time(), tuple(reconfigurations.under_way())
        self._clearances, questions = look_on(self._clearances, under_way, sight, now)
        for each in questions:
            question = EndsQuestion(asker=self._listener.name, number=each.number, streams=each.streams)
            self._listener.publish(topics.host(each.host, "ask"), written_question(question))
        for step in reconfigure(under_way, sight, self._wished, now, self._clearances):
            match step:
                case Wish(host=host, wish=wish):
                    self._wished[wish_key(wish)] = now
                    self._listener.publish(topics.host(host, "cut"), written_cut(wish))
                case ReconfigurationTurn(reconfiguration=turned):
                    self._reconfigured[step.event] += 1
                    if step.event is TransitionEvent.BEGUN:
                        self._reconfiguration_delays = self._reconfiguration_delays.plus(now - turned.begun)
                    try:
                        take_turn(reconfigurations, step)
                    except (Conflict, StateNotReady) as error:
                        log.debug("the reconfiguration %d: %s", turned.id, error)

    def _do(self, step: PublishPlan | Clean) -> None:
        match step:
            case PublishPlan(job=job, plan=None):
                self._steps[_STOP] += 1
                log.info("job %s shall stop", job)
                self._listener.publish(topics.job(job, "plan"), b"", retain=True)
            case PublishPlan(job=job, plan=plan) if plan is not None:
                self._steps[_RUN] += 1
                log.info("job %s shall run version %d on host %s", job, plan.version, plan.host)
                self._listener.publish(topics.job(job, "plan"), written_plan(plan), retain=True)
            case Clean(job=job):
                self._steps[_CLEAN] += 1
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
    """Yield each job that has run a plan with feeds, with the plan's version."""
    for name, job in wanted.items():
        if job.plan is not None and job.plan.feeds and name in sight.jobs:
            seen = sight.jobs[name].seen
            if seen is not None and has_taken_up(seen, job.plan) and seen.in_effect >= job.plan.version:
                yield name, job.plan.version
