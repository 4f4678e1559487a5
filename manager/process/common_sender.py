"""The sender of common files: it keeps the broker's copy of what machines without a common folder read of the root."""

import hashlib
import logging
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridge import Message, topics
from bridge.transport.mqtt_client import MqttClient
from engine.machines.common_files import common_files, common_messages

_LOOK_EVERY = 1.0
log = logging.getLogger("braid.manager")


class CommonSender:
    """Sends from `start` to `stop`; the leading manager's."""

    def __init__(self, root: Path, connect: Callable[..., MqttClient]) -> None:
        self._root = root
        self._connect = connect
        self._client: MqttClient | None = None
        self._retained: dict[str, bytes] = {}
        """The digest of what the broker retains on each topic, as far as it came back."""
        self._wanted: dict[str, bytes] = {}
        """Likewise of what it should retain."""
        self._seen: object = None
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sends common files", daemon=True)

    def start(self) -> None:
        """Begin."""
        callbacks: dict[str, Any] = {"on_message": self._hear, "on_connection": self._forget}
        self._client = self._connect(f"braid-common-{uuid.uuid4().hex[:12]}", topics=[topics.common("#")], **callbacks)
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more; idempotent."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._client is not None:
            self._client.stop()

    def look(self) -> None:
        """Send what has changed; from any thread."""
        with self._guard:
            version = {name: _version(self._root / name) for name in common_files(self._root)}
            if self._client is None or version == self._seen:
                return
            self._seen = version
            messages = common_messages(self._root)
            self._wanted = {topic: _digest(payload) for topic, payload in messages.items()}
            for topic, payload in messages.items():
                if self._retained.get(topic) != self._wanted[topic]:
                    self._client.publish(topic, payload, retain=True)
            # What the list does not name any more is cleared after it.
            for topic in sorted(self._retained.keys() - messages.keys()):
                self._client.publish(topic, b"", retain=True)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_EVERY):
            try:
                self.look()
            except OSError as error:
                log.warning("common files are not sent to machines until the next look: %s", error)

    def _hear(self, message: Message) -> None:
        if message.payload:
            self._retained[message.topic] = _digest(message.payload)
        else:
            self._retained.pop(message.topic, None)
        if self._retained.get(message.topic) != self._wanted.get(message.topic):
            # A manager of before sent it; the next look sends what is right.
            self._seen = None
        if self._client is not None:
            self._client.acknowledge([message.token])

    def _forget(self) -> None:
        # Another broker may have nothing.
        self._retained.clear()
        self._seen = None


def _digest(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()


def _version(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns
