"""Reconfigurations that wait for others: their order, their end, and what of them outlives a manager."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlmodel import select

from braid_client.answers.dataflows import Stop
from braid_client.answers.reconfigurations import ReconfigurationAnswer, ReconfigurationForm, ReconfigurationState
from braid_client.answers.tenants import Quota
from dags.vocabulary import Scheduler
from manager.kernel.transitions import Phase, Reconfiguration, TransitionEvent, Turn
from manager.observations.sight import Sight
from manager.problem import Conflict, InvalidDataflow, QuotaExceeded, StateNotReady
from manager.reconfigurations.changes import MOST_QUEUED
from manager.reconfigurations.request import ReconfigurationRequest, read_request
from manager.reconfigurations.turns import reconfigure
from manager.store.tables import DataflowRow, ReconfigurationRow
from manager.use_case import Paging
from merge import Instance
from tests.manager.kernel.pictures import hold, pictured, rows
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, raw, take

CHAIN = "s:source > a:map{'add': 1} > b:count > k:sink"
OTHER = "s:source{'source': 'traffic'} > x:map{'add': 1} > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """A manager that packs everything into one job."""
    made = settled(Manager(sqlite).lead())
    yield made
    made.close()


@pytest.fixture
def spread(sqlite: str) -> Iterator[Manager]:
    """A manager with jobs in a row: each dataflow's residue has one of its own."""
    made = settled(Manager(sqlite, strategy="launch").lead())
    yield made
    made.close()


def settled(manager: Manager) -> Manager:
    """A manager with tenants and sources."""
    manager.admit("ann", "bob")
    manager.register("weather", "traffic")
    return manager


def adding(number: int, task: str = "a") -> ReconfigurationForm:
    return ReconfigurationForm(tasks={task: {"config": {"add": number}}})


def begun(manager: Manager, dataflow: str, form: ReconfigurationForm, key: str | None = None) -> ReconfigurationAnswer:
    """A reconfiguration that an operator asks for."""
    return manager.service.reconfigurations.begin(OPERATOR, dataflow, form, idempotency_key=key)


def look(manager: Manager) -> list[TransitionEvent]:
    """Have the reconciler look once, while nothing is known of jobs; what it did."""
    taken: list[TransitionEvent] = []
    reconfigurations = manager.changes.reconfigurations
    for turn in tuple(reconfigure(reconfigurations.under_way(), Sight(complete=True), {}, 0.0)):
        assert isinstance(turn, Turn)
        reconfigurations.take(turn)
        taken.append(turn.event)
    hold(manager)
    return taken


def switched(manager: Manager, answer: ReconfigurationAnswer) -> None:
    """Have every job run the new version."""
    changes, number = manager.changes.reconfigurations, int(answer.id)
    if any(each.phase is Phase.PREPARING and each.id == number for each in under_way(manager)):
        take(changes, number, TransitionEvent.READY)
    take(changes, number, TransitionEvent.BEGUN)


def under_way(manager: Manager) -> list[Reconfiguration]:
    return [each.reconfiguration for each in manager.changes.reconfigurations.under_way()]


def in_a_row(manager: Manager) -> str:
    """A dataflow of its own, whose task `d` runs in a job below that of `a`."""
    above = manager.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = manager.submit("ann", "s:source > a:map{'add': 1} > d:map{'add': 2} > k:sink")
    manager.service.dataflows.remove(ANN, above, Stop.NOW)
    return flow


def adding_twice(number: int) -> ReconfigurationForm:
    """A change of both, for which the job below has to wait for a marker."""
    return ReconfigurationForm(tasks={task: {"config": {"add": number}} for task in "ad"})


def state(manager: Manager, dataflow: str, answer: ReconfigurationAnswer) -> ReconfigurationAnswer:
    return manager.service.reconfigurations.get(OPERATOR, dataflow, answer.id)


def config(manager: Manager, dataflow: str, task: str = "a") -> object:
    """The config with which a task runs."""
    places = {each.id: each.instance for each in manager.service.dataflows.get(OPERATOR, dataflow).tasks}
    with manager.committer.looking() as committed:
        return committed.running.tasks[Instance(places[task])].config


