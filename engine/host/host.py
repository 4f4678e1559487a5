"""The host: one Spark application that runs jobs, told over the broker what to run.

Plans come retained on each job's topic, so that a host that was away finds what it should run. Its main thread does one
thing at a time: it takes up messages, follows records, looks after jobs and spools, and publishes how things are.
"""

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from bridge import Message, SpoolFull, SystemClock, topics
from bridge.transport.address import Address
from bridge.transport.dispatch import note_failed, passed_over
from engine.host.connection import HostConnection
from engine.host.consumers import HostConsumers
from engine.host.cpu_meter import CpuMeter
from engine.host.jobs import HostJobs
from engine.host.reception import Receptions
from engine.host.spools import ELSEWHERE, HostSpools
from engine.job.pace_keeper import PaceServer
from engine.plan_messages import RefusedPlan, read_cut, read_plan
from engine.records.damage import DAMAGE
from engine.spark.jvm_watch import has_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEAT = 1.0
"""Seconds between two looks at everything; what is news is published then."""
METERING = 5.0
"""Seconds between two measurements of the CPU, and with them between two heartbeats at most."""
log = logging.getLogger("braid.host")


class SparkHost:
    """One host; `run` until stopped."""

    def __init__(  # noqa: PLR0913 - whose, where, over what, on what, with what, and what it offers are six things
        self,
        name: str,
        root: Path,
        address: Address,
        session: "SparkSession",
        *,
        behaviours: Mapping[str, str],
        tags: Iterable[str] = (),
    ) -> None:
        """`tags` are what it offers to tasks that need more than any host has."""
        self.name = name
        self._offers = {
            # On a cluster, of the executors that have come by now.
            "cores": session.sparkContext.defaultParallelism,
            "tags": sorted(set(tags)),
            "release": version("braid"),
        }
        clock = SystemClock()
        self._is_lost = partial(has_ended, session)
        self._news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = threading.Event()
        self._metering = CpuMeter()
        self._measured: dict[str, float] = {}
        self._measured_at = -METERING
        root.mkdir(parents=True, exist_ok=True)
        self._sockets = tempfile.TemporaryDirectory(prefix="braid-")
        # Not where an older process of this host had it: what that one left behind must not ask this one.
        self._pace = PaceServer(Path(self._sockets.name) / "pace", on_record=self._batch_done)
        self._line = HostConnection(name, address, heard=self._heard)
        self._receptions = Receptions(
            root, name, address, self._line.protocol, on_unread=self._line.tell_unread, clock=clock
        )
        self._spools = HostSpools(root, self._receptions, clock=clock, grown=self._grown)
        self._jobs = HostJobs(
            name,
            root,
            session,
            pace=self._pace,
            sender=self._line.sender,
            consuming=HostConsumers(root, self._spools),
            line=self._line,
            behaviours=behaviours,
            clock=clock,
            asked=self._batch_done,
        )

    def run(self) -> bool:
        """Work until stopped, or until a query does not stop; whether that was so."""
        self._begin()
        try:
            beat = 0.0
            while not self._stopping.is_set():
                try:
                    self._news.get(timeout=max(0.0, beat + BEAT - time.monotonic()))()
                except Empty:
                    beat = time.monotonic()
                    self._look()
                if time.monotonic() - beat > BEAT:
                    beat = time.monotonic()
                    self._look()
        finally:
            self._end()
        return self._jobs.stuck

    def stop(self) -> None:
        """Let `run` return; from any thread."""
        self._stopping.set()
        self._news.put(lambda: None)

    def hang_up(self) -> None:
        """Receive no more and acknowledge what was received, for a host that can do nothing else; from any thread."""
        self._receptions.hang_up()

    def _begin(self) -> None:
        self._line.begin()
        needed = self._jobs.resume()
        if needed is not None:
            # What another host receives by now must not be kept for this one as well.
            elsewhere = {stream for stream, state in self._spools.states().items() if state == ELSEWHERE}
            self._receptions.settle(needed - elsewhere)
        # Last, so that plans meet the jobs that run already.
        self._line.listen()

    def _end(self) -> None:
        self._jobs.end()
        self._line.stop_sending()
        self._spools.close()
        self._line.end()
        self._pace.close()
        self._sockets.cleanup()

    def _heard(self, message: Message) -> None:
        self._news.put(lambda: self._take(message))

    def _grown(self, stream: str, marked: bool) -> None:  # noqa: FBT001 - told by position, by the spools alone
        self._jobs.grown(stream, marked=marked)

    def _batch_done(self, job: str) -> None:
        """Called when a batch is recorded, and when Spark asks for the next: then whatever came before is recorded."""
        self._news.put(lambda: self._jobs.follow_records(job))

    def _take(self, message: Message) -> None:
        """Take up one control message; a wrong one is answered, and done with, whatever is wrong with it.

        A plan is retained, so that one which ended the host would end each that is started after it.
        """
        *_, name, kind = message.topic.split("/")
        try:
            if kind == "plan":
                self._jobs.attempt(name, partial(self._take_plan, name, message.payload))
            else:
                self._take_cut(message.payload)
        except Exception as error:
            if self._is_lost():
                # That is wrong with no message.
                raise
            note_failed(f"topic {message.topic}", error)
            refused = topics.job(name, "refused") if kind == "plan" else topics.host(self.name, "refused")
            self._line.refuse(refused, f"it cannot be taken up, because of {error!r}; see the host's log")
        self._line.acknowledge(message)

    def _take_plan(self, name: str, payload: bytes) -> None:
        plan = read_plan(payload) if payload else None
        if plan is not None and plan.job != name:
            raise RefusedPlan(f"the plan is for job {plan.job!r} and came on the topic of {name!r}; send it on its own")
        self._jobs.take(name, plan)

    def _take_cut(self, payload: bytes) -> None:
        try:
            wish = read_cut(payload)
            if wish.release:
                self._jobs.release(wish.cut)
            else:
                self._spools.mark(wish.cut, wish.streams)
        except (RefusedPlan, SpoolFull, *DAMAGE) as error:
            log.warning("cut: %s", error)
            self._line.refuse(topics.host(self.name, "refused"), str(error))

    def _look(self) -> None:
        """What is due at every beat."""
        self._jobs.look()
        if self._jobs.stuck:
            self._stopping.set()
        self._spools.look()
        self._line.tell(
            topics.host(self.name, "status"),
            {
                "host": self.name,
                "alive": True,
                **self._offers,
                "jobs": self._jobs.running,
                "spools": self._spools.states(),
                "spool_bytes": self._spools.size(),
                "counts": self._spools.counts(),
                "dropped": self._line.dropped,
                "passed_over": passed_over()._asdict(),
                "cpu": self._cpu(),
            },
        )

    def _cpu(self) -> dict[str, float]:
        # To look at all processes of the machine costs as much as the rest of a beat.
        now = time.monotonic()
        if now - self._measured_at >= METERING:
            self._measured_at, self._measured = now, self._metering.cpu()
        return self._measured
