"""Sources of other formats than JSON, from the publisher's topic through real Spark to outputs."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.client import Client
from tests.integration.hosting import numbers
from tests.integration.serving import Served, serving, street

pytestmark = pytest.mark.spark
EVENTS = numbers(0, 6)
LINES = "".join(f"{event['n']};{event['k']}\n" for event in EVENTS)
_WRITTEN = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "n", "type": "long"}, {"name": "k", "type": ["null", "string"]}],
}


def _avro(event: Mapping[str, Any]) -> bytes:
    """An event by hand, because the extra may be missing: whole numbers in zigzag, and texts behind their length."""
    text: bytes = event["k"].encode()
    return bytes([event["n"] * 2, 2, len(text) * 2]) + text


SENT: Mapping[str, tuple[object, tuple[bytes, ...], bytes]] = {
    "jsonl": ("jsonl", ("\n".join(map(json.dumps, EVENTS)).encode(),), b"not json"),
    "csv": ({"kind": "csv", "separator": ";"}, (f"n;k\n{LINES}".encode(),), b"n;k\nhot;k0\n"),
    "csv-columns": (
        {"kind": "csv", "separator": ";", "columns": ["n", "k"]},
        tuple(LINES.encode().splitlines()),
        b"1;2;3",
    ),
    "msgpack": ("msgpack", (msgspec.msgpack.encode(EVENTS),), b"\xc1"),
    "senml": (
        "senml",
        (json.dumps([{"bn": "k", "bt": 1_700_000_000}, *({"n": str(n % 3), "v": n} for n in range(6))]).encode(),),
        b'[{"v": 1}]',
    ),
    "avro": ({"kind": "avro", "writer_schema": _WRITTEN}, tuple(_avro(event) for event in EVENTS), b""),
    "text": ({"kind": "text", "field": "n"}, tuple(b"%d" % event["n"] for event in EVENTS), b"hot"),
    "raw": ({"kind": "raw", "field": "k"}, tuple(event["k"].encode() for event in EVENTS), b""),
}
"""By name a format, messages, and a message that is unfit; empty bytes if none is."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with its broker and host."""
    with serving(Served(tmp_path_factory.mktemp("formats"))) as service:
        yield service


@pytest.fixture(scope="module")
def ann(served: Served) -> Iterator[Client]:
    """A tenant."""
    with served.admit("ann") as client:
        yield client


def passing_on(source: str) -> dict[str, object]:
    """A document that delivers what a source sends."""
    return {
        "version": 1,
        "name": source,
        "tasks": [{"id": "in", "type": "source", "config": {"source": source}}, {"id": "out", "type": "output"}],
        "streams": [{"from": "in", "to": "out"}],
    }


@pytest.mark.parametrize("name", SENT)
def test_a_source_of_any_format_is_read(served: Served, ann: Client, name: str) -> None:
    """What fits is delivered, and what does not is shown to the owner of the source."""
    form, messages, unfit = SENT[name]
    connection = {"kind": "topic", "topic": f"ann/{name}", "format": form}
    schema = {"n": "string", "v": "float", "t": "timestamp"} if name == "senml" else {"n": "integer", "k": "string"}
    if name == "avro":
        pytest.importorskip("fastavro")
    source = ann.register_source(street(name, connection=connection, schema=schema))
    assert source.connection is not None
    flow = ann.submit(passing_on(name))
    served.until_state(ann, flow.id, DataflowState.RUNNING)
    for message in (*messages, unfit) if unfit else messages:
        served.line.publish(f"ann/{name}", message)
    expected = {
        "senml": [
            {"n": f"k{event['n'] % 3}", "v": float(event["n"]), "t": "2023-11-14T22:13:20.000Z"} for event in EVENTS
        ],
        "text": [{"n": event["n"], "k": None} for event in EVENTS],
        "raw": [{"n": None, "k": base64.b64encode(event["k"].encode()).decode()} for event in EVENTS],
    }.get(name, EVENTS)
    delivered = served.until_delivered(flow, "out", len(EVENTS))
    assert list(expected) == [dict.fromkeys(schema) | event for event in delivered]

    def rejected() -> bool:
        received = ann.source(name).received
        return received is not None and (received.accepted, received.rejected) == (len(EVENTS), bool(unfit))

    served.until(lambda: rejected() or None, "what was rejected")
    ann.remove(flow.id)
