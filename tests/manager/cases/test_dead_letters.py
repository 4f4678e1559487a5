"""Dead letters: kept once and bounded, shown to those whose tasks could not take them, and discarded for each alone."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import func, select

from manager.answers import OperationKind
from manager.cases.base import Caller, Paging
from manager.problem import NotFound
from manager.reconciler.parking import Served
from manager.store.dead_letters import Letter, keep
from manager.store.tables import DeadLetterDropRow, DeadLetterReaderRow, DeadLetterRow
from tests.manager.managers import OPERATOR, Manager, caller, raw

ANN, BOB = caller("ann"), caller("bob")
LINE = "s:source > m:map{'add': 1} > k:sink"


@pytest.fixture
def manager(empty_url: str) -> Iterator[Manager]:
    made = Manager(empty_url).lead()
    made.admit("ann", "bob")
    made.register("weather")
    yield made
    made.close()


def letter(
    instance: int, batch: int = 1, *, reason: str = "no number", events: tuple[Any, ...] = ({"t": "warm"},)
) -> Letter:
    return Letter(instance=instance, port="in", batch=batch, reason=reason, events=events)


def park(manager: Manager, *letters: Letter, **most: int) -> int:
    """Keep letters as the manager does when they come; how many older ones had to go."""
    readers = Served(manager.committer)({each.instance for each in letters})
    with manager.store.write() as session:
        return keep(session, letters, readers, at=5.0, **most)


def seen(manager: Manager, who: Caller, dataflow: str | None = None) -> list[tuple[int, int]]:
    """The instance and the batch of what somebody is shown, in order; reading page by page."""
    found: list[tuple[int, int]] = []
    after: str | None = None
    while True:
        page = manager.service.dead_letters(who, Paging(after=after, limit=2), dataflow=dataflow)
        with manager.store.read() as session:
            found += [(each.instance, session.get_one(DeadLetterRow, each.id).batch) for each in page.items]
        after = page.next
        if after is None:
            return found


def ids(manager: Manager, who: Caller) -> list[str]:
    return [str(each.id) for each in manager.service.dead_letters(who, Paging()).items]


def instance_of(manager: Manager, dataflow: str, task: str) -> int:
    tasks = manager.service.dataflow(OPERATOR, dataflow).tasks
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
    (shown,) = manager.service.dead_letters(ANN, Paging()).items
    assert ((mine,), "in", "no number", ({"t": "warm"},), 0) == (
        *(shown.dataflows, shown.port, shown.reason, shown.events, shown.dropped),
    )
    assert [(mine, theirs)] == [
        each.dataflows for each in manager.service.dead_letters(OPERATOR, Paging(), dataflow=mine).items
    ]


def test_those_of_one_dataflow_are_shown(manager: Manager) -> None:
    """A filter by dataflow shows its owner's and an operator's; to another tenant that dataflow does not exist."""
    mine, theirs, shared = two(manager)
    other = manager.submit("ann", "s:source > m:map{'add': 2} > k:sink")
    park(manager, letter(shared), letter(instance_of(manager, other, "m")))
    assert [(shared, 1)] == seen(manager, ANN, mine) == seen(manager, OPERATOR, mine) == seen(manager, BOB, theirs)
    assert [] == seen(manager, BOB, mine) == seen(manager, ANN, "d-") == seen(manager, ANN, mine.upper())


def test_what_was_removed_or_replaced_since_stays_its_owners(manager: Manager) -> None:
    """Letters from before are still shown, and those that come after are for whoever the task still serves."""
    mine, theirs, shared = two(manager)
    park(manager, letter(shared, 1))
    manager.committer.remove(mine, who="ann")
    park(manager, letter(shared, 2))
    manager.committer.replace(theirs, raw("s:source > m:map{'add': 5} > k:sink"), who="bob")
    assert [(shared, 1)] == seen(manager, ANN) == seen(manager, ANN, mine)
    assert [(shared, 2), (shared, 1)] == seen(manager, BOB) == seen(manager, BOB, theirs)


def test_what_comes_after_the_last_one_was_removed_is_still_theirs(manager: Manager) -> None:
    """A letter that was under way when its task's last dataflow was removed is that one's, and not an earlier one's."""
    mine, theirs, shared = two(manager)
    manager.committer.remove(mine, who="ann")
    manager.committer.remove(theirs, who="bob")
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
    assert 1 == manager.service.discard_dead_letter(ANN, oldest).dead_letters
    assert [(shared, 2)] == seen(manager, ANN)
    assert [(shared, 2), (shared, 1)] == seen(manager, BOB) == seen(manager, OPERATOR)
    with pytest.raises(NotFound):
        manager.service.discard_dead_letter(ANN, oldest)
    for each in (newest, oldest):
        manager.service.discard_dead_letter(BOB, each)
    manager.service.discard_dead_letter(ANN, newest)
    assert [] == seen(manager, OPERATOR)
    park(manager, letter(shared, 3))
    assert int(ids(manager, ANN)[0]) > int(newest)


