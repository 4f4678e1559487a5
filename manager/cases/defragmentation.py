"""Defragmentation: how scattered the jobs are, and to have them consolidated."""

import time

from manager.answers import DefragmentationPreviewAnswer, FragmentationAnswer, MoveAnswer, SavesAnswer
from manager.cases.base import Base, Caller, moment, operators_only
from manager.defragmentation.regime import regime_here
from manager.problem import StateNotReady
from manager.savings import ledger
from manager.savings.intervals import AmountScale, interval
from manager.transitions.move import Move
from merge import Fragmentation, NoHost, Regime, Saves
from merge.consolidation.defragmentation import forwarded


class Defragmentation(Base):
    """Scattered jobs: measured, and consolidated on request."""

    def fragmentation(self, caller: Caller) -> FragmentationAnswer:
        """The fragmentation of the jobs."""
        operators_only(caller)
        with self._committer.looking() as state:
            picture, move = (
                self._tools.chooser.snapshot(state, self._committer.ground),
                next(iter(state.moves.values()), None),
            )
            running = state.running
            users = {instance: len(running.users[instance]) for instance in running.tasks}
            dataflows = len(running.dataflows)
        try:
            found = picture.fragmentation
        except NoHost as error:
            raise StateNotReady(f"{error}; ask again once one is there", retry_after=5.0) from error
        return FragmentationAnswer(
            jobs=found.jobs,
            fewest=found.fewest,
            bridges=found.bridges,
            paused=found.paused,
            hops=found.hops,
            cores=round(found.cores, 4),
            latency_seconds=found.latency,
            saves=self._saves(regime_here(picture.costs, found, users, dataflows), found),
            move=None if move is None else _move_answer(move),
        )

    def preview(self, caller: Caller) -> DefragmentationPreviewAnswer:
        """What `begin` would do now; nothing is moved."""
        operators_only(caller)
        with self._committer.looking() as state:
            picture = self._tools.chooser.snapshot(state, self._committer.ground)
        try:
            chosen = picture.on_request
        except NoHost as error:
            raise StateNotReady(f"{error}; ask again once one is there", retry_after=5.0) from error
        moving = [instance for instance, _ in chosen.assignment.places]
        after = picture.jobs.apply(chosen.assignment)
        return DefragmentationPreviewAnswer(
            tasks=len(moving),
            leaves=tuple(str(job) for job in sorted({picture.jobs.homes[each].job for each in moving})),
            opens=tuple(host for _, host in chosen.assignment.opens),
            jobs=len(after.jobs),
            bridges=len(forwarded(picture.running, after)),
            planned=picture.planned,
            why=chosen.reason if moving else "no task would be better off elsewhere",
        )

    def begin(self, caller: Caller) -> MoveAnswer:
        """Consolidate them now, whatever it gains; or help a job that is overloaded, where that comes first."""
        operators_only(caller)
        return _move_answer(self._changes.moves.begin(self._tools.chooser.on_request, who=caller.who))

    def _saves(self, regime: Regime, found: Fragmentation) -> SavesAnswer:
        """Compare what scattered jobs cost with what the last hour's report says of sharing and packing."""
        hour = interval(None, None, time.time())
        with self._store.read() as session:
            whole = ledger.whole(session, hour.span, hour.since, hour.until)
        saved = AmountScale(seconds=whole.seconds).saved(whole.saved)
        sharing = None if saved.cores_by_sharing is None else saved.cores_by_sharing.cores
        packing = saved.cores_by_packing.likely
        return SavesAnswer(
            sharing=sharing,
            packing=packing,
            defragmenting=round(found.cores, 4),
            most=Saves(sharing=sharing or 0.0, packing=packing, defragmenting=found.cores).most,
            work_per_batch_seconds=round(regime.per_batch, 4),
            crossover_seconds=None if regime.crossover is None else round(regime.crossover, 4),
        )


def _move_answer(move: Move) -> MoveAnswer:
    return MoveAnswer(
        id=move.cut,
        phase=move.phase,
        since=moment(move.since),
        tasks=len(move.steps),
        leaves=tuple(str(job) for job in sorted(move.left)),
        joins=tuple(str(job) for job in sorted(move.joined)),
    )
