"""The committer: quotas, keys, what listeners hear, and that a change that fails leaves nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, update
from sqlalchemy.exc import OperationalError
from sqlmodel import col, select

from braid_client.answers.dataflows import Stop
from braid_client.answers.sources import VisibilityForm
from braid_client.answers.tenants import Quota
from dags import Catalogue, Visibility
from engine.plan import SlotState
from manager.kernel.draft import IDEMPOTENCY_KEPT
from manager.problem import Conflict, InvalidDataflow, NotFound, QuotaExceeded
from manager.store.database import Store
from manager.store.tables import IdempotencyRow, OperationRow
from manager.use_case import Paging
from merge.jobs import MOST_PAUSED
from tests.manager.kernel.pictures import hold, pictured, rows
from tests.manager.managers import ANN, BOB, OPERATOR, Manager, caller, form, leading, raw

SHORT = "s:source > k:sink"


def test_what_makes_its_events_itself_is_refused_with_what_to_do_instead(manager: Manager) -> None:
    """Documents may have such tasks, but nothing runs them; each is named at its place, in submission and explain."""
    text = "c:clock > m:map > k:sink s:source > m d:clock{'every': 2} > m"
    for ask in (manager.submit, lambda who, what: manager.service.dataflows.explain(caller(who), raw(what))):
        with pytest.raises(InvalidDataflow) as refused:
            ask("ann", text)
        assert [(f"/tasks/{at}/type", "generator-not-run") for at in (0, 4)] == [
            (each.pointer, each.code) for each in refused.value.errors
        ]
        assert "register a source of kind 'timer'" in refused.value.errors[0].remedy


def test_tasks_whose_config_decides_their_ports_are_found_again(manager: Manager) -> None:
    """A manager that starts anew knows what leads where without reading configs, and shares with what runs."""
    first = manager.submit("ann", "s:source > r:route{'ways': ('a', 'b')}..a > p:prefer.in > k:sink r.b > l:sink")
    hold(manager)
    manager.submit("bob", "s:source > r:route{'ways': ('a', 'b')}..a > p:prefer.in > k:sink")
    with manager.committer.looking() as state:
        assert 1 == sum(task.type.name == "route" for task in state.running.tasks.values())
    manager.service.dataflows.remove(ANN, first, Stop.NOW)
    hold(manager)


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob"), sources=("weather", "traffic"))


def numbered(number: int) -> str:
    return f"s:source > a:map{{'add': {number}}} > k:sink"


def test_a_tenant_has_no_more_dataflows_than_it_may(manager: Manager) -> None:
    """The dataflow beyond the quota is refused with what to do; one that is removed makes room; others are not hit."""
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(dataflows=2))
    first = manager.submit("ann", SHORT)
    manager.submit("ann", SHORT)
    with pytest.raises(QuotaExceeded, match=r"has 2 dataflows, and may have 2; remove one, or ask for more") as refused:
        manager.submit("ann", SHORT)
    assert refused.value.retry_after is None
    manager.submit("bob", SHORT)
    manager.service.dataflows.remove(ANN, first, Stop.NOW)
    manager.submit("ann", SHORT)


def test_a_tenants_dataflows_have_no_more_tasks_than_they_may(manager: Manager) -> None:
    """Tasks count for each dataflow, shared or not, equivalent ones once; the message says how many there would be."""
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(tasks=5))
    manager.submit("ann", "s:source > a:map > k:sink s > b:map > k")
    with pytest.raises(QuotaExceeded, match=r"has dataflows of 3 tasks, and may have 5; this one would make it 6"):
        manager.submit("ann", numbered(0))
    manager.submit("ann", SHORT)


def test_a_tenants_dataflows_have_no_more_streams_than_they_may(manager: Manager) -> None:
    """However few their tasks are, also in a larger document for one that runs; what is removed makes room."""
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(streams=5))
    first = manager.submit("ann", "s:source > a:map > k:sink")
    dense = "s:source > a:map > b:map > k:sink s > b a > k"
    more = raw("s:source > a:map > b:map > k:sink s > b")
    for ask in (
        lambda: manager.service.dataflows.submit(ANN, more),
        lambda: manager.service.bundles.submit(ANN, b'{"documents": [%b]}' % more),
    ):
        with pytest.raises(
            QuotaExceeded, match=r"has dataflows of 2 streams, and may have 5; this one would make it 6"
        ):
            ask()
    manager.service.dataflows.replace(ANN, first, raw(dense))
    (ann,) = manager.service.administration.tenants(ANN, Paging()).items
    assert 5 == ann.uses.streams
    manager.service.dataflows.remove(ANN, first, Stop.NOW)
    manager.submit("ann", dense)


def test_a_tenant_over_its_quota_may_still_shrink(manager: Manager) -> None:
    """A dataflow is replaced by a smaller one, or one as large, whatever the quota is by now; a larger one is not."""
    dataflow = manager.submit("ann", numbered(1))
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(dataflows=0, tasks=1))
    manager.service.dataflows.replace(ANN, dataflow, raw(numbered(2)))
    manager.service.dataflows.replace(ANN, dataflow, raw(SHORT))
    with pytest.raises(QuotaExceeded, match="this one would make it 3"):
        manager.service.dataflows.replace(ANN, dataflow, raw(numbered(1)))
    hold(manager)


def test_a_tenant_submits_no_more_often_than_it_may(manager: Manager) -> None:
    """Beyond so many submissions and replacements in a minute the answer says how long to wait; operators may go on."""
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(submits_per_minute=3))
    dataflow = manager.submit("ann", SHORT)
    manager.submit("ann", SHORT)
    manager.service.dataflows.replace(ANN, dataflow, raw(numbered(1)))
    with pytest.raises(QuotaExceeded, match=r"may submit 3 times a minute; wait \d+ s") as refused:
        manager.submit("ann", SHORT)
    assert refused.value.retry_after is not None
    assert 0 < refused.value.retry_after <= 60
    with pytest.raises(QuotaExceeded):
        manager.service.dataflows.replace(ANN, dataflow, raw(SHORT))
    manager.submit("bob", SHORT)
    manager.service.dataflows.submit(OPERATOR, raw(SHORT), tenant="ann")
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    _age(manager, "ann", 50.0)
    with pytest.raises(QuotaExceeded) as again:
        manager.submit("ann", SHORT)
    assert again.value.retry_after is not None
    assert again.value.retry_after < refused.value.retry_after
    _age(manager, "ann", 20.0)
    manager.submit("ann", SHORT)


def test_the_wait_is_until_there_is_room(manager: Manager) -> None:
    """Where a quota was lowered, more than one submission has to be past before the next is taken."""
    for age in (40.0, 15.0, 0.0):
        manager.submit("ann", SHORT)
        _age(manager, "ann", age)
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(submits_per_minute=2))
    # They are 55, 15 and 0 seconds old; that of 15 has to go.
    with pytest.raises(QuotaExceeded) as refused:
        manager.submit("ann", SHORT)
    assert refused.value.retry_after is not None
    assert 30 < refused.value.retry_after <= 45
    manager.service.administration.set_quota(OPERATOR, "ann", Quota(submits_per_minute=0))
    with pytest.raises(QuotaExceeded, match="may submit nothing; ask for more") as never:
        manager.submit("ann", SHORT)
    assert never.value.retry_after is None


def _age(manager: Manager, who: str, seconds: float) -> None:
    """As if so much time had passed since somebody's operations."""
    with manager.store.write() as session:
        session.execute(update(OperationRow).where(col(OperationRow.who) == who).values(at=OperationRow.at - seconds))


