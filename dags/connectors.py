"""Connectors: what sources take from outside Braid, such as another broker, as forms and plans have it.

A connector is a record that says what to reach, and in which format. `bridge.connectors` has the clients, which hosts
import when they need them. Packages add kinds of their own through the entry point group `braid.connectors`.
"""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

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


_BROKER = re.compile(r"mqtts?://(\[[0-9A-Fa-f:.]+\]|[^\s/@?#:\[\]]+)(?::(?P<port>[0-9]{1,5}))?/?")
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
