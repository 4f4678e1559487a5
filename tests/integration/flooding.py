"""Floods: more messages than any dataflow asked for, sent by a client outside."""

import json
import socket
import threading
import time

from bridge import Message
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from tests.integration.hosting import BOUND

FLOOD = 20_000
"""Messages a second."""
SECONDS = 10


def flood(address: Address, topic: str, payload: bytes, last: bytes) -> None:
    """Send messages without acknowledgement as fast as a flood comes, and a last one; packed by hand, to be so fast."""
    words = [each.encode() for each in ("flood", address.user or "", address.password or "")]
    connect = b"\x00\x04MQTT\x04\xc2\x00\x00" + b"".join(len(each).to_bytes(2) + each for each in words)
    assert max(len(connect), len(topic) + len(payload) + 2) < 128
    one, end = (
        b"\x30" + (len(topic) + len(each) + 2).to_bytes(1) + len(topic).to_bytes(2) + topic.encode() + each
        for each in (payload, last)
    )
    with socket.create_connection((address.host, address.port), timeout=BOUND) as connection:
        connection.sendall(b"\x10" + len(connect).to_bytes(1) + connect)
        assert b"\x20\x02\x00\x00" == connection.recv(4, socket.MSG_WAITALL)
        many = one * (FLOOD // 20)
        begun = time.monotonic()
        for part in range(SECONDS * 20):
            time.sleep(max(0.0, begun + part / 20 - time.monotonic()))
            connection.sendall(many)
        connection.sendall(end + b"\xe0\x00")


class Echo:
    """A client that sends each message of events of an output back to its source, twice, until it is stopped."""

    def __init__(self, address: Address, output: str, topic: str) -> None:
        self.sent = 0
        """Events."""
        self._topic = topic
        self._ended = threading.Event()
        self._client = MqttClient(address, "echo", topics=[output], on_message=self._take, lasting=False)
        self._client.start()

    def begin(self, event: object) -> None:
        """Send the first event."""
        self._client.publish(self._topic, json.dumps(event).encode())

    def stop(self) -> None:
        """Send nothing more back."""
        self._ended.set()
        self._client.stop()

    def _take(self, message: Message) -> None:
        self._client.acknowledge([message.token])
        events = json.loads(message.payload)["events"] * 2
        if not self._ended.is_set():
            self.sent += len(events)
            self._client.publish(self._topic, json.dumps(events).encode())
