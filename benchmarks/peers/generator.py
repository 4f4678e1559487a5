"""The generator: publishes events over MQTT at an even rate, in a process of its own.

    python -m benchmarks.peers.generator URL LOG

Reads lines with a rate and seconds from its input, sends for so long, and prints how many events it has sent in all.
LOG gets the moment of each. Packets are made by hand, since a client that is asked for each message would take half a
core for what takes a fiftieth here; they ask for acknowledgements (QoS 1), which are read and dropped.
"""

import socket
import sys
import threading
import time
from array import array
from pathlib import Path
from typing import BinaryIO

from benchmarks.peers.dataflows import input_topic
from benchmarks.peers.due import event_payload, topic_of
from bridge.transport.address import Address

_TICK = 0.005
"""Seconds between two sendings, at most that often."""
_PACKET_IDS = 65_535
_CONNACK = 4


def main(url: str, log: Path) -> None:
    """Send what is asked for until the input ends."""
    with connected(Address.parse(url)) as connection, log.open("wb") as moments:
        threading.Thread(target=_drop_answers, args=(connection,), daemon=True).start()
        sent = 0
        for line in sys.stdin:
            rate, seconds = map(float, line.split())
            sent = _send(connection, moments, sent, rate=rate, seconds=seconds)
            moments.flush()
            print(sent, flush=True)
        connection.sendall(b"\xe0\x00")


def connected(address: Address) -> socket.socket:
    """A connection that was accepted."""
    words = [word.encode() for word in ("generator", address.user or "", address.password or "")]
    body = b"\x00\x04MQTT\x04\xc2\x00\x00" + b"".join(len(word).to_bytes(2) + word for word in words)
    connection = socket.create_connection((address.host, address.port), timeout=30.0)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(b"\x10" + _length(len(body)) + body)
    if (answer := connection.recv(_CONNACK, socket.MSG_WAITALL)) != b"\x20\x02\x00\x00":
        raise ConnectionError(f"the broker at {address} refused the generator: {answer!r}")
    connection.settimeout(None)
    return connection


def published(topic: str, packet_id: int, payload: bytes) -> bytes:
    """A message as a packet, to be acknowledged."""
    body = len(topic).to_bytes(2) + topic.encode() + packet_id.to_bytes(2) + payload
    return b"\x32" + _length(len(body)) + body


def _length(length: int) -> bytes:
    """A length as packets have it: seven bits a byte, the lowest first."""
    more, rest = divmod(length, 0x80)
    return bytes([rest | 0x80]) + _length(more) if more else bytes([rest])


def _send(connection: socket.socket, moments: BinaryIO, sent: int, *, rate: float, seconds: float) -> int:
    """Send for some seconds; returns the number of all events so far."""
    begun, first, end = time.monotonic(), sent, sent + round(rate * seconds)
    while sent < end:
        due = min(end, first + int((time.monotonic() - begun) * rate) + 1)
        if sent < due:
            now = time.time()
            packets = [
                published(input_topic(topic_of(number)), number % _PACKET_IDS + 1, event_payload(number, now))
                for number in range(sent, due)
            ]
            connection.sendall(b"".join(packets))
            array("d", [now] * len(packets)).tofile(moments)
            sent = due
        time.sleep(max(_TICK, begun + (sent - first) / rate - time.monotonic()))
    return sent


def _drop_answers(connection: socket.socket) -> None:
    while connection.recv(1 << 16):
        pass


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
