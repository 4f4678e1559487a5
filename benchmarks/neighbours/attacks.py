"""Attacks: what a greedy dataflow is, what is sent to it, and how it is known that it was stopped."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bridge import Message, topics
from bridge.messages import LARGEST_EVENT, LARGEST_PACKET, MOST_RAW_EVENTS
from bridge.transport.mqtt_client import MqttClient
from engine.plan import Limits, Slot
from tests.integration.flooding import Echo, flood
from tests.integration.hosting import Hosting, delivery, slot

LIMITS = Limits(state_bytes=20_000_000)
"""Less state than usual, so that an attack on it does not take long."""
ATTACKER = "eve"
"""The tenant that attacks."""
_MOST = 120.0
"""Seconds for which an attack lasts at most."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack; made by `attacks`."""

    name: str
    tasks: Callable[[int, int], tuple[Slot, ...]]
    """The slots beside its source, for the instances of the source and of the task."""
    carry_out: Callable[["Bystander"], float | None]
    """Carries it out; the seconds until it was stopped, or None if it ended by itself."""
    shares: bool = False
    """Whether it reads the stream of a quiet dataflow, and not one of its own."""
    shards: int = 1
    """The shards of the job."""


class Bystander:
    """Sends an attack's messages on a topic, and hears what becomes of them."""

    def __init__(self, hosting: Hosting, topic: str, instance: int, end: int, job: str) -> None:
        """`instance` is the greedy task, `end` its output."""
        self._hosting, self._topic, self._instance, self._job = hosting, topic, instance, job
        out = replace(delivery(end), tenant=ATTACKER)
        self._output = topics.output(out.tenant, out.dataflow, out.sink)
        self._refused = threading.Event()
        self._client = MqttClient(
            hosting.broker.address("braid"),
            f"greedy {instance}",
            topics=[topics.unread(topic)],
            on_message=self._take,
            on_disconnection=self._refused.set,
            lasting=False,
        )

    def begin(self) -> None:
        """Connect."""
        self._client.start()

    def end(self) -> None:
        """Disconnect."""
        self._client.stop()

    def send(self, messages: Callable[[], Sequence[bytes]]) -> float | None:
        """Send messages again and again until the greedy one is stopped; the seconds until then."""
        begun = time.monotonic()
        while not self._stopped():
            if time.monotonic() > begun + _MOST:
                return None
            for message in messages():
                if len(message) >= LARGEST_PACKET:
                    # Braid's own client would refuse it.
                    self._client._client.publish(self._topic, message, qos=0)  # noqa: SLF001 - see above
                else:
                    self._client.publish(self._topic, message)
            time.sleep(0.5)
        return round(time.monotonic() - begun, 1)

    def stream(self) -> None:
        """Send fifty events a second for twenty seconds."""
        for _ in range(1_000):
            self._client.publish(self._topic, b'{"n": 0, "k": "slow"}')
            time.sleep(0.02)

    def flood(self) -> None:
        """Send far more messages than the greedy one can take, while a subscriber of its output sleeps."""
        address = self._hosting.broker.address("braid")
        sleeper = MqttClient(address, "sleeps", topics=[self._output], on_message=lambda _message: None, lasting=False)
        sleeper.start()
        flood(address, self._topic, b'{"n": 0, "k": "flood"}', b'{"n": 1, "k": "last"}')
        sleeper.stop()

    def echo(self) -> None:
        """Send back every output twice, until no message may have more."""
        echo = Echo(self._hosting.broker.address("braid"), self._output, self._topic)
        echo.begin({"n": 0, "k": "echo"})
        until = time.monotonic() + _MOST
        while echo.sent <= MOST_RAW_EVENTS and time.monotonic() < until:
            time.sleep(0.1)
        echo.stop()

    def _stopped(self) -> bool:
        """Whether it was disconnected, its messages refused, its task failed, or its events made dead letters."""
        failed = self._hosting.status(self._job).get("failed", {})
        return self._refused.is_set() or bool(failed) or bool(self._hosting.heard(topics.dead(self._instance)))

    def _take(self, message: Message) -> None:
        self._refused.set()
        self._client.acknowledge([message.token])


def attacks() -> tuple[Attack, ...]:
    """All of them."""
    keys = iter(range(1 << 60))

    def many_keys() -> list[bytes]:
        return [json.dumps([{"n": 0, "k": f"{next(keys):0300d}"} for _ in range(10_000)]).encode()]

    def noop(source: int, task: int) -> tuple[Slot, ...]:
        return (slot(task, "noop", source),)

    def forty(source: int, task: int) -> tuple[Slot, ...]:
        first = 1_000 * task
        slow = [slot(first + at, "pi_viete", source, iterations=10_000 - at) for at in range(40)]
        return (*slow, slot(task, "noop", *(step.instance for step in slow)))

    return (
        Attack(
            name="an array of millions of events",
            tasks=noop,
            carry_out=_again(lambda: [b"[" + b",".join([b"{}"] * 2_600_000) + b"]"]),
        ),
        Attack(name="a large event", tasks=noop, carry_out=_again(lambda: [b'{"k": "' + b"x" * LARGEST_EVENT + b'"}'])),
        Attack(name="deep nesting", tasks=noop, carry_out=_again(lambda: [b"[" * 6_000_000])),
        Attack(name="a large packet", tasks=noop, carry_out=_again(lambda: [bytes(LARGEST_PACKET)])),
        Attack(
            name="a long window of long texts",
            tasks=lambda source, task: (slot(task, "accumulate", source, fields=["k"], window=10_000),),
            carry_out=_again(lambda: [json.dumps({"n": 0, "k": "x" * 1_000_000}).encode()] * 5),
        ),
        Attack(
            name="millions of keys",
            tasks=lambda source, task: (slot(task, "count", source, by=["k"]),),
            carry_out=_again(many_keys),
        ),
        Attack(
            name="slow events",
            tasks=lambda source, task: (slot(task, "pi_viete", source, iterations=10_000),),
            carry_out=_again(lambda: [json.dumps([{"n": 0, "k": "a"}] * 200).encode()]),
        ),
        Attack(name="forty slow tasks", tasks=forty, carry_out=Bystander.stream),
        Attack(name="forty slow tasks in three shards", tasks=forty, carry_out=Bystander.stream, shards=3),
        Attack(name="forty slow tasks behind a shared stream", tasks=forty, carry_out=_again(list), shares=True),
        Attack(name="a flood", tasks=noop, carry_out=Bystander.flood),
        Attack(name="a loop outside", tasks=noop, carry_out=Bystander.echo),
    )


def _again(messages: Callable[[], Sequence[bytes]]) -> Callable[[Bystander], float | None]:
    return lambda bystander: bystander.send(messages)
