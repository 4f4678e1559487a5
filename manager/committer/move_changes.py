"""The changes that moves bring: begun on request, then taken on by the events that the reconciler sees."""

from collections.abc import Callable, Mapping

from manager.committed.state import CommittedState
from manager.committed.wanted import Moving
from manager.committer import move_steps
from manager.committer.committer import Committer
from manager.committer.draft import DecisionGround
from manager.problem import Conflict
from manager.transitions.connected_dags import reading_the_same
from manager.transitions.move import Chosen, Move, MoveStep
from manager.transitions.scope import Comer, TransitionScope
from merge import Assignment, JobId


class MoveChanges:
    """All that is done with moves."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def under_way(self) -> tuple[Moving, ...]:
        """The moves under way; none is known where this manager does not lead."""
        if not self._committer.leads:
            return ()
        with self._committer.looking() as state:
            return tuple(_moving(state, move) for move in state.moves.values())

    def begin(self, choose: Callable[[CommittedState, DecisionGround], Chosen], *, who: str) -> Move:
        """Begin to move tasks to the places that are chosen by the state as it is."""

        def decide(state: CommittedState, _now: object) -> tuple[Chosen, tuple[MoveStep, ...]]:
            chosen = choose(state, self._committer.ground)
            return chosen, _steps(state, chosen.assignment)

        def scope(_state: CommittedState, decided: tuple[Chosen, tuple[MoveStep, ...]]) -> TransitionScope:
            _, steps = decided
            return TransitionScope(
                jobs=frozenset({each.leaves for each in steps} | {each.joins for each in steps}),
                instances=frozenset(each.instance for each in steps),
            )

        return self._committer.commit(
            decide,
            lambda session, draft, decided: move_steps.begin(session, draft, *decided, who),
            scope=scope,
            comer=Comer.MOVE,
        )

    def cut(self, move: int) -> None:
        """All are ready: from now on the cut may be taken."""
        self._committer.go_on(lambda session, draft: move_steps.cut(session, draft, move))

    def take_over(self, move: int, passed: Mapping[JobId, Mapping[str, int]]) -> None:
        """All have passed the cut, each of the jobs at these places in its streams."""
        self._committer.go_on(lambda session, draft: move_steps.take_over(session, draft, move, passed))

    def go_back(self, move: int, *, why: str) -> None:
        """Something hindered it once the cut may have been taken."""
        self._committer.go_on(lambda session, draft: move_steps.go_back(session, draft, move, why))

    def end(self, move: int) -> None:
        """All have begun."""
        self._committer.go_on(lambda session, draft: move_steps.end(session, draft, move))

    def put_off(self, move: int, *, why: str) -> None:
        """Something hindered it before the cut could be taken."""
        self._committer.go_on(lambda session, draft: move_steps.abandon(session, draft, move, why=why))


def _moving(state: CommittedState, move: Move) -> Moving:
    return Moving(
        move=move,
        plans={job: state.plans[job] for job in move.left | move.joined | move.opens.keys()},
        streams=state.streams_of(frozenset(step.instance for step in move.steps if not step.works)),
    )


def _steps(state: CommittedState, assignment: Assignment) -> tuple[MoveStep, ...]:
    """All tasks of each running DAG that an assignment touches, and of those that read the same sources.

    Else a job could read a stream on for one of them while another stands still in it.
    """
    if not assignment.places:
        raise Conflict("no task would be better off elsewhere; ask again when more has changed")
    homes, dag_of = state.jobs.homes, state.running.dag_of
    new = {instance: home for instance, home in assignment.places if home.job != homes[instance].job}
    dags = reading_the_same(state.running, map(dag_of, new))
    steps = tuple(
        MoveStep(
            instance=instance,
            leaves=homes[instance].job,
            joins=new.get(instance, homes[instance]).job,
            works=bool(task.inputs),
            busy=new.get(instance, homes[instance]).busy,
        )
        for instance, task in sorted(state.running.tasks.items())
        if dag_of(instance) in dags
    )
    left = {step.leaves for step in steps}
    if any(state.plans[job].feeds for job in left):
        raise Conflict("dead letters are replayed; ask again once they are")
    if left & state.apart:
        raise Conflict("a dataflow that began at the earliest events has not caught up; ask again later")
    return steps
