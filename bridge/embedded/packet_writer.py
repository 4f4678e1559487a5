"""Packets to clients, written as bytes."""

import struct
from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from .packets import V5, Code, Packet, Published

_EMPTY = b"\0"
"""No properties."""


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


def pingresp() -> bytes:
    """Write the answer to a ping."""
    return b"\xd0\0"


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
