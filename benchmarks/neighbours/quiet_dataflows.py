"""Quiet dataflows: they pass on an event at a time, and the latency of each event is noted."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from benchmarks.instruments import repeated
from bridge import Message, topics
from bridge.transport.mqtt_client import MqttClient
from tests.integration.hosting import Hosting, delivery

BEAT = 0.05
"""Seconds between two events of each."""
_PATIENCE = 120.0
"""Seconds after which an event that has not come counts as lost."""


@dataclass(frozen=True, slots=True)
class _Passed:
    sent: dict[int, float] = field(default_factory=dict)
    came: dict[int, float] = field(default_factory=dict)


class QuietDataflows:
    """Several of them, by the instances of their sources and outputs; they run within `running`."""

    def __init__(self, hosting: Hosting, sources: Sequence[int], ends: Sequence[int]) -> None:
        self._hosting = hosting
        self._passed = {(source, end): _Passed() for source, end in zip(sources, ends, strict=True)}
        outputs = [(delivery(end), passed) for (_, end), passed in self._passed.items()]
        self._by_topic = {topics.output(out.tenant, out.dataflow, out.sink): passed for out, passed in outputs}
        self._client = MqttClient(
            hosting.broker.address("braid"), "listens", topics=[*self._by_topic], on_message=self._take, lasting=False
        )
        self._numbers = count()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send an event to each in every beat."""
        self._client.start()
        with repeated(self._send, BEAT):
            yield
        self._client.stop()

    def settle(self) -> None:
        """Wait until all that was sent so far has come, or is taken for lost."""
        now = time.monotonic()
        while self.lost(0.0, now) and time.monotonic() < now + _PATIENCE:
            time.sleep(BEAT)

    def p99(self, begin: float, end: float) -> float:
        """The latency in seconds that 99 of 100 events stay below, of those sent in a while."""
        latencies = [
            passed.came[number] - at
            for passed in self._passed.values()
            for number, at in passed.sent.copy().items()
            if begin <= at < end and number in passed.came
        ]
        return round(float(np.quantile(latencies, 0.99)), 3) if latencies else float("nan")

    def lost(self, begin: float, end: float) -> int:
        """The events of a while that have not come."""
        return sum(
            begin <= at < end and number not in passed.came
            for passed in self._passed.values()
            for number, at in passed.sent.copy().items()
        )

    def _send(self) -> None:
        number = next(self._numbers)
        for (source, _), passed in self._passed.items():
            passed.sent[number] = time.monotonic()
            self._hosting.publish(f"quiet/{source}", [{"n": number, "k": "q"}])

    def _take(self, message: Message) -> None:
        now = time.monotonic()
        for event in json.loads(message.payload)["events"]:
            self._by_topic[message.topic].came.setdefault(event["n"], now)
        self._client.acknowledge([message.token])
