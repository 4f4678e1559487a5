"""The host: one Spark application that runs jobs by the plans that it gets over the broker.

Plans are retained on each job's topic, so that a host that was away finds those that it should run. The main thread
does one thing at a time: it takes up messages, follows records, looks after jobs and spools, and publishes news.
"""

import json
import logging
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import quote

from pyspark.sql import SparkSession

from bridge import LeaseTaken, Message, SpoolFull, SystemClock, Unread, topics
from bridge.files import Lease
from bridge.output_messages import unread_letter
from bridge.sender import Sender, StreamTrouble
from bridge.sparkplug_nodes import SparkplugNodes
from bridge.transport.address import Address
from bridge.transport.mqtt_client import MqttClient, Permit, always
from bridge.transport.probes import Watch, detect_protocol, watch_drops
from bridge.transport.subscriptions import note_failed, passed_over
from engine.host.consumers import HostConsumers
from engine.host.jobs import HostJobs
from engine.host.reception import Receptions
from engine.host.spools import ELSEWHERE, HostSpools
from engine.job.pace_server import begin_pace_server
from engine.job.query import HostParts
from engine.plan_messages import RefusedPlan, read_cut, read_plan, read_question
from engine.port_events import read_look
from engine.records.files import DAMAGE
from engine.records.job_folder import job_folder
from engine.replicas.copies import NO_COPIES, Copies, CopiesEnded
from engine.spark.session import has_ended

log = logging.getLogger("braid.host")

_MOST_UNANSWERED = 100
"""Unread messages of a topic that the broker may not have answered for while more are taken: message ids are few."""


def _log_trouble(trouble: StreamTrouble) -> None:
    log.warning("topic %s: %s", trouble.topic, trouble.reason)


class HostConnection:
    """The connection of one host, over which no stream is received.

    One client has control messages and status, and one what jobs send, so that a backlog of events holds up no plan.
    Outputs that are edge nodes have further ones.
    """

    def __init__(
        self,
        name: str,
        address: Address,
        *,
        files: str = "",
        on_message: Callable[[Message], None],
        permit: Permit = always,
    ) -> None:
        """`on_message` is called from another thread; `permit` says whether it may connect as this host again."""
        self._host = name
        self._address = address
        self.protocol = detect_protocol(address)
        self.dropped = 0
        """The number of messages that the broker reports it dropped since this host began."""
        self._retained: dict[str, bytes] = {}
        self._unanswered: Counter[str] = Counter()
        """For each topic the unread messages that the broker has not answered for."""
        self._counting = threading.Lock()
        self._drops: Watch | None = None
        self._gone = {"host": name, "alive": False, "root": files}
        self._client = MqttClient(
            address,
            f"braid-{name}-host",
            topics=[topics.job("+", "plan"), *(topics.host(name, what) for what in ("cut", "ask", "look"))],
            on_message=on_message,
            # A broker that was killed may have lost what was published last, and only this host publishes it.
            on_connection=self._retained.clear,
            will=(topics.host(name, "status"), json.dumps(self._gone).encode()),
            protocol=self.protocol,
            permit=permit,
        )
        self._sending = MqttClient(
            address,
            f"braid-{name}-out",
            on_message=lambda message: self.sender.deliver(message),  # noqa: PLW0108 - the sender is made after it
            on_connection=lambda: self.sender.reconnected(),  # noqa: PLW0108 - the same
            protocol=self.protocol,
            permit=permit,
        )
        self.sender = Sender(
            self._sending,
            on_trouble=_log_trouble,
            on_superseded=lambda stream, epoch: log.warning(
                "%s of %d is forwarded in epoch %d now, so not from here", stream.port, stream.instance, epoch
            ),
        )
        self._thread = threading.Thread(target=self.sender.run, name="sends", daemon=True)
        self.nodes = SparkplugNodes(
            partial(MqttClient, address, protocol=self.protocol, permit=permit), on_trouble=_log_trouble
        )
        """The edge nodes that outputs are, each with a connection of its own."""

    def begin(self) -> None:
        """Begin to send what jobs emit."""
        self._thread.start()
        self._sending.start()
        try:
            self._drops = watch_drops(self._address, self._count_drops)
        except ConnectionError as error:
            log.warning("whether the broker drops messages stays unknown: %s", error)

    def listen(self) -> None:
        """Begin to receive plans."""
        self._client.start()

    def stop_sending(self) -> None:
        """Stop sending what jobs emit."""
        self.nodes.stop()
        self.sender.stop()
        self._thread.join()

    def end(self) -> None:
        """Publish that the host has ended, and disconnect."""
        self.publish(topics.host(self._host, "status"), self._gone)
        if self._drops is not None:
            self._drops.stop()
        for client in (self._client, self._sending):
            client.stop()

    def publish(self, topic: str, value: Mapping[str, Any], *, retain: bool = True) -> None:
        """Publish a value. A retained one is skipped if it is the last on its topic, any other while disconnected."""
        payload = json.dumps(value, sort_keys=True).encode()
        if retain:
            if self._retained.get(topic) == payload:
                return
            self._retained[topic] = payload
        elif not self._client.is_connected:
            # It is of no use later, and the metrics of an hour are more than a client can keep.
            return
        self._client.publish(topic, payload, retain=retain)

    def refuse(self, topic: str, why: str) -> None:
        """Publish the reason that a request is refused."""
        self._client.publish(topic, json.dumps({"host": self._host, "why": why}).encode())

    def publish_unread(self, unread: Unread) -> None:
        """Publish a message that no spool could take; from any thread."""
        self._count_unanswered(unread.topic, 1)
        self._client.publish(
            topics.unread(unread.topic),
            unread_letter(unread),
            answered=lambda _refusal: self._count_unanswered(unread.topic, -1),
        )

    def has_room(self, topic: str) -> bool:
        """Whether the broker has answered for most of the unread messages of a topic; from any thread."""
        return self._unanswered[topic] < _MOST_UNANSWERED

    def _count_unanswered(self, topic: str, more: int) -> None:
        with self._counting:
            self._unanswered[topic] += more
            if not self._unanswered[topic]:
                del self._unanswered[topic]

    def acknowledge(self, message: Message) -> None:
        """Acknowledge a message that was taken up."""
        self._client.acknowledge([message.token])

    def _count_drops(self, count: int) -> None:
        self.dropped += count
        log.error("the broker dropped %d messages that it had accepted; raise its limits on queues", count)


