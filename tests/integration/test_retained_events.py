"""What a raw topic retains: read where its source asks for it, once, and otherwise not at all, over real brokers."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Spool, SpoolFeed, SystemClock
from bridge.broker import Broker, start_broker
from bridge.transport.mqtt_client import MqttClient
from dags import Kind, Schema
from engine.host.reception import Reception, Receptions
from tests.brokers import KINDS
from tests.integration.raw_receiver import RAW
from tests.integration.test_bridging import PROTOCOLS
from tests.integration.test_raw_once import USERS, publisher, spooled
from tests.integration.test_receiving import until


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own."""
    with start_broker(tmp_path / "broker", USERS, kind=request.param) as started:
        yield started


@contextmanager
def receiving(broker: Broker, folder: Path, protocol: MQTTProtocolVersion, *, retained: bool) -> Iterator[Reception]:
    """A host's reception of the topic, which is subscribed; its session outlives it."""
    found: list[object] = []
    address = broker.address("braid")
    receptions = Receptions(folder, "h", address, protocol, on_unread=found.append, clock=SystemClock())
    with closing(Spool(folder / "spool", most_bytes=1 << 30)) as spool:
        feed = SpoolFeed(spool=spool, schema=Schema.of(n=Kind.INTEGER), retained=retained)
        reception = receptions.begin(
            RAW, {RAW: feed}, due=lambda _after: 0.0, on_unread=found.append, on_trouble=found.append
        )
        assert reception.is_subscribed
        yield reception
        reception.stop()
    assert [] == found


def publish(broker: Broker, number: int) -> None:
    """Publish an event, which the topic retains from then on."""
    answers: list[str] = []
    with publisher(broker) as client:
        client.publish(RAW, json.dumps({"n": number}).encode(), retain=True, answered=answers.append)
        until(lambda: answers == [""])


def await_spooled(folder: Path, number: int) -> None:
    until(lambda: number in spooled(folder))


def leave_will(broker: Broker, number: int) -> None:
    """Have a client vanish whose will the topic retains from then on."""
    payload = json.dumps({"n": number}).encode()
    seen: list[bytes] = []
    gone = MqttClient(broker.address("braid"), "gone", will=(RAW, payload))
    watching = MqttClient(
        broker.address("braid"), "watching", topics=[RAW], on_message=lambda m: seen.append(m.payload), lasting=False
    )
    gone.start()
    watching.start()
    gone._client._sock_close()  # no goodbye: the connection breaks
    gone._client.loop_stop()
    until(lambda: seen == [payload])
    watching.stop()


@PROTOCOLS
@pytest.mark.parametrize("leave", [publish, leave_will])
def test_what_was_retained_before_is_not_read(
    broker: Broker, tmp_path: Path, protocol: MQTTProtocolVersion, leave: Callable[[Broker, int], None]
) -> None:
    """Neither a message nor a will, at the first subscription and at later ones; what comes from then on is."""
    leave(broker, 1)
    with receiving(broker, tmp_path, protocol, retained=False):
        pass
    with receiving(broker, tmp_path, protocol, retained=False):
        publish(broker, 2)
        await_spooled(tmp_path, 2)
    assert [2] == spooled(tmp_path)


@PROTOCOLS
@pytest.mark.parametrize("retained", [False, True])
def test_what_is_published_is_read_once_though_it_is_retained(
    broker: Broker, tmp_path: Path, protocol: MQTTProtocolVersion, *, retained: bool
) -> None:
    """Each new connection subscribes anew, so the broker passes it on again; what came meanwhile is kept, too."""
    for number in (1, 3, 5):
        with receiving(broker, tmp_path, protocol, retained=retained):
            publish(broker, number)
            await_spooled(tmp_path, number)
        publish(broker, number + 1)
    with receiving(broker, tmp_path, protocol, retained=retained) as last:
        await_spooled(tmp_path, 6)
        broker.restart()
        until(lambda: last.is_subscribed)
        publish(broker, 7)
        await_spooled(tmp_path, 7)
    assert [1, 2, 3, 4, 5, 6, 7] == spooled(tmp_path)


@PROTOCOLS
def test_what_is_retained_is_read_once_where_the_source_asks_for_it(
    broker: Broker, tmp_path: Path, protocol: MQTTProtocolVersion
) -> None:
    """As the first event, when the topic is first read; not again over a later connection."""
    leave_will(broker, 1)
    for number in (2, 3):
        with receiving(broker, tmp_path, protocol, retained=True):
            await_spooled(tmp_path, 1)
            publish(broker, number)
            await_spooled(tmp_path, number)
    assert [1, 2, 3] == spooled(tmp_path)
