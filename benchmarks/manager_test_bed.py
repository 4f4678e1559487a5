"""A test bed: `braid serve` in a process of its own, and a subscriber that notes when each output and plan came."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

import httpx
import psutil

from benchmarks.instruments import BOUND, heard
from braid_client import Client
from braid_client.answers.tenants import KeyForm, TenantForm
from bridge import Message, topics
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient as Line
from manager.process.keeper_process import read_record
from manager.settings import read_key
from workloads.replay.player import PLENTY, CoresReading, cores_between, read_cores, unsettled
from workloads.service import free_port

T = TypeVar("T")
SERVICE_PACE = 1.0


class MeasuredService:
    """A service in one root, until its context ends. Times are those of `time.perf_counter`."""

    def __init__(
        self,
        folder: Path,
        *,
        host: str = "local",
        placement: str = "pack",
        pace: float = SERVICE_PACE,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`host` is "none" where others are hosts; `settings` are further variables of its environment."""
        folder.mkdir(parents=True, exist_ok=True)
        self.root = folder / "root"
        self.log = folder / "serve.log"
        self.url = f"http://127.0.0.1:{free_port()}"
        self.outputs: dict[str, list[float]] = defaultdict(list)
        """By topic."""
        self.published: dict[tuple[str, int], float] = {}
        """When each version of each job's plan was published."""
        self.in_effect: dict[tuple[str, int], float] = {}
        """When its host said that it runs."""
        self.events: dict[str, list[tuple[float, Any]]] = defaultdict(list)
        """When each event came, and the event, by topic."""
        self._host = host
        self._placement = placement
        self._pace = pace
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Line | None = None
        self._news = threading.Condition()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self) -> float:
        """Begin to serve; the seconds until it is ready."""
        begun = time.perf_counter()
        process = self.begin()
        while not self._is_ready():
            if process.poll() is not None or time.perf_counter() - begun > BOUND:
                raise TimeoutError(f"it does not serve: {self.log.read_text()[-2_000:]}")
            time.sleep(0.02)
        return time.perf_counter() - begun

    def begin(self) -> "subprocess.Popen[bytes]":
        """Begin to serve, and return at once."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BRAID_")},
            "BRAID_ROOT": str(self.root),
            "BRAID_PORT": self.url.rpartition(":")[2],
            "BRAID_HOST": self._host,
            "BRAID_PACE": str(self._pace),
            "BRAID_PLACEMENT": self._placement,
            # By itself it would begin amid what is measured.
            "BRAID_DEFRAGMENT": "false",
            **self._settings,
        }
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [str(Path(sys.executable).parent / "braid"), "serve"], stdout=output, stderr=output, env=environment
            )
        return self._process

    def stop(self) -> None:
        """Let it end, and with it its broker and host."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(BOUND)
            self._process = None

    def close(self) -> None:
        """End all of it."""
        if self._line is not None:
            self._line.stop()
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            raise
        finally:
            # A manager that broke down leaves its keeper running.
            if (record := read_record(self.root)) is not None:
                with suppress(ProcessLookupError):
                    os.kill(record.pid, signal.SIGTERM)

    def operator(self) -> Client:
        """The first operator's client."""
        return Client(self.url, read_key(self.root))

    def admit(self, tenant: str) -> str:
        """Admit a tenant without bounds; its API key."""
        with self.operator() as operator:
            operator.admit(TenantForm(name=tenant, quota=PLENTY))
            return operator.make_key(KeyForm(tenant=tenant)).key

    @property
    def broker(self) -> Address:
        """Where its broker is, for Braid's own user."""
        return broker_of(self.root)

    def listen(self) -> None:
        """Note from now on what comes when."""
        heard = [f"{topics.ROOT}/out/#", topics.job("+", "plan"), topics.job("+", "status")]
        self._line = Line(self.broker, "bench", topics=heard, on_message=self._take, lasting=False)
        self._line.start()

    def publish(self, topic: str, payload: bytes) -> None:
        """Publish as a source does."""
        if self._line is None:
            raise RuntimeError("listen first")
        self._line.publish(topic, payload)

    def reading(self) -> CoresReading:
        """The CPU time used so far."""
        if self._process is None:
            raise RuntimeError("start it first")
        return read_cores(psutil.Process(self._process.pid))

    def cores(self, seconds: float) -> float:
        """Cores that broker, host, JVM and workers take, for so long."""
        begun = self.reading()
        time.sleep(seconds)
        cores = cores_between(begun, self.reading())
        return round(sum(used for part, used in cores.items() if part != "manager"), 4)

    def wait(self, look: Callable[[], T | None], what: str) -> T:
        """Wait until something was heard, and return it."""
        return heard(self._news, look, f"{what}; {self.root} may tell why")

    def came(self) -> list[tuple[float, Any]]:
        """When each event of all topics came, and the event."""
        return [event for events in list(self.events.values()) for event in list(events)]

    def first_output(self, topic: str) -> float:
        """When the first output came on a topic; waits for it."""
        self.wait(lambda: self.outputs.get(topic), f"an output on {topic}")
        return self.outputs[topic][0]

    def _is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/readyz", timeout=5.0, trust_env=False).status_code == httpx.codes.OK
        return False

    def _take(self, message: Message) -> None:
        now = time.perf_counter()
        with self._news:
            parts = message.topic.split("/")
            if parts[2] == "out":
                self.outputs[message.topic].append(now)
                self.events[message.topic] += [(now, event) for event in json.loads(message.payload)["events"]]
            elif message.payload:
                content = json.loads(message.payload)
                if parts[4] == "plan":
                    self.published.setdefault((parts[3], content["version"]), now)
                else:
                    self.in_effect.setdefault((parts[3], content.get("in_effect", 0)), now)
            self._news.notify_all()
        if self._line is not None:
            self._line.acknowledge([message.token])


