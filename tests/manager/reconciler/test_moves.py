"""Moves: when each turn comes, which cuts are wished for, and which are released."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from engine.plan import Bridged, Ingress, Plan
from engine.plan_messages import CutRequest
from manager.kernel.older_events import REPEAT_WISH_AFTER, Wish
from manager.kernel.transitions import Move, MoveStep, Phase, TransitionEvent, Turn
from manager.kernel.wanted import Moving
from manager.moves.turns import CUT_WITHIN, PREPARE_WITHIN, go_on
from manager.observations.reports import HostSeen, JobSeen
from manager.observations.sight import JobSight, Sight
from merge import Instance, JobId

NOW = 1_000.0
SEEN = datetime.fromtimestamp(NOW, UTC)
OLD, ALSO_OLD, NEW = JobId(1), JobId(2), JobId(3)
CUT = "move-7"
VERSION = 4


def step(instance: int, leaves: JobId, *, works: bool = True) -> MoveStep:
    return MoveStep(instance=Instance(instance), leaves=leaves, joins=NEW, works=works)


def moving(phase: Phase, age: float = 0.0, passed: Mapping[JobId, Mapping[str, int]] | None = None) -> Moving:
    """Return a move of a source and a task of one job, and of a task of another job that keeps others, to a new job."""
    move = Move(
        id=7,
        phase=phase,
        since=NOW - age,
        steps=(step(1, OLD, works=False), step(2, OLD), step(3, ALSO_OLD)),
        opens={NEW: "h"},
        passed=passed or {},
    )
    kept = Ingress(stream="source/9", instance=9, supply=Bridged())
    plans = {
        job: Plan(job=str(job), host="h", version=VERSION, ingress=(kept,) if job == ALSO_OLD else ())
        for job in (OLD, ALSO_OLD, NEW)
    }
    return Moving(move=move, plans=plans, streams=frozenset({"source/1"}))


def job(number: JobId, **fields: Any) -> tuple[str, JobSight]:
    """Return a job that runs its newest plan, except for the given fields."""
    seen = JobSeen(job=str(number), host="h", state="running", version=VERSION, term=1, in_effect=VERSION, seen=SEEN)
    return str(number), JobSight(seen=replace(seen, **fields))


def cut(*instances: int, **at: int) -> dict[str, Any]:
    positions = {f"source/{name[1:]}" if name[0] == "s" else f"bridge/{name[1:]}:out": end for name, end in at.items()}
    return {"cuts": {CUT: frozenset(instances)}, "cut_positions": {CUT: positions}}


def sight(*jobs: tuple[str, JobSight], supplied: str = "open") -> Sight:
    hosts = {"h": HostSeen(host="h", alive=True, spools={"source/1": supplied, "source/9": "open"}, seen=SEEN)}
    return Sight(complete=True, jobs=dict(jobs), hosts=hosts)


def due(move: Moving | None, seen: Sight, wished: Mapping[str, float] | None = None) -> list[Wish | Turn]:
    return list(go_on(() if move is None else (move,), seen, wished or {}, NOW))


def test_the_cut_begins_once_all_jobs_are_ready() -> None:
    """The old jobs need not run the plans that wait for the cut; the new one has to run its own."""
    preparing = moving(Phase.PREPARING)
    waiting = {"in_effect": VERSION - 1}
    ready = (job(OLD, **waiting), job(ALSO_OLD, **waiting))
    assert [Turn(preparing.move, TransitionEvent.READY)] == due(preparing, sight(*ready, job(NEW)))
    for late in (
        (job(OLD, version=VERSION - 1), ready[1], job(NEW)),
        (*ready, job(NEW, in_effect=0)),
        (*ready, job(NEW, state="starting")),
        ready,
    ):
        assert [] == due(preparing, sight(*late))


def test_the_cut_is_wished_for_at_the_hosts_of_its_streams() -> None:
    """It is a cut in the raw streams of the moving tasks, and the wish is repeated after a while."""
    cutting = moving(Phase.CUTTING)
    running = (job(OLD, in_effect=0), job(ALSO_OLD, in_effect=0), job(NEW))
    assert [Wish(host="h", wish=CutRequest(cut=CUT, streams=("source/1",)))] == due(cutting, sight(*running))
    assert [] == due(cutting, sight(*running, supplied="elsewhere"))
    assert [] == due(cutting, sight(*running), {CUT: NOW - REPEAT_WISH_AFTER / 2})
    assert 1 == len(due(cutting, sight(*running), {CUT: NOW - REPEAT_WISH_AFTER}))


def test_the_new_jobs_take_over_once_all_tasks_have_passed() -> None:
    """The turn has the cut's position in each job; sources do not pass cuts, and have none."""
    cutting, wished = moving(Phase.CUTTING), {CUT: NOW}
    first, second = job(OLD, **cut(1, 2, s1=9)), job(ALSO_OLD, **cut(3, b2=4))
    expected = {OLD: {"source/1": 9}, ALSO_OLD: {"bridge/2:out": 4}}
    assert [Turn(cutting.move, TransitionEvent.PASSED, passed=expected)] == due(
        cutting, sight(first, second, job(NEW)), wished
    )
    for late in (
        job(ALSO_OLD),
        job(ALSO_OLD, in_effect=VERSION - 1, **cut(3, b2=4)),
        job(ALSO_OLD, state="died", **cut(3, b2=4)),
    ):
        assert [] == due(cutting, sight(first, late, job(NEW)), wished)


