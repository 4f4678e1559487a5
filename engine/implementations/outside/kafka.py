"""Kafka: a task that publishes events on a topic of a cluster."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from bridge.kafka_cluster import CHECKED_EVERY, KafkaCluster, KafkaTrouble, NoKafka
from bridge.output_messages import event_texts
from engine.behaviour import Behaviour, Implementation, NoBehaviour, PortEmission
from engine.implementations.values import check_present, with_receipts
from engine.records.state import Staged
from engine.side_effect import ActingBehaviour, EventNames, OutsideUnreachable
from engine.tasks import outside as described

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

WRITER, EVENT = "braid-writer", "braid-event"
"""The headers with the name of the task's instance, and with that of the event, which is unique for the writer."""
_CONNECT_SECONDS = 3.0
"""The seconds that a cluster may take to say which brokers it has."""
_DELIVERY_SECONDS = 5.0
"""The seconds that a cluster may take for the messages of a call, far less than a task may take."""
_BATCH_SECONDS = 10.0
"""The seconds after which no more messages of a batch are sent, for a cluster that is slow."""
_AT_ONCE = 50_000
"""The most messages that wait to be sent, half of what librdkafka has room for."""
_LARGEST_MESSAGE = 10_000_000
"""Bytes of a message with its headers; what the cluster takes is mostly less."""
_OF_THE_EVENT = frozenset({"INVALID_MSG", "INVALID_RECORD", "MSG_SIZE_TOO_LARGE", "_BAD_MSG"})
"""Errors that other events do not share."""


class Undelivered(RuntimeError):
    """A cluster has not taken an event, but has taken others of its batch. Says why."""


class KafkaMessage(NamedTuple):
    """An event as it is published."""

    name: str
    key: bytes | None
    value: bytes


class TopicWriter:
    """Publishes messages on a topic. It connects when it is needed, and anew after a failure."""

    def __init__(self, config: described.KafkaPublishConfig) -> None:
        self._topic = config.topic
        try:
            self._cluster = KafkaCluster(config, config.in_host.addresses)
        except NoKafka as error:
            raise NoBehaviour(f"{error} on every worker") from None
        self._producer: Producer | None = None
        self._checked = 0.0
        """When the cluster's brokers were checked last, in seconds of the monotonic clock."""
        self._batch = ""
        self._receipts: dict[str, str] = {}
        """The receipts of the batch's messages that the cluster has, by the names of their events."""
        self._trouble = ""
        """Why no more messages of the batch are sent; empty while they are."""
        self._late = 0.0
        """When no more are sent, in seconds of the monotonic clock."""

    def write(self, batch: str, writer: str, messages: Sequence[KafkaMessage]) -> list[str]:
        """Publish messages of a batch, and wait until the cluster has them; returns their receipts.

        If it takes only some, the kernel finds them by smaller calls. So those that it has are not sent again, and
        after the first failure of a batch it is not waited for any more.
        """
        if batch != self._batch:
            self._batch, self._receipts, self._trouble = batch, {}, ""
            self._late = time.monotonic() + _BATCH_SECONDS
        waiting = [message for message in messages if message.name not in self._receipts]
        try:
            for first in range(0, 0 if self._trouble else len(waiting), _AT_ONCE):
                self._send(self._connected(), writer, waiting[first : first + _AT_ONCE])
        except KafkaTrouble as trouble:
            self._trouble = f"the Kafka topic {self._topic!r} cannot be written: {trouble}"
            self._disconnect()
        if any(message.name not in self._receipts for message in waiting):
            # No event is at fault, but those that the cluster has are not to be parked with the others.
            raise Undelivered(self._trouble) if self._receipts else OutsideUnreachable(self._trouble)
        return [self._receipts[message.name] for message in messages]

    def _connected(self) -> "Producer":
        """The producer, while there is time left for the batch."""
        if time.monotonic() > self._late:
            raise KafkaTrouble("it is too slow for the events of a batch")
        if self._producer is None:
            self._producer = self._cluster.producer(
                {
                    "acks": "all",
                    "enable.idempotence": True,
                    "message.timeout.ms": int(_DELIVERY_SECONDS * 1_000),
                    "message.max.bytes": _LARGEST_MESSAGE,
                    # As clients in Java do, so that a key is in the same partition whoever sends it.
                    "partitioner": "murmur2_random",
                }
            )
            self._checked = float("-inf")
        if (now := time.monotonic()) - self._checked >= CHECKED_EVERY:
            self._cluster.partitions(self._producer, _CONNECT_SECONDS, is_new=True)
            self._checked = now
        return self._producer

    def _disconnect(self) -> None:
        """Let the connection go, and all that waits to be sent; the next call begins anew."""
        if self._producer is not None:
            self._producer.purge()
            self._producer.close()
            self._producer = None

    def _send(self, producer: "Producer", writer: str, messages: Iterable[KafkaMessage]) -> None:
        failures: dict[str, KafkaError] = {}
        for message in messages:
            self._produce(producer, writer, message, failures)
        producer.flush(_DELIVERY_SECONDS + 1)
        if refused := [error for error in failures.values() if error.name() in _OF_THE_EVENT]:
            raise ValueError(f"the Kafka topic {self._topic!r} refuses the message: {refused[0].name()}")
        if failures:
            raise self._cluster.trouble(next(iter(failures.values())), producer)
        if len(producer):
            raise KafkaTrouble("it does not answer in time")

    def _produce(
        self, producer: "Producer", writer: str, message: KafkaMessage, failures: "dict[str, KafkaError]"
    ) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an optional package

        def delivered(error: "KafkaError | None", sent: "Message") -> None:
            if error is None:
                self._receipts[message.name] = f"{self._topic}/{sent.partition()}/{sent.offset()}"
            else:
                failures[message.name] = error

        try:
            producer.produce(
                self._topic,
                message.value,
                message.key,
                headers=[(WRITER, writer.encode()), (EVENT, message.name.encode())],
                on_delivery=delivered,
            )
        except KafkaException as refusal:
            failures[message.name] = refusal.args[0]


def _kafka_publish(config: described.KafkaPublishConfig) -> Behaviour:
    """A message is the event as JSON. With `key`, it has that field as its key; without, it goes to any partition.

    It has two headers that name its event: `braid-writer`, the task, and `braid-event`, which is unique for it. Events
    are passed on once all replicas that are in step have them (`acks=all`, idempotent). If a worker dies before its
    batch is recorded, the batch is published again under the same names, so consumers drop what they have. Events of
    one key are in one partition in their order, those that come again too. The receipt is topic, partition and offset.

    The topic has to be there. Brokers may be on the internet, or what an operator lists in `reachable`; that holds for
    those that the cluster names, too. The task needs the extra `kafka` on every worker.

    A cluster that does not answer holds a batch up for three seconds, or for six if it stops in the middle of one; a
    slow one for some ten. Its events are dead letters then, also those that it took without saying so.
    """
    writer = TopicWriter(config)

    def publish(_port: str, events: pa.RecordBatch, _state: Staged, names: EventNames) -> Mapping[str, PortEmission]:
        keys: Sequence[bytes | None] = [None] * len(events)
        if config.key is not None:
            check_present(events, config.key)
            keys = [str(key).encode() for key in events.column(config.key).to_pylist()]
        messages = list(map(KafkaMessage, names.texts(), keys, event_texts(events)))
        return {"out": PortEmission(with_receipts(events, writer.write(names.batch, names.writer, messages)))}

    return ActingBehaviour(act=publish)


kafka_publish = Implementation(type=described.KAFKA_PUBLISH, make=_kafka_publish)
