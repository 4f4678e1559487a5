"""A host with real Spark over a real broker, used through topics alone, as the manager does."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil
import pytest

from bridge import Message, topics
from bridge.broker import BrokerKind as Make
from bridge.broker import start_broker
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.probes import detect_protocol
from dags import Kind
from engine.host.keeper import HostKeeper, MachineOptions
from engine.plan import Bridged, Delivery, Edge, Forward, Ingress, Plan, Slot, Subscribed
from engine.plan_messages import CutRequest, written_cut, written_plan
from engine.records.job_folder import JobFolder, job_folder, spool_folder
from engine.records.record import Table
from engine.records.store import RecordStore
from tests.engine.kernels import VERSIONS

T = TypeVar("T")
BOUND = 120.0
"""Seconds for which a test waits; a busy machine takes some 25 to start Spark, and as many again to begin its first
job."""
HOST = "h"
FIELDS = {"n": Kind.INTEGER, "k": Kind.STRING}
"""The fields of raw events, unless a test sets others."""
QUICK = 0.1
"""A pace that keeps tests short."""


class Heard(NamedTuple):
    """A message that the host sent."""

    topic: str
    value: Any


class Hosting:
    """A broker, a host with its keeper, and a client that receives everything that the host publishes."""

    def __init__(
        self,
        folder: Path,
        *,
        master: str = "local[2,8]",
        environment: Mapping[str, str] | None = None,
        kind: Make | None = None,
    ) -> None:
        self.root = folder / "root"
        self.broker = start_broker(folder / "broker", {"braid": "a password of its own"}, kind=kind)
        self._numbers = count(1)
        self._versions = count(1)
        self._sent = set[str]()
        self._heard: list[Heard] = []
        self._retained: dict[str, Any] = {}
        self._news = threading.Condition()
        self.client = MqttClient(
            self.broker.address("braid"),
            "tester",
            topics=[f"{topics.ROOT}/{each}/#" for each in ("jobs", "hosts", "out", "dead")],
            on_message=self._take,
            protocol=detect_protocol(self.broker.address("braid")),
        )
        self.client.start()
        self.keeper = HostKeeper(
            HOST, self.root, self.broker.address("braid"), MachineOptions(master=master), environment=environment
        )

    def close(self) -> None:
        """End everything that it started."""
        self.keeper.stop()
        self.client.stop()
        self.broker.stop()

    # What a test sends.

    def fresh(self) -> int:
        """A number that no other test uses, for an instance or for a unique name."""
        return next(self._numbers)

    def send(self, plan: Plan) -> Plan:
        """Publish a plan under the next version, and return it with that version."""
        sent = replace(plan, version=next(self._versions))
        self.publish_plan(sent)
        return sent

    def publish_plan(self, plan: Plan, *, to: str = "") -> None:
        """Publish a plan as it is, by default on its job's own topic."""
        self._sent.add(to or plan.job)
        self.client.publish(topics.job(to or plan.job, "plan"), written_plan(plan), retain=True)

    def run(self, plan: Plan) -> Plan:
        """Publish a plan and wait until a batch has run it."""
        sent = self.send(plan)
        self.until(lambda: self.in_effect(sent), f"version {sent.version} of job {sent.job} in effect")
        return sent

    def stop_job(self, job: str) -> None:
        """Stop a job, and wait until it has stopped."""
        self.client.publish(topics.job(job, "plan"), b"", retain=True)
        self.until(lambda: self.status(job).get("state") == "stopped", f"job {job} stopped")

    def stop_jobs(self) -> None:
        """Stop every job, without waiting."""
        while self._sent:
            self.client.publish(topics.job(self._sent.pop(), "plan"), b"", retain=True)

    def cut(self, name: str, *streams: str) -> None:
        """Ask for a cut in raw spools."""
        self.client.publish(topics.host(HOST, "cut"), written_cut(CutRequest(cut=name, streams=streams)))

    def release(self, name: str) -> None:
        """Release the states of a cut."""
        self.client.publish(topics.host(HOST, "cut"), written_cut(CutRequest(cut=name, release=True)))

    def publish(self, topic: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Publish raw events, one in each message."""
        for event in events:
            self.client.publish(topic, json.dumps(event).encode())

    # What it received.

    def heard(self, topic: str) -> list[Any]:
        """All messages that came on a topic, in order."""
        with self._news:
            return [each.value for each in self._heard if each.topic == topic]

    def status(self, job: str) -> dict[str, Any]:
        """The last status of a job."""
        return dict(self._last(topics.job(job, "status")))

    def host_status(self) -> dict[str, Any]:
        """The last status of the host."""
        return dict(self._last(topics.host(HOST, "status")))

    def refusals(self, job: str) -> list[str]:
        """The reasons for which plans of a job were refused."""
        return [refusal["why"] for refusal in self.heard(topics.job(job, "refused"))]

    def meters(self, job: str) -> dict[int, dict[str, int]]:
        """The meters of each instance of a job since the job was last started."""
        metrics = self._last(topics.job(job, "metrics"))
        return {int(instance): meter for instance, meter in metrics.get("instances", {}).items()}

    def grouped(self, job: str) -> dict[int, int]:
        """The events of each key group of a job, over its batches with several shards."""
        return {int(group): many for group, many in self._last(topics.job(job, "metrics")).get("groups", {}).items()}

    def taken(self, job: str, instance: int) -> int:
        """The number of events that an instance has taken since its job was last started."""
        return self.meters(job).get(instance, {}).get("taken", 0)

    def in_effect(self, plan: Plan) -> bool:
        """Whether a batch has run a plan, and no newer plan yet."""
        return self.status(plan.job).get("in_effect") == plan.version

    def numbered(self, delivery: Delivery) -> dict[int, Any]:
        """The events of a delivery, by number; one that came twice has to be the same."""
        found: dict[int, Any] = {}
        for output in self.heard(topics.output(delivery.tenant, delivery.dataflow, delivery.sink)):
            assert {"stream", "epoch", "first", "events"} == set(output)
            for number, event in enumerate(output["events"], output["first"]):
                assert found.setdefault(number, event) == event, f"number {number} is two events"
        return found

    def delivered(self, delivery: Delivery, *, first: int = 0) -> list[Any]:
        """The events of a delivery, without a gap from its first number on."""
        found = self.numbered(delivery)
        assert list(range(first, first + len(found))) == sorted(found)
        return [found[number] for number in sorted(found)]

    def count(self, delivery: Delivery) -> int:
        """The number of events that came for a delivery."""
        return len(self.numbered(delivery))

    def until(self, condition: Callable[[], T], what: str, *, bound: float = BOUND) -> T:
        """Wait for a condition, which is checked whenever a message comes."""
        deadline = time.monotonic() + bound
        while not (found := condition()):
            with self._news:
                # Not every condition changes with a message.
                self._news.wait(0.1)
            if time.monotonic() > deadline:
                tail = self.keeper.log_path.read_text()[-3_000:]
                pytest.fail(f"not within {bound:g} s: {what}\nlast heard: {self._heard[-5:]}\nthe host wrote: {tail}")
        return found

    def until_delivered(self, delivery: Delivery, many: int) -> list[Any]:
        """Wait until so many events came for a delivery, and return all that came."""
        self.until(lambda: self.count(delivery) >= many, f"{many} events for {delivery}, {self.count(delivery)} came")
        return self.delivered(delivery)

    # What is on disk.

    def folder(self, job: str) -> JobFolder:
        """A job's folder."""
        return job_folder(self.root, job)

    def spool(self, stream: str) -> Path:
        """A stream's spool."""
        return spool_folder(self.root, stream)

    def state(self, job: str) -> Table:
        """The states of a job's instances after its last batch."""
        store = RecordStore(self.folder(job).records)
        return store.state(store.batches().stop).kept

    # What happens to it.

    def restart(self, number: signal.Signals) -> None:
        """End the host's process by a signal, and wait until its keeper has started it again."""
        before = self.keeper.pid
        process = psutil.Process(before)
        os.kill(before, number)
        self.until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, "the host to end")
        self.until(lambda: self.keeper.pid != before, "another host process")

    def _take(self, message: Message) -> None:
        value = json.loads(message.payload) if message.payload and not message.topic.endswith("/plan") else {}
        with self._news:
            self._retained[message.topic] = value
            self._heard.append(Heard(message.topic, value))
            self._news.notify_all()
        self.client.acknowledge([message.token])

    def _last(self, topic: str) -> Mapping[str, Any]:
        with self._news:
            found: Mapping[str, Any] = self._retained.get(topic, {})
        return found


