"""The packets of MQTT 3.1.1 and 5 as records, and their codes."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

MOST_PACKET_BYTES = 268_435_455
"""The length limit of MQTT."""
V31, V311, V5 = 3, 4, 5
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
    """The properties of MQTT 5 that go with the message to its readers, if any."""


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
