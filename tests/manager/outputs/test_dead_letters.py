"""Dead letters: kept once and bounded, shown to whom they concern, discarded for each alone, and fed again."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import func, select

from braid_client.answers.dead_letters import Replayed
from braid_client.answers.overview import OperationKind
from engine.plan import Feed
from manager.outputs.parked_letters import served_by
from manager.problem import Conflict, Forbidden, NotFound, StateNotReady
from manager.store.dead_letters import Letter, keep, replayed
from manager.store.tables import DeadLetterDropRow, DeadLetterReaderRow, DeadLetterReplayRow, DeadLetterRow
from manager.use_case import Caller, Paging
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, every, leading, raw

LINE = "s:source > m:map{'add': 1} > k:sink"


@pytest.fixture
def manager(empty_url: str) -> Iterator[Manager]:
    yield from leading(empty_url, tenants=("ann", "bob"), sources=("weather",))


def letter(
    instance: int, batch: int = 1, *, reason: str = "no number", events: tuple[Any, ...] = ({"t": "warm"},)
) -> Letter:
    return Letter(instance=instance, port="in", batch=batch, reason=reason, events=[*events])


def park(manager: Manager, *letters: Letter, at: float = 5.0, **most: int) -> int:
    """Keep letters as the manager does when they come; how many older ones had to go."""
    readers = served_by(manager.committer, {each.instance for each in letters})
    with manager.store.write() as session:
        return keep(session, letters, readers, at=at, **most)


def seen(manager: Manager, who: Caller, dataflow: str | None = None) -> list[tuple[int, int]]:
    """The instance and the batch of what somebody is shown, in order; reading page by page."""
    found: list[tuple[int, int]] = []
    after: str | None = None
    while True:
        page = manager.service.dead_letters.page(who, Paging(after=after, limit=2), dataflow=dataflow)
        with manager.store.read() as session:
            found += [(each.instance, session.get_one(DeadLetterRow, each.id).batch) for each in page.items]
        after = page.next
        if after is None:
            return found


def ids(manager: Manager, who: Caller) -> list[str]:
    return [str(each.id) for each in manager.service.dead_letters.page(who, Paging()).items]


def instance_of(manager: Manager, dataflow: str, task: str) -> int:
    tasks = manager.service.dataflows.get(OPERATOR, dataflow).tasks
    return next(each.instance for each in tasks if each.id == task)


def rows(manager: Manager, table: Any) -> int:
    with manager.store.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def two(manager: Manager) -> tuple[str, str, int]:
    """Dataflows of two tenants that share a task, and the instance of that."""
    mine, theirs = manager.submit("ann", LINE), manager.submit("bob", LINE)
    shared = instance_of(manager, mine, "m")
    assert shared == instance_of(manager, theirs, "m")
    return mine, theirs, shared


def test_a_letter_that_comes_twice_is_kept_once(manager: Manager) -> None:
    """In one group or later; what differs in anything that it says is a letter of its own."""
    _, _, shared = two(manager)
    first = letter(shared, 1)
    park(manager, first, first, letter(shared, 2))
    park(manager, first, letter(shared, 1, reason="another"), letter(shared, 1, events=({"t": "cold"},)))
    assert [(shared, 1), (shared, 1), (shared, 2), (shared, 1)] == seen(manager, ANN)


def test_each_sees_what_its_own_tasks_could_not_take(manager: Manager) -> None:
    """A tenant sees those of its dataflows' tasks with its own dataflows; an operator sees all, with everybody's."""
    mine, theirs, shared = two(manager)
    alone = instance_of(manager, manager.submit("bob", "s:source > m:map{'add': 2} > k:sink"), "m")
    park(manager, letter(shared), letter(alone), letter(999))
    assert [(shared, 1)] == seen(manager, ANN)
    assert [(alone, 1), (shared, 1)] == seen(manager, BOB)
    assert [(999, 1), (alone, 1), (shared, 1)] == seen(manager, OPERATOR)
    (shown,) = manager.service.dead_letters.page(ANN, Paging()).items
    assert ((mine,), "in", "no number", ({"t": "warm"},), 0) == (
        *(shown.dataflows, shown.port, shown.reason, shown.events, shown.dropped),
    )
    assert [(mine, theirs)] == [
        each.dataflows for each in manager.service.dead_letters.page(OPERATOR, Paging(), dataflow=mine).items
    ]


def test_a_traceback_is_shown_to_the_owner_of_the_code_only(manager: Manager) -> None:
    """To no other reader of the letter, and to no operator; all of them see the reason."""
    _, _, shared = two(manager)
    letters = [
        Letter(instance=shared, port="in", batch=at, reason="no", events=[1], owner=owner, traceback="line 1")
        for at, owner in enumerate(("", "bob"))
    ]
    park(manager, letter(shared, 7), *letters)
    shown = [manager.service.dead_letters.page(who, Paging()).items for who in (ANN, BOB, OPERATOR)]
    assert [["no", "no", "no number"]] * 3 == [[each.reason for each in items] for items in shown]
    assert [[None, None, None], ["line 1", None, None], [None, "line 1", None]] == [
        [each.traceback for each in items] for items in shown
    ]


def test_those_of_one_dataflow_are_shown(manager: Manager) -> None:
    """A filter by dataflow shows its owner's and an operator's; to another tenant that dataflow does not exist."""
    mine, theirs, shared = two(manager)
    other = manager.submit("ann", "s:source > m:map{'add': 2} > k:sink")
    park(manager, letter(shared), letter(instance_of(manager, other, "m")))
    assert [(shared, 1)] == seen(manager, ANN, mine) == seen(manager, OPERATOR, mine) == seen(manager, BOB, theirs)
    assert [] == seen(manager, BOB, mine) == seen(manager, ANN, "d-") == seen(manager, ANN, mine.upper())


def test_what_was_removed_or_replaced_since_stays_its_owners(manager: Manager) -> None:
    """Letters from before are still shown, and those that come after are for those that the task still serves."""
    mine, theirs, shared = two(manager)
    park(manager, letter(shared, 1))
    manager.changes.dataflows.remove(mine, who="ann")
    park(manager, letter(shared, 2))
    manager.changes.dataflows.replace(theirs, raw("s:source > m:map{'add': 5} > k:sink"), who="bob")
    assert [(shared, 1)] == seen(manager, ANN) == seen(manager, ANN, mine)
    assert [(shared, 2), (shared, 1)] == seen(manager, BOB) == seen(manager, BOB, theirs)


def test_what_comes_after_the_last_one_was_removed_is_still_theirs(manager: Manager) -> None:
    """A letter that was under way when its task's last dataflow was removed is that one's, and not an earlier one's."""
    mine, theirs, shared = two(manager)
    manager.changes.dataflows.remove(mine, who="ann")
    manager.changes.dataflows.remove(theirs, who="bob")
    park(manager, letter(shared))
    assert ([], [(shared, 1)]) == (seen(manager, ANN), seen(manager, BOB, theirs))


