"""The jobs of a host: it starts them, hands them plans, looks after them, reports on them and stops them.

Damage to the files of one job is reported in its status, and hurts no other. A job that cannot be started because of it
counts as died, and is retried after a while like a job whose query died.

A status is retained; the maker of plans finds in it what to await before the next. A plan that this host cannot run is
refused, and leaves nothing behind.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote

from bridge import LeaseTaken, topics
from bridge.traces import Attributes, span
from engine.behaviour import place_of
from engine.delivery.follower import Follower
from engine.host.consumers import HostConsumers, cut_streams, sweep
from engine.job.lifecycle import JobState
from engine.job.query import HostParts, SparkJob
from engine.kernel.worker import NoCut, check_imports
from engine.log_lines import about
from engine.plan import Plan
from engine.plan_messages import RefusedPlan
from engine.port_events import LookRequest
from engine.records.files import DAMAGE, Header
from engine.records.job_folder import JobFolder, job_folder
from engine.records.record import InstanceMeter
from engine.records.store import RecordStore


class HostPublisher(Protocol):
    """A publisher of a host's news; its connection."""

    def publish(self, topic: str, value: Mapping[str, Any], *, retain: bool = ...) -> None:
        """Publish a value; a retained one only if it differs from the last on its topic."""

    def refuse(self, topic: str, why: str) -> None:
        """Publish the reason that a request is refused."""


log = logging.getLogger("braid.host")


def _job_name(folder: JobFolder) -> str:
    return unquote(folder.path.name)


def _log_damage(job: str, error: Exception) -> None:
    """Log that files of a job are damaged, without a traceback: the error says where, and what to do."""
    with about(job=job):
        log.error("job %s: %s", job, error)


def _status(job: str, host: str, state: JobState, plan: Plan | None, trouble: str = "") -> dict[str, Any]:
    """The part of a status that every job has; `plan` is its latest."""
    version, term = (plan.version, plan.term) if plan else (0, 0)
    return {"job": job, "host": host, "state": state, "trouble": trouble, "version": version, "term": term}


def job_status(job: SparkJob, host: str) -> dict[str, Any]:
    """The status of a job."""
    trouble = job.trouble or (job.follower.forwarder.trouble if job.follower else "")
    status = _status(job.name, host, job.state, job.plans.plan, trouble) | {"back_off": job.back_off}
    try:
        return status | _progress(job)
    except DAMAGE as error:
        return status | {"trouble": trouble or str(error)}


def _progress(job: SparkJob) -> dict[str, Any]:
    if job.follower is None:
        return {}
    so_far = job.follower.so_far
    in_effect = job.folder.entry(so_far.entry).plan if so_far.entry else None
    return {
        "in_effect": in_effect.version if in_effect else 0,
        "batch": so_far.batch,
        "published": job.follower.first_unsent,
        "leaving": _leaving(job, job.follower),
        "handed_on": job.follower.first_not_handed_on(),
        "run": job.follower.run,
        "positions": dict(so_far.positions),
        "cuts": [cut._asdict() for cut in job.folder.cuts.all()],
        "given_up": sorted(job.keeper.given_up) if job.keeper else [],
        "unconfirmed": job.follower.forwarder.unconfirmed(),
        "failed": job.health.failed(),
    }


def _leaving(job: SparkJob, follower: Follower) -> int:
    """The oldest version of a plan whose outputs may still leave, even after a crash."""
    if job.state is JobState.STOPPED and job.plans.plan is not None and follower.has_left():
        return job.plans.plan.version + 1
    entry = follower.oldest_leaving_entry()
    return job.folder.entry(entry).plan.version if entry else 0


