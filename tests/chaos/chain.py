"""A job without Spark, of one shard or several, its follower, sender, broker and receiver, killed by steps."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from bridge import Item, Message, Receiver, Sender, Spool, SpoolFeed, topics, unpacked
from bridge.files import Steps, no_steps
from bridge.raw_events import arrow_schema
from bridge.spools.log import ItemKind, packed
from bridge.spools.reader import read
from bridge.wire import Birth, Stream
from dags import Kind, Schema
from engine.behaviour import Behaviour
from engine.delivery.follower import Follower
from engine.kernel.batch import BatchTime
from engine.kernel.batch_rows import arriving
from engine.kernel.entering_events import Portion
from engine.kernel.watchdog import Attempt
from engine.kernel.worker import Worker
from engine.offset import Offset, Span
from engine.plan import Delivery, Edge, Entry, Forward, Ingress, Plan, Slot, Subscribed
from engine.records.job_folder import JobFolder, job_folder, spool_folder
from engine.records.store import RecordStore
from tests.chaos.scenes import (
    LEAST,
    MOST,
    WINDOW,
    averaged,
    counted,
    filtered,
    first_difference,
    first_difference_by_key,
)
from tests.engine.kernels import DrawnTime
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


PROCESSES = 3
MOST_RUNS = 20
"""The most times that a batch is given to its shards until they have ended at the same places."""


class Planned(NamedTuple):
    """A batch in Spark's log of offsets, which it runs until it has its record."""

    batch: int
    span: Span


class ChainWorker(Worker):
    """A worker of a chain; if that is hasty, the time of a batch may be up at any moment."""

    def __init__(self, root: Path, chain: "ShardedChain") -> None:
        super().__init__(root, JOB)
        self._chain = chain

    def _made_behaviours(self, entry: Entry, attempt: Attempt) -> dict[int, Behaviour]:
        made = super()._made_behaviours(entry, attempt)
        self._time = DrawnTime(self._chain.drawn) if self._chain.hasty else BatchTime()
        return made


class ShardedChain(Chain):
    """A chain whose plans have other numbers of shards over time."""

    def __init__(self, root: Path, drawn: random.Random | None = None, *, hasty: bool = False) -> None:
        self.drawn = drawn or random.Random(1)
        self.hasty = hasty
        self.planned: Planned | None = None
        self.processes = [ChainWorker(root, self) for _ in range(PROCESSES)]
        """Python workers of Spark. They outlive a host that only lost its query."""
        super().__init__(root)

    def settle(self) -> None:
        """As any chain does, in no haste: the time might be up each time."""
        self.hasty = False
        super().settle()

    def divide(self, shards: int) -> None:
        """Log a plan with another number of shards."""
        last = self.folder.entries(1)[-1].plan
        self.job.log(replace(PLAN, version=last.version + 1, shards=shards))

    def events(self, count: int = 12) -> None:
        """Append more events to the source's spool, of eleven keys."""
        first = len(self.entered)
        rows = [{"n": n, "k": f"k{n * 7 % 11}", "v": float(n * 13 % 101)} for n in range(first, first + count)]
        self.entered += rows
        batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(Schema.of(FIELDS)))
        self.source.append([Item(count=count, stamp=first, payload=packed(batch), births=(Birth(count, first),))])

    def plan_batch(self) -> Planned | None:
        """The batch that the host has Spark run next: the one that it has planned, perhaps anew, or a new one."""
        store = self.job.store
        batches = store.batches()
        if self.planned is not None and self.planned.batch >= batches.stop:
            batch, span = self.planned
            early = store.disputed_ends(batch, span.end.shards)
            self.planned = Planned(batch, span._replace(early=early or span.early))
            return self.planned
        start = store.file(batches[-1]).header.end if batches else Offset()
        self.job.offset = start
        end = store.ends.find(batches.stop) or self.job._next(self.folder.entries(max(1, start.entry))).end
        if end != start:
            store.ends.keep(batches.stop, end)
        self.planned = None if end == start else Planned(batches.stop, Span(start, end))
        return self.planned

    def batch(self) -> None:
        """Run a batch undisturbed, its shards in any order, each in any process, until all have ended alike."""
        batch = self.next_batch()
        for _ in range(MOST_RUNS):
            planned = self.plan_batch()
            if planned is None or planned.batch != batch:
                return
            shards = list(range(planned.span.end.shards))
            self.drawn.shuffle(shards)
            for shard in shards:
                self.shard(planned, shard)
        raise AssertionError(f"batch {batch} has no record")

    def next_batch(self) -> int | None:
        """The number of the batch that runs next."""
        planned = self.plan_batch()
        return None if planned is None else planned.batch

    def has_batch(self) -> bool:
        """Run the next batch; False if there is none."""
        planned = self.plan_batch()
        self.batch()
        return planned is not None

    def dying_batch(self, at: str, nth: int, *, before: int) -> None:
        """Begin a batch: some shards are done, and the worker of the next one dies at the n-th step of a name."""
        if (planned := self.plan_batch()) is None:
            return
        shards = list(range(planned.span.end.shards))
        self.drawn.shuffle(shards)
        for shard in shards[:before]:
            self.shard(planned, shard)
        for shard in shards[before : before + 1]:
            try:
                self.shard(planned, shard, at, nth)
            except Death:
                continue

    def shard(self, planned: Planned, shard: int, at: str = "", nth: int = 1) -> None:
        """Run one shard of a batch in any process, which may die."""
        place = self.drawn.randrange(len(self.processes))
        process = self.processes[place]
        process._store._step = dying(at, nth) if at else no_steps
        entry = self.folder.entry(planned.span.end.entry)
        portion = Portion(division=entry.division, shard=shard)
        items = list(arriving(self.root, entry, planned.span, portion=portion))
        try:
            process.work_off(planned.batch, planned.span, items, shard)
        except Death:
            self.processes[place] = ChainWorker(self.root, self)
            raise

    def again(self) -> None:
        """Run the last batch again, as a worker does that was given it before it was recorded elsewhere."""
        batches = self.job.store.batches()
        if batches:
            header = self.job.store.file(batches[-1]).header
            for shard in range(header.end.shards):
                self.shard(Planned(batches[-1], Span(header.start, header.end)), shard)

    def forget_planned(self) -> None:
        """Forget the batch that has no record yet, as a host does that dies."""
        self.planned = None

    def check(self) -> None:
        """Compare events and state with the oracle, the events of each key in their order."""
        for stream, expected in self.expected().items():
            assert first_difference_by_key(expected, self.received(stream)) == "", f"stream {stream}"
        delivered = [event for _, event in sorted(self.delivered.items())]
        assert sorted(self.delivered) == list(range(len(self.delivered)))
        assert first_difference_by_key(next(iter(self.expected().values())), delivered) == "", "what a tenant gets"
        assert 0 == sum(intake.counts.gaps for intake in self.receiver.intakes.values())
        self.check_state()
