"""The child process of a broker, watched until it accepts clients."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from bridge.transport.address import Address
from bridge.transport.broker_login import set_credentials

_OUTPUT = 2_000
# Runs in the child before the broker. Python's own hook (`preexec_fn`) may deadlock in a program with threads.
_LAUNCHER = """
import ctypes, os, resource, signal, sys
# As many connections as the system allows, and not as few as a shell's default.
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent died")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Child:
    """One process of a broker, which runs in the folder of its log."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.ended = threading.Event()
        self._log = log
        started: Future[subprocess.Popen[bytes]] = Future()
        # To Linux the parent of a child is the thread that started it, so that thread lives as long as the child.
        threading.Thread(target=self._live, args=(command, started), name="broker", daemon=True).start()
        self.process = started.result()

    def trouble(self, address: Address, timeout: float) -> str | None:
        """Wait until a client can connect; returns the reason if none can in time.

        An address without a user only has to be listened at.
        """
        deadline = time.monotonic() + timeout
        refusal: str | None = "nothing was tried"
        while time.monotonic() < deadline:
            if self.ended.wait(0.02):
                return f"it ended with status {self.process.returncode}"
            refusal = _refusal(address, deadline)
            if refusal is None:
                return None
        return f"after {timeout:g} s no client could connect ({refusal})"

    def stop(self, timeout: float) -> None:
        """Terminate it, and kill it after the timeout."""
        self.process.terminate()
        if not self.ended.wait(timeout):
            self.process.kill()
            self.ended.wait()

    def output(self) -> str:
        """The last output of the process."""
        return self._log.read_bytes()[-_OUTPUT:].decode(errors="replace").strip()

    def _live(self, command: list[str], started: "Future[subprocess.Popen[bytes]]") -> None:
        try:
            with self._log.open("wb") as log:
                process = subprocess.Popen(  # noqa: S603 - the command is our own
                    [sys.executable, "-I", "-c", _LAUNCHER, str(os.getpid()), *command],
                    cwd=self._log.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Errors in English, because one of them is searched for.
                    env={**os.environ, "LC_ALL": "C"},
                    umask=0o077,
                    # An interrupt from the keyboard is for the parent, which ends its broker itself.
                    process_group=0,
                )
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that started it
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()
        self.ended.set()


def _refusal(address: Address, deadline: float) -> str | None:
    """The reason why a client cannot connect now; None if it can."""
    if address.user is None:
        try:
            socket.create_connection((address.host, address.port), timeout=1.0).close()
        except OSError as error:
            return str(error)
        return None
    answers: list[Any] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"braid-ready-{uuid.uuid4().hex[:8]}")
    set_credentials(client, address)
    client.on_connect = lambda _client, _data, _flags, reason, _properties: answers.append(reason)
    client.connect_timeout = 1.0
    try:
        client.connect(address.host, address.port)
        while not answers and time.monotonic() < deadline:
            if client.loop(timeout=0.1) != paho.MQTT_ERR_SUCCESS:
                break
    except OSError as error:
        return str(error)
    finally:
        with contextlib.suppress(OSError):
            client.disconnect()
    if not answers:
        return "no answer"
    return str(answers[0]) if answers[0].is_failure else None
