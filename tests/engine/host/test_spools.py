"""The spools of a host: supplies, streams that cannot be supplied, markers, and consumers."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge import Counts, Item, Spool, SpoolFeed, SpoolIndex, Unread, commit, consumers, leave, topics
from bridge.raw_events import REST_COLUMN
from bridge.spools.log import LOG
from dags import Kind, Schema
from dags.message_formats import AvroMessages, CsvMessages
from engine.host.consumers import HostConsumers
from engine.host.reception import Receptions
from engine.host.spools import HostSpools
from engine.job.query import SparkJob
from engine.plan import Bridged, Entry, Ingress, Plan, Rated, ReplayedFile, Subscribed, Supply
from engine.plan_messages import RefusedPlan, read_plan, written_plan
from engine.records.job_folder import JobFolder, KeptCut, spool_folder
from tests.engine.replicas.scene import until
from tests.twins.memory_clock import MemoryClock

DUE = {"raw/street": 7.0}
"""When the next batch that reads a stream may begin."""


class Broker(Receptions):
    """A receiver that notes what it is asked for."""

    def __init__(self) -> None:
        self.feeds: dict[str, SpoolFeed] = {}
        self.kept: set[str] = set()
        self.forgotten: set[str] = set()
        """The topics whose subscription it has not confirmed since it was killed."""
        self.troubles: dict[str, Callable[[str], None]] = {}
        self.unread: dict[str, Callable[[Unread], None]] = {}
        self.due: Callable[[float], float] | None = None

    def begin(
        self,
        stream: str,
        feeds: Mapping[str, SpoolFeed],
        *,
        due: Callable[[float], float],
        on_unread: Callable[[Unread], None],
        on_trouble: Callable[[str], None],
    ) -> "Received":
        topic, *others = feeds
        # Numbered events of a raw stream come on a second topic.
        assert others in ([], [topics.sent(stream)])
        assert topic not in self.feeds
        self.due = due
        self.feeds[topic] = feeds[topic]
        self.kept.add(topic)
        self.troubles[stream] = on_trouble
        self.unread[stream] = on_unread
        return Received(self, topic)


class Received:
    """The reception of one topic."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker = broker
        self.topic = topic

    @property
    def counts(self) -> Counts:
        return Counts(gaps=3)

    @property
    def is_subscribed(self) -> bool:
        return self.topic not in self.broker.forgotten

    def hurry(self, seconds: float) -> None: ...

    def stop(self) -> None:
        del self.broker.feeds[self.topic]

    def leave(self) -> None:
        self.stop()
        self.broker.kept.remove(self.topic)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def spools(tmp_path: Path, broker: Broker) -> Iterator[HostSpools]:
    made = HostSpools(
        tmp_path,
        broker,
        clock=MemoryClock(),
        on_growth=lambda _stream, _marked: None,
        due=lambda stream, after: DUE[stream] + after,
    )
    yield made
    made.close()


def planned(job: str) -> Plan:
    return Plan(job=job, host="h", version=1)


def raw(stream: str = "raw/street", topic: str = "street", instance: int = 1) -> Ingress:
    return Ingress(stream=stream, instance=instance, supply=Subscribed(topic=topic, fields={"n": Kind.INTEGER}))


def test_a_stream_is_supplied_as_long_as_a_job_reads_it(spools: HostSpools, broker: Broker) -> None:
    """All its readers share one spool; with the last of them its supply ends."""
    for job in ("a", "b", "b"):
        spools.need(planned(job), raw())
    assert ({"street"}, {"raw/street": "ready"}) == (broker.kept, spools.states())
    spools.drop("a", "raw/street")
    assert {"street"} == broker.kept
    spools.drop("b", "raw/street")
    spools.drop("b", "raw/street")
    assert (set(), {}, {}) == (broker.kept, broker.feeds, spools.states())


