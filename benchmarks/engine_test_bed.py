"""A test bed: a broker, a host with Spark, and a client that tells it what to run and hears what comes of it."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.engine_plans import HOST
from benchmarks.instruments import heard
from bridge import Message, topics
from bridge.broker import start_broker
from bridge.sender import Sender
from bridge.transport.mqtt_client import MqttClient
from engine.host.cpu_meter import CpuMeter
from engine.host.keeper import HostKeeper
from engine.plan import Plan
from engine.plan_messages import written_plan
from engine.records.job_folder import job_folder
from engine.records.store import RecordStore


class Output(NamedTuple):
    """A message of a sink, and when it came."""

    at: float
    payload: bytes


class CpuUse(NamedTuple):
    """What the host's processes used over a while."""

    seconds: float
    cpu: dict[str, float]

    @property
    def total(self) -> float:
        """Seconds of CPU."""
        return sum(self.cpu.values())


class Bed:
    """Everything that runs; it ends with `close`."""

    def __init__(self, root: Path) -> None:
        self.root = root / "host"
        self.status: dict[str, dict[str, Any]] = {}
        self.outputs: dict[str, list[Output]] = defaultdict(list)
        self._news = threading.Condition()
        self._broker = start_broker(root / "broker", {"braid": "of the benchmark alone"})
        address = self._broker.address("braid")
        subscribed = [
            topics.job("+", "status"),
            topics.job("+", "refused"),
            topics.host(HOST, "status"),
            "braid/1/out/#",
        ]
        self.client = MqttClient(address, "bench", topics=subscribed, on_message=self._take)
        self._feeding = MqttClient(
            address,
            "bench-feed",
            # It is made before the sender that it tells.
            on_message=lambda message: self.sender.deliver(message),  # noqa: PLW0108 - see above
            on_connection=lambda: self.sender.reconnected(),  # noqa: PLW0108 - see above
        )
        self.sender = Sender(self._feeding)
        self._sending = threading.Thread(target=self.sender.run, name="feeds", daemon=True)
        self._sending.start()
        self.client.start()
        self._feeding.start()
        self.keeper = HostKeeper(HOST, self.root, address)
        self.wait(lambda: self.status.get(HOST, {}).get("alive"))
        self._metering = CpuMeter(self.keeper.pid)

    def close(self) -> None:
        """End all of it."""
        self.keeper.stop()
        self.sender.stop()
        self._sending.join()
        for client in (self.client, self._feeding):
            client.stop()
        self._broker.stop()

    def wait(self, look: Callable[[], object]) -> None:
        """Wait until something is so."""
        heard(self._news, look, f"what was awaited; {self.keeper.log_path} may say why")

    def run(self, *plans: Plan) -> None:
        """Let the host run these, and wait until all are in effect."""
        for plan in plans:
            self.send(plan)
        for plan in plans:
            self.wait(lambda plan=plan: self.in_effect(plan.job) == plan.version)  # type: ignore[misc]

    def send(self, plan: Plan) -> None:
        """Tell the host a plan."""
        self.client.publish(topics.job(plan.job, "plan"), written_plan(plan), retain=True)

    def end(self, *jobs: str) -> None:
        """Let jobs end."""
        for job in jobs:
            self.client.publish(topics.job(job, "plan"), b"", retain=True)
        for job in jobs:
            self.wait(lambda job=job: self.status[job]["state"] == "stopped")  # type: ignore[misc]

    def in_effect(self, job: str) -> int:
        """The version of the plan that a job runs; 0 before the first."""
        version: int = self.status.get(job, {}).get("in_effect", 0)
        return version

    def batches(self, job: str) -> int:
        """How many batches a job has run."""
        return RecordStore(job_folder(self.root, job).records).batches().stop

    @contextmanager
    def measured(self) -> Iterator[Callable[[], CpuUse]]:
        """What the host's processes use from here on, until it is asked."""
        begun, before = time.monotonic(), self._metering.cpu()

        def used() -> CpuUse:
            now = self._metering.cpu()
            return CpuUse(time.monotonic() - begun, {part: now[part] - before.get(part, 0.0) for part in now})

        yield used

    def memory(self) -> int:
        """Bytes that the host's processes hold, what they share counted once."""
        host = psutil.Process(self.keeper.pid)
        return sum(process.memory_full_info().pss for process in (host, *host.children(recursive=True)))

    def _take(self, message: Message) -> None:
        now = time.time()
        with self._news:
            if "/out/" in message.topic:
                self.outputs[message.topic.split("/")[4]].append(Output(now, message.payload))
            elif message.topic.endswith("/refused"):
                print("refused:", message.payload.decode(), flush=True)
            elif message.payload:
                content = json.loads(message.payload)
                self.status[content.get("job", content["host"])] = content
            self._news.notify_all()
        self.client.acknowledge([message.token])
