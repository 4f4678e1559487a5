"""Connectors: what sources take from outside Braid, such as another broker, as forms and plans have it.

A connector is a record that says what to reach, and in which format. `bridge.connectors` has the clients, which hosts
import when they need them. Packages add kinds of their own through the entry point group `braid.connectors`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field, StringConstraints

from dags.config import Config, Secret, Where
from dags.message_formats import JSON, ContentFormat, CsvMessages, MessageFormat, ParquetFiles
from dags.schema import Kind
from dags.source_topics import source_topic, why_no_source_topic


class Connector(Config):
    """The base of connectors; each has a field `kind` with its name as a literal."""

    # Forms are read from JSON and rows alike, and in these a tuple is a list.
    model_config = ConfigDict(strict=False)

    kind: str
    client: ClassVar[str]
    """The place of its client, as `module:name`; see `bridge.connectors.connector_run.ConnectorClient`."""
    promise: ClassVar[str]
    """What it promises for events before they are in the spool, as a sentence."""

    @property
    def made_fields(self) -> Mapping[str, Kind]:
        """The fields that it adds to events, whatever these have."""
        return {}

    @property
    def messages(self) -> MessageFormat:
        """The format of the messages that it takes, if it takes any."""
        return JSON

    def why_unusable(self) -> str:
        """Why nothing can be taken by it, as far as it can be said without connecting; empty if it can."""
        return ""


class MessageConnector(Connector):
    """The base of connectors that take messages, which hold events in some format."""

    format: MessageFormat = JSON
    """The format of the messages."""

    @property
    def messages(self) -> MessageFormat:
        """The format of its messages."""
        return self.format


_BROKER = re.compile(r"(?P<place>mqtts?://(?:\[[0-9A-Fa-f:.]+\]|[^\s/@?#:\[\]]+))(?::(?P<port>[0-9]{1,5}))?/?")
_PORTS = range(1, 65_536)
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"


class MqttConnector(MessageConnector):
    """Messages on topics of another MQTT broker."""

    kind: Literal["mqtt"]
    url: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    """The broker, as `mqtt://host:port`, or `mqtts://` for TLS; the ports are 1883 and 8883 unless given."""
    topic: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    """A topic, or several: `+` stands for any one level, `{name}` for one that becomes the string field `name` of each
    event, and a last `#` for any further levels."""
    secret: Secret | None = None
    """The secret with `user:password`, or with a client certificate and its key in PEM."""
    retained: bool = False
    """Whether what the topics retain when they are first subscribed to are events too."""
    protocol: Literal["5", "3.1.1"] = "5"
    """The version of MQTT."""
    ca: Annotated[str, StringConstraints(max_length=100_000)] = ""
    """The certificates of the authorities to trust, in PEM; without them those that the host's system trusts."""
    client: ClassVar[str] = "bridge.connectors.mqtt_session:MqttSession"
    promise: ClassVar[str] = (
        "What is published with QoS 1 or 2 is taken at least once while the broker keeps the session, and exactly once "
        "over MQTT 5 from a broker that names itself mosquitto or Braid's own in `$SYS/broker/version`."
    )

    @property
    def made_fields(self) -> Mapping[str, Kind]:
        """Levels of the topic."""
        return dict.fromkeys(source_topic(self.topic, outside=True).fields, Kind.STRING)

    def why_unusable(self) -> str:
        """Look at the URL, the topic and the certificates."""
        if "@" in self.url:
            return "the URL names a user; put `user:password` into a secret, and name it as `secret`"
        named = _BROKER.fullmatch(self.url)
        if named is None or int(named["port"] or 1) not in _PORTS:
            return "the URL is not that of a broker; write mqtt://host:port, or mqtts://host:port for TLS"
        if self.topic.startswith("$share/"):
            return (
                "the topic is a shared subscription; name the topic alone, because one session takes all its messages"
            )
        if why := why_no_source_topic(self.topic, outside=True):
            return f"the topic {self.topic!r} {why}"
        if self.ca and not (self.url.startswith("mqtts:") and _CERTIFICATE in self.ca):
            return "`ca` holds certificates in PEM, for a URL with mqtts://; correct one of them, or leave `ca` out"
        return ""

    def shared(self, messages: MessageFormat) -> "MqttConnector | None":
        """The connector that takes for all sources that have an equal one here; None if this one needs its own.

        It has the same broker and topics, written in one way. It has no format, because sources read messages
        themselves. The name of the host stays as it is, because operators list hosts so.

        >>> heat = MqttConnector(kind="mqtt", url="mqtt://plant/", topic="{hall}/heat")
        >>> shared = heat.shared(JSON)
        >>> shared.url, shared.topic, heat.model_copy(update={"retained": True}).shared(JSON)
        ('mqtt://plant:1883', '+/heat', None)
        """
        broker = _BROKER.fullmatch(self.url)
        # The broker retains for each subscription, and of such formats an answer to the publisher is a part.
        if broker is None or self.secret is not None or self.retained or messages.has_topics:
            return None
        port = int(broker["port"] or (8883 if self.url.startswith("mqtts:") else 1883))
        topic = source_topic(self.topic, outside=True).filter
        return MqttConnector(
            kind="mqtt", url=f"{broker['place']}:{port}", topic=topic, protocol=self.protocol, ca=self.ca
        )


