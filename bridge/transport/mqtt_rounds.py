"""The client of the MQTT library, changed to read and acknowledge many messages at once.

The library's own client wakes up for each message, asks the system for each byte of a header, makes an object for
properties that are not set, and sends each acknowledgement alone. At a hundred messages a second that costs more than
handling them. This client reads in rounds: it fetches all that has come at once, parses usual messages itself, and
waits before each round for as long as its messages are grouped. Sending does not wait.

It overrides private methods of the library, so `pyproject.toml` bounds the library's version. Unusual packets are left
to the library.
"""

import select
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion

from bridge.transport.fetch_interval import Fetch, Grouping

_FETCHED = 1 << 16
"""Bytes that are fetched at once."""
_MOST_READ = 1_000
"""Packets of one round after which outgoing packets are sent."""
_RETAINED_OR_DOUBLED = 0b1001
_ONCE_AT_LEAST = paho.PUBLISH | 0b0010
_LONGEST_LENGTH = 4
"""Bytes of a packet's length, at most."""
_ACKNOWLEDGEMENT = struct.Struct("!BBH")


class Publication(NamedTuple):
    """A message from the broker, with the id to acknowledge; 0 if it needs no acknowledgement."""

    topic: str
    mid: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The settings of a client that reads in rounds; made by `bridge.transport.mqtt_client.MqttClient`."""

    grouping: Grouping
    """Computes how long a round waits once a message has come."""
    on_publication: Callable[[Publication], None]
    """Called with each message, in the client's thread."""
    on_end: Callable[[], None]
    """Called at the end of each round, in the client's thread."""


