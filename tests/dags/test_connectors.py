"""Connectors as forms have them: the fields that they add, their formats, and why one is unusable."""

from typing import Any

import pytest
from pydantic import ValidationError

from dags import Kind
from dags.connectors import Connector, FilesConnector, MqttConnector, OpcuaConnector
from dags.kafka import KafkaConnector
from dags.message_formats import JSON, CsvMessages, JsonLinesMessages, MessageFormat

KINDS: dict[str, type[Connector]] = {
    "files": FilesConnector,
    "kafka": KafkaConnector,
    "mqtt": MqttConnector,
    "opcua": OpcuaConnector,
}
FORMS: dict[str, dict[str, Any]] = {
    "files": {"folder": {"place": "inbox"}},
    "kafka": {"brokers": ["kafka.example:9092"], "topic": "rooms"},
    "mqtt": {"url": "mqtts://broker.example:8883", "topic": "plant/{machine}/heat"},
    "opcua": {"url": "opc.tcp://plc", "nodes": {"temperature": "ns=2;s=Temp"}},
}
PEM = "-----BEGIN CERTIFICATE-----"
_NO_BROKER = "the URL is not that of a broker; write mqtt://host:port, or mqtts://host:port for TLS"
_A_USER = "the URL names a user; put `user:password` into a secret, and name it as `secret`"
_MQTT_CA = "`ca` holds certificates in PEM, for a URL with mqtts://; correct one of them, or leave `ca` out"
_KAFKA_CA = "`ca` holds certificates in PEM, for connections with `tls`; correct one of them, or leave `ca` out"


def connector(kind: str, **more: Any) -> Connector:
    """A connector of a kind, with some fields otherwise."""
    return KINDS[kind].model_validate({"kind": kind, **FORMS[kind], **more})


@pytest.mark.parametrize(
    ("kind", "more", "why"),
    [
        *((kind, {}, "") for kind in KINDS),
        ("mqtt", {"url": "mqtt://ann:word@broker.example"}, _A_USER),
        ("mqtt", {"url": "mqtt://ann@broker.example"}, _A_USER),
        ("mqtt", {"url": "https://broker.example"}, _NO_BROKER),
        ("mqtt", {"url": "mqtt://"}, _NO_BROKER),
        ("mqtt", {"url": "mqtt://broker.example:65535"}, ""),
        ("mqtt", {"url": "mqtt://broker.example:65536"}, _NO_BROKER),
        ("mqtt", {"url": "mqtt://broker.example:1"}, ""),
        ("mqtt", {"url": "mqtt://broker.example:0"}, _NO_BROKER),
        ("mqtt", {"url": "mqtt://broker.example/path"}, _NO_BROKER),
        ("mqtt", {"url": "mqtt://broker example"}, _NO_BROKER),
        (
            "mqtt",
            {"topic": "$share/all/heat"},
            "the topic is a shared subscription; name the topic alone, because one session takes all its messages",
        ),
        ("mqtt", {"topic": "heat/#/more"}, "the topic 'heat/#/more' is no topic filter: # comes last"),
        ("mqtt", {"topic": "{site}/heat"}, ""),
        ("mqtt", {"ca": PEM}, ""),
        ("mqtt", {"ca": "no certificate"}, _MQTT_CA),
        ("mqtt", {"ca": PEM, "url": "mqtt://broker.example"}, _MQTT_CA),
        ("kafka", {"ca": PEM, "tls": True}, ""),
        ("kafka", {"tls": True}, ""),
        ("kafka", {"ca": "sesame", "tls": True}, _KAFKA_CA),
        ("kafka", {"ca": PEM}, _KAFKA_CA),
        ("opcua", {"security": "Basic256Sha256,Sign", "secret": {"secret": "plc"}}, ""),
        ("opcua", {"secret": {"secret": "plc"}}, ""),
        (
            "opcua",
            {"security": "Basic256Sha256,Sign"},
            "security needs a certificate and its key; name a secret that has them",
        ),
        (
            "opcua",
            {"nodes": {"status": "i=1", "at": "i=2"}},
            "the field 'at' of each event says something else; give its node another field",
        ),
    ],
)
def test_a_connector_that_no_client_could_use_says_why(kind: str, more: dict[str, Any], why: str) -> None:
    """The reason says what to do; one that may be usable has none."""
    assert why == connector(kind, **more).why_unusable()


@pytest.mark.parametrize("topic", [".", ".."])
def test_kafka_has_no_topic_that_is_named_as_a_folder(topic: str) -> None:
    """Brokers refuse such a name, and so does the form."""
    with pytest.raises(ValidationError, match="Value error, Kafka has no topic of that name "):
        connector("kafka", topic=topic)
    assert connector("kafka", topic="...").why_unusable() == ""


@pytest.mark.parametrize(
    ("kind", "more", "fields"),
    [
        ("files", {}, {}),
        ("kafka", {}, {}),
        ("kafka", {"key": "room"}, {"room": Kind.STRING}),
        ("mqtt", {}, {"machine": Kind.STRING}),
        ("mqtt", {"topic": "{site}/{machine}"}, {"site": Kind.STRING, "machine": Kind.STRING}),
        ("opcua", {}, {"at": Kind.TIMESTAMP, "status": Kind.STRING}),
    ],
)
def test_a_connector_adds_fields(kind: str, more: dict[str, Any], fields: dict[str, Kind]) -> None:
    """Those of the key, of the levels of the topic, or of the server."""
    assert fields == connector(kind, **more).made_fields


@pytest.mark.parametrize(
    ("kind", "more", "messages"),
    [
        ("opcua", {}, JSON),
        ("mqtt", {"format": "csv"}, CsvMessages()),
        ("files", {}, CsvMessages()),
        ("files", {"format": "parquet"}, JSON),
        ("files", {"format": "jsonl"}, JsonLinesMessages()),
    ],
)
def test_a_connector_has_the_format_of_its_messages(kind: str, more: dict[str, Any], messages: MessageFormat) -> None:
    """Of files it is the one that a schema may have to read, and of a server that has no messages JSON."""
    assert messages == connector(kind, **more).messages