def test_an_operator_discards_for_everybody(manager: Manager) -> None:
    """Nobody sees it any more, and nothing of it is kept."""
    _, _, shared = two(manager)
    park(manager, letter(shared), letter(999))
    for each in ids(manager, OPERATOR):
        manager.service.discard_dead_letter(OPERATOR, each)
    assert [] == seen(manager, BOB)
    assert (0, 0) == (rows(manager, DeadLetterRow), rows(manager, DeadLetterReaderRow))


def test_all_of_a_dataflow_are_discarded(manager: Manager) -> None:
    """How many is told; those of other dataflows stay, and so do another tenant's; a removed one's can be, too."""
    mine, _, shared = two(manager)
    other = instance_of(manager, manager.submit("ann", "s:source > m:map{'add': 2} > k:sink"), "m")
    park(manager, *(letter(shared, batch) for batch in range(600)), letter(other))
    manager.committer.remove(mine, who="ann")
    assert 600 == manager.service.discard_dead_letters(ANN, mine).dead_letters
    assert 0 == manager.service.discard_dead_letters(ANN, mine).dead_letters
    assert ([(other, 1)], 600) == (seen(manager, ANN), len(seen(manager, BOB)))
    assert 600 == len(manager.service.dead_letters(BOB, Paging(limit=601)).items)


@pytest.mark.parametrize("named", ["", "0", "x", "12345", "9" * 30, "-1"])
def test_what_is_not_there_cannot_be_discarded(manager: Manager, named: str) -> None:
    """An id that is none, and a dataflow that is another's, are not found, and the journal says nothing of them."""
    mine, _, shared = two(manager)
    park(manager, letter(shared))
    with pytest.raises(NotFound, match="there is no dead letter"):
        manager.service.discard_dead_letter(ANN, named)
    with pytest.raises(NotFound, match="there is no dataflow"):
        manager.service.discard_dead_letters(BOB, mine)
    assert [] == list(manager.service.operations(OPERATOR, Paging(), kind=OperationKind.DISCARD).items)


def test_the_journal_says_who_discarded_what(manager: Manager) -> None:
    """One entry for each discard that did something, about the letter or the dataflow."""
    mine, _, shared = two(manager)
    park(manager, letter(shared, 1), letter(shared, 2))
    first, _ = ids(manager, BOB)
    manager.service.discard_dead_letter(BOB, first)
    manager.service.discard_dead_letters(ANN, mine)
    manager.service.discard_dead_letters(ANN, mine)
    told = manager.service.operations(OPERATOR, Paging(), kind=OperationKind.DISCARD).items
    assert [("ann", mine), ("bob", first)] == [(each.who, each.subject) for each in told]


def test_the_newest_are_kept(manager: Manager) -> None:
    """Of an instance, and in all; what had to go is told and counted by instance, with nothing left of it."""
    mine, _, shared = two(manager)
    other = instance_of(manager, mine, "k")
    bounds = {"most_of_instance": 3, "most_in_all": 4}
    assert 0 == park(manager, *(letter(shared, batch) for batch in range(3)), letter(other, 0), **bounds)
    assert 2 == park(manager, letter(shared, 3), letter(other, 1), **bounds)
    assert [(other, 1), (shared, 3), (other, 0), (shared, 2)] == seen(manager, ANN)
    assert [0, 2, 0, 2] == [each.dropped for each in manager.service.dead_letters(ANN, Paging()).items]
    assert 4 == park(manager, *(letter(999, batch) for batch in range(7)), **bounds) - 3
    assert [(999, 6), (999, 5), (999, 4), (other, 1)] == seen(manager, OPERATOR)
    with manager.store.read() as session:
        assert {shared: 4, other: 1, 999: 4} == {
            row.instance: row.count for row in session.scalars(select(DeadLetterDropRow))
        }
    assert 2 == rows(manager, DeadLetterReaderRow)
