"""The whole service as its users have it: `braid serve` in a process of its own, with REST and its outputs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import httpx
import psutil
import pytest

from braid_client.answers.dataflows import DataflowState, SubmitAnswer
from braid_client.answers.sources import SourceForm
from braid_client.answers.tenants import KeyForm, TenantForm
from braid_client.client import Client
from braid_client.errors import NotDone
from bridge import Message, broker_setup, topics
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient as Line
from manager.process.keeper_process import read_record
from manager.settings import read_key
from workloads.service import free_port

T = TypeVar("T")
BRAID = Path(sys.executable).parent / "braid"
BOUND = 120.0
"""Seconds within which whatever is awaited has to come on a busy machine."""


BROKER = "/broker/"
"""What is in the command line of a service's broker, of whichever kind: its folder."""


class Served:
    """A service that is started, killed and stopped; `close` leaves nothing behind, however a test ended."""

    def __init__(  # noqa: PLR0913 - what services differ in, each named by the test
        self,
        folder: Path,
        *,
        host: str = "local",
        pace: float = 0.5,
        placement: str = "pack",
        settings: Mapping[str, str] = MappingProxyType({}),
        program: Path = BRAID,
    ) -> None:
        """`settings` are others, by their variables; `program` is the command line of this or of another release."""
        self.root = folder / "root"
        self.log = folder / "serve.log"
        self.host = host
        self.pace = pace
        self.placement = placement
        self.settings = settings
        self.program = program
        self.port = free_port()
        self.url = f"http{'s' if 'BRAID_CERTIFICATE' in settings else ''}://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.ever: set[psutil.Process] = set()
        """Every process that was seen to belong to it."""
        self._line: Line | None = None
        self._heard: dict[str, list[Any]] = {}
        self._news = threading.Condition()

    def start(self) -> None:
        """Begin to serve, and wait until it is ready."""
        self.begin()
        self.until(self.ready, "the service to be ready")
        self.look()

    def begin(self) -> None:
        """Begin to serve."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("BRAID_")},
            "BRAID_ROOT": str(self.root),
            "BRAID_PORT": str(self.port),
            "BRAID_HOST": self.host,
            "BRAID_MASTER": "local[2,8]",
            "BRAID_PACE": str(self.pace),
            "BRAID_PLACEMENT": self.placement,
            # By itself it might begin amid what is tested.
            "BRAID_DEFRAGMENT": "false",
            **self.settings,
        }
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [str(self.program), "serve"], stdout=output, stderr=output, env=environment
            )

    def answers(self) -> bool:
        """Whether it says anything."""
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/healthz", timeout=5.0).status_code == httpx.codes.OK
        return False

    def ready(self) -> bool:
        """Whether it says that it is ready."""
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/readyz", timeout=5.0).status_code == httpx.codes.OK
        return False

    def look(self) -> None:
        """Note which processes belong to it."""
        record = read_record(self.root)
        for pid in (self.process.pid if self.process else None, record.pid if record else None):
            with suppress(psutil.NoSuchProcess):
                if pid is not None:
                    process = psutil.Process(pid)
                    self.ever |= {process, *process.children(recursive=True)}

    def alive(self) -> list[psutil.Process]:
        """Those of its processes that run."""
        return [each for each in self.ever if runs(each)]

    @property
    def keeper_pid(self) -> int:
        """The process id of the last keeper, whether it lives or not."""
        record = read_record(self.root)
        assert record is not None
        return record.pid

    @property
    def keeper(self) -> psutil.Process:
        """The process that keeps broker and host."""
        return psutil.Process(self.keeper_pid)

    def below_keeper(self, name: str) -> psutil.Process:
        """The process below the keeper whose command line has a word in it."""
        return self.until(lambda: self.now_below_keeper(name), f"the process of {name}")

    def now_below_keeper(self, name: str) -> psutil.Process | None:
        """The same, if there is one now."""
        below = self.keeper.children(recursive=True)
        return next((each for each in below if any(name in word for word in _words(each))), None)

    def kill(self) -> None:
        """Kill the manager, and nothing else."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Tell it to stop; its exit code."""
        assert self.process is not None
        self.look()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(BOUND)

    def close(self) -> None:
        """End whatever still runs."""
        if self._line is not None:
            self._line.stop()
        self.look()
        if self.process is not None and self.process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self.stop()
        self.look()
        for each in self.alive():
            with suppress(psutil.NoSuchProcess):
                each.kill()
        if self.process is not None:
            self.process.wait()

    def await_save(self) -> None:
        """Wait until its mosquitto has saved what it has heard so far; one that is killed before sends more again.

        The embedded broker saves nothing, and sends nothing again.
        """
        if broker_setup.mosquitto_program() is None:
            return
        saved, now = self.root / "broker" / "mosquitto.db", time.time()
        self.until(lambda: saved.exists() and saved.stat().st_mtime > now, "the broker to have saved")

    # What callers do.

    def client(self, key: str | None = None) -> Client:
        """An operator's client, or the holder's of a key."""
        return Client(self.url, key or read_key(self.root))

    def admit(self, tenant: str) -> Client:
        """A new tenant's client."""
        with self.client() as operator:
            operator.admit(TenantForm(name=tenant))
            return self.client(operator.make_key(KeyForm(tenant=tenant)).key)

    def publish(self, topic: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Publish raw events, one a message."""
        for event in events:
            self.line.publish(topic, json.dumps(event).encode())

    @property
    def broker(self) -> str:
        """The URL of its broker; empty as long as it has none."""
        record = read_record(self.root)
        return self.settings.get("BRAID_BROKER") or (record.broker if record else "")

    @property
    def line(self) -> Line:
        """A line to the broker, as Braid's own user."""
        if self._line is None:
            self._line = Line(
                Address.parse(self.broker), "tester", topics=[f"{topics.ROOT}/out/#"], on_message=self._take
            )
            self._line.start()
        return self._line

    def delivered(self, answer: SubmitAnswer, sink: str) -> list[Any]:
        """What came for a sink, in order, from the first on and without a hole."""
        found = self.numbered(answer, sink)
        assert list(range(len(found))) == sorted(found)
        return [found[number] for number in sorted(found)]

    def numbered(self, answer: SubmitAnswer, sink: str) -> dict[int, Any]:
        """What came for a sink, by number; what came twice has to be the same."""
        topic = next(each.topic for each in answer.outputs if each.sink == sink)
        found: dict[int, Any] = {}
        for message in self.heard(topic):
            for number, event in enumerate(message["events"], message["first"]):
                assert found.setdefault(number, event) == event, f"number {number} is two events"
        return found

    def heard(self, topic: str) -> list[Any]:
        """What came on a topic."""
        with self._news:
            return list(self._heard.get(topic, ()))

    def topics(self) -> set[str]:
        """The topics on which something came."""
        with self._news:
            return set(self._heard)

    def retained(self, *filters: str) -> list[str]:
        """The topics for which the broker keeps something, by default those of jobs."""
        record = read_record(self.root)
        assert record is not None
        found: list[str] = []
        line = Line(
            Address.parse(record.broker),
            "looks once",
            topics=filters or [f"{topics.ROOT}/jobs/+/plan", f"{topics.ROOT}/jobs/+/status"],
            on_message=lambda message: found.append(message.topic),
            lasting=False,
        )
        line.start()
        heard = threading.Event()
        line.publish(f"{topics.ROOT}/managers/looks", b"", answered=lambda _refusal: heard.set())
        heard.wait(BOUND)
        line.stop()
        return found

    def until_delivered(self, answer: SubmitAnswer, sink: str, many: int) -> list[Any]:
        """Wait until so many events came for a sink."""
        self.until(lambda: len(self.delivered(answer, sink)) >= many, f"{many} events for {sink} of {answer.id}")
        return self.delivered(answer, sink)

    def until_state(self, client: Client, dataflow: str, state: DataflowState) -> None:
        """Wait until a dataflow is said to be in a state."""

        def reached() -> bool:
            with suppress(NotDone):
                return client.dataflow(dataflow).state is state
            return False

        self.until(reached, f"dataflow {dataflow} {state}")

    def until(self, condition: Callable[[], T | None], what: str, *, bound: float = BOUND) -> T:
        """Wait for something to become true."""
        deadline = time.monotonic() + bound
        while not (found := condition()):
            if time.monotonic() > deadline or (self.process is not None and self.process.poll() not in {None, -9}):
                pytest.fail(f"not within {bound:g} s: {what}\nthe service wrote: {self.log.read_text()[-3_000:]}")
            with self._news:
                self._news.wait(0.1)
        return found

    def _take(self, message: Message) -> None:
        with self._news:
            if message.payload:
                self._heard.setdefault(message.topic, []).append(json.loads(message.payload))
            self._news.notify_all()
        if self._line is not None:
            self._line.acknowledge([message.token])


@contextmanager
def serving(made: Served) -> Iterator[Served]:
    """A service that runs, and is over afterwards."""
    try:
        made.start()
        yield made
    finally:
        made.close()


def counting(source: str, name: str = "counts") -> dict[str, Any]:
    """A document that counts what a source sends, by `k`."""
    return {
        "version": 1,
        "name": name,
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            {"id": "low", "type": "range_filter", "config": {"field": "n", "min": 0, "max": 1_000_000}},
            {"id": "count", "type": "count", "config": {"by": ["k"]}},
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "low"}, {"from": "low", "to": "count"}, {"from": "count", "to": "out"}],
    }


def passing(source: str, most: int) -> dict[str, Any]:
    """A document that lets through what counting counts, up to a number."""
    return {
        "version": 1,
        "name": f"up to {most}",
        "tasks": [
            {"id": "in", "type": "source", "config": {"source": source}},
            {"id": "low", "type": "range_filter", "config": {"field": "n", "min": 0, "max": 1_000_000}},
            {"id": "few", "type": "range_filter", "config": {"field": "n", "min": 0, "max": most, "outside": "drop"}},
            {"id": "out", "type": "output"},
        ],
        "streams": [{"from": "in", "to": "low"}, {"from": "low", "to": "few"}, {"from": "few", "to": "out"}],
    }


def street(name: str = "street", **more: Any) -> SourceForm:
    """A source of numbered events with a key."""
    return SourceForm.model_validate(
        {
            "name": name,
            "connection": {"kind": "topic", "topic": f"city/{name}"},
            "schema": {"n": "integer", "k": "string"},
            **more,
        }
    )


def runs(process: psutil.Process) -> bool:
    """Whether a process runs; one that nobody has buried yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _words(process: psutil.Process) -> list[str]:
    """Its command line; nothing of one that has just ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
