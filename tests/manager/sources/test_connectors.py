"""Sources from outside Braid: what is registered and refused, who sees it, and what is said of their connections."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from braid_client.answers.sources import SchemaForm, SourceForm
from bridge.connectors.connector_run import LinkState
from dags import Kind
from dags.connectors import MqttConnector
from engine.host.spools import Received
from engine.plan import ConnectorSupply, Ingress, Plan
from engine.plan_messages import read_plan, written_plan
from manager.kernel.registered_sources import supply_of
from manager.observations.reports import HostSeen
from manager.problem import Conflict, InvalidRequest
from manager.sources.routes import SOURCE_FORM
from manager.use_case import moment
from tests.manager.managers import ANN, BOB, Manager, leading
from tests.manager.sources.test_use_cases import NOW, pointers

MQTT = {"kind": "mqtt", "url": "mqtts://broker.example:8883", "topic": "plant/{machine}/heat"}
SHORT = "s:source{'source': 'heat'} > k:sink"


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob"))


def asked(name: str = "heat", schema: Any = None, **more: Any) -> SourceForm:
    given = {"value": "integer"} if schema is None else schema
    return SOURCE_FORM.model_validate({"name": name, "connection": {**MQTT, **more}, "schema": given})


def test_a_connection_is_registered_as_it_was_asked_for(manager: Manager) -> None:
    """It declares the levels of its topic too, then and after a change; a plan names the owner of its secret."""
    connection: dict[str, Any] = {
        "secret": {"secret": "broker"},
        "format": {"kind": "csv", "separator": ";"},
        "retained": True,
    }
    made = manager.service.sources.register(ANN, asked(**connection))
    assert {"machine": Kind.STRING, "value": Kind.INTEGER} == made.fields
    changed = manager.service.sources.declare(ANN, "heat", SchemaForm.model_validate({"schema": {"u": "float"}}))
    assert {"machine": Kind.STRING, "u": Kind.FLOAT} == changed.source.fields
    other = Manager(manager.url, "two").lead()
    known = other.service.sources.get(ANN, "heat")
    other.close()
    assert (changed.source, made.connection) == (known, known.connection)
    assert isinstance(known.connection, MqttConnector)
    assert ("broker", "csv", True, "5") == (
        known.connection.secret and known.connection.secret.secret,
        known.connection.format.kind,
        known.connection.retained,
        known.connection.protocol,
    )
    supply = supply_of(known.connection, known.fields, "ann")
    assert isinstance(supply, ConnectorSupply)
    assert '"secret":{"secret":"broker","owner":"ann"}' in supply.connector
    assert ("csv", known.fields) == (supply.format.kind, supply.fields)
    plan = Plan(job="j", host="h", version=1, ingress=(Ingress(stream="source/1", instance=1, supply=supply),))
    assert plan == read_plan(written_plan(plan))


def test_only_its_owner_sees_a_connection(manager: Manager) -> None:
    """Readers see the schema; and nobody sends to such a source over REST."""
    form = asked().model_copy(update={"readers": frozenset({"bob"}), "visibility": "named"})
    manager.service.sources.register(ANN, form)
    assert manager.service.sources.get(BOB, "ann:heat").connection is None
    with pytest.raises(Conflict, match=r"the events of 'ann:heat' come by themselves \(mqtt\)"):
        manager.service.source_events.send(
            ANN, "heat", b"{}", media_type="application/x-ndjson", producer=None, first=None
        )


def test_what_no_client_could_use_is_refused(manager: Manager) -> None:
    """When it is registered, with the reason."""
    with pytest.raises(InvalidRequest) as refused:
        manager.service.sources.register(ANN, asked(topic="heat/#/more"))
    assert [("/connection", "unfit-connection")] == pointers(refused)
    assert "the topic 'heat/#/more' is no topic filter: # comes last" in refused.value.errors[0].message


@pytest.mark.parametrize("url", ["mqtt://b", "mqtts://broker.example", "mqtt://[::1]:1883", "mqtt://10.1.2.3:1883/"])
@pytest.mark.parametrize("topic", ["#", "+/{a}/#", "{a}/x", "$SYS/broker/load", "braid/1", "ann", "bob/private"])
def test_any_topic_of_another_broker_can_be_named(manager: Manager, url: str, topic: str) -> None:
    """Names there are not Braid's, so tenants' names mean nothing."""
    assert manager.service.sources.register(ANN, asked(url=url, topic=topic)).name == "ann:heat"


def test_a_kind_that_is_not_installed_is_refused() -> None:
    """By the form; and so is a connection with what its kind does not know, or a protocol that there is not."""
    for more, why in (
        ({"kind": "pigeon"}, "does not match any of the expected tags: .*'topic'.*'mqtt'"),
        ({"password": "word"}, "Extra inputs are not permitted"),
        ({"protocol": "4"}, "Input should be '5' or '3.1.1'"),
        ({"topic": ""}, "at least 1 character"),
    ):
        with pytest.raises(ValidationError, match=why):
            asked(**more)


def test_a_made_field_is_of_no_other_kind(manager: Manager) -> None:
    """Neither when a source is registered nor later."""
    with pytest.raises(InvalidRequest) as refused:
        manager.service.sources.register(ANN, asked(schema={"machine": "integer"}))
    assert [("/schema/machine", "made-field")] == pointers(refused)
    manager.service.sources.register(ANN, asked(schema={"machine": "string"}))
    with pytest.raises(InvalidRequest) as again:
        manager.service.sources.declare(ANN, "heat", SchemaForm.model_validate({"schema": {"machine": "float"}}))
    assert [("/schema/machine", "made-field")] == pointers(again)


def test_the_same_broker_and_topic_may_feed_several_sources(manager: Manager) -> None:
    """Of one tenant and of others: nobody owns what is outside."""
    for who, name in ((ANN, "heat"), (ANN, "again"), (BOB, "heat")):
        manager.service.sources.register(who, asked(name))


def test_a_dataflow_says_that_its_source_is_not_connected(manager: Manager) -> None:
    """Since when and why, to the tenant that owns the source; beside what else is wrong."""
    manager.service.sources.register(ANN, asked(schema={}))
    dataflow = manager.submit("ann", SHORT)
    before = manager.service.dataflows.get(ANN, dataflow).reason

    def reason(link: LinkState) -> str:
        sources = {"source/1": Received(since=60.0, link=link)}
        manager.seen.every_host = (HostSeen(host="north", alive=True, sources=sources, seen=NOW),)
        return manager.service.dataflows.get(ANN, dataflow).reason

    begun = LinkState(since=1_800_000_000.0)
    down = begun.down("no broker answers", 1_800_000_001.0)
    text = "the source ann:heat is not connected since 2027-01-15 08:00:00 UTC: no broker answers"
    assert [before, f"{before}; {text}", before] == [reason(link) for link in (begun, down, down.up(1_800_000_002.0))]
    received = manager.service.sources.get(ANN, "heat").received
    assert received is not None
    link = received.link
    assert link is not None
    assert (True, moment(1_800_000_002.0), "no broker answers", moment(1_800_000_001.0)) == (
        link.connected,
        link.since,
        link.error,
        link.error_at,
    )


PACKAGE = """
from typing import ClassVar, Literal
from dags import Kind
from dags.connectors import Connector

