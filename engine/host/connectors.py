"""The connectors of a host: the client of each, with what it needs of the outside world."""

import importlib
import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from bridge.connectors.connector_run import ClientAssignment, ConnectorClient, ConnectorTrouble
from bridge.connectors.shared_feed import FeedReader, ReadableFeed
from bridge.formats.decoders import decoder
from bridge.spools.deliveries import InDoubt
from dags import Kind, Schema
from dags.connectors import Connector, MqttConnector
from dags.message_formats import UnusableFormat
from engine.behaviour import NoBehaviour
from engine.catalogue import installed_connectors
from engine.outside import HostOutside
from engine.plan import ConnectorSupply


def connect(  # noqa: PLR0913, PLR0917 - a stream, its supply, kinds and feed, what is outside, and three of its spool
    stream: str,
    supply: ConnectorSupply,
    kinds: Mapping[str, Kind],
    outside: HostOutside,
    positions: Mapping[str, int],
    in_doubt: InDoubt,
    *,
    folder: Path = Path(),
    feed: ReadableFeed | None = None,
) -> ConnectorClient:
    """Connect to what a connector takes from, or read the feed that several sources share.

    Secrets are read each time, because they may have changed.
    """
    connector = _connector(supply.connector, outside)
    own = Schema.of({name: kind for name, kind in supply.fields.items() if name not in connector.made_fields})
    try:
        decode = decoder(supply.format, own, kinds)
    except UnusableFormat as error:
        raise ConnectorTrouble(str(error)) from None
    assignment = ClientAssignment(
        stream=stream,
        schema=supply.schema,
        decode=decode,
        positions=positions,
        in_doubt=in_doubt,
        outside=outside,
        format=supply.format,
        kinds=kinds,
        folder=folder,
    )
    if feed is not None and isinstance(connector, MqttConnector):
        return FeedReader(connector, assignment, feed)
    module, _, name = connector.client.partition(":")
    try:
        client = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise ConnectorTrouble(
            f"the client of connectors of kind {connector.kind!r} cannot be imported on this host: {error}; install "
            "the package, or the extra of braid, that it needs"
        ) from error
    made: ConnectorClient = client(connector, assignment)
    return made


def _connector(text: str, outside: HostOutside) -> Connector:
    """A connector in a supply, with its secrets and places resolved."""
    kind = json.loads(text)["kind"]
    if (record := installed_connectors().get(kind)) is None:
        raise ConnectorTrouble(f"no package provides connectors of kind {kind!r}; install the one that does")
    try:
        return record.model_validate_json(text, context={"outside": outside})
    except NoBehaviour as error:
        raise ConnectorTrouble(str(error)) from None
    except ValidationError as error:
        # Without what was given, which may be a secret.
        reason = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise ConnectorTrouble(f"this host cannot read the connection: {reason}; update it") from None