def test_who_comes_later_does_not_see_what_was_before(manager: Manager) -> None:
    """A dataflow that reuses a running task is not shown what that could not take before."""
    mine = manager.submit("ann", LINE)
    shared = instance_of(manager, mine, "m")
    park(manager, letter(shared, 1))
    manager.submit("bob", LINE)
    park(manager, letter(shared, 2))
    assert [(shared, 2)] == seen(manager, BOB)
    assert [(shared, 2), (shared, 1)] == seen(manager, ANN)


def test_a_tenant_discards_for_itself_only(manager: Manager) -> None:
    """A shared letter is gone for who discarded it, and for all once the last one has; ids are not used again."""
    _, _, shared = two(manager)
    park(manager, letter(shared, 1), letter(shared, 2))
    newest, oldest = ids(manager, ANN)
    assert 1 == manager.service.dead_letters.discard(ANN, oldest).dead_letters
    assert [(shared, 2)] == seen(manager, ANN)
    assert [(shared, 2), (shared, 1)] == seen(manager, BOB) == seen(manager, OPERATOR)
    with pytest.raises(NotFound):
        manager.service.dead_letters.discard(ANN, oldest)
    for each in (newest, oldest):
        manager.service.dead_letters.discard(BOB, each)
    manager.service.dead_letters.discard(ANN, newest)
    assert [] == seen(manager, OPERATOR)
    park(manager, letter(shared, 3))
    assert int(ids(manager, ANN)[0]) > int(newest)


