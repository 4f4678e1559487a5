"""The reconcile loop: one thread that drives hosts and jobs to the committed state, and reports their state changes.

It looks after every commit, every message, every new connection, and every two seconds. No request waits for it, and it
waits for no host: it publishes the steps that are due, and decides the next ones from what it observes at a later look.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from bridge import topics
from bridge.traces import Attributes, span, traceparent
from engine.log_lines import about
from engine.plan import Plan
from engine.plan_messages import EndsQuestion, written_cut, written_plan, written_question
from manager.dataflows.changes import DrainChanges
from manager.jobs.changes import JobChanges
from manager.jobs.decisions import Clean, Memory, PublishPlan, decide, has_taken_up
from manager.kernel.dataflow_life import CommittedDataflowLookup
from manager.kernel.live_events import Delays, LiveEvents, ReconcilerActivity, ReconcilerLook, StateReporter
from manager.kernel.older_events import NO_CLEARANCES, REPEAT_WISH_AFTER, Drained, Wish, drain, look_on
from manager.kernel.transitions import (
    MOVE_EVENTS,
    RECONFIGURATION_EVENTS,
    Reconfiguration,
    TransitionEvent,
    TransitionKind,
    Turn,
)
from manager.kernel.wanted import WantedJob
from manager.moves.changes import MoveChanges
from manager.moves.turns import go_on
from manager.observations.listener import Listener
from manager.observations.sight import Sight
from manager.outputs.retained import RetainedTopicClearing
from manager.problem import Conflict, DatabaseAway, StateNotReady
from manager.reconfigurations.changes import ReconfigurationChanges
from manager.reconfigurations.turns import reconfigure

_LOOK_EVERY = 2.0
"""Seconds between two looks without news."""
_FAILURE_PAUSE = 1.0
"""Seconds between a failed look and the next."""
_RUN, _STOP, _CLEAN = _STEPS = ("run", "stop", "clean")
"""The instructions for a job: run a plan, stop, and clear the retained status."""
log = logging.getLogger("braid.reconciler")


class Reconciler:
    """Drives hosts and jobs from `start` to `stop`."""

    def __init__(  # noqa: PLR0913 - the sources of state, the callbacks and the clock have nothing in common
        self,
        jobs: JobChanges,
        listener: Listener,
        events: LiveEvents,
        *,
        dataflows: CommittedDataflowLookup | None = None,
        belongs: Callable[[str], bool] = lambda _job: False,
        leads: Callable[[], bool] = lambda: True,
        drains: DrainChanges | None = None,
        moves: MoveChanges | None = None,
        reconfigurations: ReconfigurationChanges | None = None,
        clearing: RetainedTopicClearing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`belongs` decides if an unwanted job is this service's to stop. Nothing is done unless `leads` returns true.

        Without changes of a kind, transitions of that kind stay where they are. Without `clearing`, topics of outputs
        that are gone stay as they are.
        """
        self._jobs = jobs
        self._listener = listener
        self._reporter = StateReporter(events, dataflows)
        self._belongs = belongs
        self._leads = leads
        self._drains = drains
        self._moves = moves
        self._reconfigurations = reconfigurations
        self._clearing = clearing
        self._wished: dict[str, float] = {}
        """The times of the last wishes for cuts, by their keys."""
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
        self._steps, self._turns = Counter[str](), Counter[tuple[TransitionKind, TransitionEvent]]()
        self._reconfiguration_delays = Delays()

    def start(self) -> None:
        """Start the thread."""
        self._jobs.on_change(self.wake)
        self._listener.on_news(self.wake)
        if self._clearing is not None:
            self._clearing.on_news(self.wake)
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
        """Tell whether at some look all expected jobs had taken up their plans; from any thread."""
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
            turns={str(event): self._turns[TransitionKind.MOVE, event] for event in MOVE_EVENTS},
            reconfigurations={
                str(event): self._turns[TransitionKind.RECONFIGURATION, event] for event in RECONFIGURATION_EVENTS
            },
            reconfiguration_delays=self._reconfiguration_delays,
            dataflows={str(state): count for state, count in self._reporter.states.items()},
        )

    def look(self) -> None:
        """Publish the steps that are due, and report state changes."""
        # The sight comes first, so a job that is committed meanwhile is not taken for an unwanted one.
        sight = self._listener.sight()
        if not sight.complete or not self._leads():
            return
        wanted = self._jobs.wanted()
        if not self._leads():
            # A manager that no longer leads wants no jobs, but that must not stop them.
            return
        if sight.connection != self._connection:
            # Messages sent over the last connection may be lost.
            self._connection, self._memory = sight.connection, Memory()
        awaited = self._clearing.awaited() if self._clearing is not None else frozenset[str]()
        decision = decide(wanted, sight, self._memory, self._clock(), belongs=self._belongs, awaited=awaited)
        for step in decision.steps:
            with about(job=step.job):
                self._do(step)
        self._memory, self._waits = decision.memory, decision.waits
        self._settled = self._settled or not decision.behind
        for job in sorted(decision.gone & wanted.keys()):
            self._jobs.ended(job)
        for job, version in _fed(wanted, sight):
            self._jobs.fed(job, version)
        for transition_step in self._transitions(sight, time.time()):
            self._go_on(transition_step)
        if self._clearing is not None:
            self._clearing.look(sight, wanted)
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

    def _transitions(self, sight: Sight, now: float) -> Iterator[Wish | Drained | Turn]:
        """Yield the steps of all transitions under way that are due."""
        self._wished = {key: at for key, at in self._wished.items() if now - at < REPEAT_WISH_AFTER}
        if self._drains is not None:
            jobs = {name: job.seen for name, job in sight.jobs.items() if job.seen is not None}
            yield from drain(self._drains.under_way(), jobs, sight.hosts, self._wished, now)
        if self._moves is not None:
            yield from go_on(self._moves.under_way(), sight, self._wished, now)
        if self._reconfigurations is not None:
            under_way = self._reconfigurations.under_way()
            self._clearances, questions = look_on(self._clearances, under_way, sight, now)
            for asked in questions:
                question = EndsQuestion(asker=self._listener.name, number=asked.number, streams=asked.streams)
                self._listener.publish(topics.host(asked.host, "ask"), written_question(question))
            yield from reconfigure(under_way, sight, self._wished, now, self._clearances)

    def _go_on(self, step: Wish | Drained | Turn) -> None:
        """Wish for a cut, or take a transition on."""
        match step:
            case Wish(host=host, wish=wish):
                self._wished[step.key] = time.time()
                self._listener.publish(topics.host(host, "cut"), written_cut(wish))
            case Drained(dataflow=dataflow) if self._drains is not None:
                with about(dataflow=dataflow):
                    log.info("dataflow %s has drained", dataflow)
                    self._drains.drained(dataflow)
            case Turn(transition=transition, event=event, why=why):
                self._turns[transition.kind, event] += 1
                if isinstance(transition, Reconfiguration) and event is TransitionEvent.BEGUN:
                    self._reconfiguration_delays = self._reconfiguration_delays.plus(time.time() - transition.begun)
                changes = self._reconfigurations if isinstance(transition, Reconfiguration) else self._moves
                seen: Attributes = {"braid.transition": transition.id, "braid.event": event}
                phase = f"{transition.kind} {transition.phase}"
                try:
                    with span(phase, seen, parent=transition.trace, began=transition.since):
                        because = f", because {why}" if why else ""
                        log.info("the %s %d: %s%s", transition.kind, transition.id, event, because)
                        if changes is not None:
                            changes.take(step)
                except (Conflict, StateNotReady) as error:
                    log.debug("the %s %d: %s", transition.kind, transition.id, error)

    def _do(self, step: PublishPlan | Clean) -> None:
        match step:
            case PublishPlan(job=job, plan=None):
                self._steps[_STOP] += 1
                log.info("job %s shall stop", job)
                self._listener.publish(topics.job(job, "plan"), b"", retain=True)
            case PublishPlan(job=job, plan=plan) if plan is not None:
                self._steps[_RUN] += 1
                with _published(plan) as sent:
                    log.info("job %s shall run version %d on host %s", job, plan.version, plan.host)
                    self._listener.publish(topics.job(job, "plan"), written_plan(sent), retain=True)
            case Clean(job=job):
                self._steps[_CLEAN] += 1
                self._listener.publish(topics.job(job, "status"), b"", retain=True)


@contextmanager
def _published(plan: Plan) -> Iterator[Plan]:
    """Publish a plan in the context, as it is sent: what its host does with it follows this, where it is traced."""
    if not plan.trace:
        yield plan
        return
    seen: Attributes = {"braid.job": plan.job, "braid.host": plan.host, "braid.plan": plan.version}
    with span("publish plan", seen, parent=plan.trace, kind="producer"):
        yield replace(plan, trace=traceparent())


def _fed(wanted: Mapping[str, WantedJob], sight: Sight) -> Iterator[tuple[str, int]]:
    """Yield each job that has run a plan with feeds, with the plan's version."""
    for name, job in wanted.items():
        if job.plan is not None and job.plan.feeds and name in sight.jobs:
            seen = sight.jobs[name].seen
            if seen is not None and has_taken_up(seen, job.plan) and seen.in_effect >= job.plan.version:
                yield name, job.plan.version