def test_one_waits_for_another_and_then_goes_on(manager: Manager) -> None:
    """The answer names its place and whom it waits for; it begins once that one has switched, on what that one made."""
    flow = manager.submit("ann", CHAIN)
    first = begun(manager, flow, adding(5))
    second = begun(manager, flow, ReconfigurationForm(tasks={"a": {"type": "echo", "config": {"add": None}}}))
    assert (ReconfigurationState.SWITCHING, ReconfigurationState.WAITING) == (first.state, second.state)
    assert second.queue is not None
    assert (1, (first.id,)) == (second.queue.place, second.queue.behind)
    assert [] == look(manager)
    switched(manager, first)
    assert ReconfigurationState.SWITCHED is state(manager, flow, first).state
    assert {"add": 5} == config(manager, flow)
    assert [TransitionEvent.CLEARED] == look(manager)
    on = state(manager, flow, second)
    assert (ReconfigurationState.SWITCHING, None) == (on.state, on.queue)
    assert {"add": 0} == config(manager, flow)


def test_they_go_on_in_the_order_of_the_requests(manager: Manager) -> None:
    """Whoever asks later waits behind those that wait, also of other dataflows in the same job; an other job's goes."""
    flows = [manager.submit("ann", CHAIN), manager.submit("bob", OTHER)]
    answers = [begun(manager, flows[0], adding(5)), begun(manager, flows[1], adding(6, "x"))]
    answers += [begun(manager, flows[0], adding(7)), begun(manager, flows[1], adding(8, "x"))]
    places = [each.queue for each in answers]
    assert [None, 1, 2, 3] == [each and each.place for each in places]
    assert [(), (1,), (1, 2), (1, 2, 3)] == [() if each is None else tuple(map(int, each.behind)) for each in places]
    order = [flows[0], flows[1], flows[0], flows[1]]
    for at, (flow, answer) in enumerate(zip(order, answers, strict=True)):
        assert ReconfigurationState.SWITCHING is state(manager, flow, answer).state
        waiting = [state(manager, *each).queue for each in zip(order[at + 1 :], answers[at + 1 :], strict=True)]
        assert list(range(1, len(waiting) + 1)) == [each.place for each in waiting if each is not None]
        switched(manager, answer)
        assert [TransitionEvent.CLEARED] * (at < 3) == look(manager)
    assert ({"add": 7}, {"add": 8}) == (config(manager, flows[0]), config(manager, flows[1], "x"))


def test_what_does_not_meet_does_not_wait(spread: Manager) -> None:
    """Reconfigurations of other jobs begin at once, whatever waits elsewhere."""
    flow, apart = spread.submit("ann", CHAIN), spread.submit("bob", OTHER)
    begun(spread, flow, adding(5))
    assert ReconfigurationState.WAITING is begun(spread, flow, adding(6)).state
    assert ReconfigurationState.SWITCHING is begun(spread, apart, adding(7, "x")).state
    hold(spread)


def test_one_of_the_same_dataflow_waits_although_its_tasks_are_elsewhere_by_now(spread: Manager) -> None:
    """A dataflow whose document was replaced meanwhile is the same one, so nobody overtakes who waits for it."""
    flow, apart = spread.submit("ann", CHAIN), spread.submit("bob", CHAIN)
    first = begun(spread, apart, adding(4))
    second = begun(spread, flow, adding(5))
    assert (ReconfigurationState.SWITCHING, ReconfigurationState.WAITING) == (first.state, second.state)
    switched(spread, first)
    spread.changes.dataflows.replace(flow, raw(OTHER.replace("x:", "a:")), who="ann")
    third = begun(spread, flow, adding(6))
    assert third.queue is not None
    assert (second.id,) == third.queue.behind
    hold(spread)