def test_an_operator_discards_for_everybody(manager: Manager) -> None:
    """Nobody sees it any more, and nothing of it is kept."""
    _, _, shared = two(manager)
    park(manager, letter(shared), letter(999))
    for each in ids(manager, OPERATOR):
        manager.service.dead_letters.discard(OPERATOR, each)
    assert [] == seen(manager, BOB)
    assert (0, 0) == (rows(manager, DeadLetterRow), rows(manager, DeadLetterReaderRow))


def test_all_of_a_dataflow_are_discarded(manager: Manager) -> None:
    """It answers how many; those of other dataflows stay, and so do another tenant's; a removed one's can be, too."""
    mine, _, shared = two(manager)
    other = instance_of(manager, manager.submit("ann", "s:source > m:map{'add': 2} > k:sink"), "m")
    park(manager, *(letter(shared, batch) for batch in range(600)), letter(other))
    manager.changes.dataflows.remove(mine, who="ann")
    assert 600 == manager.service.dead_letters.discard_all(ANN, mine).dead_letters
    assert 0 == manager.service.dead_letters.discard_all(ANN, mine).dead_letters
    assert ([(other, 1)], 600) == (seen(manager, ANN), len(seen(manager, BOB)))
    assert 600 == len(manager.service.dead_letters.page(BOB, Paging(limit=601)).items)


@pytest.mark.parametrize("named", ["", "0", "x", "12345", "9" * 30, "-1"])
def test_what_is_not_there_cannot_be_discarded(manager: Manager, named: str) -> None:
    """An id that is none, and a dataflow that is another's, are not found, and the journal says nothing of them."""
    mine, _, shared = two(manager)
    park(manager, letter(shared))
    with pytest.raises(NotFound, match="there is no dead letter"):
        manager.service.dead_letters.discard(ANN, named)
    with pytest.raises(NotFound, match="there is no dataflow"):
        manager.service.dead_letters.discard_all(BOB, mine)
    assert [] == list(manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.DISCARD).items)


def test_the_journal_says_who_discarded_what(manager: Manager) -> None:
    """One entry for each discard that did something, about the letter or the dataflow."""
    mine, _, shared = two(manager)
    park(manager, letter(shared, 1), letter(shared, 2))
    first, _ = ids(manager, BOB)
    manager.service.dead_letters.discard(BOB, first)
    manager.service.dead_letters.discard_all(ANN, mine)
    manager.service.dead_letters.discard_all(ANN, mine)
    entries = manager.service.operations.page(OPERATOR, Paging(), kind=OperationKind.DISCARD).items
    assert [("ann", mine), ("bob", first)] == [(each.who, each.subject) for each in entries]


