"""Streams: what thousands of them cost one host at rest, and what others notice of one that is stuck.

    python -m benchmarks.streams [--quick]

Streams between jobs come over one connection, and raw streams over one for each. A host's sender and its spools are in
one process, with every stream from the one to the others over a broker. At rest nothing is sent. Then some streams
between jobs take events all the time, first alone, then beside one whose spool is full and whose producer sends on.
Prints a line per measurement; the last is one JSON object.
"""

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa
from paho.mqtt.enums import MQTTProtocolVersion

from benchmarks.instruments import Figures, percentiles, report, scratch_folder
from bridge import Message, SystemClock, commit
from bridge.broker import BrokerKind, start_broker
from bridge.broker_setup import mosquitto_program
from bridge.machine import allow_many_descriptors
from bridge.sender import Sender
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from bridge.wire import Emitted, Stream
from dags import Kind
from engine.host.reception import Receptions
from engine.host.spools import HostSpools
from engine.plan import Bridged, Ingress, Limits, Plan, Subscribed
from engine.records.job_folder import spool_folder

_USER = "braid"
_BUSY = 20
"""Streams that take events while latencies are measured."""
_PERIOD = 0.1
"""Seconds between two events of such a stream."""
_BEAT = 1.0
"""Seconds between two looks of a host at its spools."""


class _Host:
    """The parts of a host that send and receive streams between jobs."""

    def __init__(self, address: Address, root: Path) -> None:
        self.root = root
        self.latencies: deque[float] = deque()
        self._sent: dict[str, float] = {}
        self._ends: dict[Stream, int] = {}
        self._kept: dict[Stream, list[Emitted]] = {}
        clock = SystemClock()
        self._client = MqttClient(address, "bench-out", on_message=self._heard, on_connection=self._reconnected)
        self._sender = Sender(self._client)
        self._receptions = Receptions(root, "bench", address, MQTTProtocolVersion.MQTTv5, on_unread=_fail, clock=clock)
        self.spools = HostSpools(
            root, self._receptions, clock=clock, on_growth=self._grew, due=lambda _stream, _after: 0.0
        )
        self._thread = threading.Thread(target=self._sender.run, daemon=True)
        self._thread.start()
        self._client.start()

    def receive(self, number: int) -> None:
        """Have a raw stream received into a spool."""
        supply = Subscribed(topic=f"raw/{number}", fields={"n": Kind.INTEGER})
        plan = Plan(job="j", host="bench", version=1)
        self.spools.need(plan, Ingress(stream=f"raw {number}", instance=1, supply=supply))

    def supply(self, stream: Stream, *, most_bytes: int = 1 << 30, is_read: bool = True) -> None:
        """Have a stream forwarded, and received into a spool."""
        name = _name(stream)
        if not is_read:
            # A consumer that never reads on keeps the spool full.
            commit(spool_folder(self.root, name), "never", 0)
        plan = Plan(job="j", host="bench", version=1, limits=Limits(spool_bytes=most_bytes))
        self.spools.need(plan, Ingress(stream=name, instance=stream.instance, supply=Bridged()))
        self._kept[stream], self._ends[stream] = [], 0
        self._sender.forward(stream, epoch=1, first=0, kept=partial(self._from, stream))

    def emit(self, stream: Stream) -> None:
        """Send an event of a stream."""
        first = self._ends[stream]
        emitted = Emitted(first=first, events=pa.record_batch({"n": pa.array([first], pa.int64())}))
        self._ends[stream] = emitted.end
        self._kept[stream].append(emitted)
        self._sent[_name(stream)] = time.monotonic()
        self._sender.emit(stream, emitted)

    def settled(self) -> bool:
        """Whether every stream has opened, and nothing more is to be said of any."""
        return all(state != "unsubscribed" for state in self.spools.states().values())

    def close(self) -> None:
        """Stop everything."""
        self._sender.stop()
        self._thread.join()
        self.spools.close()
        self._receptions.hang_up()
        self._client.stop()

    def _from(self, stream: Stream, number: int) -> Iterator[Emitted]:
        return iter([emitted for emitted in self._kept[stream] if emitted.end > number])

    def _grew(self, name: str, _marked: bool) -> None:  # noqa: FBT001 - as a host's listener
        if (sent := self._sent.pop(name, None)) is not None:
            self.latencies.append(time.monotonic() - sent)

    def _heard(self, message: Message) -> None:
        self._sender.deliver(message)

    def _reconnected(self) -> None:
        self._sender.reconnected()


