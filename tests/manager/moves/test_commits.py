"""Moves as they are committed, what each turn makes of homes and plans, and when each turn comes."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from threading import Thread
from typing import Any

import pytest

from braid_client.answers.dataflows import Stop
from braid_client.answers.overview import OperationKind
from engine.plan import Bridged, Ingress, Plan
from engine.plan_messages import CutRequest
from manager.costs.choice import Chooser
from manager.kernel import committer as committers
from manager.kernel.dataflow_life import needs_of
from manager.kernel.draft import DecisionGround
from manager.kernel.older_events import REPEAT_WISH_AFTER, Wish
from manager.kernel.state import CommittedState
from manager.kernel.transitions import (
    LIVES,
    MEETINGS,
    Chosen,
    Comer,
    Move,
    MoveStep,
    Phase,
    TransitionEvent,
    TransitionKind,
    Turn,
)
from manager.kernel.wanted import Moving
from manager.moves.turns import CUT_WITHIN, PREPARE_WITHIN, go_on
from manager.observations.reports import HostSeen, JobSeen
from manager.observations.sight import JobSight, Sight
from manager.problem import Conflict, InvalidDataflow, StateNotReady
from manager.use_case import Paging
from merge import Assignment, Home, Host, Instance, JobId
from tests.manager.kernel.pictures import hold, loaded, pictured
from tests.manager.managers import ANN, OPERATOR, Manager, leading, raw, take

CHAIN = "s:source > a:map{'add': 1} > k:sink"
LONGER = "s:source > a:map{'add': 1} > b:count > k:sink"
LONGEST = "s:source > a:map{'add': 1} > b:count > c:map{'add': 2} > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """Three dataflows that share tasks, each residue in a job of its own."""
    yield from scattered(sqlite)


def scattered(url: str) -> Iterator[Manager]:
    three = [("ann", text) for text in (CHAIN, LONGER, LONGEST)]
    yield from leading(url, tenants=("ann",), sources=("weather",), submitted=three, strategy="launch")


def begin(manager: Manager) -> Move:
    return manager.changes.moves.begin(Chooser(manager.seen).on_request, who="operator")


def passed(move: Move) -> dict[JobId, dict[str, int]]:
    return {job: {"source/1": 7, f"bridge/{job}:out": 3} for job in move.left}


def notes(manager: Manager) -> list[str]:
    page = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.MOVE)
    return [each.note for each in page.items]


@pytest.fixture
def on_any(empty_url: str) -> Iterator[Manager]:
    """The same, on each kind of database."""
    yield from scattered(empty_url)


def test_all_that_moves_comes_together_in_one_job(on_any: Manager) -> None:
    """It is left at the cut, begins there with its states in the next epoch, and nothing of the old jobs is left."""
    manager = on_any
    committer = manager.committer
    before = {each.job: each for each in manager.service.running.jobs(OPERATOR, Paging()).items}
    assert len(before) == 3
    move = begin(manager)
    with committer.looking() as state:
        for job in move.left:
            assert (move.cut, ()) == (state.plans[job].at_cut, state.plans[job].slots)
        (new,) = move.opens
        assert ((), 1) == (state.plans[new].slots, state.plans[new].version)
    assert loaded(manager.store) == pictured(manager)
    take(manager.changes.moves, move.id, TransitionEvent.READY)
    take(manager.changes.moves, move.id, TransitionEvent.PASSED, passed=passed(move))
    with committer.looking() as state:
        plan = state.plans[new]
        assert {(each.instance, each.cut) for each in plan.imports} == {
            (step.instance, move.cut) for step in move.steps if step.works
        }
        assert {str(step.leaves) for step in move.steps if step.works} == {each.job for each in plan.imports}
        assert [7] == [each.start for each in plan.ingress]
        assert {2} == {each.epoch for each in plan.deliveries}
        assert () == plan.forwards
    assert loaded(manager.store) == pictured(manager)
    take(manager.changes.moves, move.id, TransitionEvent.BEGUN)
    hold(manager)
    assert [str(new)] == [each.job for each in manager.service.running.jobs(OPERATOR, Paging()).items]
    (note,) = notes(manager)
    assert note.startswith("it was asked for. It is worth it: ")
    assert "; outputs stood still for at most" in note
    # A second time there is nothing to do.
    with pytest.raises(Conflict, match="no task would be better off elsewhere"):
        begin(manager)


def test_a_raw_stream_goes_on_where_it_was_cut_on_the_same_root(sqlite: str) -> None:
    """Each root has received it for itself, so its positions mean nothing on another; and no task goes there."""
    x, y = Host(name="x", cores=64.0, root="x"), Host(name="y", cores=1.0, root="y")
    made = Manager(sqlite, strategy="launch", hosts=(x, replace(y, away=True))).lead()
    made.admit("ann", "bob")
    made.register("weather", "traffic")
    weather = "w:source > a:map{'add': 1} > k:sink"
    made.submit("ann", weather)
    traffic = "t:source{'source': 'traffic'} > b:map{'add': 2} > l:sink b > c:map{'add': 3} > m:sink"
    made.hosts = (replace(x, away=True), y)
    made.submit("ann", traffic)
    made.hosts = (x, y)
    made.submit("ann", f"{weather} a > d:map{{'add': 4}} > n:sink")
    made.submit("ann", f"{weather} {traffic} b > j:map{{'add': 5}} > o:sink c > j w > j")
    with made.committer.looking() as state:
        root_of = {job.id: job.host for job in state.jobs.jobs.values()}
        stream = state.sources["ann:weather"].supplied.stream
    move = begin(made)
    assert {"x", "y"} == {root_of[step.leaves] for step in move.steps}
    at = {job: {stream: 7 if root_of[job] == "x" else 900} for job in sorted(move.left, key=lambda job: -job)}
    take(made.changes.moves, move.id, TransitionEvent.READY)
    take(made.changes.moves, move.id, TransitionEvent.PASSED, passed=at)
    with made.committer.looking() as state:
        for job in move.joined:
            host = state.jobs.jobs[job].host
            assert {host} == {root_of[step.leaves] for step in move.steps if step.joins == job}
            starts = [each.start for each in state.plans[job].ingress if each.stream == stream]
            assert set(starts) <= {7 if host == "x" else 900}
        assert any(state.jobs.jobs[job].host == "x" for job in move.opens)
    made.close()


def test_what_went_back_goes_on_from_where_it_was_cut(manager: Manager) -> None:
    """In its old jobs, in the next epoch there too; the job that was opened for it is stopped."""
    committer = manager.committer
    jobs = {each.job for each in manager.service.running.jobs(OPERATOR, Paging()).items}
    move = begin(manager)
    take(manager.changes.moves, move.id, TransitionEvent.READY)
    take(manager.changes.moves, move.id, TransitionEvent.HINDERED, why="job 3 did not come")
    assert loaded(manager.store) == pictured(manager)
    with committer.looking() as state:
        for job in move.left:
            plan = state.plans[job]
            assert {each.job for each in plan.imports} == {str(job)}
            assert {each.instance for each in plan.imports} == {slot.instance for slot in plan.slots}
            assert {2} == {each.epoch for each in plan.forwards} | {each.epoch for each in plan.deliveries}
    take(manager.changes.moves, move.id, TransitionEvent.BEGUN)
    hold(manager)
    assert jobs == {each.job for each in manager.service.running.jobs(OPERATOR, Paging()).items}
    (note,) = notes(manager)
    assert "went back: job 3 did not come" in note
    begin(manager)


@pytest.mark.parametrize("change", ["submit", "remove", "replace", "drain", "revoke"])
def test_a_change_puts_off_a_move_that_is_only_prepared(manager: Manager, change: str) -> None:
    """It is done as if there had been no move, and the journal says why that one was given up."""
    flow = manager.submit("ann", CHAIN)
    move = begin(manager)
    if change == "submit":
        manager.submit("ann", CHAIN)
    elif change == "replace":
        manager.service.dataflows.replace(ANN, flow, raw(LONGER))
    elif change == "revoke":
        manager.service.sources.revoke(OPERATOR, "ann:weather")
    else:
        manager.service.dataflows.remove(ANN, flow, Stop.NOW if change == "remove" else Stop.DRAIN)
    assert () == manager.changes.moves.under_way()
    hold(manager)
    (note,) = notes(manager)
    assert note.endswith("; given up: something else was asked for meanwhile")
    # To drive the old one on is refused: it is over.
    with pytest.raises(Conflict, match="this move is over"):
        manager.changes.moves.take(Turn(move, TransitionEvent.READY))


@pytest.mark.parametrize("phase", [Phase.CUTTING, Phase.TAKING, Phase.RETURNING])
def test_a_change_waits_for_a_move_that_is_cut(manager: Manager, phase: Phase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for ever: the refusal says when to ask again, and nothing is done."""
    monkeypatch.setattr(committers, "MOST_WAITED", 0.05)
    move = begin(manager)
    take(manager.changes.moves, move.id, TransitionEvent.READY)
    if phase is Phase.TAKING:
        take(manager.changes.moves, move.id, TransitionEvent.PASSED, passed=passed(move))
    elif phase is Phase.RETURNING:
        take(manager.changes.moves, move.id, TransitionEvent.HINDERED, why="it was late")
    before = pictured(manager)
    with pytest.raises(StateNotReady, match="tasks are being moved") as refused:
        manager.submit("ann", CHAIN)
    assert refused.value.retry_after == 1.0
    assert before == pictured(manager)


