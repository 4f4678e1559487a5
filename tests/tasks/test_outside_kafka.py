"""Events on topics of Kafka: under their names, by key in order, and what becomes of them if the cluster fails."""

import json
import socket
import ssl
import sys
import time
from collections.abc import Iterator
from ctypes import c_int, c_size_t
from pathlib import Path
from typing import Any

import pytest

from dags import Kind
from engine.implementations.outside import kafka
from tests import needs
from tests.authority import Authority
from tests.engine.kernels import left
from tests.kafka_brokers import BOUND, KafkaBrokers, any_cluster, mock_cluster
from tests.kafka_entrance import Login, entrance
from tests.tasks.worksite import Worksite, allow, keep_secret

FIELDS = {"room": Kind.STRING, "n": Kind.INTEGER}
PRODUCE, TOO_LARGE = c_int(0), 10
"""The numbers of a request and of an error in Kafka's protocol."""
UNREACHABLE = "engine.side_effect.OutsideUnreachable: the Kafka topic"


@pytest.fixture
def brokers() -> Iterator[KafkaBrokers]:
    """Any cluster."""
    with any_cluster() as made:
        yield made


@pytest.fixture
def mock() -> Iterator[KafkaBrokers]:
    """A cluster that can be made to fail."""
    with mock_cluster() as made:
        yield made


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster may take a second to take messages."""
    monkeypatch.setattr(kafka, "_DELIVERY_SECONDS", 1.0)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster on a busy machine may take longer to let somebody in."""
    monkeypatch.setattr(kafka, "_CONNECT_SECONDS", BOUND)


def site(root: Path, brokers: KafkaBrokers, topic: str, **config: Any) -> Worksite:
    """A task that publishes on a topic, where it may."""
    allow(root, "127.0.0.1")
    return Worksite(root, "kafka_publish", FIELDS, brokers=brokers.addresses, topic=topic, **config)


def numbered(first: int, end: int) -> list[dict[str, Any]]:
    return [{"room": f"r{n % 3}", "n": n} for n in range(first, end)]


def test_events_are_published_by_key_in_their_order(tmp_path: Path, brokers: KafkaBrokers) -> None:
    """Each passes on with topic, partition and offset, and names itself in its headers."""
    topic = brokers.topic(3)
    publishing = site(tmp_path, brokers, topic, key="room")
    passed = publishing.run(numbered(0, 20)) + publishing.run(numbered(20, 30))
    records = brokers.read(topic, 30)
    assert {f"{topic}/{record.partition}/{record.offset}" for record in records} == {row["receipt"] for row in passed}
    for room in ("r0", "r1", "r2"):
        of_key = [record for record in records if record.key == room.encode()]
        assert 1 == len({record.partition for record in of_key})
        values = [json.loads(record.value or b"") for record in of_key]
        assert [row for row in numbered(0, 30) if row["room"] == room] == values
    events = [record.headers["braid-event"].decode() for record in records]
    assert sorted(f"s:{n}.0" for n in range(30)) == sorted(events)
    (writer,) = {record.headers["braid-writer"].decode() for record in records}
    assert (tmp_path / "deployment").read_text() + "/2" == writer


def test_integers_are_keys_too_and_no_key_is_needed(tmp_path: Path, brokers: KafkaBrokers) -> None:
    """Without, messages have none."""
    topic = brokers.topic()
    site(tmp_path, brokers, topic, key="n").run(numbered(7, 8))
    site(tmp_path, brokers, topic).run(numbered(8, 9))
    assert [b"7", None] == [record.key for record in brokers.read(topic, 2)]


def test_an_event_without_its_key_is_parked(tmp_path: Path, brokers: KafkaBrokers) -> None:
    """The others are published, once."""
    topic = brokers.topic()
    rows: list[dict[str, Any]] = [{"room": "a", "n": 1}, {"room": None, "n": 2}, {"room": "b", "n": 3}]
    publishing = site(tmp_path, brokers, topic, key="room")
    assert ["ValueError: the field 'room' is null; it needs a value"] == publishing.parked(rows)
    assert [b"a", b"b"] == [record.key for record in brokers.read(topic, 2)]


def test_a_batch_that_runs_again_elsewhere_repeats_its_names(tmp_path: Path, brokers: KafkaBrokers) -> None:
    """So that consumers know the repeats. The same worker does not even repeat them."""
    topic = brokers.topic()
    publishing = site(tmp_path, brokers, topic)
    publishing.arrive(numbered(0, 5))
    publishing.die()
    publishing.die()
    publishing.made = publishing.behaviours()
    publishing.run()
    records = brokers.read(topic, 10)
    names = [(record.headers["braid-writer"], record.headers["braid-event"]) for record in records]
    assert names[:5] == names[5:]
    assert 5 == len(set(names))
    assert [json.loads(record.value or b"")["n"] for record in records] == [*range(5), *range(5)]


