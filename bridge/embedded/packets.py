"""The packets of MQTT 3.1.1 and 5: records and codes, read from the bytes of clients, and written to them.

A packet that breaks the rules of MQTT raises `Malformed`.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from .access import why_no_filter, why_no_topic

MOST_PACKET_BYTES = 268_435_455
"""The length limit of MQTT."""
V31, V311, V5 = 3, 4, 5
INTRODUCTION_SECONDS = 10.0
"""Seconds for a client to send its CONNECT packet."""
LINGERING_SECONDS = 5.0
"""Seconds for a disconnected client to read what it was sent."""
VERSION = "braid embedded"
"""The broker's name, as it publishes it; versions of its own it has none."""


class Packet(IntEnum):
    """The kinds of packets that clients send. The number is the upper half of a packet's first byte."""

    CONNECT = 1
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    UNSUBSCRIBE = 10
    PINGREQ = 12
    DISCONNECT = 14


class Code(IntEnum):
    """The reason codes of MQTT 5 that this broker uses."""

    SUCCESS = 0x00
    DISCONNECT_WITH_WILL = 0x04
    NO_SUBSCRIPTION = 0x11
    FAILURE = 0x80
    MALFORMED = 0x81
    PROTOCOL = 0x82
    UNSUPPORTED_VERSION = 0x84
    BAD_CLIENT_ID = 0x85
    NOT_AUTHORIZED = 0x87
    SHUTTING_DOWN = 0x8B
    BAD_METHOD = 0x8C
    TAKEN_OVER = 0x8E
    BAD_FILTER = 0x8F
    BAD_TOPIC = 0x90
    NO_PACKET_ID = 0x92
    BAD_ALIAS = 0x94
    TOO_LARGE = 0x95
    NOT_SHARED = 0x9E
    NO_IDENTIFIERS = 0xA1


class Malformed(ValueError):
    """A packet that breaks the rules of MQTT."""

    def __init__(self, why: str, reason: Code = Code.MALFORMED) -> None:
        super().__init__(why)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A message that a client publishes, or its will."""

    topic: str
    payload: bytes
    qos: int
    retain: bool = False
    properties: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """A client's request to connect."""

    version: int
    client: str
    clean: bool
    keep_alive: int
    user: str | None
    password: bytes | None
    will: Published | None
    will_delay: int = 0
    expiry: int | None = None
    """Seconds for which the session outlives the connection; None is no limit."""
    receive_maximum: int = 65_535
    packet_maximum: int = MOST_PACKET_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One filter of a subscription."""

    topic_filter: str
    qos: int
    no_local: bool = False
    as_published: bool = False
    """True if messages keep their retain flag; else only messages from the retained ones have it."""
    handling: int = 0
    """The handling of retained messages: 0 sends them always, 1 for a new subscription only, 2 never."""
    refused: Code | None = None


_NAMES = {(b"MQIsdp", V31), (b"MQTT", V311), (b"MQTT", V5)}
_MOST_QOS = 2
_LONGEST_PROPERTIES = 1 << 16
"""Bytes; paho's time to read them grows with the square."""


