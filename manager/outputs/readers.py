"""Readers: samples for a look at an output, all events for a tail, the first messages of a topic, and their watcher.

A look takes samples of one output, a few times a second. Of all messages between two samples only the newest is parsed,
and the numbers of its events show how many others there were. So a busy output costs little more than an idle one.

A tail has all events that leave outputs of one dataflow. Its queue is bounded; when it is full, the oldest messages are
dropped. Events are numbered, so the reader learns how many it missed, and none is shown twice.

A sample of a topic has its first messages, whatever they are, to propose the schema of a source.

The watcher connects readers to the broker, and limits how many there are. Each has a client of its own, whose session
ends with the connection.
"""

import json
import logging
import threading
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, NamedTuple

from braid_client.answers.dataflows import OutputEvent, OutputPlace, SampleAnswer
from bridge import Message, NotConnected
from bridge.transport.mqtt_client import MqttClient
from engine.delivery.publisher import RUNS
from manager.problem import QuotaExceeded, StateNotReady


class OutputReader:
    """A reader that is open until the watcher ends it."""

    def __init__(self) -> None:
        self._notify: Callable[[], object] = lambda: None
        self.over = False
        """Whether the reader has ended, so that nothing more comes."""

    def on_news(self, notify: Callable[[], object]) -> None:
        """Call back whenever there is something to take. Any thread may call back, so the callback must not block."""
        self._notify = notify
        notify()

    def end(self) -> None:
        """End the reader."""
        self.over = True
        self._notify()


MOST_SAMPLE_EVENTS = 20
"""Events that a sample shows at most."""
MOST_SAMPLE_CHARACTERS = 50_000
"""Characters of JSON that the events of a sample have at most."""
log = logging.getLogger("braid.watching")


