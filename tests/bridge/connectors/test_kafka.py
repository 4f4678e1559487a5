"""Records of Kafka's topics in spools: each exactly once, whatever is killed; and what is missing is reported."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from ctypes import c_int, c_int32, c_int64
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from bridge import Spool
from bridge.connectors import kafka
from bridge.connectors.connector_run import (
    ClientAssignment,
    ConnectorClient,
    ConnectorRun,
    ConnectorTrouble,
    TakenEvents,
)
from bridge.connectors.kafka import KafkaClient
from bridge.formats.decoders import decoder
from bridge.kafka_cluster import KafkaCluster
from bridge.raw_events import Unfit
from bridge.spools.deliveries import NOTHING_IN_DOUBT, InDoubt
from bridge.spools.log import unpacked
from bridge.spools.reader import read
from dags import Kind, Schema
from dags.kafka import KafkaConnector
from dags.message_formats import JSON, CsvMessages, MessageFormat
from engine.outside import HostOutside
from tests.kafka_brokers import BOUND, KafkaBrokers, any_cluster, mock_cluster
from tests.tasks.worksite import allow, keep_secret

FIELDS = {"n": Kind.INTEGER}


@pytest.fixture
def brokers() -> Iterator[KafkaBrokers]:
    """Any cluster."""
    with any_cluster() as made:
        yield made


@pytest.fixture
def mock() -> Iterator[KafkaBrokers]:
    """A cluster that can be told what to do."""
    with mock_cluster() as made:
        yield made


class Site:
    """A spool, and the connector that fills it."""

    def __init__(self, root: Path, brokers: KafkaBrokers, topic: str, **connector: Any) -> None:
        self.root = root
        self.format: MessageFormat = connector.pop("format", JSON)
        self.connector = KafkaConnector.model_validate(
            {"brokers": brokers.addresses, "topic": topic, **connector}, context={"outside": HostOutside(root)}
        )
        allow(root, "127.0.0.1")
        self.spool = Spool(root / "spool", most_bytes=1 << 30)
        self.unfit: list[Unfit] = []
        self.connecting: Callable[[Mapping[str, int], InDoubt], ConnectorClient] = self.connect

    def connect(self, positions: Mapping[str, int], in_doubt: InDoubt) -> KafkaClient:
        """What a host does."""
        schema = Schema.of({**FIELDS, **self.connector.made_fields})
        return KafkaClient(
            self.connector,
            ClientAssignment(
                stream="s",
                schema=schema,
                decode=decoder(self.format, Schema.of(FIELDS)),
                positions=positions,
                in_doubt=in_doubt,
                outside=HostOutside(self.root),
                format=self.format,
            ),
        )

    def client(self, **positions: int) -> KafkaClient:
        """A client alone; partitions are named as p0, p1, and so on."""
        return self.connect({name[1:]: offset for name, offset in positions.items()}, NOTHING_IN_DOUBT)

    def rows(self) -> list[dict[str, Any]]:
        """The events in the spool."""
        items = read(self.root / "spool", 0, 1 << 30)
        return [row for placed in items for row in unpacked(placed.item.payload).to_pylist()]

    def numbers(self) -> list[int]:
        return [row["n"] for row in self.rows()]

    def read_until(self, done: Callable[[], bool], also: Callable[[ConnectorRun], None] = lambda _run: None) -> None:
        """Let the connector run until something is so; fails if it never is."""
        reading = ConnectorRun(self.connecting, self.spool, on_unfit=self.unfit.append)
        thread = threading.Thread(target=reading.run)
        thread.start()
        try:
            soon(lambda: reading.has_begun or reading.link.error)
            also(reading)
            soon(done)
        finally:
            reading.stop()
            thread.join()


def soon(done: Callable[[], object]) -> None:
    until = time.monotonic() + BOUND
    while not done():
        assert time.monotonic() < until
        time.sleep(0.02)


def values(first: int, end: int) -> list[bytes]:
    return [b'{"n": %d}' % n for n in range(first, end)]


def taken(client: KafkaClient, seconds: float = BOUND) -> TakenEvents:
    """What comes next."""
    until = time.monotonic() + seconds
    while (arrived := client.take(0.2)) is None:
        assert time.monotonic() < until
    return arrived


def test_the_oldest_records_are_read_first_if_that_is_wanted(tmp_path: Path, brokers: KafkaBrokers) -> None:
    """Of all partitions, each in its order."""
    topic = brokers.topic(2)
    brokers.send(topic, *values(0, 50), partition=0)
    brokers.send(topic, *values(50, 80), partition=1)
    site = Site(tmp_path, brokers, topic, start="oldest")
    site.read_until(lambda: len(site.numbers()) >= 80)
    assert [*range(50)] == [n for n in site.numbers() if n < 50]
    assert [*range(50, 80)] == [n for n in site.numbers() if n >= 50]
    assert [] == site.unfit


def test_only_what_comes_from_now_on_is_read_otherwise(tmp_path: Path, mock: KafkaBrokers) -> None:
    """From the first connection on nothing is lost, even if nothing has come until the host dies."""
    topic = mock.topic(2)
    mock.send(topic, *values(0, 5))
    site = Site(tmp_path, mock, topic)
    site.read_until(lambda: "at/0" in site.spool.producers)
    mock.send(topic, *values(5, 8))
    mock.send(topic, *values(8, 9), partition=1)
    site.read_until(lambda: len(site.numbers()) >= 4)
    assert [5, 6, 7, 8] == sorted(site.numbers())


class Dying:
    """A client that is lost with what it takes at the second time."""

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._left = 2
        self.spooled, self.close = client.spooled, client.close

    def take(self, seconds: float) -> TakenEvents | None:
        """Take what came, or die with it."""
        arrived = self._client.take(seconds)
        if arrived is not None and len(arrived.events):
            self._left -= 1
            if not self._left:
                raise ConnectorTrouble("it died")
        return arrived


def test_what_was_taken_and_not_spooled_is_taken_again(tmp_path: Path, brokers: KafkaBrokers) -> None:
    """Whenever the host dies, each record is in the spool exactly once."""
    topic = brokers.topic(3)
    site = Site(tmp_path, brokers, topic, start="oldest")
    for part in range(3):
        brokers.send(topic, *values(100 * part, 100 * part + 60), partition=part)

    site.connecting = lambda *at: Dying(site.connect(*at))

    def send_more(_run: ConnectorRun) -> None:
        for part in range(3):
            brokers.send(topic, *values(100 * part + 60, 100 * part + 90), partition=part)

    site.read_until(lambda: len(site.numbers()) >= 270, send_more)
    numbers = site.numbers()
    assert [n for part in range(3) for n in range(100 * part, 100 * part + 90)] == sorted(numbers)
    for part in range(3):
        of_partition = [n for n in numbers if n // 100 == part]
        assert sorted(of_partition) == of_partition


KILLED = """
import os, signal, sys
from pathlib import Path
from bridge.connectors import kafka
from bridge.connectors.connector_run import ConnectorRun
from tests.bridge.connectors.test_kafka import Site
from tests.kafka_brokers import KafkaBrokers

