"""The listener: hears over the broker what hosts say of themselves and their jobs, and keeps what each said last.

All of it is retained or said again every few seconds, so its session need not outlast a connection: after each
connection everything comes anew. When that is over it learns by a message of its own, which the broker hands back after
whatever was retained. Until then nobody may take what is missing for gone.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Protocol

from bridge import Message, topics
from engine.job.lifecycle import JobState
from engine.plan import Port
from manager.observations.figures import remembered
from manager.observations.host_messages import (
    PlanWiring,
    read_host_status,
    read_metrics,
    read_refusal,
    read_status,
    read_wiring,
)
from manager.observations.reports import HostSeen, JobSeen

HOST_SILENT_AFTER = 30.0
"""Seconds after which a host that says nothing is taken to be away; it says something every five."""
_ECHO_AFTER = 0.5
"""Seconds after which a message of its own that did not come back is sent again."""
WIRINGS = 8
"""Plans of a job whose wirings are remembered; more are never under way at once."""
_STATES_KEPT = 16
"""States of a job that are remembered; who tells of them looks more often than they change."""
log = logging.getLogger("braid.listener")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSight:
    """All that is known of a job by what was said over the broker."""

    seen: JobSeen | None = None
    """What its host said last, if it said anything."""
    planned: PlanWiring | None = None
    """The plan that the broker keeps for it."""
    wirings: tuple[PlanWiring, ...] = ()
    """The plans that were published of it, the last ones only."""
    unconfirmed: frozenset[Port] = frozenset()
    """The streams that it forwards, or whose end its consumer is not known to have."""
    turns: tuple[JobSeen, ...] = ()
    """What was said when it came into each state, the last ones only."""
    turned: int = 0
    """How many they were in all."""

    @property
    def taken_up(self) -> PlanWiring | None:
        """The wiring of the plan that it has logged, where that is known; a job that is stopped has none."""
        if self.seen is None or self.seen.state == JobState.STOPPED:
            return None
        return next((each for each in self.wirings if each.key == (self.seen.term, self.seen.version)), None)

    @property
    def may_send(self) -> frozenset[Port]:
        """The streams between jobs that it sends, or may yet begin to by a plan that is on its way."""
        since = self.seen.in_effect if self.seen else 0
        coming = (each.forwards for each in self.wirings if each.version >= since)
        return self.unconfirmed.union(*coming)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Everything that was heard, as of one moment."""

    complete: bool
    """Whether there is a connection, and all that the broker had retained has come."""
    connection: int = 0
    """Counts the connections."""
    jobs: Mapping[str, JobSight] = field(default_factory=dict)
    hosts: Mapping[str, HostSeen] = field(default_factory=dict)


class ListenerLine(Protocol):
    """What a listener needs of a broker's client."""

    def stop(self) -> None:
        """Disconnect."""

    def acknowledge(self, tokens: Iterable[int]) -> None:
        """Tell the broker that these messages were understood."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send a message."""


class ListenerConnector(Protocol):
    """What makes and starts a client, which is not to wait for a broker; called once by each listener."""

    def __call__(
        self,
        client_id: str,
        *,
        topics: Iterable[str],
        on_message: Callable[[Message], None],
        on_connection: Callable[[], None],
        on_disconnection: Callable[[], None],
    ) -> ListenerLine:
        """A client with these topics."""


