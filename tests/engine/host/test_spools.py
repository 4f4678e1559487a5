"""The spools of a host: who supplies which stream, what cannot be supplied, and markers; and who reads them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridge import Counts, FolderReader, Item, MemoryClock, Spool, SpoolFeed, commit, consumers, leave, topics
from bridge.spools.log import LOG
from dags import Kind
from engine.host.consumers import HostConsumers
from engine.host.spools import HostSpools
from engine.job.job import SparkJob
from engine.plan import Entry, Ingress, Plan, RefusedPlan, read_plan, written_plan
from engine.records.job_folder import JobFolder, KeptCut, spool_folder
from engine.supply import Bridged, Rated, Subscribed, Supply


class Broker:
    """Receives, and notes what it is asked for."""

    def __init__(self) -> None:
        self.feeds: dict[str, SpoolFeed] = {}
        self.kept: set[str] = set()
        self.troubles: dict[str, Callable[[str], None]] = {}
        self.pace: Callable[[], float] | None = None

    def begin(
        self,
        stream: str,
        feeds: Mapping[str, SpoolFeed],
        *,
        pace: Callable[[], float],
        on_trouble: Callable[[str], None],
    ) -> "Received":
        topic, *others = feeds
        # The numbered events of a raw stream come along with it.
        assert others in ([], [topics.sent(stream)])
        assert topic not in self.feeds
        self.pace = pace
        self.feeds[topic] = feeds[topic]
        self.kept.add(topic)
        self.troubles[stream] = on_trouble
        return Received(self, topic)


class Received:
    """One topic of the broker's."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker = broker
        self.topic = topic

    @property
    def counts(self) -> Counts:
        return Counts(gaps=3)

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
    made = HostSpools(tmp_path, broker, clock=MemoryClock(), on_growth=lambda _stream, _marked: None)
    yield made
    made.close()


def planned(job: str, pace: float = 1.0) -> Plan:
    return Plan(job=job, host="h", version=1, pace=pace)


def raw(stream: str = "raw/street", topic: str = "street", instance: int = 1) -> Ingress:
    return Ingress(stream=stream, instance=instance, supply=Subscribed(topic=topic, fields={"n": Kind.INTEGER}))


def test_a_stream_is_supplied_as_long_as_somebody_reads_it(spools: HostSpools, broker: Broker) -> None:
    """One spool for all who read it; with the last of them it ends."""
    for job in ("a", "b", "b"):
        spools.need(planned(job), raw())
    assert ({"street"}, {"raw/street": "ready"}) == (broker.kept, spools.states())
    spools.drop("a", "raw/street")
    assert {"street"} == broker.kept
    spools.drop("b", "raw/street")
    spools.drop("b", "raw/street")
    assert (set(), {}, {}) == (broker.kept, broker.feeds, spools.states())


def test_what_a_job_of_another_host_reads_is_supplied_until_that_one_leaves(
    tmp_path: Path, spools: HostSpools, broker: Broker
) -> None:
    """Between two who supply a raw stream nobody would receive it."""
    spools.need(planned("a"), raw())
    commit(spool_folder(tmp_path, "raw/street"), "elsewhere", 0)
    spools.drop("a", "raw/street")
    spools.look()
    assert ({"street"}, {"raw/street": "ready"}) == (broker.kept, spools.states())
    leave(spool_folder(tmp_path, "raw/street"), "elsewhere")
    spools.look()
    assert (set(), {}) == (broker.kept, spools.states())


def test_a_stream_is_received_for_whoever_has_the_shortest_pace(
    tmp_path: Path, spools: HostSpools, broker: Broker
) -> None:
    """As their latest plans and their leaving have it; for readers of other hosts alone nobody knows of a pace."""

    def known() -> float:
        assert broker.pace is not None
        return broker.pace()

    spools.need(planned("a", 2.0), raw())
    commit(spool_folder(tmp_path, "raw/street"), "elsewhere", 0)
    found = [known()]
    for job, pace in (("b", 0.5), ("a", 3.0), ("b", 1.0)):
        spools.need(planned(job, pace), raw())
        found.append(known())
    for job in ("b", "a"):
        spools.drop(job, "raw/street")
        found.append(known())
    assert [2.0, 0.5, 0.5, 1.0, 3.0, 0.0] == found


def test_what_its_spools_hold_is_added_up(tmp_path: Path, spools: HostSpools) -> None:
    """As many bytes as their files have, of all spools that it owns."""
    spools.need(planned("a"), raw())
    spools.need(planned("a"), raw("raw/river", "river", 2))
    for stream in ("raw/street", "raw/river"):
        spools.mark("c", (stream,))
    on_disk = sum(each.stat().st_size for each in (tmp_path / "spools").glob("*/log/*") if each.is_file())
    assert 0 < spools.size() == on_disk


