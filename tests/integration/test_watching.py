"""Watches on an output over a real broker, which holds back unacknowledged messages."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.broker import BrokerKind, start_broker
from bridge.messages import UNACKNOWLEDGED
from bridge.transport.mqtt_client import MqttClient
from manager.outputs.readers import MOST_SAMPLED_MESSAGES, OutputWatcher
from tests.brokers import KINDS
from tests.manager.memory_outputs import output

TOPIC = "braid/1/out/ann/d-1/out"
BOUND = 30.0


@contextmanager
def watching_beside(folder: Path, kind: BrokerKind) -> Iterator[tuple[OutputWatcher, MqttClient]]:
    """A watcher, and a client that publishes, at a broker of this kind."""
    with start_broker(folder / "broker", {"braid": "a password of its own"}, kind=kind) as broker:
        address = broker.address("braid")

        def connect(client_id: str, **settings: Any) -> MqttClient:
            client = MqttClient(address, client_id, lasting=False, **settings)
            client.start()
            return client

        watching, publisher = OutputWatcher(connect), MqttClient(address, "publishes", lasting=False)
        watching.start()
        publisher.start()
        yield watching, publisher
        publisher.stop()
        assert 0 == watching.looks


@pytest.mark.parametrize("kind", KINDS)
def test_a_watch_sees_the_output_until_it_is_closed(tmp_path: Path, kind: BrokerKind) -> None:
    """More messages than a client may leave unacknowledged come through, and every event is shown or counted."""
    with watching_beside(tmp_path, kind) as (watching, publisher), watching.look("ann", TOPIC) as look:
        news = threading.Event()
        look.on_news(news.set)
        seen, last = 0, UNACKNOWLEDGED * 2
        for number in range(1, last + 1):
            publisher.publish(TOPIC, output(number, number))
        while seen < last:
            assert news.wait(BOUND), seen
            news.clear()
            if (sample := look.take()) is not None:
                # Of what came before the first sample nobody knows when it left.
                seen = seen + len(sample.events) + sample.others if seen else sample.first
        assert last == seen


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_has_the_first_messages_of_a_topic(tmp_path: Path, kind: BrokerKind) -> None:
    """Of those that come from then on, no more than it may have. What a topic retains may be of an earlier owner."""
    with watching_beside(tmp_path, kind) as (watching, publisher):
        retained = threading.Event()
        publisher.publish("ann/press", b"0", retain=True, answered=lambda _refusal: retained.set())
        assert retained.wait(BOUND)
        with watching.sample("ann", "ann/press") as sample:
            for number in range(1, MOST_SAMPLED_MESSAGES + 2_000):
                publisher.publish("ann/press", b"%d" % number)
            messages = sample.gather(BOUND)
        assert [*range(1, MOST_SAMPLED_MESSAGES + 1)] == [int(message) for message in messages]
