"""The watch of a machine: the connection on which it learns who carries which host, and reports about itself.

Orders are retained, so a new connection brings all of them again. An echo, which the broker returns after them, shows
that they have come. A machine that was held up, and whose hosts others may carry by now, asks for one before it
connects as any of them.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bridge import Message, topics
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient
from bridge.transport.probes import detect_protocol
from engine.machines.carrier_orders import CarrierOrder, read_order
from engine.machines.common_files import CommonFiles
from engine.machines.machine_key import MachineKey

_ASK_AGAIN = 0.5
"""Seconds after which an echo that did not come is sent again."""
log = logging.getLogger("braid.host")


class CarrierWatch:
    """The connection of one machine."""

    def __init__(  # noqa: PLR0913 - who it is, with which key and hosts, over which broker, and what takes what comes are six things
        self,
        machine: str,
        address: Address,
        key: MachineKey,
        *,
        own: Sequence[str],
        on_order: Callable[[CarrierOrder], None],
        common: CommonFiles | None = None,
    ) -> None:
        """`key` signs what is published; `on_order` is called with each order, in a thread of the connection.

        `own` are the machine's own hosts. With `common`, the files that the manager sends to all are kept there.
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
        if status != self._published:
            self._published = status
            self._client.publish(self._status, self._key.signed(status), retain=True)

    def say_end(self) -> None:
        """Publish that the machine ends."""
        self.publish(self._end)

    def repeat(self) -> None:
        """Have the next status published even if it is the same."""
        self._published = {}

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
