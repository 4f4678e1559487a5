"""The settings of outputs: what is delivered how, to whom, and that nothing else depends on it."""

from collections.abc import Iterator
from typing import Any

import pytest

from braid_client.answers.dataflows import Stop
from braid_client.answers.reconfigurations import ReconfigurationForm
from braid_client.answers.sources import SourceForm
from dags import Catalogue, Kind
from dags.outputs import CsvOutput, OutputSettings, PlainOutput, SparkplugOutput
from engine.plan import Delivery
from engine.tasks import TYPES
from manager.problem import Conflict, InvalidDataflow
from tests.manager.managers import OPERATOR, Manager, caller, raw

ANN = caller("ann")


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    """A service with one source that everybody may read."""
    with_source = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
    with_source.admit("ann", "bob", "braid")
    with_source.service.sources.register(OPERATOR, source("street", "raw/street"))
    yield with_source
    with_source.close()


def source(name: str, topic: str, owner: str = "ann") -> SourceForm:
    """A source of nothing in particular."""
    form = {"name": name, "owner": owner, "connection": {"kind": "topic", "topic": topic}, "schema": {"t": "float"}}
    return SourceForm.model_validate({**form, "visibility": "public"})


def counts(**settings: Any) -> str:
    """A dataflow that counts, with settings of its output."""
    return f"s:source{{'source': 'ann:street'}} > c:count{{'by': ['t']}} > out:output{settings}"


def with_topic(topic: str, **settings: Any) -> bytes:
    """Such a dataflow, with a topic that the short notation has no words for."""
    return raw(counts(topic="TOPIC", **settings)).replace(b"TOPIC", topic.encode())


def deliveries(manager: Manager) -> list[Delivery]:
    """What all jobs deliver."""
    with manager.committer.looking() as state:
        return [delivery for plan in state.plans.values() for delivery in plan.deliveries]


def as_node(group: str, node: str = "press") -> str:
    """A dataflow that counts, and is an edge node."""
    return counts(format={"kind": "sparkplug", "group": group, "node": node})


def refused(manager: Manager, tenant: str, document: str | bytes) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDataflow) as raised:
        manager.service.dataflows.submit(caller(tenant), raw(document) if isinstance(document, str) else document)
    return [(problem.code, problem.pointer) for problem in raised.value.errors]


def test_equal_outputs_with_different_settings_are_one_task(manager: Manager) -> None:
    """Each dataflow has its own format, and only its tenant may read the topic."""
    chosen = {
        manager.submit("ann", counts(format="plain", topic="ann/counts")): OutputSettings(
            format=PlainOutput(), topic="ann/counts"
        ),
        manager.submit("bob", counts(format={"kind": "csv", "columns": ["count"]})): OutputSettings(
            format=CsvOutput(columns=("count",))
        ),
        manager.submit("bob", counts()): None,
    }
    delivered = deliveries(manager)
    assert 1 == len({delivery.instance for delivery in delivered})
    assert chosen == {delivery.dataflow: delivery.output for delivery in delivered}
    grants = manager.service.administration.grants()
    assert {"ann": ("ann/counts",), "bob": (), "braid": ()} == {name: held.outputs for name, held in grants.items()}


def test_a_format_changes_without_a_change_of_tasks(manager: Manager, sqlite: str) -> None:
    """A replacement that changes settings alone keeps tasks and numbers, and a restart knows the settings."""
    heard: list[tuple[str, ...]] = []
    manager.equip(access_changed=lambda: heard.append(manager.service.administration.grants()["ann"].outputs))
    dataflow = manager.submit("ann", counts())
    (before,) = deliveries(manager)
    changes: list[tuple[dict[str, Any], list[tuple[str, ...]]]] = [
        ({"topic": "ann/x", "retain": True}, [("ann/x",)]),
        ({}, [()]),
    ]
    for settings, outputs in changes:
        heard.clear()
        answer = manager.service.dataflows.replace(ANN, dataflow, raw(counts(**settings)))
        assert () == answer.started
        assert outputs == heard
        (after,) = deliveries(manager)
        assert (before.instance, before.epoch) == (after.instance, after.epoch)
        assert (OutputSettings.model_validate(settings) if settings else None) == after.output
        (output,) = manager.service.dataflows.get(ANN, dataflow).outputs
        assert (settings.get("topic"), bool(settings)) == (output.also_on, output.retain)
        again = Manager(sqlite, catalogue=Catalogue.of(TYPES)).lead()
        with again.committer.looking() as state:
            (submitted,) = state.running.dataflows.values()
        assert ({"out": after.output} if settings else {}) == submitted.outputs
        again.close()
        manager.lead()


