"""The reports of a machine and its hosts, signed with its key, over the connection that brings its orders.

The signature keeps any other process from passing for the machine. The key is in the root, so a machine whose disk
is lost comes back with another one.

Orders are retained, so a new connection brings all of them again. An echo, which the broker returns after them, shows
that they have come. A machine that was held up, and whose hosts others may carry by now, asks for one before it
connects as any of them.

A report is published when something changes, and now and then.
"""

import json
import logging
import threading
import time
import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bridge import Message, topics
from bridge.files import link_whole, make_folder
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.probes import detect_protocol
from engine.host.cpu_meter import CpuMeter
from engine.machines.orders import CarrierOrder, CommonFiles, read_order
from ring.fleet import HostReport

_KEY_FILE = "machine.key"
_PURPOSE = b"braid machine 1\n"
"""Signed with each report, so that a signature says nothing else."""


class MachineKey:
    """The key in a root; machines that share the root share it."""

    def __init__(self, root: Path) -> None:
        """Read the key, or make one. Raises OSError if that cannot be done."""
        make_folder(root)
        path = root / _KEY_FILE
        if not path.exists():
            link_whole(path, Ed25519PrivateKey.generate().private_bytes_raw(), mode=0o600)
        try:
            self._key = Ed25519PrivateKey.from_private_bytes(path.read_bytes())
        except ValueError as error:
            raise OSError(
                f"{path} holds no key of a machine; remove it, and have the machine admitted again"
            ) from error
        self.public = _text(self._key.public_key().public_bytes_raw())
        """The part that everybody may know."""

    def signed(self, report: Mapping[str, Any]) -> bytes:
        """A report as a message, with the public key and a signature."""
        content = {**report, "key": self.public}
        return json.dumps({**content, "signature": _text(self._key.sign(_signed_part(content)))}).encode()


def public_key(root: Path) -> str:
    """The public key of the machine in a root; empty as long as none has run there."""
    return MachineKey(root).public if (root / _KEY_FILE).exists() else ""


def signed_content(message: bytes) -> Mapping[str, Any]:
    """The content of a message. Raises ValueError unless it was signed with the key that it names."""
    content: dict[str, Any] = json.loads(message)
    try:
        signature = _bytes(content.pop("signature", ""))
        Ed25519PublicKey.from_public_bytes(_bytes(content["key"])).verify(signature, _signed_part(content))
    except (InvalidSignature, ValueError, TypeError) as error:
        raise ValueError(f"it is not signed with the key that it names, {content.get('key')}") from error
    return content


def _signed_part(content: Mapping[str, Any]) -> bytes:
    return _PURPOSE + json.dumps(content, sort_keys=True).encode()


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


_ASK_AGAIN = 0.5
"""Seconds after which an echo that did not come is sent again."""
_REPEAT = 5.0
"""Seconds after which a report is published even if nothing has changed."""
log = logging.getLogger("braid.host")


