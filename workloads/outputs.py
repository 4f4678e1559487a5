"""Tallies of the tenants' outputs, received live from the broker with each tenant's own credentials."""

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
from bridge.transport.mqtt_client import MqttClient, NotConnected
from bridge.transport.probes import detect_protocol
from manager.answers.tenants import BrokerCredentials
from workloads.service_process import RunFailed

_PATIENCE = 90.0
"""Seconds to wait for events before a run fails."""
_ACCEPTANCE = 10.0
"""Seconds within which the broker accepts new credentials; it takes milliseconds."""
log = logging.getLogger("braid.outputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTally:
    """The events received of one output."""

    begun: int | None = None
    """The number of the first event."""
    events: int = 0
    """Received events, each counted once."""
    missing: int = 0
    """Numbers for which no event was received."""
    last: Any = None
    """The newest event."""
    at: float = 0.0
    """Its arrival, by the clock of `time.monotonic`."""
    longest_gap: float = 0.0
    """The longest time between two messages since the last `Outputs.reset_gaps`."""

    def take(self, first: int, events: list[Any], now: float) -> "OutputTally":
        """Add a message; an event that is sent twice has the same number both times.

        >>> tally = OutputTally().take(7, ["a", "b"], 1.0).take(8, ["b", "c"], 2.0)
        >>> tally.events, tally.missing, tally.last
        (3, 0, 'c')
        >>> tally.take(12, ["f"], 3.0).missing
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
            longest_gap=max(self.longest_gap, now - self.at if self.at else 0.0),
        )


class Outputs:
    """The tallies of all outputs, by topic; the threads of the connections update them."""

    def __init__(self) -> None:
        self._tallies: dict[str, OutputTally] = {}
        self._changed = threading.Condition()

    def __getitem__(self, topic: str) -> OutputTally:
        with self._changed:
            return self._tallies.get(topic, OutputTally())

    def deliver(self, message: Message) -> None:
        """Add a message from the broker; log and skip one that is no output."""
        try:
            content = json.loads(message.payload)
            first, events = int(content["first"]), list(content["events"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            log.warning("topic %s: skipped a message that is no output: %r", message.topic, error)
            return
        with self._changed:
            before = self._tallies.get(message.topic, OutputTally())
            self._tallies[message.topic] = before.take(first, events, time.monotonic())
            self._changed.notify_all()

    def all(self) -> dict[str, OutputTally]:
        """The current tally of each output."""
        with self._changed:
            return dict(self._tallies)

    def reset_gaps(self) -> dict[str, OutputTally]:
        """Set every `longest_gap` to 0; return the tallies."""
        with self._changed:
            self._tallies = {topic: replace(tally, longest_gap=0.0) for topic, tally in self._tallies.items()}
            return dict(self._tallies)

    def wait_for_events(self, due: Mapping[str, int]) -> None:
        """Wait until each of these outputs has got so many events in total."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._short(due), _PATIENCE):
                raise RunFailed(f"no further events on {', '.join(self._short(due))} for {_PATIENCE:g} s")

    def _short(self, due: Mapping[str, int]) -> list[str]:
        return [topic for topic, number in due.items() if self[topic].events < number]


@contextmanager
def connected_tenants(outputs: Outputs, credentials: Mapping[str, BrokerCredentials]) -> Iterator[str]:
    """Connect every tenant to the broker while the context lasts."""
    with ExitStack() as held:
        for tenant, each in credentials.items():
            address = replace(Address.parse(each.url), user=each.user, password=each.password)
            _connect(held, outputs, address, f"demo-{tenant}", each.reads)
        users = " and ".join(
            f"{each.user}, who may read {', '.join(each.reads)}" for _, each in sorted(credentials.items())
        )
        yield f"Connected to the broker as {users}."


def _connect(held: ExitStack, outputs: Outputs, address: Address, name: str, wanted: Sequence[str]) -> None:
    """Subscribe until the context ends; retry while the broker does not accept the new credentials yet."""
    deadline = time.monotonic() + _ACCEPTANCE
    protocol = detect_protocol(address)
    while True:
        client = _client(outputs, address, name, wanted, protocol)
        try:
            client.start()
        except NotConnected:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            held.callback(client.stop)
            return


def _client(
    outputs: Outputs, address: Address, name: str, wanted: Sequence[str], protocol: MQTTProtocolVersion
) -> MqttClient:
    def take(message: Message) -> None:
        outputs.deliver(message)
        client.acknowledge([message.token])

    client = MqttClient(address, name, topics=wanted, on_message=take, protocol=protocol, lasting=False)
    return client
