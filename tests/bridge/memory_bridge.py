"""Both halves of a bridge on the broker's twin, worked step by step: records, a sender, a receiver and its spool."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from bridge import topics
from bridge.messages import Message
from bridge.receiver import Receiver, SpoolFeed
from bridge.sender import MOST_UNCONFIRMED, Sender, StreamTrouble
from bridge.spools.log import ItemKind, unpacked
from bridge.spools.reader import read
from bridge.spools.spool import Spool
from bridge.wire import Emitted, Stream
from tests.twins.memory_broker import MemoryBroker, MemoryClient
from tests.twins.memory_clock import MemoryClock

STREAM = Stream(7, "out")


def events(first: int, end: int) -> Emitted:
    """Events whose values are their numbers."""
    return Emitted(first=first, events=pa.record_batch({"n": pa.array(range(first, end), pa.int64())}))


def spooled(folder: Path) -> list[int | str]:
    """A spool from its beginning: numbers of events, names of markers."""
    found: list[int | str] = []
    for _, item in read(folder, 0, 1 << 30):
        if item.kind is ItemKind.MARKER:
            found.append(item.payload.decode())
        else:
            found += unpacked(item.payload)["n"].to_pylist()
    return found


class Records:
    """The emitted events of a job, kept forever; counts how often they are read."""

    def __init__(self) -> None:
        self.emitted: list[Emitted] = []
        self.reads: list[int] = []

    def kept(self, number: int) -> Iterator[Emitted]:
        self.reads.append(number)
        for each in list(self.emitted):
            if each.end > number:
                yield each


class Bridge:
    """A sender and a receiver that can be worked, disconnected and restarted separately."""

    def __init__(self, folder: Path, *, most_unconfirmed: int = MOST_UNCONFIRMED, most_bytes: int = 1 << 30) -> None:
        self.folder = folder
        self.most_unconfirmed = most_unconfirmed
        self.broker = MemoryBroker()
        self.records = Records()
        self.clock = MemoryClock(1_000.0)
        self.troubles: list[StreamTrouble] = []
        self.superseded: list[tuple[Stream, int]] = []
        self.spool = Spool(folder, most_bytes=most_bytes)
        self.begin_sender()
        self.begin_receiver()

    def begin_sender(self, name: str = "sender") -> None:
        def deliver(message: Message) -> None:
            sender.deliver(message)

        def reconnected() -> None:
            sender.reconnected()

        client = MemoryClient(self.broker, name, on_message=deliver, on_connection=reconnected)
        sender = Sender(
            client,
            clock=self.clock.passed,
            on_superseded=lambda stream, epoch: self.superseded.append((stream, epoch)),
            on_trouble=self.troubles.append,
        )
        sender._most_unconfirmed = self.most_unconfirmed
        self.sender, self.sender_client = sender, client
        client.start()

    def begin_receiver(self) -> None:
        inbox: list[Message | None] = []
        self.inbox = inbox
        self.receiver_client = MemoryClient(
            self.broker,
            "receiver",
            topics=[topics.stream(*STREAM)],
            on_message=inbox.append,
            on_connection=lambda: inbox.append(None),
        )
        feed = SpoolFeed(spool=self.spool, asks_at=topics.again(*STREAM), has_at=topics.have(*STREAM))
        self.receiver = Receiver(
            {topics.stream(*STREAM): feed}, self.receiver_client, on_unread=self.unread, clock=self.clock
        )
        self.receiver_client.start()

    @staticmethod
    def unread(what: object) -> None:
        raise AssertionError(what)

    def forward(self, epoch: int = 1, first: int = 0) -> None:
        self.epoch = epoch
        self.sender.forward(STREAM, epoch=epoch, first=first, kept=self.records.kept)

    def emit(self, *emitted: Emitted) -> None:
        for each in emitted:
            self.records.emitted.append(each)
            self.sender.emit(STREAM, each)

    def receive(self) -> None:
        arrived = list(self.inbox)
        self.inbox.clear()
        self.receiver.work(arrived)

    def work(self, times: int = 1) -> None:
        """Let both halves work, with some time in between."""
        for _ in range(times):
            self.sender.work()
            self.receive()
            self.clock.advance(0.25)

    @property
    def end(self) -> int:
        """The number after the last emitted."""
        return self.records.emitted[-1].end if self.records.emitted else 0

    def sender_works(self) -> None:
        self.sender.work()

    def cut_sender_off(self) -> None:
        self.sender_client.stop()
        self.sender_client.start()

    def cut_receiver_off(self) -> None:
        self.receiver_client.stop()
        self.receiver_client.start()

    def replace_sender(self) -> None:
        """The process of the sender ends, and a new one forwards the stream with a higher epoch."""
        self.sender_client.stop()
        self.begin_sender()
        self.forward(self.epoch + 1)

    def replace_receiver(self) -> None:
        self.receiver_client.stop()
        self.begin_receiver()

    def spooled(self) -> list[int | str]:
        return spooled(self.folder)


@contextmanager
def bridge(folder: Path, *, most_unconfirmed: int = MOST_UNCONFIRMED, most_bytes: int = 1 << 30) -> Iterator[Bridge]:
    """Both halves; the spool is closed in the end."""
    made = Bridge(folder, most_unconfirmed=most_unconfirmed, most_bytes=most_bytes)
    try:
        yield made
    finally:
        made.spool.close()


def losing(broker: MemoryBroker, topic: str, *numbers: int) -> Callable[[], int]:
    """Let the broker lose some messages of a topic, by their order, after acknowledging them; counts all that come."""
    came = 0

    def swallows(to: str, _payload: bytes) -> bool:
        nonlocal came
        came += to == topic
        return to == topic and came - 1 in numbers

    broker.swallows = swallows
    return lambda: came
