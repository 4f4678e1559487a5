"""A service for a run: `braid serve` as anybody runs it, in a folder and on a port of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import FrameType

import httpx
import psutil

from bridge.transport.mqtt_client import NotConnected
from manager.client import Client, NotDone
from manager.process.settings import SETTINGS_PREFIX, read_key

_STARTING = 240.0
"""Seconds that the service may take until it is ready; it takes 10 to 20 where nothing else goes on."""
_ENDING = 120.0
"""Seconds that it may take to drain its host and end; it takes some 5."""
_LOOKING = 0.2
_TAIL = 1_500


class RunFailed(RuntimeError):
    """Something did not come that should have; says what, and where to look."""


class ServiceProcess:
    """One `braid serve` with all that belongs to it; made by `served`."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self.root = folder / "root"
        self.log = folder / "serve.log"
        self.url = f"http://127.0.0.1:{_free_port()}"
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._ever: set[psutil.Process] = set()
        """Every process that was seen to belong to it."""

    def start(self, told: Callable[[str], None]) -> None:
        """Begin to serve; returns once it is ready. `told` hears what it waits for."""
        command = "from manager.command import app; app()"
        port = self.url.rpartition(":")[2]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-c", command, "serve", "--root", str(self.root), "--port", port, *self._options],
                # What the user set for a service of their own is not for this one.
                env={name: value for name, value in os.environ.items() if not name.startswith(SETTINGS_PREFIX)},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C is for the run, which then stops the service in order.
                start_new_session=True,
            )
        awaits: str | None = "the service is starting"
        deadline = time.monotonic() + _STARTING
        while (awaits := self._awaits(awaits)) is not None:
            if (code := self._process.poll()) is not None:
                raise RunFailed(f"braid serve ended with exit code {code}; it last wrote:\n{self._tail()}")
            if time.monotonic() > deadline:
                raise RunFailed(f"braid serve was not ready within {_STARTING:g} s: {awaits}")
            told(awaits)
            self._look()
            time.sleep(_LOOKING)

    @property
    def process(self) -> psutil.Process:
        """Its manager, below which everything else of it runs."""
        if self._process is None:
            raise RunFailed("braid serve was not started")
        return psutil.Process(self._process.pid)

    def operator(self) -> Client:
        """A client that may do everything."""
        return Client(self.url, read_key(self.root))

    def client(self, key: str) -> Client:
        """A client as the holder of an API key."""
        return Client(self.url, key)

    def stop(self) -> str:
        """End it, and see that nothing of it is left; what was wrong about its end, if something was."""
        if self._process is None:
            return ""
        self._look()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING)
        # The kernel may take a moment to end what died with its parent.
        _, left = psutil.wait_procs([each for each in self._ever if _runs(each)], timeout=5.0)
        left = [each for each in left if _runs(each)]
        named = ", ".join(f"{each.pid} ({_name(each)})" for each in left)
        for each in left:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self._process.wait()
        if left:
            return f"braid serve left processes behind, which were killed now: {named}"
        return f"braid serve ended with exit code {self._process.returncode}" if self._process.returncode else ""

    def _awaits(self, before: str | None) -> str | None:
        """What it says it waits for; nothing once it is ready."""
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=5.0, trust_env=False)
        except httpx.TransportError:
            return before
        return None if answer.is_success else str(answer.json()["detail"])

    def _look(self) -> None:
        """Note which processes belong to it: those whose parent dies could not be found any more."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                found = psutil.Process(self._process.pid)
                self._ever |= {found, *found.children(recursive=True)}

    def _tail(self) -> str:
        return self.log.read_bytes()[-_TAIL:].decode(errors="replace").strip() or "nothing"


@contextmanager
def served(told: Callable[[str], None], options: Sequence[str] = ()) -> Iterator[ServiceProcess]:
    """A service that is ready, in a folder that goes away afterwards, but for its logs' sake where something fails.

    `options` are those of `braid serve`, besides root and port.
    """
    folder = Path(mkdtemp(prefix="braid-run-"))
    service = ServiceProcess(folder, options)
    where = f"The service's log is {service.log}, and that of its broker and host {service.root / 'keeper' / 'log'}"
    trouble = ""
    try:
        with _stops_on_signals() as ignore:
            try:
                service.start(told)
                yield service
            finally:
                ignore()
                told("stopping everything in order")
                trouble = service.stop()
    except KeyboardInterrupt:
        if not trouble:
            rmtree(folder)
            raise
    except (RunFailed, NotConnected, NotDone) as error:
        # What was wrong about its end as well is a consequence at most.
        raise RunFailed(f"{error}\n{where}") from error
    if trouble:
        raise RunFailed(f"{trouble}\n{where}")
    rmtree(folder)


@contextmanager
def _stops_on_signals() -> Iterator[Callable[[], None]]:
    """Have SIGTERM end the run as Ctrl-C does; what is yielded has neither do anything, for what must be finished."""
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


def _runs(process: psutil.Process) -> bool:
    """Whether a process runs; one that nobody has buried yet does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return "gone by now"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
