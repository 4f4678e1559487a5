"""The bounds of messages and of the events in them, so that nobody's message fills or holds up what others use too.

An event is so much smaller than a message that it fits into one in every form: as JSON, a byte takes six at most.
"""

LARGEST_PACKET = 32_000_000
"""Bytes of a packet that a broker of Braid's takes. It disconnects a client that sends more."""
LARGEST_PAYLOAD = LARGEST_PACKET - 200_000
"""Bytes that Braid itself sends in one message; topic and properties take the rest of the packet."""
LARGEST_RAW_MESSAGE = 8_000_000
"""Bytes of a message of raw events."""
MOST_RAW_EVENTS = 100_000
"""Events in a message of raw events."""
LARGEST_EVENT = 4_000_000
"""Bytes of one event."""
MOST_UNFIT_REPORTED = 100
"""Events of one message that are each reported as unfit; those after them are reported together."""


def why_unsendable(payload: bytes) -> str:
    """Why no broker would take a message from Braid, which would be disconnected for it; empty if it is small enough.

    >>> why_unsendable(b"small")
    ''
    """
    if len(payload) <= LARGEST_PAYLOAD:
        return ""
    return f"it has {len(payload):,} bytes, and a message may have {LARGEST_PAYLOAD:,}"