class Fields:
    """Reads a packet's fields, one after another."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def more(self) -> bool:
        """True if bytes are left."""
        return self._at < len(self._body)

    def rest(self) -> bytes:
        """The bytes that are left."""
        return self.take(len(self._body) - self._at)

    def take(self, many: int) -> bytes:
        """The next bytes."""
        end = self._at + many
        if end > len(self._body):
            raise Malformed("a packet ends within a field")
        taken = self._body[self._at : end]
        self._at = end
        return taken

    def byte(self) -> int:
        """A number of one byte."""
        return self.take(1)[0]

    def short(self) -> int:
        """A number of two bytes."""
        return int.from_bytes(self.take(2), "big")

    def binary(self) -> bytes:
        """Bytes with their length in front."""
        return self.take(self.short())

    def text(self) -> str:
        """Text with its length in front."""
        try:
            read = self.binary().decode()
        except UnicodeDecodeError as error:
            raise Malformed("a text is not UTF-8") from error
        if "\0" in read:
            raise Malformed("a text holds a zero")
        return read

    def packet_id(self) -> int:
        """The id that the acknowledgement has to name."""
        if not (packet := self.short()):
            raise Malformed("0 is no packet id")
        return packet

    def properties(self, kind: int, version: int) -> Any:
        """The properties of an MQTT 5 packet; None if there are none."""
        if version < V5 or not self.more():
            return None
        if self._body[self._at] == 0:
            self._at += 1
            return None
        # Their length is written as that of a packet, which stands behind its first byte.
        places = header(self._body, self._at - 1)
        if places is None:
            raise Malformed("a packet ends within a field")
        length = places[1] - self._at
        if length > _LONGEST_PROPERTIES:
            raise Malformed("the properties are too long", Code.TOO_LARGE)
        written = self.take(length)
        try:
            properties, _ = Properties(kind).unpack(written)  # type: ignore[no-untyped-call]  # paho ships it without types
        except Exception as error:  # paho raises several types, and none says more
            raise Malformed("the properties cannot be read") from error
        return properties


def header(buffer: bytes | bytearray, start: int) -> tuple[int, int] | None:
    """The begin and end of the body of the packet at a place; None while its header is incomplete.

    >>> header(bytes([0x30, 0x80, 0x01]), 0), header(bytes([0x30, 0x80]), 0)
    ((3, 131), None)
    """
    length = 0
    for number in range(4):
        at = start + 1 + number
        if at >= len(buffer):
            return None
        length |= (buffer[at] & 0x7F) << (7 * number)
        if not buffer[at] & 0x80:
            return at + 1, at + 1 + length
    raise Malformed("the length of a packet takes more than four bytes")


def read_connect(body: bytes) -> Connect:
    """Read a client's request to connect."""
    fields = Fields(body)
    name, version = fields.binary(), fields.byte()
    if (name, version) not in _NAMES:
        raise Malformed("this broker speaks MQTT 5 and 3.1.1", Code.UNSUPPORTED_VERSION)
    flags, keep_alive = fields.byte(), fields.short()
    if flags & 1 or (not flags & 4 and flags & 0x38) or (flags >> 3) & 3 > _MOST_QOS:
        raise Malformed("the flags contradict each other")
    more = fields.properties(PacketTypes.CONNECT, version)
    if hasattr(more, "AuthenticationMethod"):
        raise Malformed("this broker authenticates users by their passwords only", Code.BAD_METHOD)
    client = fields.text()
    will, delay = None, 0
    if flags & 4:
        properties = fields.properties(PacketTypes.WILLMESSAGE, version)
        delay = getattr(properties, "WillDelayInterval", 0)
        if properties is not None and delay:
            del properties.WillDelayInterval
        topic, payload = fields.text(), fields.binary()
        if why := why_no_topic(topic):
            raise Malformed(why, Code.BAD_TOPIC)
        will = Published(
            topic=topic, payload=payload, qos=(flags >> 3) & 3, retain=bool(flags & 0x20), properties=properties
        )
    clean = bool(flags & 2)
    expiry: int | None = getattr(more, "SessionExpiryInterval", 0) if version == V5 else (0 if clean else None)
    return Connect(
        version=version,
        client=client,
        clean=clean,
        keep_alive=keep_alive,
        user=fields.text() if flags & 0x80 else None,
        password=fields.binary() if flags & 0x40 else None,
        will=will,
        will_delay=delay,
        expiry=expiry_seconds(expiry),
        receive_maximum=getattr(more, "ReceiveMaximum", 65_535),
        packet_maximum=getattr(more, "MaximumPacketSize", MOST_PACKET_BYTES),
    )


def expiry_seconds(expiry: int | None) -> int | None:
    """The expiry of a session in seconds; None for the greatest number, which is no expiry in MQTT 5."""
    return None if expiry == 0xFFFF_FFFF else expiry  # noqa: PLR2004 - by the standard


def read_publish(flags: int, body: bytes, version: int) -> tuple[int, Published]:
    """Read a published message, and its packet id; 0 if it has none."""
    fields = Fields(body)
    qos = (flags >> 1) & 3
    topic = fields.text()
    if qos > _MOST_QOS:
        raise Malformed("there is no QoS 3")
    packet = fields.packet_id() if qos else 0
    properties = fields.properties(PacketTypes.PUBLISH, version)
    if hasattr(properties, "TopicAlias"):
        raise Malformed("this broker takes no topic aliases", Code.BAD_ALIAS)
    if hasattr(properties, "SubscriptionIdentifier"):
        raise Malformed("only a broker may set a subscription identifier", Code.PROTOCOL)
    if why := why_no_topic(topic):
        raise Malformed(why, Code.BAD_TOPIC)
    return packet, Published(topic=topic, payload=fields.rest(), qos=qos, retain=bool(flags & 1), properties=properties)


def read_subscribe(body: bytes, version: int) -> tuple[int, list[Subscription]]:
    """Read the filters that a client subscribes to, and the packet id."""
    fields = Fields(body)
    packet = fields.packet_id()
    identified = hasattr(fields.properties(PacketTypes.SUBSCRIBE, version), "SubscriptionIdentifier")
    wishes = []
    while fields.more():
        topic_filter, options = fields.text(), fields.byte()
        qos = options & 3
        if qos > _MOST_QOS or (version < V5 and options >> 2):
            raise Malformed("the options of a subscription contradict each other")
        refused = None
        if identified:
            refused = Code.NO_IDENTIFIERS
        elif topic_filter.startswith("$share/"):
            refused = Code.NOT_SHARED
        elif why_no_filter(topic_filter):
            refused = Code.BAD_FILTER
        wishes.append(
            Subscription(
                topic_filter=topic_filter,
                qos=min(qos, 1),
                no_local=bool(options & 4),
                as_published=bool(options & 8),
                handling=(options >> 4) & 3,
                refused=refused,
            )
        )
    if not wishes:
        raise Malformed("a subscription without a filter", Code.PROTOCOL)
    return packet, wishes


