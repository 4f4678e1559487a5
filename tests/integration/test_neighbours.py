"""Neighbours: three quiet dataflows on real Spark lose nothing, whatever a greedy one beside them asks for."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import psutil
import pytest

from bridge import topics
from bridge.messages import LARGEST_EVENT, LARGEST_PACKET, MOST_RAW_EVENTS
from bridge.transport.mqtt_client import MqttClient
from engine.job.health import GREEDY
from engine.plan import Edge, Ingress, Limits, Plan, Slot
from tests.integration.flooding import Echo, flood
from tests.integration.hosting import HOST, QUICK, Hosting, deliveries, delivery, raw, slot

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STATE = 3_000_000
"""Bytes of state that a task of the job may keep here."""
TENANT = "eve"
"""Whom the greedy tasks serve."""
MOST_MEMORY = 600_000_000
"""Bytes that a broker or a host's keeper may have then."""
BEAT = 0.05
"""Seconds between two events of a quiet dataflow."""


class Quiet:
    """Dataflows that pass on what comes, an event at a time; one in the job of the greedy one, two in others."""

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        self.sources = [hosting.fresh() for _ in range(3)]
        self.ends = [hosting.fresh() for _ in range(3)]
        self.sent = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def all_through(self) -> bool:
        """Whether each of them has passed on everything that was sent so far."""
        return all(self.hosting.count(delivery(end)) >= self.sent for end in self.ends)

    def settle(self) -> None:
        """Check that nothing was lost or doubled, and nothing came in another order."""
        self.hosting.until(self.all_through, f"{self.sent} events through each quiet dataflow")
        for end in self.ends:
            assert list(range(self.sent)) == [event["n"] for event in self.hosting.delivered(delivery(end))]

    def _send(self) -> None:
        for number in count():
            if self._stopping.wait(BEAT):
                return
            for source in self.sources:
                self.hosting.publish(f"quiet/{source}", [{"n": number, "k": "q"}])
            self.sent = number + 1


class Greedy:
    """A job with the first quiet dataflow, and tasks that ask for too much."""

    def __init__(self, hosting: Hosting, quiet: Quiet) -> None:
        self.hosting, self.quiet = hosting, quiet
        self.source, self.keeper, self.counter, self.slow_source, self.slow, *ends = (hosting.fresh() for _ in range(8))
        self.topic, self.slow_topic = f"greedy/{self.source}", f"slow/{self.slow_source}"
        self.unread: list[dict[str, Any]] = []
        self.client = MqttClient(
            hosting.broker.address("braid"),
            "greedy",
            topics=[topics.unread(self.topic)],
            on_message=lambda message: self.unread.append(json.loads(message.payload)),
        )
        self.client.start()
        slots = (
            slot(self.keeper, "accumulate", self.source, fields=["k"], window=10_000),
            slot(self.counter, "count", self.source, by=["k"]),
            slot(self.slow, "pi_viete", self.slow_source, iterations=10_000),
            *(
                slot(end, "output", task)
                for end, task in zip(ends, (self.keeper, self.counter, self.slow), strict=True)
            ),
        )
        self.slow_end = ends[2]
        for place, (source, end) in enumerate(zip(quiet.sources, quiet.ends, strict=True)):
            own = (slot(end, "output", Edge(parent=source)),)
            plan = Plan(
                job=f"j{source}",
                host=HOST,
                version=1,
                ingress=(raw(f"quiet/{source}", source),),
                slots=own,
                deliveries=deliveries(own),
                pace=QUICK,
                limits=Limits(state_bytes=STATE),
            )
            if not place:
                ingress = (raw(self.topic, self.source), raw(self.slow_topic, self.slow_source))
                self.plan = plan = self.beside(plan, slots, ingress)
            hosting.run(plan)

    @staticmethod
    def beside(plan: Plan, slots: Sequence[Slot], ingress: Sequence[Ingress] = ()) -> Plan:
        """A plan with tasks of another tenant in it."""
        return replace(
            plan,
            ingress=(*plan.ingress, *ingress),
            slots=(*plan.slots, *slots),
            deliveries=(*plan.deliveries, *(replace(each, tenant=TENANT) for each in deliveries(slots))),
        )

    def send(self, payload: bytes) -> None:
        self.hosting.client.publish(self.topic, payload)

    def reasons(self, instance: int) -> set[str]:
        """Why events of a task are dead letters."""
        return {letter["reason"] for letter in self.hosting.heard(topics.dead(instance))}

    def failed(self) -> dict[str, Any]:
        return dict(self.hosting.status(f"j{self.quiet.sources[0]}").get("failed", {}))


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Greedy]:
    hosting = Hosting(tmp_path_factory.mktemp("host"))
    try:
        quiet = Quiet(hosting)
        made = Greedy(hosting, quiet)
        quiet.begin()
        hosting.until(quiet.all_through, "the first events of the quiet dataflows")
        yield made
        made.client.stop()
    finally:
        hosting.close()


def awaited(greedy: Greedy, condition: Callable[[], bool], what: str) -> None:
    """Wait for the end of an attack, and until the quiet dataflows have passed on what came meanwhile."""
    greedy.hosting.until(condition, what)
    sent = greedy.quiet.sent
    ends = [delivery(end) for end in greedy.quiet.ends]
    greedy.hosting.until(
        lambda: all(greedy.hosting.count(each) >= sent for each in ends), f"the quiet events sent during: {what}"
    )


