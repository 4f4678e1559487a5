"""The order in which a broker gives packet ids, as far as it is known from what the broker says it is.

Mosquitto and the embedded broker give each message of a session the id after the last one, and give none again before
all others. They deliver unacknowledged messages again in the same order and with the same ids, mosquitto even after it
was stopped and started. A broker that says nothing, or is another one, may do otherwise; some give the lowest free id.
"""

import contextlib
import time
import uuid
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from bridge.embedded import VERSION
from bridge.transport.address import Address
from bridge.transport.broker_login import set_credentials

_TOPIC = "$SYS/broker/version"
_IN_TURN = ("mosquitto version ", VERSION)
_PATIENCE = 1.0
"""Seconds from the confirmed subscription to the retained version; brokers send both at once."""


def gives_ids_in_turn(address: Address, timeout: float = 5.0) -> bool | None:
    """Whether a broker is known to give packet ids in turn; None if it does not answer."""
    versions: list[str] = []
    deadlines = [time.monotonic() + timeout]
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"braid-asks-{uuid.uuid4().hex[:8]}")
    set_credentials(client, address)

    def connected(client: paho.Client, _data: Any, _flags: Any, _reason: Any, _properties: Any) -> None:
        client.subscribe(_TOPIC)

    def subscribed(_client: paho.Client, _data: Any, _mid: int, _reasons: list[Any], _properties: Any) -> None:
        deadlines.append(time.monotonic() + _PATIENCE)

    client.on_connect, client.on_subscribe = connected, subscribed
    client.on_message = lambda _client, _data, message: versions.append(message.payload.decode(errors="replace"))
    client.connect_timeout = timeout
    try:
        client.connect(address.host, address.port)
        while (
            not versions
            and time.monotonic() < deadlines[-1]
            and client.loop(timeout=0.1) == MQTTErrorCode.MQTT_ERR_SUCCESS
        ):
            pass
    except OSError:
        return None
    finally:
        with contextlib.suppress(OSError):
            client.disconnect()
    if versions:
        return versions[0].startswith(_IN_TURN)
    return False if len(deadlines) > 1 else None
