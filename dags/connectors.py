"""Connectors: what sources take from outside Braid, such as another broker, as forms and plans have it.

A connector is a record that says what to reach, and in which format. `bridge.connectors` has the clients, which hosts
import when they need them. Packages add kinds of their own through the entry point group `braid.connectors`.
"""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import ConfigDict

from dags.config import Config
from dags.message_formats import JSON, MessageFormat
from dags.schema import Kind


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

    def why_unusable(self) -> str:
        """Why nothing can be taken by it, as far as it can be said without connecting; empty if it can."""
        return ""


class MessageConnector(Connector):
    """The base of connectors that take messages, which hold events in some format."""

    format: MessageFormat = JSON
    """The format of the messages."""
