"""Packets from clients, read from bytes; a packet that breaks the rules of MQTT raises `Malformed`."""

from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from .filters import why_no_filter, why_no_topic
from .packets import MOST_PACKET_BYTES, V5, V31, V311, Code, Connect, Malformed, Published, Subscription

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
        found = self._body[self._at : end]
        self._at = end
        return found

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
            found = self.binary().decode()
        except UnicodeDecodeError as error:
            raise Malformed("a text is not UTF-8") from error
        if "\0" in found:
            raise Malformed("a text holds a zero")
        return found

    def packet_id(self) -> int:
        """The id that the acknowledgement has to name."""
        if not (found := self.short()):
            raise Malformed("0 is no packet id")
        return found

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
            found, _ = Properties(kind).unpack(written)  # type: ignore[no-untyped-call]  # paho ships it without types
        except Exception as error:  # paho raises several types, and none says more
            raise Malformed("the properties cannot be read") from error
        return found


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


def read_acknowledgement(body: bytes) -> int:
    """Read the id of an acknowledged packet."""
    return Fields(body).packet_id()


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