@pytest.mark.parametrize("prepares", [True, False])
def test_it_goes_on_after_the_death_of_a_manager(empty_url: str, *, prepares: bool) -> None:
    """The next one knows what was asked for, and in which order; that is so while others prepare or switch as well."""
    dead = settled(Manager(empty_url, strategy="launch").lead())
    flow = in_a_row(dead)
    first = begun(dead, flow, adding_twice(5))
    assert ReconfigurationState.PREPARING is first.state
    if not prepares:
        take(dead.changes.reconfigurations, int(first.id), TransitionEvent.READY)
    waits = [begun(dead, flow, adding_twice(number)) for number in (6, 7)]
    assert [1, 2] == [each.queue.place for each in waits if each.queue is not None]
    dead.close()
    manager = Manager(empty_url, "two", strategy="launch").lead()
    hold(manager)
    if prepares:
        assert [[TransitionEvent.INTERRUPTED], [TransitionEvent.CLEARED]] == [look(manager), look(manager)]
        assert ReconfigurationState.PREPARING is state(manager, flow, first).state
    for number, answer in zip((5, 6, 7), (first, *waits), strict=True):
        switched(manager, answer)
        assert ({"add": number}, {"add": number}) == (config(manager, flow), config(manager, flow, "d"))
        assert [TransitionEvent.CLEARED] * (number < 7) == look(manager)
    manager.close()


def test_what_a_dead_manager_has_prepared_is_withdrawn_first(spread: Manager) -> None:
    """No job waits for the marker of a decision that nobody knows any more; it is decided anew by what runs then."""
    flow = in_a_row(spread)
    answer = begun(spread, flow, adding_twice(5))
    heir = Manager(spread.url, "two", strategy="launch").lead()
    assert [TransitionEvent.INTERRUPTED] == look(heir)
    with heir.committer.looking() as committed:
        assert {None} == {plan.switch for plan in committed.plans.values()}
    # It does not wait for itself, and others may change meanwhile.
    heir.service.dataflows.remove(BOB, heir.submit("bob", CHAIN), Stop.NOW)
    assert [TransitionEvent.CLEARED] == look(heir)
    assert ReconfigurationState.PREPARING is state(heir, flow, answer).state
    switched(heir, answer)
    take(heir.changes.reconfigurations, int(answer.id), TransitionEvent.PROVEN)
    assert (ReconfigurationState.DONE, {"add": 5}) == (state(heir, flow, answer).state, config(heir, flow))
    heir.close()


def test_the_way_back_from_a_failing_version_goes_on_too(spread: Manager) -> None:
    """The manager that has begun to undo it dies while that prepares; the next one undoes it."""
    flow = in_a_row(spread)
    bad = begun(spread, flow, adding_twice(5))
    switched(spread, bad)
    take(spread.changes.reconfigurations, int(bad.id), TransitionEvent.FAILED, why="it fails")
    # Events from before the bad version may still be under way, so that one is not over either.
    reverted, undo = under_way(spread)
    assert (Phase.REVERTED, Phase.PREPARING) == (reverted.phase, undo.phase)
    heir = Manager(spread.url, "two", strategy="launch").lead()
    assert [[TransitionEvent.INTERRUPTED], [TransitionEvent.CLEARED]] == [look(heir), look(heir)]
    take(heir.changes.reconfigurations, undo.id, TransitionEvent.READY)
    assert ({"add": 1}, {"add": 2}) == (config(heir, flow), config(heir, flow, "d"))
    assert ReconfigurationState.REVERTED is state(heir, flow, bad).state
    heir.close()


def test_one_that_waits_is_cancelled(manager: Manager) -> None:
    """It changes nothing, those behind it move up, and cancelling it once more changes nothing either."""
    flow = manager.submit("ann", CHAIN)
    first, second, third = (begun(manager, flow, adding(number)) for number in (5, 6, 7))
    for _ in range(2):
        cancelled = manager.service.reconfigurations.cancel(ANN, flow, second.id)
        assert (ReconfigurationState.ABANDONED, "given up, because ann cancelled it") == (
            cancelled.state,
            cancelled.outcome,
        )
    queue = state(manager, flow, third).queue
    assert queue is not None
    assert (1, (first.id,)) == (queue.place, queue.behind)
    switched(manager, first)
    look(manager)
    assert {"add": 7} == config(manager, flow)


def test_a_cancel_that_comes_too_late_says_which_it_is(manager: Manager) -> None:
    """Switching, switched, done or gone back: what can be done then is in the message."""
    flow = manager.submit("ann", CHAIN)
    service, changes = manager.service.reconfigurations, manager.changes.reconfigurations
    answer = begun(manager, flow, adding(5))

    def refused(number: str) -> str:
        with pytest.raises(Conflict) as why:
            service.cancel(ANN, flow, number)
        return str(why.value)

    assert "reconfiguration 1 is switching already, which has to end; undo it after that" == refused(answer.id)
    switched(manager, answer)
    undo = "reconfiguration 1 has switched already; undo it instead, at .../1/undo"
    assert undo == refused(answer.id)
    take(changes, int(answer.id), TransitionEvent.PROVEN)
    assert undo == refused(answer.id)
    bad = begun(manager, flow, adding(6))
    switched(manager, bad)
    take(changes, int(bad.id), TransitionEvent.FAILED, why="it fails")
    assert "reconfiguration 2 is over: it was undone, because it fails" == refused(bad.id)


def test_what_does_not_fit_any_more_is_given_up(manager: Manager) -> None:
    """The outcome says why, also if the dataflow is gone; those behind go on."""
    flow, other = manager.submit("ann", CHAIN), manager.submit("bob", OTHER)
    first = begun(manager, other, adding(5, "x"))
    without = json.loads(raw("s:source > b:count > k:sink"))
    forms = [(flow, ReconfigurationForm(document=without)), (flow, adding(6)), (other, adding(7, "x"))]
    waits = [(each, begun(manager, each, form)) for each, form in [*forms, (flow, adding_count())]]
    switched(manager, first)
    manager.service.dataflows.remove(BOB, other, Stop.NOW)
    assert [TransitionEvent.CLEARED] == look(manager)
    switched(manager, waits[0][1])
    # Giving one up clears the next.
    assert [[TransitionEvent.CLEARED]] * 3 == [look(manager), look(manager), look(manager)]
    ends = [manager.service.reconfigurations.get(OPERATOR, each, answer.id) for each, answer in waits]
    assert ["switched", "abandoned", "abandoned", "switching"] == [each.state for each in ends]
    assert "given up, because it does not fit any more: /tasks/a: the dataflow has no task 'a'" in ends[1].outcome
    assert f"given up, because it does not fit any more: the dataflow {other!r} was removed" in ends[2].outcome


def test_one_may_take_back_what_another_that_waits_will_do(manager: Manager) -> None:
    """As things are it would change nothing, but not any more when its turn comes."""
    flow = manager.submit("ann", CHAIN)
    answers = [begun(manager, flow, adding(number)) for number in (5, 6, 5)]
    assert [1, 2] == [each.queue.place for each in answers if each.queue is not None]
    with pytest.raises(Conflict, match="nothing would change"):
        manager.service.reconfigurations.preview(ANN, flow, adding(5))
    for answer, number in zip(answers, (5, 6, 5), strict=True):
        assert {"add": number} == config(manager, flow)
        switched(manager, answer)
        look(manager)
    cancelled = [begun(manager, flow, adding(number)) for number in (7, 8, 7)]
    manager.service.reconfigurations.cancel(ANN, flow, cancelled[1].id)
    switched(manager, cancelled[0])
    assert [TransitionEvent.CLEARED] == look(manager)
    last = state(manager, flow, cancelled[2])
    assert (ReconfigurationState.ABANDONED, True) == (last.state, "nothing would change" in last.outcome)


def adding_count() -> ReconfigurationForm:
    """Another config of the count, whose state begins anew."""
    return ReconfigurationForm(tasks={"b": {"config": {"by": "value"}}}, fresh=["b"])


def test_an_undo_waits_and_undoes_only_what_it_was_asked_for(manager: Manager) -> None:
    """What another one has changed before its turn would be lost, so it is given up then."""
    flow, other = manager.submit("ann", CHAIN), manager.submit("bob", OTHER)
    first = begun(manager, flow, adding(5))
    switched(manager, first)
    between = begun(manager, other, adding(6, "x"))
    another, undo = begun(manager, flow, adding(7)), manager.service.reconfigurations.undo(ANN, flow, first.id)
    assert ReconfigurationState.WAITING is undo.state
    switched(manager, between)
    look(manager)
    switched(manager, another)
    look(manager)
    found = state(manager, flow, undo)
    assert (ReconfigurationState.ABANDONED, True) == (found.state, "has changed since" in found.outcome)
    assert {"add": 7} == config(manager, flow)