def test_a_stream_is_not_ready_while_the_broker_confirms_no_subscription(spools: HostSpools, broker: Broker) -> None:
    """What comes may be lost until then; trouble with its spool is said first."""
    spools.need(planned("a"), raw())
    broker.forgotten.add("street")
    assert {"raw/street": "unsubscribed"} == spools.states()
    broker.troubles["raw/street"]("no room")
    assert {"raw/street": "no room"} == spools.states()
    broker.forgotten.clear()
    assert {"raw/street": "no room"} == spools.states()


def test_a_stream_that_another_host_reads_is_supplied_until_that_one_leaves(
    tmp_path: Path, spools: HostSpools, broker: Broker
) -> None:
    """Otherwise nobody would receive a raw stream between two supplies."""
    spools.need(planned("a"), raw())
    commit(spool_folder(tmp_path, "raw/street"), "elsewhere", 0)
    spools.drop("a", "raw/street")
    spools.look()
    assert ({"street"}, {"raw/street": "ready"}) == (broker.kept, spools.states())
    leave(spool_folder(tmp_path, "raw/street"), "elsewhere")
    spools.look()
    assert (set(), {}) == (broker.kept, spools.states())


def test_a_stream_is_received_for_the_batches_that_read_it(spools: HostSpools, broker: Broker) -> None:
    """Its receiver asks when the next of them may begin."""
    spools.need(planned("a"), raw())
    assert broker.due is not None
    assert DUE["raw/street"] + 60.0 == broker.due(60.0)


def test_the_sizes_of_its_spools_are_added_up(tmp_path: Path, spools: HostSpools) -> None:
    """The bytes of all files of the spools that it owns."""
    spools.need(planned("a"), raw())
    spools.need(planned("a"), raw("raw/river", "river", 2))
    for stream in ("raw/street", "raw/river"):
        spools.mark("c", (stream,))
    on_disk = sum(each.stat().st_size for each in (tmp_path / "spools").glob("*/log/*") if each.is_file())
    assert 0 < spools.size() == on_disk


def test_a_host_that_ends_has_the_broker_keep_messages(spools: HostSpools, broker: Broker) -> None:
    """The next process of the host receives what came meanwhile."""
    spools.need(planned("a"), raw())
    spools.close()
    assert ({}, {"street"}) == (broker.feeds, broker.kept)


