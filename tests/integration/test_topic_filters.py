"""Sources with wildcards in their topics, through a host with real Spark and over real brokers."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from braid_client.answers.dataflows import DataflowState
from braid_client.answers.sources import SourceForm
from bridge import Spool, SpoolFeed, SystemClock, Unread, read, source_topics, topics, unpacked
from bridge.broker import BrokerKind, start_broker
from bridge.transport.address import Address
from dags import Kind, Schema
from dags.source_topics import source_topic
from engine.host.reception import Receptions
from tests.brokers import KINDS
from tests.integration.hosting import delivery, hosting_in, job, raw, slot
from tests.integration.serving import Served, serving
from tests.integration.tenanted_broker import Visitor, refusal
from tests.integration.test_raw_once import USERS, publisher
from tests.integration.test_receiving import until

PATTERN = "plant/{machine}/temperature"
FIELDS = {"machine": Kind.STRING, "n": Kind.INTEGER}


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_events_of_all_topics_that_match_reach_a_task(tmp_path: Path, kind: BrokerKind) -> None:
    """Once each, and each with the level of its topic; those of other topics do not."""
    with hosting_in(tmp_path, kind=kind) as hosting:
        named, plain = hosting.fresh(), hosting.fresh()
        sinks = hosting.fresh(), hosting.fresh()
        reads = raw(PATTERN, named, FIELDS), raw("plant/+/temperature/#", plain, {"n": Kind.INTEGER})
        hosting.run(job("j", slot(sinks[0], "output", named), slot(sinks[1], "output", plain), reads=reads))
        for n, topic in enumerate(["m1/temperature", "m2/temperature", "m1/pressure", "m1/temperature/in"]):
            hosting.publish(f"plant/{topic}", [{"n": n, "machine": 7}])
        hosting.publish("plant/m1/temperature", [{"n": "hot"}])
        hosting.publish("plant/m1/temperature", [{"n": 9}])
        assert [{"n": 0, "machine": "m1"}, {"n": 1, "machine": "m2"}, {"n": 9, "machine": "m1"}] == (
            hosting.until_delivered(delivery(sinks[0]), 3)
        )
        assert [0, 1, 3, 9] == [event["n"] for event in hosting.until_delivered(delivery(sinks[1]), 4)]
        topic = topics.unread("plant/+/temperature")
        [unread] = hosting.until(lambda: hosting.heard(topic), "what could not be read")
        assert "on plant/m1/temperature: the field 'n' should be of kind integer" == unread["reason"]


@pytest.mark.parametrize("kind", KINDS)
def test_topics_beyond_the_bound_are_rejected(
    tmp_path: Path, kind: BrokerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of their messages is counted, with its topic and the reason; topics that came before go on."""
    monkeypatch.setattr(source_topics, "MOST_TOPICS", 3)
    unread: list[Unread] = []
    with start_broker(tmp_path / "broker", USERS, kind=kind) as broker, publisher(broker) as client:
        address = broker.address("braid")
        receptions = Receptions(
            tmp_path, "h", address, MQTTProtocolVersion.MQTTv5, on_unread=lambda _unread: None, clock=SystemClock()
        )
        levels = source_topic("plant/{machine}")
        with closing(Spool(tmp_path / "spool", most_bytes=1 << 30)) as spool:
            feed = SpoolFeed(spool=spool, schema=Schema.of(machine=Kind.STRING, n=Kind.INTEGER), levels=levels)
            reception = receptions.begin(
                "raw/plant", {levels.filter: feed}, due=lambda _after: 0.0, on_unread=unread.append, on_trouble=print
            )
            for n, machine in enumerate([1, 2, 1, 3, 4, 5, 4, 2]):
                client.publish(f"plant/m{machine}", json.dumps({"n": n}).encode())
            until(lambda: (spool.end, len(unread)) == (5, 3))
            reception.stop()
        events = [
            event for _, item in read(tmp_path / "spool", 0, 1 << 30) for event in unpacked(item.payload).to_pylist()
        ]
    assert [("m1", 0), ("m2", 1), ("m1", 2), ("m3", 3), ("m2", 7)] == [(e["machine"], e["n"]) for e in events]
    assert ['{"n": 4}', '{"n": 5}', '{"n": 6}'] == [rejected.event for rejected in unread]
    assert all(rejected.reason.startswith("on plant/m") for rejected in unread)
    assert {"plant/+"} == {rejected.topic for rejected in unread}


@pytest.mark.spark
@pytest.mark.full
def test_a_tenants_devices_publish_on_the_topics_of_its_filter(tmp_path: Path) -> None:
    """With its credentials, from registration to output; another tenant's devices publish nothing there."""
    with serving(Served(tmp_path)) as served, served.admit("ann") as ann, served.admit("bob") as bob:
        connection = {"kind": "topic", "topic": PATTERN}
        form = {"name": "machines", "connection": connection, "schema": {"n": "integer"}}
        assert FIELDS == ann.register_source(SourceForm.model_validate(form)).fields
        document = {
            "version": 1,
            "name": "temperatures",
            "tasks": [
                {"id": "read", "type": "source", "config": {"source": "machines"}},
                {"id": "out", "type": "output"},
            ],
            "streams": [{"from": "read", "to": "out"}],
        }
        flow = ann.submit(document)
        served.until_state(ann, flow.id, DataflowState.RUNNING)
        assert served.line.is_connected, "outputs are heard from now on"
        answers = []
        for client, tenant, n in ((bob, "bob", 1), (ann, "ann", 2)):
            given = client.make_credentials(tenant)
            address = replace(Address.parse(given.url), user=given.user, password=given.password)
            served.until(lambda: refusal(address) is None, f"the broker to know {tenant}")  # noqa: B023 - awaited at once
            with Visitor(address) as device:
                answers.append(device.publish("plant/m1/temperature", json.dumps({"n": n}).encode()))
        assert ["Not authorized", "Success"] == answers
        assert [{"n": 2, "machine": "m1"}] == served.until_delivered(flow, "out", 1)
        ann.send_events("machines", b'{"n": 3, "machine": "by REST"}')
        assert [{"n": 2, "machine": "m1"}, {"n": 3, "machine": "by REST"}] == served.until_delivered(flow, "out", 2)
