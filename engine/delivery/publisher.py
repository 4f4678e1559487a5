"""The publisher of a job: sends outputs and dead letters, notes their ages, and reads the latest outputs again.

The broker confirms each message. Only then does its batch count as sent, and its latency is noted. The recent outputs
are read from the job's records and not from the broker: at least the last batches are there, and often more.

Every output leaves as envelopes on the topic that Braid gives it: whoever counts reads those. Its tenant may have it in
another format besides, or on a topic of its own, or as an edge node over a connection of its own.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby, pairwise
from typing import NamedTuple

import pyarrow as pa

from bridge import topics
from bridge.messages import QoS
from bridge.output_formats import LeftOut, Unsayable, formatted, left_out_message
from bridge.output_messages import dead_letter, event_texts, output_message, raw_messages
from bridge.output_topics import OutputTopics, chosen_topic
from bridge.sender import PlainMessage, Sender
from bridge.sparkplug_nodes import NodeSettings, SparkplugNodes
from bridge.transport.subscriptions import note_failed
from bridge.wire import Birth, part_of
from dags.outputs import EnvelopeOutput, OutputSettings, SparkplugOutput
from engine.delivery.latencies import DataflowOutput, Latencies
from engine.plan import Delivery, Plan, Port
from engine.records.files import DAMAGE
from engine.records.job_folder import JobFolder
from engine.records.record import Dead, EmittedEvents
from engine.records.store import RecordStore
from engine.side_effect import MESSAGES

_AS_ALWAYS = OutputSettings()
RUNS = 1 << 32
"""The number of starts of a job within one epoch of a plan."""


def run_epoch(epoch: int, run: int) -> int:
    """The epoch on the wire: it rises with the epoch of the plan and with each start of the job."""
    return epoch * RUNS + run


class _Sent(NamedTuple):
    batch: int
    size: int
    output: DataflowOutput
    births: Sequence[Birth]


_LONGEST_SHOWN = 200
"""Characters that are kept of an event that was left out, and of the reason."""


@dataclass(frozen=True, slots=True)
class LeftOutSoFar:
    """The events that an output has left out since its job started, with the first of the latest batch."""

    count: int
    at: float
    """When the latest was left out, in seconds since 1970."""
    reason: str
    event: str


class JobPublisher:
    """Publishes for one start of a job; called from the thread of its follower."""

    def __init__(
        self, sender: Sender, *, run: int, clock: Callable[[], float], nodes: SparkplugNodes | None = None
    ) -> None:
        """`nodes` has the edge nodes of the host; without it, outputs are none."""
        self.waiting_bytes = 0
        """The size of messages that the broker has not confirmed; `settle` brings it up to date."""
        self.latencies = Latencies()
        self._sender = sender
        self._nodes = nodes
        self._run = run
        self._clock = clock
        self._unsent: dict[int, int] = {}
        self._topics: dict[tuple[str, str, str], OutputTopics] = {}
        """By dataflow, sink and topic, those of the outputs that the latest plan delivers."""
        self.left_out: dict[DataflowOutput, LeftOutSoFar] = {}
        """The outputs of the latest plan that have left out events; the sender's thread adds to it."""
        self._collected: list[PlainMessage] = []
        """The messages of one batch, which go to the sender together."""
        # The sender's thread fills it: a deque takes it without a lock.
        self._confirmed: deque[tuple[_Sent, float]] = deque()

    def settle(self) -> None:
        """Count the messages that the broker has confirmed by now."""
        while self._confirmed:
            sent, at = self._confirmed.popleft()
            self.latencies.note(sent.output, sent.births, at)
            self.waiting_bytes -= sent.size
            self._unsent[sent.batch] -= 1
            if not self._unsent[sent.batch]:
                del self._unsent[sent.batch]

    def first_unsent(self, following: int) -> int:
        """The first batch with a message that is not confirmed; else the one that follows."""
        self.settle()
        return min(self._unsent, default=following)

    def publish(self, batch: int, plan: Plan, left: Iterable[EmittedEvents]) -> None:
        """Send a batch's events to the tenants that they are delivered to, and to topics that tasks publish on."""
        deliveries: dict[Port, list[Delivery]] = {}
        for delivery in plan.deliveries:
            deliveries.setdefault(delivery.origin, []).append(delivery)
        if self._nodes is not None:
            self._nodes.keep(plan.job, _nodes_in(plan))
        for emitted in left:
            if emitted.events is not None and emitted.origin.port == MESSAGES:
                self._publish_raw(batch, emitted, emitted.events)
            elif emitted.events is not None:
                shared = deliveries.get(emitted.origin, [])
                # Once for all tenants that share the output.
                texts = [*event_texts(emitted.events)] if shared else []
                for delivery in shared:
                    self._deliver(batch, delivery, emitted, texts)
                    if not isinstance((delivery.output or _AS_ALWAYS).format, EnvelopeOutput):
                        self._deliver_lines(batch, delivery, emitted, emitted.events)
        self._send_collected()
        self._forget_outputs(plan)

    def publish_dead_letters(self, batch: int, dead: Iterable[Dead]) -> None:
        """Send the events of a batch that no task could take."""
        first = 0
        for parked in dead:
            letters = dead_letter(
                parked.instance,
                parked.port,
                parked.reason,
                batch,
                parked.events,
                first=first,
                traceback=parked.traceback,
            )
            for payload in letters:
                self._collect(topics.dead(parked.instance), payload, _Sent(batch, len(payload), DataflowOutput(), ()))
            first += parked.events.num_rows
        self._send_collected()

    def _deliver(self, batch: int, delivery: Delivery, emitted: EmittedEvents, texts: Sequence[bytes]) -> None:
        settings = delivery.output or _AS_ALWAYS
        topic = topics.output(delivery.tenant, delivery.dataflow, delivery.sink)
        output = DataflowOutput(delivery.dataflow, delivery.sink)
        enveloped = isinstance(settings.format, EnvelopeOutput)
        own_topic = settings.topic if enveloped else None
        retain = enveloped and settings.retain
        messages = output_message(delivery.sink, run_epoch(delivery.epoch, self._run), emitted.first, texts)
        # Each with the number of the first event of the next.
        for (first, payload), (end, _) in pairwise(chain(messages, [(emitted.first + emitted.count, b"")])):
            births = part_of(emitted.births, first - emitted.first, end - emitted.first)
            sent = _Sent(batch, len(payload), output, births)
            self._collect(topic, payload, sent, retain=retain and own_topic is None)
            if own_topic is not None:
                copy = _Sent(batch, len(payload), DataflowOutput(), ())
                self._collect(own_topic, payload, copy, retain=retain, qos=settings.qos)

    def _deliver_lines(self, batch: int, delivery: Delivery, emitted: EmittedEvents, events: pa.RecordBatch) -> None:
        """Have each event sent as one message. They are made when they are sent, because together they are large."""
        settings = delivery.output or _AS_ALWAYS
        topic = chosen_topic(delivery.tenant, delivery.dataflow, delivery.sink, settings)
        key = delivery.dataflow, delivery.sink, topic
        if (own := self._topics.get(key)) is None:
            own = self._topics[key] = OutputTopics(topic)
        sent = _Sent(batch, events.nbytes, DataflowOutput(), ())
        self._count(sent)
        nodes = self._nodes if isinstance(settings.format, SparkplugOutput) else None
        (nodes or self._sender).send_lazily(topic, self._lines(own, sent, delivery, settings, emitted, events))

    def _forget_outputs(self, plan: Plan) -> None:
        if self._topics or self.left_out:
            delivered = {DataflowOutput(delivery.dataflow, delivery.sink) for delivery in plan.deliveries}
            self._topics = {key: own for key, own in self._topics.items() if key[:2] in delivered}
            for output in self.left_out.keys() - delivered:
                del self.left_out[output]

    def _lines(  # noqa: PLR0913, PLR0917 - a batch, whose it is, and where it goes
        self,
        own: OutputTopics,
        sent: _Sent,
        delivery: Delivery,
        settings: OutputSettings,
        emitted: EmittedEvents,
        events: pa.RecordBatch,
    ) -> Iterator[PlainMessage | None]:
        """The messages of a batch's events, and one notice for all that the format or the topic cannot say."""
        common = (("stream", delivery.sink), ("epoch", str(run_epoch(delivery.epoch, self._run))))
        left_out: LeftOut | None = None
        # The broker may answer before all are made.
        waiting = 1

        def done() -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                self._confirm(sent)

        try:
            lines = zip(formatted(settings.format, events, emitted.births), own.of(events), strict=True)
            for number, (line, topic) in enumerate(lines, emitted.first):
                if isinstance(line, Unsayable):
                    reason = line.reason
                elif isinstance(topic, Unsayable):
                    reason = topic.reason
                elif settings.retain and (refused := own.why_not_retained(topic, line)) is not None:
                    reason = refused.reason
                else:
                    waiting += 1
                    properties = (*common, ("number", str(number)))
                    yield PlainMessage(topic, line, done, settings.retain, settings.qos, properties)
                    continue
                if left_out is None:
                    left_out = LeftOut(1, number, reason, next(event_texts(events.slice(number - emitted.first, 1))))
                else:
                    left_out = replace(left_out, count=left_out.count + 1)
                yield None
            if left_out is not None:
                owner = delivery.tenant, delivery.dataflow, delivery.sink
                self._note_left_out(DataflowOutput(delivery.dataflow, delivery.sink), left_out)
                notice = left_out_message(delivery.sink, sent.batch, left_out)
                waiting += 1
                yield PlainMessage(topics.left_out(*owner), notice, done)
        except Exception as error:  # noqa: BLE001 - one format must not end the sender, which all jobs share
            note_failed(f"the format of an output on {own.topic}", error)
        done()

    def _note_left_out(self, output: DataflowOutput, left_out: LeftOut) -> None:
        before = self.left_out.get(output)
        self.left_out[output] = LeftOutSoFar(
            count=left_out.count + (before.count if before else 0),
            at=self._clock(),
            reason=left_out.reason[:_LONGEST_SHOWN],
            event=left_out.event[: _LONGEST_SHOWN * 4].decode("utf-8", "replace")[:_LONGEST_SHOWN],
        )

    def _publish_raw(self, batch: int, emitted: EmittedEvents, messages: pa.RecordBatch) -> None:
        rows = enumerate(zip(messages.column("topic").to_pylist(), messages.column("event").to_pylist(), strict=True))
        for topic, group in groupby(rows, key=lambda row: row[1][0]):
            at, texts = zip(*((number, text.encode()) for number, (_, text) in group), strict=True)
            births = part_of(emitted.births, at[0], at[-1] + 1)
            for payload in raw_messages(emitted.origin.instance, run_epoch(1, self._run), emitted.first + at[0], texts):
                self._collect(topic, payload, _Sent(batch, len(payload), DataflowOutput(), births))
                # If it takes several messages, the first counts for all events.
                births = ()

    def _collect(self, topic: str, payload: bytes, sent: _Sent, *, retain: bool = False, qos: QoS = 1) -> None:
        self._count(sent)
        self._collected.append(PlainMessage(topic, payload, partial(self._confirm, sent), retain, qos))

    def _count(self, sent: _Sent) -> None:
        self._unsent[sent.batch] = self._unsent.get(sent.batch, 0) + 1
        self.waiting_bytes += sent.size

    def _send_collected(self) -> None:
        if self._collected:
            self._sender.send(*self._collected)
            self._collected = []

    def _confirm(self, sent: _Sent) -> None:
        # Called in the sender's thread.
        self._confirmed.append((sent, self._clock()))


