"""Use cases of sources: what is refused, who sees what, and lists in parts."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from braid_client.answers.sources import SourceForm, TopicConnection, VisibilityForm
from dags import Kind, Visibility
from dags.message_formats import JSON
from engine.host.spools import Received
from engine.plan import Ingress, Plan
from engine.plan_messages import read_plan, written_plan
from manager.kernel.registered_sources import registered, supply_of
from manager.observations.reports import HostSeen
from manager.problem import Conflict, Forbidden, InvalidRequest, NotFound
from manager.store.tables import SourceRow
from manager.use_case import Caller, Paging, moment
from tests.manager.managers import ANN, BOB, EVE, OPERATOR, Manager, every, form, leading, raw

NOW = moment(1_800_000_000.0)
SHORT = "s:source > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob", "eve"))


def asked(name: str = "street", connection: dict[str, Any] | None = None, **more: Any) -> SourceForm:
    fields = {"schema": {"value": "integer"}} if connection is None else {}
    given = connection or {"kind": "topic", "topic": f"city/{name}"}
    return SourceForm.model_validate({"name": name, "connection": given, **fields, **more})


def pointers(refused: pytest.ExceptionInfo[InvalidRequest]) -> list[tuple[str, str]]:
    return [(each.pointer, each.code) for each in refused.value.errors]


def test_a_source_is_registered_as_it_was_asked_for(manager: Manager) -> None:
    """The answer and what is shown later have its full name, schema, visibility and connection."""
    made = manager.service.sources.register(ANN, asked(visibility="named", readers=["bob"]))
    assert ("ann:street", "ann", Visibility.NAMED, 0) == (made.name, made.owner, made.visibility, made.dataflows)
    assert ({"value": Kind.INTEGER}, ("bob",)) == (made.fields, made.readers)
    for name in ("street", "ann:street"):
        assert made == manager.service.sources.get(ANN, name)
    assert made == manager.service.sources.get(OPERATOR, "ann:street")
    other = Manager(manager.url, "two").lead()
    assert made == other.service.sources.get(ANN, "street")
    with other.store.read() as session:
        row = session.get(SourceRow, 1)
        assert row is not None
        assert row.registered > 1_700_000_000
    other.close()


def test_a_reader_sees_less_than_the_owner(manager: Manager) -> None:
    """A reader learns neither the connection nor the other readers, and counts its own dataflows only."""
    manager.register("weather", "power")
    for tenant in ("ann", "bob", "bob"):
        manager.submit(tenant, SHORT)
    mine, theirs = (manager.service.sources.get(who, "ann:weather") for who in (ANN, BOB))
    assert (3, 2, 0) == (mine.dataflows, theirs.dataflows, manager.service.sources.get(EVE, "ann:weather").dataflows)
    assert mine.connection is not None
    assert (None, None) == (theirs.connection, theirs.readers)
    assert mine.fields == theirs.fields


def test_only_its_owner_sees_what_a_source_has_received(manager: Manager) -> None:
    """Of the host that has received it longest; what one that is away said before counts if no other receives it."""
    manager.register("weather")
    said = Received(since=60.0, accepted=7).rejecting('{"value": "hot"}', "no number", count=2, at=90.0)
    first = HostSeen(host="north", alive=True, sources={"source/1": said}, seen=NOW)
    away = HostSeen(host="north", alive=False, seen=NOW).after(first)
    later = HostSeen(host="south", alive=True, sources={"source/1": Received(since=61.0)}, seen=NOW)
    assert manager.service.sources.get(ANN, "weather").received is None
    for hosts in ((later, first), (away,)):
        manager.seen.every_host = hosts
        for who in (ANN, OPERATOR):
            received = manager.service.sources.get(who, "ann:weather").received
            assert received is not None
            assert (moment(60.0), 7, 2) == (received.since, received.accepted, received.rejected)
            assert [(moment(90.0), '{"value": "hot"}', "no number")] == [
                (each.at, each.event, each.reason) for each in received.newest
            ]
        (listed,) = every(lambda p: manager.service.sources.page(BOB, p), 10)
        assert listed.received is None
    manager.seen.every_host = (away, later)
    received = manager.service.sources.get(ANN, "weather").received
    assert received is not None
    assert moment(61.0) == received.since


def test_a_dataflow_says_for_an_hour_that_its_source_rejects(manager: Manager) -> None:
    """Beside what else is wrong with it, and only to the tenant that owns the source; the source that did so last."""
    manager.register("weather", "power")
    both = "s:source > k:sink t:source{'source': 'power'} > l:sink"
    mine, theirs = manager.submit("ann", both), manager.submit("bob", SHORT)
    before = manager.service.dataflows.get(ANN, mine).reason
    now = time.time()

    def reason(who: Caller, dataflow: str, *, ago: float) -> str:
        sources = {
            stream: Received(since=60.0, accepted=1_001).rejecting("{", f"{stream} is odd", count=2, at=now - since)
            for stream, since in (("source/1", ago), ("source/2", 7_200.0))
        }
        manager.seen.every_host = (HostSeen(host="north", alive=True, sources=sources, seen=NOW),)
        return manager.service.dataflows.get(who, dataflow).reason

    rejects = "the source ann:weather has rejected 2 of 1,003 events, the last because source/1 is odd"
    assert (f"{before}; {rejects}", before) == (reason(ANN, mine, ago=60.0), reason(ANN, mine, ago=3_601.0))
    assert rejects not in reason(BOB, theirs, ago=60.0)


def test_others_private_sources_answer_as_if_there_were_none(manager: Manager) -> None:
    """Looking at, opening and revoking another's private source is answered as for one that never was."""
    manager.service.sources.register(ANN, asked())
    answers = []
    for name in ("ann:street", "ann:square"):
        for ask in (
            lambda name: manager.service.sources.get(BOB, name),
            lambda name: manager.service.sources.revoke(BOB, name),
            lambda name: manager.service.sources.set_visibility(
                BOB, name, VisibilityForm(visibility=Visibility.PUBLIC)
            ),
        ):
            with pytest.raises(NotFound) as refused:
                ask(name)
            answers.append(refused.value.detail.replace(name, "?"))
    assert len(set(answers)) == 1
    assert [] == every(lambda p: manager.service.sources.page(BOB, p), 10)


