"""Sources whose topics have wildcards: whose they are, what they declare, and what publishes into them."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from braid_client.answers.dataflows import Stop
from braid_client.answers.sources import SchemaForm, SourceForm
from bridge.embedded.access import covers
from dags import Catalogue, Kind
from dags.source_topics import source_topic
from engine.plan import Subscribed
from engine.tasks import TYPES
from manager.problem import Conflict, Forbidden, InvalidDataflow, InvalidRequest
from tests.manager.managers import OPERATOR, Manager, caller

ANN, BOB = caller("ann"), caller("bob")
MACHINES = "plant/{machine}/temperature"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    made = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    made.admit("ann", "bob")
    yield made
    made.close()


def asked(name: str, topic: str, schema: dict[str, str] | None = None, **more: Any) -> SourceForm:
    connection = {"kind": "topic", "topic": topic, **more.pop("connection", {})}
    return SourceForm.model_validate({"name": name, "connection": connection, "schema": schema or {}, **more})


def test_a_level_is_a_declared_field(manager: Manager) -> None:
    """The source declares it as string whether or not its owner does, then and after a change, and so do plans."""
    made = manager.service.sources.register(ANN, asked("machines", MACHINES, {"t": "float"}))
    fields = {"machine": Kind.STRING, "t": Kind.FLOAT}
    assert (fields, MACHINES) == (made.fields, made.connection and made.connection.model_dump()["topic"])
    changed = manager.service.sources.declare(ANN, "machines", SchemaForm.model_validate({"schema": {"u": "float"}}))
    assert {"machine": Kind.STRING, "u": Kind.FLOAT} == changed.source.fields
    manager.submit("ann", "s:source{'source': 'machines'} > k:output")
    other = Manager(manager.url, "two").lead()
    with other.committer.looking() as state:
        [supply] = [ingress.supply for plan in state.plans.values() for ingress in plan.ingress]
    other.close()
    assert Subscribed(topic=MACHINES, fields={"machine": Kind.STRING, "u": Kind.FLOAT}) == supply


def test_a_level_is_no_field_of_another_kind(manager: Manager) -> None:
    """Neither when it is registered nor later; the problem names the field."""
    with pytest.raises(InvalidRequest) as refused:
        manager.service.sources.register(ANN, asked("machines", MACHINES, {"machine": "integer"}))
    manager.service.sources.register(ANN, asked("machines", MACHINES, {"machine": "string"}))
    schema = SchemaForm.model_validate({"schema": {"machine": "float"}})
    with pytest.raises(InvalidRequest) as again:
        manager.service.sources.declare(ANN, "machines", schema)
    for raised in (refused, again):
        assert [("/schema/machine", "level-is-text")] == [(e.pointer, e.code) for e in raised.value.errors]


@pytest.mark.parametrize(
    "topic", ["{site}/t", "+/t", "a/{b}x", "a/{}", "a/{b}/{b}", "a/b#", "a/#/b", "a/{_rest}", "a}/b"]
)
def test_what_is_no_pattern_is_refused(manager: Manager, topic: str) -> None:
    """With the place of the topic, and a remedy."""
    with pytest.raises(InvalidRequest) as refused:
        manager.service.sources.register(ANN, asked("machines", topic))
    [problem] = refused.value.errors
    assert problem.pointer in {"/connection", "/connection/topic"}
    assert repr(topic) in problem.message


def test_wildcards_retain_no_single_message(manager: Manager) -> None:
    """So a source that has some reads nothing that was retained before."""
    with pytest.raises(InvalidRequest, match="retains no single message"):
        manager.service.sources.register(ANN, asked("machines", MACHINES, connection={"retained": True}))


OVERLAPPING = ["plant/m1/temperature", "plant/+/temperature", "plant/{line}/{kind}", "plant/#", "plant/m1/#"]
APART = ["plant/m1", "plant", "plant/m1/pressure", "plant/m1/temperature/in", "plants/#", "plant/+/pressure"]


@pytest.mark.parametrize("topic", OVERLAPPING)
def test_what_meets_the_topics_of_anothers_source_is_refused(manager: Manager, topic: str) -> None:
    """Whoever was first, without a word about the other source; only operators and the owner read which it is."""
    manager.service.sources.register(ANN, asked("machines", MACHINES))
    with pytest.raises(Conflict, match=r"is taken; choose one below your name, as bob/plant/") as refused:
        manager.service.sources.register(BOB, asked("other", topic))
    assert "ann" not in str(refused.value)
    with pytest.raises(Conflict, match="the source 'ann:machines' already"):
        manager.service.sources.register(OPERATOR, asked("other", topic, owner="bob"))
    manager.service.sources.revoke(ANN, "machines")
    manager.service.sources.register(BOB, asked("other", topic))
    with pytest.raises(Conflict, match="is taken"):
        manager.service.sources.register(ANN, asked("machines", MACHINES))


@pytest.mark.parametrize("topic", APART)
def test_what_lies_beside_is_free(manager: Manager, topic: str) -> None:
    """For everybody."""
    manager.service.sources.register(ANN, asked("machines", MACHINES))
    manager.service.sources.register(BOB, asked("other", topic))


def test_sources_of_one_owner_may_overlap_and_are_not_the_same(manager: Manager) -> None:
    """What is published on a topic of both comes into both; one filter feeds one source."""
    manager.service.sources.register(ANN, asked("machines", MACHINES))
    manager.service.sources.register(ANN, asked("all", "plant/#"))
    with pytest.raises(Conflict, match="feeds the source 'ann:machines' already"):
        manager.service.sources.register(ANN, asked("same", "plant/+/temperature"))


@pytest.mark.parametrize("topic", ["ann/#", "ann/+", "ann/{machine}/t"])
def test_filters_below_a_tenants_name_are_that_tenants(manager: Manager, topic: str) -> None:
    """As plain topics are; and no tenant is admitted by whose name a filter of another begins."""
    with pytest.raises(Forbidden, match="begins with the name of another tenant"):
        manager.service.sources.register(BOB, asked("other", topic))
    manager.service.sources.register(BOB, asked("other", topic.replace("ann", "carl")))
    with pytest.raises(Conflict, match="would be this tenant's"):
        manager.admit("carl")


LEVELS = st.lists(st.sampled_from(["a", "b", "+", "{x}"]), min_size=0, max_size=2)
TOPICS = st.builds(
    lambda first, levels, rest: "/".join([first, *levels, *rest]),
    st.sampled_from(["plant", "ann", "bob", "+", "braid"]),
    LEVELS,
    st.sampled_from([[], ["#"]]),
)
ALL = [
    "/".join([first, *rest])
    for first in ("plant", "ann", "bob", "braid")
    for n in range(4)
    for rest in product("ab", repeat=n)
]


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asking=st.lists(st.tuples(st.booleans(), TOPICS), max_size=8))
def test_no_topic_is_two_tenants(manager: Manager, asking: list[tuple[bool, str]]) -> None:
    """Whatever is registered: who may write on a topic is the owner of every source that reads it, and nobody else."""
    made = []
    for number, (is_ann, topic) in enumerate(asking):
        who = ANN if is_ann else BOB
        with suppress(Conflict, Forbidden, InvalidRequest):
            manager.service.sources.register(who, asked(f"s{number}", topic))
            made.append((who, f"s{number}", topic))
    grants = manager.service.administration.grants()
    for topic in ALL:
        writers = {tenant for tenant, grant in grants.items() if any(covers(each, topic) for each in grant.writes)}
        readers = {who.tenant for who, _, text in made if covers(source_topic(text).filter, topic)}
        assert writers == readers
        assert len(writers) <= 1
        assert not (writers and topic.startswith(("braid", "ann", "bob"))) or writers == {topic.partition("/")[0]}
    for who, name, _ in made:
        manager.service.sources.revoke(who, name)


def test_tasks_publish_on_topics_that_own_filters_match(manager: Manager) -> None:
    """On no others, and not on a filter itself; the dataflow ends with the last source that takes the topic."""

    def publish(topic: str) -> str:
        return manager.submit("ann", f"s:source{{'source': 'in'}} > p:mqtt_publish{{'topic': '{topic}'}} > k:output")

    for name, topic in {"in": "ann/in", "machines": MACHINES, "all": "plant/m1/#"}.items():
        manager.service.sources.register(ANN, asked(name, topic))
    manager.service.sources.register(BOB, asked("other", "other/+"))
    for topic in ("other/1", "plant/m2/pressure"):
        with pytest.raises(InvalidDataflow) as refused:
            publish(topic)
        assert ["foreign-topic"] == [each.code for each in refused.value.errors]
    with pytest.raises(InvalidDataflow):
        publish("plant/+/temperature")
    publish("plant/m1/temperature")
    publish("plant/m2/temperature")
    # The other one publishes into what is left.
    assert 1 == manager.service.sources.revoke(ANN, "machines").dataflows
    assert 1 == manager.service.sources.revoke(ANN, "all").dataflows


def test_what_comes_back_over_a_filter_is_a_loop(manager: Manager) -> None:
    """A dataflow that publishes on a topic that its own source's filter matches is refused, over several ones too."""
    manager.service.sources.register(ANN, asked("machines", "plant/+"))
    manager.service.sources.register(ANN, asked("out", "out/{machine}"))

    def way(read: str, topic: str) -> str:
        return f"s:source{{'source': '{read}'}} > p:mqtt_publish{{'topic': '{topic}'}} > k:output"

    with pytest.raises(InvalidDataflow) as refused:
        manager.submit("ann", way("machines", "plant/m1"))
    assert ["publish-loop"] == [each.code for each in refused.value.errors]
    first = manager.submit("ann", way("machines", "out/m1"))
    with pytest.raises(InvalidDataflow) as refused:
        manager.submit("ann", way("out", "plant/m2"))
    assert ["publish-loop"] == [each.code for each in refused.value.errors]
    manager.service.dataflows.remove(ANN, first, Stop.NOW)
    manager.submit("ann", way("out", "plant/m2"))


def test_devices_read_the_commands_that_are_sent_to_them(manager: Manager) -> None:
    """Where the source's own topic covers them, and only with the format that has commands."""
    sparkplug = {"format": "sparkplug"}
    manager.service.sources.register(ANN, asked("works", "spBv1.0/works/#", connection=sparkplug))
    manager.service.sources.register(ANN, asked("data", "spBv1.0/mill/DDATA/#", connection=sparkplug))
    manager.service.sources.register(BOB, asked("plain", "spBv1.0/other/#"))
    grants = manager.service.administration.grants()
    assert ("spBv1.0/works/DCMD/#", "spBv1.0/works/NCMD/#") == grants["ann"].outputs
    assert () == grants["bob"].outputs
    for topic in ("plant/press", "spBv1.0/{site}/#"):
        with pytest.raises(InvalidRequest) as refused:
            manager.service.sources.register(ANN, asked("other", topic, connection=sparkplug))
        assert ["/connection/topic"] == [error.pointer for error in refused.value.errors]
