"""DeadLetterParking: keeps the dead letters that hosts publish, so that whoever a task serves can look at what it could not take.

The broker keeps them for a session of its own while no manager leads. Each is acknowledged once it is committed, so
that one which comes twice is known, and none that was published is missing. What nobody can read is passed over.
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
from bridge.events.json_depth import DEEPEST_PARKED, deeper_than
from manager.committer.committer import Committer
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
"""Bytes of them, beyond which no more are taken into it: whoever else would commit waits for it."""
_RETRY_AFTER = 2.0
"""Seconds after which what could not be committed is tried again."""
_LARGEST = 2**63
log = logging.getLogger("braid.parking")


class LastingConnector(Protocol):
    """What makes and starts a client whose session the broker keeps while it is away."""

    def __call__(self, client_id: str, *, topics: Iterable[str], on_message: Callable[[Message], None]) -> ListenerLine:
        """A client with these topics."""


class ReaderLookup(Protocol):
    """Who knows whom instances serve."""

    def __call__(self, instances: Collection[int]) -> Mapping[int, Readers]:
        """For each instance that serves somebody the tenants and their dataflows."""


class DeadLetterParking:
    """Keeps dead letters from `start` to `stop`; only who leads runs it."""

    def __init__(self, store: Store, connect: LastingConnector, serving: ReaderLookup) -> None:
        self.kept = 0
        """Messages that were committed, be it that they were there before."""
        self.malformed = 0
        """Messages that nobody could read."""
        self.dropped = 0
        """Older letters that had to go for newer ones."""
        self._store = store
        self._connect = connect
        self._serving = serving
        self._queue: SimpleQueue[Message | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._line: ListenerLine | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Keep what comes from now on, and what the broker has kept since the last one stopped."""
        self._thread = threading.Thread(target=self._run, name="keeps dead letters", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Keep no more; what is not committed by now comes again to the next one. Once is enough."""
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
            except Exception:  # whatever it is, the manager has more to do than this
                log.exception("nobody keeps dead letters; it is tried again")
            if self._stopping.wait(0.0 if self._line else _RETRY_AFTER):
                return
        while not self._stopping.is_set():
            messages = self._next()
            letters = [letter for message in messages if (letter := self._read(message)) is not None]
            if not self._committed(letters):
                return
            self._line.acknowledge([message.token for message in messages])

    def _next(self) -> Sequence[Message]:
        """What has come: one message at least, unless it is to stop."""
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
        except Exception:  # whatever it is must not end the only one that keeps dead letters
            self.malformed += 1
            log.exception("topic %s: passed over", message.topic)
            return None

    def _committed(self, letters: Sequence[Letter]) -> bool:
        """Commit letters, however often that has to be tried; False where it is to stop before."""
        while letters:
            try:
                readers = self._serving({letter.instance for letter in letters})
                with self._store.write() as session:
                    dropped = keep(session, letters, readers, at=time.time())
            except (StateNotReady, DatabaseAway) as error:
                log.debug("dead letters wait: %s", error)
            except Exception:  # whatever it is, what was published must not be lost for it
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
    """As `ReaderLookup` says, from the committed state."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def __call__(self, instances: Collection[int]) -> Mapping[int, Readers]:
        """For each instance that serves somebody the tenants and their dataflows."""
        found: dict[int, dict[str, list[str]]] = {}
        with self._committer.looking() as state:
            for instance in instances:
                for name in state.running.users.get(Instance(instance), ()):
                    tenants = found.setdefault(instance, {})
                    tenants.setdefault(state.running.dataflows[name].tenant, []).append(public_id(name))
        return found


def read_letter(message: Message) -> Letter:
    """What a message says; `ValueError` where it is no dead letter.

    >>> told = b'{"instance":7,"port":"in","reason":"no number","batch":3,"count":1,"first":0,"events":[{"t":"warm"}]}'
    >>> read_letter(Message("braid/1/dead/7", told, 0)).events
    [{'t': 'warm'}]
    """
    told = json.loads(message.payload, parse_constant=_finite, parse_float=_finite)
    if not isinstance(told, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - of a message, not of an argument
    instance, batch = _number(told, "instance"), _number(told, "batch")
    if message.topic != topics.dead(instance):
        raise ValueError(f"it is of instance {instance}, and came on another's topic")
    events = told.get("events")
    if not isinstance(events, list):
        raise ValueError("its events are no list")  # noqa: TRY004 - as above
    if any(deeper_than(event, DEEPEST_PARKED) for event in events):
        raise ValueError(f"its events are nested deeper than {DEEPEST_PARKED} levels")
    return Letter(
        instance=instance,
        port=_text(told, "port"),
        batch=batch,
        # Hosts of earlier releases do not tell it.
        first=_number({"first": 0, **told}, "first"),
        reason=_text(told, "reason"),
        events=_sound(events),
    )


def service_name(store: Store) -> str:
    """The name of the service that a database is of, which it gets here where it has none."""
    with store.write() as session:
        row = session.get_one(Leadership, 1)
        row.service = row.service or secrets.token_hex(8)
        return row.service


def _number(told: Mapping[str, Any], name: str) -> int:
    value = told.get(name)
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(f"its {name} is no number of any")
    return value


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    if not isinstance(value, str):
        raise ValueError(f"its {name} is no text")  # noqa: TRY004 - as above
    # What databases do not keep, of errors that tell what they choked on.
    return value.replace("\x00", "\ufffd").encode(errors="replace").decode()


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written} is no number of JSON's")
    return number


def _sound(events: list[Any]) -> list[Any]:
    """Events without halves of characters, which no answer can be written with."""
    try:
        json.dumps(events, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        sound: list[Any] = json.loads(json.dumps(events, ensure_ascii=False).encode(errors="replace"))
        return sound
    return events
