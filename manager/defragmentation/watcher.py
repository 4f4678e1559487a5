"""The watcher: looks now and then at what runs, and begins what `watching` decides on."""

import logging
import math
import time
from collections.abc import Callable

from manager.committed.state import State
from manager.committer.committer import Committer
from manager.committer.draft import DecisionGround
from manager.committer.move_changes import MoveChanges
from manager.committer.rows import OPERATOR
from manager.defragmentation.choice import Chooser, Picture
from manager.defragmentation.trigger import HORIZON, Act, TriggerSituation, TriggerState, target_of, watch
from manager.problem import Conflict, StateNotReady
from manager.transitions.life import Phase
from manager.transitions.move import Chosen, Ended
from merge import NoHost

WATCHER_PERIOD = 15.0
"""Seconds between two looks at least: means go over a minute."""
_SHARE = 0.03
"""The part of the time that looks may take: with a hundred thousand tasks each takes some seconds."""
log = logging.getLogger("braid.defragmenting")


class Watcher:
    """One manager's; `look` is called from one thread, and again and again."""

    def __init__(  # noqa: PLR0913 - what runs, how it is changed, what it should be, and when are six things
        self,
        committer: Committer,
        moves: MoveChanges,
        chooser: Chooser,
        *,
        by_itself: bool = True,
        every: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`by_itself` it begins what is worth it; it learns what things cost in any case. `every` as `watch` says."""
        self._committer = committer
        self._moves = moves
        self._chooser = chooser
        self._by_itself = by_itself
        self._every = every
        self._clock = clock
        self._due = -math.inf
        self._watched = TriggerState()
        self._ended: Ended | None = None

    def look(self) -> None:
        """See whether there is something to begin, once its time has come."""
        now = self._clock()
        if not self._committer.leads or now < self._due:
            return
        self._look(now)
        self._due = now + max(WATCHER_PERIOD, (self._clock() - now) / _SHARE)

    def _look(self, now: float) -> None:
        with self._committer.looking() as state:
            picture = self._chooser.picture(state, self._committer.ground)
            plans, underway, ended = dict(state.plans), bool(state.moves), state.ended
            sources = {name: each.supplied for name, each in state.sources.items()}
        # What follows may take a while, and keeps nobody waiting.
        self._chooser.learn(plans, sources)
        news = ended if ended != self._ended else None
        self._ended = ended
        if news is not None and news.phase is Phase.DONE:
            self._chooser.remember(news)
        if not self._by_itself:
            return
        try:
            self._decide(picture, underway=underway, news=news, now=now)
        except NoHost as error:
            log.info("nothing is moved now: %s", error)

    def _decide(self, picture: Picture, *, underway: bool, news: Ended | None, now: float) -> None:
        weighed = picture.worth(HORIZON)
        look = TriggerSituation(
            version=picture.running.version,
            scattered=target_of(picture.consolidated),
            worth=weighed.kept,
            overload=target_of(picture.isolated),
            underway=underway,
            ended=None if news is None else news.phase is Phase.DONE,
        )
        self._watched, decision = watch(self._watched, look, now, every=self._every)
        assignment = {Act.CONSOLIDATE: picture.consolidated, Act.ISOLATE: picture.isolated}.get(decision.act)
        if assignment is None:
            log.debug("%s; %s", decision.why, weighed.says)
            return
        reason = f"{decision.why}. {weighed.says}" if decision.act is Act.CONSOLIDATE else decision.why
        try:
            move = self._moves.begin(_as_seen(Chosen(assignment, reason)), who=OPERATOR)
        except (Conflict, StateNotReady) as error:
            log.info("nothing is moved now: %s", error)
        else:
            log.info("%s begins: %s", move.cut, reason)


def _as_seen(chosen: Chosen) -> Callable[[State, DecisionGround], Chosen]:
    """What was chosen, if the jobs are still those that it was chosen for."""

    def choose(state: State, _ground: DecisionGround) -> Chosen:
        if state.jobs.version != chosen.assignment.base:
            raise Conflict("the jobs have changed since that was decided")
        return chosen

    return choose