def test_a_key_submits_once(manager: Manager) -> None:
    """The same key with the same document gets the same answer and does nothing; it counts for one tenant only."""
    first = manager.service.dataflows.submit(ANN, raw(numbered(1)), idempotency_key="k")
    stored = rows(manager.store)
    assert first == manager.service.dataflows.submit(ANN, raw(numbered(1)), idempotency_key="k")
    assert stored == rows(manager.store)
    assert first.id != manager.service.dataflows.submit(BOB, raw(numbered(1)), idempotency_key="k").id
    assert first.id != manager.service.dataflows.submit(ANN, raw(numbered(1)), idempotency_key="l").id


def test_a_key_is_forgotten_after_a_day(manager: Manager) -> None:
    """So keys take no more room than a day's submissions; those of other tenants stay."""
    for who in (ANN, BOB):
        manager.service.dataflows.submit(who, raw(numbered(1)), idempotency_key="k")
    with manager.store.write() as session:
        session.execute(update(IdempotencyRow).values(at=col(IdempotencyRow.at) - IDEMPOTENCY_KEPT - 1))
    manager.service.dataflows.submit(ANN, raw(numbered(1)), idempotency_key="l")
    with manager.store.read() as session:
        kept = {(row.tenant, row.key) for row in session.exec(select(IdempotencyRow))}
    assert {("ann", "l"), ("bob", "k")} == kept


