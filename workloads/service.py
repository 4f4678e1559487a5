"""A service for a run, `braid serve` as a process of its own, and tallies of the outputs that its tenants receive.

The service has a temporary folder and a free port. The outputs are received live from the broker, with each tenant's
own credentials.
"""

import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import FrameType
from typing import Any

import httpx
import psutil

from braid_client import Client, NotDone
from braid_client.answers.tenants import BrokerCredentials
from bridge import Message
from bridge.machine import runs
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient, NotConnected
from bridge.transport.probes import detect_protocol
from manager.settings import SETTINGS_PREFIX, read_key

_STARTING = 240.0
"""Seconds that the service may take to start; on an idle machine it takes 10 to 20."""
_ENDING = 120.0
"""Seconds that it may take to drain its host and end; it takes about 5."""
_POLL_INTERVAL = 0.2
_TAIL = 1_500


class RunFailed(RuntimeError):
    """A run did not get what it waited for; the message says what, and where to look."""


class ServiceProcess:
    """One `braid serve` with all its child processes; made by `served`."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self.root = folder / "root"
        self.log = folder / "serve.log"
        self.url = f"http://127.0.0.1:{free_port()}"
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: set[psutil.Process] = set()
        """Every process that was seen in its tree."""

    def start(self, notify: Callable[[str], None]) -> None:
        """Start the service and wait until it is ready; `notify` gets what it waits for."""
        command = "from manager.command import app; app()"
        port = self.url.rpartition(":")[2]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-c", command, "serve", "--root", str(self.root), "--port", port, *self._options],
                # The user's own settings are not for this service.
                env={name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C goes to the run, which then stops the service cleanly.
                start_new_session=True,
            )
        awaits: str | None = "the service is starting"
        deadline = time.monotonic() + _STARTING
        while (awaits := self._awaits(awaits)) is not None:
            if (code := self._process.poll()) is not None:
                written = self.log.read_bytes()[-_TAIL:].decode(errors="replace").strip() or "nothing"
                raise RunFailed(f"braid serve ended with exit code {code}; it last wrote:\n{written}")
            if time.monotonic() > deadline:
                raise RunFailed(f"braid serve was not ready within {_STARTING:g} s: {awaits}")
            notify(awaits)
            self._note_processes()
            time.sleep(_POLL_INTERVAL)

    @property
    def process(self) -> psutil.Process:
        """The manager; everything else of the service runs below it."""
        if self._process is None:
            raise RunFailed("braid serve was not started")
        return psutil.Process(self._process.pid)

    def operator(self) -> Client:
        """A client with the operator's key."""
        return Client(self.url, read_key(self.root))

    def stop(self) -> str:
        """Stop the service and make sure that no process is left; return what went wrong, or an empty text."""
        if self._process is None:
            return ""
        self._note_processes()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING)
        # Processes that die with their parent may take a moment to end.
        _, left = psutil.wait_procs([process for process in self._seen if runs(process)], timeout=5.0)
        left = [process for process in left if runs(process)]
        named = ", ".join(f"{process.pid} ({_name(process)})" for process in left)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        if left:
            return f"braid serve left processes behind, which were killed now: {named}"
        return f"braid serve ended with exit code {self._process.returncode}" if self._process.returncode else ""

    def _awaits(self, before: str | None) -> str | None:
        """The state that the service reports while it starts; None once it is ready."""
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=5.0, trust_env=False)
        except httpx.TransportError:
            return before
        return None if answer.is_success else str(answer.json()["detail"])

    def _note_processes(self) -> None:
        """Note the processes of the tree: later, one whose parent died could not be found any more."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                root = psutil.Process(self._process.pid)
                self._seen |= {root, *root.children(recursive=True)}


@contextmanager
def served(notify: Callable[[str], None], options: Sequence[str] = ()) -> Iterator[ServiceProcess]:
    """Run a service while the context lasts; its folder is removed afterwards, unless something failed.

    `options` are those of `braid serve` besides root and port; `notify` gets what the service waits for.
    """
    folder = Path(mkdtemp(prefix="braid-run-"))
    service = ServiceProcess(folder, options)
    logs = f"The service's log is {service.log}; that of its broker and host is {service.root / 'keeper' / 'log'}"
    trouble = ""
    try:
        with stops_on_signals() as ignore:
            try:
                service.start(notify)
                yield service
            finally:
                ignore()
                notify("stopping everything cleanly")
                trouble = service.stop()
    except KeyboardInterrupt:
        if not trouble:
            rmtree(folder)
            raise
    except (RunFailed, NotConnected, NotDone) as error:
        # Trouble at the end is at most a consequence of this error.
        raise RunFailed(f"{error}\n{logs}") from error
    if trouble:
        raise RunFailed(f"{trouble}\n{logs}")
    rmtree(folder)


@contextmanager
def stops_on_signals() -> Iterator[Callable[[], None]]:
    """Have SIGTERM end the run as Ctrl-C does; the yielded function makes it ignore both from then on."""
    numbers = (signal.SIGINT, signal.SIGTERM)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        ignore()
        raise KeyboardInterrupt

    def ignore() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield ignore
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return "gone"


def free_port() -> int:
    """A port of the loopback address on which nothing listens.

    It is below those that systems give to connections, one of which could take it before somebody listens there.
    """
    for port in random.SystemRandom().sample(_PORTS, 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RunFailed(f"none of a hundred ports from {_PORTS.start} to {_PORTS.stop} is free")


_PORTS = range(20_000, 32_000)
_PATIENCE = 90.0
"""Seconds to wait for events before a run fails."""
_ACCEPTANCE = 10.0
"""Seconds within which the broker accepts new credentials; it takes milliseconds."""
log = logging.getLogger("braid.outputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTally:
    """The events received of one output."""

    begun: int | None = None
    """The number of the first event."""
    events: int = 0
    """Received events, each counted once."""
    missing: int = 0
    """Numbers for which no event was received."""
    last: Any = None
    """The newest event."""
    at: float = 0.0
    """Its arrival, by the clock of `time.monotonic`."""
    longest_gap: float = 0.0
    """The longest time between two messages since the last `Outputs.reset_gaps`."""

    def take(self, first: int, events: list[Any], now: float) -> "OutputTally":
        """Add a message; an event that is sent twice has the same number both times.

        >>> tally = OutputTally().take(7, ["a", "b"], 1.0).take(8, ["b", "c"], 2.0)
        >>> tally.events, tally.missing, tally.last
        (3, 0, 'c')
        >>> tally.take(12, ["f"], 3.0).missing
        2
        """
        begun = first if self.begun is None else self.begun
        due = begun + self.events + self.missing
        new = events[max(0, due - first) :]
        if not new:
            return self
        return OutputTally(
            begun=begun,
            events=self.events + len(new),
            missing=self.missing + max(0, first - due),
            last=new[-1],
            at=now,
            longest_gap=max(self.longest_gap, now - self.at if self.at else 0.0),
        )


class Outputs:
    """The tallies of all outputs, by topic; the threads of the connections update them."""

    def __init__(self) -> None:
        self._tallies: dict[str, OutputTally] = {}
        self._changed = threading.Condition()

    def __getitem__(self, topic: str) -> OutputTally:
        with self._changed:
            return self._tallies.get(topic, OutputTally())

    def deliver(self, message: Message) -> None:
        """Add a message from the broker; log and skip one that is no output."""
        try:
            content = json.loads(message.payload)
            first, events = int(content["first"]), list(content["events"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            log.warning("topic %s: skipped a message that is no output: %r", message.topic, error)
            return
        with self._changed:
            before = self._tallies.get(message.topic, OutputTally())
            self._tallies[message.topic] = before.take(first, events, time.monotonic())
            self._changed.notify_all()

    def all(self) -> dict[str, OutputTally]:
        """The current tally of each output."""
        with self._changed:
            return dict(self._tallies)

    def reset_gaps(self) -> dict[str, OutputTally]:
        """Set every `longest_gap` to 0; return the tallies."""
        with self._changed:
            self._tallies = {topic: replace(tally, longest_gap=0.0) for topic, tally in self._tallies.items()}
            return dict(self._tallies)

    def wait_for_events(self, due: Mapping[str, int]) -> None:
        """Wait until each of these outputs has got so many events in total."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._short(due), _PATIENCE):
                raise RunFailed(f"no further events on {', '.join(self._short(due))} for {_PATIENCE:g} s")

    def _short(self, due: Mapping[str, int]) -> list[str]:
        return [topic for topic, number in due.items() if self[topic].events < number]


@contextmanager
def connected_tenants(outputs: Outputs, credentials: Mapping[str, BrokerCredentials]) -> Iterator[None]:
    """Connect every tenant to the broker while the context lasts."""
    with ExitStack() as held:
        for tenant, login in credentials.items():
            address = replace(Address.parse(login.url), user=login.user, password=login.password)
            _connect(held, outputs, address, f"demo-{tenant}", login.reads)
        yield


def _connect(held: ExitStack, outputs: Outputs, address: Address, name: str, wanted: Sequence[str]) -> None:
    """Subscribe until the context ends; retry while the broker does not accept the new credentials yet."""
    deadline = time.monotonic() + _ACCEPTANCE
    protocol = detect_protocol(address)

    def take(message: Message) -> None:
        outputs.deliver(message)
        client.acknowledge([message.token])

    while True:
        client = MqttClient(address, name, topics=wanted, on_message=take, protocol=protocol, lasting=False)
        try:
            client.start()
        except NotConnected:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            held.callback(client.stop)
            return