def _nodes_in(plan: Plan) -> dict[str, NodeSettings]:
    """The edge nodes that outputs of a plan are, by the topics of their data."""
    return {
        chosen_topic(delivery.tenant, delivery.dataflow, delivery.sink, delivery.output): NodeSettings(
            delivery.output.format, delivery.output.qos
        )
        for delivery in plan.deliveries
        if delivery.output is not None and isinstance(delivery.output.format, SparkplugOutput)
    }


def recent_output(folder: JobFolder, dataflow: str, sink: str, most: int) -> Iterator[bytes]:
    """The latest messages of an output, oldest first, with at least `most` events if there are as many.

    A record that cannot be read ends the search: its host may be removing it.
    """
    store, batches, events = RecordStore(folder.records), deque[list[bytes]](), 0
    with suppress(*DAMAGE):
        for batch in reversed(store.batches()):
            if events >= most:
                break
            file = store.file(batch)
            plan = folder.entry(file.header.end.entry).plan
            messages: list[bytes] = []
            for delivery in plan.deliveries:
                if (delivery.dataflow, delivery.sink) != (dataflow, sink):
                    continue
                epoch = run_epoch(delivery.epoch, file.header.end.run)
                for left in file.emitted(delivery.origin):
                    if left.events is not None:
                        texts = event_texts(left.events)
                        messages += [payload for _, payload in output_message(sink, epoch, left.first, texts)]
                        events += left.count
            batches.appendleft(messages)
    yield from chain.from_iterable(batches)
