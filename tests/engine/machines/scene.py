"""A machine over a real broker, whose hosts do nothing but run until they are stopped."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from bridge import Message, topics
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from engine.host.keeper import CopyAddress, MachineOptions
from engine.machines import machine as machines
from engine.machines.machine import Machine
from engine.replicas.channel import TlsFiles

T = TypeVar("T")
_BOUND = 30.0


class IdleHost:
    """A host without Spark; made by the machine."""

    has_jobs = True

    def __init__(self, name: str, root: Path, **_given: object) -> None:
        self.name = name
        self.root = root
        self.runs = False
        self._stopping = threading.Event()
        RUN.append(self)

    def run(self) -> bool:
        """Run until stopped."""
        self.runs = True
        self._stopping.wait()
        self.runs = False
        return False

    def stop(self) -> None:
        """Let `run` return."""
        self._stopping.set()

    def hang_up(self) -> None:
        """There is nothing to acknowledge."""

    def copies_grew(self) -> None:
        """Nothing waits for copies."""


RUN: list[IdleHost] = []
"""All hosts that were made."""


class MachineScene:
    """One broker, its machines, and an operator who orders and listens."""

    def __init__(self, folder: Path, address: Address, patch: pytest.MonkeyPatch) -> None:
        RUN.clear()
        patch.setattr(machines, "SparkHost", IdleHost)
        patch.setattr(machines, "cores_of", lambda _session: 1)
        patch.setattr(machines, "keep_warm", lambda _session, _stopping, _is_cold: None)
        patch.setattr(machines, "_ASK", 3.0)
        self.folder = folder
        self.statuses: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, bytes] = {}
        """The latest status of each machine as it came."""
        self.ended: dict[str, BaseException | None] = {}
        self._address = address
        self._machines: dict[str, tuple[Machine, threading.Thread]] = {}
        self._news = threading.Condition()
        self._line = MqttClient(address, "operator", topics=[topics.machine("+", "status")], on_message=self._take)
        self._line.start()

    def start(  # noqa: PLR0913 - its name, and all that it may offer
        self,
        name: str,
        *,
        copies: bool = True,
        hosts: int = 1,
        address: Address | None = None,
        files: TlsFiles | None = None,
        store: str = "",
    ) -> None:
        """Start a machine."""
        session: Any = object()
        copies_at = CopyAddress(host="127.0.0.1", port=0, files=files) if copies else None
        root = self.folder / (name if copies else "shared")
        options = MachineOptions(hosts=hosts, copies=copies_at, store=store)
        made = Machine(name, root, address or self._address, session, options, behaviours={})

        def run() -> None:
            try:
                made.run()
                self.ended[name] = None
            except Exception as error:  # noqa: BLE001 - the test looks at it
                self.ended[name] = error

        thread = threading.Thread(target=run)
        thread.start()
        self._machines[name] = made, thread

    def stop(self, name: str) -> None:
        """Stop a machine, and wait until it has ended."""
        machine, thread = self._machines.pop(name)
        machine.stop()
        thread.join(_BOUND)
        assert not thread.is_alive()

    def close(self) -> None:
        """Stop everything."""
        for name in list(self._machines):
            self.stop(name)
        self._line.stop()

    def order(self, host: str, machine: str, term: int, version: int, **more: Any) -> None:
        """Order who carries a host, and wait until the broker has it."""
        content = {"host": host, "machine": machine, "term": term, "version": version, **more}
        answered = threading.Event()
        self._line.publish(
            topics.host(host, "carrier"),
            json.dumps(content).encode(),
            retain=True,
            answered=lambda _why: answered.set(),
        )
        assert answered.wait(_BOUND)

    def peer(self, name: str) -> dict[str, str]:
        """Where a machine takes copies."""
        status = self.until(lambda: self.statuses.get(name), f"a status of {name}")
        return {"machine": name, "at": status["at"], "secret": status["secret"]}

    def carried(self, name: str) -> dict[str, Any]:
        """What a machine last reported of its hosts."""
        found: dict[str, Any] = self.statuses.get(name, {}).get("hosts", {})
        return found

    def running(self) -> set[tuple[str, str]]:
        """The hosts that run now, and the folder of each below this scene's."""
        return {(host.name, str(host.root.relative_to(self.folder))) for host in RUN if host.runs}

    def until(self, found: Callable[[], T | None], what: str) -> T:
        """Wait until something is so."""
        deadline = time.monotonic() + _BOUND
        with self._news:
            while not (value := found()):
                assert time.monotonic() < deadline, what
                # Hosts begin and end without news.
                self._news.wait(0.05)
        return value

    def _take(self, message: Message) -> None:
        with self._news:
            if message.payload:
                name = message.topic.split("/")[3]
                self.statuses[name], self.messages[name] = json.loads(message.payload), message.payload
            self._news.notify_all()
        self._line.acknowledge([message.token])
