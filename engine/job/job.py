"""A job as its host runs it: one Spark query, its log of plans, and the follower of its records."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bridge import Lease, PositionsGone, SpoolDamaged, read
from bridge.machine.back_off import BackOff
from engine.delivery.follower import REWIND, Follower, StreamSender
from engine.job.batch_times import BatchTimes
from engine.job.job_health import JobHealth
from engine.job.lag import JobLag
from engine.job.lifecycle import JobEvent, JobState, turn
from engine.job.pace import ReadableSpool
from engine.job.pace_keeper import PaceKeeper, PaceServer
from engine.job.spools import JobSpools
from engine.job.start import Standing, begins, behind, check_return, returning
from engine.offset import Offset
from engine.plan import Entry, Plan
from engine.plan_messages import RefusedPlan
from engine.records.job_folder import job_folder, spool_folder
from engine.records.record_file import Header
from engine.records.record_store import RecordStore
from engine.spark.batch_task import RESULT, answer
from engine.spark.source import SOURCE_FORMAT, SpoolSource
from engine.supply import Bridged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STOP_SECONDS = 10.0
"""Seconds that each step of stopping a query may take."""
_BACK_OFF = BackOff((1.0, 2.0, 5.0, 15.0, 60.0))
"""Seconds before a query that died is started again."""


class SparkJob:
    """One job; called from the host's main thread, unless it says otherwise."""

    def __init__(  # noqa: PLR0913 - what it is called, where it lies, what it runs on, and whom to tell and ask are seven things
        self,
        name: str,
        root: Path,
        session: "SparkSession",
        pace: PaceServer,
        sender: StreamSender,
        *,
        asked: Callable[[str], None],
        owned: Callable[[str], ReadableSpool | None],
    ) -> None:
        """`asked` is told when Spark asks for a batch; `owned` finds the spool of a stream that this host fills."""
        self.name = name
        self.root = root
        self.folder = job_folder(root, name)
        self.state = JobState.STARTING
        self.trouble = ""
        self._session = session
        self._pace = pace
        self._sender = sender
        self._asked = asked
        self._lease = Lease(self.folder.path)
        try:
            self.folder.make()
            self._entries = self.folder.entries(1)
        except BaseException:
            # Whoever mends it starts it again, perhaps in this process.
            self._lease.release()
            raise
        self._store = RecordStore(self.folder.records)
        self._query: StreamingQuery | None = None
        self._keeper: PaceKeeper | None = None
        self._spools = JobSpools(root, owned)
        self._deaths = 0
        self._since = time.monotonic()
        self._ending: threading.Thread | None = None
        self.follower: Follower | None = None
        self.began = time.monotonic()
        """When it was started last."""
        self.batch_times = BatchTimes()
        self.lagging = JobLag(self._came)
        self.healths = JobHealth(self.plan)

    @property
    def entries(self) -> Sequence[Entry]:
        """The log of plans."""
        return self._entries

    @property
    def plan(self) -> Plan | None:
        """The latest plan, whether it is in effect yet or not."""
        return self._entries[-1].plan if self._entries else None

    def log(self, plan: Plan, starts: Mapping[str, int], behaviours: Mapping[str, str]) -> Entry:
        """Make a plan the next entry, and wake the job for it; refused where its time is past.

        `starts` are for streams that the job does not read yet.
        """
        with nullcontext() if self._keeper is None else self._keeper.deciding:
            self._check(plan)
            standing = self._standing()
            check_return(plan, returning(self.folder.cuts.all(), plan), standing)
            number, latest = (self._entries[-1].number, self._entries[-1].starts) if self._entries else (0, {})
            entry = Entry(
                number=number + 1,
                plan=self.healths.applied(plan),
                starts=begins(plan, starts, standing, latest),
                behaviours=behaviours,
            )
            self.folder.log(entry)
            self._entries = [*self._entries, entry]
        self.wake()
        return entry

    def follow(self, now: float) -> list[Header]:
        """Take up the records that are new."""
        found = self.follower.follow() if self.follower else []
        for header in found:
            self.healths.note(header, self.folder.entry(header.end.entry).plan, now)
            for cut in header.cuts:
                if self._keeper is not None and self._keeper.is_passed_over(cut.name):
                    # It was taken just before it was released.
                    self.folder.cuts.release(cut.name)
        return found

    def heal(self, now: float) -> None:
        """Fail who does nothing but fail, and try again whose time has come, once nothing else waits to take effect."""
        latest = self._entries[-1] if self._entries else None
        if latest is None or self.state is not JobState.RUNNING or self.follower is None:
            return
        if self.follower.told.entry == latest.number:
            plan = self.healths.following(latest.plan, now)
            if plan is not None:
                self.log(plan, latest.starts, latest.behaviours)

    def is_news(self, plan: Plan) -> bool:
        """Whether a plan is newer than the latest; refused where somebody made it who does not lead any more."""
        now = self.plan
        if now is not None and plan.term < now.term:
            raise RefusedPlan(f"the plan is of term {plan.term}, and job {self.name!r} follows term {now.term} already")
        return now is None or (plan.term, plan.version) > (now.term, now.version)

    def _check(self, plan: Plan) -> None:
        decided = self._keeper.decided if self._keeper else None
        past = {cut.name for cut in self.folder.cuts.all()} | (self._keeper.cuts if self._keeper else set())
        if plan.at_cut in past - (decided.cuts.keys() if decided else set()):
            raise RefusedPlan(
                f"the plan is to take effect at the cut {plan.at_cut!r}, which is past in job {self.name!r}; "
                "take another"
            )
        at = decided.at if decided else self.position()
        for stream, position in plan.at.items():
            if at.get(stream, 0) > position:
                raise RefusedPlan(
                    f"the plan is to take effect at {stream!r} {position}, and job {self.name!r} is at {at[stream]} "
                    "already; choose a later position"
                )

    def _standing(self) -> Standing:
        last = self._last()
        decided = self._keeper.decided if self._keeper else None
        if last is None:
            return Standing({}, None, decided)
        return Standing(last.end.at, self.folder.entry(last.end.entry).plan, decided)

    def position(self) -> Mapping[str, int]:
        """How far it has read, by its records."""
        last = self._last()
        return last.end.at if last else {}

    def in_effect(self) -> Sequence[Entry]:
        """The entry that its last record ran, and those that wait behind it."""
        last = self._last()
        return [entry for entry in self._entries if entry.number >= (last.end.entry if last else 1)]

    def _last(self) -> Header | None:
        batches = self._store.batches()
        return self._store.file(batches[-1]).header if batches else None

    def give_up(self) -> None:
        """Give the lease back of a job that was not started."""
        self._lease.release()

    @property
    def is_begun(self) -> bool:
        """Whether it was started here, be it that it died since."""
        return self.follower is not None

    def forget_plans(self) -> None:
        """Remove plans that no batch runs again, once the streams are left that only those plans read."""
        first = self.follower.first_entry() if self.follower else 0
        if self._entries and self._entries[0].number < first:
            self.folder.forget_entries(first)
            self._entries = [entry for entry in self._entries if entry.number >= first]

    def is_over(self) -> bool:
        """Whether it is stopped, and nothing is left to be done for it."""
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
        """How many seconds after it died it is due again."""
        return _BACK_OFF.after(self._deaths) if self.state is JobState.DIED else None

    def retry(self) -> None:
        """It is about to be started again."""
        self._turn(JobEvent.RETRY)

    def fail(self, trouble: str) -> None:
        """It could not be started, or its query died; it is due again after a while."""
        self.trouble = trouble
        self._deaths += 1
        self._turn(JobEvent.QUERY_DIED)
        self._pace.remove(self.name)

    def start(self) -> None:
        """Start the query."""
        run, gone = self.folder.begin_run(), self.folder.gone()
        self.follower = Follower(self.folder, self._store, self._sender, run=run)
        self.began, self.batch_times, self.lagging = time.monotonic(), BatchTimes(), JobLag(self._came)
        self._keeper = PaceKeeper(
            run=run,
            entries=lambda first: [behind(entry, gone) for entry in self._entries if entry.number >= first],
            spools=self._spools,
            recorded=self._recorded(),
            on_ask=self._on_ask,
            on_answer=self.batch_times.begin,
        )
        self._pace.add(self.name, self._keeper)
        # Anew for each query: Spark writes to what is registered whenever a query of it begins, and two that begin at
        # once can leave it so that no task can be read any more, until the JVM ends.
        self._session.dataSource.register(SpoolSource)
        self._query = (
            self._session.readStream.format(SOURCE_FORMAT)
            .option("job", self.name)
            .option("root", str(self.root))
            .option("pace", str(self._pace.address))
            .load()
            .mapInArrow(partial(answer, str(self.root), self.name, str(self._pace.address)), RESULT)
            .writeStream.format("noop")
            .queryName(self.name)
            # The scheme keeps a cluster from taking it for a folder of its own file system.
            .option("checkpointLocation", f"file://{self.folder.checkpoint}")
            .trigger(processingTime="0 seconds")
            .start()
        )
        self._turn(JobEvent.STARTED)

    def _on_ask(self, _start: Offset) -> None:
        self.batch_times.end()
        self._asked(self.name)

    def _came(self, stream: str, position: int) -> float | None:
        """When what lies at a position of a stream was spooled."""
        try:
            item = next(read(spool_folder(self.root, stream), position, 1), None)
        except (PositionsGone, SpoolDamaged, OSError):
            # Whoever reads it for its events says what is wrong.
            return None
        return None if item is None else item.item.stamp / 1000

    def _recorded(self) -> Callable[[Offset], Offset | None]:
        """Where the batch after an offset ended, should Spark's checkpoint have lost that it planned it."""
        headers = [self._store.file(batch).header for batch in self._store.batches()[-REWIND:]]
        return lambda start: next((header.end for header in headers if header.start == start), None)

    def streams(self) -> frozenset[str]:
        """The streams that it reads or will read."""
        if self.state is JobState.STOPPED:
            return frozenset()
        in_effect = self.follower.oldest_entry() if self.follower else 1
        return frozenset(
            stream for entry in self._entries if entry.number >= in_effect for stream in entry.plan.streams
        )

    def reads_over_bridge(self, stream: str) -> bool | None:
        """Whether a stream comes from another job; None where it is not read. From any thread."""
        in_effect = self.follower.told.entry if self.follower else 0
        for entry in reversed(self._entries):
            # Until the latest plan takes effect the one before it is run, and there may be a cut to come first.
            for ingress in entry.plan.ingress:
                # Asked for all that any spool takes, so it makes no set of them.
                if ingress.stream == stream:
                    return isinstance(ingress.supply, Bridged)
            if entry.number <= in_effect:
                break
        return None

    def seen_end(self, stream: str) -> int | None:
        """Where a spool ended when it was looked at last; None where it has not been yet."""
        return self._spools.end(stream)

    def grown(self, stream: str, *, bridged: bool) -> None:
        """Events came for it; from any thread."""
        if self._keeper is not None:
            self._keeper.grown(stream, bridged=bridged)

    def wake(self) -> None:
        """There is news for it that does not wait for its pace; from any thread."""
        if self._keeper is not None:
            self._keeper.wake()

    def pass_over(self, cut: str) -> None:
        """Wait for a cut no longer, because nobody wants it any more."""
        if self._keeper is not None:
            self._keeper.pass_over(cut)

    @property
    def given_up(self) -> list[str]:
        """The cuts that it has waited for in vain since it was started here."""
        return sorted(self._keeper.given_up) if self._keeper is not None else []

    def look(self) -> None:
        """See whether the query still runs, and do what is due."""
        if self.state is JobState.RUNNING and self._query is not None and not self._is_active(self._query):
            self.fail(str(self._query.exception() or "the query ended by itself"))
        elif self.state is JobState.RUNNING and self._elapsed > _BACK_OFF.longest:
            self._deaths, self.trouble = 0, ""
        elif self.state in {JobState.STOPPING, JobState.CANCELLING, JobState.STUCK}:
            self._look_at_end(self._elapsed)

    def _is_active(self, query: "StreamingQuery") -> bool:
        # To ask the JVM is a tenth of what a beat costs, and who waits for an answer lives.
        return bool((self._keeper is not None and self._keeper.is_asked) or query.isActive)

    def stop(self) -> None:
        """Begin to stop; `look` sees it through."""
        if self.state not in {JobState.STARTING, JobState.RUNNING, JobState.DIED}:
            return
        died = self.state is JobState.DIED
        self._turn(JobEvent.STOP)
        self._pace.remove(self.name)
        if died or self._query is None:
            self._lease.release()
        else:
            self._ending = threading.Thread(target=self._query.stop, name=f"stops {self.name}", daemon=True)
            self._ending.start()

    def _look_at_end(self, elapsed: float) -> None:
        if self._ending is None or not self._ending.is_alive():
            self._turn(JobEvent.ENDED)
            try:
                self.follow(time.monotonic())
            finally:
                self._lease.release()
        elif self.state is not JobState.STUCK and elapsed > _STOP_SECONDS:
            self._turn(JobEvent.TIMED_OUT)
            if self.state is JobState.CANCELLING and self._query is not None:
                # Spark groups a query's tasks under the id of its run.
                self._session.sparkContext.cancelJobGroup(str(self._query.runId))
            else:
                self.trouble = "the query does not stop; its host has to be started anew"

    def _turn(self, event: JobEvent) -> None:
        self.state = turn(self.state, event)
        self._since = time.monotonic()
