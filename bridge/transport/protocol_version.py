"""The version of MQTT that a broker supports."""

import contextlib
import time
import uuid
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion

from bridge.transport.address import Address
from bridge.transport.broker_login import set_credentials


def detect_protocol(address: Address, timeout: float = 5.0) -> MQTTProtocolVersion:
    """The newer of MQTT 5 and 3.1.1 that a broker supports; 5 if neither gets an answer, for whatever reason."""
    versions = (MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311)
    return next((each for each in versions if _is_supported(address, each, timeout)), versions[0])


def _is_supported(address: Address, protocol: MQTTProtocolVersion, timeout: float) -> bool:
    answers: list[Any] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"braid-asks-{uuid.uuid4().hex[:8]}", protocol=protocol)
    set_credentials(client, address)
    client.on_connect = lambda _client, _data, _flags, reason, _properties: answers.append(reason)
    client.connect_timeout = timeout
    deadline = time.monotonic() + timeout
    try:
        client.connect(address.host, address.port)
        # A broker that does not know a version may say so, disconnect, or not answer at all.
        while (
            not answers and time.monotonic() < deadline and client.loop(timeout=0.1) == MQTTErrorCode.MQTT_ERR_SUCCESS
        ):
            pass
    except OSError:
        return False
    finally:
        with contextlib.suppress(OSError):
            client.disconnect()
    return bool(answers) and not answers[0].is_failure
