"""Contents: what fields hold for files, as text or as bytes in base64."""

import base64
import binascii
from typing import Any

import pyarrow as pa

from dags import Secret
from engine.tasks.outside import Encoding, Where


def label(where: Where) -> str:
    """What a secret or a place is called in receipts and errors."""
    return where.secret if isinstance(where, Secret) else where.place


def texts(events: pa.RecordBatch, field: str) -> list[str]:
    """The values of a field of texts; none may be null."""
    values: list[str] = events.column(field).to_pylist()
    if None in values:
        raise ValueError(f"the field {field!r} is null")
    return values


def contents(events: pa.RecordBatch, field: str, encoding: Encoding) -> list[bytes]:
    """The contents in a field."""
    return [_content(each, field, encoding) for each in texts(events, field)]


def field_value(content: bytes, name: str, encoding: Encoding) -> str:
    """A content as a field holds it.

    >>> field_value(b"warm", "a.txt", "base64"), field_value(b"warm", "a.txt", "text")
    ('d2FybQ==', 'warm')
    """
    if encoding == "base64":
        return base64.b64encode(content).decode()
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name!r} holds no text in UTF-8; read it with encoding base64") from None


def refused(field: str, value: Any, why: str) -> ValueError:
    """Why an event cannot be taken, with the value as far as it is short."""
    return ValueError(f"the field {field!r} {why}: {str(value)[:100]!r}")


def _content(value: str, field: str, encoding: Encoding) -> bytes:
    if encoding == "text":
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise refused(field, value, "holds no base64") from None
