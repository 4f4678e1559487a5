"""A service for a run: `braid serve` as a process of its own, with a temporary folder and a free port."""

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
                raise RunFailed(f"braid serve ended with exit code {code}; it last wrote:\n{self._tail()}")
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

    def client(self, key: str) -> Client:
        """A client with an API key."""
        return Client(self.url, key)

    def stop(self) -> str:
        """Stop the service and make sure that no process is left; return what went wrong, or an empty text."""
        if self._process is None:
            return ""
        self._note_processes()
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING)
        # Processes that die with their parent may take a moment to end.
        _, left = psutil.wait_procs([each for each in self._seen if _runs(each)], timeout=5.0)
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
                found = psutil.Process(self._process.pid)
                self._seen |= {found, *found.children(recursive=True)}

    def _tail(self) -> str:
        return self.log.read_bytes()[-_TAIL:].decode(errors="replace").strip() or "nothing"


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


def _runs(process: psutil.Process) -> bool:
    """True if a process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return "gone"


def free_port() -> int:
    """A port of the loopback address on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
