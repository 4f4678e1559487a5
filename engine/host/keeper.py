"""The keeper of a host: runs its process, and starts it again whenever it dies.

The processes that a dead host left are killed before the next one starts: an old JVM must not work beside a new one.
"""

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec
import psutil

from bridge.machine import BackOff
from bridge.transport.address import Address
from engine.replicas.channel import CopyTls, TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAddress:
    """The address at which a machine takes copies of other machines' hosts, with its files for TLS."""

    host: str
    port: int
    forwarded_to: tuple[str, int] | None = None
    """The address at which it listens, if others connect to another."""
    files: TlsFiles | None = None

    @classmethod
    def parse(
        cls,
        at: str,
        listen: str = "",
        /,
        *,
        certificate: Path | None = None,
        key: Path | None = None,
        authority: Path | None = None,
    ) -> "CopyAddress | None":
        """Read the options; None if the machine takes no copies. Raises ValueError."""
        named = {"--copies-certificate": certificate, "--copies-key": key, "--copies-ca": authority}
        missing = [option for option, path in named.items() if path is None]
        if not at:
            if listen or len(missing) < len(named):
                raise ValueError(f"--copies-listen, {', '.join(named)} are for copies; give --copies-at as well")
            return None
        host, port = _parsed("--copies-at", at)
        files = None
        if certificate and key and authority:
            files = TlsFiles(certificate=certificate.absolute(), key=key.absolute(), authority=authority.absolute())
        elif len(missing) < len(named):
            raise ValueError(f"{', '.join(named)} belong together; {', '.join(missing)} is missing")
        return cls(
            host=host, port=port, forwarded_to=_parsed("--copies-listen", listen) if listen else None, files=files
        )

    def reached_at(self, listening: str) -> str:
        """The address to which others connect, if this machine listens at the given one."""
        return f"{self.host}:{self.port}" if self.forwarded_to else listening

    @property
    def listen(self) -> tuple[str, int]:
        """The address at which it listens."""
        return self.forwarded_to or (self.host, self.port)

    def tls(self) -> CopyTls | None:
        """The TLS of these files; raises UnfitCertificate."""
        return None if self.files is None else CopyTls(self.files)

    def check(self) -> None:
        """Raise UnfitCertificate if other machines will not accept the certificate at this address."""
        if (tls := self.tls()) is not None:
            tls.check_name(self.host)


def _parsed(option: str, at: str) -> tuple[str, int]:
    host, _, port = at.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{option} {at} is no address; give it as host:port")
    return host, int(port)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """The options of a machine. The command reads them, and the keeper passes them on to the process, as JSON."""

    master: str | None = None
    tags: tuple[str, ...] = ()
    image: str = ""
    zone: str = ""
    hosts: int = 1
    """How many hosts of its own it has: that of its name, NAME.2, NAME.3, and so on."""
    copies: CopyAddress | None = None
    """None if it keeps no copies for others."""
    common: Path | None = None
    """A folder that all machines reach, with published code and secrets; without it they are in the root, or sent."""
    store: str = ""
    """The URL of a store. A machine with neither copies nor a store shares its root."""

    def written(self) -> bytes:
        """The options as JSON."""
        return msgspec.json.encode(self, enc_hook=str)

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """The options that were written."""
        return msgspec.json.decode(text, type=cls, dec_hook=lambda kind, value: kind(value))


_BACK_OFF = BackOff((1.0, 2.0, 5.0, 15.0))
"""Seconds before a process that died soon is started again; one that had run for a while is started at once."""
_A_WHILE = 60.0
_LOOK_SECONDS, _SELDOM_SECONDS = 0.5, 5.0
"""Seconds between two looks at what the process has started: most of that comes in its first while."""
log = logging.getLogger("braid.keeper")


NO_OPTIONS = MachineOptions()


class HostKeeper(AbstractContextManager["HostKeeper"]):
    """Keeps one host running until it is stopped."""

    def __init__(
        self,
        name: str,
        root: Path,
        address: Address,
        options: MachineOptions = NO_OPTIONS,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.deaths = 0
        self._name = name
        self._root = root
        # The broker's URL may hold a password, and every user of the machine can read the arguments.
        self._input = address.url.encode() + b"\n" + options.written() + b"\n"
        self._environment = environment
        self._stopping = threading.Event()
        self._tree: set[psutil.Process] = set()
        root.mkdir(parents=True, exist_ok=True)
        self._process = self._start()
        self._thread = threading.Thread(target=self._keep, name=f"keeps {name}", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The id of the process that was started last."""
        return self._process.pid

    @property
    def log_path(self) -> Path:
        """The file that the host logs to."""
        return self._root / f"{self._name}.log"

    def stop(self, timeout: float = 60.0) -> None:
        """Let the host end its jobs and itself; kill it if it has not ended within the timeout."""
        self._stopping.set()
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            log.warning("host %s does not end and is killed", self._name)
            self._look()
            self._process.kill()
        self._thread.join()
        self._clear()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log_path.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - our own module, with arguments that no shell reads
                [sys.executable, "-m", "engine.machines.process", self._name, str(self._root)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=self._environment,
            )
        # If it has died already, the keeping thread finds out.
        with suppress(BrokenPipeError):
            if process.stdin is not None:
                process.stdin.write(self._input)
                # Left open: the host ends when its input does, which is when its keeper is gone.
                process.stdin.flush()
        return process

    def _keep(self) -> None:
        began, deaths_soon = time.monotonic(), 0
        while True:
            code = self._ended()
            if self._stopping.is_set():
                return
            self.deaths += 1
            deaths_soon = 0 if time.monotonic() - began > _A_WHILE else deaths_soon + 1
            log.warning("host %s ended with %s; see %s", self._name, code, self.log_path)
            self._clear()
            if self._stopping.wait(_BACK_OFF.after(deaths_soon)):
                return
            self._process, began = self._start(), time.monotonic()

    def _ended(self) -> int:
        """The code with which the process ends, once it has; what it starts until then is noted."""
        process, began, ended = self._process, time.monotonic(), threading.Event()

        def wait() -> None:
            process.wait()
            ended.set()

        # A wait with a timeout would wake up twenty times a second.
        threading.Thread(target=wait, name=f"waits for {self._name}", daemon=True).start()
        self._look()
        while not ended.wait(_LOOK_SECONDS if time.monotonic() - began < _A_WHILE else _SELDOM_SECONDS):
            self._look()
        return process.returncode

    def _look(self) -> None:
        """Note the processes that the host has started; once it is dead nothing shows that they were its own."""
        try:
            self._tree |= set(psutil.Process(self._process.pid).children(recursive=True))
        except psutil.NoSuchProcess:
            return
        self._tree = {process for process in self._tree if process.is_running()}

    def _clear(self) -> None:
        """Close the input of a dead host, and kill the processes that it left."""
        with suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        for process in self._tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(self._tree, timeout=10)
        self._tree.clear()