def test_the_newest_are_kept(manager: Manager) -> None:
    """Of an instance, and in all; what had to go is reported and counted by instance, with nothing left of it."""
    mine, _, shared = two(manager)
    other = instance_of(manager, mine, "k")
    bounds = {"most_of_instance": 3, "most_in_all": 4}
    assert 0 == park(manager, *(letter(shared, batch) for batch in range(3)), letter(other, 0), **bounds)
    assert 2 == park(manager, letter(shared, 3), letter(other, 1), **bounds)
    assert [(other, 1), (shared, 3), (other, 0), (shared, 2)] == seen(manager, ANN)
    assert [0, 2, 0, 2] == [each.dropped for each in manager.service.dead_letters.page(ANN, Paging()).items]
    assert 4 == park(manager, *(letter(999, batch) for batch in range(7)), **bounds) - 3
    assert [(999, 6), (999, 5), (999, 4), (other, 1)] == seen(manager, OPERATOR)
    with manager.store.read() as session:
        assert {shared: 4, other: 1, 999: 4} == {
            row.instance: row.count for row in session.scalars(select(DeadLetterDropRow))
        }
    assert 2 == rows(manager, DeadLetterReaderRow)


def feeds(manager: Manager, job: str = "1") -> list[Feed]:
    """What the newest plan of a job feeds."""
    plan = manager.changes.jobs.wanted()[job].plan
    assert plan is not None
    return list(plan.feeds)


def alone(manager: Manager, tenant: str = "ann") -> tuple[str, int]:
    """A dataflow that shares its task with nobody, and the instance of that."""
    name = manager.submit(tenant, LINE)
    return name, instance_of(manager, name, "m")


def grouped(manager: Manager, who: Caller, dataflow: str | None = None) -> list[tuple[int, str, int, float, float]]:
    """The instance, reason, number, and the first and the last time of each group, in order; read page by page."""
    groups = every(lambda part: manager.service.dead_letters.groups(who, part, dataflow=dataflow), 1)
    return [
        (each.instance, each.reason, each.dead_letters, each.first.timestamp(), each.last.timestamp())
        for each in groups
    ]


def test_dead_letters_are_grouped_by_task_and_reason(manager: Manager) -> None:
    """With their number and the first and the last time, newest group first; each tenant's own ones alone."""
    mine, theirs = manager.submit("ann", LINE), manager.submit("bob", "s:source > c:count > k:sink")
    mapped, count = instance_of(manager, mine, "m"), instance_of(manager, theirs, "c")
    park(manager, letter(mapped, 1), letter(mapped, 2, reason="no field"), letter(count, 3), at=5.0)
    park(manager, letter(mapped, 4), at=9.0)
    expected = [(mapped, "no number", 2, 5.0, 9.0), (mapped, "no field", 1, 5.0, 5.0)]
    assert [expected] * 2 == [grouped(manager, ANN), grouped(manager, ANN, mine)]
    assert [(count, "no number", 1, 5.0, 5.0)] == grouped(manager, BOB)
    assert 3 == len(grouped(manager, OPERATOR))
    assert [] == grouped(manager, BOB, mine)


def test_a_group_is_replayed_and_discarded_by_any_of_its_letters(manager: Manager) -> None:
    """Letters of another reason, task or tenant stay, and nobody acts on a group by a letter that it may not see."""
    mine, theirs = manager.submit("ann", LINE), manager.submit("bob", LINE.replace("1", "2"))
    mapped, others = instance_of(manager, mine, "m"), instance_of(manager, theirs, "m")
    park(manager, letter(mapped, 1), letter(mapped, 2, reason="no field"), letter(others, 3), letter(mapped, 4))
    _, other, _, first = ids(manager, OPERATOR)
    with pytest.raises(NotFound):
        manager.service.dead_letters.replay(ANN, other, alike=True)
    assert Replayed(dead_letters=2, events=2) == manager.service.dead_letters.replay(ANN, first, alike=True)
    assert [(mapped, 2)] == seen(manager, ANN)
    park(manager, letter(mapped, 5, reason="no field"))
    newest, _ = ids(manager, ANN)
    with pytest.raises(NotFound):
        manager.service.dead_letters.discard(BOB, newest, alike=True)
    assert 2 == manager.service.dead_letters.discard(ANN, newest, alike=True).dead_letters
    assert ([], [(others, 3)]) == (seen(manager, ANN), seen(manager, BOB))