kafka._MOST_MESSAGES, kafka._ASKED = 25, 25
root, address, topic, kill_at = sys.argv[1:]
site = Site(Path(root), KafkaBrokers([address]), topic, start="oldest")

class Dying:
    def __init__(self, *at):
        self.client, self.taken = site.connect(*at), 0
        self.spooled = self.client.spooled

    def take(self, seconds):
        arrived = self.client.take(seconds)
        if arrived is not None and len(arrived.events):
            self.taken += 1
            if self.taken == int(kill_at):
                os.kill(os.getpid(), signal.SIGKILL)
        return arrived

ConnectorRun(Dying, site.spool, on_unfit=print).run()
"""


def test_a_killed_host_reads_each_record_exactly_once(tmp_path: Path, mock: KafkaBrokers) -> None:
    """It is killed between taking records and spooling them, at the first, the second and the third time."""
    topic = mock.topic(2)
    for part in range(2):
        mock.send(topic, *values(1000 * part, 1000 * part + 200), partition=part)
    for kill_at in (1, 2, 3):
        command = [sys.executable, "-c", KILLED, str(tmp_path), *mock.addresses, topic, str(kill_at)]
        died = run(command, check=False)  # noqa: S603 - it is Python
        assert -signal.SIGKILL == died.returncode
    site = Site(tmp_path, mock, topic, start="oldest")
    assert 400 > len(site.numbers()) > 0
    site.read_until(lambda: len(site.numbers()) >= 400)
    assert [*range(200), *range(1000, 1200)] == sorted(site.numbers())


def test_new_partitions_are_read_from_their_beginning(
    tmp_path: Path, mock: KafkaBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if they were added while nothing was read. The topic has three, of which at first only some are seen."""
    topic, seen = mock.topic(3), [0]
    monkeypatch.setattr(kafka, "CHECKED_EVERY", 0.1)
    everything = KafkaCluster.partitions
    monkeypatch.setattr(
        KafkaCluster, "partitions", lambda *its, **more: [part for part in everything(*its, **more) if part in seen]
    )
    for part in range(3):
        mock.send(topic, *values(part, part + 1), partition=part)
    site = Site(tmp_path, mock, topic)

    def add(_run: ConnectorRun) -> None:
        soon(lambda: "at/0" in site.spool.producers)
        seen.append(1)

    site.read_until(lambda: site.numbers() == [1], add)
    seen.append(2)
    site.read_until(lambda: len(site.numbers()) == 2)
    assert [1, 2] == site.numbers()


