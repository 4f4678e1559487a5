"""Sources of other formats than JSON, from the publisher's topic through real Spark to outputs."""

import base64
import json
from collections.abc import Iterator, Mapping

import msgspec
import pytest

from manager.answers.dataflows import DataflowState
from manager.client.client import Client
from tests.integration.hosting import numbers
from tests.integration.serving import Served, serving, street

pytestmark = pytest.mark.spark
EVENTS = numbers(0, 6)
LINES = "".join(f"{event['n']};{event['k']}\n" for event in EVENTS)
SENT: Mapping[str, tuple[object, tuple[bytes, ...], bytes]] = {
    "jsonl": ("jsonl", ("\n".join(map(json.dumps, EVENTS)).encode(),), b"not json"),
    "csv": ({"kind": "csv", "separator": ";"}, (f"n;k\n{LINES}".encode(),), b"n;k\nhot;k0\n"),
    "csv-columns": (
        {"kind": "csv", "separator": ";", "columns": ["n", "k"]},
        tuple(LINES.encode().splitlines()),
        b"1;2;3",
    ),
    "msgpack": ("msgpack", (msgspec.msgpack.encode(EVENTS),), b"\xc1"),
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
    source = ann.register_source(street(name, connection=connection))
    assert source.connection is not None
    flow = ann.submit(passing_on(name))
    served.until_state(ann, flow.id, DataflowState.RUNNING)
    for message in (*messages, unfit) if unfit else messages:
        served.line.publish(f"ann/{name}", message)
    expected = {
        "text": [{"n": event["n"], "k": None} for event in EVENTS],
        "raw": [{"n": None, "k": base64.b64encode(event["k"].encode()).decode()} for event in EVENTS],
    }.get(name, EVENTS)
    delivered = served.until_delivered(flow, "out", len(EVENTS))
    assert [event | {} for event in expected] == [{"n": None, "k": None} | event for event in delivered]

    def rejected() -> bool:
        received = ann.source(name).received
        return received is not None and (received.accepted, received.rejected) == (len(EVENTS), bool(unfit))

    served.until(lambda: rejected() or None, "what was rejected")
    ann.remove(flow.id)