def test_what_is_refused_puts_off_no_move(manager: Manager) -> None:
    """A document with a fault is refused as ever, and the move goes on."""
    move = begin(manager)
    with pytest.raises(InvalidDataflow):
        manager.submit("ann", "s:source > a:map{'add': 'much'} > k:sink")
    take(manager.changes.moves, move.id, TransitionEvent.READY)


def test_changes_that_waited_for_a_move_see_what_the_others_did(manager: Manager) -> None:
    """One submission under one key is one dataflow, and what a source was taken from meanwhile is refused."""
    move = begin(manager)
    take(manager.changes.moves, move.id, TransitionEvent.READY)
    flows, refused = list[str](), list[Exception]()

    def submit(key: str | None) -> None:
        try:
            flows.append(manager.submit("ann", CHAIN, key=key))
        except InvalidDataflow as error:
            refused.append(error)

    threads = [Thread(target=submit, args=(key,)) for key in ("once", "once", None)]
    for thread in threads:
        thread.start()
    revoking = Thread(target=manager.service.sources.revoke, args=(OPERATOR, "ann:weather"))
    revoking.start()
    take(manager.changes.moves, move.id, TransitionEvent.PASSED, passed=passed(move))
    take(manager.changes.moves, move.id, TransitionEvent.BEGUN)
    for thread in (*threads, revoking):
        thread.join()
    hold(manager)
    # In whichever order they came to it.
    assert 3 == len(flows) + len(refused)
    assert len(set(flows)) <= 2
    assert [] == [each for each in manager.service.dataflows.page(OPERATOR, Paging()).items if each.state != "removed"]


