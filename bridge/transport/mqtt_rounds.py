"""The library's client for MQTT, made to read and to acknowledge many messages at once.

Left as it is it wakes up for each message, asks the system for each byte of a header, makes an object of properties
that nobody set, and sends each acknowledgement by itself. At a hundred messages a second that costs more than whatever
is done with them. Here it reads in rounds: all that has come is fetched together, usual messages are taken from there
as they are, and each round waits for as long as its messages are grouped. What is to be sent does not wait.

It overrides private methods of the library. Whatever is unusual is left to the library's own.
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
"""How many bytes are fetched at once."""
_MOST_READ = 1_000
"""After so many packets in one round what is to be sent has its turn too."""
_RETAINED_OR_DOUBLED = 0b1001
_ONCE_AT_LEAST = paho.PUBLISH | 0b0010
_LONGEST_LENGTH = 4
"""Bytes that tell how long a packet is, at most."""
_ACKNOWLEDGEMENT = struct.Struct("!BBH")


class Publication(NamedTuple):
    """A message as it comes from the broker, to be acknowledged by its id; 0 where it need not be."""

    topic: str
    mid: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How a client reads; made by `bridge.transport.mqtt_client.MqttClient`."""

    grouping: Grouping
    """How long each waits, once something has come."""
    on_publication: Callable[[Publication], None]
    """Told each message, in the client's thread."""
    on_end: Callable[[], None]
    """Told the end of each round, in the client's thread."""


class RoundsClient(paho.Client):
    """A client of the library that reads in rounds."""

    def __init__(self, *arguments: Any, rounds: Rounds, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._rounds = rounds
        self._begun = 0.0
        """When the last round began."""
        self._took = 0.0
        """Seconds that it took."""
        self._messages = 0
        """How many messages were told in it."""
        self._acknowledged = 0.0
        """Seconds after the beginning of a round that messages were acknowledged last."""
        self._hurried = False
        """Whether rounds wait no more."""
        self._fetched = b""
        self._at = 0
        self._drained = False
        """Whether the system has no more to fetch."""
        self.on_message = self._on_unusual

    def reconnect(self) -> MQTTErrorCode:
        """As the library does; what was fetched of the connection before is forgotten."""
        self._fetched, self._at = b"", 0
        self._hurried = False
        return super().reconnect()

    def loop_read(self, max_packets: int = 1) -> MQTTErrorCode:
        """Read all that has come; the library's thread calls it when something has."""
        before = Fetch(took=self._took, messages=self._messages, acknowledged=self._acknowledged)
        self._wait(self._rounds.grouping(before))
        self._begun, self._messages, self._drained = time.monotonic(), 0, False
        read, told = 0, MQTTErrorCode.MQTT_ERR_SUCCESS
        # To its end: the system does not tell of what was fetched already, so nobody would come back for it.
        while not self._drained and told is MQTTErrorCode.MQTT_ERR_SUCCESS:
            if usual := self._read_usual(_MOST_READ - read):
                read += usual
            elif not self._drained:
                # What is unusual, or comes in parts, or tells that the connection ended.
                told, read = super().loop_read(max_packets), read + 1
            if read >= _MOST_READ:
                self._rounds.on_end()
                self.loop_write()
                read = 0
        self._rounds.on_end()
        self._took = time.monotonic() - self._begun
        return told

    def hurry(self) -> None:
        """Let no round wait any more, because the broker's answers are awaited; from any thread."""
        self._hurried = True

    def acknowledge(self, mids: Iterable[int]) -> None:
        """Acknowledge messages, in this order, in one piece; from any thread."""
        self._acknowledged = time.monotonic() - self._begun
        packets = b"".join(_ACKNOWLEDGEMENT.pack(paho.PUBACK, 2, mid) for mid in mids if mid)
        if packets:
            self._packet_queue(paho.PUBACK, packets, 0, 1)

    def _wait(self, seconds: float) -> None:
        """Wait before a round, and send meanwhile what is to be sent."""
        until = time.monotonic() + seconds
        while not self._hurried and self._sock is not None and (left := until - time.monotonic()) > 0:
            if self._sockpairR is None:
                time.sleep(left)
            elif select.select([self._sockpairR], [], [], left)[0]:
                self._sockpairR.recv(_FETCHED)
                self.loop_write()

    def _read_usual(self, most: int) -> int:
        """Hand on what comes next, as far as it is usual and whole, and at most so much; how much that was."""
        # Where there is half a packet the library goes on with it.
        if self._sock is None or self._in_packet["command"]:
            return 0
        try:
            self._fetch()
        except OSError:
            # If it is more than that nothing came, the library meets it again, and knows what to do.
            return 0
        read = 0
        for told, end in islice(usual_publications(self._fetched, self._at, self.protocol), most):
            self._tell(told)
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
        self._tell(usual)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _on_unusual(self, _client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            # No text, so nobody can have asked for it by its name.
            topic = "\ufffd"
        self._tell(Publication(topic, message.mid, bytes(message.payload)))

    def _tell(self, publication: Publication) -> None:
        self._messages += 1
        self._rounds.on_publication(publication)


def usual_publications(packets: bytes, begin: int, protocol: MQTTProtocolVersion) -> Iterator[tuple[Publication, int]]:
    r"""The messages from a place on, each with where it ends, up to a packet that is unusual or not whole.

    >>> whole = b"\x32\x08\x00\x01a\x00\x07\x00hi"
    >>> [end for _, end in usual_publications(whole + whole + whole[:5], 0, MQTTProtocolVersion.MQTTv5)]
    [10, 20]
    """
    while (body := _body(packets, begin + 1)) is not None and body.stop <= len(packets):
        told = usual_publication(packets[begin], packets[body.start : body.stop], protocol)
        if told is None:
            return
        begin = body.stop
        yield told, begin


def _body(packets: bytes, at: int) -> range | None:
    """What follows the header of a packet whose length stands at a place; None where it does not stand there whole."""
    length = 0
    for place, byte in enumerate(packets[at : at + _LONGEST_LENGTH]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more of the length follows
            return range(at + place + 1, at + place + 1 + length)
    return None


def usual_publication(header: int, packet: bytes | bytearray, protocol: MQTTProtocolVersion) -> Publication | None:
    r"""The message in a packet where it is as nearly all are: to be acknowledged once, and without properties.

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