def test_a_dead_letter_that_is_replayed_is_fed_to_its_task_and_gone(manager: Manager) -> None:
    """The next plan of the task's job brings the events under the letter's id; a second replay finds nothing."""
    mine, instance = alone(manager)
    park(manager, letter(instance, 1), letter(instance, 2, events=({"t": 1}, {"t": 2})))
    newest, oldest = ids(manager, ANN)
    version = manager.changes.jobs.wanted()["1"].plan
    assert Replayed(dead_letters=1, events=2) == manager.service.dead_letters.replay(ANN, newest)
    assert [Feed(id=int(newest), instance=instance, port="in", events='[{"t":1},{"t":2}]')] == feeds(manager)
    plan = manager.changes.jobs.wanted()["1"].plan
    assert version is not None
    assert plan is not None
    assert plan.version == version.version + 1
    assert [oldest] == ids(manager, ANN)
    for missing in (newest, "x", "999"):
        with pytest.raises(NotFound):
            manager.service.dead_letters.replay(ANN, missing)
    (entry,) = manager.service.operations.page(ANN, Paging(), kind=OperationKind.REPLAY, subject=newest).items
    assert "ann" == entry.who
    assert mine


def test_all_of_a_dataflow_are_replayed_the_oldest_first(manager: Manager) -> None:
    """Of all of its tasks, in the order in which they came; again there is nothing to do, which changes no plan."""
    mine, instance = alone(manager)
    sink = instance_of(manager, mine, "k")
    park(manager, letter(instance, 1))
    park(manager, letter(sink, 2))
    park(manager, letter(instance, 3))
    assert Replayed(dead_letters=3, events=3) == manager.service.dead_letters.replay_all(ANN, mine)
    assert [instance, sink, instance] == [each.instance for each in feeds(manager)]
    assert sorted(each.id for each in feeds(manager)) == [each.id for each in feeds(manager)]
    assert [] == ids(manager, OPERATOR)
    before = manager.changes.jobs.wanted()
    assert Replayed(dead_letters=0, events=0) == manager.service.dead_letters.replay_all(ANN, mine)
    assert before == manager.changes.jobs.wanted()


def test_what_was_replayed_and_comes_once_more_is_not_kept(manager: Manager) -> None:
    """A host that died sends letters again; those whose events were fed are not fed twice, and what is new is kept."""
    _, instance = alone(manager)
    park(manager, letter(instance, 1))
    manager.service.dead_letters.replay(ANN, ids(manager, ANN)[0])
    park(manager, letter(instance, 1), letter(instance, 2))
    assert [(instance, 2)] == seen(manager, ANN)


def test_what_is_fed_stands_in_every_plan_until_it_was_taken(manager: Manager) -> None:
    """Also in those that others' submissions make, and after another manager has taken over; then in none."""
    _, instance = alone(manager)
    park(manager, letter(instance))
    manager.service.dead_letters.replay(ANN, ids(manager, ANN)[0])
    (first,) = feeds(manager)
    before = manager.changes.jobs.wanted()["1"].plan
    assert before is not None
    manager.submit("bob", "s:source > m:map{'add': 2} > k:sink")
    assert [first] == feeds(manager)
    other = Manager(manager.url, "two").lead()
    try:
        assert [first] == feeds(other)
        other.changes.jobs.fed("1", before.version)
        assert [first] == feeds(other), "a plan that is not the newest was taken"
        newest = other.changes.jobs.wanted()["1"].plan
        assert newest is not None
        other.changes.jobs.fed("1", newest.version)
        assert [] == feeds(other)
        other.changes.jobs.fed("1", newest.version + 1)
        after = other.changes.jobs.wanted()["1"].plan
        assert after is not None
        assert newest.version + 1 == after.version
        other.changes.jobs.fed("77", 1)
    finally:
        other.close()