def test_a_reader_may_not_change_what_it_reads(manager: Manager) -> None:
    """Who may read another's source gets the answer that it is another's, when it would open or revoke it."""
    manager.register("weather")
    with pytest.raises(Forbidden, match="belongs to another tenant; ask its owner"):
        manager.service.sources.revoke(BOB, "ann:weather")
    with pytest.raises(Forbidden, match="belongs to another tenant"):
        manager.service.sources.set_visibility(BOB, "ann:weather", VisibilityForm(visibility=Visibility.PRIVATE))
    assert manager.service.sources.get(ANN, "weather").visibility is Visibility.PUBLIC


def test_names_are_each_owners_own(manager: Manager) -> None:
    """Two tenants may call a source the same; one tenant may not, until it has revoked the first."""
    manager.service.sources.register(ANN, asked())
    manager.service.sources.register(BOB, asked(connection={"kind": "rate", "per_second": 1}))
    with pytest.raises(Conflict, match="there is a source 'ann:street' already; choose another name, or revoke"):
        manager.service.sources.register(ANN, asked(connection={"kind": "timer", "seconds": 1}))
    manager.service.sources.revoke(ANN, "street")
    manager.service.sources.register(ANN, asked(connection={"kind": "timer", "seconds": 1}))


def test_a_name_that_is_registered_anew_is_another_source(manager: Manager) -> None:
    """It has a spool of its own, so that nothing of what it was before is found in it."""
    manager.register("weather")
    manager.submit("ann", SHORT)
    streams: set[str] = set()
    for _ in range(2):
        plan = next(each.plan for each in manager.changes.jobs.wanted().values() if each.plan)
        streams |= plan.streams
        manager.service.sources.revoke(ANN, "weather")
        manager.register("weather")
        manager.submit("ann", SHORT)
    assert {"source/1", "source/2"} == streams


def test_one_topic_feeds_one_source(manager: Manager) -> None:
    """A topic that feeds a source is refused for another, no matter who asks; once revoked it is free.

    Its owner learns which source it feeds, and somebody else neither that nor whose it is.
    """
    manager.service.sources.register(ANN, asked())
    feeds, nothing = (
        "feeds the source 'ann:street' already; choose",
        "is taken; choose one below your name, as bob/city/street$",
    )
    for who, reason, more in ((ANN, feeds, {}), (OPERATOR, feeds, {"owner": "bob"}), (BOB, nothing, {})):
        with pytest.raises(Conflict, match=reason) as refused:
            manager.service.sources.register(who, asked("other", {"kind": "topic", "topic": "city/street"}, **more))
        assert (reason is feeds) == ("ann" in str(refused.value))
    manager.service.sources.revoke(ANN, "street")
    manager.service.sources.register(BOB, asked("other", {"kind": "topic", "topic": "city/street"}))


