"""A job as its host runs it: one Spark query, its log of plans, and the follower of its records."""

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bridge import Clock, Lease, PositionsGone, SpoolDamaged, read
from bridge.machine import BackOff
from engine.delivery.follower import Follower
from engine.delivery.forwarder import StreamSender
from engine.job.batch_times import BatchTimes
from engine.job.job_health import JobHealth
from engine.job.lag import JobLag
from engine.job.lifecycle import JobEvent, JobState, next_state
from engine.job.pace import ReadableSpool
from engine.job.pace_keeper import PaceKeeper
from engine.job.pace_server import PaceServer
from engine.job.plan_log import PlanLog
from engine.job.query import JobQuery
from engine.job.spools import JobSpools
from engine.job.start import past_gone
from engine.offset import Offset
from engine.plan import Plan
from engine.records.job_folder import job_folder, spool_folder
from engine.records.record_header import Header
from engine.records.record_store import RecordStore
from engine.replicas.copies import NO_COPIES, Copies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