_BEAT = 1.0
"""Seconds between two looks at everything; news is published then."""
_METER_SECONDS = 5.0
"""Seconds between two measurements of CPU and cores; an idle host publishes its status as often."""
_LEASE_SECONDS = 0.1
"""Seconds between two attempts to get the lease of the host."""
_FETCHED_BY = 0.25
"""Seconds after which what the broker had is in spools, if it is fetched at once."""


class SparkHost:
    """One host; `run` until stopped."""

    def __init__(  # noqa: PLR0913 - the machine gives each of its hosts what is its own
        self,
        name: str,
        root: Path,
        address: Address,
        session: SparkSession,
        *,
        behaviours: Mapping[str, str],
        tags: Iterable[str] = (),
        image: str = "",
        figures: Callable[[], Mapping[str, Any]] = dict,
        files: str = "",
        copies: Copies = NO_COPIES,
        permit: Permit = always,
    ) -> None:
        """`figures` are the CPU and the cores that its status shows. Hosts with equal `files` share them."""
        self.name = name
        self._offers = {
            "tags": sorted(set(tags)),
            "image": image,
            "types": sorted(behaviours),
            "release": version("braid"),
            "root": files,
        }
        clock = SystemClock()
        self._is_lost = partial(has_ended, session)
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = threading.Event()
        self._measure = figures
        self._measured: Mapping[str, Any] = {}
        self._root = root
        self._copies = copies
        self._measured_at = -_METER_SECONDS
        root.mkdir(parents=True, exist_ok=True)
        self._sockets = tempfile.TemporaryDirectory(prefix="braid-")
        # At a new address each time, so that no process that an older host left behind asks this one.
        self._pace = begin_pace_server(session, Path(self._sockets.name))
        self._connection = HostConnection(
            name,
            address,
            files=files,
            on_message=lambda message: self._events.put(lambda: self._take(message)),
            permit=permit,
        )
        self._receptions = Receptions(
            root,
            name,
            address,
            self._connection.protocol,
            on_unread=self._connection.publish_unread,
            has_room=self._connection.has_room,
            clock=clock,
            permit=permit,
        )
        self._spools = HostSpools(
            root, self._receptions, clock=clock, on_growth=self._pace.note_growth, due=self._pace.due, copies=copies
        )
        parts = HostParts(
            root=root,
            session=session,
            pace=self._pace,
            sender=self._connection.sender,
            clock=clock,
            on_record=self._follow_later,
            owned_spool=self._spools.owned,
            copies=copies,
            nodes=self._connection.nodes,
        )
        self._jobs = HostJobs(
            name, parts, consumers=HostConsumers(root, self._spools), publisher=self._connection, behaviours=behaviours
        )

    def run(self) -> bool:
        """Work until stopped, or until a query does not stop; whether a query did not."""
        lease = self._take_over()
        if lease is None:
            self._close_pace()
            return False
        with lease:
            self._begin()
            try:
                beat = 0.0
                while not self._stopping.is_set():
                    with suppress(Empty):
                        self._events.get(timeout=max(0.0, beat + _BEAT - time.monotonic()))()
                    if time.monotonic() - beat >= _BEAT:
                        beat = time.monotonic()
                        self._look()
            finally:
                self._end()
        return self._jobs.stuck

    def stop(self) -> None:
        """Let `run` return; from any thread."""
        self._stopping.set()
        self._events.put(lambda: None)

    def hang_up(self) -> None:
        """Receive no more, and acknowledge what was received, because the host has to end at once; from any thread."""
        self._receptions.hang_up()

    @property
    def has_jobs(self) -> bool:
        """Whether any job runs; from any thread."""
        return bool(self._jobs.running)

    def copies_grew(self) -> None:
        """Follow what waited for copies; from any thread."""
        self._events.put(self._jobs.follow_waiting)

    def _take_over(self) -> Lease | None:
        """The lease of the host, once the process that it ran in before has ended; None if this one is stopped first.

        Else that one would take connections and spools from this one, which share their names.
        """
        waits = False
        while not self._stopping.is_set():
            try:
                return Lease(self._root / "hosts" / quote(self.name, safe=""))
            except LeaseTaken as error:
                if not waits:
                    log.warning("host %s waits for the process that it ran in before: %s", self.name, error)
                waits = True
                self._stopping.wait(_LEASE_SECONDS)
        return None

    def _begin(self) -> None:
        self._connection.begin()
        needed = self._jobs.resume()
        if needed is not None:
            # The broker must not keep for this host what another host receives by now.
            elsewhere = {stream for stream, state in self._spools.states().items() if state == ELSEWHERE}
            self._receptions.settle(needed - elsewhere)
        # Last, so that plans meet the jobs that run already.
        self._connection.listen()

    def _end(self) -> None:
        self._jobs.end()
        self._connection.stop_sending()
        self._spools.close()
        self._receptions.close()
        self._connection.end()
        self._close_pace()

    def _close_pace(self) -> None:
        self._pace.close()
        self._sockets.cleanup()

    def _follow_later(self, job: str) -> None:
        """Follow a job's records, because a batch was recorded."""
        self._copies.ship(job_folder(self._root, job).path)
        self._events.put(lambda: self._jobs.follow_records(job))

    def _take(self, message: Message) -> None:
        """Take up one control message; a wrong one is refused and acknowledged, whatever is wrong with it.

        A plan is retained: one that ended the host would also end each host that is started after it.
        """
        *_, name, kind = message.topic.split("/")
        try:
            if kind == "plan":
                self._jobs.attempt(name, partial(self._take_plan, name, message.payload))
            elif kind == "cut":
                self._take_cut(message.payload)
            elif kind == "look":
                self._jobs.look_at(read_look(message.payload))
            else:
                self._answer(message.payload)
        except CopiesEnded:
            # Another machine takes it up.
            raise
        except Exception as error:
            if self._is_lost():
                # The message is not to blame.
                raise
            note_failed(f"topic {message.topic}", error)
            refused = topics.job(name, "refused") if kind == "plan" else topics.host(self.name, "refused")
            self._connection.refuse(refused, f"it cannot be taken up, because of {error!r}; see the host's log")
        self._connection.acknowledge(message)

    def _take_plan(self, name: str, payload: bytes) -> None:
        plan = read_plan(payload) if payload else None
        if plan is not None and plan.job != name:
            raise RefusedPlan(f"the plan is for job {plan.job!r} and came on the topic of {name!r}; send it on its own")
        known = self._spools.streams
        self._jobs.take(name, plan)
        if self._spools.streams != known:
            # Managers hear of new streams before their job runs.
            self._publish_status()

    def _take_cut(self, payload: bytes) -> None:
        try:
            request = read_cut(payload)
            if request.release:
                self._jobs.release(request.cut)
            else:
                self._spools.mark(request.cut, request.streams)
        except (RefusedPlan, SpoolFull, *DAMAGE) as error:
            log.warning("cut: %s", error)
            self._connection.refuse(topics.host(self.name, "refused"), str(error))

    def _answer(self, payload: bytes) -> None:
        """Answer where spools end, in a moment. A question that is not answered is asked again."""
        question = read_question(payload)

        def answer() -> None:
            ends = {"asker": question.asker, "number": question.number, "ends": self._spools.ends(question.streams)}
            self._connection.publish(topics.host(self.name, "ends"), ends, retain=False)

        # What was sent before the question may wait at the broker to be fetched.
        self._spools.hurry(question.streams, _FETCHED_BY)
        later = threading.Timer(_FETCHED_BY, lambda: self._events.put(answer))
        later.daemon = True
        later.start()

    def _look(self) -> None:
        self._jobs.look()
        if self._jobs.stuck:
            self._stopping.set()
        self._spools.look()
        self._publish_status()

    def _publish_status(self) -> None:
        self._connection.publish(
            topics.host(self.name, "status"),
            {
                "host": self.name,
                "alive": True,
                **self._offers,
                "jobs": self._jobs.running,
                "spools": self._spools.states(),
                "spool_bytes": self._spools.size(),
                "counts": self._spools.counts(),
                "dropped": self._connection.dropped,
                "passed_over": passed_over()._asdict(),
                **self._figures(),
            },
        )

    def _figures(self) -> Mapping[str, Any]:
        """The figures of the machine, which cost as much to find out as the rest of a beat, and those of sources.

        Each of these changes the status, so a source that rejects all the time must not change it at every beat.
        """
        now = time.monotonic()
        if now - self._measured_at >= _METER_SECONDS:
            self._measured_at, self._measured = now, {**self._measure(), "sources": self._spools.received()}
        return self._measured
