"""Contents of files in fields, as text or as bytes in base64."""

import base64
import binascii
from typing import Any

import pyarrow as pa

from dags import Secret
from engine.tasks.outside import Encoding, Where


def label(where: Where) -> str:
    """The name of a secret or place, for receipts and errors."""
    return where.secret if isinstance(where, Secret) else where.place


def texts(events: pa.RecordBatch, field: str) -> list[str]:
    """The texts of a field. Raises if one is null."""
    values: list[str] = events.column(field).to_pylist()
    if None in values:
        raise ValueError(f"the field {field!r} is null")
    return values


def contents(events: pa.RecordBatch, field: str, encoding: Encoding) -> list[bytes]:
    """The contents of a field."""
    return [_content(each, field, encoding) for each in texts(events, field)]


def field_value(content: bytes, name: str, encoding: Encoding) -> str:
    """The field value of a content.

    >>> field_value(b"warm", "a.txt", "base64"), field_value(b"warm", "a.txt", "text")
    ('d2FybQ==', 'warm')
    """
    if encoding == "base64":
        return base64.b64encode(content).decode()
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name!r} is not a text in UTF-8; read it with encoding base64") from None


def refused(field: str, value: Any, why: str) -> ValueError:
    """The error for an event that cannot be taken, with the beginning of the value."""
    return ValueError(f"the field {field!r} {why}: {str(value)[:100]!r}")


def _content(value: str, field: str, encoding: Encoding) -> bytes:
    if encoding == "text":
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise refused(field, value, "is not base64") from None
