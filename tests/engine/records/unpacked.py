"""Packed keys and values of state, read back by tests."""

from typing import Any
from zlib import crc32

import msgspec

from dags.dataflow import GROUPS


def group_of(key: bytes) -> int:
    """The key group of a packed key."""
    return crc32(key) % GROUPS


def unpacked_value(value: bytes) -> Any:
    """The value of packed bytes."""
    return msgspec.msgpack.decode(value)
