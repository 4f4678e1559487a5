"""The output watcher: connects readers to the topics of outputs, and limits how many there are.

Each reader has a client of its own, whose session ends with the connection.
"""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Protocol

from bridge import Message, NotConnected
from manager.event_flow.output_look import OutputLook
from manager.event_flow.output_reader import OutputReader
from manager.event_flow.tail import Tail
from manager.problem import QuotaExceeded, StateNotReady

MOST_LOOKS = 24
"""Open readers at once, of all callers."""
MOST_LOOKS_OF_ONE = 6
"""Open readers at once of a tenant, or of the operators."""
_RETRY_AFTER = 10.0
"""Seconds after which a refused caller should try again."""


class WatcherLine(Protocol):
    """The broker's client, as a reader uses it."""

    def stop(self) -> None:
        """Disconnect."""

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Acknowledge these messages to the broker."""

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics; returns once the broker has confirmed it, or raises `NotConnected`."""


class WatcherConnector(Protocol):
    """Makes and starts a client without waiting for a broker."""

    def __call__(self, client_id: str, *, on_message: Callable[[Message], None]) -> WatcherLine:
        """Return a client without topics."""


class OutputWatcher:
    """Lets callers read outputs from `start` to `stop`; only the leading manager runs it. Thread-safe."""

    def __init__(
        self, connect: WatcherConnector, *, most: int = MOST_LOOKS, most_of_one: int = MOST_LOOKS_OF_ONE
    ) -> None:
        self._connect = connect
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
        with (
            self._admitted(look, who),
            closing(self._connected([topic], lambda _topic, payload: look.receive(payload))),
        ):
            yield look

    @contextmanager
    def tail(self, who: str, sinks: Mapping[str, str]) -> Iterator[Tail]:
        """Open a tail of topics, given the sink of each; refused if there are too many readers."""
        tail = Tail(sinks)
        with self._admitted(tail, who), closing(self._connected(sinks, tail.receive)):
            yield tail

    @contextmanager
    def _admitted(self, reader: OutputReader, who: str) -> Iterator[None]:
        self._admit(reader, who)
        try:
            yield
        finally:
            with self._guard:
                del self._readers[reader]

    def _admit(self, reader: OutputReader, who: str) -> None:
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

    def _connected(self, topics: Iterable[str], receive: Callable[[str, bytes], None]) -> "_Connection":
        wanted = frozenset(topics)

        def take(message: Message) -> None:
            receive(message.topic, message.payload)
            # A broker limits the messages that are not acknowledged.
            line.acknowledge([message.token])

        line = self._connect(f"braid-watches-{uuid.uuid4().hex[:12]}", on_message=take)
        try:
            # Subscribe after the line is assigned, because messages are acknowledged over it.
            line.subscribe(wanted)
        except NotConnected as error:
            line.stop()
            raise StateNotReady(f"nobody can look at outputs now: {error}") from error
        return _Connection(line)


class _Connection:
    """Adapts a line to `contextlib.closing`."""

    def __init__(self, line: WatcherLine) -> None:
        self._line = line

    def close(self) -> None:
        """Disconnect."""
        self._line.stop()
