"""Parked dead letters: the events that tasks could not process, stored so that the tenants can read them.

Hosts publish them. While no manager leads, the broker keeps them in a session of their own. Each is acknowledged once
it is committed, so none is lost, and one that arrives twice is recognized. Unreadable messages are passed over.
"""

import json
import logging
import math
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from pydantic import TypeAdapter

from bridge import Message, topics
from bridge.raw_events import DEEPEST_PARKED, deeper_than
from bridge.transport.mqtt_client import MqttClient
from manager.background import Background
from manager.kernel.committer import Committer
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
Serving = Callable[[Collection[int]], Mapping[int, Readers]]
"""Finds the tenants and their dataflows, for each instance that serves any."""
log = logging.getLogger("braid.parking")


class DeadLetterParking:
    """Stores dead letters from `start` to `stop`; only the leading manager runs it."""

    def __init__(self, store: Store, connect: Callable[..., MqttClient], serving: Serving) -> None:
        self.kept = 0
        """Messages that were committed, including repeated ones."""
        self.malformed = 0
        """Messages that could not be read."""
        self._store = store
        self._connect = connect
        self._serving = serving
        self._queue: SimpleQueue[Message | None] = SimpleQueue()
        self._line: MqttClient | None = None
        self._thread = Background(self._run, "keeps dead letters", wake=lambda: self._queue.put(None))

    def start(self) -> None:
        """Store the letters that arrive from now on, and those that the broker has kept since the last stop."""
        self._thread.start()

    def stop(self) -> None:
        """Stop storing; idempotent. Uncommitted letters are delivered again to the next manager that leads."""
        self._thread.stop()
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
            if self._thread.stopping.wait(0.0 if self._line else _RETRY_AFTER):
                return
        while not self._thread.stopping.is_set():
            messages = self._next()
            letters = [letter for message in messages if (letter := self._read(message)) is not None]
            if not self._committed(letters):
                return
            self._line.acknowledge([message.token for message in messages])

    def _next(self) -> Sequence[Message]:
        """Return the messages that have arrived, at least one unless it is to stop."""
        messages = [first] if (first := self._queue.get()) else []
        while len(messages) < _MOST_AT_ONCE and sum(len(message.payload) for message in messages) < _MOST_BYTES:
            try:
                following = self._queue.get_nowait()
            except Empty:
                break
            if following:
                messages.append(following)
        return messages

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
                if dropped:
                    log.warning("%d older dead letters were dropped for newer ones", dropped)
                return True
            if self._thread.stopping.wait(_RETRY_AFTER):
                return False
        return True


def served_by(committer: Committer, instances: Collection[int]) -> Mapping[int, Readers]:
    """The tenants that instances serve in the committed state, with their dataflows."""
    served: dict[int, dict[str, list[str]]] = {}
    with committer.looking() as state:
        for instance in instances:
            for name in state.running.users.get(Instance(instance), ()):
                tenants = served.setdefault(instance, {})
                tenants.setdefault(state.running.dataflows[name].tenant, []).append(public_id(name))
    return served


_LETTER = TypeAdapter(Letter)


def read_letter(message: Message) -> Letter:
    """Parse a dead letter; raises ValueError.

    >>> text = b'{"instance":7,"port":"in","reason":"no number","batch":3,"count":1,"first":0,"events":[{"t":"warm"}]}'
    >>> read_letter(Message("braid/1/dead/7", text, 0)).events
    [{'t': 'warm'}]
    """
    content = _sound(json.loads(message.payload, parse_constant=_finite, parse_float=_finite))
    letter = _LETTER.validate_python(content)
    if message.topic != topics.dead(letter.instance):
        raise ValueError(f"it is of instance {letter.instance}, and came on another's topic")
    if any(deeper_than(event, DEEPEST_PARKED) for event in letter.events):
        raise ValueError(f"its events are nested deeper than {DEEPEST_PARKED} levels")
    return letter


def service_name(store: Store) -> str:
    """Return the name of the service that a database belongs to, which is chosen here if it has none."""
    with store.write() as session:
        row = session.get_one(Leadership, 1)
        row.service = row.service or secrets.token_hex(8)
        return row.service


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written} is no number of JSON's")
    return number


def _sound(content: Any) -> Any:
    """Return what was read without lone surrogates, which neither databases nor answers can hold."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.loads(json.dumps(content, ensure_ascii=False).encode(errors="replace"))
    return content
