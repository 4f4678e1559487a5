"""Sparkplug over real brokers: a host that missed a birth asks for it, and then reads what it stands for."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Spool, SpoolFeed, SystemClock, Unread, read, unpacked
from bridge.broker import BrokerKind, start_broker
from bridge.formats.decoders import topic_decoder
from bridge.formats.sparkplug_messages import Payload
from dags import Kind, Schema
from dags.message_formats import SparkplugMessages
from dags.source_topics import source_topic
from engine.host.reception import Receptions
from tests.brokers import KINDS
from tests.integration.tenanted_broker import Visitor
from tests.integration.test_raw_once import USERS, publisher
from tests.integration.test_receiving import until


@pytest.mark.parametrize("kind", KINDS)
def test_a_birth_that_was_missed_is_asked_for(tmp_path: Path, kind: BrokerKind) -> None:
    """On the topic of the edge node's commands, which is no event, although the source's filter covers it."""
    schema, unread = Schema.of(speed=Kind.FLOAT, status=Kind.STRING), list[Unread]()
    with (
        start_broker(tmp_path / "broker", USERS, kind=kind) as broker,
        publisher(broker) as client,
        closing(Spool(tmp_path / "spool", most_bytes=1 << 30)) as spool,
        Visitor(broker.address("braid"), "spBv1.0/works/NCMD/press") as edge_node,
    ):
        receptions = Receptions(
            tmp_path,
            "h",
            broker.address("braid"),
            MQTTProtocolVersion.MQTTv5,
            on_unread=lambda _unread: None,
            clock=SystemClock(),
        )
        levels = source_topic("spBv1.0/works/#")
        feed = SpoolFeed(spool=spool, schema=schema, levels=levels, read=topic_decoder(SparkplugMessages(), schema, {}))
        reception = receptions.begin(
            "raw/works", {levels.filter: feed}, due=lambda _after: 0.0, on_unread=unread.append, on_trouble=print
        )
        data = Payload(timestamp=1_700_000_000_000, seq=5, metrics=[{"alias": 1, "double_value": 1.5}])
        client.publish("spBv1.0/works/NDATA/press", data.SerializeToString())
        topic, command = edge_node.messages.get(timeout=20)
        assert ("spBv1.0/works/NCMD/press", "Node Control/Rebirth") == (
            topic,
            Payload.FromString(command).metrics[0].name,
        )
        birth = Payload(seq=0, metrics=[{"name": "speed", "alias": 1, "datatype": 10, "double_value": 2.5}])
        client.publish("spBv1.0/works/NBIRTH/press", birth.SerializeToString())
        data.seq = 1
        client.publish("spBv1.0/works/NDATA/press", data.SerializeToString())
        client.publish("spBv1.0/works/NDEATH/press", Payload().SerializeToString())
        until(lambda: spool.end == 3)
        reception.stop()
        events = [
            event for _, item in read(tmp_path / "spool", 0, 1 << 30) for event in unpacked(item.payload).to_pylist()
        ]
    assert [(2.5, "online"), (1.5, "online"), (None, "offline")] == [(e["speed"], e["status"]) for e in events]
    assert [0, 1, None] == [json.loads(event["_rest"])["seq"] for event in events]
    assert ["on spBv1.0/works/NDATA/press: the metric number 1 is not known"] == [
        rejected.reason.partition(",")[0] for rejected in unread
    ]