def test_records_that_were_dropped_unread_are_reported(tmp_path: Path, mock: KafkaBrokers) -> None:
    """With how many they are; reading goes on with the oldest that there is, and beside it in other partitions."""
    topic = mock.topic(2)
    mock.send(topic, *values(0, 9))
    mock.tell("partition_delete_records", topic, c_int32(0), c_int64(6))
    client = Site(tmp_path, mock, topic).client(p0=2, p1=0)
    arrived = taken(client)
    expected = Unfit(
        event="partition 0, offsets 2 to 5",
        reason="the topic dropped them before they were read; let it keep its records for longer",
        count=4,
    )
    assert (expected,) == arrived.unfit
    assert {"0": 6} == arrived.positions
    mock.send(topic, *values(100, 101), partition=1)
    numbers = list[int]()
    while len(numbers) < 4:
        numbers += taken(client).events.column("n").to_pylist()
    client.close(for_good=False)
    assert [6, 7, 8, 100] == sorted(numbers)


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(tmp_path: Path, mock: KafkaBrokers) -> None:
    """That is reported too."""
    topic = mock.topic()
    mock.send(topic, *values(0, 3))
    client = Site(tmp_path, mock, topic).client(p0=7)
    arrived = taken(client)
    (unfit,) = arrived.unfit
    assert "partition 0" == unfit.event
    assert unfit.reason == (
        "the partition ends before offset 3, and 7 would come next, so the topic was created again; it is read from "
        "its beginning"
    )
    assert [0, 1, 2] == taken(client).events.column("n").to_pylist()
    client.close(for_good=False)


def drained(client: KafkaClient, end: int) -> tuple[list[dict[str, Any]], list[Unfit]]:
    """The events of the first partition up to an offset, and what is unfit."""
    rows, unfit, at = list[dict[str, Any]](), list[Unfit](), 0
    while at != end:
        arrived = taken(client)
        at = arrived.positions["0"] or 0
        rows += arrived.events.to_pylist()
        unfit += arrived.unfit
    client.close(for_good=False)
    return rows, unfit


NOT_UTF_8 = "the record's key is not UTF-8; leave `key` out of the connection, or write other keys"
NO_INTEGER = "the field 'n' should be of kind integer"


def test_keys_become_a_field(tmp_path: Path, brokers: KafkaBrokers) -> None:
    """Whatever an event has under that name; a record without a value is an event of its key."""
    topic = brokers.topic()
    for key, value in (
        (b"a", b'[{"n": 1, "k": "own", "u": 2}, {"n": 2}]'),
        (b"a", None),
        (None, b'{"n": 3}'),
        (b"\xff", b'{"n": 4}'),
        (b"b", b'[{"n": "warm"}, {"n": 6}]'),
        ("ü".encode(), b'{"n": 5}'),
    ):
        brokers.send(topic, value, key=key)
    rows, unfit = drained(Site(tmp_path, brokers, topic, key="k").client(p0=0), 6)
    assert rows == [
        {"k": "a", "n": 1, "_rest": '{"u":2}'},
        {"k": "a", "n": 2, "_rest": None},
        {"k": "a", "n": None, "_rest": None},
        {"k": None, "n": 3, "_rest": None},
        {"k": "b", "n": 6, "_rest": None},
        {"k": "ü", "n": 5, "_rest": None},
    ]
    assert sorted([NOT_UTF_8, NO_INTEGER]) == sorted(each.reason for each in unfit)