class Meters(Connector):
    kind: Literal["meters"]
    serial: int
    client: ClassVar[str] = "acme_meters_client:MetersClient"
    promise: ClassVar[str] = "Nothing."

    @property
    def made_fields(self):
        return {"serial": Kind.INTEGER}

    def why_unusable(self):
        return "" if self.serial > 0 else "no meter has such a number"
"""
ASKS = """
from braid_client.answers.sources import SourceForm
from manager.sources.routes import SOURCE_FORM
from manager.kernel.registered_sources import supply_of
meters = {"kind": "meters", "serial": 7}
form = SOURCE_FORM.model_validate({"name": "m", "connection": meters, "schema": {"w": "float"}})
supply = supply_of(form.connection, form.fields, "ann")
print(type(form.connection).__name__, supply.connector, sorted(supply.fields), supply.format.kind)
asked = SourceForm.model_validate_json(form.model_dump_json(by_alias=True))
print(type(asked.connection).__name__, asked.connection.model_dump_json())
"""


def test_a_package_adds_a_kind(tmp_path: Path) -> None:
    """Its entry point makes it a connection that forms have, and plans; a client without the package passes it on."""
    (tmp_path / "acme_meters.py").write_text(PACKAGE)
    info = tmp_path / "acme_meters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-meters\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[braid.connectors]\nmeters = acme_meters:Meters\n")
    said = subprocess.run(  # noqa: S603 - as it runs here
        [sys.executable, "-c", ASKS],
        env={"PYTHONPATH": str(tmp_path)},
        cwd=Path(__file__).parents[3],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = (
        """Meters {"kind":"meters","serial":7} ['serial', 'w'] json""",
        """OtherConnector {"kind":"meters","serial":7}""",
    )
    assert lines == tuple(said.stdout.splitlines())