def test_no_output_feeds_a_source(manager: Manager) -> None:
    """An output may not have the topic of a source, nor a source that of an output, whichever comes first."""
    manager.service.sources.register(OPERATOR, source("lane", "ann/lane"))
    assert [("source-topic", "/tasks/2/config/topic")] == refused(manager, "ann", counts(topic="ann/lane"))
    manager.submit("ann", counts(topic="ann/counts"))
    with pytest.raises(Conflict, match="'out' of dataflow"):
        manager.service.sources.register(ANN, source("counts", "ann/counts"))


def test_no_output_feeds_a_source_of_many_topics(manager: Manager) -> None:
    """A filter or a level with a name counts for all topics that it stands for, whichever comes first."""
    manager.service.sources.register(ANN, source("lanes", "ann/{lane}/raw"))
    assert [("source-topic", "/tasks/2/config/topic")] == refused(manager, "ann", counts(topic="ann/north/raw"))
    manager.submit("ann", counts(topic="ann/north/counts"))
    for topic in ("ann/{lane}/counts", "ann/+/counts", "ann/#"):
        with pytest.raises(Conflict, match="'out' of dataflow"):
            manager.service.sources.register(ANN, source("counts", topic))


def test_an_output_has_topics_of_its_tenant_only(manager: Manager) -> None:
    """Another tenant's are refused, and Braid's own even for a tenant of this name."""
    assert [("foreign-topic", "/tasks/2/config/topic")] == refused(manager, "bob", counts(topic="ann/counts"))
    assert [("unfit-topic", "/tasks/2/config/topic")] == refused(manager, "braid", counts(topic="braid/1/jobs/1/plan"))


def test_a_level_of_a_topic_may_be_the_value_of_a_field(manager: Manager) -> None:
    """Access is for all topics that there can be, and none of them feeds a source, whichever comes first."""
    manager.service.sources.register(ANN, source("lanes", "ann/lanes/+"))
    for topic in ("ann/{count}/north", "ann/lanes/{count}"):
        assert [("source-topic", "/tasks/2/config/topic")] == refused(manager, "ann", with_topic(topic, format="plain"))
    manager.service.dataflows.submit(ANN, with_topic("ann/{count}/all/counts", format="plain", retain=True))
    assert ("ann/+/all/counts",) == manager.service.administration.grants()["ann"].outputs
    assert () == manager.service.administration.grants()["bob"].outputs
    for topic in ("ann/north/all/counts", "ann/{lane}/all/counts", "ann/#"):
        with pytest.raises(Conflict, match="'out' of dataflow"):
            manager.service.sources.register(ANN, source("counts", topic))


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("bob/{count}", "foreign-topic"),
        ("ann/{count}/{count}", "repeated-level"),
        ("ann/{t}", "wrong-kind-upstream"),
        ("ann/{missing}", "unknown-field-upstream"),
        ("{count}/ann", "wrong-value"),
        ("ann/{}", "wrong-value"),
        ("ann/a{count}", "wrong-value"),
        ("ann/{a/b}", "wrong-value"),
        ("ann/{+}", "wrong-value"),
    ],
)
def test_a_level_that_no_value_fills_is_refused(manager: Manager, topic: str, code: str) -> None:
    """The field has to arrive, as a string, an integer or a boolean; and it is a whole level below the own name."""
    assert [(code, "/tasks/2/config/topic")] == refused(manager, "ann", with_topic(topic, format="plain"))


def test_envelopes_have_no_topics_by_values(manager: Manager) -> None:
    """They have several events each."""
    assert [("envelope-topic", "/tasks/2/config/topic")] == refused(manager, "ann", with_topic("ann/{count}"))