def test_keys_become_a_field_in_every_format(tmp_path: Path, brokers: KafkaBrokers) -> None:
    """Records are read together while their keys are equal."""
    topic = brokers.topic()
    for key, value in ((b"a", b"1\n2"), (b"a", b"3"), (b"a", None), (b"b", b"warm"), (None, b"4")):
        brokers.send(topic, value, key=key)
    site = Site(tmp_path, brokers, topic, key="k", format=CsvMessages(columns=("n",)))
    rows, unfit = drained(site.client(p0=0), 5)
    assert [("a", 1), ("a", 2), ("a", 3), ("a", None), (None, 4)] == [(row["k"], row["n"]) for row in rows]
    assert [NO_INTEGER] == [each.reason for each in unfit]


def test_records_without_a_value_are_counted_where_keys_are_no_field(tmp_path: Path, brokers: KafkaBrokers) -> None:
    """Messages may have any format."""
    topic = brokers.topic()
    brokers.send(topic, b"1\n2", None, None, b"3")
    site = Site(tmp_path, brokers, topic, start="oldest", format=CsvMessages(columns=("n",)))
    site.read_until(lambda: len(site.numbers()) >= 3)
    assert [1, 2, 3] == site.numbers()
    assert 2 == sum(unfit.count for unfit in site.unfit)
    assert {kafka._NO_VALUE} == {unfit.reason for unfit in site.unfit}


def test_a_cluster_that_goes_away_is_said_and_read_again_once_it_is_back(tmp_path: Path, mock: KafkaBrokers) -> None:
    """From where it was."""
    topic = mock.topic()
    mock.send(topic, *values(0, 3))
    site = Site(tmp_path, mock, topic, start="oldest")

    def fail(reading: ConnectorRun) -> None:
        soon(lambda: len(site.numbers()) == 3)
        mock.tell("broker_set_down", c_int(1))
        soon(lambda: reading.link.error)
        assert not reading.link.connected
        assert "no broker answers" in reading.link.error
        mock.tell("broker_set_up", c_int(1))
        mock.send(topic, *values(3, 5))

    site.read_until(lambda: len(site.numbers()) >= 5, fail)
    assert [*range(5)] == site.numbers()


@pytest.mark.parametrize(
    ("connector", "why"),
    [
        ({}, "it has no such topic; create it, or correct `topic`"),
        ({"brokers": ["10.0.0.1:9092"]}, "its broker '10.0.0.1' cannot be used: its host is not on the internet"),
        ({"tls": True, "ca": "sesame"}, "`ca` cannot be read"),
        ({"secret": "me@sesame"}, "the secret 'login' is not `user:password`; put it so"),
    ],
)
def test_what_cannot_be_read_says_why(tmp_path: Path, mock: KafkaBrokers, connector: dict[str, Any], why: str) -> None:
    """And shows no secret."""
    topic = mock.topic()
    mock.tell("topic_set_error", topic, c_int(3))
    if "secret" in connector:
        connector = {"secret": {**keep_secret(tmp_path, "login", connector["secret"]), "owner": "ann"}}
    brokers = KafkaBrokers(connector.get("brokers", mock.addresses))
    settings = {name: value for name, value in connector.items() if name != "brokers"}
    with pytest.raises(ConnectorTrouble) as refused:
        Site(tmp_path, brokers, topic, **settings).client()
    assert str(refused.value).startswith(f"the Kafka topic {topic!r} cannot be read: {why}")
    assert "sesame" not in str(refused.value)


def test_a_broker_that_the_cluster_names_may_be_barred(tmp_path: Path, mock: KafkaBrokers) -> None:
    """Nothing is read."""
    topic = mock.topic()
    mock.tell("broker_set_host_port", c_int(1), "10.0.0.1", c_int(9092))
    with pytest.raises(
        ConnectorTrouble, match=r"its broker '10\.0\.0\.1' cannot be used: its host is not on the inter"
    ):
        Site(tmp_path, mock, topic).client()


def test_a_partition_of_many_records_is_read_fast(tmp_path: Path, mock: KafkaBrokers) -> None:
    """In few files."""
    topic = mock.topic()
    mock.send(topic, *values(0, 50_000))
    site = Site(tmp_path, mock, topic, start="oldest")
    begun = time.monotonic()
    site.read_until(lambda: site.spool.end >= 50_000)
    assert time.monotonic() - begun < 20.0
    assert 50_000 == len(set(site.numbers()))