def test_nothing_moves_while_a_dataflow_drains(manager: Manager) -> None:
    """A cut of its own is on its way, and two would wait for each other."""
    manager.service.dataflows.remove(ANN, manager.submit("ann", LONGER), Stop.DRAIN)
    with pytest.raises(Conflict, match="drains"):
        begin(manager)


def test_a_dataflow_runs_on_while_its_tasks_move(manager: Manager) -> None:
    """It needs of its jobs what they have run before, so that its tenant does not see it deployed anew."""
    committer = manager.committer

    def needs() -> dict[str, int]:
        with committer.looking() as state:
            flows = state.running.dataflows.values()
            return {need.job: need.version for flow in flows for need in needs_of(state, flow)}

    before = needs()
    move = begin(manager)
    assert before == needs()
    take(manager.changes.moves, move.id, TransitionEvent.READY)
    take(manager.changes.moves, move.id, TransitionEvent.PASSED, passed=passed(move))
    assert {str(job): 0 for job in move.opens} == needs()


def test_a_move_that_meets_another_is_refused(manager: Manager) -> None:
    """Its tasks would have two plans at once."""
    begin(manager)
    with pytest.raises(Conflict, match="moved already"):
        begin(manager)


@pytest.fixture
def apart(sqlite: str) -> Iterator[Manager]:
    """The same three of one source, and two dataflows of another."""
    five = [("ann", text) for text in (CHAIN, LONGER, LONGEST, *ELSEWHERE)]
    yield from leading(sqlite, tenants=("ann",), sources=("weather", "power"), submitted=five, strategy="launch")


ELSEWHERE = tuple(f"s:source{{'source': 'power'}} > a:map{{'add': 1}} > {more}k:sink" for more in ("", "b:count > "))


def elsewhere(state: CommittedState, _ground: DecisionGround) -> Chosen:
    """All tasks that power feeds go to one new job."""
    power = [each for each, task in state.running.tasks.items() if not task.inputs and "power" in task.config["source"]]
    dag = state.running.dag_of(power[0])
    job = state.jobs.next_job
    places = tuple(
        (each, Home(job, state.jobs.homes[each].busy))
        for each in sorted(state.running.tasks)
        if state.running.dag_of(each) == dag
    )
    return Chosen(Assignment(base=state.jobs.version, opens=((job, "north"),), places=places), "a test")