def test_messages_that_hold_too_much_are_dead_letters(greedy: Greedy) -> None:
    """Millions of events, a large event, deep nesting and many unfit events; each with its reason, and few letters."""
    greedy.send(b"[" + b",".join([b"{}"] * 2_600_000) + b"]")
    greedy.send(b'{"n": 1, "k": "' + b"x" * (LARGEST_EVENT + 1) + b'"}')
    greedy.send(b"[" * 6_000_000)
    greedy.send(b"[" + b",".join([b"1"] * (MOST_RAW_EVENTS - 1)) + b"]")
    greedy.send(bytes(9_000_000))
    awaited(greedy, lambda: len(greedy.unread) >= 105, "105 letters")
    reasons = [letter["reason"] for letter in greedy.unread]
    large = f"may have {LARGEST_EVENT:,}"
    for part in ("2,600,000 events", large, "not JSON", "9,000,000 bytes", "99,898 more events"):
        assert 1 == sum(part in reason for reason in reasons), part


def test_a_client_that_sends_more_than_a_broker_takes_is_disconnected_alone(greedy: Greedy) -> None:
    """The host's own clients stay, and its senders go on."""
    gone = threading.Event()
    lone = MqttClient(greedy.hosting.broker.address("braid"), "too much", on_disconnection=gone.set)
    lone.start()
    lone._client.publish(greedy.topic, bytes(LARGEST_PACKET), qos=0)
    awaited(greedy, gone.is_set, "the end of its connection")
    lone.stop()


def test_states_stop_growing_at_their_bound(greedy: Greedy) -> None:
    """Of long windows and of many keys; what would let them grow becomes dead letters with the reason."""
    for first in range(0, 16_000, 4_000):
        events = [{"n": n, "k": f"{n:0400d}"} for n in range(first, first + 4_000)]
        greedy.send(json.dumps(events).encode())
    both = (greedy.keeper, greedy.counter)
    awaited(
        greedy,
        lambda: all(any("its state would have more than" in each for each in greedy.reasons(one)) for one in both),
        "dead letters of both tasks",
    )


def test_events_that_take_long_wait_and_none_is_lost(greedy: Greedy) -> None:
    """They would take many batches' time: they come batch by batch, and no task is stopped."""
    end = replace(delivery(greedy.slow_end), tenant=TENANT)
    sent = 400
    greedy.hosting.client.publish(greedy.slow_topic, json.dumps([{"n": 0, "k": "a"}] * sent).encode())
    awaited(greedy, lambda: greedy.hosting.count(end) == sent, "all slow events")
    assert set() == greedy.reasons(greedy.slow)
    assert str(greedy.slow) not in greedy.failed()


def test_many_slow_tasks_behind_a_shared_stream_are_stopped(greedy: Greedy) -> None:
    """Each task alone stays within its bound. Others that read the stream get all their events."""
    tasks = [greedy.hosting.fresh() for _ in range(40)]
    slow = [slot(each, "pi_viete", greedy.quiet.sources[0], iterations=10_000 - at) for at, each in enumerate(tasks)]
    ends = [slot(greedy.hosting.fresh(), "output", *tasks)]
    greedy.hosting.run(greedy.beside(greedy.plan, [*slow, *ends]))
    awaited(
        greedy, lambda: GREEDY in {each["reason"] for each in greedy.failed().values()}, "the slow tasks to be failed"
    )
    greedy.hosting.run(greedy.plan)


def alone(hosting: Hosting, name: str) -> tuple[str, str]:
    """Run a job of its own that passes on what comes; the topics of its source and its output."""
    source, end = hosting.fresh(), hosting.fresh()
    topic, passes = f"{name}/{source}", slot(end, "output", source)
    (sent,) = deliveries((passes,))
    plan = Plan(
        job=f"j{source}",
        host=HOST,
        version=1,
        ingress=(raw(topic, source),),
        slots=(passes,),
        deliveries=(sent,),
        pace=QUICK,
    )
    hosting.run(plan)
    return topic, topics.output(sent.tenant, sent.dataflow, sent.sink)


def test_a_flooded_topic_and_a_subscriber_that_sleeps_hold_up_nobody(greedy: Greedy) -> None:
    """Twenty thousand messages a second for ten seconds: what is sent after them comes, and no memory fills up."""
    hosting = greedy.hosting
    topic, output = alone(hosting, "flood")
    # It acknowledges nothing, so the broker keeps for it what it has not read.
    sleeper = MqttClient(hosting.broker.address("braid"), "sleeps", topics=[output], on_message=lambda _message: None)
    sleeper.start()
    flood(hosting.broker.address("braid"), topic, b'{"n": 0, "k": "flood"}', b'{"n": 1, "k": "last"}')

    def last_has_come() -> bool:
        messages = hosting.heard(output)
        return bool(messages) and messages[-1]["events"][-1]["k"] == "last"

    awaited(greedy, last_has_come, "what follows it")
    sleeper.stop()
    for pid in (hosting.broker.pid, hosting.keeper.pid):
        assert psutil.Process(pid).memory_info().rss < MOST_MEMORY


def test_a_client_that_sends_every_output_back_twice_holds_up_nobody(greedy: Greedy) -> None:
    """What it doubles ends where a raw message may have no more events; the job goes on with what comes after."""
    hosting = greedy.hosting
    topic, output = alone(hosting, "echo")
    echo = Echo(hosting.broker.address("braid"), output, topic)
    echo.begin({"n": 0, "k": "echo"})
    awaited(greedy, lambda: echo.sent > MOST_RAW_EVENTS, "more events than a message may have")
    echo.stop()
    hosting.client.publish(topic, b'{"n": 1, "k": "last"}')
    awaited(greedy, lambda: hosting.heard(output)[-1]["events"][-1]["k"] == "last", "what follows it")


def test_the_quiet_dataflows_have_lost_nothing(greedy: Greedy) -> None:
    """After all of that: each event once, in order."""
    greedy.quiet.stop()
    greedy.quiet.settle()