def test_what_was_not_taken_before_its_job_ends_is_a_dead_letter_again(manager: Manager) -> None:
    """As it was, to look at and to discard; until then nobody is shown it or can discard it."""
    mine, instance = alone(manager)
    park(manager, letter(instance, 1), letter(instance, 2), letter(instance, 3))
    before = manager.service.dead_letters.page(ANN, Paging()).items
    _, second, first = (str(each.id) for each in before)
    manager.service.dead_letters.replay(ANN, first)
    plan = manager.changes.jobs.wanted()["1"].plan
    assert plan is not None
    manager.changes.jobs.fed("1", plan.version)
    manager.service.dead_letters.replay(ANN, second)
    assert [(instance, 3)] == seen(manager, ANN) == seen(manager, OPERATOR, mine)
    with pytest.raises(NotFound):
        manager.service.dead_letters.discard(OPERATOR, second)
    other = Manager(manager.url, "two").lead()
    try:
        other.changes.dataflows.remove(mine, who="ann")
        assert before[:2] == other.service.dead_letters.page(ANN, Paging()).items
        park(other, letter(instance, 1), letter(instance, 2))
        assert [(instance, 3), (instance, 2)] == seen(other, ANN)
        with pytest.raises(Conflict, match="runs for nobody any more"):
            other.service.dead_letters.replay(OPERATOR, second)
        assert 2 == other.service.dead_letters.discard_all(ANN, mine).dead_letters
        assert (0, 0) == (rows(other, DeadLetterRow), rows(other, DeadLetterReaderRow))
    finally:
        other.close()


def test_what_its_task_cannot_be_fed_any_more_is_its_jobs_to_tell(manager: Manager) -> None:
    """Where others keep the job, its host parks the events anew; the old letter goes once it has."""
    mine, instance = alone(manager)
    park(manager, letter(instance))
    manager.service.dead_letters.replay(ANN, ids(manager, ANN)[0])
    manager.submit("bob", "s:source > m:map{'add': 2} > k:sink")
    manager.changes.dataflows.remove(mine, who="ann")
    assert ([], [instance]) == (ids(manager, OPERATOR), [each.instance for each in feeds(manager)])
    plan = manager.changes.jobs.wanted()["1"].plan
    assert plan is not None
    manager.changes.jobs.fed("1", plan.version)
    assert (0, 0) == (rows(manager, DeadLetterRow), rows(manager, DeadLetterReaderRow))


def test_what_is_under_way_takes_no_place_of_newer_ones(manager: Manager) -> None:
    """It is not dropped for them, and not counted as dropped."""
    mine, instance = alone(manager)
    park(manager, letter(instance, 1), letter(instance, 2))
    manager.service.dead_letters.replay_all(ANN, mine)
    assert 0 == park(manager, letter(instance, 3), letter(instance, 4), most_of_instance=2)
    assert [(instance, 4), (instance, 3)] == seen(manager, ANN)
    assert 4 == rows(manager, DeadLetterRow)


def test_what_was_replayed_is_known_for_as_long_as_it_is_under_way(manager: Manager) -> None:
    """However long its job takes; once it was taken it is forgotten after some weeks."""
    _, instance = alone(manager)
    park(manager, letter(instance))
    manager.service.dead_letters.replay(ANN, ids(manager, ANN)[0])
    later = time.time() + 60 * 86_400.0
    with manager.store.write() as session:
        replayed(session, [], at=later)
    assert [] == ids(manager, OPERATOR)
    plan = manager.changes.jobs.wanted()["1"].plan
    assert plan is not None
    manager.changes.jobs.fed("1", plan.version)
    assert 1 == rows(manager, DeadLetterReplayRow)
    with manager.store.write() as session:
        replayed(session, [], at=later)
    assert 0 == rows(manager, DeadLetterReplayRow)


