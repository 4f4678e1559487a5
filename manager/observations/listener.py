"""The listener: receives messages about machines, hosts and jobs over the broker, and keeps the latest of each.

Every message is retained or repeated within seconds, so the session ends with the connection: a new connection
brings everything again. The listener then publishes an echo to itself, which the broker returns after all
retained messages. Until the echo arrives, a missing message does not mean that a host or job is gone.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from queue import Empty, SimpleQueue

from bridge import Message, topics
from bridge.transport.mqtt_client import MqttClient
from engine.plan_messages import read_answer
from manager.background import Background
from manager.observations.figures import remembered
from manager.observations.looks import TaskLooks
from manager.observations.messages import read_host_status, read_metrics, read_refusal, read_status, read_wiring
from manager.observations.reports import HostSeen, JobSeen, MachineStatus
from manager.observations.sight import MACHINE_SILENT_AFTER, JobSight, MachineSights, Sight, SpoolEnd, away_if_silent

_ECHO_AFTER = 0.5
"""Seconds after which an echo that did not return is sent again."""
_WIRINGS_KEPT = 8
"""Plans of a job whose wirings are kept; more are never under way at once."""
_ANSWERS_KEPT = 100
"""Questions for the ends of spools whose answers are kept; they are read at once."""
_TRANSITIONS_KEPT = 16
"""State changes of a job that are kept; readers look more often than a state changes."""
log = logging.getLogger("braid.listener")


class Listener:
    """Listens to hosts from `start` to `stop`. Implements `Observations`; any thread may read."""

    def __init__(self, connect: Callable[..., MqttClient], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.malformed = 0
        """Messages that could not be read."""
        self._connect = connect
        self._clock = clock
        self.name = f"braid-manager-{uuid.uuid4().hex[:12]}"
        """No other listener has it."""
        self._echo = topics.manager(self.name)
        self.looks = TaskLooks(self.publish, clock=clock)
        """The looks at events of running tasks, which have a guard of their own."""
        self._line: MqttClient | None = None
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._callbacks: list[Callable[[], None]] = []
        # Guards the fields below. Their values are replaced, never changed.
        self._guard = threading.Lock()
        self._jobs: dict[str, JobSight] = {}
        self._hosts: dict[str, HostSeen] = {}
        self._heard_at: dict[str, float] = {}
        self._machines = MachineSights()
        self._connection = 0
        self._connected_at: float | None = None
        self._complete = False
        self._echo_sent_at = -_ECHO_AFTER
        self._ends: dict[tuple[str, str], SpoolEnd] = {}
        self._planned = set[str]()
        """The jobs whose plans arrived over this connection."""
        self._takers: dict[tuple[str, str], Callable[[str, bytes], None]] = {
            ("jobs", "plan"): self._take_plan,
            ("jobs", "status"): self._take_status,
            ("jobs", "refused"): self._take_refusal,
            ("jobs", "metrics"): self._take_metrics,
            ("jobs", "events"): self.looks.take,
            ("hosts", "status"): self._take_host,
            ("hosts", "refused"): self._take_refused_cut,
            ("hosts", "carrier"): self._take_carrier,
            ("hosts", "ends"): self._take_ends,
            ("machines", "status"): self._take_machine,
        }
        """By what a message is about, and what it says: what takes it, with the name in its topic."""
        self._thread = Background(self._run, "listens to hosts", wake=lambda: self._queue.put(lambda: None))

    def start(self) -> None:
        """Listen from now on, or from when the broker can be reached. It can be started again after a stop."""
        self._line = self._connect(
            self.name,
            topics=[*(f"{topics.ROOT}/{kind}/+/{what}" for kind, what in self._takers), self._echo],
            on_message=lambda message: self._queue.put(lambda: self._take(message)),
            on_connection=lambda: self._queue.put(self._connected),
            on_disconnection=lambda: self._queue.put(self._disconnected),
        )
        # The thread publishes over the line, so it starts after it.
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; idempotent."""
        self._thread.stop()
        if self._line is not None:
            self._line.stop()
            self._line = None
        self._disconnected()

    def on_news(self, notify: Callable[[], None]) -> None:
        """Call back on every change. The callback runs in the listener's thread, so it must return at once."""
        self._callbacks.append(notify)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send a message over the listener's connection; from any thread."""
        if self._line is not None:
            self._line.publish(topic, payload, retain=retain)

    def clear_retained(self, topic: str) -> None:
        """Have the broker retain nothing on a topic. The message is sent once, before any that are sent later."""
        if self._line is not None:
            self._line.publish_once(topic, b"", retain=True)

    def sight(self) -> Sight:
        """Return everything known now."""
        with self._guard:
            return Sight(
                complete=self._complete,
                connection=self._connection,
                jobs=dict(self._jobs),
                hosts={name: self._with_silence(host) for name, host in self._hosts.items()},
                machines=self._machines.seen(self._connected_at, self._clock()),
                carriers=dict(self._machines.carriers),
                ends=self._ends,
            )

    def job(self, job: str) -> JobSeen | None:
        """Return the latest report of a job, if there is one."""
        with self._guard:
            known = self._jobs.get(job)
        return known.seen if known else None

    def hosts(self) -> tuple[HostSeen, ...]:
        """Return the latest report of every host, ordered by name."""
        return tuple(host for _, host in sorted(self.sight().hosts.items()))

    def misses_machines(self) -> bool:
        """Return whether a machine may be alive that was not heard, since it was not listened for long enough."""
        with self._guard:
            if self._connected_at is None or not self._complete:
                return True
            return self._clock() - self._connected_at <= MACHINE_SILENT_AFTER

    def machines(self) -> Mapping[str, tuple[MachineStatus, ...]]:
        """Return the latest statuses under the name of every machine, the likeliest first."""
        return self.sight().machines

    def _with_silence(self, host: HostSeen) -> HostSeen:
        heard_at = self._heard_at[host.host]
        return away_if_silent(host, heard_at=heard_at, connected_at=self._connected_at, now=self._clock())

    def _run(self) -> None:
        while not self._thread.stopping.is_set():
            try:
                act = self._queue.get(timeout=_ECHO_AFTER)
            except Empty:
                act = self._send_echo
            try:
                act()
                self.looks.end_old()
            except Exception:  # no message may end the only thread that listens
                log.exception("a message was passed over")
                self.malformed += 1

    def _send_echo(self) -> None:
        """Send the echo if it is due. It is repeated until it returns."""
        if self._connected_at is not None and not self._complete and self._clock() - self._echo_sent_at >= _ECHO_AFTER:
            self._echo_sent_at = self._clock()
            self.publish(self._echo, str(self._connection).encode())

    def _connected(self) -> None:
        with self._guard:
            self._connection += 1
            self._connected_at, self._complete, self._echo_sent_at = self._clock(), False, -_ECHO_AFTER
            self._planned.clear()
            self._machines.carriers.clear()
        self._send_echo()

    def _disconnected(self) -> None:
        with self._guard:
            self._connected_at, self._complete = None, False

    def _take(self, message: Message) -> None:
        try:
            self._read(message)
        except ValueError as error:
            self.malformed += 1
            log.warning("topic %s: passed over, because it cannot be read: %s", message.topic, error)
        except Exception:  # an unacknowledged message would hold back those after it
            self.malformed += 1
            log.exception("topic %s: passed over", message.topic)
        if self._line is not None:
            self._line.acknowledge([message.token])

    def _read(self, message: Message) -> None:
        if message.topic == self._echo:
            self._caught_up(message.payload)
            return
        kind, name, what = message.topic.removeprefix(f"{topics.ROOT}/").split("/")
        self._takers[kind, what](name, message.payload)

    def _take_refused_cut(self, host: str, payload: bytes) -> None:
        log.warning("host %s refused a cut: %s", host, read_refusal(payload))

    def _take_carrier(self, host: str, payload: bytes) -> None:
        with self._guard:
            self._machines.take_carrier(host, payload)
        self._notify()

    def _caught_up(self, payload: bytes) -> None:
        if self._complete or payload != str(self._connection).encode():
            return
        for job, known in list(self._jobs.items()):
            if known.planned is not None and job not in self._planned:
                # The broker was killed and may have lost the plan.
                self._keep(job, replace(known, planned=None))
        with self._guard:
            self._complete = True
        self._notify()

    def _take_plan(self, job: str, payload: bytes) -> None:
        planned = read_wiring(payload) if payload else None
        self._planned.add(job)
        known = self._jobs.get(job, JobSight())
        seen = known.seen
        if planned is not None and seen is not None and planned != known.planned:
            # The refusal was of another plan.
            seen = replace(seen, refused="")
        wirings = known.wirings
        if planned is not None and planned not in wirings:
            wirings = (*wirings, planned)[-_WIRINGS_KEPT:]
        self._keep(job, replace(known, seen=seen, planned=planned, wirings=wirings))

    def _take_status(self, job: str, payload: bytes) -> None:
        known = self._jobs.get(job, JobSight())
        if not payload:
            self._keep(job, replace(known, seen=None, unconfirmed=frozenset()))
            return
        status = read_status(job, payload, datetime.now(UTC))
        before = known.seen
        same_plan = before is not None and (before.term, before.version) == (status.seen.term, status.seen.version)
        seen = replace(
            status.seen,
            refused=before.refused if before and same_plan else "",
            restarts=status.run - 1 if status.run else before.restarts if before else 0,
            measured=before.measured if before else (),
        )
        sight = replace(known, seen=seen, unconfirmed=status.unconfirmed)
        if before is None or before.state != seen.state:
            transitions = (*known.transitions, seen)[-_TRANSITIONS_KEPT:]
            sight = replace(sight, transitions=transitions, transition_count=known.transition_count + 1)
        self._keep(job, sight)

    def _take_refusal(self, job: str, payload: bytes) -> None:
        reason = read_refusal(payload)
        known = self._jobs.get(job, JobSight())
        host = known.planned.host if known.planned else ""
        # A job whose first plan is refused has no status.
        seen = known.seen or JobSeen(job=job, host=host, state="", seen=datetime.now(UTC))
        self._keep(job, replace(known, seen=replace(seen, refused=reason)))

    def _take_metrics(self, job: str, payload: bytes) -> None:
        newest = read_metrics(payload, self._clock())
        known = self._jobs.get(job)
        if known is not None and known.seen is not None:
            measured = remembered(known.seen.measured, newest)
            self._keep(job, replace(known, seen=replace(known.seen, measured=measured, seen=datetime.now(UTC))))

    def _take_host(self, host: str, payload: bytes) -> None:
        seen = read_host_status(host, payload, datetime.now(UTC)) if payload else None
        with self._guard:
            before = self._hosts.pop(host, None)
            if seen is not None:
                self._hosts[host], self._heard_at[host] = seen.after(before), self._clock()
        if seen is None or before is None or _news_of_host(before) != _news_of_host(seen):
            self._notify()

    def _take_ends(self, host: str, payload: bytes) -> None:
        answer = read_answer(payload)
        if answer.asker != self.name:
            return
        since = answer.number - _ANSWERS_KEPT
        kept = {spool: known for spool, known in self._ends.items() if known.question > since}
        for stream, end in answer.ends.items():
            known = kept.get((host, stream))
            if known is None or known.question < answer.number:
                kept[host, stream] = SpoolEnd(answer.number, end)
        with self._guard:
            self._ends = kept
        self._notify()

    def _take_machine(self, machine: str, payload: bytes) -> None:
        with self._guard:
            is_news = self._machines.take_status(machine, payload, self._clock())
        if is_news:
            self._notify()

    def _keep(self, job: str, sight: JobSight) -> None:
        # Only this thread writes, so reading needs no lock here.
        before = self._jobs.get(job, JobSight())
        with self._guard:
            if sight.seen is None and sight.planned is None:
                self._jobs.pop(job, None)
            else:
                self._jobs[job] = sight
        if before.news != sight.news:
            self._notify()

    def _notify(self) -> None:
        for notify in self._callbacks:
            notify()


def _news_of_host(host: HostSeen) -> object:
    """The part of a host's status that matters at once."""
    return host.alive, host.jobs, host.supplied