def published(mock: KafkaBrokers, topic: str, count: int) -> list[int]:
    """The numbers of the events on a topic, each of which is there once."""
    return sorted(json.loads(record.value or b"")["n"] for record in mock.read(topic, count))


def test_what_the_cluster_refuses_alone_is_parked_alone(tmp_path: Path, mock: KafkaBrokers) -> None:
    """Of the others none is published twice."""
    topic = mock.topic()
    # The first call, its half, and the first event.
    mock.tell("push_request_errors_array", PRODUCE, c_size_t(3), (c_int * 3)(*[TOO_LARGE] * 3))
    reasons = site(tmp_path, mock, topic).parked(numbered(0, 5))
    assert [f"ValueError: the Kafka topic {topic!r} refuses the message: MSG_SIZE_TOO_LARGE"] == reasons
    assert [1, 2, 3, 4] == published(mock, topic, 4)


@pytest.mark.usefixtures("brisk")
def test_what_only_a_part_of_the_cluster_takes_is_published_once(tmp_path: Path) -> None:
    """It passes on, and only the rest is parked. After the first failure nothing is waited for any more."""
    with mock_cluster(2) as halved:
        topic = halved.topic(2)
        halved.tell("partition_set_leader", topic, c_int(0), c_int(1))
        halved.tell("partition_set_leader", topic, c_int(1), c_int(2))
        halved.tell("broker_set_down", c_int(2))
        begun = time.monotonic()
        record = site(tmp_path, halved, topic, key="n").batch(numbered(0, 8))
        assert time.monotonic() - begun < 9.0
        passed = [row["n"] for row in left(record, 2)]
        parked = [row["n"] for letter in record.dead for row in letter.events.to_pylist()]
        assert 8 > len(passed) > 0
        assert [*range(8)] == sorted(passed + parked)
        halved.tell("broker_set_up", c_int(2))
        assert passed == published(halved, topic, len(passed))


