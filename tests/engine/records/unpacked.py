"""Packed keys and values of state, and records as a whole, read back by tests."""

from dataclasses import fields
from typing import Any
from zlib import crc32

import msgspec

from dags.dataflow import GROUPS
from engine.records.files import RecordFile
from engine.records.record import Record


def group_of(key: bytes) -> int:
    """The key group of a packed key."""
    return crc32(key) % GROUPS


def unpacked_value(value: bytes) -> Any:
    """The value of packed bytes."""
    return msgspec.msgpack.decode(value)


def record_in(file: RecordFile) -> Record:
    """The whole record of a batch of one shard."""
    header = file.header
    small = {each.name: getattr(header, each.name) for each in fields(header)}
    images = {group: file.image(part) for group, part in header.imaged.items()}
    large = {"changes": file.changes(), "imaged": images, "emitted": file.emitted(), "dead": file.dead()}
    return Record(**small | large)
