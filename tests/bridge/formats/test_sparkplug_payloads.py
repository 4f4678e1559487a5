"""The payloads of an edge node: they are bytes that two other libraries have read as what they should say."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from bridge.formats.sparkplug_decoder import rebirth_request
from bridge.formats.sparkplug_messages import Payload
from bridge.output_formats import formatted
from bridge.sparkplug_nodes import asks_for_birth, birth, death, numbered
from bridge.wire import Birth
from dags import Kind
from dags.outputs import SparkplugOutput

NODE = SparkplugOutput(
    group="ann",
    node="press",
    metrics=(
        ("at", Kind.TIMESTAMP),
        ("count", Kind.INTEGER),
        ("hot", Kind.BOOLEAN),
        ("name", Kind.STRING),
        ("celsius", Kind.FLOAT),
        ("more", Kind.JSON),
    ),
)
EVENT = {"at": datetime(2026, 2, 3, tzinfo=UTC), "count": -2, "hot": True, "name": "käse", "celsius": 21.5}
GOLDEN: Mapping[str, str] = {
    "birth": (
        "0880d095ffbc3112120a0562645365711880d095ffbc312004580312210a144e6f646520436f6e74726f6c2f52656269"
        "7274681880d095ffbc31200b7000120f0a0261741880d095ffbc31200d380112120a05636f756e741880d095ffbc3120"
        "04380112100a03686f741880d095ffbc31200b380112110a046e616d651880d095ffbc31200c380112140a0763656c73"
        "6975731880d095ffbc31200a380112110a046d6f72651880d095ffbc31200c38011800"
    ),
    "later birth": (
        "08e8d795ffbc3112120a05626453657118e8d795ffbc312004580312210a144e6f646520436f6e74726f6c2f52656269"
        "72746818e8d795ffbc31200b7000180012140a02617418f4d395ffbc31200d588088b286c233121b0a05636f756e7418"
        "f4d395ffbc31200458feffffffffffffffff0112100a03686f7418f4d395ffbc31200b700112160a046e616d6518f4d3"
        "95ffbc31200c7a056bc3a47365121b0a0763656c7369757318f4d395ffbc31200a69000000000080354012110a046d6f"
        "726518f4d395ffbc31200c3801"
    ),
    "data": (
        "08e8d795ffbc3118ff0112140a02617418f4d395ffbc31200d588088b286c233121b0a05636f756e7418f4d395ffbc31"
        "200458feffffffffffffffff0112100a03686f7418f4d395ffbc31200b700112160a046e616d6518f4d395ffbc31200c"
        "7a056bc3a47365121b0a0763656c7369757318f4d395ffbc31200a69000000000080354012110a046d6f726518f4d395"
        "ffbc31200c3801"
    ),
    "death": ("0880d095ffbc3112120a0562645365711880d095ffbc3120045803"),
}
"""Pysparkplug 0.6.1 and mqtt-spb-wrapper 2.1.2 have read these as payloads of session 3: first with all six metrics
null, then with those of the event, each with its type and the time 1,700,000,000.500, and the data with the number 255.
"""


def test_other_libraries_read_what_a_node_publishes() -> None:
    """A birth before there was an event, one after it, the event itself, and the death."""
    (line,) = formatted(NODE, pa.RecordBatch.from_pylist([EVENT]), [Birth(1, 1_700_000_000_500)])
    assert isinstance(line, bytes)
    made = {
        "birth": birth(NODE, 3, b"", 1_700_000_000_000),
        "later birth": birth(NODE, 3, line, 1_700_000_001_000),
        "data": numbered(line, 255, 1_700_000_001_000),
        "death": death(3, 1_700_000_000_000),
    }
    assert {name: payload.hex() for name, payload in made.items()} == GOLDEN


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        (rebirth_request(1.0), True),
        (Payload(metrics=[{"name": "Node Control/Rebirth", "boolean_value": False}]).SerializeToString(), False),
        (Payload(metrics=[{"name": "Node Control/Reboot", "boolean_value": True}]).SerializeToString(), False),
        (b"no payload", False),
        (b"", False),
    ],
)
def test_only_one_command_asks_for_a_birth(command: bytes, asks: bool) -> None:  # noqa: FBT001 - a case
    """Whatever else comes is ignored."""
    assert asks == asks_for_birth(command)