class RoundsClient(paho.Client):
    """A client of the library that reads in rounds."""

    def __init__(self, *arguments: Any, rounds: Rounds, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._rounds = rounds
        self._begun = 0.0
        """The time when the last round began."""
        self._took = 0.0
        """The duration of the last round in seconds."""
        self._messages = 0
        """The number of messages in it."""
        self._acknowledged = 0.0
        """Seconds from the beginning of a round to the last acknowledgement."""
        self._hurried = False
        """True if rounds wait no more."""
        self._fetched = b""
        self._at = 0
        self._drained = False
        """True if the system has no more to fetch."""
        self.on_message = self._on_unusual

    def reconnect(self) -> MQTTErrorCode:
        """Reconnect, and forget the bytes of the connection before."""
        self._fetched, self._at = b"", 0
        self._hurried = False
        return super().reconnect()

    def loop_read(self, max_packets: int = 1) -> MQTTErrorCode:
        """Read all that has come; called by the library's thread."""
        before = Fetch(took=self._took, messages=self._messages, acknowledged=self._acknowledged)
        self._wait(self._rounds.grouping(before))
        self._begun, self._messages, self._drained = time.monotonic(), 0, False
        read, result = 0, MQTTErrorCode.MQTT_ERR_SUCCESS
        # To the end: the system does not report bytes that were already fetched, so no later call would read them.
        while not self._drained and result is MQTTErrorCode.MQTT_ERR_SUCCESS:
            if usual := self._read_usual(_MOST_READ - read):
                read += usual
            elif not self._drained:
                # An unusual or partial packet, or the end of the connection.
                result, read = super().loop_read(max_packets), read + 1
            if read >= _MOST_READ:
                self._rounds.on_end()
                self.loop_write()
                read = 0
        self._rounds.on_end()
        self._took = time.monotonic() - self._begun
        return result

    def hurry(self) -> None:
        """Let no round wait any more, because the broker's answers are awaited. Any thread may call it."""
        self._hurried = True

    def acknowledge(self, mids: Iterable[int]) -> None:
        """Acknowledge messages in this order, in one piece. Any thread may call it."""
        self._acknowledged = time.monotonic() - self._begun
        packets = b"".join(_ACKNOWLEDGEMENT.pack(paho.PUBACK, 2, mid) for mid in mids if mid)
        if packets:
            self._packet_queue(paho.PUBACK, packets, 0, 1)

    def _wait(self, seconds: float) -> None:
        """Wait before a round, and send outgoing packets meanwhile."""
        until = time.monotonic() + seconds
        while not self._hurried and self._sock is not None and (left := until - time.monotonic()) > 0:
            if self._sockpairR is None:
                time.sleep(left)
            elif select.select([self._sockpairR], [], [], left)[0]:
                self._sockpairR.recv(_FETCHED)
                self.loop_write()

    def _read_usual(self, most: int) -> int:
        """Hand on the next messages while they are usual and complete, up to `most`; returns their number."""
        # The library reads the rest of a packet that it has begun.
        if self._sock is None or self._in_packet["command"]:
            return 0
        try:
            self._fetch()
        except OSError:
            # Unless simply nothing came, the library meets the error again, and handles it.
            return 0
        read = 0
        for publication, end in islice(usual_publications(self._fetched, self._at, self.protocol), most):
            self._hand_on(publication)
            self._at, read = end, read + 1
        return read

    def _fetch(self) -> None:
        if self._at == len(self._fetched):
            try:
                self._fetched, self._at = super()._sock_recv(_FETCHED), 0
            except BlockingIOError:
                self._drained = True
                raise

    def _sock_recv(self, bufsize: int) -> bytes:
        self._fetch()
        begun = self._at
        self._at = min(begun + bufsize, len(self._fetched))
        return self._fetched[begun : self._at]

    def _handle_publish(self) -> MQTTErrorCode:
        usual = usual_publication(self._in_packet["command"], self._in_packet["packet"], self.protocol)
        if usual is None:
            return super()._handle_publish()
        self._hand_on(usual)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _on_unusual(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            # Such a topic is no text, so nothing can be subscribed to by its name.
            topic = "\ufffd"
        self._hand_on(Publication(topic, message.mid, bytes(message.payload)))

    def _hand_on(self, publication: Publication) -> None:
        self._messages += 1
        self._rounds.on_publication(publication)


def usual_publications(packets: bytes, begin: int, protocol: MQTTProtocolVersion) -> Iterator[tuple[Publication, int]]:
    r"""The messages from a place on, each with the place where it ends, up to an unusual or incomplete packet.

    >>> whole = b"\x32\x08\x00\x01a\x00\x07\x00hi"
    >>> [end for _, end in usual_publications(whole + whole + whole[:5], 0, MQTTProtocolVersion.MQTTv5)]
    [10, 20]
    """
    while (body := _body(packets, begin + 1)) is not None and body.stop <= len(packets):
        publication = usual_publication(packets[begin], packets[body.start : body.stop], protocol)
        if publication is None:
            return
        begin = body.stop
        yield publication, begin


def _body(packets: bytes, at: int) -> range | None:
    """The range of a packet's body, by the length at a place; None if the length is incomplete."""
    length = 0
    for place, byte in enumerate(packets[at : at + _LONGEST_LENGTH]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more of the length follows
            return range(at + place + 1, at + place + 1 + length)
    return None


def usual_publication(header: int, packet: bytes | bytearray, protocol: MQTTProtocolVersion) -> Publication | None:
    r"""The message in a packet of the usual kind: acknowledged once, and without properties; else None.

    >>> usual_publication(0x32, b"\x00\x01a\x00\x07\x00hi", MQTTProtocolVersion.MQTTv5)
    Publication(topic='a', mid=7, payload=b'hi')
    """
    if header & ~_RETAINED_OR_DOUBLED != _ONCE_AT_LEAST or len(packet) < 2:  # noqa: PLR2004 - where the length lies
        return None
    end = 2 + int.from_bytes(packet[:2])
    begin = end + 2
    if protocol is MQTTProtocolVersion.MQTTv5:
        if packet[begin : begin + 1] != b"\x00":
            return None
        begin += 1
    if end == 2 or len(packet) < begin:  # noqa: PLR2004 - as above
        return None
    try:
        topic = packet[2:end].decode()
    except UnicodeDecodeError:
        return None
    return Publication(topic, int.from_bytes(packet[end : end + 2]), bytes(packet[begin:]))
