"""The jobs of a host: with damaged files each reports its own trouble, is retried, and hurts no other."""

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql.datasource import DataSource

from bridge import Item, Lease, LeaseTaken, Spool, commit, consumers, topics
from bridge.files import write_whole
from bridge.machine import BackOff
from bridge.spools.log import LOG
from dags import Kind
from engine.host import jobs
from engine.host.consumers import KEEPING, HostConsumers
from engine.host.jobs import HostJobs
from engine.host.spools import HostSpools
from engine.job import pace_keeper, query
from engine.job.pace import ReadableSpool
from engine.job.pace_server import PaceServer
from engine.job.query import HostParts
from engine.offset import Offset
from engine.plan import Ingress, Plan, StateImport, Subscribed
from engine.records.files import written_record
from engine.records.job_folder import JobFolder, KeptCut, job_folder, spool_folder
from engine.records.record import Cut, Record
from engine.records.state import InstanceStates as State
from engine.records.store import RecordStore
from engine.replicas.copies import NO_COPIES, Copies, CopiesEnded
from tests.engine.follower_scene import LateCopies, Sender
from tests.engine.host.test_spools import Broker, filled
from tests.engine.job.memory_records import MemoryRecords
from tests.twins.memory_clock import MemoryClock

BOUND = 20.0
LONG = 3_600.0
"""Seconds that no test waits for."""


class Session:
    """A session whose queries do nothing; any attribute and any call gives the session itself."""

    isActive = True  # noqa: N815 - a query's name for it

    def __init__(self) -> None:
        self.noted: list[str] = []
        """The sources that are registered and read, in order."""

    def register(self, source: type[DataSource]) -> None:
        self.noted.append(f"register {source.name()}")

    def format(self, name: str) -> "Session":
        self.noted.append(f"use {name}")
        return self

    def __getattr__(self, _name: str) -> "Session":
        return self

    def __call__(self, *_arguments: object, **_more: object) -> "Session":
        return self


class Publisher:
    """Notes the last value of each topic, and the refusals."""

    def __init__(self) -> None:
        self.published: dict[str, Mapping[str, Any]] = {}
        self.refused: list[str] = []

    def publish(self, topic: str, value: Mapping[str, Any], *, retain: bool = True) -> None:  # noqa: ARG002 - a connection's signature
        self.published[topic] = json.loads(json.dumps(value))

    def refuse(self, _topic: str, why: str) -> None:
        self.refused.append(why)


class Made:
    """The jobs of a host, over real files and nothing else."""

    def __init__(self, root: Path, sockets: Path) -> None:
        self.root = root
        self.sockets = sockets
        self.begin()

    def begin(self, copies: Copies = NO_COPIES) -> None:
        self.publisher = Publisher()
        self.session = Session()
        self.pace = PaceServer(self.sockets / "pace")
        self.spools = HostSpools(
            self.root, Broker(), clock=MemoryClock(), on_growth=lambda _stream, _marked: None, due=self.pace.due
        )
        parts = HostParts(
            root=self.root,
            session=cast("Any", self.session),
            pace=self.pace,
            sender=Sender(),
            clock=MemoryClock(),
            on_record=lambda _job: None,
            owned_spool=self.spools.owned,
            copies=copies,
        )
        consumers = HostConsumers(self.root, self.spools)
        self.jobs = HostJobs("h", parts, consumers=consumers, publisher=self.publisher, behaviours={})

    def end(self) -> None:
        for each in self.jobs._jobs.values():
            each.stop()
        self.jobs.end()
        self.spools.close()
        self.pace.close()

    def again(self) -> None:
        """End it, and begin again like the next process of the same host."""
        self.end()
        self.begin()

    def take(self, plan: Plan) -> None:
        self.jobs.attempt(plan.job, lambda: self.jobs.take(plan.job, plan))

    def status(self, name: str) -> Mapping[str, Any]:
        return self.publisher.published[topics.job(name, "status")]

    def states(self) -> dict[str, str]:
        return {name: self.status(name)["state"] for name in ("a", "b")}


