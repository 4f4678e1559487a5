"""From a topic of Kafka through real Spark to another one, while the host is killed."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from braid_client.answers.dataflows import DataflowState
from braid_client.client import Client
from engine.outside import REACHABLE
from tests.integration.serving import Served, serving, street
from tests.kafka_brokers import KafkaBrokers, mock_cluster

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with its broker and host."""
    with serving(Served(tmp_path_factory.mktemp("kafka"))) as service:
        (service.root / REACHABLE).write_text("127.0.0.1\n", encoding="utf-8")
        yield service


@pytest.fixture(scope="module")
def ann(served: Served) -> Iterator[Client]:
    """A tenant."""
    with served.admit("ann") as client:
        yield client


@pytest.fixture
def brokers() -> Iterator[KafkaBrokers]:
    """The cluster."""
    with mock_cluster() as made:
        yield made


def between(brokers: KafkaBrokers, source: str, topic: str) -> dict[str, Any]:
    """A document that publishes on a topic what a source reads, by its keys."""
    publish = {"brokers": list(brokers.addresses), "topic": topic, "key": "k"}
    return {
        "version": 1,
        "name": "between",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            {"id": "publish", "type": "kafka_publish", "config": publish},
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "publish"}, {"from": "publish", "to": "out"}],
    }


def send(brokers: KafkaBrokers, topic: str, first: int, end: int) -> None:
    """Send events to three partitions, each with a key of its own."""
    for part in range(3):
        values = (b'{"n": %d}' % n for n in range(first, end) if n % 3 == part)
        brokers.send(topic, *values, partition=part, key=b"k%d" % part)


def test_records_are_read_exactly_once_and_published_at_least_once(
    served: Served, ann: Client, brokers: KafkaBrokers
) -> None:
    """By key in their order, and repeats have the names of the first."""
    # So that it hears outputs from the first on.
    served.line.publish("elsewhere", b"")
    incoming, outgoing = brokers.topic(3), brokers.topic(2)
    connection = {"kind": "kafka", "brokers": list(brokers.addresses), "topic": incoming, "start": "oldest", "key": "k"}
    send(brokers, incoming, 0, 300)
    ann.register_source(street("records", connection=connection, schema={"n": "integer"}))
    flow = ann.submit(between(brokers, "records", outgoing))
    served.until_state(ann, flow.id, DataflowState.RUNNING)
    served.until_delivered(flow, "out", 300)
    send(brokers, incoming, 300, 600)
    served.below_keeper("engine.machines.process").kill()
    send(brokers, incoming, 600, 900)
    delivered = served.until_delivered(flow, "out", 900)
    assert [*range(900)] == sorted(row["n"] for row in delivered)
    assert {f"k{row['n'] % 3}" == row["k"] for row in delivered} == {True}

    published = brokers.read_all(outgoing)
    of_key = defaultdict[bytes | None, dict[bytes, int]](dict)
    for record in published:
        of_key[record.key].setdefault(record.headers["braid-event"], json.loads(record.value or b"")["n"])
    for part in range(3):
        assert [*range(part, 900, 3)] == list(of_key[b"k%d" % part].values())
    received = ann.source("records").received
    assert received is not None
    assert 0 == received.rejected
    assert received.link is not None
    assert received.link.connected
    ann.remove(flow.id)