def broker_of(root: Path) -> Address:
    """The broker of a service in a root, for Braid's own user, who may send and hear everything."""
    record = read_record(root)
    if record is None:
        raise TimeoutError("there is no keeper, and so no broker")
    return Address.parse(record.broker)


def wait_until_settled(operator: Client, *, within: float) -> None:
    """Wait until all dataflows and jobs of a service run as they should."""
    deadline = time.monotonic() + within
    while what := unsettled(operator):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within:g} s: {what}")
        time.sleep(0.5)


class StandIn:
    """Says of itself that it is a host, and of each plan that it runs it, and runs nothing."""

    NAME = "stand-in"
    BEAT = 5.0

    def __init__(self, broker: Address) -> None:
        self._line = Line(
            broker, self.NAME, topics=[topics.job("+", "plan")], on_message=self._take, on_connection=self._connected
        )
        self._plans: dict[str, bytes] = {}
        self._stopping = threading.Event()
        self._connection = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="stands in", daemon=True)
        self._line.start()
        self._thread.start()

    def stop(self) -> None:
        """Hang up."""
        self._stopping.set()
        self._connection.set()
        self._thread.join()
        self._line.stop()

    def _connected(self) -> None:
        self._connection.set()

    def _beat(self) -> None:
        while not self._stopping.is_set():
            content = {"host": self.NAME, "alive": True}
            self._line.publish(topics.host(self.NAME, "status"), json.dumps(content).encode(), retain=True)
            self._connection.wait(self.BEAT)
            self._connection.clear()

    def _take(self, message: Message) -> None:
        job = message.topic.split("/")[3]
        plan = json.loads(message.payload) if message.payload else {"version": 0, "term": 0}
        status = {
            "job": job,
            "host": self.NAME,
            "state": "running" if message.payload else "stopped",
            "version": plan["version"],
            "term": plan["term"],
            "in_effect": plan["version"],
        }
        self._line.publish(topics.job(job, "status"), json.dumps(status).encode(), retain=True)
        self._line.acknowledge([message.token])


@contextmanager
def attended_service(
    folder: Path,
    *,
    placement: str = "pack",
    pace: float = SERVICE_PACE,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[tuple[MeasuredService, Client, Client]]:
    """A service that runs and is listened to, and clients of a tenant and of its operator."""
    with MeasuredService(folder, placement=placement, pace=pace, settings=settings) as service:
        service.start()
        service.listen()
        with Client(service.url, service.admit("ann")) as ann, service.operator() as operator:
            yield service, ann, operator