@pytest.mark.parametrize("topic", ["ann", "ann/", "ann/street", "ann/street/7"])
def test_a_topic_that_begins_with_a_tenants_name_is_that_tenants(manager: Manager, topic: str) -> None:
    """Nobody else registers a source there, an operator neither, whether or not it is in use; a longer name is free."""
    connection = {"kind": "topic", "topic": topic}
    for _ in range(2):
        for who, more in ((BOB, {}), (OPERATOR, {"owner": "bob"})):
            with pytest.raises(Forbidden, match=f"'{topic}' begins with the name of another tenant.* as bob/"):
                manager.service.sources.register(who, asked("other", connection, **more))
        if not every(lambda p: manager.service.sources.page(ANN, p), 10):
            manager.service.sources.register(ANN, asked(connection=connection))
    manager.service.sources.register(BOB, asked("other", {"kind": "topic", "topic": "anna/street"}))


def test_a_tenant_is_not_admitted_by_a_name_that_others_topics_begin_with(manager: Manager) -> None:
    """The operator reads which source it is; once that is revoked the name is free."""
    manager.service.sources.register(BOB, asked(connection={"kind": "topic", "topic": "carl/street"}))
    with pytest.raises(Conflict, match="the topic 'carl/street' of the source 'bob:street' would be this tenant's"):
        manager.admit("carl")
    manager.service.sources.revoke(BOB, "street")
    manager.admit("carl")


def test_one_topic_feeds_one_source_of_those_asked_for_at_once(manager: Manager) -> None:
    """Of many that ask for one topic at the same time one gets it, so that nobody else may write there."""

    def ask(number: int) -> bool:
        try:
            manager.service.sources.register(ANN, asked(f"s{number}", {"kind": "topic", "topic": "city/street"}))
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert [True] == [each for each in threads.map(ask, range(8)) if each]


@pytest.mark.parametrize(
    "topic",
    ["+/b", "#", "{a}/b", "a/#/b", "braid/#", "braid/1/jobs/1/plan", "braid", "$SYS/x", "a\x00b", " a", "a\nuser x"],
)
def test_a_topic_that_is_not_a_tenants_is_refused(manager: Manager, topic: str) -> None:
    """Wildcards, Braid's and the broker's own topics, and what an access list cannot hold, are refused."""
    with pytest.raises(InvalidRequest) as refused:
        manager.service.sources.register(ANN, asked(connection={"kind": "topic", "topic": topic}))
    ((pointer, _),) = pointers(refused)
    assert pointer in {"/connection", "/connection/topic"}
    assert [] == every(lambda p: manager.service.sources.page(OPERATOR, p), 10)


def test_files_of_the_hosts_are_for_operators(manager: Manager) -> None:
    """A tenant is refused a file, whatever it holds; an operator registers it for a tenant."""
    connection = {"kind": "replay", "path": "/data/trace.csv", "per_second": 5.0}
    with pytest.raises(Forbidden, match="only operators register files"):
        manager.service.sources.register(ANN, asked(connection=connection, schema={"value": "float"}))
    made = manager.service.sources.register(
        OPERATOR, asked(connection=connection, schema={"value": "float"}, owner="ann")
    )
    assert "ann:street" == made.name


def test_a_generated_source_has_its_own_schema(manager: Manager) -> None:
    """The schema is filled in where it is left out, and refused where it is another."""
    made = manager.service.sources.register(ANN, asked(connection={"kind": "rate", "per_second": 2}))
    assert made.fields
    manager.service.sources.register(
        ANN, asked("same", {"kind": "rate", "per_second": 2}, schema=dict(made.fields.items()))
    )
    with pytest.raises(InvalidRequest) as refused:
        manager.service.sources.register(
            ANN, asked("other", {"kind": "timer", "seconds": 1}, schema={"nothing": "string"})
        )
    assert [("/schema", "fixed-schema")] == pointers(refused)


def test_whose_a_source_is_has_to_be_said_by_an_operator(manager: Manager) -> None:
    """An operator names an owner that is a tenant; a tenant is the owner itself."""
    with pytest.raises(InvalidRequest) as refused:
        manager.service.sources.register(OPERATOR, asked())
    assert [("/owner", "missing")] == pointers(refused)
    with pytest.raises(NotFound, match="no tenant 'zoe'"):
        manager.service.sources.register(OPERATOR, asked(owner="zoe"))
    with pytest.raises(Forbidden, match="for itself only"):
        manager.service.sources.register(ANN, asked(owner="bob"))
    assert "ann" == manager.service.sources.register(ANN, asked(owner="ann")).owner


def test_revoking_removes_what_reads_it(manager: Manager) -> None:
    """Every dataflow that reads the source goes, no matter whose it is, also one that was replaced, and is counted."""
    manager.register("weather", "traffic")
    both = "s:source > j:join.left > k:sink t:source{'source': 'traffic'} > j.right"
    manager.submit("ann", SHORT)
    manager.submit("bob", both)
    replaced = manager.submit("bob", "s:source{'source': 'traffic'} > k:sink")
    manager.service.dataflows.replace(BOB, replaced, raw(both))
    stays = manager.submit("eve", both)
    manager.service.dataflows.replace(EVE, stays, raw("s:source{'source': 'traffic'} > k:sink"))
    assert 3 == manager.service.sources.revoke(ANN, "weather").dataflows
    assert [stays] == [each.id for each in manager.service.dataflows.page(OPERATOR, Paging()).items]
    with pytest.raises(NotFound):
        manager.service.sources.get(ANN, "weather")