@pytest.fixture
def made(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    monkeypatch.setattr(query, "_BACK_OFF", BackOff((0.0, 0.0, 60.0)))
    # No query has a long batch here.
    monkeypatch.setattr(query, "_ENDING", 0.0)
    host = Made(tmp_path, tmp_path_factory.mktemp("s"))
    yield host
    host.end()


def plan(name: str, version: int = 1) -> Plan:
    ingress = Ingress(
        stream=f"raw/{name}", instance=ord(name), supply=Subscribed(topic=name, fields={"n": Kind.INTEGER})
    )
    return Plan(job=name, host="h", version=version, ingress=(ingress,))


def torn_record(root: Path) -> Path:
    folder = job_folder(root, "a")
    path = folder.records / f"{0:020d}"
    record = State().settle(Record(batch=0, start=Offset(), end=Offset(entry=1)))
    path.write_bytes(written_record(record))
    return path


def torn_progress(root: Path) -> Path:
    path = job_folder(root, "a").path / "published"
    path.write_bytes(json.dumps({"batch": 0, "opened": [], "closing": []}).encode())
    return path


def torn_cut(root: Path) -> Path:
    path = job_folder(root, "a").cuts.path / f"c.{0:020d}"
    path.write_bytes(b'{"instances": [], "positions": {}}')
    return path


def torn_consumer(root: Path) -> Path:
    (path,) = (spool_folder(root, "raw/a") / "consumers").glob("*.position")
    return path


def torn_plans(root: Path) -> Path:
    return job_folder(root, "a").plans / f"{1:08d}"


TEARS = {
    "record": torn_record,
    "progress": torn_progress,
    "consumer": torn_consumer,
}


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_a_job_that_cannot_be_started_counts_as_died_and_is_retried(made: Made, tear: Callable[[Path], Path]) -> None:
    """Its status names the file and the other job runs; once the file is mended this job runs too."""
    for name in ("a", "b"):
        made.take(plan(name))
    path = tear(made.root)
    whole = path.read_bytes()
    made.again()
    path.write_bytes(b"torn")
    made.jobs.resume()
    assert {"a": "died", "b": "running"} == made.states()
    assert path.name in made.status("a")["trouble"]
    made.jobs.look()
    assert {"a": "died", "b": "running"} == made.states()
    assert path.name in made.status("a")["trouble"]
    path.write_bytes(whole)
    made.jobs._jobs["a"]._deaths = 1
    made.jobs.look()
    assert {"a": "running", "b": "running"} == made.states()


def test_a_job_whose_folder_another_process_holds_waits_until_it_is_free(made: Made) -> None:
    """A host that seemed dead may still run it, so nothing of it is published, written or read; its plan is kept."""
    held = Lease(job_folder(made.root, "a").path)
    made.take(plan("a"))
    made.take(plan("b"))
    made.jobs.look()
    assert {topics.job("b", "status"), topics.job("b", "metrics")} == made.publisher.published.keys()
    assert not job_folder(made.root, "a").entries(1)
    held.release()
    made.jobs.look()
    assert 1 == made.status("a")["version"]
    with pytest.raises(LeaseTaken, match="belongs to a process that still runs"):
        Lease(job_folder(made.root, "a").path)


def test_no_two_queries_share_what_spark_writes_to(made: Made) -> None:
    """Each query reads a source that was registered for it alone, even if its job was started before."""
    for name in ("a", "b"):
        made.take(plan(name))
    assert ["register braid", "use braid", "use noop"] * 2 == made.session.noted
    made.again()
    made.jobs.resume()
    assert ["register braid", "use braid", "use noop"] * 2 == made.session.noted


def test_the_metrics_of_a_job_are_published_at_a_look(made: Made) -> None:
    """They hold its lag, even if another host fills the spool, and its run; a dead job's status has its back-off."""
    filled(made.root, "raw/a", 2)
    made.take(plan("a"))
    filled(made.root, "raw/b", 3)
    made.take(replace(plan("b"), ingress=(replace(plan("b").ingress[0], start=1),)))
    other = Spool(spool_folder(made.root, "raw/c"), most_bytes=1_000)
    made.take(plan("c"))
    other.append([Item(count=4, stamp=0, payload=b"")])
    made.jobs.look()
    metrics = [made.publisher.published[topics.job(name, "metrics")] for name in "abc"]
    other.close()
    assert [0, 2, 4] == [
        each["streams"][f"raw/{name}"]["lag_events"] for name, each in zip("abc", metrics, strict=True)
    ]
    assert [(1, 0, {}, {})] * 3 == [
        (each["run"], each["left"], each["instances"], each["batch_seconds"]) for each in metrics
    ]
    assert [None, 1] == [made.status("a")["back_off"], made.status("a")["run"]]
    torn_progress(made.root).write_bytes(b"torn")
    made.again()
    made.jobs.resume()
    assert 0.0 == made.status("a")["back_off"]


def test_a_job_that_cannot_be_started_waits_longer_each_time(made: Made) -> None:
    """Otherwise a damaged file would be read at every beat."""
    made.take(plan("a"))
    torn_progress(made.root).write_bytes(b"torn")
    made.again()
    made.jobs.resume()
    begun = []
    for _ in range(4):
        made.jobs.look()
        begun.append(made.jobs._jobs["a"]._deaths)
    assert [2, 3, 3, 3] == begun


def test_a_plan_for_a_job_that_cannot_be_started_is_taken_up_by_its_next_start(made: Made) -> None:
    """It does not have to be sent again."""
    made.take(plan("a"))
    path = torn_progress(made.root)
    whole = path.read_bytes()
    made.again()
    path.write_bytes(b"torn")
    made.jobs.resume()
    made.take(plan("a", version=2))
    assert 1 == made.status("a")["version"]
    path.write_bytes(whole)
    made.jobs.look()
    assert ("running", 2) == (made.status("a")["state"], made.status("a")["version"])
    assert [] == made.publisher.refused


def test_a_new_job_whose_spool_is_damaged_counts_as_died_until_it_is_mended(made: Made) -> None:
    """It joins the stream once it can be read."""
    filled(made.root, "raw/a", 2)
    path = max((spool_folder(made.root, "raw/a") / LOG).glob("0*"))
    whole = path.read_bytes()
    path.write_bytes(b"")
    made.take(plan("a"))
    made.take(plan("b"))
    assert {"a": "died", "b": "running"} == made.states()
    assert path.name in made.status("a")["trouble"]
    path.write_bytes(whole)
    made.jobs.look()
    assert {"a": "running", "b": "running"} == made.states()
    assert {"raw/a": 2} == made.jobs._jobs["a"].plans.entries[0].starts


def test_a_damaged_log_of_plans_ends_no_host(made: Made) -> None:
    """Other jobs go on; a new plan reports the damage, and runs once that is mended."""
    for name in ("a", "b"):
        made.take(plan(name))
    path = torn_plans(made.root)
    whole = path.read_bytes()
    made.again()
    path.write_bytes(b"torn")
    assert made.jobs.resume() is None
    assert ["b"] == made.jobs.running
    made.take(plan("a"))
    assert ("died", True) == (made.status("a")["state"], path.name in made.status("a")["trouble"])
    path.write_bytes(whole)
    made.jobs.look()
    assert {"a": "running", "b": "running"} == made.states()


def test_damage_that_is_found_at_a_look_is_reported_and_hurts_no_other(made: Made) -> None:
    """The job runs on and reports its trouble, and the next job is looked after all the same."""
    for name in ("a", "b"):
        made.take(plan(name))
    torn_cut(made.root).write_bytes(b"torn")
    made.publisher.published.clear()
    made.jobs.look()
    assert {"a": "running", "b": "running"} == made.states()
    assert "cannot be read" in made.status("a")["trouble"]
    assert "" == made.status("b")["trouble"]


def test_a_job_that_died_can_be_stopped(made: Made) -> None:
    """Once it is mended it may be started elsewhere."""
    made.take(plan("a"))
    torn_progress(made.root).write_bytes(b"torn")
    made.again()
    made.jobs.resume()
    made.jobs.take("a", None)
    made.jobs.look()
    assert "stopped" == made.status("a")["state"]
    assert JobFolder(job_folder(made.root, "a").path).is_stopped()
    made.jobs.look()
    assert "stopped" == made.status("a")["state"]


def test_plans_that_no_batch_runs_again_are_forgotten(made: Made) -> None:
    """The plan that a record begins with stays; no spool waits for a job that has no plan left that reads it."""
    made.take(plan("a"))
    (first,) = plan("a").ingress
    second = replace(first, stream="raw/b", instance=1, supply=Subscribed(topic="b", fields={"n": Kind.INTEGER}))
    for version in range(2, 12):
        made.take(replace(plan("a", version), ingress=(first if version < 4 else second,)))
    folder, consumers = job_folder(made.root, "a"), spool_folder(made.root, "raw/a") / "consumers"
    store, state, end, oldest = RecordStore(folder.records), State(), Offset(), 0
    for batch in range(11):
        begin, end = end, Offset(entry=batch + 1)
        write_whole(
            folder.records / f"{batch:020d}", written_record(state.settle(Record(batch=batch, start=begin, end=end)))
        )
        made.jobs.look()
        oldest = max(1, store.file(store.batches()[0]).header.start.entry)
        assert list(range(oldest, 12)) == [entry.number for entry in folder.entries(1)]
        assert oldest < 4 or not list(consumers.glob("*.position"))
    assert oldest > 4
    made.again()
    made.jobs.resume()
    made.jobs.look()
    assert ("running", 11) == (made.status("a")["state"], made.status("a")["in_effect"])
    made.take(replace(plan("a", 12), ingress=(second,)))
    assert [entry.number for entry in made.jobs._jobs["a"].plans.entries] == list(range(oldest, 13))


def ended(made: Made, name: str) -> None:
    """Stop a job, and look until it has stopped."""
    made.jobs.take(name, None)
    for _ in range(1000):
        made.jobs.look()
        if made.status(name)["state"] == "stopped":
            return
    raise AssertionError(f"job {name} does not stop")


def test_a_job_that_is_stopped_between_two_looks_leaves_its_streams(made: Made) -> None:
    """However short it ran, its spool has no consumer afterwards, and no supply."""
    made.take(plan("a"))
    consumers = spool_folder(made.root, "raw/a") / "consumers"
    assert ["a.position"] == [path.name for path in consumers.glob("*.position")]
    ended(made, "a")
    made.jobs.look()
    assert [] == list(consumers.glob("*.position"))
    assert {} == made.spools.states()


def test_a_job_that_is_over_costs_no_beat(made: Made) -> None:
    """It is not looked at any more; when it is started again its run numbers go on."""
    for name in ("a", "b"):
        made.take(plan(name))
    ended(made, "a")
    made.publisher.published.clear()
    made.jobs.look()
    assert {topics.job("b", what) for what in ("status", "metrics")} == made.publisher.published.keys()
    made.take(plan("a", 2))
    made.jobs.look()
    assert ("running", 2) == (made.status("a")["state"], made.status("a")["run"])


def test_the_end_of_a_job_is_published_again_on_request(made: Made) -> None:
    """A broker may have lost it, and the manager would wait for ever; nothing is published of another host's job."""
    made.take(plan("a"))
    made.take(plan("a", 2))
    torn_record(made.root)
    made.jobs.follow_records("a")
    ended(made, "a")
    first = made.status("a")
    for restarts in (False, True):
        if restarts:
            made.again()
        made.publisher.published.clear()
        made.jobs.take("a", None)
        made.jobs.take("b", None)
        assert {topics.job("a", "status")} == made.publisher.published.keys()
        assert made.status("a").items() <= first.items()
        assert ("stopped", 2, 1, 0) == tuple(
            made.status("a")[each] for each in ("state", "version", "in_effect", "batch")
        )
    folder = job_folder(made.root, "a")
    folder.log(replace(folder.entries(1)[-1], number=3, plan=replace(plan("a", 3), host="other")))
    made.publisher.published.clear()
    made.jobs.take("a", None)
    assert {} == made.publisher.published


@pytest.mark.parametrize("restarts", [False, True])
def test_a_job_that_is_stopped_holds_its_spools_until_its_cuts_are_released(made: Made, *, restarts: bool) -> None:
    """So the job that takes its states over finds the events behind them, even if the host was started again."""
    made.take(plan("a"))
    folder, consumers = job_folder(made.root, "a"), spool_folder(made.root, "raw/a") / "consumers"
    folder.cuts.keep(KeptCut("c", 0, (ord("a"),), {"raw/a": 0}))
    ended(made, "a")
    if restarts:
        made.again()
        made.jobs.resume()
    for _ in range(3):
        made.jobs.look()
    assert ["a.position"] == [path.name for path in consumers.glob("*.position")]
    made.jobs.release("c")
    made.jobs.look()
    assert [] == list(consumers.glob("*.position"))
    made.publisher.published.clear()
    made.jobs.look()
    assert {} == made.publisher.published


def test_the_folder_of_a_job_is_removed_long_after_it_was_stopped(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a running job is not; a job of that name begins anew."""
    monkeypatch.setattr(jobs, "SWEEP_SECONDS", 0.0)
    for name in ("a", "b"):
        made.take(plan(name))
    ended(made, "a")
    for name in ("a", "b"):
        (job_folder(made.root, name).path / "stopped").touch()
        os.utime(job_folder(made.root, name).path / "stopped", (-KEEPING - 1, -KEEPING - 1))
    made.jobs.look()
    assert ["b"] == [path.name for path in (made.root / "jobs").iterdir()]
    made.take(plan("a"))
    made.jobs.look()
    assert {"a": "running", "b": "running"} == made.states()
    assert 1 == made.status("a")["run"]


def test_a_job_may_begin_at_a_moment_that_its_spool_still_holds(made: Made) -> None:
    """The spool holds what another job still needs; a later plan does not move the beginning."""
    made.take(plan("a"))
    spool = made.spools._supplies["raw/a"].spool
    assert spool is not None
    for position in range(6):
        spool.append([Item(count=1, stamp=1000 * position, payload=b"x")])
    commit(spool.folder, "a", 2)
    spool.prune()
    (ingress,) = plan("a").ingress
    for name, since, start in (("b", 0.0, 2), ("c", 2.5, 3), ("d", 5.0, 5), ("e", 6.0, 6), ("f", None, 6)):
        begun = replace(plan(name), ingress=(replace(ingress, since=since),))
        made.take(begun)
        made.take(replace(begun, version=2))
        assert [start, start] == [entry.starts["raw/a"] for entry in job_folder(made.root, name).entries(1)], (
            f"since {since}"
        )
        assert start >= consumers(spool.folder)[name]
    new = replace(plan("g"), ingress=(replace(plan("g").ingress[0], since=0.0),))
    made.take(new)
    assert [0] == [entry.starts["raw/g"] for entry in job_folder(made.root, "g").entries(1)]


def test_a_resumed_host_returns_the_streams_that_may_still_be_read(made: Made) -> None:
    """So the broker keeps messages for them, and for no others."""
    for name in ("a", "b"):
        made.take(plan(name))
    made.jobs.take("b", None)
    made.jobs.look()
    made.again()
    assert frozenset({"raw/a"}) == made.jobs.resume()


def test_an_instance_that_returns_and_never_left_needs_no_cut(made: Made) -> None:
    """The plan is right whether or not the job has come to the cut; an unknown instance is refused."""
    made.take(plan("a"))
    made.take(replace(plan("a", 2), ingress=(), at_cut="m"))
    back = replace(plan("a", 3), imports=(StateImport(instance=ord("a"), job="a", cut="m"),))
    unknown = replace(plan("a", 3), imports=(StateImport(instance=7, job="a", cut="m"),))
    made.take(unknown)
    assert 2 == made.status("a")["version"]
    made.take(back)
    assert 3 == made.status("a")["version"]
    assert ["job 'a' keeps no state of instance 7 at the cut 'm'; take the cut first"] == made.publisher.refused


@pytest.mark.parametrize("marked", [True, False])
def test_events_wake_a_job_whose_next_plan_reads_them_no_longer(
    made: Made, monkeypatch: pytest.MonkeyPatch, *, marked: bool
) -> None:
    """Until the cut at which that plan takes effect the job reads on, and no slower than before."""
    monkeypatch.setattr(pace_keeper, "_POLL_SECONDS", LONG)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", LONG)
    made.take(plan("a"))
    made.take(replace(plan("a", 2), ingress=(), at_cut="m"))
    running = made.jobs._jobs["a"]
    assert running.keeper is not None
    records = MemoryRecords.under(running.keeper)
    records.run(running.keeper)
    looked, look = threading.Event(), running.spools.readable

    def looking(streams: Sequence[str]) -> Mapping[str, ReadableSpool]:
        looked.set()
        return look(streams)

    monkeypatch.setattr(running.spools, "readable", looking)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(records.run, running.keeper)
        try:
            assert looked.wait(BOUND)
            made.spools.mark("m", ["raw/a"])
            made.pace.note_growth("raw/b", marked=True)
            made.pace.note_growth("raw/a", marked=marked)
            end = answer.result(BOUND)
            assert end is not None
            assert {"m": ("raw/a",)} == end.cuts
        finally:
            running.keeper.stop()


def test_a_query_that_waits_for_an_answer_is_alive(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM is asked only if nothing waits for an epoch or was recorded; a query that died is started again."""
    made.take(plan("a"))
    keeper = made.jobs._jobs["a"].keeper
    assert keeper is not None
    records = MemoryRecords.under(keeper)
    records.run(keeper)
    # What has just recorded a batch is alive, too.
    made.jobs.look()
    monkeypatch.setattr(made.session, "isActive", False)
    looked, look = threading.Event(), made.jobs._jobs["a"].spools.readable

    def looking(streams: Sequence[str]) -> Mapping[str, ReadableSpool]:
        looked.set()
        return look(streams)

    monkeypatch.setattr(made.jobs._jobs["a"].spools, "readable", looking)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(records.run, keeper)
        try:
            assert looked.wait(BOUND)
            made.jobs.look()
            assert 1 == made.status("a")["run"]
        finally:
            keeper.stop()
        assert answer.result(BOUND) is None
    made.jobs.look()
    assert 2 == made.status("a")["run"]


def test_a_job_reports_a_cut_that_it_gave_up_until_it_is_released(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan that waited for the cut goes on waiting, and does not hold up the next plan."""
    # At the first look.
    monkeypatch.setattr(pace_keeper, "ALIGNING", -1.0)
    monkeypatch.setattr(pace_keeper, "_PATIENCE", 0.0)
    filled(made.root, "raw/a", 1)
    other = Ingress(stream="raw/o", instance=2, supply=Subscribed(topic="o", fields={"n": Kind.INTEGER}))
    both = replace(plan("a"), ingress=(*plan("a").ingress, other))
    made.take(both)
    made.take(replace(both, version=2, ingress=(), at_cut="m"))
    keeper = made.jobs._jobs["a"].keeper
    assert keeper is not None
    records = MemoryRecords.under(keeper)
    records.run(keeper)
    made.spools.mark("m", ["raw/a"])
    held = records.run(keeper)
    assert held is not None
    # Everything that the plan changes waits, so both of its parts do.
    assert ({"raw/a": "m"}, 1) == (held.held, held.entry)
    records.run(keeper)
    made.jobs.look()
    assert ["m"] == made.status("a")["given_up"]
    made.take(replace(both, version=3))
    following = records.run(keeper)
    assert following is not None
    assert {"raw/a": held.at["raw/a"], "raw/o": 0} == following.at
    made.jobs.release("m")
    made.jobs.look()
    assert [] == made.status("a")["given_up"]


def test_a_cut_that_is_released_before_its_record_is_followed_is_not_kept(made: Made) -> None:
    """It would not be released again, and its streams would be kept for ever."""
    made.take(plan("a"))
    made.jobs.release("m")
    cuts = tuple(Cut(name=name, instances=(ord("a"),), positions={"raw/a": 1}) for name in ("m", "n"))
    record = Record(batch=0, start=Offset(), end=Offset(run=1, entry=1, at={"raw/a": 1}), cuts=cuts)
    path = job_folder(made.root, "a").records / f"{0:020d}"
    path.write_bytes(written_record(State().settle(record)))
    made.jobs.follow_records("a")
    assert ["n"] == [each["name"] for each in made.status("a")["cuts"]]


def test_a_run_and_a_plan_are_at_all_peers_before_anybody_acts_upon_them(made: Made) -> None:
    """The number of a run is the job's own; a plan is waited for with all that it changed elsewhere."""
    made.end()
    copies = LateCopies()
    made.begin(copies)
    made.take(plan("a"))
    assert [(), (job_folder(made.root, "a").path,)] == copies.waited
    made.take(plan("a", 2))
    assert () == copies.waited[-1]
    assert {"a": 2} == {"a": made.status("a")["version"]}


def test_a_plan_that_cannot_be_kept_for_another_machine_is_not_reported(made: Made) -> None:
    """Others would act upon it: the host ends instead, and the machine that carries it takes the plan up."""
    made.end()
    copies = LateCopies()
    made.begin(copies)
    made.take(plan("a"))
    copies.ended = True
    with pytest.raises(CopiesEnded):
        made.take(plan("a", 2))
    assert 1 == made.status("a")["version"]
