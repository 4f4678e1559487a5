"""OutputWatcher: what leaves on the topic of an output while somebody looks, a few times a second and never all of it.

Each look has a client of its own at the broker, which keeps nothing for it. Of what comes between two samples only the
newest message is read; how many events came before it follows from their numbers, so that a busy output costs little
more than an idle one.
"""

import json
import logging
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Protocol

from bridge import Message, NotConnected
from manager.answers import SampleAnswer
from manager.event_flow.tail import Tail
from manager.problem import QuotaExceeded, StateNotReady

MOST_LOOKS = 24
"""How many may look at once, all together."""
MOST_LOOKS_OF_ONE = 6
"""How many of a tenant, or of the operators."""
MOST_SAMPLE_EVENTS = 20
"""Of a sample."""
MOST_SAMPLE_CHARACTERS = 50_000
"""Of the events of a sample, in JSON."""
_RETRY_AFTER = 10.0
"""Seconds after which it is worth asking again where too many look."""
log = logging.getLogger("braid.watching")


class OutputLook:
    """One look at an output, until it is closed; made by `OutputWatcher`. Any thread may use it."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._guard = threading.Lock()
        self._newest: bytes | None = None
        """What came last and was not read yet."""
        self._last: tuple[int, int] | None = None
        """The epoch of what was read last, and the number after its last event."""
        self._tell: Callable[[], object] = lambda: None
        self._over = False

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self._over

    def on_news(self, tell: Callable[[], object]) -> None:
        """Have somebody told, from any thread, when there is something to take; they only take a note of it."""
        self._tell = tell
        tell()

    def come(self, payload: bytes) -> None:
        """Note a message of the output."""
        with self._guard:
            known, self._newest = self._newest is not None, payload
        if not known:
            self._tell()

    def end(self) -> None:
        """Nothing more comes."""
        self._over = True
        self._tell()

    def take(self) -> SampleAnswer | None:
        """What came last, if anything came since it was asked for before; for one thread at a time."""
        with self._guard:
            payload, self._newest = self._newest, None
        if payload is None:
            return None
        try:
            return self._sample(json.loads(payload))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            log.warning("topic %s: passed over, because it is no output: %s", self.topic, error)
            return None

    def _sample(self, told: Mapping[str, Any]) -> SampleAnswer:
        epoch, first, events = int(told["epoch"]), int(told["first"]), tuple(told["events"])
        # What is sent again after a broken connection has numbers that were read before.
        unseen = max(0, first - self._last[1]) if self._last is not None and self._last[0] == epoch else 0
        self._last = epoch, first + len(events)
        sizes = accumulate(len(json.dumps(event)) for event in events[:MOST_SAMPLE_EVENTS])
        shown = events[: sum(size <= MOST_SAMPLE_CHARACTERS for size in sizes)]
        return SampleAnswer(
            at=datetime.now(UTC), epoch=epoch, first=first, events=shown, others=unseen + len(events) - len(shown)
        )


class WatcherLine(Protocol):
    """What a look needs of a broker's client."""

    def stop(self) -> None:
        """Disconnect."""

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Tell the broker that these messages were understood."""

    def subscribe(self, topics: Iterable[str]) -> None:
        """Get the messages of topics; returns once the broker has confirmed it, or raises `NotConnected`."""


class WatcherConnector(Protocol):
    """What makes and starts a client, which is not to wait for a broker."""

    def __call__(self, client_id: str, *, on_message: Callable[[Message], None]) -> WatcherLine:
        """A client without topics."""


class OutputWatcher:
    """Lets callers look at outputs from `start` to `stop`; only who leads runs it. Any thread may ask it."""

    def __init__(
        self, connect: WatcherConnector, *, most: int = MOST_LOOKS, most_of_one: int = MOST_LOOKS_OF_ONE
    ) -> None:
        self._connect = connect
        self._most = most
        self._most_of_one = most_of_one
        # Guards what follows.
        self._guard = threading.Lock()
        self._started = False
        self._looks: dict[OutputLook | Tail, str] = {}
        """Those that are open, with who looks."""

    def start(self) -> None:
        """Let callers look from now on; again after a stop."""
        with self._guard:
            self._started = True

    def stop(self) -> None:
        """Have every look end; once is enough."""
        with self._guard:
            self._started = False
            looks = tuple(self._looks)
        for look in looks:
            look.end()

    @property
    def looks(self) -> int:
        """How many look now."""
        with self._guard:
            return len(self._looks)

    @contextmanager
    def look(self, who: str, topic: str) -> Iterator[OutputLook]:
        """A look at a topic, connected for as long as the context lasts; refused where too many look already."""
        look = OutputLook(topic)
        with self._admitted(look, who), closing(self._connected([topic], lambda _topic, payload: look.come(payload))):
            yield look

    @contextmanager
    def tail(self, who: str, sinks: Mapping[str, str]) -> Iterator[Tail]:
        """All that leaves on topics, whose sinks are told, from when the context begins; refused as a look is."""
        tail = Tail(sinks)
        with self._admitted(tail, who), closing(self._connected(sinks, tail.come)):
            yield tail

    @contextmanager
    def _admitted(self, look: OutputLook | Tail, who: str) -> Iterator[None]:
        self._admit(look, who)
        try:
            yield
        finally:
            with self._guard:
                del self._looks[look]

    def _admit(self, look: OutputLook | Tail, who: str) -> None:
        with self._guard:
            if not self._started:
                raise StateNotReady(
                    "nobody can look at outputs here: this manager has no broker, because it does not lead; ask the "
                    "one that leads"
                )
            of_one = Counter(self._looks.values())[who]
            if of_one >= self._most_of_one or len(self._looks) >= self._most:
                raise QuotaExceeded(
                    f"{of_one} looks at outputs are open for {who}, and {len(self._looks)} in all; close one, or ask "
                    "again later",
                    retry_after=_RETRY_AFTER,
                )
            self._looks[look] = who

    def _connected(self, topics: Iterable[str], come: Callable[[str, bytes], None]) -> "_Connected":
        wanted = frozenset(topics)

        def take(message: Message) -> None:
            come(message.topic, message.payload)
            # A broker sends no more than so many that nobody acknowledged.
            line.acknowledge([message.token])

        line = self._connect(f"braid-watches-{uuid.uuid4().hex[:12]}", on_message=take)
        try:
            # Only now, because whatever comes is acknowledged over the line; and so that it is known to listen.
            line.subscribe(wanted)
        except NotConnected as error:
            line.stop()
            raise StateNotReady(f"nobody can look at outputs now: {error}") from error
        return _Connected(line)


class _Connected:
    """A line that is closed as others are."""

    def __init__(self, line: WatcherLine) -> None:
        self._line = line

    def close(self) -> None:
        """Disconnect."""
        self._line.stop()
