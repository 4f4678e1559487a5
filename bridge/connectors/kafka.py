"""The client of a Kafka topic.

It reads all partitions by itself, in no group, and keeps its positions in the spool: of each partition the offset that
comes next. Offsets have holes where a topic is compacted, or where transactions ended. Of transactions only what was
committed is read.

A topic drops its oldest records whether they were read or not. What was dropped unread is reported, and reading goes on
with the oldest that there is.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from bridge.connectors.connector_run import ClientAssignment, ConnectorTrouble, TakenEvents
from bridge.kafka_cluster import CHECKED_EVERY, KafkaCluster, KafkaTrouble, NoKafka
from bridge.messages import LARGEST_RAW_MESSAGE
from bridge.raw_events import Unfit, arrow_schema, events_in, shown_text
from bridge.source_topics import with_made
from dags import Schema
from dags.kafka import KafkaConnector
from dags.message_formats import is_json

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

MOST_PARTITIONS = 1_000
"""Partitions of a topic: their positions are written with every file of the spool."""
_MOST_MESSAGES = 20_000
"""Records that are taken at once."""
_MOST_BYTES = LARGEST_RAW_MESSAGE
"""Bytes of their values after which no more are taken at once."""
_ASKED = 500
"""Records for which librdkafka is asked at once."""
_BUFFERED_KB = 16_000
"""What it fetches ahead."""
_ANSWER_SECONDS = 5.0
"""The seconds that a cluster may take for an answer."""
_NEWEST, _OLDEST = -1, -2
"""The times in Kafka's protocol for which it tells where a partition ends and begins."""
_OF_GROUPS = frozenset(
    {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "GROUP_AUTHORIZATION_FAILED", "NOT_COORDINATOR"}
)
"""Errors that do not matter, because nothing is read in a group; librdkafka wants to know who coordinates one."""
_SETTINGS = {
    "group.id": "braid",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "check.crcs": True,
    "fetch.max.bytes": _MOST_BYTES,
    "queued.max.messages.kbytes": _BUFFERED_KB,
}
_NO_VALUE = "the record has no value; name a field `key` in the connection to have an event of it"


_NO_TEXT = "the record's key is not UTF-8; leave `key` out of the connection, or write other keys"
_NO_FIELDS = b"{}"


