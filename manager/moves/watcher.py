"""The watcher: looks at the running tasks regularly, starts defragmentations, and gives jobs their shards and paces.

Changes of paces: a job is slowed down once that has been right for a
while, one job at a time. It is quick again at once, because somebody waits for its outputs longer than allowed.

Changes of shards: another number has to be right for a while.
Figures are means over a minute, and those from before a change say nothing about the job after it. So each job
is given the same while again after each change. Jobs change one at a time.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from manager.costs.choice import (
    HORIZON,
    Act,
    Chooser,
    PlacementSnapshot,
    TriggerSituation,
    TriggerState,
    target_of,
    watch,
)
from manager.jobs.changes import JobChanges
from manager.kernel.committer import Committer
from manager.kernel.draft import SERVICE, DecisionGround
from manager.kernel.state import CommittedState
from manager.kernel.transitions import Chosen, Ended, Phase
from manager.moves.changes import MoveChanges
from manager.problem import Conflict, StateNotReady
from manager.settings import Autoscale
from merge import Assignment, JobId, NoHost, Repace, Rescale, repaced

PACE_HOLDS = 60.0
"""Seconds for which a slower pace must be right."""
Steady = Mapping[tuple[JobId, float], float]
"""Since when each job should have each pace; minus infinity once that was done or said."""


def steady(known: Steady, repaces: Iterable[Repace], usual: float, now: float) -> tuple[Steady, Repace | None]:
    """Return the state for the next look, and the change to make now, if there is one.

    A change that was made and is still due, because it is only previewed, is not made again.
    """
    wanted = {(repace.job, repace.pace): repace for repace in repaces}
    since = {key: known.get(key, now) for key in wanted}
    holds = {key: 0.0 if repace.pace <= usual else PACE_HOLDS for key, repace in wanted.items()}
    ripe = next((key for key, at in since.items() if at != _DONE and now - at >= holds[key]), None)
    if ripe is None:
        return since, None
    return {**since, ripe: _DONE}, wanted[ripe]


_DONE = float("-inf")


SHARDS_HOLD = 60.0
"""Seconds for which a job must need more shards, or fewer."""
Wanted = Mapping[tuple[JobId, bool], float]
"""Since when each job has needed more shards (true) or fewer, without a break."""


def due(
    wanted: Wanted, rescales: Iterable[Rescale], shards: Mapping[JobId, int], now: float
) -> tuple[Wanted, Rescale | None]:
    """Return the state for the next look, and the change to make now, if there is one; the first that is due counts.

    `shards` has the present number for each job.
    """
    needs = {(rescale.job, rescale.shards > shards[rescale.job]): rescale for rescale in rescales}
    since = {need: wanted.get(need, now) for need in needs}
    ripe = next((need for need in needs if now - since[need] >= SHARDS_HOLD), None)
    if ripe is None:
        return since, None
    return {need: at for need, at in since.items() if need != ripe}, needs[ripe]


WATCHER_PERIOD = 15.0
"""The least seconds between two looks; figures are means over a minute."""
_SHARE = 0.03
"""The part of the time that looks may take. With a hundred thousand tasks, a look takes some seconds."""
log = logging.getLogger("braid.defragmenting")


class Watcher:
    """The watcher of one manager. One thread calls `look` repeatedly."""

    def __init__(  # noqa: PLR0913 - the collaborators and the settings have nothing in common
        self,
        committer: Committer,
        moves: MoveChanges,
        jobs: JobChanges,
        chooser: Chooser,
        *,
        by_itself: bool = True,
        every: float | None = None,
        autoscale: Autoscale = Autoscale.OFF,
        latencies: Callable[[], Mapping[str, float]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without `by_itself` it only learns costs, and separates what is in quarantine.

        `every` is the period of the schedule in seconds. `latencies` are the seconds that dataflows allow, by the
        running graph's ids, for those that name a bound.
        """
        self._committer = committer
        self._moves = moves
        self._jobs = jobs
        self._chooser = chooser
        self._by_itself = by_itself
        self._every = every
        self._autoscale = autoscale
        self._latencies = latencies
        self._clock = clock
        self._due = -math.inf
        self._watched = TriggerState()
        self._rescaling: Wanted = {}
        self._repacing: Steady = {}
        self._ended: Ended | None = None

    def look(self) -> None:
        """Look, if it is time, and start a defragmentation if the trigger says so."""
        now = self._clock()
        if not self._committer.leads or now < self._due:
            return
        self._look(now)
        self._due = now + max(WATCHER_PERIOD, (self._clock() - now) / _SHARE)

    def _look(self, now: float) -> None:
        with self._committer.looking() as state:
            snapshot = self._chooser.snapshot(state, self._committer.ground)
            plans, underway, ended = dict(state.plans), bool(state.moves), state.ended
            sources = {name: source.supplied for name, source in state.sources.items()}
            paces = {job: plan.pace for job, plan in plans.items()}
            repaces: tuple[Repace, ...] = ()
            if self._autoscale is not Autoscale.OFF:
                repaces = repaced(state.running, state.jobs, self._latencies(), snapshot.costs, paces)
        # The rest may take a while, but no longer holds the committer.
        self._chooser.learn(plans, sources)
        self._repace(repaces, snapshot, now)
        news = ended if ended != self._ended else None
        self._ended = ended
        if news is not None and news.phase is Phase.DONE:
            self._chooser.remember(news)
        try:
            self._decide(snapshot, underway=underway, news=news, now=now)
        except NoHost as error:
            log.info("nothing is moved now: %s", error)
        if self._by_itself:
            self._rescale(snapshot, now)

    def _decide(self, snapshot: PlacementSnapshot, *, underway: bool, news: Ended | None, now: float) -> None:
        look = TriggerSituation(
            version=snapshot.running.version,
            shared=target_of(snapshot.separated),
            underway=underway,
            ended=None if news is None else news.phase is Phase.DONE,
        )
        weighed = snapshot.worth(HORIZON) if self._by_itself else None
        if weighed is not None:
            look = replace(
                look,
                scattered=target_of(snapshot.consolidated),
                worth=weighed.kept,
                overload=target_of(snapshot.isolated),
            )
        self._watched, decision = watch(self._watched, look, now, every=self._every)
        assignment = _ASSIGNMENTS[decision.act](snapshot)
        says = "" if weighed is None else weighed.says
        if assignment is None:
            log.debug("%s; %s", decision.why, says)
            return
        reason = f"{decision.why}. {says}" if decision.act is Act.CONSOLIDATE else decision.why
        with _unless_refused("nothing is moved now: %s"):
            move = self._moves.begin(_as_seen(Chosen(assignment, reason)), who=SERVICE)
            log.info("%s begins: %s", move.cut, reason)

    def _rescale(self, snapshot: PlacementSnapshot, now: float) -> None:
        """Give a job another number of shards, if it has needed that for a while."""
        shards = {name: job.shards for name, job in snapshot.jobs.jobs.items()}
        self._rescaling, change = due(self._rescaling, snapshot.rescaled, shards, now)
        if change is not None:
            with _unless_refused("job %s keeps its shards for now: %s", change.job):
                self._jobs.rescale(change, base=snapshot.jobs.version, who=SERVICE)
                log.info("job %s gets %d shards: %s", change.job, change.shards, change.why)

    def _repace(self, repaces: tuple[Repace, ...], snapshot: PlacementSnapshot, now: float) -> None:
        """Give a job another pace, if that has been right for a while; or say that it would be."""
        self._repacing, change = steady(self._repacing, repaces, snapshot.costs.pace, now)
        if change is not None:
            with _unless_refused("job %s keeps its pace for now: %s", change.job):
                if self._autoscale is Autoscale.PREVIEW:
                    self._jobs.would_repace(change, who=SERVICE)
                else:
                    self._jobs.repace(change, base=snapshot.jobs.version, who=SERVICE)
                log.info("job %s %s %g s: %s", change.job, self._autoscale.verb, change.pace, change.why)


@contextmanager
def _unless_refused(says: str, *whose: object) -> Iterator[None]:
    """Log a refusal: what is right will still be so at a later look."""
    try:
        yield
    except (Conflict, StateNotReady) as error:
        log.info(says, *whose, error)


_ASSIGNMENTS: Mapping[Act, Callable[[PlacementSnapshot], Assignment | None]] = {
    Act.CONSOLIDATE: lambda snapshot: snapshot.consolidated,
    Act.ISOLATE: lambda snapshot: snapshot.isolated,
    Act.SEPARATE: lambda snapshot: snapshot.separated,
    Act.WAIT: lambda _snapshot: None,
}


def _as_seen(chosen: Chosen) -> Callable[[CommittedState, DecisionGround], Chosen]:
    """Return a choice that is refused if the jobs have changed since."""

    def choose(state: CommittedState, _ground: DecisionGround) -> Chosen:
        if state.jobs.version != chosen.assignment.base:
            raise Conflict("the jobs have changed since that was decided")
        return chosen

    return choose