def read_unsubscribe(body: bytes, version: int) -> tuple[int, list[str]]:
    """Read the filters that a client unsubscribes from, and the packet id."""
    fields = Fields(body)
    packet = fields.packet_id()
    fields.properties(PacketTypes.UNSUBSCRIBE, version)
    filters = []
    while fields.more():
        filters.append(fields.text())
    if not filters:
        raise Malformed("an unsubscription without a filter", Code.PROTOCOL)
    return packet, filters


def read_disconnect(body: bytes, version: int) -> tuple[int, int | None]:
    """Read the reason why a client disconnects, and the new expiry of its session, if any."""
    if version < V5 or not body:
        return Code.SUCCESS, None
    fields = Fields(body)
    reason = fields.byte()
    return reason, getattr(fields.properties(PacketTypes.DISCONNECT, version), "SessionExpiryInterval", None)


_EMPTY = b"\0"
"""No properties."""
PINGRESP = b"\xd0\0"


def connack(version: int, reason: Code, *, resumed: bool = False, assigned: str | None = None) -> bytes:
    """Write that a client is accepted, with the client id if the broker assigned it; or why it is refused."""
    if version < V5:
        codes = {
            Code.SUCCESS: 0,
            Code.UNSUPPORTED_VERSION: 1,
            Code.BAD_CLIENT_ID: 2,
        }
        return framed(0x20, bytes([resumed, codes.get(reason, 5)]))
    properties = Properties(PacketTypes.CONNACK)  # type: ignore[no-untyped-call]  # paho ships it without types
    if reason is Code.SUCCESS:
        properties.SharedSubscriptionAvailable = 0
        properties.SubscriptionIdentifierAvailable = 0
    if assigned is not None:
        properties.AssignedClientIdentifier = assigned
    return framed(0x20, bytes([resumed, reason]), properties.pack())  # type: ignore[no-untyped-call]  # as above


def publish(  # noqa: PLR0913 - a packet has as many parts
    version: int, publication: Published, *, packet: int, qos: int, retain: bool, again: bool, age: float
) -> bytes:
    """Write a message; the packet id is ignored if the QoS is 0."""
    parts = [text(publication.topic)]
    if qos:
        parts.append(packet.to_bytes(2, "big"))
    if version == V5:
        parts.append(_aged(publication.properties, age))
    return framed(0x30 | again << 3 | qos << 1 | retain, *parts, publication.payload)


def acknowledgement(kind: Packet, version: int, packet: int, reason: Code = Code.SUCCESS) -> bytes:
    """Write that a packet was taken; MQTT 3.1.1 has no reason codes."""
    first = kind << 4 | (2 if kind is Packet.PUBREL else 0)
    if version < V5 or reason is Code.SUCCESS:
        return struct.pack("!BBH", first, 2, packet)
    return struct.pack("!BBHB", first, 3, packet, reason)


def suback(version: int, packet: int, codes: list[int]) -> bytes:
    """Write the results of a subscription."""
    if version < V5:
        codes = [min(code, Code.FAILURE) for code in codes]
        return framed(0x90, packet.to_bytes(2, "big"), bytes(codes))
    return framed(0x90, packet.to_bytes(2, "big"), _EMPTY, bytes(codes))


def unsuback(version: int, packet: int, codes: list[int]) -> bytes:
    """Write that subscriptions have ended."""
    if version < V5:
        return framed(0xB0, packet.to_bytes(2, "big"))
    return framed(0xB0, packet.to_bytes(2, "big"), _EMPTY, bytes(codes))


def text(given: str) -> bytes:
    """Write a text with its length in front."""
    written = given.encode()
    return len(written).to_bytes(2, "big") + written


def disconnect(reason: Code) -> bytes:
    """Write why an MQTT 5 client is disconnected."""
    return framed(0xE0, bytes([reason]), _EMPTY)


def _aged(properties: Any, age: float) -> bytes:
    """The properties of a message, with its expiry reduced by its age."""
    if properties is None:
        return _EMPTY
    expiry: int | None = getattr(properties, "MessageExpiryInterval", None)
    if expiry is None:
        written: bytes = properties.pack()
        return written
    properties.MessageExpiryInterval = max(1, expiry - int(age))
    try:
        written = properties.pack()
    finally:
        properties.MessageExpiryInterval = expiry
    return written


def framed(first: int, *parts: bytes) -> bytes:
    """Write a packet of a first byte and the parts of its body."""
    length = sum(map(len, parts))
    written = bytearray([first])
    left = length
    while True:
        left, digit = left >> 7, left & 0x7F
        written.append(digit | (0x80 if left else 0))
        if not left:
            break
    return b"".join([written, *parts])
