"""Brokers of Kafka for tests: the mock cluster of librdkafka, which listens on this machine and can be made to fail.

It knows neither logins, TLS nor transactions. `BRAID_TEST_KAFKA=host:port` names a broker that the tests of plain
reading and writing use in its place.
"""

import ctypes
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

BOUND = 30.0
"""Seconds for which a test waits."""
_QUIET = {"log_level": 0}
_NUMBERS = count()


class Record(NamedTuple):
    """A record of a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


@cache
def _library() -> Any:
    folder = Path(confluent_kafka.__file__).parent
    (path,) = [*folder.parent.glob("confluent_kafka.libs/librdkafka*"), *folder.glob(".dylibs/librdkafka*")]
    library = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class KafkaBrokers:
    """A cluster for one test."""

    def __init__(self, addresses: Sequence[str], mock: ctypes.c_void_p | None = None) -> None:
        self.addresses = tuple(addresses)
        self._mock = mock

    def topic(self, partitions: int = 1) -> str:
        """A new topic."""
        name = f"t{os.getpid()}.{next(_NUMBERS)}"
        self.create(name, partitions)
        return name

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        if self._mock is not None:
            self.tell("topic_create", topic, ctypes.c_int(partitions), ctypes.c_int(1))
        else:
            admin = AdminClient(self._settings())
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(BOUND)

    def tell(self, what: str, *values: Any) -> None:
        """Call a function of the mock cluster."""
        assert self._mock is not None
        texts = [value.encode() if isinstance(value, str) else value for value in values]
        assert 0 == getattr(_library(), f"rd_kafka_mock_{what}")(self._mock, *texts)

    def send(
        self, topic: str, *values: bytes | None, partition: int = 0, key: bytes | None = None, login: str = ""
    ) -> None:
        """Write records to a partition."""
        user, _, password = login.partition(":")
        logging_in = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password,
        }
        producer = Producer({**self._settings(), **(logging_in if login else {})})
        for value in values:
            producer.produce(topic, value, key, partition)
        assert 0 == producer.flush(BOUND)

    def read(self, topic: str, most: int) -> list[Record]:
        """The records of a topic, by partition; fails if there are not so many soon, or more."""
        with self._reading(topic) as consumer:
            records = list[Record]()
            until = time.monotonic() + BOUND
            while len(records) < most and time.monotonic() < until:
                records += _records(consumer.consume(most, 0.1))
            records += _records(consumer.consume(1, 0.3))
        assert most == len(records)
        return sorted(records, key=lambda record: record[:2])

    def read_all(self, topic: str) -> list[Record]:
        """The records that a topic has now, by partition."""
        with self._reading(topic) as consumer:
            records = list[Record]()
            while some := consumer.consume(1_000, 1.0):
                records += _records(some)
        return sorted(records, key=lambda record: record[:2])

    @contextmanager
    def _reading(self, topic: str) -> Iterator[Consumer]:
        consumer = Consumer({**self._settings(), "group.id": "test", "isolation.level": "read_committed"})
        partitions = consumer.list_topics(topic, timeout=BOUND).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        try:
            yield consumer
        finally:
            consumer.close()

    def _settings(self) -> dict[str, Any]:
        return {"bootstrap.servers": ",".join(self.addresses), **_QUIET}


def _records(messages: Sequence[Any]) -> Iterator[Record]:
    for message in messages:
        if error := message.error():
            raise KafkaException(error)
        headers = dict(message.headers() or [])
        yield Record(message.partition(), message.offset(), message.key(), message.value(), headers)


@contextmanager
def mock_cluster(brokers: int = 1) -> Iterator[KafkaBrokers]:
    """The mock cluster."""
    library = _library()
    conf = library.rd_kafka_conf_new()
    text = ctypes.create_string_buffer(500)
    assert 0 == library.rd_kafka_conf_set(ctypes.c_void_p(conf), b"log_level", b"0", text, 500)
    client = ctypes.c_void_p(library.rd_kafka_new(0, ctypes.c_void_p(conf), text, ctypes.c_size_t(500)))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(client, brokers))
    try:
        addresses = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
        yield KafkaBrokers(addresses.split(","), cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)


@contextmanager
def any_cluster() -> Iterator[KafkaBrokers]:
    """The cluster that the environment names, or else the mock cluster."""
    if named := os.environ.get("BRAID_TEST_KAFKA"):
        yield KafkaBrokers(named.split(","))
        return
    with mock_cluster() as made:
        yield made
