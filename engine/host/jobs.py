"""The jobs of a host: what starts them, hands them plans, looks after them and stops them.

What is wrong with the files of one job is told in its status, and hurts no other. A job that cannot be started for that
is died, and is tried again after a while as one whose query died.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from bridge import Clock, LeaseTaken, topics
from engine.behaviour import place_of
from engine.delivery.follower import StreamSender
from engine.host.cleanup import sweep
from engine.host.consumers import HostConsumers, cut_streams
from engine.job.job import SparkJob
from engine.job.lifecycle import JobState
from engine.job.pace_keeper import PaceServer
from engine.job.status import job_metrics, job_status, stopped_status
from engine.kernel.worker import NoCut, check_imports
from engine.log_lines import about
from engine.plan import Plan
from engine.plan_messages import RefusedPlan
from engine.records.damage import DAMAGE
from engine.records.job_folder import JobFolder, job_folder
from engine.records.record_file import Header

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENDING = {JobState.STOPPING, JobState.CANCELLING, JobState.STUCK}
_ENDED = {JobState.STOPPED, JobState.STUCK}
SWEEPING = 600.0
"""Seconds between two looks for what is left of jobs that were stopped long ago."""
log = logging.getLogger("braid.host")


class HostPublisher(Protocol):
    """What publishes for a host; its line."""

    def tell(self, topic: str, told: Mapping[str, Any], *, retain: bool = ...) -> None:
        """Publish something; what is retained only if it is news."""

    def refuse(self, topic: str, why: str) -> None:
        """Say why something that was wished for is not done."""


class HostJobs:
    """The jobs of one host; called from its main thread, unless it says otherwise."""

    def __init__(  # noqa: PLR0913 - whose, where, on what, with what, and whom to tell are nine things
        self,
        host: str,
        root: Path,
        session: "SparkSession",
        *,
        pace: PaceServer,
        sender: StreamSender,
        consuming: HostConsumers,
        line: HostPublisher,
        behaviours: Mapping[str, str],
        clock: Clock,
        asked: Callable[[str], None],
    ) -> None:
        self._host = host
        self._root = root
        self._make = partial(
            SparkJob, root=root, session=session, pace=pace, sender=sender, asked=asked, owned=consuming.owned
        )
        self._consuming = consuming
        self._line = line
        self._behaviours = behaviours
        self._clock = clock
        self._jobs: dict[str, SparkJob] = {}
        self._later: dict[str, Plan] = {}
        """Plans whose jobs still end, here or on another host, or cannot be started for now."""
        self._swept = time.monotonic()

    @property
    def running(self) -> list[str]:
        """The names of all that are not stopped."""
        return sorted(name for name, job in self._jobs.items() if job.state is not JobState.STOPPED)

    @property
    def stuck(self) -> bool:
        """Whether the query of one of them does not stop."""
        return any(job.state is JobState.STUCK for job in self._jobs.values())

    def resume(self) -> frozenset[str] | None:
        """Run the jobs again that ran when the host ended, however it ended.

        The streams that they may read; None where that cannot be told, because files of some are damaged.
        """
        for folder, plans in self._found():
            if not folder.is_stopped():
                self.attempt(plans[-1].job, partial(self.follow, plans[-1]))
        self.leave_stopped()
        try:
            streams = {stream for folder in self._folders() for stream in self._needed(folder)}
        except DAMAGE as error:
            log.warning("what the broker keeps for streams that nobody reads stays there: %s", error)
            return None
        return frozenset(streams)

    def leave_stopped(self) -> None:
        """Let jobs that do not run here any more hold up no spool."""
        for folder, plans in self._found():
            if folder.is_stopped():
                self.attempt(plans[-1].job, partial(self._consuming.leave, folder, plans))

    def release(self, cut: str) -> None:
        """Keep the states of a cut no longer."""
        for folder in self._folders():
            self.attempt(unquote(folder.path.name), partial(self._release, folder, cut))
        for job in self._jobs.values():
            job.pass_over(cut)

    def _release(self, folder: JobFolder, cut: str) -> None:
        is_over = folder.cuts.release(cut) and unquote(folder.path.name) not in self._jobs and folder.is_stopped()
        if is_over and (plans := self._plans(folder)):
            self._consuming.leave(folder, plans)

    def attempt(self, job: str, act: Callable[[], None]) -> None:
        """Do something for a job; what cannot be done is said, and hurts nobody else."""
        with about(job=job):
            try:
                act()
            except (RefusedPlan, LeaseTaken, *DAMAGE) as error:
                log.warning("job %s: %s", job, error)
                self._line.refuse(topics.job(job, "refused"), str(error))

    def take(self, job: str, plan: Plan | None) -> None:
        """Take up the newest plan of a job, which may be another host's, or none at all."""
        self._later.pop(job, None)
        if plan is not None and plan.host == self._host:
            self.follow(plan)
        elif (running := self._jobs.get(job)) is not None:
            running.folder.mark_stopped()
            running.stop()
        elif plan is None:
            self._tell_stopped(job)

    def follow(self, plan: Plan) -> None:
        """Make a job execute a plan, and begin it where it does not run yet."""
        job = self._jobs.get(plan.job)
        if job is not None and (job.state in _ENDING or not job.is_begun):
            # Its end is awaited, or its next start takes it up.
            self._later[plan.job] = plan
            return
        if job is None or job.state is JobState.STOPPED:
            job = self._made(plan)
            if job is None:
                return
            try:
                self._start(job, plan)
            except BaseException:
                job.give_up()
                raise
            self._jobs[plan.job] = job
        elif job.is_news(plan):
            self._log(job, plan)
        self._tell(job)

    def grown(self, stream: str, *, marked: bool) -> None:
        """A stream has grown, perhaps by a marker; from any thread."""
        for job in list(self._jobs.values()):
            bridged = job.reads_over_bridge(stream)
            if bridged is None:
                continue
            if marked:
                job.wake()
            else:
                job.grown(stream, bridged=bridged)

    def follow_records(self, name: str) -> None:
        """Take up what a job has done."""
        job = self._jobs.get(name)
        if job is None or job.follower is None:
            return
        entry = job.follower.told.entry
        found: Sequence[Header] = ()
        with self._troubles(job):
            found = job.follow(self._clock.passed())
        if any(header.cuts for header in found) or job.follower.told.entry != entry:
            self._tell(job)

    def look(self) -> None:
        """What is due at every beat."""
        for job in list(self._jobs.values()):
            over = False
            with self._troubles(job):
                job.look()
            if job.is_due:
                job.retry()
                self.attempt(job.name, partial(self._start_again, job))
            with self._troubles(job):
                # What was left waiting for the broker, or for a full disk to have room again.
                job.follow(self._clock.passed())
                job.heal(self._clock.passed())
                if job.follower is not None:
                    job.follower.tidy()
            with self._troubles(job):
                self._consuming.tidy(job)
                job.forget_plans()
                over = job.is_over()
            with self._troubles(job):
                metrics = job_metrics(job, self._consuming.ends(job), self._clock.now())
                self._line.tell(topics.job(job.name, "metrics"), metrics, retain=False)
            self._tell(job)
            if over:
                # Whoever removes dataflows all day long has many of them, and a beat would become long.
                del self._jobs[job.name]
                self._consuming.forget(job)
        for name, plan in list(self._later.items()):
            self.attempt(name, partial(self.follow, plan))
        if time.monotonic() - self._swept >= SWEEPING:
            self._swept = time.monotonic()
            self._sweep()

    def end(self) -> None:
        """Stop them all, and wait until they have."""
        for job in self._jobs.values():
            job.stop()
        while any(job.state not in _ENDED for job in self._jobs.values()):
            time.sleep(0.01)
            for job in self._jobs.values():
                with self._troubles(job):
                    job.look()

    def _sweep(self) -> None:
        try:
            sweep(self._root, self._host, stay={*self._jobs, *self._later}, now=self._clock.now())
        except OSError as error:
            log.warning("what is left of jobs that were stopped long ago stays for now: %s", error)

    def _made(self, plan: Plan) -> SparkJob | None:
        try:
            job = self._make(plan.job)
        except LeaseTaken as error:
            if plan.job not in self._later:
                with about(job=plan.job):
                    log.info("job %s waits: %s", plan.job, error)
            self._later[plan.job] = plan
            return None
        except DAMAGE as error:
            # Without its folder there is no job yet that could tell it.
            if plan.job not in self._later:
                with about(job=plan.job):
                    log.error("job %s: %s", plan.job, error)  # noqa: TRY400 - it says where and what to do
            self._later[plan.job] = plan
            status = {"job": plan.job, "host": self._host, "state": JobState.DIED, "trouble": str(error)}
            self._line.tell(topics.job(plan.job, "status"), {**status, "version": 0, "term": 0})
            return None
        self._later.pop(plan.job, None)
        return job

    def _start(self, job: SparkJob, plan: Plan | None) -> None:
        """Start a job, with a plan that may be news; where its files are damaged it is died, and tried again."""
        try:
            self._consuming.rejoin(job)
            if plan is not None and job.is_news(plan):
                self._log(job, plan)
            job.folder.mark_running()
            job.start()
        except DAMAGE as error:
            with about(job=job.name):
                log.error("job %s: %s", job.name, error)  # noqa: TRY400 - it says where and what to do
            job.fail(str(error))
            if plan is not None:
                self._later[job.name] = plan
        else:
            self._later.pop(job.name, None)

    def _start_again(self, job: SparkJob) -> None:
        try:
            self._start(job, self._later.get(job.name))
        except BaseException as error:
            # What was refused is not tried again, but what the job did before is.
            self._later.pop(job.name, None)
            job.fail(str(error))
            if job.plan is None:
                job.stop()
            raise

    def _log(self, job: SparkJob, plan: Plan) -> None:
        before = job.streams()
        try:
            behaviours = self._behaviours_of(plan)
            self._check_imports(job, plan)
            job.log(plan, self._consuming.join(job, plan), behaviours)
        except BaseException:
            # A plan that is refused leaves nothing behind.
            self._consuming.unjoin(job, plan.streams - before)
            raise

    def _check_imports(self, job: SparkJob, plan: Plan) -> None:
        wanted = [each for each in plan.imports if each.job != job.name]
        if wanted != list(plan.imports):
            # Who left a moment ago is known only when the records are followed.
            job.follow(self._clock.passed())
            here = {instance for entry in job.in_effect() for instance in entry.plan.instances}
            wanted += [each for each in plan.imports if each.job == job.name and each.instance not in here]
        try:
            check_imports(self._root, wanted)
        except NoCut as error:
            raise RefusedPlan(f"{error}; take the cut first") from error

    def _behaviours_of(self, plan: Plan) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in sorted({slot.type for slot in plan.slots}):
            place = place_of(name, self._behaviours)
            if place is None:
                raise RefusedPlan(
                    f"host {self._host!r} has no implementation of the task type {name!r}; install it there"
                )
            found[name] = place
        return found

    def _found(self) -> Iterator[tuple[JobFolder, list[Plan]]]:
        """The folders of this host's jobs, with their plans; one that cannot be read is told, and passed over."""
        for folder in self._folders():
            plans: list[Plan] = []
            try:
                plans = self._plans(folder)
            except DAMAGE as error:
                with about(job=unquote(folder.path.name)):
                    log.error("job %s: %s", unquote(folder.path.name), error)  # noqa: TRY400 - it says where and what to do
            if plans:
                yield folder, plans

    def _plans(self, folder: JobFolder) -> list[Plan]:
        """The plans of a job of this host; none where it is another's."""
        plans = [entry.plan for entry in folder.entries(1)]
        return plans if plans and plans[-1].host == self._host else []

    @staticmethod
    def _needed(folder: JobFolder) -> frozenset[str]:
        """The streams that a job may still read."""
        plans = () if folder.is_stopped() else [entry.plan for entry in folder.entries(1)]
        return frozenset(stream for plan in plans for stream in plan.streams) | cut_streams(folder)

    def _folders(self) -> list[JobFolder]:
        return [JobFolder(path) for path in sorted((self._root / "jobs").glob("*"))]

    @contextmanager
    def _troubles(self, job: SparkJob) -> Iterator[None]:
        """What is wrong with one job's files is told in its status, and hurts no other; it is tried again at a beat."""
        try:
            yield
        except DAMAGE as error:
            if job.trouble != str(error):
                with about(job=job.name):
                    log.error("job %s: %s", job.name, error)  # noqa: TRY400 - it says where and what to do
            job.trouble = str(error)

    def _tell_stopped(self, name: str) -> None:
        """Say again of a job that was stopped long ago that it is: whoever wants it to stop has not heard of it."""
        folder = job_folder(self._root, name)
        if folder.is_stopped() and (plans := self._plans(folder)):
            self._line.tell(topics.job(name, "status"), stopped_status(folder, plans[-1]))

    def _tell(self, job: SparkJob) -> None:
        self._line.tell(topics.job(job.name, "status"), job_status(job, self._host))
