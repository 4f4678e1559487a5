"""A job as its host runs it: one Spark query, its log of plans, and the follower of its records.

Before `SparkJob` come its parts:

- `BatchTimes`: how long its latest batches took, each from when its end was known until Spark asked for the next. So a
  time covers the work of Spark around a batch, and that of the kernel.
- `JobLag`: how far it is behind in the spools that it reads. To look up when the waiting events came would cost more
  than everything else at a beat. So the ends of the spools are noted at each beat: what lies before an end came before
  that beat. Only what waited when the job was started is looked up.
- `JobSpools`: the spools that it reads, as of its last look at them.
- `JobQuery`: the query in Spark, which is started, watched, stopped, and cancelled if it does not stop.
"""

import math
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types

from bridge import Clock, Lease, PositionsGone, SpoolDamaged, SpoolIndex, read
from bridge.machine import BackOff
from engine.delivery.follower import Follower
from engine.delivery.forwarder import StreamSender
from engine.job.health import JobHealth
from engine.job.lifecycle import JobEvent, JobState, next_state
from engine.job.pace import ReadableSpool
from engine.job.pace_keeper import PaceKeeper, PaceServer
from engine.job.plan_log import PlanLog, past_gone
from engine.offset import Offset
from engine.plan import Plan
from engine.records.files import Header
from engine.records.job_folder import job_folder, spool_folder
from engine.records.store import RecordStore
from engine.replicas.copies import NO_COPIES, Copies
from engine.spark.batch_task import RESULT, answer
from engine.spark.session import workers_named
from engine.spark.source import SOURCE_FORMAT, SpoolSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_COUNTED_SECONDS = 60.0
"""Seconds for which a batch counts."""
_MOST_COUNTED = 600
"""The most batches that count, the latest."""


class BatchTimes:
    """The batch times of one job; its pace keeper calls `begin` and `end`, in one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: float | None = None
        # Any thread may read it: a copy of a deque is consistent.
        self._taken: deque[tuple[float, float]] = deque(maxlen=_MOST_COUNTED)
        """For each batch when it ended, and the seconds that it took."""

    def begin(self) -> None:
        """Note that a batch begins."""
        self._begun = self._clock()

    def end(self) -> None:
        """Note that the batch is done, if there was one."""
        if self._begun is not None:
            now = self._clock()
            self._taken.append((now, now - self._begun))
            self._begun = None

    def percentiles(self) -> dict[str, float]:
        """The median and the 99th percentile in seconds; empty if there was no batch."""
        since = self._clock() - _COUNTED_SECONDS
        taken = sorted(seconds for ended, seconds in self._taken.copy() if ended >= since)
        return {name: round(percentile(taken, part), 4) for name, part in (("p50", 0.5), ("p99", 0.99)) if taken}


def percentile(ordered: Sequence[float], part: float) -> float:
    """The smallest value that the given part of all does not exceed.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


class Lag(NamedTuple):
    """The lag in one stream."""

    events: int
    """The number of events that wait."""
    seconds: float
    """The time for which the oldest of them has been waiting, rounded to a beat."""


class JobLag:
    """The lag since one start of a job; noted at each beat of its host."""

    def __init__(self, spooled_at: Callable[[str, int], float | None]) -> None:
        """`spooled_at` says when the item at a position of a stream was spooled; None if that is unknown."""
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


class JobSpools:
    """The spools of one job."""

    def __init__(self, root: Path, owned_spool: Callable[[str], ReadableSpool | None]) -> None:
        """`owned_spool` finds the spool of a stream that the job's host fills; that one is always up to date."""
        self._root = root
        self._owned_spool = owned_spool
        self._readers: Mapping[str, SpoolIndex] = {}
        """The spools of streams that another host fills, as seen last."""

    def readable(self, streams: Sequence[str]) -> Mapping[str, ReadableSpool]:
        """The spools of some streams, up to date; called from one thread at a time."""
        own = {stream: spool for stream in streams if (spool := self._owned_spool(stream)) is not None}
        self._readers = {
            stream: self._readers.get(stream) or SpoolIndex(spool_folder(self._root, stream))
            for stream in streams
            if stream not in own
        }
        for reader in self._readers.values():
            reader.refresh()
        return {**own, **self._readers}

    def all_notify(self, streams: Sequence[str]) -> bool:
        """Whether the job's host fills all of them, and so notifies the job when they grow."""
        return all(self._owned_spool(stream) is not None for stream in streams)

    def end(self, stream: str) -> int | None:
        """The end at the last look of a spool that another host fills; from any thread."""
        reader = self._readers.get(stream)
        return None if reader is None else reader.end


_ENDING = 1.0
"""Seconds within which a long batch should end whose job is stopped."""


