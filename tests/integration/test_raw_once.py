"""Raw events over real brokers: a process is killed between spooling and acknowledging, and each event counts once."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from bridge import read, unpacked
from bridge.broker import Broker, start_broker
from bridge.messages import Message
from bridge.spools.log import LOG
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.probes import gives_ids_in_turn
from tests.brokers import KINDS, MOSQUITTO
from tests.integration import raw_receiver
from tests.integration.raw_receiver import FILTER, RAW, READY
from tests.integration.test_receiving import until

USERS = {"braid": "a password of its own"}
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own."""
    with start_broker(tmp_path / "broker", USERS, kind=request.param) as started:
        yield started


@contextmanager
def process(
    broker: Broker, folder: Path, fatal: str = "", at: int = 0, *, topic: str = RAW
) -> Iterator[subprocess.Popen[str]]:
    """A receiving process; it ends in the end."""
    command = [
        sys.executable,
        "-m",
        raw_receiver.__name__,
        broker.address("braid").url,
        str(folder),
        topic,
        fatal,
        str(at),
    ]
    with subprocess.Popen(  # noqa: S603 - a program of these tests
        command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        assert READY == started.stdout.readline()
        yield started


@contextmanager
def publisher(broker: Broker) -> Iterator[MqttClient]:
    client = MqttClient(broker.address("braid"), "publishes")
    client.start()
    try:
        yield client
    finally:
        client.stop()


def publish(client: MqttClient, numbers: list[int], topic: str = RAW) -> None:
    """Publish numbers, one a message, and wait until the broker has them."""
    answers: list[str] = []
    for number in numbers:
        client.publish(topic, json.dumps({"n": number}).encode(), answered=answers.append)
    until(lambda: len(answers) == len(numbers))


def spooled(folder: Path) -> list[int]:
    if not (folder / "spool" / LOG).exists():
        return []
    return [
        number for _, item in read(folder / "spool", 0, 1 << 30) for number in unpacked(item.payload)["n"].to_pylist()
    ]


@pytest.mark.full
@pytest.mark.parametrize("broker", KINDS, indirect=True)
@pytest.mark.parametrize("step", ["done", "acknowledged"])
def test_a_process_killed_before_the_broker_heard_counts_each_event_once(
    broker: Broker, tmp_path: Path, step: str
) -> None:
    """Killed in each of two lives; the broker repeats, and equal events that are new are not taken for repetitions."""
    assert gives_ids_in_turn(broker.address("braid"))
    with publisher(broker) as client:
        with process(broker, tmp_path, step, 1) as dying:
            publish(client, [1, 1, 2])
            dying.wait()
        had = spooled(tmp_path)
        publish(client, [2, 1])
        with process(broker, tmp_path, step, 1) as dying:
            dying.wait()
        publish(client, [1])
        with process(broker, tmp_path):
            until(lambda: len(spooled(tmp_path)) >= 6)
            # What comes now follows whatever might be repeated.
            publish(client, [3])
            until(lambda: 3 in spooled(tmp_path))
    assert (True, [1, 1, 2, 2, 1, 1, 3]) == (len(had) > 0, spooled(tmp_path))


@pytest.mark.full
@pytest.mark.parametrize("broker", KINDS, indirect=True)
@pytest.mark.parametrize("step", ["done", "acknowledged"])
def test_events_of_many_topics_in_one_spool_count_once(broker: Broker, tmp_path: Path, step: str) -> None:
    """A filter's messages have one session, whatever their topics are; equal ones of two topics are two."""
    with publisher(broker) as client:
        for number in (1, 1, 2):
            with process(broker, tmp_path, step, 1, topic=FILTER) as dying:
                for place in ("raw/a", "raw/b", "raw/a"):
                    publish(client, [number], place)
                dying.wait()
        with process(broker, tmp_path, topic=FILTER):
            publish(client, [3])
            until(lambda: 3 in spooled(tmp_path))
    assert [1, 1, 1, 1, 1, 1, 2, 2, 2, 3] == spooled(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("broker", [MOSQUITTO], indirect=True)
def test_mosquitto_keeps_packet_ids_over_a_restart(broker: Broker, tmp_path: Path) -> None:
    """What was spooled and not acknowledged is known even if the broker was stopped and started meanwhile."""
    with publisher(broker) as client:
        with process(broker, tmp_path, "done", 1) as dying:
            publish(client, [1, 1])
            dying.wait()
        broker.restart()
        until(lambda: client.is_connected)
        publish(client, [1])
        with process(broker, tmp_path):
            until(lambda: len(spooled(tmp_path)) >= 3)
            publish(client, [3])
            until(lambda: 3 in spooled(tmp_path))
    assert [1, 1, 1, 3] == spooled(tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("broker", KINDS, indirect=True)
def test_brokers_give_packet_ids_in_turn_and_keep_them(broker: Broker) -> None:
    """Each has the id after the last, even if no other is in use; if it comes again, it is marked and has the same."""
    arrived: list[Message] = []
    taken: list[str] = []

    def receiver() -> MqttClient:
        client = MqttClient(broker.address("braid"), "receives", topics=[RAW], on_message=arrived.append)
        client.start()
        return client

    def seen() -> list[tuple[int, bool]]:
        return [(message.token & 0xFFFF, message.again) for message in arrived]

    with publisher(broker) as client:
        receiving = receiver()
        for number in range(3):
            publish(client, [number])
            until(lambda: len(arrived) == number + 1)  # noqa: B023 - it is awaited at once
            if number < 2:
                receiving.acknowledge([arrived[-1].token], lambda: taken.append("taken"))
                until(lambda: len(taken) == number + 1)  # noqa: B023 - as above
        assert [(1, False), (2, False), (3, False)] == seen()
        receiving.stop()
        arrived.clear()
        publish(client, [3])
        receiving = receiver()
        until(lambda: len(arrived) == 2)
        receiving.stop()
    assert [(3, True), (4, False)] == seen()


@pytest.mark.chaos
@pytest.mark.parametrize("broker", KINDS, indirect=True)
def test_raw_events_count_once_whenever_their_process_is_killed(broker: Broker, tmp_path: Path) -> None:
    """Fifty kills at steps and moments of their own, while equal events come all the time."""
    chance, sent, numbers = random.Random(30), list[int](), count()
    with publisher(broker) as client:
        for _ in range(50):
            step = chance.choice(["open", "sync", "rename", "done", "acknowledged", "acknowledged", "never"])
            with process(broker, tmp_path, step, chance.randint(1, 4)) as dying:
                while dying.poll() is None and (step != "never" or chance.random() < 0.9):
                    # Many are equal to the one before; now and then one that says where it belongs.
                    some = [next(numbers) if chance.random() < 0.1 else 0 for _ in range(chance.randint(1, 60))]
                    publish(client, some)
                    sent += some
                dying.kill()
        with process(broker, tmp_path):
            publish(client, [-1])
            until(lambda: -1 in spooled(tmp_path))
    assert [*sent, -1] == spooled(tmp_path)
