"""The clearing of what topics retain of outputs that are gone, by empty retained messages.

The broker itself knows which topics there are: they are looked up as any subscriber would, and looked up again after
they were cleared, until nothing is left. So a crash costs a repetition at most.

No topic is cleared that a running output retains on, or that feeds a source. The reconciler decides that and sends the
empty messages, before any plan that is committed later, over one connection. A broker handles these in order, so no
host can have published by such a plan. For the same reason an empty message is sent once, and never again by itself.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue

from sqlalchemy import delete
from sqlmodel import col

from bridge import Message, NotConnected, topics
from bridge.machine import BackOff
from bridge.transport.mqtt_client import MqttClient
from dags.source_topics import overlap
from engine.job.lifecycle import JobState
from manager.background import Background
from manager.kernel.committer import Committer
from manager.kernel.retired_topics import RetiredTopic, retaining
from manager.kernel.state import CommittedState
from manager.observations.reports import JobSeen
from manager.observations.sight import Sight
from manager.store.tables import RetiredTopicRow

_PATIENCE = 5.0
"""Seconds for the broker to answer what topics retain."""
_BACK_OFF = BackOff((0.5, 1.0, 1.0, 5.0, 60.0, 600.0))
"""Seconds between two look-ups of one filter."""
_AT_ONCE = 1_000
"""Topics that are cleared in one go: nothing is committed meanwhile."""
_MOST_TOPICS = 100_000
"""Topics that one look-up finds at most; the next one finds more."""
log = logging.getLogger("braid.outputs")


class RetiredTopicChanges:
    """All that is done with retired topics."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def under_way(self) -> tuple[RetiredTopic, ...]:
        """The retired topics, the oldest first."""
        if not self._committer.leads:
            return ()
        with self._committer.looking() as state:
            return tuple(state.retired.values())

    def clear_unused(
        self, retired: RetiredTopic, retained: Iterable[str], clear: Callable[[str], None]
    ) -> frozenset[str]:
        """Clear those topics that nobody uses by now, so many at once; returns those that are left to be cleared."""
        with self._committer.looking() as state:
            unused = sorted(_unused(state, retired, retained))
            for topic in unused[:_AT_ONCE]:
                clear(topic)
        return frozenset(unused[_AT_ONCE:])

    def cleared(self, retired: RetiredTopic) -> None:
        """Forget a retired topic: nothing is left there."""
        with self._committer.writing() as (session, draft):
            session.execute(delete(RetiredTopicRow).where(col(RetiredTopicRow.id) == retired.id))
            draft.moved = True
            draft.state.retired.pop(retired.id, None)


def _unused(state: CommittedState, retired: RetiredTopic, retained: Iterable[str]) -> Iterable[str]:
    filters = {topic for dataflow in state.running.dataflows.values() for topic in retaining(dataflow).values()}
    filters |= {source.topic for source in state.sources.values() if source.topic is not None}
    in_use = [topic for topic in filters if overlap(topic, retired.topic)]
    return (topic for topic in retained if not any(overlap(used, topic) for used in in_use))


def has_left(retired: RetiredTopic, seen: JobSeen | None, *, wanted: bool) -> bool:
    """Whether nothing can leave any more by the plan that an output was in, given the last report of its job."""
    if seen is None:
        return not wanted
    if seen.leaving is None:
        # Its host does not say more.
        return seen.state == JobState.STOPPED
    return seen.leaving > retired.version


@dataclass(slots=True)
class _LookUp:
    """A look-up of what topics retain."""

    asked_at: float
    times: int = 1
    """How often the broker was asked."""
    retained: frozenset[str] | None = None
    """Topics that are still to be cleared; None while the broker is asked, and once they were cleared."""
    is_over: bool = False
    """Whether the next one may begin."""


