"""One measurement of receiving, in a process of its own, by the code of whichever checkout is on its path.

It subscribes and disconnects, so that the broker keeps what is published next. Asked to go on, it receives that, and
prints what it took.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import psutil
import pyarrow as pa
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridge import Item, Spool, SpoolFeed, SystemClock, Unread
from bridge.raw_events import events_in
from bridge.spools.log import packed
from bridge.transport.address import Address
from dags import Kind, Schema
from engine.host.reception import Receptions

RAW_FIELDS: Mapping[str, Kind] = {"sensor": Kind.STRING, "t": Kind.FLOAT, "sent": Kind.FLOAT}
BACKLOG_TOPIC = "raw/t"
BACKLOG_AWAITED = "ready\n"
PLAIN_LOOP = "paho"
"""The way to receive that is measured beside Braid's: a plain loop over the library's callbacks."""
_MOST_UNACKNOWLEDGED = 4_000
_GROUPING = 0.05


def main(way: str, url: str, version: str, place: str, count: str) -> None:
    """Receive a backlog of so many events."""
    address, protocol, folder, events = Address.parse(url), MQTTProtocolVersion(int(version)), Path(place), int(count)
    spool = Spool(folder / "spool", most_bytes=1 << 40)
    receives = _plain(address, protocol, spool) if way == PLAIN_LOOP else _braid(address, protocol, folder, spool)
    with receives():
        pass
    sys.stdout.write(BACKLOG_AWAITED)
    sys.stdout.flush()
    sys.stdin.readline()
    # Loads what it needs, which is as much as ten thousand events.
    events_in([b'{"t":1}'], Schema.of(RAW_FIELDS))
    pa.RecordBatch.from_pylist([{"t": 1}])
    before, begun = _cpu(), time.monotonic()
    with receives():
        while spool.end < events:
            time.sleep(0.02)
        took, after = time.monotonic() - begun, _cpu()
    used = {name: after[name] - before.get(name, 0.0) for name in after}
    files = len(list((folder / "spool" / "log").glob("0*")))
    spool.close()
    micro = {name: round(1e6 * seconds / events, 3) for name, seconds in used.items()}
    print(json.dumps({"us_per_event": micro, "events_per_s": round(events / took), "files": files}), flush=True)


def _cpu() -> dict[str, float]:
    """Seconds of CPU: of the whole process, and of its threads by what they do."""
    cpu = {"all": time.process_time()}
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    for used in psutil.Process().threads():
        name = names.get(used.id, "")
        part = "reads packets" if name.startswith("paho") else "spools" if name.startswith("receives") else "else"
        cpu[part] = cpu.get(part, 0.0) + used.user_time + used.system_time
    return cpu


def _braid(address: Address, protocol: MQTTProtocolVersion, folder: Path, spool: Spool) -> Callable[[], Any]:
    receptions = Receptions(folder, "bench", address, protocol, on_unread=_fail, clock=SystemClock())

    @contextmanager
    def receives() -> Iterator[None]:
        feed = SpoolFeed(spool=spool, schema=Schema.of(RAW_FIELDS))
        # With or without an argument: an older checkout passes none.
        due = lambda *_after: time.monotonic()  # noqa: E731 - as short as what it says
        received = receptions.begin(BACKLOG_TOPIC, {BACKLOG_TOPIC: feed}, due=due, on_unread=_fail, on_trouble=_fail)
        try:
            yield
        finally:
            received.stop()

    return receives


def _plain(address: Address, protocol: MQTTProtocolVersion, spool: Spool) -> Callable[[], Any]:
    """A client of the library, a callback for each message, and groups of them spooled together."""

    @contextmanager
    def receives() -> Iterator[None]:
        waiting: list[paho.MQTTMessage] = []
        subscribed, stopped = threading.Event(), threading.Event()
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id="bench-plain",
            protocol=protocol,
            manual_ack=True,
            clean_session=None if protocol is MQTTProtocolVersion.MQTTv5 else False,
        )

        def subscribe(*_arguments: Any) -> None:
            client.subscribe(BACKLOG_TOPIC, qos=1)

        client.username_pw_set(address.user, address.password)
        client.on_connect = subscribe
        client.on_subscribe = lambda *_: subscribed.set()
        client.on_message = lambda _client, _data, message: waiting.append(message)
        session: dict[str, Any] = {}
        if protocol is MQTTProtocolVersion.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho ships it without types
            properties.SessionExpiryInterval = 3600
            properties.ReceiveMaximum = _MOST_UNACKNOWLEDGED
            session = {"clean_start": False, "properties": properties}

        def spools() -> None:
            while not stopped.wait(_GROUPING if len(waiting) < _MOST_UNACKNOWLEDGED else 0):
                if group := waiting[:]:
                    del waiting[: len(group)]
                    events = [event for message in group for event in _events(bytes(message.payload))]
                    batch = pa.RecordBatch.from_pylist(events)
                    spool.append([Item(count=len(batch), stamp=0, payload=packed(batch))])
                    for message in group:
                        client.ack(message.mid, message.qos)

        client.connect(address.host, address.port, **session)
        client.loop_start()
        thread = threading.Thread(target=spools, name="receives")
        thread.start()
        subscribed.wait()
        try:
            yield
        finally:
            stopped.set()
            thread.join()
            client.disconnect()
            client.loop_stop()

    return receives


def _events(payload: bytes) -> list[dict[str, Any]]:
    content = json.loads(payload)
    return content if isinstance(content, list) else [content]


def _fail(what: Unread | str) -> None:
    raise RuntimeError(what)


if __name__ == "__main__":
    main(*sys.argv[1:])