class JobQuery:
    """One query of a job; started when it is made."""

    def __init__(  # noqa: PLR0913 - where it runs, what, as whom, and with what beside it are six things
        self, session: "SparkSession", job: str, *, root: Path, checkpoint: Path, pace: str, workers: str = ""
    ) -> None:
        """`pace` is where Spark's processes ask what to run, `workers` the name of these processes."""
        self._job = job
        self._session = session
        self._stopping: threading.Thread | None = None
        with workers_named(session, workers):
            # Registered anew for each query: Spark writes to what is registered whenever one of its queries begins. Two
            # that begin at once can leave it in a state in which no task can be read any more until the JVM ends.
            session.dataSource.register(SpoolSource)
            batches = (
                session.readStream.format(SOURCE_FORMAT)
                .option("job", job)
                .option("root", str(root))
                .option("pace", pace)
                .load()
                .mapInArrow(partial(answer, str(root), job, pace), RESULT)
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

    def __init__(  # noqa: PLR0913 - its name and folder, what it runs on, and whom it asks and notifies are eight things
        self,
        name: str,
        root: Path,
        session: "SparkSession",
        pace: PaceServer,
        sender: StreamSender,
        *,
        clock: Clock,
        on_record: Callable[[str], None],
        owned_spool: Callable[[str], ReadableSpool | None],
        copies: Copies = NO_COPIES,
    ) -> None:
        """`on_record` is called when a batch is recorded; `owned_spool` finds the spool of a stream the host fills."""
        self.name = name
        self.root = root
        self.folder = job_folder(root, name)
        self.state = JobState.STARTING
        self.trouble = ""
        self._session = session
        self._pace = pace
        self._sender = sender
        self._clock = clock
        self._on_record = on_record
        self._copies = copies
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
        self.spools = JobSpools(root, owned_spool)
        self._deaths = 0
        self._recorded_since_look = False
        self._since = time.monotonic()
        self.follower: Follower | None = None
        self.started_at = time.monotonic()
        """When it was started last."""
        self.batch_times = BatchTimes()
        self.lag = JobLag(self._spooled_at)
        self.health = JobHealth(self.plans.plan)

    def log(self, plan: Plan, starts: Mapping[str, int], behaviours: Mapping[str, str]) -> None:
        """Log a new plan, and wake the job for it; refused if its time is past.

        `starts` are for streams that the job does not read yet.
        """
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
            plan = self.health.following(latest.plan, self._clock.passed())
            if plan is not None:
                self.log(plan, latest.starts, latest.behaviours)

    def release(self) -> None:
        """Give back the lease of a job that was not started."""
        self._lease.release()

    @property
    def is_started(self) -> bool:
        """Whether it was started here, even if it has died since."""
        return self.follower is not None

    def forget_plans(self) -> None:
        """Remove plans that no batch runs again, once the streams that only those plans read are left."""
        self.plans.forget(self.follower.oldest_recorded_entry() if self.follower else 0)

    def is_over(self) -> bool:
        """Whether it is stopped, and nothing is left to do for it."""
        if self.state is not JobState.STOPPED or not self.folder.cuts.is_empty():
            return False
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
        self._pace.remove(self.name)

    def start(self) -> None:
        """Start the query."""
        run, gone = self.folder.begin_run(), self.folder.gone()
        # The next carrier's run has to be a later one.
        self._copies.settle(self.folder.path)
        self.follower = Follower(
            self.folder, self._store, self._sender, run=run, on_record=self._note_record, copies=self._copies
        )
        self.started_at, self.batch_times, self.lag = time.monotonic(), BatchTimes(), JobLag(self._spooled_at)
        batches = self._store.batches()
        self.keeper = PaceKeeper(
            run=run,
            entries=lambda first: [past_gone(entry, gone) for entry in self.plans.since(first)],
            is_read=self._is_read,
            spools=self.spools,
            number=batches.stop,
            start=self._store.file(batches[-1]).header.end if batches else Offset(),
            ends=self._store.ends,
            end_of=partial(_end_of, self._store),
            on_end=self._note_end,
            on_begin=self.batch_times.begin,
        )
        self._pace.add(self.name, self.keeper)
        shutil.rmtree(self.folder.spark, ignore_errors=True)
        self._query = JobQuery(
            self._session,
            self.name,
            root=self.root,
            checkpoint=self.folder.spark,
            pace=self._pace.address,
            workers=self.plans.plan.workers if self.plans.plan else "",
        )
        self._turn(JobEvent.STARTED)

    def _note_record(self, header: Header, plan: Plan) -> None:
        self.health.note(header, plan, self._clock.passed())
        if self.keeper is not None:
            self.keeper.note_work(header, plan)
        for cut in header.cuts:
            if self.keeper is not None and self.keeper.is_passed_over(cut.name):
                # It was taken just before it was released.
                self.folder.cuts.release(cut.name)

    def _note_end(self) -> None:
        self.batch_times.end()
        self._recorded_since_look = True
        self._on_record(self.name)

    def _is_read(self, stream: str) -> bool:
        return self.plans.reads(stream, self.follower.so_far.entry if self.follower else 0)

    def _spooled_at(self, stream: str, position: int) -> float | None:
        """When the item at a position of a stream was spooled."""
        try:
            item = next(read(spool_folder(self.root, stream), position, 1), None)
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
            self._pace.remove(self.name)
            self._lease.release()
        else:
            # It goes on to answer: when Spark asks again, the long batch has ended.
            self.keeper.stop()
            self._query.stop(self.keeper.has_ended)

    def _look_at_end(self) -> None:
        if self._query is None or not self._query.is_stopping():
            self._turn(JobEvent.ENDED)
            self._pace.remove(self.name)
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


def _end_of(store: RecordStore, batch: int) -> Offset | None:
    """Where a recorded batch ends; None if it has no record."""
    record = store.find(batch)
    return None if record is None else record.header.end