def test_a_reconfiguration_changes_no_settings(manager: Manager) -> None:
    """It refuses to, alone or with a change of tasks, and keeps what is set."""
    dataflow = manager.submit("ann", counts(format="plain"))
    count: dict[str, dict[str, Any]] = {"c": {"config": {"by": []}}}
    for tasks in ({"out": {"config": {"retain": True}}}, {"out": {"config": {"retain": True}}, **count}):
        with pytest.raises(Conflict, match="replace the document"):
            manager.service.reconfigurations.begin(ANN, dataflow, ReconfigurationForm(tasks=tasks))
    manager.service.reconfigurations.begin(ANN, dataflow, ReconfigurationForm(tasks=count, fresh=["c"]))
    assert [OutputSettings(format=PlainOutput())] == [delivery.output for delivery in deliveries(manager)]


def test_an_edge_node_is_its_tenants_own(manager: Manager) -> None:
    """Its group begins with the tenant's name, no other output is it, and nobody else hears or commands it."""
    for tenant, group in (("bob", "ann"), ("bob", "ann.hot"), ("ann", "anna"), ("ann", "bob.ann")):
        assert [("foreign-group", "/tasks/2/config/format/group")] == refused(manager, tenant, as_node(group))
    dataflow = manager.submit("ann", as_node("ann.hot"))
    manager.submit("ann", as_node("ann.hot", "oven"))
    assert [("taken-node", "/tasks/2/config/format/node")] == refused(manager, "ann", as_node("ann.hot"))
    granted = manager.service.administration.grants()
    assert ("spBv1.0/ann.hot/#",) == granted["ann"].outputs
    assert {f"spBv1.0/ann.hot/NCMD/{node}" for node in ("press", "oven")} < {*granted["ann"].writes}
    assert ((), ()) == (granted["bob"].outputs, granted["bob"].writes)
    # It may stay what it is, and another may be it once it is gone.
    manager.service.dataflows.replace(ANN, dataflow, raw(as_node("ann.hot")))
    (output,) = manager.service.dataflows.get(ANN, dataflow).outputs
    assert "spBv1.0/ann.hot/NDATA/press" == output.also_on
    manager.service.dataflows.remove(ANN, dataflow, Stop.NOW)
    manager.submit("ann", as_node("ann.hot"))


def test_an_edge_node_has_the_metrics_of_its_events(manager: Manager) -> None:
    """They are those of the schema, go with it when the document is replaced, and are not for the document to say."""

    def metrics() -> tuple[tuple[str, Kind], ...]:
        (delivery,) = deliveries(manager)
        assert isinstance(delivery.output, OutputSettings)
        assert isinstance(delivery.output.format, SparkplugOutput)
        return delivery.output.format.metrics

    dataflow = manager.submit("ann", as_node("ann"))
    assert (("count", Kind.INTEGER), ("t", Kind.FLOAT)) == metrics()
    node = {"kind": "sparkplug", "group": "ann", "node": "press"}
    passing = "s:source{'source': 'ann:street'} > out:output" + str({"format": node})
    manager.service.dataflows.replace(ANN, dataflow, raw(passing))
    assert (("t", Kind.FLOAT),) == metrics()
    written = counts(format={**node, "node": "oven", "metrics": [["made up", "json"]]})
    assert [("node-setting", "/tasks/2/config/format/metrics")] == refused(manager, "ann", written)


def test_the_group_of_an_edge_node_feeds_no_source(manager: Manager) -> None:
    """Whichever comes first, so that no tenant hears the devices of another."""
    manager.service.sources.register(OPERATOR, source("works", "spBv1.0/ann/+/oven", owner="bob"))
    assert [("source-topic", "/tasks/2/config/format/group")] == refused(manager, "ann", as_node("ann"))
    manager.submit("ann", as_node("ann.hot"))
    for topic in ("spBv1.0/+/NDATA/press", "spBv1.0/ann.hot/#", "spBv1.0/ann.hot/NCMD/press"):
        with pytest.raises(Conflict, match="'out' of dataflow"):
            manager.service.sources.register(ANN, source("hot", topic))
