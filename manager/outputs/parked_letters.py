"""Parked dead letters: the events that tasks could not process, stored so that the tenants can read them.

Hosts publish them. While no manager leads, the broker keeps them in a session of their own. Each is acknowledged once
it is committed, so none is lost, and one that arrives twice is recognized. Unreadable messages are passed over.
"""

import json
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from bridge import Message, topics
from bridge.raw_events import DEEPEST_PARKED, deeper_than
from manager.kernel.committer import Committer
from manager.observations.listener import ListenerLine
from manager.planner import public_id
from manager.problem import DatabaseAway, StateNotReady
from manager.store.database import Store
from manager.store.dead_letters import Letter, Readers, keep
from manager.store.tables import Leadership
from merge import Instance

_MOST_AT_ONCE = 200
"""Messages in one transaction."""
_MOST_BYTES = 8_000_000
"""Bytes of messages after which a transaction takes no more, because other commits wait for it."""
_RETRY_AFTER = 2.0
"""Seconds after which a failed commit is tried again."""
_LARGEST = 2**63
log = logging.getLogger("braid.parking")


class LastingConnector(Protocol):
    """Makes and starts a client whose session the broker keeps while the client is away."""

    def __call__(self, client_id: str, *, topics: Iterable[str], on_message: Callable[[Message], None]) -> ListenerLine:
        """Return a client that subscribes to these topics."""


class ReaderLookup(Protocol):
    """Finds the tenants that instances serve."""

    def __call__(self, instances: Collection[int]) -> Mapping[int, Readers]:
        """Return the tenants and their dataflows, for each instance that serves any."""


class DeadLetterParking:
    """Stores dead letters from `start` to `stop`; only the leading manager runs it."""

    def __init__(self, store: Store, connect: LastingConnector, serving: ReaderLookup) -> None:
        self.kept = 0
        """Messages that were committed, including repeated ones."""
        self.malformed = 0
        """Messages that could not be read."""
        self.dropped = 0
        """Older letters that were dropped for newer ones."""
        self._store = store
        self._connect = connect
        self._serving = serving
        self._queue: SimpleQueue[Message | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._line: ListenerLine | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Store the letters that arrive from now on, and those that the broker has kept since the last stop."""
        self._thread = threading.Thread(target=self._run, name="keeps dead letters", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop storing; idempotent. Uncommitted letters are delivered again to the next manager that leads."""
        self._stopping.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._line is not None:
            self._line.stop()
            self._line = None

    def _run(self) -> None:
        while self._line is None:
            try:
                name = f"braid-dead-letters-{service_name(self._store)}"
                self._line = self._connect(name, topics=[f"{topics.ROOT}/dead/+"], on_message=self._queue.put)
            except Exception:  # no error here may end the manager
                log.exception("dead letters are not kept; it is tried again")
            if self._stopping.wait(0.0 if self._line else _RETRY_AFTER):
                return
        while not self._stopping.is_set():
            messages = self._next()
            letters = [letter for message in messages if (letter := self._read(message)) is not None]
            if not self._committed(letters):
                return
            self._line.acknowledge([message.token for message in messages])

    def _next(self) -> Sequence[Message]:
        """Return the messages that have arrived, at least one unless it is to stop."""
        found = [self._queue.get()]
        while len(found) < _MOST_AT_ONCE and sum(len(each.payload) for each in found if each) < _MOST_BYTES:
            try:
                found.append(self._queue.get_nowait())
            except Empty:
                break
        return [message for message in found if message is not None]

    def _read(self, message: Message) -> Letter | None:
        try:
            return read_letter(message)
        except (ValueError, RecursionError) as error:
            self.malformed += 1
            log.warning("topic %s: passed over, because it is no dead letter: %s", message.topic, error)
            return None
        except Exception:  # no message may end the only thread that keeps dead letters
            self.malformed += 1
            log.exception("topic %s: passed over", message.topic)
            return None

    def _committed(self, letters: Sequence[Letter]) -> bool:
        """Commit letters, retrying until it succeeds; False if it is to stop before."""
        while letters:
            try:
                readers = self._serving({letter.instance for letter in letters})
                with self._store.write() as session:
                    dropped = keep(session, letters, readers, at=time.time())
            except (StateNotReady, DatabaseAway) as error:
                log.debug("dead letters wait: %s", error)
            except Exception:  # no error may lose letters
                log.exception("dead letters could not be kept; it is tried again")
            else:
                self.kept += len(letters)
                self.dropped += dropped
                if dropped:
                    log.warning("%d older dead letters were dropped for newer ones", dropped)
                return True
            if self._stopping.wait(_RETRY_AFTER):
                return False
        return True


class CommittedReaderLookup:
    """A `ReaderLookup` in the committed state."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def __call__(self, instances: Collection[int]) -> Mapping[int, Readers]:
        """Return the tenants and their dataflows, for each instance that serves any."""
        found: dict[int, dict[str, list[str]]] = {}
        with self._committer.looking() as state:
            for instance in instances:
                for name in state.running.users.get(Instance(instance), ()):
                    tenants = found.setdefault(instance, {})
                    tenants.setdefault(state.running.dataflows[name].tenant, []).append(public_id(name))
        return found


def read_letter(message: Message) -> Letter:
    """Parse a dead letter; raises ValueError.

    >>> text = b'{"instance":7,"port":"in","reason":"no number","batch":3,"count":1,"first":0,"events":[{"t":"warm"}]}'
    >>> read_letter(Message("braid/1/dead/7", text, 0)).events
    [{'t': 'warm'}]
    """
    content = json.loads(message.payload, parse_constant=_finite, parse_float=_finite)
    if not isinstance(content, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - the message is wrong, not an argument's type
    instance, batch = _number(content, "instance"), _number(content, "batch")
    if message.topic != topics.dead(instance):
        raise ValueError(f"it is of instance {instance}, and came on another's topic")
    events = content.get("events")
    if not isinstance(events, list):
        raise ValueError("its events are no list")  # noqa: TRY004 - as above
    if any(deeper_than(event, DEEPEST_PARKED) for event in events):
        raise ValueError(f"its events are nested deeper than {DEEPEST_PARKED} levels")
    return Letter(
        instance=instance,
        port=_text(content, "port"),
        batch=batch,
        # Hosts may leave it out.
        first=_number({"first": 0, **content}, "first"),
        reason=_text(content, "reason"),
        events=_sound(events),
        owner=_text({"owner": "", **content}, "owner"),
        traceback=_text({"traceback": "", **content}, "traceback"),
    )


def service_name(store: Store) -> str:
    """Return the name of the service that a database belongs to, which is chosen here if it has none."""
    with store.write() as session:
        row = session.get_one(Leadership, 1)
        row.service = row.service or secrets.token_hex(8)
        return row.service


def _number(content: Mapping[str, Any], name: str) -> int:
    value = content.get(name)
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(f"its {name} is no number of any")
    return value


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        raise ValueError(f"its {name} is no text")  # noqa: TRY004 - as above
    # Error messages can quote characters that databases do not store.
    return value.replace("\x00", "\ufffd").encode(errors="replace").decode()


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written} is no number of JSON's")
    return number


def _sound(events: list[Any]) -> list[Any]:
    """Return the events without lone surrogates, which cannot be encoded in an answer."""
    try:
        json.dumps(events, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        sound: list[Any] = json.loads(json.dumps(events, ensure_ascii=False).encode(errors="replace"))
        return sound
    return events
