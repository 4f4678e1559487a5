"""Defragmentation: how scattered the jobs are, and to have them consolidated."""

from dataclasses import replace

from manager.answers import DefragmentationPreviewAnswer, FragmentationAnswer, MoveAnswer, SavesAnswer
from manager.cases.base import Base, Caller, moment, operators_only
from manager.defragmentation.regime import regime_here
from manager.problem import StateNotReady
from manager.transitions.move import Move
from merge import Fragmentation, NoHost, Regime
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
            saves=_saves(regime_here(picture.costs, found, users, dataflows), found),
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


def _saves(regime: Regime, found: Fragmentation) -> SavesAnswer:
    # What scattered jobs cost is known better than the model has it: which jobs would do, and what is paused.
    saves = replace(regime.saves, defragmenting=found.cores)
    return SavesAnswer(
        sharing=round(saves.sharing, 4),
        packing=round(saves.packing, 4),
        defragmenting=round(saves.defragmenting, 4),
        most=saves.most,
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
