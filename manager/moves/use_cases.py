"""Defragmentation: how scattered the jobs are, which of sharing and packing saves most now, and to have it done."""

import time
from collections.abc import Mapping

from braid_client.answers.jobs import DefragmentationPreviewAnswer, FragmentationAnswer, MoveAnswer, SavesAnswer
from manager.kernel.transitions import Move
from manager.problem import StateNotReady
from manager.savings import ledger
from manager.savings.ledger import AmountScale, interval
from manager.use_case import Base, Caller, moment, operators_only
from merge import Costs, Fragmentation, Instance, NoHost, Regime, Saves
from merge.consolidation.defragmentation import forwarded


def regime_here(costs: Costs, fragmentation: Fragmentation, users: Mapping[Instance, int], dataflows: int) -> Regime:
    """Return the present regime; `users` has the number of dataflows that use each running task.

    Jobs that sharing alone would save are not counted: they cannot be known if tasks are packed too.
    """
    # Sorted, because the last digit of a sum depends on the order.
    busy = [(costs.busy[instance], users[instance]) for instance in sorted(users)]
    return Regime(
        dataflows=dataflows,
        work=sum(cores * many for cores, many in busy),
        shared=sum(cores for cores, _ in busy),
        jobs=fragmentation.jobs,
        bridges=fragmentation.bridges,
        pace=costs.pace,
        batch=costs.batch,
        bridge=costs.bridge,
    )


class Defragmentation(Base):
    """Scattered jobs: measured, and consolidated on request."""

    def fragmentation(self, caller: Caller) -> FragmentationAnswer:
        """The fragmentation of the jobs."""
        operators_only(caller)
        with self._committer.looking() as state:
            picture = self._tools.chooser.snapshot(state, self._committer.ground)
            move = next(iter(state.moves.values()), None)
            running = state.running
            users = {instance: len(running.users[instance]) for instance in running.tasks}
            dataflows = len(running.dataflows)
        try:
            fragmentation = picture.fragmentation
        except NoHost as error:
            raise StateNotReady(f"{error}; ask again once one is there", retry_after=5.0) from error
        return FragmentationAnswer(
            jobs=fragmentation.jobs,
            fewest=fragmentation.fewest,
            bridges=fragmentation.bridges,
            paused=fragmentation.paused,
            hops=fragmentation.hops,
            cores=round(fragmentation.cores, 4),
            latency_seconds=fragmentation.latency,
            saves=self._saves(regime_here(picture.costs, fragmentation, users, dataflows), fragmentation),
            move=None if move is None else _move_answer(move),
        )

    def preview(self, caller: Caller) -> DefragmentationPreviewAnswer:
        """Show what `begin` would do now; nothing is moved."""
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
            leaves=tuple(str(job) for job in sorted({picture.jobs.homes[task].job for task in moving})),
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

    def _saves(self, regime: Regime, fragmentation: Fragmentation) -> SavesAnswer:
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
            defragmenting=round(fragmentation.cores, 4),
            most=Saves(sharing=sharing or 0.0, packing=packing, defragmenting=fragmentation.cores).most,
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