class RetainedTopicClearing:
    """Clears retired topics from `start` to `stop`; the reconciler has it look."""

    def __init__(
        self,
        changes: RetiredTopicChanges,
        connect: Callable[..., MqttClient],
        clear: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clear` sends an empty retained message once, over the connection that plans are published over."""
        self._changes = changes
        self._connect = connect
        self._clear = clear
        self._clock = clock
        self._wake: Callable[[], None] = lambda: None
        self._look_ups: dict[str, _LookUp] = {}
        self._questions = SimpleQueue[RetiredTopic | None]()
        self._answers = SimpleQueue[tuple[RetiredTopic, frozenset[str] | None]]()
        self._thread = Background(self._run, "looks up what topics retain", wake=lambda: self._questions.put(None))

    def start(self) -> None:
        """Look up what is asked for from now on."""
        self._look_ups.clear()
        self._thread.start()

    def stop(self) -> None:
        """Look nothing up any more; idempotent."""
        self._thread.stop()

    def on_news(self, wake: Callable[[], None]) -> None:
        """Call back when a look is due."""
        self._wake = wake

    def awaited(self) -> frozenset[str]:
        """The jobs whose reports say when topics may be cleared, so they are not to be forgotten."""
        return frozenset(str(retired.job) for retired in self._changes.under_way())

    def look(self, sight: Sight, wanted: Mapping[str, object]) -> None:
        """Take all retired topics on; called by the thread that publishes plans, and only while this manager leads."""
        while not self._answers.empty():
            retired, retained = self._answers.get()
            if (look_up := self._look_ups.get(retired.id)) is not None:
                look_up.retained, look_up.is_over = retained, retained is None
        under_way = self._changes.under_way()
        self._look_ups = {
            retired.id: self._look_ups[retired.id] for retired in under_way if retired.id in self._look_ups
        }
        for retired in under_way:
            look_up = self._look_ups.get(retired.id)
            if look_up is not None and look_up.retained is not None:
                self._go_on(retired, look_up, look_up.retained)
            elif look_up is None or (
                look_up.is_over and self._clock() - look_up.asked_at >= _BACK_OFF.after(look_up.times)
            ):
                job, sighted = str(retired.job), sight.jobs.get(str(retired.job))
                if has_left(retired, sighted.seen if sighted else None, wanted=job in wanted):
                    self._look_ups[retired.id] = _LookUp(self._clock(), 1 + (look_up.times if look_up else 0))
                    self._questions.put(retired)

    def _go_on(self, retired: RetiredTopic, look_up: _LookUp, retained: frozenset[str]) -> None:
        cleared: list[str] = []

        def clear(topic: str) -> None:
            self._clear(topic)
            cleared.append(topic)

        left = self._changes.clear_unused(retired, retained, clear)
        if not cleared:
            # What is retained there by now belongs to others.
            self._changes.cleared(retired)
            return
        log.info(
            "topics of the output %r of dataflow %s: %d were cleared", retired.sink, retired.dataflow, len(cleared)
        )
        look_up.retained, look_up.is_over = (left, False) if left else (None, True)
        if left:
            self._wake()

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            if (retired := self._questions.get()) is None:
                continue
            try:
                retained = self._retained_on(retired.topic)
            except NotConnected as error:
                log.debug("what is retained on %s is looked up later: %s", retired.topic, error)
                retained = None
            except Exception:  # no look-up may end the thread
                log.exception("what is retained on %s is looked up later", retired.topic)
                retained = None
            self._answers.put((retired, retained))
            self._wake()

    def _retained_on(self, topic_filter: str) -> frozenset[str] | None:
        """The topics within a filter that retain a message; None if the broker did not say so in time."""
        name = f"braid-clears-{uuid.uuid4().hex[:12]}"
        echo, retained, is_whole = topics.manager(name), set[str](), threading.Event()

        def take(message: Message) -> None:
            if message.topic == echo:
                is_whole.set()
            elif message.retained and message.payload and len(retained) < _MOST_TOPICS:
                retained.add(message.topic)
            line.acknowledge([message.token])

        line = self._connect(name, on_message=take)
        try:
            line.subscribe([topic_filter, echo], timeout=_PATIENCE)
            # The broker returns it after all that is retained.
            line.publish(echo, b"")
            return frozenset(retained) if is_whole.wait(_PATIENCE) else None
        finally:
            line.stop()