def here(state: CommittedState, _ground: DecisionGround) -> Chosen:
    """All tasks that weather feeds go to one new job."""
    weather, job = state.running.dag_of(Instance(1)), state.jobs.next_job
    places = tuple(
        (each, Home(job, state.jobs.homes[each].busy))
        for each in sorted(state.running.tasks)
        if state.running.dag_of(each) == weather
    )
    return Chosen(Assignment(base=state.jobs.version, opens=((job, "north"),), places=places), "a test")


def test_moves_whose_scopes_are_disjoint_go_on_together(apart: Manager) -> None:
    """In any order of their turns; each ends for itself, and both are known after a restart."""
    moves = apart.changes.moves
    first, second = moves.begin(here, who="operator"), moves.begin(elsewhere, who="operator")
    assert loaded(apart.store) == pictured(apart)
    take(moves, second.id, TransitionEvent.READY)
    take(moves, first.id, TransitionEvent.READY)
    take(moves, second.id, TransitionEvent.PASSED, passed=passed(second))
    assert loaded(apart.store) == pictured(apart)
    take(moves, second.id, TransitionEvent.BEGUN)
    assert [first.id] == [each.move.id for each in moves.under_way()]
    take(moves, first.id, TransitionEvent.PASSED, passed=passed(first))
    take(moves, first.id, TransitionEvent.BEGUN)
    hold(apart)
    assert sorted(map(str, (*first.opens, *second.opens))) == sorted(
        each.job for each in apart.service.running.jobs(OPERATOR, Paging()).items
    )


def test_who_changes_something_else_neither_waits_nor_puts_off_a_move(apart: Manager) -> None:
    """Dataflows come and go beside tasks that stand still, in other jobs than theirs."""
    move = apart.changes.moves.begin(here, who="operator")
    guest = apart.submit("ann", "s:source{'source': 'power'} > x:map{'add': 9} > k:sink")
    take(apart.changes.moves, move.id, TransitionEvent.READY)
    apart.service.dataflows.remove(ANN, guest, Stop.NOW)
    apart.service.dataflows.remove(ANN, apart.submit("ann", ELSEWHERE[0]), Stop.DRAIN)
    apart.register("diary")
    take(apart.changes.moves, move.id, TransitionEvent.PASSED, passed=passed(move))
    another = apart.submit("ann", "s:source{'source': 'power'} > x:map{'add': 8} > k:sink")
    apart.service.dataflows.replace(ANN, another, raw("s:source{'source': 'power'} > x:map{'add': 7} > k:sink"))
    take(apart.changes.moves, move.id, TransitionEvent.BEGUN)
    hold(apart)


def test_nothing_is_placed_where_tasks_stand_still(apart: Manager) -> None:
    """A dataflow that might have gone into such a job opens another, so that it need not wait."""
    packed = Manager(apart.url, "packs", strategy="pack").lead()
    move = packed.changes.moves.begin(here, who="operator")
    take(packed.changes.moves, move.id, TransitionEvent.READY)
    flow = packed.submit("ann", "s:source{'source': 'power'}! > x:map{'add': 9}! > k:sink")
    with packed.committer.looking() as state:
        assert not state.jobs_of(flow) & move.concerned
    packed.close()


def test_every_turn_of_the_tables_leads_to_the_end() -> None:
    """From each phase some way leads to one that is the last, and those that are last go nowhere else."""
    for life in LIVES.values():
        last = {phase for phase, turns in life.items() if set(turns.values()) <= {phase}}
        assert {Phase.DONE, Phase.RETURNED, Phase.ABANDONED, Phase.REVERTED} == last
        reached = set(last)
        for _ in life:
            reached |= {phase for phase, turns in life.items() if set(turns.values()) & reached}
        assert set(life) == reached


def test_the_rule_of_meetings_is_whole() -> None:
    """Whatever comes, and whatever is under way in whichever phase, the table has a verdict."""
    assert {(comer, kind) for comer in Comer for kind in TransitionKind} == MEETINGS.keys()
    for (_, kind), verdicts in MEETINGS.items():
        assert {phase for phase, turns in LIVES[kind].items() if turns} == verdicts.keys()


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