class OutputLook(OutputReader):
    """A look at one output; made by `manager.outputs.readers.OutputWatcher`. Thread-safe."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self._guard = threading.Lock()
        self._newest: bytes | None = None
        """The latest message, if it was not taken yet."""
        self._last: tuple[int, int] | None = None
        """The epoch of the last sample, and the number after its last event."""

    def receive(self, payload: bytes) -> None:
        """Keep a message of the output instead of the one before."""
        with self._guard:
            known, self._newest = self._newest is not None, payload
        if not known:
            self._notify()

    def take(self) -> SampleAnswer | None:
        """Take a sample of the latest message, if there is a new one; for one thread at a time."""
        with self._guard:
            payload, self._newest = self._newest, None
        if payload is None:
            return None
        try:
            return self._sample(json.loads(payload))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            log.warning("topic %s: passed over, because it is no output: %s", self.topic, error)
            return None

    def _sample(self, content: Mapping[str, Any]) -> SampleAnswer:
        epoch, first, events = int(content["epoch"]), int(content["first"]), tuple(content["events"])
        # A message that is sent again after a broken connection has numbers that were sampled before.
        unseen = max(0, first - self._last[1]) if self._last is not None and self._last[0] == epoch else 0
        self._last = epoch, first + len(events)
        sizes = accumulate(len(json.dumps(event)) for event in events[:MOST_SAMPLE_EVENTS])
        shown = events[: sum(size <= MOST_SAMPLE_CHARACTERS for size in sizes)]
        return SampleAnswer(
            at=datetime.now(UTC), epoch=epoch, first=first, events=shown, others=unseen + len(events) - len(shown)
        )


_MOST_WAITING = 4_000_000
"""Bytes of messages in the queue at most."""
tail_log = logging.getLogger("braid.tailing")


class _Message(NamedTuple):
    epoch: int
    first: int
    events: list[Any]


class Tail(OutputReader):
    """A tail of some outputs; made by `manager.outputs.readers.OutputWatcher`. Thread-safe."""

    def __init__(self, sinks: Mapping[str, str], *, most_waiting: int = _MOST_WAITING) -> None:
        """`sinks` has the sink of each topic."""
        super().__init__()
        self.topics = frozenset(sinks)
        self._sinks = sinks
        self._most_waiting = most_waiting
        self._guard = threading.Lock()
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._bytes = 0
        self._recalled: list[OutputEvent] = []
        """Earlier events, which are shown first."""
        self._places: dict[str, OutputPlace] = {}
        """The place up to which each sink was read."""
        self._lost: dict[str, OutputPlace] = {}
        """The place of the first dropped message of each sink, if none of its messages was read before."""

    def receive(self, topic: str, payload: bytes) -> None:
        """Queue a message of an output."""
        with self._guard:
            self._waiting.append((topic, payload))
            self._bytes += len(payload)
            while self._bytes > self._most_waiting and len(self._waiting) > 1:
                self._lose(*self._waiting.popleft())
        self._notify()

    def prepend(self, topic: str, messages: Iterable[bytes], last: int) -> None:
        """Put the last events of earlier messages before those that have arrived meanwhile."""
        sink = self._sinks[topic]
        recalled = deque((event for payload in messages for event in self.read(sink, payload)), maxlen=last)
        with self._guard:
            self._recalled += recalled

    def take(self) -> Iterator[OutputEvent]:
        """Yield all events that have arrived; for one thread at a time."""
        with self._guard:
            recalled, self._recalled = self._recalled, []
        yield from recalled
        while True:
            with self._guard:
                if not self._waiting:
                    return
                topic, payload = self._waiting.popleft()
                self._bytes -= len(payload)
            yield from self.read(self._sinks[topic], payload)

    def read(self, sink: str, payload: bytes) -> Iterator[OutputEvent]:
        """Yield the events of a message that were not read before, and the number missed before them."""
        if (message := _read(sink, payload)) is None:
            return
        epoch, first, events = message
        known = self._places.get(sink)
        if known is None and (lost := self._lost.get(sink)) is not None and lost.next < first:
            known = lost
        if known is not None and epoch < known.epoch:
            return
        following = first if known is None or known.epoch < epoch else known.next
        if first > following:
            yield OutputEvent(sink=sink, epoch=epoch, number=following, missed=first - following)
        for number, event in enumerate(events, first):
            if number >= following:
                yield OutputEvent(sink=sink, epoch=epoch, number=number, event=event)
        self._places[sink] = OutputPlace(epoch, max(following, first + len(events)))

    def _lose(self, topic: str, payload: bytes) -> None:
        self._bytes -= len(payload)
        sink = self._sinks[topic]
        # Once a message was read, the gap shows in the numbers of the next.
        if sink not in self._places and sink not in self._lost and (message := _read(sink, payload)) is not None:
            self._lost[sink] = OutputPlace(message.epoch, message.first)


def _read(sink: str, payload: bytes) -> _Message | None:
    """Parse a message of an output; None if it cannot be read."""
    try:
        content = json.loads(payload)
        # Every start of a job raises the epoch, but the numbers continue.
        return _Message(int(content["epoch"]) // RUNS, int(content["first"]), list(content["events"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        tail_log.warning("an output of %r is passed over, because it cannot be read: %s", sink, error)
        return None


MOST_SAMPLED_MESSAGES = 10_000
"""Messages that a sample of a topic has at most."""
MOST_SAMPLED_BYTES = 4_000_000
"""Bytes that they have at most."""


class TopicSample(OutputReader):
    """The first messages on a topic; made by `manager.outputs.readers.OutputWatcher`. Thread-safe."""

    def __init__(self, *, longest: float) -> None:
        """`longest` is the most seconds that it takes."""
        super().__init__()
        self._longest = longest
        self._guard = threading.Lock()
        self._messages: list[bytes] = []
        self._bytes = 0
        self._enough = threading.Event()

    def receive(self, payload: bytes) -> None:
        """Keep a message, unless there are enough."""
        with self._guard:
            if self._enough.is_set():
                return
            self._bytes += len(payload)
            # One message that is too large is enough, and is not kept.
            if self._bytes <= MOST_SAMPLED_BYTES:
                self._messages.append(payload)
            if self._bytes >= MOST_SAMPLED_BYTES or len(self._messages) >= MOST_SAMPLED_MESSAGES:
                self._enough.set()

    def gather(self, seconds: float) -> list[bytes]:
        """Wait for so long, or until there are enough messages or no more come; they are returned."""
        self._enough.wait(min(seconds, self._longest))
        with self._guard:
            return list(self._messages)

    def end(self) -> None:
        """End the reader, and whoever waits for it."""
        super().end()
        self._enough.set()


MOST_LOOKS = 24
"""Open readers at once, of all callers."""
MOST_LOOKS_OF_ONE = 6
"""Open readers at once of a tenant, or of the operators."""
_RETRY_AFTER = 10.0
"""Seconds after which a refused caller should try again."""


class OutputWatcher:
    """Lets callers read outputs from `start` to `stop`; only the leading manager runs it. Thread-safe."""

    def __init__(
        self,
        connect: Callable[..., MqttClient],
        *,
        most: int = MOST_LOOKS,
        most_of_one: int = MOST_LOOKS_OF_ONE,
        longest_sample: float = 60.0,
    ) -> None:
        self._connect = connect
        self._longest_sample = longest_sample
        self._most = most
        self._most_of_one = most_of_one
        # Guards the fields below.
        self._guard = threading.Lock()
        self._started = False
        self._readers: dict[OutputReader, str] = {}
        """The open readers, each with its caller."""

    def start(self) -> None:
        """Admit readers from now on. It can be started again after a stop."""
        with self._guard:
            self._started = True

    def stop(self) -> None:
        """End every reader; idempotent."""
        with self._guard:
            self._started = False
            readers = tuple(self._readers)
        for reader in readers:
            reader.end()

    @property
    def looks(self) -> int:
        """The number of open readers."""
        with self._guard:
            return len(self._readers)

    @contextmanager
    def look(self, who: str, topic: str) -> Iterator[OutputLook]:
        """Open a look at a topic; refused if there are too many readers."""
        look = OutputLook(topic)
        with self._admitted(look, who), self._connected([topic], lambda _topic, payload: look.receive(payload)):
            yield look

    @contextmanager
    def tail(self, who: str, sinks: Mapping[str, str]) -> Iterator[Tail]:
        """Open a tail of topics, given the sink of each; refused if there are too many readers."""
        tail = Tail(sinks)
        with self._admitted(tail, who), self._connected(sinks, tail.receive):
            yield tail

    @contextmanager
    def sample(self, who: str, topic: str) -> Iterator[TopicSample]:
        """Open a sample of a topic that the caller may read; refused if there are too many readers."""
        sample = TopicSample(longest=self._longest_sample)
        with self._admitted(sample, who), self._connected([topic], lambda _topic, payload: sample.receive(payload)):
            yield sample

    @contextmanager
    def _admitted(self, reader: OutputReader, who: str) -> Iterator[None]:
        with self._guard:
            if not self._started:
                raise StateNotReady(
                    "nobody can look at outputs here: this manager has no broker, because it does not lead; ask the "
                    "one that leads"
                )
            of_one = Counter(self._readers.values())[who]
            if of_one >= self._most_of_one or len(self._readers) >= self._most:
                raise QuotaExceeded(
                    f"{of_one} looks at outputs are open for {who}, and {len(self._readers)} in all; close one, or ask "
                    "again later",
                    retry_after=_RETRY_AFTER,
                )
            self._readers[reader] = who
        try:
            yield
        finally:
            with self._guard:
                del self._readers[reader]

    @contextmanager
    def _connected(self, topics: Iterable[str], receive: Callable[[str, bytes], None]) -> Iterator[None]:
        wanted = frozenset(topics)

        def take(message: Message) -> None:
            # What a topic retains is an event of before, perhaps of one to whom the topic belonged then.
            if not message.retained:
                receive(message.topic, message.payload)
            # A broker limits the messages that are not acknowledged.
            line.acknowledge([message.token])

        line = self._connect(f"braid-watches-{uuid.uuid4().hex[:12]}", on_message=take)
        try:
            try:
                # Subscribe after the line is assigned, because messages are acknowledged over it.
                line.subscribe(wanted)
            except NotConnected as error:
                raise StateNotReady(f"nobody can look at outputs now: {error}") from error
            yield
        finally:
            line.stop()
