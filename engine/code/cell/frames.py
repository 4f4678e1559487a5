"""Frames: messages over a pipe, each after its length."""

import os
import struct

_LENGTH = struct.Struct(">Q")


def framed(content: bytes) -> bytes:
    """A message as it is sent."""
    return _LENGTH.pack(len(content)) + content


def write_frame(handle: int, content: bytes) -> None:
    """Send a message."""
    rest = memoryview(framed(content))
    while rest:
        rest = rest[os.write(handle, rest) :]


def read_frame(handle: int) -> bytes | None:
    """Receive a message; None if the other side is gone."""
    head = _read(handle, _LENGTH.size)
    return None if head is None else _read(handle, _LENGTH.unpack(head)[0])


def frames_in(content: bytes) -> list[bytes]:
    """The complete messages at the beginning of some bytes.

    >>> frames_in(framed(b"one") + framed(b"two")[:-1])
    [b'one']
    """
    found, at = [], 0
    while len(content) - at >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        if len(content) - at < length:
            break
        found.append(content[at : at + length])
        at += length
    return found


def _read(handle: int, size: int) -> bytes | None:
    content = bytearray()
    while len(content) < size:
        part = os.read(handle, min(size - len(content), 1 << 20))
        if not part:
            return None
        content += part
    return bytes(content)
