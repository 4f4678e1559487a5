"""The bridge to peers without a source for MQTT: a process that hands on each topic's events as lines over a socket.

    python -m benchmarks.peers.lines_bridge URL TOPIC...

Prints a port for each topic, then a line for each connection. Whoever is connected to a port gets all events of its
topic from then on. Its CPU counts as the peer's, so it is Braid's client that receives, in bulk.
"""

import json
import socket
import sys
import threading
from collections.abc import Sequence

from bridge import Message
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient


def main(url: str, *topics: str) -> None:
    """Hand on until the input ends."""
    lines = [_TopicLines(Address.parse(url), topic) for topic in topics]
    print(json.dumps([topic_lines.port for topic_lines in lines]), flush=True)
    for topic_lines in lines:
        topic_lines.begin()
    sys.stdin.read()
    for topic_lines in lines:
        topic_lines.stop()


class _TopicLines:
    def __init__(self, address: Address, topic: str) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=2_000)
        self.port: int = self._server.getsockname()[1]
        self._readers: list[socket.socket] = []
        self._client = MqttClient(address, f"lines of {topic}", topics=[topic], on_messages=self._take, lasting=False)

    def begin(self) -> None:
        """Accept connections and events."""
        threading.Thread(target=self._accept, daemon=True).start()
        self._client.start()

    def stop(self) -> None:
        """Hand on nothing more."""
        self._client.stop()

    def _accept(self) -> None:
        while True:
            reader, _ = self._server.accept()
            reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Replaced, since the client's thread may be in the midst of it.
            self._readers = [*self._readers, reader]
            print("connected", flush=True)

    def _take(self, messages: Sequence[Message]) -> None:
        lines = b"".join(message.payload + b"\n" for message in messages)
        for reader in self._readers:
            # A reader that is behind holds up its topic, whose events wait at the broker.
            reader.sendall(lines)
        self._client.acknowledge([message.token for message in messages])


if __name__ == "__main__":
    main(*sys.argv[1:])