@pytest.mark.usefixtures("patient")
def test_a_dead_cluster_is_waited_for_once_a_batch(
    tmp_path: Path, mock: KafkaBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shortly, and all events are parked with one reason; once it is back, the next batch is published."""
    # While it is there, it may be slow on a busy machine.
    monkeypatch.setattr(kafka, "_DELIVERY_SECONDS", BOUND)
    topic = mock.topic()
    publishing = site(tmp_path, mock, topic)
    assert 3 == len(publishing.run(numbered(0, 3)))
    mock.tell("broker_set_down", c_int(1))
    with monkeypatch.context() as brisk:
        brisk.setattr(kafka, "_CONNECT_SECONDS", 3.0)
        brisk.setattr(kafka, "_DELIVERY_SECONDS", 1.0)
        for _ in range(2):
            begun = time.monotonic()
            reasons = publishing.parked(numbered(3, 100))
            assert time.monotonic() - begun < 9.0
            assert 97 == len(reasons)
            (reason,) = set(reasons)
            assert reason.startswith(f"{UNREACHABLE} {topic!r} cannot be written: ")
    mock.tell("broker_set_up", c_int(1))
    assert 3 == len(publishing.run(numbered(100, 103)))
    assert [*range(3), *range(100, 103)] == published(mock, topic, 6)


def test_a_slow_cluster_holds_a_batch_up_only_for_a_while(
    tmp_path: Path, mock: KafkaBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has taken until then passes on, and the rest is parked."""
    topic = mock.topic()
    monkeypatch.setattr(kafka, "_AT_ONCE", 1)
    monkeypatch.setattr(kafka, "_BATCH_SECONDS", 1.5)
    mock.tell("broker_set_rtt", c_int(1), c_int(100))
    begun = time.monotonic()
    record = site(tmp_path, mock, topic).batch(numbered(0, 100))
    assert time.monotonic() - begun < 9.0
    passed = [row["n"] for row in left(record, 2)]
    assert 100 > len(passed) > 0
    mock.tell("broker_set_rtt", c_int(1), c_int(0))
    assert passed == published(mock, topic, len(passed))
    (reason,) = {letter.reason for letter in record.dead}
    assert reason.endswith(f"the Kafka topic {topic!r} cannot be written: it is too slow for the events of a batch")


def test_a_cluster_that_says_nothing_is_waited_for_three_seconds(tmp_path: Path) -> None:
    """The password is not shown."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        brokers = KafkaBrokers([f"127.0.0.1:{silent.getsockname()[1]}"])
        publishing = site(tmp_path, brokers, "t", secret=keep_secret(tmp_path, "login", "me:sesame"))
        begun = time.monotonic()
        (reason,) = publishing.parked(numbered(0, 1))
    assert time.monotonic() - begun < 6.0
    assert reason == (
        f"{UNREACHABLE} 't' cannot be written: no broker answers; check `brokers`, and whether they want `tls` or a "
        "login"
    )


def test_a_topic_has_to_be_there(tmp_path: Path, mock: KafkaBrokers) -> None:
    """A name with a slip makes no topic."""
    topic = mock.topic()
    mock.tell("topic_set_error", topic, c_int(3))
    (reason,) = site(tmp_path, mock, topic).parked(numbered(0, 1))
    expected = f"{UNREACHABLE} {topic!r} cannot be written: it has no such topic; create it, or correct `topic`"
    assert expected == reason


BARRED = (
    "its host is not on the internet; tasks may connect to it only if an operator lists the host or its network in the "
    "file 'reachable' of the root"
)


def test_a_broker_of_the_operator_is_barred(tmp_path: Path) -> None:
    """Before a client is made."""
    publishing = Worksite(tmp_path, "kafka_publish", FIELDS, brokers=["localhost:9092"], topic="t")
    expected = f"{UNREACHABLE} 't' cannot be written: its broker 'localhost' cannot be used: {BARRED}"
    assert {expected} == set(publishing.parked(numbered(0, 2)))


def test_a_broker_that_the_cluster_names_may_be_barred_too(tmp_path: Path, mock: KafkaBrokers) -> None:
    """Nothing is sent."""
    topic = mock.topic()
    mock.tell("broker_set_host_port", c_int(1), "10.0.0.1", c_int(9092))
    (reason,) = site(tmp_path, mock, topic).parked(numbered(0, 1))
    assert f"{UNREACHABLE} {topic!r} cannot be written: its broker '10.0.0.1' cannot be used: {BARRED}" == reason


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"ca": "sesame", "tls": True}, "`ca` cannot be read"),
        ({"secret": "sesame"}, "the secret 'login' is not `user:password`; put it so"),
        ({"secret": "me:"}, "the secret 'login' is not `user:password`; put it so"),
    ],
)
def test_a_config_that_cannot_be_used_says_why(
    tmp_path: Path, mock: KafkaBrokers, config: dict[str, Any], why: str
) -> None:
    """And shows no secret."""
    if "secret" in config:
        config = {**config, "secret": keep_secret(tmp_path, "login", config["secret"])}
    (reason,) = site(tmp_path, mock, "t", **config).parked(numbered(0, 1))
    assert why in reason
    assert "sesame" not in reason


def test_the_package_that_is_missing_is_named(
    tmp_path: Path, mock: KafkaBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the extra."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    (reason,) = site(tmp_path, mock, "t").parked(numbered(0, 1))
    assert reason.startswith("Kafka needs confluent-kafka (")
    assert reason.endswith("; install braid[kafka] on every worker")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.usefixtures("patient")
def test_a_cluster_may_want_a_login(tmp_path: Path, mock: KafkaBrokers, mechanism: str) -> None:
    """It is in a secret, which nothing shows. What refuses it is not waited for."""
    topic = mock.topic()
    with entrance(mock, login=Login("me", "open:sesame")) as closed:
        login = keep_secret(tmp_path, "login", "me:open:sesame")
        assert 3 == len(site(tmp_path, closed, topic, secret=login, mechanism=mechanism).run(numbered(0, 3)))
        wrong = keep_secret(tmp_path, "wrong", "me:simsim")
        (reason,) = site(tmp_path, closed, topic, secret=wrong, mechanism=mechanism).parked(numbered(3, 4))
    refusal = "it refuses the login; check the secret and `mechanism`"
    assert f"{UNREACHABLE} {topic!r} cannot be written: {refusal}" == reason
    assert [0, 1, 2] == published(mock, topic, 3)


@pytest.mark.usefixtures("patient")
def test_a_cluster_with_tls_has_to_be_certified(tmp_path: Path, mock: KafkaBrokers) -> None:
    """By the authority in `ca`, for the host that was named."""
    needs.openssl()
    topic, authority, other = mock.topic(), Authority(tmp_path / "authority"), Authority(tmp_path / "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.certify("kafka", "IP:127.0.0.1"))
    with entrance(mock, context) as encrypted:
        ca = authority.certificate.read_text()
        assert 3 == len(site(tmp_path, encrypted, topic, tls=True, ca=ca).run(numbered(0, 3)))
        for config in ({"ca": other.certificate.read_text()}, {}):
            (reason,) = site(tmp_path, encrypted, topic, tls=True, **config).parked(numbered(3, 4))
            assert reason.startswith(f"{UNREACHABLE} {topic!r} cannot be written: its certificate is not valid here; ")
        allow(tmp_path, "127.0.0.1", "localhost")
        elsewhere = KafkaBrokers([encrypted.addresses[0].replace("127.0.0.1", "localhost")])
        (reason,) = site(tmp_path, elsewhere, topic, tls=True, ca=ca).parked(numbered(3, 4))
        assert "its certificate is not valid here" in reason
    assert [0, 1, 2] == published(mock, topic, 3)
