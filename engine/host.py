"""The host: one Spark application that runs jobs, told over the broker what to run.

Plans come retained on each job's topic, so that a host that was away finds what it should run. Its main thread does one
thing at a time: it takes up messages, follows records, looks after jobs and spools, and publishes how things are.
"""

import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from bridge import (
    LeaseTaken,
    Message,
    PositionsGone,
    Receiver,
    SpoolDamaged,
    SpoolFull,
    SystemClock,
    Unread,
    topics,
)
from bridge.address import Address
from bridge.drops import Watch, watch_drops
from bridge.emitted import Stream
from bridge.mqtt import Client, spoken
from bridge.output import unread_letter
from bridge.sender import Sender, Trouble
from engine.consuming import Consuming
from engine.host_spools import HostSpools
from engine.job import Job
from engine.job_folder import JobFolder, job_folder
from engine.life import JobState
from engine.metering import Metering
from engine.pace_keeper import PaceServer
from engine.plan import Plan, RefusedPlan, read_cut, read_plan
from engine.record_file import Header, RecordDamaged
from engine.status import job_metrics, job_status
from engine.worker import NoCut, cut_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEAT = 1.0
"""Seconds between two looks at everything, and between two heartbeats."""
log = logging.getLogger("braid.host")


class Host:
    """One host; `run` until stopped."""

    def __init__(
        self, name: str, root: Path, address: Address, session: "SparkSession", *, behaviours: Mapping[str, str]
    ) -> None:
        self.name = name
        self._root = root
        self._address = address
        self._session = session
        self._behaviours = behaviours
        self._clock = SystemClock()
        self._news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopping = threading.Event()
        self._jobs: dict[str, Job] = {}
        self._told: dict[str, bytes] = {}
        self._later: dict[str, Plan] = {}
        """Plans whose jobs still end, here or on another host."""
        self._metering = Metering()
        self._dropped = 0
        """Messages that the broker said it dropped since this host began."""
        self._drops: Watch | None = None
        root.mkdir(parents=True, exist_ok=True)
        self._sockets = tempfile.TemporaryDirectory(prefix="braid-")
        # Not where an older process of this host had it: what that one left behind must not ask this one.
        self._pace = PaceServer(Path(self._sockets.name) / "pace")
        gone = json.dumps({"host": name, "alive": False}).encode()
        protocol = spoken(address)
        # Three clients, so that spools that are full hold up no plan, and a backlog that is sent no news.
        self._client = Client(
            address,
            f"braid-{name}-host",
            topics=[topics.job("+", "plan"), topics.host(name, "cut")],
            on_message=self._heard,
            will=(topics.host(name, "status"), gone),
            protocol=protocol,
        )
        self._sending = Client(
            address,
            f"braid-{name}-out",
            on_message=self._told_sender,
            on_connection=self._sender_reconnected,
            protocol=protocol,
        )
        self._feeding = Client(
            address,
            f"braid-{name}-in",
            on_message=self._told_receiver,
            on_connection=self._receiver_reconnected,
            on_disconnection=self._receiver_reconnected,
            protocol=protocol,
        )
        self._sender = Sender(
            self._sending, clock=self._clock.now, on_trouble=_warn_of, on_superseded=_warn_of_superseded
        )
        self._receiver = Receiver({}, self._feeding, on_unread=self._unread, clock=self._clock.now)
        self._spools = HostSpools(root, self._receiver, self._feeding, clock=self._clock, grown=self._grown)
        self._consuming = Consuming(root, self._spools)
        self._threads = [
            threading.Thread(target=work, name=work.__qualname__, daemon=True)
            for work in (self._sender.run, self._receiver.run)
        ]

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
        return any(job.state is JobState.STUCK for job in self._jobs.values())

    def stop(self) -> None:
        """Let `run` return; from any thread."""
        self._stopping.set()
        self._news.put(lambda: None)

    def _begin(self) -> None:
        for thread in self._threads:
            thread.start()
        for client in (self._sending, self._feeding):
            client.start()
        try:
            self._drops = watch_drops(self._address, self._count_drops)
        except ConnectionError as error:
            log.warning("whether the broker drops messages stays unknown: %s", error)
        self._resume()
        # What the broker still keeps for streams that nobody here reads any more.
        self._feeding.unsubscribe(self._receiver.settle())
        # Last, so that plans meet the jobs that run already.
        self._client.start()

    def _count_drops(self, count: int) -> None:
        self._dropped += count
        log.error("the broker dropped %d messages that it had accepted; raise its limits on queues", count)

    def _resume(self) -> None:
        """Run the jobs again that ran when the host ended, however it ended."""
        for folder in self._folders():
            plans = [entry.plan for entry in folder.entries(1)]
            if plans and plans[-1].host == self.name and not folder.is_stopped():
                self._attempt(plans[-1].job, partial(self._follow, plans[-1]))
        self._leave_stopped()

    def _leave_stopped(self) -> None:
        """Let jobs that do not run here any more hold up no spool."""
        for folder in self._folders():
            plans = [entry.plan for entry in folder.entries(1)]
            if plans and plans[-1].host == self.name and plans[-1].job not in self._jobs and folder.is_stopped():
                self._consuming.leave(folder, plans)

    def _folders(self) -> list[JobFolder]:
        return [JobFolder(path) for path in sorted((self._root / "jobs").glob("*"))]

    def _end(self) -> None:
        for job in self._jobs.values():
            job.stop()
        while any(job.state not in {JobState.STOPPED, JobState.STUCK} for job in self._jobs.values()):
            time.sleep(0.01)
            for job in self._jobs.values():
                job.look()
        self._sender.stop()
        self._receiver.stop()
        for thread in self._threads:
            thread.join()
        # After the receiver, so that none of what still comes is taken for unwanted.
        self._spools.close()
        self._publish(topics.host(self.name, "status"), {"host": self.name, "alive": False})
        if self._drops is not None:
            self._drops.stop()
        for client in (self._client, self._sending, self._feeding):
            client.stop()
        self._pace.close()
        self._sockets.cleanup()

    def _heard(self, message: Message) -> None:
        self._news.put(lambda: self._take(message))

    # Callbacks rather than bound methods, because each client is made before what it tells.
    def _told_sender(self, message: Message) -> None:
        self._sender.deliver(message)

    def _sender_reconnected(self) -> None:
        self._sender.reconnected()

    def _told_receiver(self, message: Message) -> None:
        self._receiver.deliver(message)

    def _receiver_reconnected(self) -> None:
        self._receiver.reconnected()

    def _grown(self, stream: str) -> None:
        for job in list(self._jobs.values()):
            if job.plan is not None and stream in job.plan.streams:
                job.wake()

    def _unread(self, unread: Unread) -> None:
        self._client.publish(topics.unread(unread.topic), unread_letter(unread))

    def _take(self, message: Message) -> None:
        """Take up one control message; a wrong one is answered in the job's status, and done with."""
        kind = message.topic.rsplit("/", 1)[-1]
        if kind == "plan":
            self._take_plan(message)
        elif kind == "cut":
            self._take_cut(message)
        self._client.acknowledge([message.token])

    def _take_plan(self, message: Message) -> None:
        name = message.topic.split("/")[-2]
        job = self._jobs.get(name)
        self._later.pop(name, None)
        if not message.payload:
            self._stop_job(job)
            return

        def take() -> None:
            plan = read_plan(message.payload)
            if plan.job != name:
                raise RefusedPlan(
                    f"the plan is for job {plan.job!r} and came on the topic of {name!r}; send it on its own"
                )
            if plan.host == self.name:
                self._follow(plan)
            else:
                self._stop_job(job)

        self._attempt(name, take)

    def _attempt(self, job: str, act: Callable[[], None]) -> None:
        """Do something for a job; what cannot be done is said, and hurts nobody else."""
        try:
            act()
        except (RefusedPlan, LeaseTaken, SpoolDamaged, RecordDamaged, PositionsGone) as error:
            log.warning("job %s: %s", job, error)
            self._publish(topics.job(job, "refused"), {"host": self.name, "why": str(error)}, retain=False)

    def _stop_job(self, job: Job | None) -> None:
        if job is not None:
            job.folder.say_stopped()
            job.stop()

    def _follow(self, plan: Plan) -> None:
        """Make a job execute a plan, and begin it where it does not run yet."""
        job = self._jobs.get(plan.job)
        if job is not None and job.state in {JobState.STOPPING, JobState.CANCELLING, JobState.STUCK}:
            self._later[plan.job] = plan
            return
        if job is None or job.state is JobState.STOPPED:
            try:
                job = Job(plan.job, self._root, self._session, self._pace, self._sender, asked=self._batch_done)
            except LeaseTaken as error:
                if plan.job not in self._later:
                    log.info("job %s waits: %s", plan.job, error)
                self._later[plan.job] = plan
                return
            self._later.pop(plan.job, None)
            try:
                self._consuming.rejoin(job)
                if job.is_news(plan):
                    self._log(job, plan)
                job.folder.say_running()
                job.start()
            except BaseException:
                job.give_up()
                raise
            self._jobs[plan.job] = job
        elif job.is_news(plan):
            self._log(job, plan)
        self._tell(job)

    def _log(self, job: Job, plan: Plan) -> None:
        before = job.streams()
        try:
            self._log_checked(job, plan)
        except BaseException:
            # A plan that is refused leaves nothing behind.
            self._consuming.unjoin(job, plan.streams - before)
            raise

    def _log_checked(self, job: Job, plan: Plan) -> None:
        behaviours = self._found(plan)
        for each in plan.imports:
            try:
                cut_batch(job_folder(self._root, each.job), each)
            except NoCut as error:
                raise RefusedPlan(f"{error}; take the cut first") from error
        job.log(plan, self._consuming.join(job, plan), behaviours)

    def _found(self, plan: Plan) -> dict[str, str]:
        types = {slot.type for slot in plan.slots}
        if missing := sorted(types - self._behaviours.keys()):
            raise RefusedPlan(
                f"host {self.name!r} has no implementation of the task type {missing[0]!r}; install it there"
            )
        return {name: self._behaviours[name] for name in sorted(types)}

    def _batch_done(self, job: str) -> None:
        """Called when Spark asks for a job's next batch: whatever came before is recorded."""
        self._news.put(lambda: self._follow_records(job))

    def _follow_records(self, name: str) -> None:
        job = self._jobs.get(name)
        if job is None or job.follower is None:
            return
        entry = job.follower.told.entry
        found: Sequence[Header] = ()
        with self._troubles(job):
            found = job.follow(self._clock.now())
        if any(header.cuts for header in found) or job.follower.told.entry != entry:
            self._tell(job)

    @contextmanager
    def _troubles(self, job: Job) -> Iterator[None]:
        """What is wrong with one job's files is told in its status, and hurts no other; it is tried again at a beat."""
        try:
            yield
        except (RecordDamaged, SpoolDamaged, PositionsGone, OSError) as error:
            if job.trouble != str(error):
                log.error("job %s: %s", job.name, error)  # noqa: TRY400 - it says where and what to do
            job.trouble = str(error)

    def _take_cut(self, message: Message) -> None:
        try:
            wish = read_cut(message.payload)
            if wish.release:
                for folder in self._folders():
                    folder.release_cut(wish.cut)
                self._leave_stopped()
            else:
                self._spools.mark(wish.cut, wish.streams)
        except (RefusedPlan, SpoolFull) as error:
            log.warning("cut: %s", error)
            self._publish(topics.host(self.name, "refused"), {"host": self.name, "why": str(error)}, retain=False)

    def _look(self) -> None:
        """What is due at every beat."""
        for job in list(self._jobs.values()):
            job.look()
            if job.state is JobState.STUCK:
                self._stopping.set()
            with self._troubles(job):
                # What was left waiting for the broker, or for a full disk to have room again.
                job.follow(self._clock.now())
                job.heal(self._clock.now())
                if job.follower is not None:
                    job.follower.tidy()
                self._consuming.tidy(job)
            self._publish(topics.job(job.name, "metrics"), job_metrics(job), retain=False)
            self._tell(job)
        for name, plan in list(self._later.items()):
            self._attempt(name, partial(self._follow, plan))
        self._spools.look()
        self._publish(
            topics.host(self.name, "status"),
            {
                "host": self.name,
                "alive": True,
                "jobs": sorted(name for name, job in self._jobs.items() if job.state is not JobState.STOPPED),
                "spools": self._spools.states(),
                "dropped": self._dropped,
                "cpu": self._metering.cpu(),
            },
        )

    def _tell(self, job: Job) -> None:
        self._publish(topics.job(job.name, "status"), job_status(job, self.name))

    def _publish(self, topic: str, told: Mapping[str, Any], *, retain: bool = True) -> None:
        """Publish something; what is retained only if it is news."""
        payload = json.dumps(told, sort_keys=True).encode()
        if not retain or self._told.get(topic) != payload:
            self._told[topic] = payload
            self._client.publish(topic, payload, retain=retain)


def _warn_of(trouble: Trouble) -> None:
    log.warning("topic %s: %s", trouble.topic, trouble.reason)


def _warn_of_superseded(stream: Stream, epoch: int) -> None:
    log.warning("%s of %d is forwarded in epoch %d now, so not from here", stream.port, stream.instance, epoch)
