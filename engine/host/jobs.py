"""The jobs of a host: it starts them, hands them plans, looks after them and stops them.

Damage to the files of one job is reported in its status, and hurts no other. A job that cannot be started because of it
counts as died, and is retried after a while like a job whose query died.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bridge import Clock, LeaseTaken, topics
from engine.delivery.forwarder import StreamSender
from engine.host.cleanup import sweep
from engine.host.consumers import HostConsumers
from engine.host.host_publisher import HostPublisher
from engine.host.job_folders import HostFolders, job_name, log_damage
from engine.host.plan_admission import PlanAdmission
from engine.job.job import SparkJob
from engine.job.lifecycle import JobState
from engine.job.pace_server import PaceServer
from engine.job.status import job_metrics, job_status, stopped_status
from engine.log_lines import about
from engine.plan import Plan
from engine.plan_messages import RefusedPlan
from engine.records.damage import DAMAGE
from engine.records.job_folder import JobFolder, job_folder
from engine.records.record_header import Header
from engine.replicas.copies import NO_COPIES, Copies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ENDING = {JobState.STOPPING, JobState.CANCELLING, JobState.STUCK}
_ENDED = {JobState.STOPPED, JobState.STUCK}
SWEEP_SECONDS = 600.0
"""Seconds between two removals of what jobs left that were stopped long ago."""
log = logging.getLogger("braid.host")


class HostJobs:
    """The jobs of one host; called from its main thread."""

    def __init__(  # noqa: PLR0913 - the host, what its jobs run on, and what they publish with are eleven things
        self,
        host: str,
        root: Path,
        session: "SparkSession",
        *,
        pace: PaceServer,
        sender: StreamSender,
        consumers: HostConsumers,
        publisher: HostPublisher,
        behaviours: Mapping[str, str],
        clock: Clock,
        on_record: Callable[[str], None],
        copies: Copies = NO_COPIES,
    ) -> None:
        """`on_record` is called with the name of a job that has recorded a batch, from any thread."""
        self._host = host
        self._root = root
        self._new_job = partial(
            SparkJob,
            root=root,
            session=session,
            pace=pace,
            sender=sender,
            clock=clock,
            on_record=on_record,
            owned_spool=consumers.spools.owned,
            copies=copies,
        )
        self._folders = HostFolders(root, host)
        self._admission = PlanAdmission(host, root, consumers, behaviours, copies)
        self._consumers = consumers
        self._publisher = publisher
        self._clock = clock
        self._jobs: dict[str, SparkJob] = {}
        self._later: dict[str, Plan] = {}
        """Plans of jobs that are still ending, here or on another host, or that cannot be started for now."""
        self._swept_at = time.monotonic()

    @property
    def running(self) -> list[str]:
        """The names of the jobs that are not stopped."""
        return sorted(name for name, job in self._jobs.items() if job.state is not JobState.STOPPED)

    @property
    def stuck(self) -> bool:
        """Whether the query of any job does not stop."""
        return any(job.state is JobState.STUCK for job in self._jobs.values())

    def resume(self) -> frozenset[str] | None:
        """Run the jobs again that ran when the host ended, however it ended.

        Returns the streams that jobs may still read; None if that is unknown, because some files are damaged.
        """
        for folder, plans in self._folders.of_host():
            if not folder.is_stopped():
                self.attempt(plans[-1].job, partial(self._run, plans[-1]))
        # Jobs that do not run here any more must not hold up a spool.
        for folder, plans in self._folders.of_host():
            if folder.is_stopped():
                self.attempt(plans[-1].job, partial(self._consumers.leave, folder, plans))
        return self._folders.needed_streams()

    def release(self, cut: str) -> None:
        """Keep the states of a cut no longer, and have no job wait for it."""
        for folder in self._folders.all():
            self.attempt(job_name(folder), partial(self._release, folder, cut))
        for job in self._jobs.values():
            if job.keeper is not None:
                job.keeper.pass_over(cut)

    def _release(self, folder: JobFolder, cut: str) -> None:
        is_over = folder.cuts.release(cut) and job_name(folder) not in self._jobs and folder.is_stopped()
        if is_over and (plans := self._folders.plans(folder)):
            self._consumers.leave(folder, plans)

    def attempt(self, job: str, act: Callable[[], None]) -> None:
        """Do something for a job; if it fails, that is published, and hurts no other job."""
        with about(job=job):
            try:
                act()
            except (RefusedPlan, LeaseTaken, *DAMAGE) as error:
                log.warning("job %s: %s", job, error)
                self._publisher.refuse(topics.job(job, "refused"), str(error))

    def take(self, job: str, plan: Plan | None) -> None:
        """Take up the newest plan of a job, which may be another host's; None if it has none any more."""
        self._later.pop(job, None)
        if plan is not None and plan.host == self._host:
            self._run(plan)
        elif (running := self._jobs.get(job)) is not None:
            running.folder.mark_stopped()
            running.stop()
        elif plan is None:
            self._publish_stopped(job)

    def follow_records(self, name: str) -> None:
        """Follow a job's new records, and publish its status if they change it."""
        job = self._jobs.get(name)
        if job is None or job.follower is None:
            return
        entry = job.follower.so_far.entry
        found: Sequence[Header] = ()
        with self._troubles(job):
            found = job.follower.follow()
        if any(header.cuts for header in found) or job.follower.so_far.entry != entry:
            self._publish_status(job)

    def follow_waiting(self) -> None:
        """Follow the records that waited for copies."""
        for name, job in list(self._jobs.items()):
            if job.follower is not None and job.follower.waits_for_copies:
                self.follow_records(name)

    def look(self) -> None:
        """Do what is due at every beat."""
        for job in list(self._jobs.values()):
            self._look_after(job)
        for name, plan in list(self._later.items()):
            self.attempt(name, partial(self._run, plan))
        self._consumers.slow.stop({name: job.health for name, job in self._jobs.items()}, self._clock.passed())
        if time.monotonic() - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            self._sweep()

    def end(self) -> None:
        """Stop all jobs, and wait until they have stopped."""
        for job in self._jobs.values():
            job.stop()
        while any(job.state not in _ENDED for job in self._jobs.values()):
            time.sleep(0.01)
            for job in self._jobs.values():
                with self._troubles(job):
                    job.look()

    def _look_after(self, job: SparkJob) -> None:
        over = False
        with self._troubles(job):
            job.look()
        if job.is_due:
            job.retry()
            self.attempt(job.name, partial(self._start_again, job))
        with self._troubles(job):
            if job.follower is not None:
                # There may be records that waited for the broker, or for room on a full disk.
                job.follower.follow()
                job.heal()
                job.follower.tidy()
        with self._troubles(job):
            self._consumers.tidy(job)
            job.forget_plans()
            over = job.is_over()
        with self._troubles(job):
            metrics = job_metrics(job, self._consumers.ends(job), self._clock.now())
            self._publisher.publish(topics.job(job.name, "metrics"), metrics, retain=False)
        self._publish_status(job)
        if over:
            # A user may remove dataflows all day long: with all of their jobs a beat would become long.
            del self._jobs[job.name]
            self._consumers.forget(job)

    def _sweep(self) -> None:
        try:
            sweep(self._root, self._host, stay={*self._jobs, *self._later}, now=self._clock.now())
        except OSError as error:
            log.warning("what is left of jobs that were stopped long ago stays for now: %s", error)

    def _run(self, plan: Plan) -> None:
        """Have a job run a plan, and start it if it does not run yet."""
        job = self._jobs.get(plan.job)
        if job is not None and (job.state in _ENDING or not job.is_started):
            # It is taken up once the job has ended, or with its next start.
            self._later[plan.job] = plan
            return
        if job is None or job.state is JobState.STOPPED:
            job = self._make(plan)
            if job is None:
                return
            try:
                self._start(job, plan)
            except BaseException:
                job.release()
                raise
            self._jobs[plan.job] = job
        elif job.plans.is_new(plan):
            self._admission.admit(job, plan)
        self._publish_status(job)

    def _make(self, plan: Plan) -> SparkJob | None:
        """Make the job of a plan; if that fails, the plan is tried later."""
        try:
            job = self._new_job(plan.job)
        except LeaseTaken as error:
            if plan.job not in self._later:
                with about(job=plan.job):
                    log.info("job %s waits: %s", plan.job, error)
            self._later[plan.job] = plan
            return None
        except DAMAGE as error:
            # There is no job yet that could report it.
            if plan.job not in self._later:
                log_damage(plan.job, error)
            self._later[plan.job] = plan
            status = {"job": plan.job, "host": self._host, "state": JobState.DIED, "trouble": str(error)}
            self._publisher.publish(topics.job(plan.job, "status"), {**status, "version": 0, "term": 0})
            return None
        self._later.pop(plan.job, None)
        return job

    def _start(self, job: SparkJob, plan: Plan | None) -> None:
        """Start a job, with a plan that may be new; if its files are damaged it counts as died, and is retried."""
        try:
            self._consumers.rejoin(job)
            if plan is not None and job.plans.is_new(plan):
                self._admission.admit(job, plan)
            job.folder.mark_running()
            job.start()
        except DAMAGE as error:
            log_damage(job.name, error)
            job.fail(str(error))
            if plan is not None:
                self._later[job.name] = plan
        else:
            self._later.pop(job.name, None)

    def _start_again(self, job: SparkJob) -> None:
        try:
            self._start(job, self._later.get(job.name))
        except BaseException as error:
            # A refused plan is not tried again, but the job's earlier plans are.
            self._later.pop(job.name, None)
            job.fail(str(error))
            if job.plans.plan is None:
                job.stop()
            raise

    @contextmanager
    def _troubles(self, job: SparkJob) -> Iterator[None]:
        """Report damage to one job's files in its status, so that it hurts no other; the next beat tries again."""
        try:
            yield
        except DAMAGE as error:
            if job.trouble != str(error):
                log_damage(job.name, error)
            job.trouble = str(error)

    def _publish_stopped(self, name: str) -> None:
        """Publish once more that a job was stopped long ago, because the manager asks for its end again."""
        folder = job_folder(self._root, name)
        if folder.is_stopped() and (plans := self._folders.plans(folder)):
            self._publisher.publish(topics.job(name, "status"), stopped_status(folder, plans[-1]))

    def _publish_status(self, job: SparkJob) -> None:
        self._publisher.publish(topics.job(job.name, "status"), job_status(job, self._host))
