"""A change that cannot be committed leaves nothing, whatever fails and wherever."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from dags import Visibility
from manager.answers.dataflows import Stop
from manager.answers.sources import VisibilityForm
from manager.store.database import Store
from tests.manager.committer.pictures import hold, pictured, rows
from tests.manager.managers import OPERATOR, Manager, caller, form, raw

ANN, BOB = caller("ann"), caller("bob")
LONG = "s:source > a:map{'add': 1} > b:map{'add': 2} > k:sink"
EDITED = "s:source > a:map{'add': 1} > c:map{'add': 3} > k:sink a > l:sink"
OTHER = "s:source{'source': 'power'} > r:random > k:sink"


@pytest.fixture
def manager(empty_url: str) -> Iterator[Manager]:
    made = Manager(empty_url).lead()
    made.admit("ann", "bob")
    made.register("weather", "power")
    yield made
    made.close()


@contextmanager
def failing(store: Store, at: int) -> Iterator[list[str]]:
    """The database fails at a statement, counted from 0 and with the commit as the last one; what was asked of it."""
    asked: list[str] = []

    def ask(what: str) -> None:
        asked.append(what)
        if len(asked) == at + 1:
            raise OperationalError(what, None, Exception("the disk is full"))

    def execute(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        ask(statement)

    def commit(_connection: Connection) -> None:
        ask("COMMIT")

    event.listen(store._engine, "before_cursor_execute", execute)
    event.listen(store._engine, "commit", commit)
    try:
        yield asked
    finally:
        event.remove(store._engine, "before_cursor_execute", execute)
        event.remove(store._engine, "commit", commit)


def change(manager: Manager, what: str, dataflow: str) -> None:
    service = manager.service
    steps: dict[str, Callable[[], object]] = {
        "submit": lambda: service.dataflows.submit(ANN, raw(EDITED), idempotency_key="once"),
        "replace": lambda: service.dataflows.replace(BOB, dataflow, raw(EDITED)),
        "remove": lambda: service.dataflows.remove(BOB, dataflow, Stop.NOW),
        "register": lambda: service.sources.register(OPERATOR, form("diary")),
        "hide": lambda: service.sources.set_visibility(ANN, "power", VisibilityForm(visibility=Visibility.PRIVATE)),
        "revoke": lambda: service.sources.revoke(ANN, "weather"),
    }
    steps[what]()


@pytest.mark.parametrize("what", ["submit", "replace", "remove", "register", "hide", "revoke"])
def test_a_database_that_fails_changes_nothing(manager: Manager, what: str) -> None:
    """At whichever statement the database fails, memory and tables are as before, and it can be done again."""
    manager.submit("ann", LONG)
    dataflow = manager.submit("bob", LONG)
    manager.submit("bob", OTHER)
    before, stored = pictured(manager), rows(manager.store)
    failed: list[str] = []
    for at in range(200):
        with failing(manager.store, at) as asked:
            try:
                change(manager, what, dataflow)
            except OperationalError:
                pass
            else:
                break
        failed.append(asked[at])
        assert (before, stored) == (pictured(manager), rows(manager.store))
    assert "COMMIT" in failed
    assert any(each.startswith("INSERT INTO operation") for each in failed)
    assert stored != rows(manager.store)
    hold(manager)


def test_a_commit_of_which_nobody_knows_is_looked_up(manager: Manager) -> None:
    """Where the database fails after it has committed, the memory is what was committed, and the key tells it."""
    broken = [True]

    def fail_once() -> None:
        if broken.pop() if broken else False:
            raise OperationalError("COMMIT", None, Exception("the connection was lost"))

    def commit(connection: Connection) -> None:
        connection.connection.commit()
        fail_once()

    event.listen(manager.store._engine, "commit", commit)
    with pytest.raises(OperationalError):
        manager.submit("ann", LONG, key="once")
    hold(manager)
    with manager.committer.looking() as state:
        (known,) = state.running.dataflows
    assert known == manager.submit("ann", LONG, key="once")
    hold(manager)


def test_a_memory_that_is_not_what_was_committed_is_dropped(manager: Manager) -> None:
    """Should the database hold another state than the one decided upon, nothing is committed, and it is loaded."""
    other = Manager(manager.url)
    other.committer.lead(1)
    other.submit("ann", LONG)
    before = rows(manager.store)
    with pytest.raises(Exception, match="is not the one that this manager knew; ask again"):
        manager.submit("bob", LONG)
    assert before == rows(manager.store)
    assert pictured(other) == pictured(manager)
    manager.submit("bob", LONG)
    hold(manager)
    other.close()


def test_who_lost_the_lead_commits_nothing(manager: Manager) -> None:
    """One that was overtaken and does not know it yet is refused within the transaction, and changes nothing."""
    dataflow = manager.submit("bob", LONG)
    other = Manager(manager.url, "two").lead()
    before = rows(manager.store)
    for what in ("submit", "replace", "remove", "register", "hide", "revoke"):
        manager.committer.lead(1)
        with pytest.raises(Exception, match="another manager leads by now; ask again in a moment"):
            change(manager, what, dataflow)
        assert not manager.committer.leads
        assert manager.changes.jobs.wanted() == {}
        assert before == rows(manager.store)
    hold(other)
    other.submit("ann", LONG)
    hold(other)
    other.close()


def test_who_waits_answers_that_it_does(manager: Manager) -> None:
    """A manager that does not lead refuses every change and every look at the state, and says to ask again."""
    dataflow = manager.submit("bob", LONG)
    waiting = Manager(manager.url, "two")
    for what in ("submit", "replace", "remove", "register", "hide", "revoke"):
        with pytest.raises(Exception, match="this manager does not lead; ask again in a moment") as refused:
            change(waiting, what, dataflow)
        assert getattr(refused.value, "status", None) == 503
    waiting.close()