def test_a_job_without_other_tasks_is_not_awaited() -> None:
    """It lets go of its tasks with the cut. A job that died is awaited."""
    cutting, wished = moving(Phase.CUTTING), {CUT: NOW}
    second = job(ALSO_OLD, **cut(3, b2=4))
    bare = job(OLD, in_effect=VERSION - 1, **cut(1, 2, s1=9))
    (turn,) = due(cutting, sight(bare, second, job(NEW)), wished)
    assert isinstance(turn, Turn)
    assert TransitionEvent.PASSED == turn.event
    died = job(OLD, in_effect=VERSION - 1, state="died", **cut(1, 2, s1=9))
    assert [] == due(cutting, sight(died, second, job(NEW)), wished)


def test_a_move_ends_once_all_new_jobs_have_begun() -> None:
    """A move that goes back ends once all old jobs have begun."""
    taking, returning = moving(Phase.TAKING), moving(Phase.RETURNING)
    assert [Turn(taking.move, TransitionEvent.BEGUN)] == due(taking, sight(job(NEW)))
    assert [] == due(taking, sight(job(NEW, in_effect=VERSION - 1)))
    assert [Turn(returning.move, TransitionEvent.BEGUN)] == due(returning, sight(job(OLD), job(ALSO_OLD)))
    assert [] == due(returning, sight(job(OLD)))


@pytest.mark.parametrize(("phase", "limit"), [(Phase.PREPARING, PREPARE_WITHIN), (Phase.CUTTING, CUT_WITHIN)])
def test_a_late_or_refusing_job_hinders_the_move(phase: Phase, limit: float) -> None:
    """Other changes wait for the move, but jobs that take over have no time limit."""
    wished = {CUT: NOW}
    assert [] == due(moving(phase, limit - 1), sight(job(OLD)), wished)
    (late,) = due(moving(phase, limit + 1), sight(job(OLD)), wished)
    assert isinstance(late, Turn)
    assert (TransitionEvent.HINDERED, f"within {limit:.0f} s") == (
        late.event,
        late.why[-len(f"within {limit:.0f} s") :],
    )
    (refused,) = due(moving(phase), sight(job(OLD, refused="it is full")), wished)
    assert Turn(moving(phase).move, TransitionEvent.HINDERED, "job 1 refused: it is full") == refused
    assert [] == due(moving(Phase.TAKING, 10_000.0), sight(job(NEW, in_effect=0)))
    (gave_up,) = due(moving(Phase.CUTTING), sight(job(OLD), job(ALSO_OLD, given_up=frozenset({CUT}))), wished)
    assert isinstance(gave_up, Turn)
    assert (TransitionEvent.HINDERED, "job 2 gave the cut up") == (gave_up.event, gave_up.why)
    (refused,) = due(moving(Phase.TAKING), sight(job(NEW, in_effect=0, refused="no state")))
    assert isinstance(refused, Turn)
    assert (TransitionEvent.HINDERED, "job 3 refused: no state") == (refused.event, refused.why)


def test_cuts_of_moves_that_are_over_are_released() -> None:
    """Cuts of the move under way and cuts that others took are not released, and no release is repeated at once."""
    cuts = {each: frozenset({2}) for each in (CUT, "move-6", "drain-d-1-0")}
    fields = {"cuts": cuts, "cut_batches": dict.fromkeys(cuts, 8), "published": 9}
    kept = sight(job(OLD, **fields))
    release = Wish(host="h", wish=CutRequest(cut="move-6", release=True))
    assert [release] == due(moving(Phase.PREPARING), kept)
    assert [Wish(host="h", wish=CutRequest(cut=each, release=True)) for each in ("move-6", CUT)] == due(None, kept)
    assert [] == due(None, kept, {"release move-6": NOW, f"release {CUT}": NOW})
    # What was emitted until then has to be sent first: the job may be stopped after that.
    assert [] == due(None, sight(job(OLD, **fields | {"published": 8})))


def test_disjoint_moves_proceed_independently() -> None:
    """One is cut while the other is still being prepared."""
    far, farther = JobId(8), JobId(9)
    other = Move(
        id=8,
        phase=Phase.PREPARING,
        since=NOW,
        steps=(MoveStep(instance=Instance(20), leaves=far, joins=farther, works=True),),
        opens={farther: "h"},
    )
    plans = {each: Plan(job=str(each), host="h", version=VERSION) for each in (far, farther)}
    both = (moving(Phase.CUTTING), Moving(move=other, plans=plans, streams=frozenset({"source/9"})))
    seen = sight(job(OLD), job(ALSO_OLD), job(NEW), job(far), job(farther))
    wish = Wish(host="h", wish=CutRequest(cut=CUT, streams=("source/1",)))
    assert [wish, Turn(other, TransitionEvent.READY)] == list(go_on(both, seen, {}, NOW))