def stopped_status(folder: JobFolder, plan: Plan) -> dict[str, Any]:
    """The status of a job that was stopped, from its folder alone; `plan` is its latest."""
    store = RecordStore(folder.records)
    batches = store.batches()
    in_effect = folder.entry(store.file(batches[-1]).header.end.entry).plan.version if batches else 0
    cuts = [cut._asdict() for cut in folder.cuts.all()]
    # What had not left by then is not sent any more.
    progress = {"in_effect": in_effect, "batch": batches.stop - 1, "leaving": plan.version + 1, "cuts": cuts}
    return _status(plan.job, plan.host, JobState.STOPPED, plan) | progress


def job_metrics(job: SparkJob, ends: Mapping[str, int], now: float) -> dict[str, Any]:
    """The work of a job since it was started here, and its lag behind the ends of the spools that it reads."""
    if job.follower is None:
        none: dict[str, Any] = {"instances": {}, "streams": {}, "left": 0, "batch_seconds": {}}
        return none | {"batch": -1, "run": 0, "age": 0.0, "latency_seconds": {}, "outputs": {}}
    so_far = job.follower.so_far
    starts = job.plans.latest.starts if job.plans.latest else {}
    # The job has read nothing yet of a stream that its latest plan added.
    positions = {stream: max(so_far.positions.get(stream, 0), starts.get(stream, 0)) for stream in ends}
    lags = job.lag.note(ends, positions, now)
    latencies = job.follower.latencies.report(now)
    divided: dict[str, Any] = {"shards": dict(so_far.shards), "groups": dict(so_far.grouped)} if so_far.shards else {}
    return divided | {
        "batch": so_far.batch,
        "run": job.follower.run,
        "age": round(time.monotonic() - job.started_at, 1),
        "instances": {str(instance): _metered(meter) for instance, meter in sorted(so_far.meters.items())},
        "states": {str(instance): size for instance, size in so_far.sizes.items()},
        "streams": {
            stream: {"entered": so_far.entered.get(stream, 0), "lag_events": lag.events, "lag_seconds": lag.seconds}
            for stream, lag in lags.items()
        },
        "left": so_far.left,
        "batch_seconds": job.keeper.times.percentiles() if job.keeper else {},
        "latency_seconds": latencies.all,
        "outputs": latencies.outputs,
        "left_out": _left_out(job.follower),
    }


def _left_out(follower: Follower) -> dict[str, dict[str, Any]]:
    """For each dataflow and sink the events that its format or topic could not say."""
    by_dataflow: dict[str, dict[str, Any]] = {}
    for output, left_out in follower.left_out.items():
        by_dataflow.setdefault(output.dataflow, {})[output.sink] = asdict(left_out)
    return by_dataflow


def _metered(meter: InstanceMeter) -> dict[str, int]:
    # Written out, because it is called for every instance at every beat, and `asdict` copies what cannot change.
    return {"cpu_ns": meter.cpu_ns, "taken": meter.taken, "emitted": meter.emitted, "dead": meter.dead}


_ENDING = {JobState.STOPPING, JobState.CANCELLING, JobState.STUCK}
_ENDED = {JobState.STOPPED, JobState.STUCK}
SWEEP_SECONDS = 600.0
"""Seconds between two removals of what jobs left that were stopped long ago."""


