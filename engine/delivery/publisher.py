"""JobPublisher: what leaves a job for tenants and others outside, until the broker has it, and how old it was then."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple, Protocol

import pyarrow as pa

from bridge import topics
from bridge.events.births import Birth, part_of
from bridge.events.output_messages import dead_letter, output_message, raw_messages
from engine.delivery.latencies import DataflowOutput, Latencies
from engine.plan import Delivery, Plan, Port
from engine.records.record import Dead, EmittedEvents
from engine.side_effect import MESSAGES

RUNS = 1 << 32
"""The starts of a job that one epoch of a plan can tell apart."""


class PlainSender(Protocol):
    """What publishes plain messages; a sender of the bridge."""

    def send(self, topic: str, payload: bytes, done: Callable[[], None]) -> None:
        """Send a message, and tell when the broker has it."""


class _Sent(NamedTuple):
    """A message that was handed to the sender."""

    batch: int
    size: int
    output: DataflowOutput
    births: Sequence[Birth]


class JobPublisher:
    """One job's, from one of its starts on; called from the thread of its follower."""

    def __init__(self, sender: PlainSender, *, run: int, clock: Callable[[], float]) -> None:
        self.waiting_bytes = 0
        """Of messages for which the broker owes an answer; `settle` brings it up to date."""
        self.latencies = Latencies()
        self._sender = sender
        self._run = run
        self._clock = clock
        self._unsent: dict[int, int] = {}
        # The sender's thread fills it: a deque takes it without a lock.
        self._confirmed: deque[tuple[_Sent, float]] = deque()

    def settle(self) -> None:
        """Count what the broker has by now."""
        while self._confirmed:
            sent, at = self._confirmed.popleft()
            self.latencies.note(sent.output, sent.births, at)
            self.waiting_bytes -= sent.size
            self._unsent[sent.batch] -= 1
            if not self._unsent[sent.batch]:
                del self._unsent[sent.batch]

    def first_unsent(self, following: int) -> int:
        """The first batch of which something may still have to be sent; `following` is the next to be taken up."""
        self.settle()
        return min(self._unsent, default=following)

    def publish(self, batch: int, plan: Plan, left: Iterable[EmittedEvents]) -> None:
        """Send events of a batch to those outside that get them."""
        deliveries: dict[Port, list[Delivery]] = {}
        for delivery in plan.deliveries:
            deliveries.setdefault(delivery.origin, []).append(delivery)
        for emitted in left:
            if emitted.events is not None and emitted.origin.port == MESSAGES:
                self._publish_raw(batch, emitted, emitted.events)
            elif emitted.events is not None:
                for delivery in deliveries.get(emitted.origin, []):
                    self._deliver(batch, delivery, emitted, emitted.events)

    def park(self, batch: int, dead: Iterable[Dead]) -> None:
        """Send what could not be taken in a batch."""
        first = 0
        for each in dead:
            for payload in dead_letter(each.instance, each.port, each.reason, batch, each.events, first=first):
                self._send(topics.dead(each.instance), payload, _Sent(batch, len(payload), DataflowOutput(), ()))
            first += each.events.num_rows

    def epoch(self, epoch: int) -> int:
        """An epoch of a plan, as this start of the job has it."""
        return epoch * RUNS + self._run

    def _deliver(self, batch: int, delivery: Delivery, emitted: EmittedEvents, events: pa.RecordBatch) -> None:
        topic = topics.output(delivery.tenant, delivery.dataflow, delivery.sink)
        output = DataflowOutput(delivery.dataflow, delivery.sink)
        messages = output_message(delivery.sink, self.epoch(delivery.epoch), emitted.first, events)
        for first, end, payload in _with_ends(messages, emitted.first + emitted.count):
            births = part_of(emitted.births, first - emitted.first, end - emitted.first)
            self._send(topic, payload, _Sent(batch, len(payload), output, births))

    def _publish_raw(self, batch: int, emitted: EmittedEvents, messages: pa.RecordBatch) -> None:
        """Publish what a task gave to be published."""
        topics_of, texts = messages.column("topic").to_pylist(), messages.column("event").to_pylist()
        for topic, group in groupby(range(len(texts)), key=topics_of.__getitem__):
            at = list(group)
            own = [texts[each].encode() for each in at]
            births = part_of(emitted.births, at[0], at[-1] + 1)
            for payload in raw_messages(emitted.origin.instance, self.epoch(1), emitted.first + at[0], own):
                self._send(topic, payload, _Sent(batch, len(payload), DataflowOutput(), births))
                # Where one message does not hold them all, the first stands for them.
                births = ()

    def _send(self, topic: str, payload: bytes, sent: _Sent) -> None:
        self._unsent[sent.batch] = self._unsent.get(sent.batch, 0) + 1
        self.waiting_bytes += sent.size
        self._sender.send(topic, payload, partial(self._confirm, sent))

    def _confirm(self, sent: _Sent) -> None:
        # In the sender's thread.
        self._confirmed.append((sent, self._clock()))


def _with_ends(messages: Iterable[tuple[int, bytes]], end: int) -> Iterator[tuple[int, int, bytes]]:
    """Messages with the number of the first event in each and the one after its last, where the last one ends there."""
    before: tuple[int, bytes] | None = None
    for first, payload in messages:
        if before is not None:
            yield before[0], first, before[1]
        before = first, payload
    if before is not None:
        yield before[0], end, before[1]