def main(*, quick: bool) -> None:
    """Measure with every broker that is there."""
    brokers: list[BrokerKind] = ["embedded"] if mosquitto_program() is None else ["mosquitto", "embedded"]
    raw, count, seconds = (100, 200, 3.0) if quick else (1_000, 5_000, 20.0)
    allow_many_descriptors()
    print(json.dumps({kind: _raw(kind, raw, seconds) | _between_jobs(kind, count, seconds) for kind in brokers}))


def _raw(kind: BrokerKind, count: int, seconds: float) -> Figures:
    with _host(kind) as host:
        at_rest = _at_rest(host, [partial(host.receive, number) for number in range(count)], seconds)
        return {"raw_at_rest": report(f"{kind}, raw streams at rest", at_rest)}


def _at_rest(host: _Host, supplies: Sequence[Callable[[], None]], seconds: float) -> dict[str, float]:
    """What streams that are supplied now cost once nothing is sent."""
    begun = time.monotonic()
    for supply in supplies:
        supply()
    while not host.settled():
        time.sleep(0.1)
    took = time.monotonic() - begun
    _work(host, (), 2 * seconds)
    cores = _work(host, (), seconds)
    process = psutil.Process()
    return {
        "streams": len(supplies),
        "supplied_per_s": round(len(supplies) / took),
        "cores": cores,
        "descriptors": process.num_fds(),
        "threads": process.num_threads(),
        "memory_mb": round(process.memory_info().rss / 1e6),
    }


def _between_jobs(kind: BrokerKind, count: int, seconds: float) -> Figures:
    streams = [Stream(number, "out") for number in range(count)]
    with _host(kind) as host:
        at_rest = _at_rest(host, [partial(host.supply, stream) for stream in streams], seconds)
        report(f"{kind}, at rest", at_rest)
        busy = streams[:_BUSY]
        _work(host, busy, seconds / 2)
        host.latencies.clear()
        _work(host, busy, seconds)
        alone = _milliseconds(host)
        stuck = Stream(count, "out")
        host.supply(stuck, most_bytes=1, is_read=False)
        _work(host, [*busy, *[stuck] * 10], seconds / 2)
        if host.spools.states()[_name(stuck)] != "full":
            raise RuntimeError("the spool of the stuck stream did not become full")
        host.latencies.clear()
        _work(host, [*busy, *[stuck] * 10], seconds)
        latencies = {"alone": alone, "beside a stuck stream": _milliseconds(host)}
        return {"at_rest": at_rest, "latency_ms": report(kind, latencies)}


def _work(host: _Host, streams: "tuple[()] | list[Stream]", seconds: float) -> float:
    """Send an event of each stream in each period, look as a host does; returns the cores that it took."""
    begun, cpu, looked = time.monotonic(), time.process_time(), 0.0
    while (now := time.monotonic()) - begun < seconds:
        for stream in streams:
            host.emit(stream)
        if now - looked > _BEAT:
            looked = now
            host.spools.look()
            host.spools.states()
        time.sleep(max(0.0, _PERIOD - (time.monotonic() - now)))
    return round((time.process_time() - cpu) / seconds, 4)


def _milliseconds(host: _Host) -> Figures:
    return percentiles([1_000 * latency for latency in host.latencies], 1)


def _name(stream: Stream) -> str:
    return f"bridge/{stream.instance}/{stream.port}"


def _fail(what: object) -> None:
    raise RuntimeError(str(what))


@contextmanager
def _host(kind: BrokerKind) -> Iterator[_Host]:
    with (
        scratch_folder() as folder,
        start_broker(folder / "broker", {_USER: "a password"}, kind=kind) as broker,
    ):
        host = _Host(broker.address(_USER), folder / "root")
        try:
            yield host
        finally:
            host.close()


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])
