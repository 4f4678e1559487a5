"""A job's folder, and a follower over a sender and copies that a test controls."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bridge.sender import NO_RECORD_NEEDED, PlainMessage
from bridge.sender import Sender as BridgeSender
from bridge.wire import Emitted as Sent
from bridge.wire import Stream
from engine.delivery.follower import Follower
from engine.offset import Offset
from engine.plan import Delivery, Entry, Forward, Plan, Port, Slot
from engine.records.job_folder import JobFolder
from engine.records.record import Cut, EmittedEvents, Record
from engine.records.state import InstanceStates
from engine.records.store import RecordStore
from engine.replicas.copies import NO_COPIES, Copies, CopiesEnded

PORT = Port(7, "out")
STREAM = Stream(*PORT)


@dataclass
class Plain:
    """A message that waits for the broker."""

    topic: str
    payload: dict[str, Any]
    done: Callable[[], None]


@dataclass
class Opened:
    """A call to forward."""

    stream: Stream
    epoch: int
    first: int
    kept: Callable[[int], Iterator[Sent]]
    closed: bool = False

    def numbers(self, number: int) -> list[int]:
        """All numbers that the records hold for it from the given one on."""
        return [n for each in self.kept(number) for n in range(each.first, each.end)]


class Sender(BridgeSender):
    """Notes what it is asked to do, and confirms when the test says so."""

    def __init__(self) -> None:
        self.opened: list[Opened] = []
        self.emitted: list[tuple[Stream, Sent]] = []
        self.plain: list[Plain] = []
        self.confirmed: dict[Stream, int] = {}

    def forward(self, stream: Stream, *, epoch: int, first: int, kept: Callable[[int], Iterator[Sent]]) -> None:
        if any(each.stream == stream and each.epoch > epoch for each in self.opened):
            raise ValueError(f"port {stream.port!r} of instance {stream.instance} was forwarded in a higher epoch")
        self.opened.append(Opened(stream, epoch, first, kept))
        # Until the consumer is heard from, it may ask for everything from the first number on.
        self.confirmed[stream] = min(first, self.confirmed.get(stream, first))

    def emit(self, stream: Stream, emitted: Sent) -> None:
        self.emitted.append((stream, emitted))

    def close(self, stream: Stream) -> None:
        [*_, last] = [each for each in self.opened if each.stream == stream]
        last.closed = True

    def needed(self, stream: Stream) -> int:
        return self.confirmed.get(stream, NO_RECORD_NEEDED)

    def send(self, *messages: PlainMessage) -> None:
        self.plain += [Plain(sent.topic, json.loads(sent.payload), sent.done) for sent in messages]

    def send_lazily(self, _topic: str, messages: Iterator[PlainMessage | None]) -> None:
        self.send(*filter(None, messages))

    def answer(self) -> None:
        """Confirm every waiting message."""
        while self.plain:
            self.plain.pop(0).done()


class Scene:
    """A job whose batches a test writes one by one: each emits some events at one port."""

    def __init__(self, path: Path) -> None:
        self.folder = JobFolder(path)
        self.folder.make()
        self.store = RecordStore(self.folder.records)
        self.state = InstanceStates()
        self.sender = Sender()
        self.run = 0
        self.entry = 0
        self.number = 0
        self.position = 0
        self.begun = 0
        self.plan()

    def plan(self, *, forwarded: bool = False, delivered: bool = False, epoch: int = 1) -> None:
        """Log another plan; the next batch begins with it."""
        self.entry += 1
        plan = Plan(
            job="j",
            host="h",
            version=self.entry,
            slots=(Slot(instance=7, type="count", inputs=()),),
            forwards=(Forward(instance=7, epoch=epoch),) if forwarded else (),
            deliveries=(Delivery(instance=7, tenant="ann", dataflow="d", sink="s"),) if delivered else (),
        )
        self.folder.log(Entry(number=self.entry, plan=plan, starts={}))

    def batch(self, many: int = 0, *, cut: str = "", keys: Sequence[bytes] = (), marker: str = "") -> int:
        """Write the next record, and return the number of its batch."""
        batch = self.state.version + 1
        start = Offset(run=1, entry=self.begun, at={"s": self.position} if self.begun else {})
        emitted, first = [], self.number
        if many:
            events = pa.record_batch({"n": pa.array(range(first, first + many), pa.int64())})
            emitted.append(EmittedEvents(origin=PORT, first=first, events=events))
        if marker:
            emitted.append(EmittedEvents(origin=PORT, first=first + many, marker=marker))
        plan = self.folder.entry(self.entry).plan
        opened = ((PORT, first),) if plan.forwards and self.begun != self.entry else ()
        self.number += many + bool(marker)
        self.position += many
        self.begun = self.entry
        end = Offset(run=1, entry=self.entry, at={"s": self.position})
        record = Record(
            batch=batch,
            start=start,
            end=end,
            opened=opened,
            emitted=tuple(emitted),
            changes={7: {0: dict.fromkeys(keys, b"v")}} if keys else {},
            cuts=(Cut(name=cut, instances=(7,), positions={"s": self.position}),) if cut else (),
        )
        self.store.write(self.state.settle(record))
        return batch

    def follower(self, copies: Copies = NO_COPIES) -> Follower:
        """Make a follower for a new start of the job; only the folder is left of the one before."""
        self.run += 1
        self.sender = Sender()
        return Follower(self.folder, self.store, self.sender, run=self.run, copies=copies)


class LateCopies:
    """The copies of a host's files; notes what was waited for."""

    def __init__(self) -> None:
        self.there = set[Path]()
        self.waited: list[tuple[Path, ...]] = []
        self.ended = False

    def settle(self, *folders: Path) -> None:
        """Note it."""
        if self.ended:
            raise CopiesEnded("another machine carries this host")
        self.waited.append(folders)

    def ship(self, folder: Path) -> None:
        """Nobody asks in these tests."""
        raise NotImplementedError

    def has(self, path: Path) -> bool:
        """Whether it was let be there."""
        return path in self.there
