"""What the packets of MQTT 3.1.1 and 5 say, as records, and the codes that both sides know."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

MOST_PACKET_BYTES = 268_435_455
"""How long MQTT lets a packet be."""
V31, V311, V5 = 3, 4, 5


class Packet(IntEnum):
    """The kinds of packets that clients send; the number is the upper half of a packet's first byte."""

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
    """The reason codes of MQTT 5 that this broker gives or looks at."""

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
    """A packet that breaks the rules of MQTT; says how."""

    def __init__(self, why: str, reason: Code = Code.MALFORMED) -> None:
        super().__init__(why)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A message; made from what a client publishes, or will have published when it dies."""

    topic: str
    payload: bytes
    qos: int
    retain: bool = False
    properties: Any = None
    """Those of MQTT 5 that go with the message to its readers, where it has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """A client's wish to be let in."""

    version: int
    client: str
    clean: bool
    keep_alive: int
    user: str | None
    password: bytes | None
    will: Published | None
    will_delay: int = 0
    expiry: int | None = None
    """Seconds for which the session outlives the connection; None stands for ever."""
    receive_maximum: int = 65_535
    packet_maximum: int = MOST_PACKET_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One filter of a subscription."""

    topic_filter: str
    qos: int
    no_local: bool = False
    as_published: bool = False
    """Whether messages keep their retain flag, instead of having it where they come out of what is retained only."""
    handling: int = 0
    """Whether retained messages are wanted: 0 always, 1 for a new subscription, 2 never."""
    refused: Code | None = None