class HostJobs:
    """The jobs of one host; called from its main thread."""

    def __init__(
        self,
        host: str,
        parts: HostParts,
        *,
        consumers: HostConsumers,
        publisher: HostPublisher,
        behaviours: Mapping[str, str],
    ) -> None:
        self._host = host
        self._parts = parts
        self._consumers = consumers
        self._publisher = publisher
        self._behaviours = behaviours
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
        """Run the jobs again that ran when the host ended; the streams that jobs may still read, None if unknown."""
        for folder, plans in self._folders_of_host():
            if not folder.is_stopped():
                self.attempt(plans[-1].job, partial(self._run, plans[-1]))
        # Jobs that do not run here any more must not hold up a spool.
        for folder, plans in self._folders_of_host():
            if folder.is_stopped():
                self.attempt(plans[-1].job, partial(self._consumers.leave, folder, plans))
        return self._needed_streams()

    def _folders(self) -> list[JobFolder]:
        return [JobFolder(path) for path in sorted((self._parts.root / "jobs").glob("*"))]

    def _folders_of_host(self) -> Iterator[tuple[JobFolder, list[Plan]]]:
        """The folders of this host's jobs, with their plans; a damaged one is logged and passed over."""
        for folder in self._folders():
            try:
                if plans := self._plans_in(folder):
                    yield folder, plans
            except DAMAGE as error:
                _log_damage(_job_name(folder), error)

    def _plans_in(self, folder: JobFolder) -> list[Plan]:
        """The plans of a job of this host; none if it is another's."""
        plans = [entry.plan for entry in folder.entries(1)]
        return plans if plans and plans[-1].host == self._host else []

    def _needed_streams(self) -> frozenset[str] | None:
        """The streams that jobs of any host may still read; None if some folder is damaged."""
        needed = set[str]()
        try:
            for folder in self._folders():
                needed |= cut_streams(folder)
                for entry in () if folder.is_stopped() else folder.entries(1):
                    needed |= entry.plan.streams
        except DAMAGE as error:
            log.warning("what the broker keeps for streams that nobody reads stays there: %s", error)
            return None
        return frozenset(needed)

    def release(self, cut: str) -> None:
        """Keep the states of a cut no longer, and have no job wait for it."""
        for folder in self._folders():
            self.attempt(_job_name(folder), partial(self._release, folder, cut))
        for job in self._jobs.values():
            if job.keeper is not None:
                job.keeper.pass_over(cut)

    def _release(self, folder: JobFolder, cut: str) -> None:
        is_over = folder.cuts.release(cut) and _job_name(folder) not in self._jobs and folder.is_stopped()
        if is_over and (plans := self._plans_in(folder)):
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
            seen: Attributes = {"braid.job": job, "braid.host": self._host, "braid.plan": plan.version}
            taking = span("take up plan", seen, parent=plan.trace, kind="consumer")
            with taking if plan.trace else nullcontext():
                self._run(plan)
        elif (running := self._jobs.get(job)) is not None:
            running.folder.mark_stopped()
            running.stop()
        elif plan is None and (
            (folder := job_folder(self._parts.root, job)).is_stopped() and (plans := self._plans_in(folder))
        ):
            # It was stopped long ago, and the manager asks for its end again.
            self._publisher.publish(topics.job(job, "status"), stopped_status(folder, plans[-1]))

    def follow_records(self, name: str) -> None:
        """Follow a job's new records, and publish its status if they change it."""
        job = self._jobs.get(name)
        if job is None or job.follower is None:
            return
        entry = job.follower.so_far.entry
        followed: Sequence[Header] = ()
        with self._troubles(job):
            followed = job.follower.follow()
        if any(header.cuts for header in followed) or job.follower.so_far.entry != entry:
            self._publish_status(job)

    def look_at(self, request: LookRequest) -> None:
        """Keep the newest events at the ports of an instance for a while, if its job runs here."""
        job = self._jobs.get(request.job)
        if job is not None and job.keeper is not None:
            job.keeper.looks.renew(request.instance, request.seconds)

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
        self._consumers.slow.stop({name: job.health for name, job in self._jobs.items()}, self._parts.clock.passed())
        if time.monotonic() - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            try:
                sweep(self._parts.root, self._host, stay={*self._jobs, *self._later}, now=self._parts.clock.now())
            except OSError as error:
                log.warning("what is left of jobs that were stopped long ago stays for now: %s", error)

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
        is_over = False
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
            # The streams that only those plans read are left by now.
            job.plans.forget(job.follower.oldest_recorded_entry() if job.follower else 0)
            if self._parts.nodes is not None and job.state is JobState.STOPPED and job.has_sent:
                self._parts.nodes.keep(job.name, {})
            is_over = job.is_over()
        with self._troubles(job):
            metrics = job_metrics(job, self._consumers.ends(job), self._parts.clock.now())
            self._publisher.publish(topics.job(job.name, "metrics"), metrics, retain=False)
            for seen in job.keeper.looks.news() if job.keeper is not None else ():
                self._publisher.publish(topics.job(job.name, "events"), asdict(seen), retain=False)
        self._publish_status(job)
        if is_over:
            # A user may remove dataflows all day long: with all of their jobs a beat would become long.
            del self._jobs[job.name]
            self._consumers.forget(job)

    def _run(self, plan: Plan) -> None:
        """Have a job run a plan, and start it if it does not run yet."""
        job = self._jobs.get(plan.job)
        if job is not None and (job.state in _ENDING or job.follower is None):
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
            self._admit(job, plan)
        self._publish_status(job)

    def _make(self, plan: Plan) -> SparkJob | None:
        """Make the job of a plan; if that fails, the plan is tried later."""
        try:
            job = SparkJob(plan.job, self._parts)
        except (LeaseTaken, *DAMAGE) as error:
            is_first = plan.job not in self._later
            self._later[plan.job] = plan
            if isinstance(error, LeaseTaken) and is_first:
                with about(job=plan.job):
                    log.info("job %s waits: %s", plan.job, error)
            elif not isinstance(error, LeaseTaken):
                if is_first:
                    _log_damage(plan.job, error)
                # There is no job yet that could report it.
                status = _status(plan.job, self._host, JobState.DIED, None, str(error))
                self._publisher.publish(topics.job(plan.job, "status"), status)
            return None
        self._later.pop(plan.job, None)
        return job

    def _start(self, job: SparkJob, plan: Plan | None) -> None:
        """Start a job, with a plan that may be new; if its files are damaged it counts as died, and is retried."""
        try:
            self._consumers.rejoin(job)
            if plan is not None and job.plans.is_new(plan):
                self._admit(job, plan)
            job.folder.mark_running()
            job.start()
        except DAMAGE as error:
            _log_damage(job.name, error)
            job.fail(str(error))
            if plan is not None:
                self._later[job.name] = plan
        else:
            self._later.pop(job.name, None)

    def _admit(self, job: SparkJob, plan: Plan) -> None:
        """Log a plan that is newer than the job's latest, and have its streams supplied."""
        before = job.streams()
        try:
            behaviours = self._behaviours_of(plan)
            self._check_imports(job, plan)
            job.log(plan, self._consumers.join(job, plan), behaviours)
        except BaseException:
            self._consumers.unjoin(job, plan.streams - before)
            raise
        # Others act upon it as soon as the job reports it: it began to read each stream where its entry says.
        self._parts.copies.settle()

    def _check_imports(self, job: SparkJob, plan: Plan) -> None:
        wanted = [state for state in plan.imports if state.job != job.name]
        if wanted != list(plan.imports):
            # Only the records say which instances left a moment ago.
            if job.follower is not None:
                job.follower.follow()
            here = {instance for entry in job.plans.in_effect() for instance in entry.plan.instances}
            wanted += [state for state in plan.imports if state.job == job.name and state.instance not in here]
        try:
            check_imports(self._parts.root, wanted)
        except NoCut as error:
            raise RefusedPlan(f"{error}; take the cut first") from error

    def _behaviours_of(self, plan: Plan) -> dict[str, str]:
        places = {}
        for name in sorted({slot.type for slot in plan.slots}):
            if (place := place_of(name, self._behaviours)) is None:
                raise RefusedPlan(
                    f"host {self._host!r} has no implementation of the task type {name!r}; install it there"
                )
            places[name] = place
        return places

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
                _log_damage(job.name, error)
            job.trouble = str(error)

    def _publish_status(self, job: SparkJob) -> None:
        self._publisher.publish(topics.job(job.name, "status"), job_status(job, self._host))