class FilesConnector(Connector):
    """The files in a folder or bucket, and in the folders within, each taken once."""

    kind: Literal["files"]
    folder: Where
    """A secret with the URL of a bucket or folder, or a place of a folder."""
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=200)] = "*"
    """The end of the paths that are taken, with `*`, `?` and `[...]` within a level, as in `*.csv` or `in/*.csv`."""
    format: ContentFormat | None = None
    """The format of all of them. By default it is that of their endings, and files with other endings are left out."""
    every: Annotated[float, Field(ge=1, le=86_400)] = 10.0
    """Seconds between two looks into the folder. A file is taken when two looks found the same size and time."""

    client: ClassVar[str] = "engine.implementations.outside.watched_files:WatchedFiles"
    promise: ClassVar[str] = (
        "The events of each file reach the spool exactly once, as long as the file stays until it was read."
    )

    @property
    def messages(self) -> MessageFormat:
        """The format of files whose fields are read by the source's schema, if there may be any."""
        if self.format is None:
            return CsvMessages()
        return JSON if isinstance(self.format, ParquetFiles) else self.format


_FIELD_LENGTH = 200
_NodeId = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^(ns=[0-9]{1,5};)?[isgb]=.+$")]
_Security: TypeAlias = Literal[
    "Basic256Sha256,Sign",
    "Basic256Sha256,SignAndEncrypt",
    "Aes128Sha256RsaOaep,Sign",
    "Aes128Sha256RsaOaep,SignAndEncrypt",
    "Aes256Sha256RsaPss,Sign",
    "Aes256Sha256RsaPss,SignAndEncrypt",
]


class OpcuaConnector(Connector):
    """The values of nodes of an OPC UA server, as they change."""

    kind: Literal["opcua"]
    url: Annotated[
        str,
        StringConstraints(
            max_length=500, pattern=r"^opc\.tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[^\s@]*)?$"
        ),
    ]
    """The server, as `opc.tcp://plc:4840`, without user and password."""
    nodes: Annotated[
        dict[Annotated[str, StringConstraints(min_length=1, max_length=_FIELD_LENGTH)], _NodeId],
        Field(min_length=1, max_length=1_000),
    ]
    """For each field the node whose value it has, as `ns=2;s=Line1.Temperature`."""
    interval: Annotated[float, Field(ge=10, le=3_600_000)] = 1_000.0
    """Milliseconds between two times at which the server says what has changed."""
    sampling: Annotated[float, Field(ge=0, le=3_600_000)] | None = None
    """Milliseconds between two times at which the server looks at a node. By default that is `interval`."""
    events: Literal["state", "changes"] = "state"
    """What an event has: the last value of every node, or only those that have changed."""
    secret: Secret | None = None
    """A secret with user and password, as `user:password` or in a JSON object, which may have certificates."""
    security: _Security | None = None
    """The policy and mode of the connection. It needs a certificate and its key in the secret."""

    client: ClassVar[str] = "bridge.connectors.opcua_client:OpcuaClient"
    promise: ClassVar[str] = (
        "A value reaches the spool at most once. What changes while the server is not connected is lost, except for "
        "the last value of each node."
    )

    @property
    def made_fields(self) -> Mapping[str, Kind]:
        """The time of the newest change in an event, and which values are not good."""
        return {"at": Kind.TIMESTAMP, "status": Kind.STRING}

    def why_unusable(self) -> str:
        """Why it cannot be used: two fields have the same name, or a certificate is missing."""
        if taken := sorted(self.nodes.keys() & self.made_fields):
            return f"the field {taken[0]!r} of each event says something else; give its node another field"
        if self.security is not None and self.secret is None:
            return "security needs a certificate and its key; name a secret that has them"
        return ""
