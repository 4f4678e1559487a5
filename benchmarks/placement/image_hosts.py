"""Hosts of several images on this machine: a broker, a host for each, and a client that has them run plans."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.instruments import heard
from benchmarks.placement.pipelines import topic
from bridge import Message, topics
from bridge.broker import start_broker
from bridge.transport.mqtt_client import MqttClient
from engine.host.keeper import HostKeeper, MachineOptions
from engine.plan import Plan
from engine.plan_messages import written_plan

SENT_IN_A_RUN = 5
"""What the generator sends in a run."""
APART = 0.2
"""Seconds between two of them."""


class ImageHosts:
    """The hosts, until `close`; none is there yet. Each has a root of its own, as on a machine of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._news = threading.Condition()
        self._alive: set[str] = set()
        self._status: dict[str, Mapping[str, Any]] = {}
        self._came: dict[str, int] = defaultdict(int)
        """How many events left each run."""
        self._broker = start_broker(folder / "broker", {"braid": "of the benchmark alone"})
        subscribed = [
            topics.job("+", "status"),
            topics.job("+", "refused"),
            topics.host("+", "status"),
            "braid/1/out/#",
        ]
        self._client = MqttClient(self._broker.address("braid"), "bench", topics=subscribed, on_message=self._take)
        self._client.start()
        self._keepers: dict[str, HostKeeper] = {}

    def start(self, tags: Mapping[str, Iterable[str]]) -> None:
        """Start hosts with these tags."""
        self._alive.clear()
        for name, own in tags.items():
            options = MachineOptions(master="local[2,8]", tags=tuple(own), image=name)
            self._keepers[name] = HostKeeper(name, self._folder / name, self._broker.address("braid"), options)

    def ready(self) -> None:
        """Wait until all that were started are there."""
        self._wait(lambda: self._keepers.keys() <= self._alive, "the hosts")

    def stop(self) -> None:
        """End all hosts."""
        for keeper in self._keepers.values():
            keeper.stop()
        self._keepers.clear()

    def set_up(self, plans: Sequence[Plan]) -> None:
        """Have plans run, and wait until all of them do."""
        for plan in plans:
            self._client.publish(topics.job(plan.job, "plan"), written_plan(plan), retain=True)
        jobs = [plan.job for plan in plans]
        self._wait(lambda: all(self._status.get(job, {}).get("in_effect") == 1 for job in jobs), "the jobs")

    def execute(self, run: int, events: int) -> None:
        """Send what the generator sends, and wait until so many events have left at the end."""
        begun = time.perf_counter()
        for number in range(SENT_IN_A_RUN):
            time.sleep(max(0.0, begun + number * APART - time.perf_counter()))
            self._client.publish(topic(run), json.dumps({"n": number}).encode())
        self._wait(lambda: self._came[f"run-{run}"] >= events, "what leaves at the end")

    def end(self, plans: Sequence[Plan]) -> None:
        """Have jobs end."""
        for plan in plans:
            self._client.publish(topics.job(plan.job, "plan"), b"", retain=True)
        self._wait(lambda: all(self._status[plan.job]["state"] == "stopped" for plan in plans), "the jobs to end")

    def close(self) -> None:
        """End all of it."""
        self.stop()
        self._client.stop()
        self._broker.stop()

    def _wait(self, look: Callable[[], bool], what: str) -> None:
        heard(self._news, look, f"{what}; the logs in {self._folder} may say why")

    def _take(self, message: Message) -> None:
        parts = message.topic.split("/")
        with self._news:
            if parts[2] == "out":
                self._came[parts[4]] += len(json.loads(message.payload)["events"])
            elif message.topic.endswith("/refused"):
                print("refused:", message.payload.decode(), flush=True)
            elif message.payload and parts[2] == "hosts":
                if json.loads(message.payload).get("alive"):
                    self._alive.add(parts[3])
            elif message.payload:
                self._status[parts[3]] = json.loads(message.payload)
            self._news.notify_all()
        self._client.acknowledge([message.token])