def test_a_plan_fits_only_what_it_was_made_for(manager: Manager) -> None:
    """A whole document that was planned for one revision does not overwrite what came meanwhile."""
    flow = manager.submit("ann", CHAIN)
    document = manager.service.dataflows.get(ANN, flow).document
    document["tasks"][1]["config"]["add"] = 9
    form = ReconfigurationForm(document=document)
    first = begun(manager, flow, adding(5))
    planned = manager.service.reconfigurations.fill(ANN, flow, form, revision=2, lenient=False)
    behind = begun(manager, flow, adding(6))
    assert ReconfigurationState.WAITING is planned.state
    with pytest.raises(Conflict, match="has changed since"):
        manager.service.reconfigurations.fill(ANN, flow, form, revision=1, lenient=False)
    switched(manager, first)
    look(manager)
    switched(manager, planned)
    look(manager)
    assert ({"add": 6}, ReconfigurationState.SWITCHING) == (config(manager, flow), state(manager, flow, behind).state)


def test_what_adapts_is_refused_while_others_wait_and_a_repair_is_not(manager: Manager) -> None:
    """An adaptation is decided anew soon, so it need not queue; a failing version goes back before those that wait."""
    flow, other = manager.submit("ann", CHAIN), manager.submit("bob", OTHER)
    bad = begun(manager, flow, adding(5))
    switched(manager, bad)
    first = begun(manager, other, adding(6, "x"))
    second = begun(manager, flow, adding(7))
    assert ReconfigurationState.WAITING is second.state
    switched(manager, first)
    with manager.store.read() as session:
        text = session.exec(select(DataflowRow.document).where(DataflowRow.id == flow)).one().replace("5", "8")
    before = pictured(manager), rows(manager.store)
    with pytest.raises(StateNotReady):
        manager.service.reconfigurations.adapt({flow: text}, apart={}, who="operator")
    assert before == (pictured(manager), rows(manager.store))
    take(manager.changes.reconfigurations, int(bad.id), TransitionEvent.FAILED, why="it fails")
    assert {"add": 1} == config(manager, flow)
    hold(manager)


def test_a_tenant_learns_no_more_of_others_than_how_many_there_are(manager: Manager) -> None:
    """Of those that it waits for it sees its own; an operator sees all."""
    mine, other = manager.submit("ann", CHAIN), manager.submit("bob", OTHER)
    first, second = begun(manager, other, adding(5, "x")), begun(manager, mine, adding(6))
    third = manager.service.reconfigurations.begin(ANN, mine, adding(7))
    assert third.queue is not None
    assert (2, (second.id,), 1) == (third.queue.place, third.queue.behind, third.queue.behind_others)
    whole = state(manager, mine, third).queue
    assert whole is not None
    assert ((first.id, second.id), 0) == (whole.behind, whole.behind_others)


def test_only_so_many_of_a_dataflow_wait(manager: Manager) -> None:
    """One more is refused, and changes nothing; a tenant's rate holds for those that wait as for all."""
    flow = manager.submit("ann", CHAIN)
    for number in range(5, 6 + MOST_QUEUED):
        begun(manager, flow, adding(number))
    before = pictured(manager), rows(manager.store)
    with pytest.raises(QuotaExceeded, match=f"{MOST_QUEUED} reconfigurations of the dataflow"):
        begun(manager, flow, adding(100))
    assert before == (pictured(manager), rows(manager.store))
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(submits_per_minute=0))
    with pytest.raises(QuotaExceeded, match="may submit nothing"):
        manager.service.reconfigurations.begin(ANN, flow, adding(100))