def test_a_key_stands_for_one_document(manager: Manager) -> None:
    """The same key with another document is refused, and submits nothing."""
    manager.submit("ann", SHORT, key="k")
    stored = rows(manager.store)
    with pytest.raises(Conflict, match="the idempotency key 'k' was used for another document; use a new key"):
        manager.submit("ann", numbered(1), key="k")
    assert stored == rows(manager.store)


def test_a_refused_submission_leaves_its_key_unused(manager: Manager) -> None:
    """A key under which a document was refused submits the corrected one."""
    with pytest.raises(InvalidDataflow):
        manager.submit("ann", "s:source > a:nothing > k:sink", key="k")
    manager.submit("ann", SHORT, key="k")


def test_a_key_outlives_its_dataflow_and_its_manager(manager: Manager) -> None:
    """A key is answered with what became of its dataflow, also by another manager, and submits nothing anew."""
    dataflow = manager.submit("ann", SHORT, key="k")
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    other = Manager(manager.url, "two").lead()
    answer = other.service.dataflows.submit(ANN, raw(SHORT), idempotency_key="k")
    assert (dataflow, "removed") == (answer.id, answer.state)
    other.close()


def test_a_tenant_that_was_not_admitted_submits_nothing(manager: Manager) -> None:
    """An operator that names a tenant which is not there is refused."""
    with pytest.raises(NotFound, match="no tenant 'eve'"):
        manager.service.dataflows.submit(OPERATOR, raw(SHORT), tenant="eve")


def test_a_job_whose_plan_would_be_as_it_was_keeps_it(sqlite: str) -> None:
    """A dataflow in a job of its own that reads a raw source gives the source's other readers no new plan."""
    manager = Manager(sqlite, strategy="launch").lead()
    manager.admit("ann")
    manager.register("weather")
    manager.submit("ann", numbered(1))
    manager.submit("ann", numbered(2))
    wanted = manager.changes.jobs.wanted()
    assert [1, 1] == [each.plan.version for each in wanted.values() if each.plan]
    hold(manager)
    manager.close()


def test_listeners_hear_of_each_change(manager: Manager) -> None:
    """A change of what is wanted is announced after it was committed, from then on and not before."""
    heard: list[int] = []
    manager.committer.on_change(lambda: heard.append(len(manager.changes.jobs.wanted())))
    dataflow = manager.submit("ann", SHORT)
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    with pytest.raises(InvalidDataflow):
        manager.submit("ann", "s:source")
    assert [1, 1] == heard
    assert [None] == [each.plan for each in manager.changes.jobs.wanted().values()]


