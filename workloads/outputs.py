"""What tenants hear: their outputs, live from the broker, each with credentials of its own."""

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from paho.mqtt.enums import MQTTProtocolVersion

from bridge import Message
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient as Line
from bridge.transport.mqtt_client import NotConnected
from bridge.transport.protocol_version import detect_protocol
from manager.answers import BrokerCredentials
from workloads.service_process import RunFailed

_PATIENCE = 90.0
"""Seconds after which a run gives up waiting for events."""
_LET_IN = 10.0
"""Seconds within which the broker lets somebody in whose credentials were just made; it takes milliseconds."""
log = logging.getLogger("braid.outputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTally:
    """What came of one output."""

    begun: int | None = None
    """The number of the first event that came."""
    events: int = 0
    """How many came, each counted once."""
    missing: int = 0
    """How many numbers no event came with."""
    last: Any = None
    """The newest event."""
    at: float = 0.0
    """When it came, by the clock of `time.monotonic`."""
    longest: float = 0.0
    """The longest time between two messages since somebody asked."""

    def take(self, first: int, events: list[Any], now: float) -> "OutputTally":
        """Take up a message; what was sent twice bears the same numbers.

        >>> heard = OutputTally().take(7, ["a", "b"], 1.0).take(8, ["b", "c"], 2.0)
        >>> heard.events, heard.missing, heard.last
        (3, 0, 'c')
        >>> heard.take(12, ["f"], 3.0).missing
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
            longest=max(self.longest, now - self.at if self.at else 0.0),
        )


class Outputs:
    """What came of every output, by topic; the connections' threads write it."""

    def __init__(self) -> None:
        self._heard: dict[str, OutputTally] = {}
        self._changed = threading.Condition()

    def __getitem__(self, topic: str) -> OutputTally:
        with self._changed:
            return self._heard.get(topic, OutputTally())

    def deliver(self, message: Message) -> None:
        """Take up a message of the broker; one that is no output is passed over."""
        try:
            told = json.loads(message.payload)
            first, events = int(told["first"]), list(told["events"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            log.warning("topic %s: passed over, because it is no output: %r", message.topic, error)
            return
        with self._changed:
            before = self._heard.get(message.topic, OutputTally())
            self._heard[message.topic] = before.take(first, events, time.monotonic())
            self._changed.notify_all()

    def all(self) -> dict[str, OutputTally]:
        """What came of each output so far."""
        with self._changed:
            return dict(self._heard)

    def begin_waits(self) -> dict[str, OutputTally]:
        """Have `longest` begin anew; gives what came until now."""
        with self._changed:
            self._heard = {topic: replace(heard, longest=0.0) for topic, heard in self._heard.items()}
            return dict(self._heard)

    def wait_for(self, due: Mapping[str, int]) -> None:
        """Wait until each of these outputs has got so many events in all."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._short(due), _PATIENCE):
                raise RunFailed(f"nothing more came on {', '.join(self._short(due))} for {_PATIENCE:g} s")

    def _short(self, due: Mapping[str, int]) -> list[str]:
        return [topic for topic, number in due.items() if self[topic].events < number]


@contextmanager
def connected_tenants(outputs: Outputs, credentials: Mapping[str, BrokerCredentials]) -> Iterator[str]:
    """Connect every tenant to the broker while the context lasts; says as whom they are connected."""
    with ExitStack() as lines:
        for tenant, each in credentials.items():
            address = replace(Address.parse(each.url), user=each.user, password=each.password)
            _connect(lines, outputs, address, f"demo-{tenant}", each.reads)
        users = " and ".join(
            f"{each.user}, who may read {', '.join(each.reads)}" for _, each in sorted(credentials.items())
        )
        yield f"Connected to the broker as {users}."


def _connect(lines: ExitStack, outputs: Outputs, address: Address, name: str, wanted: Sequence[str]) -> None:
    """Subscribe until the context ends; whose credentials were just made is let in a moment later."""
    deadline = time.monotonic() + _LET_IN
    protocol = detect_protocol(address)
    while True:
        line = _line(outputs, address, name, wanted, protocol)
        try:
            line.start()
        except NotConnected:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            lines.callback(line.stop)
            return


def _line(outputs: Outputs, address: Address, name: str, wanted: Sequence[str], protocol: MQTTProtocolVersion) -> Line:
    def take(message: Message) -> None:
        outputs.deliver(message)
        line.acknowledge([message.token])

    line = Line(address, name, topics=wanted, on_message=take, protocol=protocol, lasting=False)
    return line
