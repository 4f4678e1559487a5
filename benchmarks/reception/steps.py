"""The steps of receiving, each alone, and the decoders of all formats: microseconds per event."""

import base64
import io
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from paho.mqtt.enums import MQTTProtocolVersion

from benchmarks.instruments import scratch_folder
from benchmarks.reception.backlog import payloads
from benchmarks.reception.process import BACKLOG_TOPIC, RAW_FIELDS
from bridge import Item, Spool
from bridge.formats.decoders import Decoder, decoder
from bridge.formats.sparkplug_decoder import SparkplugDecoder
from bridge.formats.sparkplug_messages import Payload
from bridge.messages import Message
from bridge.raw_events import Unfit, events_in
from bridge.source_topics import events_on
from bridge.spools.log import packed
from bridge.transport.mqtt_rounds import usual_messages
from dags import Kind, Schema
from dags.message_formats import (
    JSON,
    AvroMessages,
    CsvMessages,
    JsonLinesMessages,
    MessageFormat,
    MsgpackMessages,
    ProtobufMessages,
    RawMessages,
    SenmlMessages,
    SparkplugMessages,
    TextMessages,
)
from dags.source_topics import source_topic

Event: TypeAlias = dict[str, Any]
_EVENTS = 4_000
_TIMES = 30


def steps(per_message: int) -> dict[str, float]:
    """Each step of four thousand events, which become one file."""
    messages, schema = payloads(_EVENTS, per_message), Schema.of(RAW_FIELDS)
    packets = b"".join(_packet(payload, number) for number, payload in enumerate(messages, 1))
    batch, _ = events_in(messages, schema)
    levels = source_topic("plant/{machine}/temperature")
    several = [Message(f"plant/{at % 1_000}/temperature", payload, at) for at, payload in enumerate(messages)]
    with_level = schema.plus("machine", Kind.STRING)
    item = Item(count=_EVENTS, stamp=0, payload=packed(batch))
    read = partial(usual_messages, protocol=MQTTProtocolVersion.MQTTv5, first_token=0, most=_EVENTS)
    with scratch_folder() as folder:
        spool = Spool(folder, most_bytes=1 << 40)
        microseconds = {
            "packets": _timed(lambda: read(packets, 0)),
            "JSON to Arrow": _timed(lambda: events_in(messages, schema)),
            "JSON of 1,000 topics to Arrow, with a level": _timed(lambda: events_on(levels, several, with_level)),
            "Arrow to bytes": _timed(lambda: packed(batch)),
            "file": _timed(lambda: spool.append([item])),
        }
        spool.close()
    return microseconds


def _lines(events: Sequence[Event], *, names: bool = False, quoted: bool = False) -> bytes:
    rows = [",".join(f'"{value}"' if quoted else str(value) for value in event.values()) for event in events]
    return "\n".join([",".join(RAW_FIELDS)] * names + rows).encode()


def _senml(events: Sequence[Event]) -> bytes:
    base = {"bn": "city/", "bt": 1_700_000_000}
    records = [{"n": event["sensor"], "v": event["t"], "t": place} for place, event in enumerate(events)]
    return json.dumps([base | records[0], *records[1:]]).encode()


_AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": name, "type": str(kind).replace("float", "double")} for name, kind in RAW_FIELDS.items()],
}


def _avro(events: Sequence[Event]) -> bytes:
    import fastavro  # noqa: PLC0415 - an optional package, for this format only

    stream = io.BytesIO()
    if len(events) == 1:
        fastavro.schemaless_writer(stream, fastavro.parse_schema(_AVRO), events[0])
    else:
        fastavro.writer(stream, fastavro.parse_schema(_AVRO), events)
    return stream.getvalue()


def _message_type() -> ProtobufMessages:
    types = {Kind.STRING: FieldDescriptorProto.TYPE_STRING, Kind.FLOAT: FieldDescriptorProto.TYPE_DOUBLE}
    kind = DescriptorProto(name="Event")
    for number, (name, field_kind) in enumerate(RAW_FIELDS.items(), 1):
        label = FieldDescriptorProto.LABEL_OPTIONAL
        kind.field.add(name=name, number=number, type=types[field_kind], label=label)
    file = FileDescriptorProto(name="event.proto", syntax="proto3", message_type=[kind])
    text = base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()
    return ProtobufMessages(descriptor=text, message="Event", delimited=True)


_PROTOBUF = _message_type()


