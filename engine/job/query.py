"""A job as its host runs it: one Spark query, its log of plans, and the follower of its records."""

import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import SparkSession

from bridge import Clock, Lease, PositionsGone, Sender, SpoolDamaged, read
from bridge.machine import BackOff
from bridge.sparkplug_nodes import SparkplugNodes
from engine.delivery.follower import Follower
from engine.job.health import JobHealth
from engine.job.lifecycle import JobEvent, JobState, next_state
from engine.job.pace import ReadableSpool
from engine.job.pace_keeper import JobSpools, PaceKeeper
from engine.job.pace_server import PaceServer
from engine.job.plan_log import PlanLog
from engine.plan import Plan
from engine.records.files import Header
from engine.records.job_folder import job_folder, spool_folder
from engine.records.store import RecordStore
from engine.replicas.copies import NO_COPIES, Copies
from engine.spark.batch_task import RESULT, answer
from engine.spark.session import workers_named
from engine.spark.source import SOURCE_FORMAT, SpoolSource


class Lag(NamedTuple):
    """How many events of a stream wait, and for how long the oldest has been waiting, rounded to a beat."""

    events: int
    seconds: float


class JobLag:
    """The lag since one start of a job.

    To look up when the waiting events came would cost more than everything else at a beat. So the ends of the spools
    are noted at each beat: what lies before an end came before that beat. Only what waited at the start is looked up.
    """

    def __init__(self, spooled_at: Callable[[str, int], float | None]) -> None:
        self._spooled_at = spooled_at
        self._noted: dict[str, deque[tuple[int, float]]] = {}
        """For each stream the ends beyond the job's position, each with when it was noted first."""

    def note(self, ends: Mapping[str, int], positions: Mapping[str, int], now: float) -> dict[str, Lag]:
        """The lag in each stream, by the ends of the spools and the positions that the job has come to."""
        for gone in self._noted.keys() - ends.keys():
            del self._noted[gone]
        return {stream: self._lag(stream, end, positions.get(stream, end), now) for stream, end in sorted(ends.items())}

    def _lag(self, stream: str, end: int, position: int, now: float) -> Lag:
        noted = self._noted.get(stream)
        if noted is None:
            noted = self._noted[stream] = deque()
            if position < end:
                noted.append((end, self._spooled_at(stream, position) or now))
        elif position < end and (not noted or noted[-1][0] != end):
            noted.append((end, now))
        while noted and noted[0][0] <= position:
            noted.popleft()
        return Lag(end - position, round(max(0.0, now - noted[0][1]), 1)) if noted else Lag(0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """What the jobs of a host share."""

    root: Path
    session: SparkSession
    pace: PaceServer
    sender: Sender
    clock: Clock
    on_record: Callable[[str], None]
    """Called with the name of a job that has recorded a batch, from any thread."""
    owned_spool: Callable[[str], ReadableSpool | None]
    """Finds the spool of a stream that the host fills."""
    copies: Copies = NO_COPIES
    nodes: SparkplugNodes | None = None
    """The edge nodes that outputs are."""


_ENDING = 1.0
"""Seconds within which a long batch should end whose job is stopped."""


class JobQuery:
    """One query of a job: started when it is made, watched, stopped, and cancelled if it does not stop."""

    def __init__(self, host: HostParts, job: str, checkpoint: Path, workers: str) -> None:
        """`workers` is the name of its Python processes."""
        self._job = job
        self._session = host.session
        self._stopping: threading.Thread | None = None
        root, pace = str(host.root), host.pace.address
        with workers_named(host.session, workers):
            # Registered anew for each query: Spark writes to what is registered whenever one of its queries begins. Two
            # that begin at once can leave it in a state in which no task can be read any more until the JVM ends.
            host.session.dataSource.register(SpoolSource)
            batches = (
                host.session.readStream.format(SOURCE_FORMAT)
                .options(job=job, root=root, pace=pace)
                .load()
                .mapInArrow(partial(answer, root, job, pace), RESULT)
            )
        try:
            self._query = (
                batches.writeStream.format("noop")
                .queryName(job)
                # Without the scheme a cluster would take it for a folder of its own file system.
                .option("checkpointLocation", f"file://{checkpoint}")
                .trigger(processingTime="0 seconds")
                .start()
            )
        except Py4JJavaError as error:
            # It writes its checkpoint first, and the disk may be full.
            raise OSError(f"Spark cannot begin the query: {error.java_exception.toString()}") from error

    def is_active(self) -> bool:
        """Whether it still runs; asks the JVM."""
        return bool(self._query.isActive)

    def failure(self) -> str:
        """The reason that it runs no longer."""
        return str(self._query.exception() or "the query ended by itself")

    def stop(self, has_ended: threading.Event) -> None:
        """Begin to stop it, once its long batch has ended, or after a moment."""

        def stop() -> None:
            # Spark would abort it.
            has_ended.wait(_ENDING)
            self._query.stop()

        self._stopping = threading.Thread(target=stop, name=f"stops {self._job}", daemon=True)
        self._stopping.start()

    def is_stopping(self) -> bool:
        """Whether it was asked to stop, and has not stopped yet."""
        return self._stopping is not None and self._stopping.is_alive()

    def cancel(self) -> None:
        """Cancel the batch that keeps it from stopping."""
        # Spark groups the tasks of a query under the id of its run.
        self._session.sparkContext.cancelJobGroup(str(self._query.runId))


_STOP_SECONDS = 10.0
"""Seconds that each step of stopping a query may take."""
_SLOT_SECONDS = 15.0
"""Seconds after which a job that waits for a slot says so."""
_NO_SLOT = "Spark has no free slot"
_BACK_OFF = BackOff((1.0, 2.0, 5.0, 15.0, 60.0))
"""Seconds before a query that died is started again."""


class SparkJob:
    """One job; called from the host's main thread unless a method says otherwise."""

    def __init__(self, name: str, host: HostParts) -> None:
        self.name = name
        self.folder = job_folder(host.root, name)
        self.state = JobState.STARTING
        self.trouble = ""
        self._host = host
        self._lease = Lease(self.folder.path)
        try:
            self.folder.make()
            self._store = RecordStore(self.folder.records)
            self.plans = PlanLog(self.folder, self._store)
        except BaseException:
            # It is started again once the folder is mended, perhaps in this process.
            self._lease.release()
            raise
        self._query: JobQuery | None = None
        self.keeper: PaceKeeper | None = None
        self.spools = JobSpools(host.root, host.owned_spool)
        self._deaths = 0
        self._recorded_since_look = False
        self._since = time.monotonic()
        self.follower: Follower | None = None
        """None until it is started here; it stays if the job dies."""
        self.started_at = time.monotonic()
        self.lag = JobLag(self._spooled_at)
        self.health = JobHealth(self.plans.plan)

    def log(self, plan: Plan, starts: Mapping[str, int], behaviours: Mapping[str, str]) -> None:
        """Log a new plan, and wake the job for it; `starts` are for new streams. Refused if its time is past."""
        with nullcontext() if self.keeper is None else self.keeper.deciding:
            decided, cuts = (None, set[str]()) if self.keeper is None else (self.keeper.decided, self.keeper.cuts)
            standing = self.plans.check(plan, decided=decided, decided_cuts=cuts)
            self.plans.append(self.health.applied(plan), standing, starts, behaviours)
        if self.keeper is not None:
            self.keeper.wake()

    def heal(self) -> None:
        """Log a plan that fails and retries tasks as their health demands, once no other plan waits to take effect."""
        latest = self.plans.latest
        if latest is None or self.state is not JobState.RUNNING or self.follower is None:
            return
        if self.follower.so_far.entry == latest.number:
            plan = self.health.following(latest.plan, self._host.clock.passed())
            if plan is not None:
                self.log(plan, latest.starts, latest.behaviours)

    def release(self) -> None:
        """Give back the lease of a job that was not started."""
        self._lease.release()

    def is_over(self) -> bool:
        """Whether it is stopped, and nothing is left to do for it."""
        return self.state is JobState.STOPPED and self.folder.cuts.is_empty() and self.has_sent

    @property
    def has_sent(self) -> bool:
        """Whether the broker has all that it emitted here."""
        return self.follower is None or self.follower.is_done()

    @property
    def is_due(self) -> bool:
        """Whether it died long enough ago to be started again."""
        return self.back_off is not None and self._elapsed > self.back_off

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._since

    @property
    def back_off(self) -> float | None:
        """The seconds from its death until its next start; None if it is not dead."""
        return _BACK_OFF.after(self._deaths) if self.state is JobState.DIED else None

    def retry(self) -> None:
        """Leave the state of a dead job, to be started again."""
        self._turn(JobEvent.RETRY)

    def fail(self, trouble: str) -> None:
        """Count a death: it could not be started, or its query died. It is due again after a while."""
        self.trouble = trouble
        self._deaths += 1
        self._turn(JobEvent.QUERY_DIED)
        self._host.pace.remove(self.name)

    def start(self) -> None:
        """Start the query."""
        run, gone = self.folder.begin_run(), self.folder.gone()
        # The next carrier's run has to be a later one.
        self._host.copies.settle(self.folder.path)
        self.follower = Follower(
            self.folder,
            self._store,
            self._host.sender,
            run=run,
            on_record=self._note_record,
            copies=self._host.copies,
            nodes=self._host.nodes,
        )
        self.started_at, self.lag = time.monotonic(), JobLag(self._spooled_at)
        self.keeper = PaceKeeper(
            run=run,
            plans=self.plans,
            store=self._store,
            spools=self.spools,
            gone=gone,
            is_read=self._is_read,
            on_end=self._note_end,
        )
        self._host.pace.add(self.name, self.keeper)
        shutil.rmtree(self.folder.spark, ignore_errors=True)
        self.keeper.traced.start(self.plans.plan)
        workers = self.plans.plan.workers if self.plans.plan else ""
        self._query = JobQuery(self._host, self.name, self.folder.spark, workers)
        self._turn(JobEvent.STARTED)

    def _note_record(self, header: Header, plan: Plan) -> None:
        self.health.note(header, plan, self._host.clock.passed())
        if self.keeper is not None:
            self.keeper.note_work(header, plan)
            self.keeper.traced.record(self.name, header, plan)
            for cut in header.cuts:
                if cut.name in self.keeper.released:
                    # It was taken just before it was released.
                    self.folder.cuts.release(cut.name)

    def _note_end(self) -> None:
        self._recorded_since_look = True
        self._host.on_record(self.name)

    def _is_read(self, stream: str) -> bool:
        return self.plans.reads(stream, self.follower.so_far.entry if self.follower else 0)

    def _spooled_at(self, stream: str, position: int) -> float | None:
        """When the item at a position of a stream was spooled."""
        try:
            item = next(read(spool_folder(self._host.root, stream), position, 1), None)
        except (PositionsGone, SpoolDamaged, OSError):
            # The batch that reads its events reports what is wrong.
            return None
        return None if item is None else item.item.stamp / 1000

    def streams(self) -> frozenset[str]:
        """The streams that it reads or will read."""
        if self.state is JobState.STOPPED:
            return frozenset()
        in_effect = self.follower.oldest_entry_to_run() if self.follower else 1
        return frozenset(stream for entry in self.plans.since(in_effect) for stream in entry.plan.streams)

    def look(self) -> None:
        """Check that the query still runs, and see its end through if it is being stopped."""
        if self.state is JobState.RUNNING and self._query is not None and not self._is_active(self._query):
            self.fail(self._query.failure())
        elif self.state is JobState.RUNNING:
            if self._elapsed > _BACK_OFF.longest:
                self._deaths, self.trouble = 0, ""
            if self.keeper is not None and (shards := self.keeper.shards_waiting(_SLOT_SECONDS)):
                self.trouble = (
                    f"{_NO_SLOT} for {shards} shards of it; give its workers more cores in name, or stop another job"
                )
            elif self.trouble.startswith(_NO_SLOT):
                self.trouble = ""
        elif self.state in {JobState.STOPPING, JobState.CANCELLING, JobState.STUCK}:
            self._look_at_end()

    def _is_active(self, query: JobQuery) -> bool:
        # To ask the JVM is a tenth of what a beat costs. A query that waits for a long batch is alive, and so was one
        # that has just recorded a batch.
        recorded, self._recorded_since_look = self._recorded_since_look, False
        return recorded or bool(self.keeper is not None and self.keeper.is_asked) or query.is_active()

    def stop(self) -> None:
        """Begin to stop; `look` sees it through."""
        if self.state not in {JobState.STARTING, JobState.RUNNING, JobState.DIED}:
            return
        died = self.state is JobState.DIED
        self._turn(JobEvent.STOP)
        if died or self._query is None or self.keeper is None:
            self._host.pace.remove(self.name)
            self._lease.release()
        else:
            # It goes on to answer: when Spark asks again, the long batch has ended.
            self.keeper.stop()
            self._query.stop(self.keeper.has_ended)

    def _look_at_end(self) -> None:
        if self._query is None or not self._query.is_stopping():
            self._turn(JobEvent.ENDED)
            self._host.pace.remove(self.name)
            try:
                if self.follower is not None:
                    self.follower.follow()
            finally:
                self._lease.release()
        elif self.state is not JobState.STUCK and self._elapsed > _STOP_SECONDS:
            self._turn(JobEvent.TIMED_OUT)
            if self.state is JobState.CANCELLING:
                self._query.cancel()
            else:
                self.trouble = "the query does not stop; its host has to be restarted"

    def _turn(self, event: JobEvent) -> None:
        self.state = next_state(self.state, event)
        self._since = time.monotonic()
