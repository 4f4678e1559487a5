"""The watch of a machine: the connection on which it learns who carries which host, and reports about itself.

Orders are retained, so a new connection brings all of them again. An echo, which the broker returns after them, shows
that they have come. A machine that was held up, and whose hosts others may carry by now, asks for one before it
connects as any of them.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bridge import Message, topics
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.protocol_version import detect_protocol

_ASK_AGAIN = 0.5
"""Seconds after which an echo that did not come is sent again."""


class CarrierWatch:
    """The connection of one machine."""

    def __init__(
        self, machine: str, address: Address, *, own: Sequence[str], on_order: Callable[[bytes], None]
    ) -> None:
        """`own` are the machine's own hosts. `on_order` is called with each order, in a thread of the connection."""
        self._status = topics.machine(machine, "status")
        self._echo = topics.machine(machine, "echo")
        self._on_order = on_order
        self._asked = 0
        self._answered = 0
        self._news = threading.Condition()
        self._published = b""
        self._end = {"machine": machine, "alive": False, "own": own}
        self._client = MqttClient(
            address,
            f"braid-{machine}-machine",
            topics=[topics.host("+", "carrier"), self._echo],
            on_message=self._take,
            on_connection=self._forget,
            will=(self._status, json.dumps(self._end).encode()),
            protocol=detect_protocol(address),
            lasting=False,
        )

    def begin(self) -> None:
        """Connect as soon as a broker answers."""
        self._client.begin()

    def stop(self) -> None:
        """Disconnect."""
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

    def publish(self, status: Mapping[str, Any]) -> None:
        """Publish the status of the machine, unless it is what was published last."""
        payload = json.dumps(status, sort_keys=True).encode()
        if payload != self._published:
            self._published = payload
            self._client.publish(self._status, payload, retain=True)

    def say_end(self) -> None:
        """Publish that the machine ends."""
        self.publish(self._end)

    def repeat(self) -> None:
        """Have the next status published even if it is the same."""
        self._published = b""

    def _forget(self) -> None:
        # A broker that was killed may have lost it.
        self._published = b""

    def _take(self, message: Message) -> None:
        if message.topic == self._echo:
            with self._news:
                self._answered = max(self._answered, int(message.payload))
                self._news.notify_all()
        else:
            self._on_order(message.payload)
        self._client.acknowledge([message.token])