@contextmanager
def hosting_in(folder: Path, *, kind: Make | None = None) -> Iterator[Hosting]:
    """A host of the caller's own, which is stopped at the end."""
    made = Hosting(folder, kind=kind)
    try:
        yield made
    finally:
        made.close()


def raw(topic: str, instance: int, fields: Mapping[str, Kind] | None = None, *, start: int | None = None) -> Ingress:
    """A raw stream from a topic, in a spool with the topic's name."""
    supply = Subscribed(topic=topic, fields=FIELDS if fields is None else fields)
    return Ingress(stream=f"raw/{topic}", instance=instance, supply=supply, start=start)


def bridged(instance: int, *, start: int | None = None) -> Ingress:
    """A stream that another job forwards from an instance."""
    return Ingress(stream=f"bridge/{instance}:out", instance=instance, supply=Bridged(), start=start)


def slot(instance: int, kind: str, *inputs: int | Edge, **config: Any) -> Slot:
    """A task that takes the output of others."""
    edges = tuple(each if isinstance(each, Edge) else Edge(parent=each) for each in inputs)
    version = VERSIONS.get(kind, 1)
    return Slot(instance=instance, type=kind, version=version, config=json.dumps(config), inputs=edges)


def delivery(instance: int) -> Delivery:
    """The delivery of an output, under a unique name."""
    return Delivery(instance=instance, tenant="ann", dataflow="d", sink=f"s{instance}")


def deliveries(slots: Sequence[Slot]) -> tuple[Delivery, ...]:
    """One for each output among the slots."""
    return tuple(delivery(each.instance) for each in slots if each.type == "output")


def job(name: str, *slots: Slot, reads: tuple[Ingress, ...] = (), forwards: tuple[Forward, ...] = ()) -> Plan:
    """The plan of a job that delivers what its sinks take; its version is set when it is sent."""
    return Plan(
        job=name,
        host=HOST,
        version=0,
        slots=slots,
        ingress=reads,
        forwards=forwards,
        deliveries=deliveries(slots),
        pace=QUICK,
    )


def numbers(first: int, end: int, *, keys: int = 3) -> list[dict[str, Any]]:
    """Numbered events with a few keys."""
    return [{"n": n, "k": f"k{n % keys}"} for n in range(first, end)]


def counted(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The outputs of the task `count` by `k` for some events."""
    found: dict[str, int] = {}
    rows = []
    for event in events:
        found[event["k"]] = found.get(event["k"], 0) + 1
        rows.append({"k": event["k"], "count": found[event["k"]]})
    return rows
