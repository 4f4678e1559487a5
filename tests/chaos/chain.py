"""A job without Spark, its follower, sender, broker and receiver: each runs, and is killed, step by step."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from bridge import Item, Message, Receiver, Sender, Spool, SpoolFeed, topics, unpacked
from bridge.files import Steps, no_steps
from bridge.raw_events import arrow_schema
from bridge.spools.log import ItemKind, packed
from bridge.spools.reader import read
from bridge.wire import Birth, Stream
from dags import Kind, Schema
from engine.delivery.follower import Follower
from engine.kernel.batch_rows import arriving
from engine.offset import Span
from engine.plan import Delivery, Edge, Forward, Ingress, Plan, Slot, Subscribed
from engine.records.job_folder import JobFolder, job_folder, spool_folder
from engine.records.store import RecordStore
from tests.chaos.oracle import LEAST, MOST, WINDOW, averaged, counted, filtered, first_difference
from tests.twins.memory_broker import MemoryBroker, MemoryClient
from tests.twins.memory_clock import MemoryClock
from tests.twins.twin_job import TwinJob

JOB, STREAM = "j", "raw/s"
COUNTED, AVERAGED = Stream(3, "out"), Stream(4, "out")
LEAVE = (COUNTED, AVERAGED)
FIELDS = {"n": Kind.INTEGER, "k": Kind.STRING, "v": Kind.FLOAT}
BEHAVIOURS = {
    "block_window_average": "engine.implementations.stream_statistics:block_window_average",
    "count": "engine.implementations.stream_statistics:count",
    "output": "engine.implementations.compute:output",
    "range_filter": "engine.implementations.filters:range_filter",
}
PLAN = Plan(
    job=JOB,
    host="h",
    version=1,
    ingress=(Ingress(stream=STREAM, instance=1, supply=Subscribed(topic="s", fields=FIELDS)),),
    slots=(
        Slot(
            instance=2,
            type="range_filter",
            config=f'{{"field":"v","min":{LEAST},"max":{MOST},"outside":"drop"}}',
            inputs=(Edge(parent=1),),
        ),
        Slot(instance=3, type="count", config='{"by":["k"]}', inputs=(Edge(parent=2),)),
        Slot(
            instance=4,
            type="block_window_average",
            config=f'{{"field":"v","by":["k"],"window":{WINDOW}}}',
            inputs=(Edge(parent=2),),
        ),
        Slot(instance=5, type="output", inputs=(Edge(parent=3),)),
    ),
    forwards=(Forward(instance=3), Forward(instance=4)),
    deliveries=(Delivery(instance=5, tenant="ann", dataflow="d", sink="out"),),
)
_ROUNDS = 300


class Death(BaseException):
    """A kill; not an error, so that nothing catches it."""


class Chain:
    """The way from a spool of numbered events to the spools of a subscriber."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = MemoryClock(1_000.0)
        self.broker = MemoryBroker()
        self.broker.swallows = self._swallows
        self.armed: list[str] = []
        """The broker's misdeeds to the next frames: lose, double, or hold."""
        self.held: list[tuple[str, bytes]] = []
        self.entered: list[dict[str, Any]] = []
        self.source = Spool(spool_folder(root, STREAM), most_bytes=1 << 30)
        self.spools: dict[Stream, Spool] = {}
        self.delivered: dict[int, Any] = {}
        """The outputs that a tenant has, by number, because some come twice."""
        tenant = MemoryClient(
            self.broker, "tenant", topics=[topics.output("ann", "d", "out")], on_message=self._deliver
        )
        tenant.start()
        self.receiver_client = self.sender_client = MemoryClient(self.broker, "nobody")
        self.begin_receiver()
        self.begin_host()

    def begin_host(self) -> None:
        """Begin like a host that was killed, or never existed."""
        self.sender_client.stop()
        self.job = TwinJob(self.root, JOB, BEHAVIOURS)
        if not self.folder.entries(1):
            self.job.log(PLAN)
        client = MemoryClient(
            self.broker,
            "host",
            on_message=lambda message: sender.deliver(message),  # noqa: PLW0108 - made below
            on_connection=lambda: sender.reconnected(),  # noqa: PLW0108 - made below
        )
        sender = Sender(client, clock=self.clock.passed)
        self.sender, self.sender_client = sender, client
        client.start()
        self.follower = Follower(self.folder, self.job.store, sender, run=self.job._run, clock=self.clock.now)

    def begin_receiver(self, step: Steps = no_steps) -> None:
        """Begin like a subscriber that was killed, or never existed."""
        self.receiver_client.stop()
        for spool in self.spools.values():
            spool.close()
        self.spools = {
            stream: Spool(self.root / "subscriber" / str(stream.instance), most_bytes=1 << 30, step=step)
            for stream in LEAVE
        }
        inbox: list[Message | None] = []
        client = MemoryClient(
            self.broker,
            "subscriber",
            topics=[topics.stream(*stream) for stream in LEAVE],
            on_message=inbox.append,
            on_connection=lambda: inbox.append(None),
        )
        feeds = {
            topics.stream(*stream): SpoolFeed(spool=spool, asks_at=topics.again(*stream), has_at=topics.have(*stream))
            for stream, spool in self.spools.items()
        }
        self.inbox, self.receiver_client = inbox, client
        self.receiver = Receiver(feeds, client, on_unread=_unread, clock=self.clock)
        client.start()

    @property
    def folder(self) -> JobFolder:
        """The folder of the job."""
        return job_folder(self.root, JOB)

    def events(self, count: int = 12) -> None:
        """Append more events to the source's spool."""
        first = len(self.entered)
        rows = [{"n": n, "k": f"k{n * 7 % 3}", "v": float(n * 13 % 101)} for n in range(first, first + count)]
        self.entered += rows
        batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(Schema.of(FIELDS)))
        births = (Birth(count, round(self.clock.now() * 1000)),)
        self.source.append([Item(count=count, stamp=first, payload=packed(batch), births=births)])

    def batch(self) -> None:
        """Run a batch."""
        self.job.step()

    def has_batch(self) -> bool:
        """Run the next batch; False if there is none."""
        return self.job.step()

    def follow(self) -> None:
        """Follow the records, which hands their events to the sender."""
        self.follower.follow()

    def tidy(self) -> None:
        """Tidy up, as a host does at every beat."""
        self.follower.tidy()

    def send(self) -> None:
        """Publish what is due."""
        self.sender.work()

    def receive(self) -> None:
        """Spool what has come, and acknowledge it."""
        came = list(self.inbox)
        self.inbox.clear()
        self.receiver.work(came)

    def again(self) -> None:
        """Run the last batch again, as a worker does that was given it before another had recorded it."""
        batches = self.job.store.batches()
        if batches:
            header = self.job.store.file(batches[-1]).header
            span = Span(header.start, header.end)
            entry = self.folder.entry(span.end.entry)
            record = self.folder.records / f"{header.batch:020d}"
            before = record.stat()
            assert self.job._worker.work_off(header.batch, span, list(arriving(self.root, entry, span)))
            assert before == record.stat()

    def release(self) -> None:
        """Let the broker deliver what it held, last first."""
        held, self.held = self.held, []
        for topic, payload in reversed(held):
            self.broker.publish(topic, payload)

    def pass_time(self, seconds: float = 1.0) -> None:
        """Let time pass."""
        self.clock.advance(seconds)

    def whole(self, *steps: Callable[[], None]) -> None:
        """Do the given steps in order, or all of them."""
        for step in steps or (self.batch, self.follow, self.send, self.receive, self.tidy):
            step()

    def settle(self) -> None:
        """Run undisturbed until the subscriber has everything, within a bound."""
        self.armed.clear()
        self.release()
        expected = self.expected()
        wanted = [*(len(expected[stream]) for stream in LEAVE), len(expected[COUNTED])]
        for _ in range(_ROUNDS):
            self.whole()
            self.pass_time()
            if self._ends() == wanted and not self.has_batch():
                return
        raise AssertionError(f"the subscriber and the tenant have {self._ends()} of {wanted}")

    def check(self) -> None:
        """Compare the subscriber's events and the job's state with the oracle."""
        for stream, expected in self.expected().items():
            assert first_difference(expected, self.received(stream)) == "", f"stream {stream}"
        delivered = [event for _, event in sorted(self.delivered.items())]
        assert first_difference(self.expected()[COUNTED], delivered) == "", "what a tenant gets"
        assert 0 == sum(intake.counts.gaps for intake in self.receiver.intakes.values())
        self.check_state()

    def check_state(self) -> None:
        """Compare the job's state with the oracle."""
        store = RecordStore(self.folder.records)
        state = store.state(store.batches().stop)
        events = filtered(self.entered)
        for instance, task in {3: counted(events), 4: averaged(events, "v")}.items():
            keys = {(row["k"],) for row in events}
            kept = {key: value for key in keys if (value := state.of(instance).get(key)) is not None}
            assert task.state == kept, f"state of instance {instance}"

    def expected(self) -> Mapping[Stream, Sequence[Mapping[str, Any]]]:
        """The events that the subscriber should have."""
        events = filtered(self.entered)
        return {COUNTED: counted(events).events, AVERAGED: averaged(events, "v").events}

    def received(self, stream: Stream) -> list[dict[str, Any]]:
        """The events that the subscriber has."""
        placed = read(self.spools[stream].folder, 0, 1 << 40)
        return [row for _, item in placed if item.kind is ItemKind.DATA for row in unpacked(item.payload).to_pylist()]

    def close(self) -> None:
        """Release the leases."""
        for spool in (self.source, *self.spools.values()):
            spool.close()

    def _ends(self) -> list[int]:
        return [*(self.spools[stream].end for stream in LEAVE), len(self.delivered)]

    def _deliver(self, message: Message) -> None:
        output = json.loads(message.payload)
        for number, event in enumerate(output["events"], output["first"]):
            assert event == self.delivered.setdefault(number, event)

    def _swallows(self, topic: str, payload: bytes) -> bool:
        if topic not in {topics.stream(*stream) for stream in LEAVE} or not self.armed:
            return False
        what = self.armed.pop(0)
        if what == "hold":
            self.held.append((topic, payload))
        elif what == "double":
            self.broker.publish(topic, payload)
            return False
        return True


def _unread(what: object) -> None:
    raise AssertionError(what)


def dying(at: str, nth: int = 1) -> Steps:
    """Steps that die at the n-th one of a name."""
    left = nth

    def step(name: str) -> None:
        nonlocal left
        if name == at:
            left -= 1
            if not left:
                raise Death

    return step


def full(at: str) -> Steps:
    """Steps that find the disk full at one of a name."""

    def step(name: str) -> None:
        if name == at:
            raise OSError(28, "No space left on device")

    return step
