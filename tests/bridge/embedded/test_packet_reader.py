"""Packets of clients: any bytes are read or refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.embedded import packets
from bridge.embedded.packets import V5, V311, Code, Malformed

BODIES = st.binary(max_size=60)
VERSIONS = st.sampled_from([V311, V5])


@given(BODIES, VERSIONS, st.integers(0, 15))
def test_no_bytes_break_the_broker(body: bytes, version: int, flags: int) -> None:
    """Each is a packet, or refused as malformed."""
    name = b"\x00\x04MQTT" + bytes([version])
    for read in (
        lambda: packets.read_connect(body),
        lambda: packets.read_connect(name + body),
        lambda: packets.read_publish(flags, body, version),
        lambda: packets.Fields(body).packet_id(),
        lambda: packets.read_subscribe(body, version),
        lambda: packets.read_unsubscribe(body, version),
        lambda: packets.read_disconnect(body, version),
        lambda: packets.header(body, 0),
    ):
        with suppress(Malformed):
            read()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x00\x04MQTT\x06\x02\x00\x00\x00\x00", Code.UNSUPPORTED_VERSION),
        (b"\x00\x04MQTT\x04\x03\x00\x00\x00\x00", Code.MALFORMED),
        (b"\x00\x04MQTT\x04\x06\x00\x00\x00\x00\x00\x01#\x00\x00", Code.BAD_TOPIC),
        (b"\x00\x04MQTT\x05\x02\x00\x00\x04\x15\x00\x01x\x00\x00", Code.BAD_METHOD),
    ],
)
def test_a_connect_that_breaks_the_rules_is_refused(body: bytes, reason: Code) -> None:
    """Unknown versions, flags and topics, and ways to authenticate that the broker does not have."""
    with pytest.raises(Malformed) as refused:
        packets.read_connect(body)
    assert reason is refused.value.reason


def test_properties_are_bounded() -> None:
    """A stranger's packet that is nothing but properties, each of five bytes, keeps the broker busy for no time."""
    name = b"\x00\x04MQTT\x05\x02\x00\x00"
    packets.read_connect(name + b"\xfd\x00" + b"\x26\x00\x00\x00\x00" * 25 + b"\x00\x00")
    with pytest.raises(Malformed) as refused:
        packets.read_connect(name + b"\xc0\x84\x3d" + b"\x26\x00\x00\x00\x00" * 200_000 + b"\x00\x00")
    assert Code.TOO_LARGE is refused.value.reason


@pytest.mark.parametrize(
    ("flags", "body", "reason"),
    [
        (0, b"\x00\x00", Code.BAD_TOPIC),
        (0, b"\x00\x03a/#", Code.BAD_TOPIC),
        (0, b"\x00\x02\xff\xff", Code.MALFORMED),
        (6, b"\x00\x01a\x00\x01", Code.MALFORMED),
        (2, b"\x00\x01a\x00\x00", Code.MALFORMED),
        (0, b"\x00\x01a\x03\x23\x00\x01", Code.BAD_ALIAS),
        (0, b"\x00\x01a\x02\x0b\x01", Code.PROTOCOL),
    ],
)
def test_a_message_that_breaks_the_rules_is_refused(flags: int, body: bytes, reason: Code) -> None:
    """Malformed topics, packet id 0, and properties that only a broker may set."""
    with pytest.raises(Malformed) as refused:
        packets.read_publish(flags, body, V5)
    assert reason is refused.value.reason