class Listener:
    """Hears hosts from `start` to `stop`; what it keeps any thread may read. It implements `Observations`."""

    def __init__(self, connect: ListenerConnector, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.malformed = 0
        """Messages that nobody could read."""
        self._connect = connect
        self._clock = clock
        self._name = f"braid-manager-{uuid.uuid4().hex[:12]}"
        self._echo = topics.manager(self._name)
        self._line: ListenerLine | None = None
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = threading.Event()
        self._tellings: list[Callable[[], None]] = []
        # Guards what follows; what is in them is replaced, never changed.
        self._guard = threading.Lock()
        self._jobs: dict[str, JobSight] = {}
        self._hosts: dict[str, HostSeen] = {}
        self._heard_at: dict[str, float] = {}
        self._connection = 0
        self._connected_at: float | None = None
        self._complete = False
        self._asked_at = -_ECHO_AFTER
        self._planned = set[str]()
        """The jobs whose plan the broker has sent over this connection."""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Hear hosts from now on, or from when there is a broker; again after a stop."""
        self._stopping.clear()
        self._line = self._connect(
            self._name,
            topics=[
                *(topics.job("+", what) for what in ("plan", "status", "refused", "metrics")),
                *(topics.host("+", what) for what in ("status", "refused")),
                self._echo,
            ],
            on_message=lambda message: self._queue.put(lambda: self._take(message)),
            on_connection=lambda: self._queue.put(self._connected),
            on_disconnection=lambda: self._queue.put(self._disconnected),
        )
        # After the line is known, over which it answers.
        self._thread = threading.Thread(target=self._run, name="listens to hosts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Hear no more; once is enough."""
        self._stopping.set()
        self._queue.put(lambda: None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._line is not None:
            self._line.stop()
            self._line = None
        with self._guard:
            self._connected_at, self._complete = None, False

    def on_news(self, tell: Callable[[], None]) -> None:
        """Have somebody told when something is not as it was, in the listener's thread: they only take a note of it."""
        self._tellings.append(tell)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send a message over the listener's connection; from any thread."""
        if self._line is not None:
            self._line.publish(topic, payload, retain=retain)

    def sight(self) -> Sight:
        """Everything as it is known now."""
        with self._guard:
            return Sight(
                complete=self._complete,
                connection=self._connection,
                jobs=dict(self._jobs),
                hosts={name: self._aged(host) for name, host in self._hosts.items()},
            )

    def job(self, job: str) -> JobSeen | None:
        """What was seen last of a job, if anything."""
        with self._guard:
            known = self._jobs.get(job)
        return known.seen if known else None

    def hosts(self) -> tuple[HostSeen, ...]:
        """What was seen last of every host, by name."""
        return tuple(host for _, host in sorted(self.sight().hosts.items()))

    def _aged(self, host: HostSeen) -> HostSeen:
        # A broker that was killed says nothing of who died with it. While there is no connection nobody is heard.
        if not host.alive or self._connected_at is None:
            return host
        since = max(self._heard_at[host.host], self._connected_at)
        return replace(host, alive=False) if self._clock() - since > HOST_SILENT_AFTER else host

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                act = self._queue.get(timeout=_ECHO_AFTER)
            except Empty:
                act = self._look
            try:
                act()
            except Exception:  # whatever comes over the broker must not end the only one that listens
                log.exception("a message was passed over")
                self.malformed += 1

    def _look(self) -> None:
        """Ask for the message that tells that all has come, until it has."""
        if self._connected_at is not None and not self._complete and self._clock() - self._asked_at >= _ECHO_AFTER:
            self._asked_at = self._clock()
            self.publish(self._echo, str(self._connection).encode())

    def _connected(self) -> None:
        with self._guard:
            self._connection += 1
            self._connected_at, self._complete, self._asked_at = self._clock(), False, -_ECHO_AFTER
            self._planned.clear()
        self._look()

    def _disconnected(self) -> None:
        with self._guard:
            self._connected_at, self._complete = None, False

    def _take(self, message: Message) -> None:
        try:
            self._read(message)
        except ValueError as error:
            self.malformed += 1
            log.warning("topic %s: passed over, because it cannot be read: %s", message.topic, error)
        except Exception:  # whatever it is, one that stays unacknowledged holds back those after it
            self.malformed += 1
            log.exception("topic %s: passed over", message.topic)
        if self._line is not None:
            self._line.acknowledge([message.token])

    def _read(self, message: Message) -> None:
        if message.topic == self._echo:
            self._caught_up(message.payload)
            return
        match message.topic.removeprefix(f"{topics.ROOT}/").split("/"):
            case ["jobs", job, "plan"]:
                self._take_plan(job, message.payload)
            case ["jobs", job, "status"]:
                self._take_status(job, message.payload)
            case ["jobs", job, "refused"]:
                self._take_refusal(job, message.payload)
            case ["jobs", job, "metrics"]:
                self._take_metrics(job, message.payload)
            case ["hosts", host, "status"]:
                self._take_host(host, message.payload)
            case ["hosts", host, "refused"]:
                log.warning("host %s refused a cut: %s", host, read_refusal(message.payload))

    def _caught_up(self, payload: bytes) -> None:
        if self._complete or payload != str(self._connection).encode():
            return
        for job, known in list(self._jobs.items()):
            if known.planned is not None and job not in self._planned:
                # A broker that was killed may have lost it.
                self._keep(job, replace(known, planned=None))
        with self._guard:
            self._complete = True
        self._tell()

    def _take_plan(self, job: str, payload: bytes) -> None:
        planned = read_wiring(payload) if payload else None
        self._planned.add(job)
        known = self._jobs.get(job, JobSight())
        seen = known.seen
        if planned is not None and seen is not None and planned != known.planned:
            # What was refused was another one.
            seen = replace(seen, refused="")
        wirings = known.wirings
        if planned is not None and planned not in wirings:
            wirings = (*wirings, planned)[-WIRINGS:]
        self._keep(job, replace(known, seen=seen, planned=planned, wirings=wirings))

    def _take_status(self, job: str, payload: bytes) -> None:
        known = self._jobs.get(job, JobSight())
        if not payload:
            self._keep(job, replace(known, seen=None, unconfirmed=frozenset()))
            return
        said = read_status(job, payload, datetime.now(UTC))
        before = known.seen
        stays = before is not None and (before.term, before.version) == (said.seen.term, said.seen.version)
        seen = replace(
            said.seen,
            refused=before.refused if before and stays else "",
            restarts=said.run - 1 if said.run else before.restarts if before else 0,
            measured=before.measured if before else (),
        )
        turns, turned = known.turns, known.turned
        if before is None or before.state != seen.state:
            turns, turned = (*turns, seen)[-_STATES_KEPT:], turned + 1
        self._keep(job, replace(known, seen=seen, unconfirmed=said.unconfirmed, turns=turns, turned=turned))

    def _take_refusal(self, job: str, payload: bytes) -> None:
        why = read_refusal(payload)
        known = self._jobs.get(job, JobSight())
        host = known.planned.host if known.planned else ""
        # A job whose first plan is refused has no status.
        seen = known.seen or JobSeen(job=job, host=host, state="", seen=datetime.now(UTC))
        self._keep(job, replace(known, seen=replace(seen, refused=why)))

    def _take_metrics(self, job: str, payload: bytes) -> None:
        newest = read_metrics(payload, self._clock())
        known = self._jobs.get(job)
        if known is not None and known.seen is not None:
            measured = remembered(known.seen.measured, newest)
            self._keep(job, replace(known, seen=replace(known.seen, measured=measured, seen=datetime.now(UTC))))

    def _take_host(self, host: str, payload: bytes) -> None:
        if not payload:
            with self._guard:
                self._hosts.pop(host, None)
        else:
            seen = read_host_status(host, payload, datetime.now(UTC))
            with self._guard:
                before, self._hosts[host] = self._hosts.get(host), seen
                self._heard_at[host] = self._clock()
            if before is not None and (before.alive, before.jobs) == (seen.alive, seen.jobs):
                return
        self._tell()

    def _keep(self, job: str, sight: JobSight) -> None:
        # Only this thread changes what is kept, so that to look before needs no lock.
        before = self._jobs.get(job, JobSight())
        with self._guard:
            if sight.seen is None and sight.planned is None:
                self._jobs.pop(job, None)
            else:
                self._jobs[job] = sight
        if _news(before) != _news(sight):
            self._tell()

    def _tell(self) -> None:
        for tell in self._tellings:
            tell()


def _news(sight: JobSight) -> object:
    """What is not the same any more when somebody has to do or to tell something."""
    return sight.unconfirmed, sight.planned, news_of(sight.seen)


def news_of(seen: JobSeen | None) -> object:
    """What of a job's status is news; its batches and what it has worked off go on all the time."""
    if seen is None:
        return None
    told = (seen.host, seen.state, seen.trouble, seen.back_off, seen.term, seen.version, seen.in_effect, seen.refused)
    return *told, tuple(sorted(seen.failed.items())), tuple(sorted(seen.cuts.items()))