def test_lists_of_sources_have_each_once(manager: Manager) -> None:
    """By name, in parts of any size, with those that the caller may read and no others."""
    manager.register("weather", "traffic", "power", "diary")
    seen: dict[Caller, list[str]] = {
        ANN: ["ann:diary", "ann:power", "ann:weather", "bob:traffic"],
        BOB: ["ann:power", "ann:weather", "bob:traffic"],
        EVE: ["ann:weather", "bob:traffic"],
        OPERATOR: ["ann:diary", "ann:power", "ann:weather", "bob:traffic"],
    }
    for limit in (1, 2, 3, 10):
        for who, names in seen.items():
            shown = every(partial(manager.service.sources.page, who), limit)
            assert names == [each.name for each in shown]


def test_changes_of_the_brokers_access_are_announced(sqlite: str) -> None:
    """Registering and revoking change what tenants may write; who keeps the broker hears of it after the commit."""
    manager = Manager(sqlite).lead()
    announced: list[tuple[str, ...]] = []
    manager.equip(access_changed=lambda: announced.append(manager.service.administration.grants()["ann"].writes))
    manager.admit("ann")
    manager.service.sources.register(ANN, asked())
    manager.service.sources.register(OPERATOR, form("weather"))
    manager.service.sources.revoke(ANN, "street")
    assert [(), ("city/street",), ("city/street", "raw/ann/weather"), ("raw/ann/weather",)] == announced
    manager.close()


def test_a_source_has_the_format_that_it_was_asked_for(manager: Manager) -> None:
    """In answers and plans; a kind alone is enough, and what plans and rows of JSON say is what they always said."""
    forms: dict[str, Any] = {
        "street": {},
        "rows": {"format": "csv"},
        "tabs": {"format": {"kind": "csv", "separator": "\t"}},
    }
    for name, more in forms.items():
        manager.service.sources.register(ANN, asked(name, {"kind": "topic", "topic": f"city/{name}", **more}))
    written: dict[str, Any] = {}
    for name in forms:
        known = manager.service.sources.get(ANN, name)
        assert isinstance(known.connection, TopicConnection)
        ingress = Ingress(stream=f"source/{name}", instance=1, supply=supply_of(known.connection, known.fields, "ann"))
        plan = Plan(job="j", host="h", version=1, ingress=(ingress,))
        assert plan == read_plan(written_plan(plan))
        written[name] = json.loads(written_plan(plan))["ingress"][0]["supply"]
    assert {"kind": "topic", "topic": "city/street", "fields": {}, "retained": False} == written["street"]
    assert [",", "\t"] == [written[name]["format"]["separator"] for name in ("rows", "tabs")]
    with manager.store.read() as session:
        row = session.get(SourceRow, 1)
        assert row is not None
        row.connection = {"kind": "topic", "topic": "city/street", "retained": False}
        assert JSON == registered(row).format


def test_a_format_never_makes_a_signature(manager: Manager) -> None:
    """A source is the same source whatever its messages look like."""
    texts = []
    document = {
        "version": 1,
        "name": "d",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": "rows"}},
            {"id": "out", "type": "sink"},
        ],
        "streams": [{"from": "in", "to": "out"}],
    }
    for kind in ("json", "csv"):
        manager.service.sources.register(ANN, asked("rows", {"kind": "topic", "topic": "ann/rows", "format": kind}))
        manager.service.dataflows.submit(ANN, json.dumps(document).encode(), idempotency_key=None)
        with manager.committer.looking() as state:
            texts.append(sorted(task.text for task in state.running.tasks.values()))
        manager.service.sources.revoke(ANN, "rows")
    assert texts[0] == texts[1]


def test_a_format_that_cannot_be_read_is_refused(manager: Manager) -> None:
    """One that is unknown, and one by whose schema no message is read."""
    pytest.importorskip("fastavro")
    connection = {"kind": "topic", "topic": "city/rows"}
    with pytest.raises(ValidationError, match="does not match any of the expected tags"):
        asked("rows", connection | {"format": "cvs"})
    unreadable = asked("rows", connection | {"format": {"kind": "avro", "writer_schema": "null"}})
    with pytest.raises(InvalidRequest) as refused:
        manager.service.sources.register(ANN, unreadable)
    assert [("/connection/format", "unfit-format")] == pointers(refused)