def test_the_counts_of_intakes_are_reported(
    spools: HostSpools, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are reported for streams between jobs, and not for sources; those from before a trouble stay."""
    monkeypatch.setattr("engine.host.spools._RETRY_SECONDS", 0.0)
    spools.need(planned("a"), raw())
    spools.need(planned("a"), Ingress(stream="bridge/7", instance=7, supply=Bridged()))
    assert {"bridge/7": {"duplicates": 0, "held": 0, "gaps": 3, "refused": 0}} == spools.counts()
    broker.troubles["bridge/7"]("the disk is full")
    spools.look()
    assert 6 == spools.counts()["bridge/7"]["gaps"]


def test_what_is_received_of_a_source_is_counted(
    spools: HostSpools, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accepted and rejected events, also after trouble with the spool, with the newest rejected ones, which are cut."""
    monkeypatch.setattr("engine.host.spools._RETRY_SECONDS", 0.0)
    spools.need(planned("a"), raw())
    for reason in ("the disk is full", "and full again"):
        spools.mark(reason, ())
        broker.feeds["street"].spool.append([Item(count=2, stamp=0, payload=b"")])
        for event in ("a", "b", "c" * 1_000):
            broker.unread["raw/street"](Unread(topic="street", event=event, reason="no number", count=4))
        broker.troubles["raw/street"](reason)
        spools.look()
    received = spools.received()["raw/street"]
    newest = received.pop("newest")
    assert {"since": 0.0, "accepted": 4, "rejected": 24} == received
    assert ["c" * 199 + "…", "b", "a"] == [each["event"] for each in newest]


def test_rows_of_a_replayed_file_that_do_not_fit_are_counted(tmp_path: Path, spools: HostSpools) -> None:
    """As rejected events of its source, which names the row."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\n{"n": "many"}\n')
    supply = ReplayedFile(path=str(path), fields={"n": Kind.INTEGER}, per_second=1.0)
    spools.need(planned("a"), replace(raw(), supply=supply))
    until(lambda: spools.received()["raw/street"]["accepted"] == 1)
    assert [f"{path}, row 2: the field 'n' should be of kind integer"] == [
        each["reason"] for each in spools.received()["raw/street"]["newest"]
    ]


def test_a_stream_that_cannot_be_received_is_retried(
    spools: HostSpools, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then its state says what is wrong."""
    spools.need(planned("a"), raw())
    broker.troubles["raw/street"]("the disk is full")
    spools.look()
    assert {"raw/street": "the disk is full"} == spools.states()
    monkeypatch.setattr("engine.host.spools._RETRY_SECONDS", 0.0)
    broker.troubles["raw/street"]("the disk is full")
    spools.look()
    assert ({"raw/street": "ready"}, {"street"}) == (spools.states(), set(broker.feeds))


def test_a_damaged_spool_hurts_no_other(tmp_path: Path, spools: HostSpools, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of its stream names it, and other streams are supplied; once it is mended so is this one."""
    monkeypatch.setattr("engine.host.spools._RETRY_SECONDS", 0.0)
    filled(tmp_path, "raw/avenue", 2)
    path = max((spool_folder(tmp_path, "raw/avenue") / LOG).glob("0*"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    spools.need(planned("a"), raw("raw/avenue", "avenue", 2))
    spools.need(planned("a"), raw())
    spools.look()
    assert path.name in spools.states()["raw/avenue"]
    assert "ready" == spools.states()["raw/street"]
    path.write_bytes(whole)
    spools.look()
    assert {"raw/avenue": "ready", "raw/street": "ready"} == spools.states()


def test_positions_of_consumers_are_not_read_at_every_look(
    tmp_path: Path, spools: HostSpools, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that they have passed are removed at a later look."""
    spools.need(planned("a"), raw())
    spool = broker.feeds["street"].spool
    spool.append([Item(count=1, stamp=0, payload=b"x")])
    commit(spool_folder(tmp_path, "raw/street"), "a", 0)
    spools.look()
    commit(spool_folder(tmp_path, "raw/street"), "a", 1)
    monkeypatch.setattr("engine.host.spools._PRUNE_SECONDS", 3_600.0)
    spools.look()
    assert 0 == spool.first
    monkeypatch.setattr("engine.host.spools._PRUNE_SECONDS", 0.0)
    spools.look()
    assert 1 == spool.first


def test_a_spool_that_cannot_be_pruned_hurts_no_other(tmp_path: Path, spools: HostSpools, broker: Broker) -> None:
    """If the consumers of one spool are damaged, the next spool is pruned all the same."""
    for stream, n in (("raw/avenue", 1), ("raw/street", 2)):
        spools.need(planned("a"), raw(stream, stream, n))
        broker.feeds[stream].spool.append([Item(count=1, stamp=0, payload=b"x")])
    commit(spool_folder(tmp_path, "raw/avenue"), "a", 0)
    (position,) = (spool_folder(tmp_path, "raw/avenue") / "consumers").glob("*.position")
    position.write_bytes(b"nonsense")
    commit(spool_folder(tmp_path, "raw/street"), "a", 1)
    spools.look()
    assert position.name in spools.states()["raw/avenue"]
    assert 1 == broker.feeds["raw/street"].spool.first


@pytest.mark.parametrize(
    "other",
    [
        raw(topic="avenue"),
        raw(stream="raw/another"),
        replace(raw(), supply=Bridged()),
    ],
    ids=["other topic", "other name", "other supply"],
)
def test_two_streams_cannot_have_one_name_or_one_topic(spools: HostSpools, other: Ingress) -> None:
    """Otherwise one of them would silently get nothing."""
    spools.need(planned("a"), raw())
    with pytest.raises(RefusedPlan, match="cannot be supplied beside 'raw/street'"):
        spools.need(planned("b"), other)
    assert {"raw/street": "ready"} == spools.states()


def test_a_stream_declares_only_what_all_its_readers_do(spools: HostSpools, broker: Broker) -> None:
    """A schema that changed adds no refusals for those that read by the one before, nor the other way round."""
    same = {"place": Kind.STRING}
    for job, kind in (("a", Kind.INTEGER), ("b", Kind.FLOAT)):
        spools.need(planned(job), replace(raw(), supply=Subscribed(topic="street", fields={"n": kind, **same})))
    assert Schema.of(same) == broker.feeds["street"].schema
    assert {"raw/street": "ready"} == spools.states()


def test_texts_of_fields_that_one_reader_declares_are_of_its_kind(spools: HostSpools, broker: Broker) -> None:
    """Behind the spool nobody could make numbers of them; the first reader counts if kinds differ."""
    reading = Subscribed(topic="street", fields={"n": Kind.INTEGER}, format=CsvMessages(columns=("n", "t", "x")))
    spools.need(planned("a"), replace(raw(), supply=reading))
    more = replace(reading, fields={"n": Kind.STRING, "t": Kind.FLOAT})
    for job in ("b", "b"):
        spools.need(planned(job), replace(raw(), supply=more))
    decode = broker.feeds["street"].decode
    assert decode is not None
    events, unfit = decode([b"1,2.5,3"])
    assert ([{REST_COLUMN: '{"n":1,"t":2.5,"x":"3"}'}], ()) == (events.to_pylist(), unfit)


def test_a_format_that_cannot_be_read_is_the_trouble_of_its_stream(spools: HostSpools) -> None:
    """It says why, and other streams are supplied."""
    reading = Subscribed(topic="avenue", format=AvroMessages(writer_schema="null"))
    spools.need(planned("a"), replace(raw("raw/avenue", "avenue", 2), supply=reading))
    spools.need(planned("a"), raw())
    assert "ready" == spools.states()["raw/street"]
    assert re.search("fastavro|takes no bytes", spools.states()["raw/avenue"])


def test_a_spool_of_another_host_is_taken_over_when_that_one_is_gone(tmp_path: Path, spools: HostSpools) -> None:
    """Until then it is only read."""
    theirs = Spool(spool_folder(tmp_path, "raw/street"), most_bytes=1_000)
    spools.need(planned("a"), raw())
    spools.look()
    assert {"raw/street": "elsewhere"} == spools.states()
    theirs.close()
    spools.look()
    assert {"raw/street": "ready"} == spools.states()


def test_a_marker_comes_once_however_often_it_is_requested(tmp_path: Path, spools: HostSpools) -> None:
    """A request that is delivered twice cuts once; streams that are not named, or come over bridges, get none."""
    spools.need(planned("a"), raw())
    spools.need(planned("a"), raw("raw/avenue", "avenue", 2))
    spools.need(planned("a"), Ingress(stream="bridge/3", instance=3, supply=Bridged()))
    for _ in range(2):
        spools.mark("m", ["raw/street"])
    spools.mark("all", [])
    ends = {stream: SpoolIndex(spool_folder(tmp_path, stream)).end for stream in spools.states()}
    assert {"raw/street": 2, "raw/avenue": 1, "bridge/3": 0} == ends


def test_a_marker_in_a_stream_that_is_not_there_is_refused(tmp_path: Path, spools: HostSpools) -> None:
    """The streams that were named with it get none either."""
    spools.need(planned("a"), raw())
    with pytest.raises(RefusedPlan, match="'raw/nowhere', which is no raw stream"):
        spools.mark("m", ["raw/street", "raw/nowhere"])
    assert 0 == SpoolIndex(spool_folder(tmp_path, "raw/street")).end


def job(path: Path, *streams: str, at: dict[str, int] | None = None) -> Any:
    """As much of a job as its consumers need."""
    ingress = tuple(raw(each, each, n) for n, each in enumerate(streams, 1))
    plan = Plan(job="j", host="h", version=1, ingress=ingress)
    entry = Entry(number=1, plan=plan, starts=dict.fromkeys(streams, 0))
    folder = JobFolder(path / "jobs" / "j")
    folder.make()
    return SimpleNamespace(
        name="j",
        folder=folder,
        follower=None,
        plans=SimpleNamespace(
            entries=[entry], latest=entry, plan=plan, in_effect=lambda: [entry], positions=lambda: at or {}
        ),
        streams=lambda: frozenset(streams),
    )


def filled(path: Path, stream: str, many: int) -> None:
    with_owner = Spool(spool_folder(path, stream), most_bytes=1 << 20)
    for _ in range(many):
        with_owner.append([Item(count=1, stamp=0, payload=b"x")])
    with_owner.close()


def pruned(path: Path, stream: str) -> None:
    with_owner = Spool(spool_folder(path, stream), most_bytes=1 << 20)
    with_owner.prune()
    with_owner.close()


def test_a_job_joins_a_new_stream_at_its_head(tmp_path: Path, spools: HostSpools) -> None:
    """Earlier events are not read, unless the plan names a position that is still there."""
    filled(tmp_path, "a", 5)
    consumer_jobs, one = HostConsumers(tmp_path, spools), job(tmp_path)
    plan = Plan(job="j", host="h", version=2, ingress=(raw("a", "a"), raw("b", "b", 2)))
    assert {"a": 5, "b": 0} == consumer_jobs.join(cast("SparkJob", one), plan)
    assert {"j": 5} == consumers(spool_folder(tmp_path, "a"))
    earlier = replace(plan, ingress=(replace(raw("a", "a"), start=2),))
    assert {"a": 2} == consumer_jobs.join(cast("SparkJob", one), earlier)
    assert {"j": 2} == consumers(spool_folder(tmp_path, "a"))
    with pytest.raises(RefusedPlan, match="from 6, and its spool has 0 to 5"):
        consumer_jobs.join(cast("SparkJob", one), replace(plan, ingress=(replace(raw("a", "a"), start=6),)))
    consumer_jobs.unjoin(cast("SparkJob", one), plan.streams)
    assert ({}, {}) == (consumers(spool_folder(tmp_path, "a")), spools.states())


def test_a_new_plan_makes_a_job_skip_no_events(tmp_path: Path, spools: HostSpools) -> None:
    """Its streams begin where they began, and the spool keeps what it needs."""
    filled(tmp_path, "a", 5)
    commit(spool_folder(tmp_path, "a"), "j", 3)
    consumer_jobs = HostConsumers(tmp_path, spools)
    plan = Plan(job="j", host="h", version=2, ingress=(raw("a", "a"),))
    assert {"a": 0} == consumer_jobs.join(cast("SparkJob", job(tmp_path, "a")), plan)
    assert {"a": 5} == consumer_jobs.join(cast("SparkJob", job(tmp_path)), plan)
    assert {"j": 3} == consumers(spool_folder(tmp_path, "a"))


@pytest.mark.parametrize(("kept", "gone", "joins"), [(None, {"a": 5}, 5), ("other", {}, 3), ("j", {}, 2)])
def test_a_job_that_comes_back_passes_over_only_what_is_gone(  # noqa: PLR0913, PLR0917 - two fixtures are for all
    tmp_path: Path,
    spools: HostSpools,
    caplog: pytest.LogCaptureFixture,
    kept: str | None,
    gone: dict[str, int],
    joins: int,
) -> None:
    """It goes on where it was if the spool still has that; else at the first event there is, with a warning."""
    filled(tmp_path, "a", 5)
    if kept:
        commit(spool_folder(tmp_path, "a"), kept, 2)
    pruned(tmp_path, "a")
    one, consumer_jobs = job(tmp_path, "a", at={"a": 3}), HostConsumers(tmp_path, spools)
    consumer_jobs.rejoin(cast("SparkJob", one))
    assert gone == one.folder.gone()
    warnings = ["job j reads a on at 5: 2 positions before that went while it was stopped"] * len(gone)
    assert warnings == caplog.messages
    # A job that never left may have to run a batch again, and keeps what that needs.
    assert joins == consumers(spool_folder(tmp_path, "a"))["j"]
    one.folder.mark_stopped()
    consumer_jobs.rejoin(cast("SparkJob", one))
    assert (gone, warnings) == (one.folder.gone(), caplog.messages)


@pytest.mark.parametrize(("stopped", "gone"), [(True, {"a": 5}), (False, {})])
def test_gone_events_are_passed_over_even_if_a_host_died_while_it_started_the_job_again(
    tmp_path: Path, spools: HostSpools, *, stopped: bool, gone: dict[str, int]
) -> None:
    """The job counts as stopped until they are noted; missing events of a job that never left are damage."""
    filled(tmp_path, "a", 5)
    pruned(tmp_path, "a")
    commit(spool_folder(tmp_path, "a"), "j", 3)
    one = job(tmp_path, "a", at={"a": 3})
    if stopped:
        one.folder.mark_stopped()
    HostConsumers(tmp_path, spools).rejoin(cast("SparkJob", one))
    assert gone == one.folder.gone()
    # Another job may take over at a cut of a stopped job, so nothing that it kept may go.
    assert {"j": 3} == consumers(spool_folder(tmp_path, "a"))


def test_a_job_leaves_a_stream_that_it_does_not_read_once_no_cut_needs_it(tmp_path: Path, spools: HostSpools) -> None:
    """Until then the stream is supplied for the job that takes over at the cut."""
    consumer_jobs, before = HostConsumers(tmp_path, spools), job(tmp_path, "a", "b")
    consumer_jobs.rejoin(cast("SparkJob", before))
    consumer_jobs.join(cast("SparkJob", job(tmp_path)), before.plans.plan)
    after = job(tmp_path, "b")
    after.folder.cuts.keep(KeptCut("c", 3, (1,), {"a": 0}))
    consumer_jobs.tidy(cast("SparkJob", after))
    assert {"a", "b"} == spools.states().keys()
    after.folder.cuts.release("c")
    consumer_jobs.tidy(cast("SparkJob", after))
    assert {"b"} == spools.states().keys()
    assert {} == consumers(spool_folder(tmp_path, "a"))


@pytest.mark.parametrize(
    ("supply", "why"),
    [
        (Subscribed(topic="+/a"), "the topic '+/a' begins with a wildcard"),
        (Subscribed(topic="a/#/b"), "the topic 'a/#/b' is no topic filter"),
        (Subscribed(topic="a/{b}"), "the field 'b' is made of a level of the topic, so its kind is string"),
        (Subscribed(topic="a/+", retained=True), "the topic 'a/+' has wildcards, so it retains no single message"),
        (Subscribed(topic="braid/1/out"), "'braid/1/out' is not a topic"),
        (Subscribed(topic=""), "'' is not a topic"),
        (Rated(per_second=0.0), "per_second"),
    ],
)
def test_an_impossible_supply_is_refused(supply: Supply, why: str) -> None:
    """It is refused before anything is begun, with the reason."""
    plan = Plan(job="j", host="h", version=1, ingress=(replace(raw(), supply=supply),))
    with pytest.raises(RefusedPlan, match="the stream 'raw/street' cannot be supplied") as refusal:
        read_plan(written_plan(plan))
    assert why in str(refusal.value)


def test_the_ends_of_its_own_spools_are_known(spools: HostSpools, tmp_path: Path) -> None:
    """They count every item that can be read by now; of a spool that another host fills nothing is said."""
    spools.need(planned("a"), raw())
    with closing(Spool(spool_folder(tmp_path, "raw/other"), most_bytes=1_000)):
        spools.need(planned("a"), raw("raw/other", "other", 2))
        spool = spools.owned("raw/street")
        assert spool is not None
        spool.append([Item(count=3, stamp=0, payload=b"")])
        assert {"raw/street": 3} == spools.ends(["raw/street", "raw/other", "raw/none"])