def test_a_job_that_stopped_is_forgotten_when_its_host_says_so(manager: Manager) -> None:
    """A job without tasks is wanted stopped until it is, across managers; others are no matter of that."""
    dataflow = manager.submit("ann", SHORT)
    manager.changes.jobs.ended("1")
    assert manager.changes.jobs.wanted()["1"].plan is not None
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    other = Manager(manager.url, "two").lead()
    assert other.changes.jobs.wanted()["1"].plan is None
    other.changes.jobs.ended("1")
    other.changes.jobs.ended("7")
    assert other.changes.jobs.wanted() == {}
    hold(other)
    other.submit("ann", SHORT)
    assert ["2"] == list(other.changes.jobs.wanted())
    other.close()


def test_a_job_keeps_no_more_paused_tasks_than_it_needs(manager: Manager) -> None:
    """However many came to a job and left it, its plan has the newest of them only."""
    manager.submit("ann", SHORT)
    for number in range(MOST_PAUSED // 2 + 10):
        manager.service.dataflows.remove(ANN, manager.submit("ann", numbered(number)), Stop.NOW)
    plan = manager.changes.jobs.wanted()["1"].plan
    assert plan is not None
    paused = [slot.instance for slot in plan.slots if slot.state is SlotState.PAUSED]
    with manager.committer.looking() as state:
        newest = state.running.next_instance - 1
    assert list(range(newest - MOST_PAUSED + 1, newest + 1)) == sorted(paused)
    hold(manager)


def test_a_sink_that_comes_back_numbers_anew(manager: Manager) -> None:
    """Over revisions a sink's epoch rises whenever its numbers begin anew, and only then; it never falls."""
    one, two = "s:source > a:map{'add': 1} > k:sink s > l:sink", "s:source > l:sink"
    dataflow = manager.submit("ann", one)
    epochs = []
    for text in (two, one, "s:source > a:map{'add': 2} > k:sink s > l:sink", one, one):
        manager.service.dataflows.replace(ANN, dataflow, raw(text))
        plan = manager.changes.jobs.wanted()["1"].plan
        assert plan is not None
        epochs.append({each.sink: each.epoch for each in plan.deliveries})
        assert {dataflow} == {each.dataflow for each in plan.deliveries}
        hold(manager)
    assert [{"l": 1}, {"k": 2, "l": 1}, {"k": 3, "l": 1}, {"k": 4, "l": 1}, {"k": 4, "l": 1}] == epochs


def test_tasks_of_a_type_that_is_gone_run_on(manager: Manager) -> None:
    """A manager that does not know a type any more keeps its tasks and what is delivered, and others may come."""
    dataflow = manager.submit("ann", "s:source > a:lab:still > k:file")
    before = manager.changes.jobs.wanted()["1"].plan
    manager = Manager(manager.url, "another", catalogue=Catalogue.of(())).lead()
    manager.service.administration.set_quota(OPERATOR, "ann", Quota())

    with manager.committer.writing() as (_, draft):
        draft.touched = set(draft.state.plans)
        assert draft.plans() == {}
    assert before == manager.changes.jobs.wanted()["1"].plan
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    assert manager.changes.jobs.wanted()["1"].plan is None
    manager.close()


def test_what_runs_is_as_old_as_it_was(manager: Manager) -> None:
    """Since when a task runs survives the manager, and who shares it later learns it, to the hour."""
    begun = datetime.now(UTC)
    manager.submit("ann", "s:source > w:window > k:sink")
    other = Manager(manager.url, "two").lead()
    answer = other.service.dataflows.submit(BOB, raw("s:source > w:window > l:sink"))
    since = {task.id: task.since for task in answer.reused}
    assert since["s"] is None
    assert since["w"] is not None
    assert (0, 0) == (since["w"].minute, since["w"].second)
    assert begun - timedelta(hours=1) < since["w"] <= datetime.now(UTC)
    other.close()


LONG = "s:source > a:map{'add': 1} > b:map{'add': 2} > k:sink"
EDITED = "s:source > a:map{'add': 1} > c:map{'add': 3} > k:sink a > l:sink"
OTHER = "s:source{'source': 'power'} > r:random > k:sink"


@pytest.fixture
def on_any(empty_url: str) -> Iterator[Manager]:
    yield from leading(empty_url, tenants=("ann", "bob"), sources=("weather", "power"))


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
def test_a_database_that_fails_changes_nothing(on_any: Manager, what: str) -> None:
    """At whichever statement the database fails, memory and tables are as before, and it can be done again."""
    on_any.submit("ann", LONG)
    dataflow = on_any.submit("bob", LONG)
    on_any.submit("bob", OTHER)
    before, stored = pictured(on_any), rows(on_any.store)
    failed: list[str] = []
    for at in range(200):
        with failing(on_any.store, at) as asked:
            try:
                change(on_any, what, dataflow)
            except OperationalError:
                pass
            else:
                break
        failed.append(asked[at])
        assert (before, stored) == (pictured(on_any), rows(on_any.store))
    assert "COMMIT" in failed
    assert any(each.startswith("INSERT INTO operation") for each in failed)
    assert stored != rows(on_any.store)
    hold(on_any)


def test_a_commit_of_which_nobody_knows_is_looked_up(on_any: Manager) -> None:
    """Where the database fails after it has committed, the memory is what was committed, and the key tells it."""
    broken = [True]

    def fail_once() -> None:
        if broken.pop() if broken else False:
            raise OperationalError("COMMIT", None, Exception("the connection was lost"))

    def commit(connection: Connection) -> None:
        connection.connection.commit()
        fail_once()

    event.listen(on_any.store._engine, "commit", commit)
    with pytest.raises(OperationalError):
        on_any.submit("ann", LONG, key="once")
    hold(on_any)
    with on_any.committer.looking() as state:
        (known,) = state.running.dataflows
    assert known == on_any.submit("ann", LONG, key="once")
    hold(on_any)


def test_a_memory_that_is_not_what_was_committed_is_dropped(on_any: Manager) -> None:
    """Should the database hold another state than the one decided upon, nothing is committed, and it is loaded."""
    other = Manager(on_any.url)
    other.committer.lead(1)
    other.submit("ann", LONG)
    before = rows(on_any.store)
    with pytest.raises(Exception, match="is not the one that this manager knew; ask again"):
        on_any.submit("bob", LONG)
    assert before == rows(on_any.store)
    assert pictured(other) == pictured(on_any)
    on_any.submit("bob", LONG)
    hold(on_any)
    other.close()


def test_who_lost_the_lead_commits_nothing(on_any: Manager) -> None:
    """One that was overtaken and does not know it yet is refused within the transaction, and changes nothing."""
    dataflow = on_any.submit("bob", LONG)
    other = Manager(on_any.url, "two").lead()
    before = rows(on_any.store)
    for what in ("submit", "replace", "remove", "register", "hide", "revoke"):
        on_any.committer.lead(1)
        with pytest.raises(Exception, match="another manager leads by now; ask again in a moment"):
            change(on_any, what, dataflow)
        assert not on_any.committer.leads
        assert on_any.changes.jobs.wanted() == {}
        assert before == rows(on_any.store)
    hold(other)
    other.submit("ann", LONG)
    hold(other)
    other.close()


def test_who_waits_answers_that_it_does(on_any: Manager) -> None:
    """A manager that does not lead refuses every change and every look at the state, and says to ask again."""
    dataflow = on_any.submit("bob", LONG)
    waiting = Manager(on_any.url, "two")
    for what in ("submit", "replace", "remove", "register", "hide", "revoke"):
        with pytest.raises(Exception, match="this manager does not lead; ask again in a moment") as refused:
            change(waiting, what, dataflow)
        assert getattr(refused.value, "status", None) == 503
    waiting.close()