def test_the_same_key_does_it_once(empty_url: str) -> None:
    """Also while it waits, after it has switched, and at the next manager; something else under the key is refused."""
    manager = settled(Manager(empty_url).lead())
    flow = manager.submit("ann", CHAIN, "k1")
    first = begun(manager, flow, adding(5), "k1")
    second = begun(manager, flow, adding(6), "k2")
    assert ReconfigurationState.WAITING is second.state
    before = rows(manager.store)
    assert [first, second] == [begun(manager, flow, adding(5), "k1"), begun(manager, flow, adding(6), "k2")]
    with pytest.raises(Conflict, match="the idempotency key 'k2' was used for another reconfiguration"):
        begun(manager, flow, adding(7), "k2")
    assert before == rows(manager.store)
    switched(manager, first)
    look(manager)
    switched(manager, second)
    manager.close()
    manager = Manager(empty_url, "two").lead()
    # Without the key nothing would change by now.
    with pytest.raises(Conflict, match="nothing would change"):
        begun(manager, flow, adding(6))
    assert second.id == begun(manager, flow, adding(6), "k2").id
    undo = manager.service.reconfigurations.undo(ANN, flow, second.id, idempotency_key="k3")
    switched(manager, undo)
    before = rows(manager.store)
    assert undo.id == manager.service.reconfigurations.undo(ANN, flow, second.id, idempotency_key="k3").id
    with pytest.raises(Conflict, match="was used for another reconfiguration"):
        manager.service.reconfigurations.undo(ANN, flow, first.id, idempotency_key="k3")
    assert before == rows(manager.store)
    assert {"add": 5} == config(manager, flow)
    manager.close()


def test_the_same_key_at_once_does_it_once(manager: Manager) -> None:
    """Of requests that come together one is done, and all get its answer, also where nothing else would change then."""
    flow = manager.submit("ann", CHAIN)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: begun(manager, flow, adding(5), "k").id, range(8)))
    assert 1 == len(set(answers))
    (only,) = manager.service.reconfigurations.page(ANN, flow, Paging()).items
    assert only.id == answers[0]
    hold(manager)


def test_a_key_is_a_tenants_own(manager: Manager) -> None:
    """Two tenants may use the same key, and what was refused under a key does not use it up."""
    mine, other = manager.submit("ann", CHAIN), manager.submit("bob", OTHER)
    with pytest.raises(InvalidDataflow):
        begun(manager, mine, ReconfigurationForm(tasks={"a": {"config": {"add": "x"}}}), "k")
    first, second = begun(manager, mine, adding(5), "k"), begun(manager, other, adding(5, "x"), "k")
    assert first.id != second.id


def test_what_was_asked_for_is_read_as_it_was_written() -> None:
    """Every field of a request survives, also numbers that strict JSON has not."""
    wanted = ReconfigurationRequest(
        dataflows=("d-1", "d-2"),
        patches={"a": {"config": {"max": float("inf"), "gone": None}}},
        documents={"d-1": '{"name": "é"}'},
        fresh=frozenset("ab"),
        undoes=3,
        scheduler=Scheduler.EPOCH,
        apart={"d-1": frozenset("xy")},
        lenient=True,
        revisions={"d-1": 4},
    )
    assert wanted == read_request(wanted.written())
    assert ReconfigurationRequest(dataflows=("d",)) == read_request(ReconfigurationRequest(dataflows=("d",)).written())


def test_one_of_an_older_version_is_given_up(spread: Manager) -> None:
    """It was prepared before what was asked for was kept; the outcome says so."""
    spread.submit("ann", "s:source > a:map{'add': 1} > k:sink")
    flow = spread.submit("ann", CHAIN)
    answer = begun(spread, flow, adding(5))
    with spread.store.write() as session:
        session.get_one(ReconfigurationRow, int(answer.id)).request = None
    heir = Manager(spread.url, "two", strategy="launch").lead()
    assert [[TransitionEvent.INTERRUPTED], [TransitionEvent.CLEARED]] == [look(heir), look(heir)]
    found = state(heir, flow, answer)
    assert (ReconfigurationState.ABANDONED, True) == (found.state, "an older version" in found.outcome)
    heir.close()


def test_one_that_waits_holds_up_no_proof_and_one_that_prepares_does(spread: Manager) -> None:
    """What only waits changes nothing of what jobs read, and may wait for long."""
    flow = in_a_row(spread)
    first = begun(spread, flow, adding_twice(5))
    switched(spread, first)
    begun(spread, flow, adding_twice(6))
    begun(spread, flow, adding_twice(7))

    def held() -> list[tuple[Phase, bool]]:
        going = spread.changes.reconfigurations.under_way()
        return [(each.reconfiguration.phase, each.is_held) for each in going]

    assert [(Phase.PROVING, True), (Phase.PREPARING, False), (Phase.WAITING, True)] == held()
    spread.changes.reconfigurations.give_up(under_way(spread)[1].id, why="a test")
    assert [(Phase.PROVING, False), (Phase.WAITING, False)] == held()