class CarrierWatch:
    """The connection of one machine."""

    def __init__(  # noqa: PLR0913 - who it is, with which key, hosts and cores, over which broker, and what takes what comes are seven things
        self,
        machine: str,
        address: Address,
        key: MachineKey,
        *,
        own: Sequence[str],
        on_order: Callable[[CarrierOrder], None],
        count_cores: Callable[[], int],
        common: CommonFiles | None = None,
        **offers: Any,
    ) -> None:
        """`key` signs what is published; `on_order` is called with each order, in a thread of the connection.

        `own` are the machine's own hosts. With `common`, the files that the manager sends to all are kept there.
        `offers` are what does not change while it runs.
        """
        self._common = common
        self._key = key
        self._status = topics.machine(machine, "status")
        self._echo = topics.machine(machine, "echo")
        self._on_order = on_order
        self._asked = 0
        self._answered = 0
        self._news = threading.Condition()
        self._published: Mapping[str, Any] = {}
        self._end = {"machine": machine, "alive": False, "own": list(own)}
        self._about = {**self._end, "alive": True, "boot": uuid.uuid4().hex, **offers}
        self._count_cores = count_cores
        self._published_at, self._cores = -_REPEAT, 0
        self._client = MqttClient(
            address,
            f"braid-{machine}-machine",
            topics=[*([topics.common("#")] if common else []), topics.host("+", "carrier"), self._echo],
            on_message=self._take,
            on_connection=self._forget,
            will=(self._status, key.signed(self._end)),
            protocol=detect_protocol(address),
            lasting=False,
        )

    def begin(self) -> None:
        """Connect as soon as a broker answers."""
        self._client.begin()

    def stop(self) -> None:
        """Publish that the machine ends, and disconnect."""
        self._publish(self._end)
        self._client.stop()

    def ask(self, timeout: float) -> bool:
        """Wait until all orders of this moment have come; False if the broker did not answer in time."""
        with self._news:
            self._asked += 1
            number = self._asked
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            # One that overtook the subscription comes back to nobody.
            self._client.publish(self._echo, str(number).encode())
            with self._news:
                if self._news.wait_for(lambda: self._answered >= number, min(left, _ASK_AGAIN)):
                    return True
        return False

    def report(self, hosts: Mapping[str, HostReport], **changing: Any) -> None:
        """Publish what there is to say now: of each carried host, and whatever else changes."""
        if time.monotonic() - self._published_at >= _REPEAT:
            self._forget()
            self._published_at, self._cores = time.monotonic(), self._count_cores()
        written = msgspec.to_builtins(dict(hosts), order="deterministic")
        self._publish({**self._about, **changing, "cores": self._cores, "hosts": written})

    def _publish(self, status: Mapping[str, Any]) -> None:
        if status != self._published:
            self._published = status
            self._client.publish(self._status, self._key.signed(status), retain=True)

    def _forget(self) -> None:
        # A broker that was killed may have lost it.
        self._published = {}

    def _take(self, message: Message) -> None:
        if message.topic == self._echo:
            with self._news:
                self._answered = max(self._answered, int(message.payload))
                self._news.notify_all()
        elif self._common is not None and message.topic.startswith(topics.common("")):
            self._common.take(message.topic, message.payload)
        elif message.payload:
            try:
                self._on_order(read_order(message.payload))
            except ValueError as error:
                log.warning("an order is passed over, because it cannot be read: %s", error)
        self._client.acknowledge([message.token])


def own_hosts(machine: str, count: int) -> tuple[str, ...]:
    """The names of so many hosts of a machine's own.

    >>> own_hosts("ash", 3)
    ('ash', 'ash.2', 'ash.3')
    """
    return (machine, *(f"{machine}.{number}" for number in range(2, count + 1)))


_ROUNDS = 6
_REFERENCE = 0.03
"""Seconds of CPU that a round takes on the reference core, by which speeds are given."""


def measured_speed() -> float:
    """How fast a core is, by the reference core: the best of a few rounds of fixed work, in about 0.2 s of CPU."""
    return round(_REFERENCE / min(_round() for _ in range(_ROUNDS)), 3)


def _round() -> float:
    """The seconds of CPU that the work took, such as tasks do: look up, calculate, keep."""
    begun, known, total = time.thread_time(), dict[int, float](), 0.0
    for number in range(200_000):
        key = number * 2_654_435_761 % 1_021
        known[key] = known.get(key, 0.0) * 0.5 + number
        total += known[key]
    return time.thread_time() - begun


class MachineFigures:
    """The CPU and cores of one machine; any thread may ask."""

    def __init__(self, machine: str, own: Sequence[str], count_cores: Callable[[], int]) -> None:
        self._machine = machine
        self._own = own
        self._count_cores = count_cores
        self._meter = CpuMeter()

    def figures(self, host: str, carried: Collection[str]) -> Mapping[str, Any]:
        """The part of one carried host: all CPU by the first of the machine's own, and equal parts of the cores."""
        # A host begins before it is noted as carried.
        carried = {host, *carried}
        first = next((own for own in self._own if own in carried), None)
        return {
            "machine": self._machine,
            "cpu": self._meter.cpu() if host == first else {},
            "cores": self._count_cores() / len(carried),
        }
