"""Sources that take their events from outside Braid, from their registration to the spool of a host."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from braid_client.answers.sources import SourceForm
from bridge import SystemClock
from bridge.spools.log import items_in, unpacked
from dags import Kind
from engine.host.spools import HostSpools
from engine.outside import Vault
from engine.plan import ConnectorSupply, Ingress, Plan, declaring
from engine.plan_messages import read_plan, written_plan
from manager.problem import Conflict, InvalidRequest
from tests.bridge.connectors.opcua_server import PlantServer
from tests.engine.host.test_spools import Broker
from tests.kafka_brokers import mock_cluster
from tests.kafka_entrance import Login, entrance
from tests.manager.managers import ANN, BOB, Manager, leading
from tests.tasks.worksite import allow, keep_secret

FIELDS = {"n": "integer"}


@pytest.fixture
def manager(sqlite: str) -> Iterator[Manager]:
    yield from leading(sqlite, tenants=("ann", "bob"))


class Host:
    """The spools of a host; its root is that of the tenants' places."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spools = HostSpools(
            root,
            Broker(),
            clock=SystemClock(),
            on_growth=lambda _stream, _marked: None,
            due=lambda _stream, after: after,
        )

    def reads(self, supply: Any, stream: str, job: str = "j") -> None:
        ingress = Ingress(stream=stream, instance=1, supply=supply)
        plan = Plan(job=job, host="h", version=1, ingress=(ingress,))
        assert plan == read_plan(written_plan(plan))
        self.spools.need(plan, read_plan(written_plan(plan)).ingress[0])

    def events(self, stream: str) -> list[dict[str, Any]]:
        spool = self.spools.owned(stream)
        assert spool is not None
        return [
            row
            for file in list(spool._files)
            for item in items_in(file)
            for row in unpacked(item.item.payload).to_pylist()
        ]

    def waits(self, stream: str, count: int) -> list[dict[str, Any]]:
        until = time.monotonic() + 20
        while len(events := self.events(stream)) < count and time.monotonic() < until:
            time.sleep(0.05)
        return events


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.spools.close()


def supplied(manager: Manager, caller: Any, name: str, connection: dict[str, Any], **more: Any) -> ConnectorSupply:
    """The supply of a source that was just registered."""
    form = {"name": name, "connection": connection, "schema": FIELDS, **more}
    made = manager.service.sources.register(caller, SourceForm.model_validate(form))
    with manager.committer.looking() as state:
        supply = state.sources[made.name].supplied.supply
    assert isinstance(supply, ConnectorSupply)
    return supply


def test_tenants_watch_places_of_their_own(manager: Manager, host: Host) -> None:
    """With the same form, both get what is in theirs; what is rejected and the connection are shown."""
    form = {"kind": "files", "folder": {"place": "inbox"}, "every": 1}
    for number, (caller, tenant) in enumerate(((ANN, "ann"), (BOB, "bob"))):
        inbox = host.root / "files" / tenant / "inbox"
        inbox.mkdir(parents=True)
        (inbox / "a.jsonl").write_text(f'{{"n": {number}}}\n{{"n": "x"}}\n')
        host.reads(supplied(manager, caller, "files", form), f"source/{tenant}")
    for number, tenant in enumerate(("ann", "bob")):
        assert [{"n": number, "_rest": None}] == host.waits(f"source/{tenant}", 1)
        received = host.spools.received()[f"source/{tenant}"]
        assert (1, 1, True) == (received["accepted"], received["rejected"], received["link"]["connected"])
        assert "a.jsonl: the field 'n' should be of kind integer" == received["newest"][0]["reason"]


def test_a_field_of_csv_that_one_reader_expects_has_its_kind(manager: Manager, host: Host) -> None:
    """Also if another reader, which began earlier, does not declare it."""
    inbox = host.root / "files" / "ann" / "inbox"
    inbox.mkdir(parents=True)
    whole = supplied(
        manager,
        ANN,
        "files",
        {"kind": "files", "folder": {"place": "inbox"}, "every": 1},
        schema={"n": "integer", "t": "float"},
    )
    host.reads(declaring(whole, {}), "source/1", "early")
    host.reads(whole, "source/1", "late")
    (inbox / "a.csv").write_text("n,t\n1,2.5\n")
    assert [{"_rest": json.dumps({"n": 1, "t": 2.5}, separators=(",", ":"))}] == host.waits("source/1", 1)


def test_a_connection_is_shown_as_it_was_given_and_takes_no_events_over_rest(manager: Manager) -> None:
    """A format may be short; a field of any other name is refused."""
    form = {"kind": "files", "folder": {"secret": "bucket"}, "pattern": "*.txt", "format": "csv"}
    supply = supplied(manager, ANN, "files", form)
    assert {"secret": "bucket", "owner": "ann"} == json.loads(supply.connector)["folder"]
    connection = manager.service.sources.get(ANN, "files").connection
    assert connection is not None
    shown = connection.model_dump(mode="json")
    assert {**form, "every": 10.0} == {**shown, "format": shown["format"]["kind"]}
    with pytest.raises(Conflict, match=r"come by themselves \(files\)"):
        manager.service.source_events.send(
            ANN, "files", b"{}", media_type="application/json", producer=None, first=None
        )
    wrongs: tuple[dict[str, Any], ...] = (
        {"folder": {"place": "../x"}},
        {"folder": {}},
        {"every": 0},
        {"format": "xml"},
        {"pattern": ""},
    )
    for wrong in wrongs:
        with pytest.raises(ValueError, match="validation error"):
            SourceForm.model_validate({"name": "more", "connection": {**form, **wrong}})


def test_a_server_of_machines_is_read_with_a_secret(manager: Manager, host: Host) -> None:
    """While that is missing the connection says so; its own fields are declared without being named."""
    server = PlantServer({"Temp": 20.5}, login=True)
    (host.root / "reachable").write_text("127.0.0.1\n")
    nodes = {"temperature": "ns=2;s=Temp"}
    form = {"kind": "opcua", "url": server.url, "nodes": nodes, "interval": 50, "secret": {"secret": "plc"}}
    supply = supplied(manager, ANN, "line", form, schema={"temperature": "float"})
    assert {"temperature": Kind.FLOAT, "at": Kind.TIMESTAMP, "status": Kind.STRING} == supply.fields
    host.reads(supply, "source/1")
    until = time.monotonic() + 20
    while not (link := host.spools.received()["source/1"]["link"])["error"] and time.monotonic() < until:
        time.sleep(0.05)
    assert (False, "'ann' has no secret 'plc'; put it with `braid secrets put plc`") == (
        link["connected"],
        link["error"],
    )
    Vault(host.root).put("ann", "plc", "ann:s3:cret")
    (event,) = host.waits("source/1", 1)
    assert (20.5, None, None) == (event["temperature"], event["status"], event["_rest"])
    server.stop()


def test_fields_that_a_connection_adds_keep_their_kind(manager: Manager) -> None:
    """Whoever declares one of another kind is told."""
    form = {"kind": "opcua", "url": "opc.tcp://plc", "nodes": {"temperature": "ns=2;s=Temp"}}
    with pytest.raises(InvalidRequest) as refused:
        supplied(manager, ANN, "line", form, schema={"at": "string"})
    assert [("/schema/at", "made-field")] == [(error.pointer, error.code) for error in refused.value.errors]
    with pytest.raises(InvalidRequest) as refused:
        supplied(manager, ANN, "line", {**form, "nodes": {"at": "ns=2;s=Temp"}})
    assert [("/connection", "unfit-connection")] == [(error.pointer, error.code) for error in refused.value.errors]


def test_a_topic_of_kafka_is_read_with_the_secret_of_the_owner(manager: Manager, host: Host) -> None:
    """Its key is a declared field, and its connection is shown as it was given."""
    allow(host.root, "127.0.0.1")
    keep_secret(host.root, "login", "me:sesame")
    with mock_cluster() as mock, entrance(mock, login=Login("me", "sesame")) as closed:
        topic = mock.topic()
        form = {
            "kind": "kafka",
            "brokers": list(closed.addresses),
            "topic": topic,
            "start": "oldest",
            "key": "room",
            "secret": {"secret": "login"},
            "mechanism": "SCRAM-SHA-256",
        }
        supply = supplied(manager, ANN, "rooms", form)
        assert {"n": Kind.INTEGER, "room": Kind.STRING} == supply.fields
        host.reads(supply, "source/1")
        closed.send(topic, b'{"n": 1}', None, key=b"a", login="me:sesame")
        assert [("a", 1), ("a", None)] == [(row["room"], row["n"]) for row in host.waits("source/1", 2)]
        assert host.spools.received()["source/1"]["link"]["connected"]
        host.spools.close()
    connection = manager.service.sources.get(ANN, "rooms").connection
    assert connection is not None
    shown = connection.model_dump(mode="json")
    assert form == {name: shown[name] for name in form}


def test_a_format_that_needs_topics_comes_from_mqtt_alone(manager: Manager) -> None:
    """Records of Kafka have none, so nothing could be read of them."""
    kafka = {"kind": "kafka", "brokers": ["k:9092"], "topic": "works", "format": "sparkplug"}
    with pytest.raises(InvalidRequest, match="read with their topics of MQTT"):
        supplied(manager, ANN, "works", kafka)
    mqtt = {"kind": "mqtt", "url": "mqtt://b", "topic": "works/press", "format": "sparkplug"}
    with pytest.raises(InvalidRequest, match=r"has no level spBv1\.0"):
        supplied(manager, ANN, "works", mqtt)
