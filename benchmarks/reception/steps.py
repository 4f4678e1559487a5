"""The steps of receiving, each alone: microseconds per event."""

import statistics
import time
from collections.abc import Callable
from functools import partial

from paho.mqtt.enums import MQTTProtocolVersion

from benchmarks.instruments import scratch_folder
from benchmarks.reception.backlog import payloads
from benchmarks.reception.process import BACKLOG_TOPIC, RAW_FIELDS
from bridge import Item, Spool
from bridge.raw_events import events_in
from bridge.spools.log import packed
from bridge.transport.mqtt_rounds import usual_messages
from dags import Schema

_EVENTS = 4_000
_TIMES = 30


def steps(per_message: int) -> dict[str, float]:
    """Each step of four thousand events, which become one file."""
    messages, schema = payloads(_EVENTS, per_message), Schema.of(RAW_FIELDS)
    packets = b"".join(_packet(payload, number) for number, payload in enumerate(messages, 1))
    batch, _ = events_in(messages, schema)
    item = Item(count=_EVENTS, stamp=0, payload=packed(batch))
    read = partial(usual_messages, protocol=MQTTProtocolVersion.MQTTv5, first_token=0, most=_EVENTS)
    with scratch_folder() as folder:
        spool = Spool(folder, most_bytes=1 << 40)
        microseconds = {
            "packets": _timed(lambda: read(packets, 0)),
            "JSON to Arrow": _timed(lambda: events_in(messages, schema)),
            "Arrow to bytes": _timed(lambda: packed(batch)),
            "file": _timed(lambda: spool.append([item])),
        }
        spool.close()
    return microseconds


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
