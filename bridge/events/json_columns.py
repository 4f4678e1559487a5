"""JSON columns: text columns that hold JSON, marked in the metadata of their fields."""

from collections.abc import Collection

import pyarrow as pa

_MARK = {b"kind": b"json"}


def marked(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """The schema with exactly these fields marked as JSON.

    >>> json_columns(marked(pa.schema({"a": pa.string(), "b": pa.string()}), ["b"]))
    frozenset({'b'})
    """
    return pa.schema([each.with_metadata(_MARK if each.name in names else None) for each in schema])


def json_columns(schema: pa.Schema) -> frozenset[str]:
    """The fields that are marked as JSON."""
    return frozenset(each.name for each in schema if each.metadata and each.metadata.get(b"kind") == b"json")