class KafkaClient:
    """A connection to a topic, of which it reads all partitions."""

    def __init__(self, connector: KafkaConnector, assignment: ClientAssignment) -> None:
        self._topic = connector.topic
        self._key = connector.key
        self._schema, self._decode = assignment.schema, assignment.decode
        self._is_json = is_json(assignment.format)
        self._next: dict[int, int] = {}
        """The offset that comes next in each partition that is read."""
        self._missed: list[Unfit] = []
        """What was dropped unread, and is not reported yet."""
        try:
            self._cluster = KafkaCluster(connector, assignment.outside.addresses)
        except NoKafka as error:
            raise ConnectorTrouble(f"{error} on this host") from None
        with self._trouble():
            self._consumer = self._cluster.consumer(_SETTINGS)
        try:
            self._moved = self._begun(connector.start, assignment.positions)
            """The partitions whose positions are not in the spool yet."""
        except BaseException:
            self._consumer.close()
            raise

    def _begun(self, start: Literal["newest", "oldest"], positions: Mapping[str, int]) -> set[int]:
        """Begin to read; returns the partitions whose positions are not in the spool yet."""
        with self._trouble():
            partitions = self._partitions()
        kept = {partition: offset for partition in partitions if (offset := positions.get(str(partition))) is not None}
        added = [partition for partition in partitions if partition not in kept]
        # Once there are positions, a partition without one was added since.
        new = self._offsets(added, _NEWEST if start == "newest" and not positions else _OLDEST)
        self._begin({**kept, **new})
        return set(new)

    def take(self, seconds: float) -> TakenEvents | None:
        """The events of the records that came; at first only the positions at which it began."""
        self._look_for_partitions()
        messages = [] if self._moved else self._messages(seconds)
        events, unfit = self._events(messages)
        missed, self._missed = self._missed, []
        positions = {str(partition): self._next[partition] for partition in sorted(self._moved)}
        self._moved = set()
        if not positions:
            return None
        is_full = len(messages) >= _MOST_MESSAGES // 2
        return TakenEvents(events=events, unfit=(*missed, *unfit), positions=positions, is_full=is_full)

    def spooled(self) -> None:
        """Do nothing: the positions are in the spool."""

    def close(self, *, for_good: bool) -> None:  # noqa: ARG002 - a cluster keeps nothing for it
        """Disconnect."""
        self._consumer.close()

    def _partitions(self) -> list[int]:
        # One that reads is not asked for its errors, because it would answer with a record.
        partitions = self._cluster.partitions(self._consumer, _ANSWER_SECONDS, is_new=not self._next)
        if len(partitions) > MOST_PARTITIONS:
            raise KafkaTrouble(f"it has {len(partitions):,} partitions, and a source reads {MOST_PARTITIONS:,}")
        self._look_again = time.monotonic() + CHECKED_EVERY
        return partitions

    def _look_for_partitions(self) -> None:
        """Read partitions that were added, from their beginning."""
        if time.monotonic() < self._look_again:
            return
        with self._trouble():
            added = [partition for partition in self._partitions() if partition not in self._next]
        if added:
            self._begin(self._offsets(added, _OLDEST))
            self._moved.update(added)

    def _begin(self, offsets: Mapping[int, int]) -> None:
        """Go on with further partitions, or at other offsets."""
        self._next.update(offsets)
        self._consumer.assign([self._place(partition, offset) for partition, offset in self._next.items()])

    def _place(self, partition: int, offset: int) -> "TopicPartition":
        from confluent_kafka import TopicPartition  # noqa: PLC0415 - an optional package

        return TopicPartition(self._topic, partition, offset)

    def _offsets(self, partitions: Sequence[int], when: int) -> dict[int, int]:
        """The first or the next offset of partitions."""
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an optional package

        asked = [self._place(partition, when) for partition in partitions]
        with self._trouble():
            try:
                answers = self._consumer.offsets_for_times(asked, timeout=_ANSWER_SECONDS) if asked else []
            except KafkaException as error:
                raise self._cluster.trouble(error.args[0]) from None
            for answer in answers:
                if answer.error is not None:
                    raise self._cluster.trouble(answer.error)
        return {answer.partition: answer.offset for answer in answers}

    def _messages(self, seconds: float) -> "list[Message]":
        """The records that came, in the order of each partition."""
        first = self._consumer.poll(seconds)
        if first is None:
            with self._trouble():
                self._cluster.check()
            return []
        came, size = [first], len(first)
        while size < _MOST_BYTES and len(came) < _MOST_MESSAGES and (more := self._consumer.consume(_ASKED, 0)):
            came += more
            size += sum(map(len, more))
        return [message for message in came if self._is_next(message)]

    def _is_next(self, message: "Message") -> bool:
        """Note the position after a record; False if it is none, or was read already."""
        partition, offset = message.partition(), message.offset()
        if (error := message.error()) is not None:
            if error.name() == "_AUTO_OFFSET_RESET" and partition is not None:
                self._skip(partition)
            elif error.name() not in _OF_GROUPS:
                with self._trouble():
                    raise self._cluster.trouble(error)
            return False
        assert partition is not None and offset is not None  # noqa: S101, PT018 - a record has both
        if offset < self._next[partition]:
            return False
        self._next[partition] = offset + 1
        self._moved.add(partition)
        return True

    def _skip(self, partition: int) -> None:
        """Go on with the oldest record, because the next one is not there."""
        following, oldest = self._next[partition], self._offsets([partition], _OLDEST)[partition]
        if following < oldest:
            reason = "the topic dropped them before they were read; let it keep its records for longer"
            gone = Unfit(
                event=f"partition {partition}, offsets {following} to {oldest - 1}",
                reason=reason,
                count=oldest - following,
            )
            self._missed.append(gone)
        elif following > (end := self._offsets([partition], _NEWEST)[partition]):
            reason = (
                f"the partition ends before offset {end}, and {following} would come next, so the topic was created "
                "again; it is read from its beginning"
            )
            self._missed.append(Unfit(event=f"partition {partition}", reason=reason))
        else:
            oldest = following
        self._begin({partition: oldest})
        self._moved.add(partition)

    def _events(self, messages: "Sequence[Message]") -> tuple[pa.RecordBatch, Sequence[Unfit]]:
        if self._key is None:
            values = [value for message in messages if (value := message.value()) is not None]
            events, unfit = self._decode(values)
            empty = len(messages) - len(values)
            return events, (*unfit, Unfit(event="", reason=_NO_VALUE, count=empty)) if empty else unfit
        keyed, refused = list[_Keyed](), list[Unfit]()
        for message in messages:
            try:
                keyed.append(_Keyed(_text(message.key()), message.value()))
            except UnicodeDecodeError:
                refused.append(Unfit(event=shown_text(message.key() or b""), reason=_NO_TEXT))
        events, unread = self._with_keys(self._key, keyed)
        return events, (*refused, *unread)

    def _with_keys(self, field: str, records: Sequence["_Keyed"]) -> tuple[pa.RecordBatch, Sequence[Unfit]]:
        """The events of records, with the keys as a field."""
        own = Schema.of({name: kind for name, kind in self._schema.fields.items() if name != field})
        if self._is_json:
            ends = list[int]()
            values = [_NO_FIELDS if record.value is None else record.value for record in records]
            events, unfit = events_in(values, own, ends)
            counts = np.diff(np.array([0, *ends]))
            keys = np.repeat(np.array([record.key for record in records], object), counts)
            return with_made({field: pa.array(keys, pa.string())}, events, self._schema), unfit
        batches, refused = [_nulls(self._schema, 0)], list[Unfit]()
        for (key, is_empty), run in groupby(records, lambda record: (record.key, record.value is None)):
            values = [record.value or b"" for record in run]
            events, unread = (_nulls(own, len(values)), ()) if is_empty else self._decode(values)
            batches.append(with_made({field: pa.array([key] * len(events), pa.string())}, events, self._schema))
            refused += unread
        return pa.concat_batches(batches), refused

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        try:
            yield
        except KafkaTrouble as trouble:
            raise ConnectorTrouble(f"the Kafka topic {self._topic!r} cannot be read: {trouble}") from None


class _Keyed(NamedTuple):
    key: str | None
    value: bytes | None


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode()


def _nulls(schema: Schema, count: int) -> pa.RecordBatch:
    """Events without any field."""
    columns = arrow_schema(schema)
    return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in columns], schema=columns)