def test_a_task_that_serves_others_too_is_fed_by_operators_only(manager: Manager) -> None:
    """Its events would reach the others as well; a tenant is refused, and what an operator replays is gone for all."""
    mine, theirs, shared = two(manager)
    park(manager, letter(shared, 1), letter(shared, 2))
    newest, oldest = ids(manager, ANN)
    refusal = "serves others as well, who would get its events too; ask an operator"
    with pytest.raises(Forbidden, match=refusal):
        manager.service.dead_letters.replay(ANN, newest)
    with pytest.raises(Forbidden, match=refusal):
        manager.service.dead_letters.replay_all(BOB, theirs)
    assert 1 == manager.service.dead_letters.replay(OPERATOR, newest).dead_letters
    assert [oldest] == ids(manager, ANN) == ids(manager, BOB)
    manager.changes.dataflows.remove(mine, who="ann")
    assert 1 == manager.service.dead_letters.replay_all(BOB, theirs).dead_letters
    assert [] == ids(manager, ANN)


def test_tasks_of_ones_own_may_serve_several_of_ones_dataflows(manager: Manager) -> None:
    """Others are other tenants."""
    mine, shared = alone(manager)
    manager.submit("ann", LINE)
    park(manager, letter(shared))
    assert 1 == manager.service.dead_letters.replay_all(ANN, mine).dead_letters


def test_what_can_be_replayed_is_and_the_rest_is_left_with_the_reason(manager: Manager) -> None:
    """A dataflow's letters of a task that runs no more, or not for the caller, stay; they hold up none that can be."""
    mine, instance = alone(manager)
    park(manager, letter(instance, 1))
    manager.changes.dataflows.replace(mine, raw("s:source > m:map{'add': 5} > k:sink"), who="ann")
    park(manager, letter(instance_of(manager, mine, "m"), 2))
    answer = manager.service.dead_letters.replay_all(ANN, mine)
    assert (1, 1) == (answer.dead_letters, answer.left)
    assert f"instance {instance}, which could not take it, runs not for you any more" in (answer.why_left or "")
    assert [(instance, 1)] == seen(manager, ANN)
    with pytest.raises(Conflict, match="runs for nobody any more; look at the dead letter, or discard it"):
        manager.service.dead_letters.replay(OPERATOR, ids(manager, ANN)[0])
    manager.submit("bob", LINE)
    with pytest.raises(Conflict, match="runs not for you any more"):
        manager.service.dead_letters.replay_all(ANN, mine)
    with pytest.raises(NotFound):
        manager.service.dead_letters.replay_all(BOB, mine)


def test_what_a_source_could_not_read_is_not_replayed(manager: Manager) -> None:
    """No task has met it; it would not fit the schema once more."""
    mine, _ = alone(manager)
    park(manager, letter(instance_of(manager, mine, "s")))
    with pytest.raises(Conflict, match="is a source, whose schema the events do not fit; publish them anew"):
        manager.service.dead_letters.replay_all(ANN, mine)


def test_a_job_is_fed_only_so_much_at_a_time(manager: Manager) -> None:
    """What is left keeps its order: nothing that came later overtakes it, however small; it goes once there is room."""
    mine, instance = alone(manager)
    large = {"t": "x" * 600_000}
    park(manager, letter(instance, 1, events=(large,)), letter(instance, 2, events=(large,)), letter(instance, 3))
    answer = manager.service.dead_letters.replay_all(ANN, mine)
    assert (1, 1, 2) == (answer.dead_letters, answer.events, answer.left)
    assert [(instance, 3), (instance, 2)] == seen(manager, ANN)
    with pytest.raises(StateNotReady, match="its job still takes what was replayed before") as raised:
        manager.service.dead_letters.replay_all(ANN, mine)
    assert raised.value.retry_after
    plan = manager.changes.jobs.wanted()["1"].plan
    assert plan is not None
    manager.changes.jobs.fed("1", plan.version)
    assert 2 == manager.service.dead_letters.replay_all(ANN, mine).dead_letters