def _protobuf(events: Sequence[Event]) -> bytes:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(base64.b64decode(_PROTOBUF.descriptor)).file:
        pool.AddSerializedFile(file.SerializeToString())
    event_class = GetMessageClass(pool.FindMessageTypeByName(_PROTOBUF.message))
    written = [event_class(**event).SerializeToString() for event in events]
    # None of them has more than 127 bytes, so their lengths take a byte each.
    return b"".join(bytes([len(text)]) + text for text in written)


def _sparkplug(per_message: int) -> tuple[Decoder, list[bytes]]:
    """What reads data with numbers for the names of their metrics, and such data."""
    decode = SparkplugDecoder(SparkplugMessages(metrics="rows"), Schema.of(name=Kind.STRING, value=Kind.FLOAT))
    names = [{"name": f"metric{at}", "alias": at, "datatype": 10, "double_value": 0.0} for at in range(per_message)]
    decode([Message("spBv1.0/plant/NBIRTH/press", Payload(seq=0, metrics=names).SerializeToString(), 0)])
    values = [{"alias": at, "double_value": at / 7} for at in range(per_message)]
    data = Payload(seq=1, timestamp=1_700_000_000_000, metrics=values).SerializeToString()

    def decoded(messages: Sequence[bytes]) -> tuple[pa.RecordBatch, tuple[Unfit, ...]]:
        content = decode([Message("spBv1.0/plant/NDATA/press", message, 0) for message in messages])
        return content.events, content.unfit

    return decoded, [data] * (_EVENTS // per_message)


_COLUMNS = CsvMessages(columns=tuple(RAW_FIELDS))
_FORMATS: Mapping[str, tuple[MessageFormat, Callable[[Sequence[Event]], bytes]]] = {
    "json": (JSON, lambda events: json.dumps(events if len(events) > 1 else events[0]).encode()),
    "jsonl": (JsonLinesMessages(), lambda events: "\n".join(map(json.dumps, events)).encode()),
    "csv": (_COLUMNS, _lines),
    "csv with names": (CsvMessages(), partial(_lines, names=True)),
    "csv in quotes": (_COLUMNS, partial(_lines, quoted=True)),
    "senml": (SenmlMessages(), _senml),
    "msgpack": (
        MsgpackMessages(),
        lambda events: msgspec.msgpack.encode(events if len(events) > 1 else events[0]),
    ),
    "avro": (AvroMessages(writer_schema=_AVRO), _avro),
    "protobuf": (_PROTOBUF, _protobuf),
}
"""Formats, and what writes events in them."""


def decoding(per_message: int) -> dict[str, float]:
    """What it takes to read four thousand events in each format; text and bytes are one field a message."""
    events: list[Event] = json.loads(b"".join(payloads(_EVENTS, _EVENTS)))
    schema = Schema.of(RAW_FIELDS)
    ways = {
        name: (
            decoder(messages, Schema.of(n=Kind.STRING, v=Kind.FLOAT, t=Kind.TIMESTAMP) if name == "senml" else schema),
            [write(events[at : at + per_message]) for at in range(0, _EVENTS, per_message)],
        )
        for name, (messages, write) in _FORMATS.items()
    }
    ways["sparkplug"] = _sparkplug(per_message)
    if per_message == 1:
        ways["text"] = decoder(TextMessages(field="t"), schema), [str(event["t"]).encode() for event in events]
        ways["raw"] = decoder(RawMessages(field="sensor"), schema), [event["sensor"].encode() for event in events]
    for name, (decode, messages) in ways.items():
        if (len(decode(messages)[0]), decode(messages)[1]) != (_EVENTS, ()):
            raise RuntimeError(f"{name}: not all events are read")
    return {name: _timed(partial(decode, messages)) for name, (decode, messages) in ways.items()}


def _packet(payload: bytes, mid: int) -> bytes:
    topic = BACKLOG_TOPIC.encode()
    body = len(topic).to_bytes(2) + topic + mid.to_bytes(2) + b"\0" + payload
    length, left = bytearray(), len(body)
    while left > 0x7F:  # noqa: PLR2004 - seven bits a byte
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([0x32, *length, left]) + body


def _timed(act: Callable[[], object]) -> float:
    """Microseconds of CPU per event, as the median."""
    times = []
    for _ in range(_TIMES):
        begun = time.thread_time()
        act()
        times.append(time.thread_time() - begun)
    return round(1e6 * statistics.median(times) / _EVENTS, 3)