def test_a_host_that_ends_has_the_broker_keep_what_comes(spools: HostSpools, broker: Broker) -> None:
    """Nobody receives any more, and the next process of the host gets what came meanwhile."""
    spools.need(planned("a"), raw())
    spools.close()
    assert ({}, {"street"}) == (broker.feeds, broker.kept)


def test_what_an_intake_met_is_counted(spools: HostSpools) -> None:
    """For each stream that is received, and for none that is generated."""
    spools.need(planned("a"), raw())
    spools.need(planned("a"), replace(raw("rated", "", 2), supply=Rated(per_second=0.001)))
    assert {"raw/street": {"duplicates": 0, "held": 0, "gaps": 3, "refused": 0}} == spools.counts()


def test_a_stream_that_cannot_be_received_is_tried_again(
    spools: HostSpools, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong is told where it stands until then."""
    spools.need(planned("a"), raw())
    broker.troubles["raw/street"]("the disk is full")
    spools.look()
    assert {"raw/street": "the disk is full"} == spools.states()
    monkeypatch.setattr("engine.host.spools._RETRY_SECONDS", 0.0)
    broker.troubles["raw/street"]("the disk is full")
    spools.look()
    assert ({"raw/street": "ready"}, {"street"}) == (spools.states(), set(broker.feeds))
    # What the first try met stays counted.
    assert 6 == spools.counts()["raw/street"]["gaps"]


def test_a_damaged_spool_hurts_no_other(tmp_path: Path, spools: HostSpools, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named where its stream stands, the others are supplied, and once it is mended so is this one."""
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


def test_how_far_consumers_are_is_not_read_at_every_look(
    tmp_path: Path, spools: HostSpools, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they have passed goes at one of the next looks."""
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


def test_a_spool_that_cannot_be_tidied_hurts_no_other(tmp_path: Path, spools: HostSpools, broker: Broker) -> None:
    """The consumers of one spool are damaged: the next spool is pruned all the same."""
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
        replace(raw(), supply=Subscribed(topic="street", fields={"n": Kind.FLOAT})),
    ],
    ids=["other topic", "other name", "other supply", "other fields"],
)
def test_two_streams_cannot_have_one_name_or_one_topic(spools: HostSpools, other: Ingress) -> None:
    """Else one of them would silently get nothing."""
    spools.need(planned("a"), raw())
    with pytest.raises(RefusedPlan, match="cannot be supplied beside 'raw/street'"):
        spools.need(planned("b"), other)
    assert {"raw/street": "ready"} == spools.states()


def test_a_spool_of_another_host_is_taken_over_when_that_one_is_gone(tmp_path: Path, spools: HostSpools) -> None:
    """Until then it is read and not fed."""
    theirs = Spool(spool_folder(tmp_path, "raw/street"), most_bytes=1_000)
    spools.need(planned("a"), raw())
    spools.look()
    assert {"raw/street": "elsewhere"} == spools.states()
    theirs.close()
    spools.look()
    assert {"raw/street": "ready"} == spools.states()


def test_a_marker_comes_once_however_often_it_is_wished_for(tmp_path: Path, spools: HostSpools) -> None:
    """A wish that is delivered twice cuts once; streams that are not named, or come over bridges, have none."""
    spools.need(planned("a"), raw())
    spools.need(planned("a"), raw("raw/avenue", "avenue", 2))
    spools.need(planned("a"), Ingress(stream="bridge/3", instance=3, supply=Bridged()))
    for _ in range(2):
        spools.mark("m", ["raw/street"])
    spools.mark("all", [])
    ends = {stream: FolderReader(spool_folder(tmp_path, stream)).end for stream in spools.states()}
    assert {"raw/street": 2, "raw/avenue": 1, "bridge/3": 0} == ends


def test_a_marker_in_a_stream_that_is_not_there_is_refused(tmp_path: Path, spools: HostSpools) -> None:
    """And none is put into the others that were named with it."""
    spools.need(planned("a"), raw())
    with pytest.raises(RefusedPlan, match="'raw/nowhere', which is no raw stream"):
        spools.mark("m", ["raw/street", "raw/nowhere"])
    assert 0 == FolderReader(spool_folder(tmp_path, "raw/street")).end


def job(path: Path, *streams: str, at: dict[str, int] | None = None) -> Any:
    """As much of a job as its reading needs."""
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
    """What lay there before is not read, unless the plan names a position that is still there."""
    filled(tmp_path, "a", 5)
    consuming, one = HostConsumers(tmp_path, spools), job(tmp_path)
    plan = Plan(job="j", host="h", version=2, ingress=(raw("a", "a"), raw("b", "b", 2)))
    assert {"a": 5, "b": 0} == consuming.join(cast("SparkJob", one), plan)
    assert {"j": 5} == consumers(spool_folder(tmp_path, "a"))
    earlier = replace(plan, ingress=(replace(raw("a", "a"), start=2),))
    assert {"a": 2} == consuming.join(cast("SparkJob", one), earlier)
    assert {"j": 2} == consumers(spool_folder(tmp_path, "a"))
    with pytest.raises(RefusedPlan, match="from 6, and its spool has 0 to 5"):
        consuming.join(cast("SparkJob", one), replace(plan, ingress=(replace(raw("a", "a"), start=6),)))
    consuming.unjoin(cast("SparkJob", one), plan.streams)
    assert ({}, {}) == (consumers(spool_folder(tmp_path, "a")), spools.states())


def test_a_job_that_reads_a_stream_already_never_skips_by_a_new_plan(tmp_path: Path, spools: HostSpools) -> None:
    """It begins where it began, and the spool keeps what it needs."""
    filled(tmp_path, "a", 5)
    commit(spool_folder(tmp_path, "a"), "j", 3)
    consuming = HostConsumers(tmp_path, spools)
    plan = Plan(job="j", host="h", version=2, ingress=(raw("a", "a"),))
    assert {"a": 0} == consuming.join(cast("SparkJob", job(tmp_path, "a")), plan)
    assert {"a": 5} == consuming.join(cast("SparkJob", job(tmp_path)), plan)
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
    """Where the spool still has what it left behind, it goes on there; else it begins at what there is, and says so."""
    filled(tmp_path, "a", 5)
    if kept:
        commit(spool_folder(tmp_path, "a"), kept, 2)
    pruned(tmp_path, "a")
    one, consuming = job(tmp_path, "a", at={"a": 3}), HostConsumers(tmp_path, spools)
    consuming.rejoin(cast("SparkJob", one))
    assert gone == one.folder.gone()
    told = ["job j reads a on at 5: 2 positions before that went while it was stopped"] * len(gone)
    assert told == caplog.messages
    # A job that never left may have to run a batch again, and keeps what that needs.
    assert joins == consumers(spool_folder(tmp_path, "a"))["j"]
    one.folder.say_stopped()
    consuming.rejoin(cast("SparkJob", one))
    assert (gone, told) == (one.folder.gone(), caplog.messages)


@pytest.mark.parametrize(("stopped", "gone"), [(True, {"a": 5}), (False, {})])
def test_what_went_before_a_host_died_that_started_a_job_again_is_passed_over_by_the_next(
    tmp_path: Path, spools: HostSpools, *, stopped: bool, gone: dict[str, int]
) -> None:
    """Until all is said that went the job counts as stopped; else it never left, and what is missing is damage."""
    filled(tmp_path, "a", 5)
    pruned(tmp_path, "a")
    commit(spool_folder(tmp_path, "a"), "j", 3)
    one = job(tmp_path, "a", at={"a": 3})
    if stopped:
        one.folder.say_stopped()
    HostConsumers(tmp_path, spools).rejoin(cast("SparkJob", one))
    assert gone == one.folder.gone()
    # For whoever takes over at a cut of a stopped job, nothing may go that it has kept.
    assert {"j": 3} == consumers(spool_folder(tmp_path, "a"))


def test_a_job_leaves_what_it_reads_no_longer_once_no_cut_needs_it(tmp_path: Path, spools: HostSpools) -> None:
    """A stream goes on being supplied for whoever takes over at the cut."""
    consuming, before = HostConsumers(tmp_path, spools), job(tmp_path, "a", "b")
    consuming.rejoin(cast("SparkJob", before))
    consuming.join(cast("SparkJob", job(tmp_path)), before.plans.plan)
    after = job(tmp_path, "b")
    after.folder.keep_cut(KeptCut("c", 3, (1,), {"a": 0}))
    consuming.tidy(cast("SparkJob", after))
    assert {"a", "b"} == spools.states().keys()
    after.folder.release_cut("c")
    consuming.tidy(cast("SparkJob", after))
    assert {"b"} == spools.states().keys()
    assert {} == consumers(spool_folder(tmp_path, "a"))


@pytest.mark.parametrize(
    ("supply", "why"),
    [
        (Subscribed(topic="a/+"), "'a/+' is no topic"),
        (Subscribed(topic="braid/1/out"), "'braid/1/out' is no topic"),
        (Subscribed(topic=""), "'' is no topic"),
        (Rated(per_second=0.0), "per_second"),
    ],
)
def test_what_nobody_could_supply_is_refused(supply: Supply, why: str) -> None:
    """Before anything is begun, and with the reason."""
    plan = Plan(job="j", host="h", version=1, ingress=(replace(raw(), supply=supply),))
    with pytest.raises(RefusedPlan, match="the stream 'raw/street' cannot be supplied") as told:
        read_plan(written_plan(plan))
    assert why in str(told.value)
