"""Older events: which facts prove that all of them are gone; and the cuts of drains that wait for that."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from engine.plan import Bridged, Ingress, Plan, Subscribed
from engine.plan_messages import CutRequest
from manager.kernel.older_events import (
    NEXT_CUT_AFTER,
    NO_CLEARANCES,
    REPEAT_WISH_AFTER,
    Clearances,
    Drained,
    EndsWanted,
    Wish,
    cut_of,
    drain,
    look_on,
)
from manager.kernel.transitions import Phase, Reconfiguration, TransitionEvent, Turn
from manager.kernel.wanted import Draining, JobStreams, ReachedJob, Reconfiguring, SentStream
from manager.observations.reports import HostSeen, JobSeen, Measured, StreamMeasured
from manager.observations.sight import JobSight, Sight, SpoolEnd
from manager.reconfigurations.turns import PROVEN_AFTER, reconfigure
from merge import Home, Instance, JobId

NOW = datetime(2024, 3, 1, tzinfo=UTC)
X, Y, Z = JobId(1), JobId(2), JobId(3)
ROW = (
    ReachedJob(job=X, version=2, raw=frozenset({"p", "q"})),
    ReachedJob(job=Y, version=1, raw=frozenset({"p", "q"})),
    ReachedJob(job=Z, version=1, bridges=frozenset({SentStream("bridge/9:out", Y)})),
)
"""X has switched, Y is beside it, and Z reads what Y sends."""


@dataclass
class Service:
    """What a manager hears; hosts answer as a test says."""

    reached: tuple[ReachedJob, ...] = ROW
    jobs: dict[str, JobSight] = field(default_factory=dict)
    hosts: dict[str, HostSeen] = field(default_factory=dict)
    ends: dict[tuple[str, str], SpoolEnd] = field(default_factory=dict)
    known: Clearances = NO_CLEARANCES
    held: bool = False
    now: float = 100.0
    phase: Phase = Phase.PROVING
    outcome: str = ""

    def __post_init__(self) -> None:
        self.host("h", "p", "q", "bridge/9:out")

    def host(self, name: str, *spools: str, root: str = "", alive: bool = True) -> None:
        self.hosts[name] = HostSeen(host=name, alive=alive, root=root, spools=dict.fromkeys(spools, "ready"), seen=NOW)

    def report(self, job: JobId, at: Mapping[str, int], *, host: str = "h", **more: object) -> None:
        seen = JobSeen(
            job=str(job), host=host, state="running", in_effect=9, batch=5, positions=at, handed_on=6, seen=NOW
        )
        self.jobs[str(job)] = JobSight(seen=replace(seen, **more))  # type: ignore[arg-type]  # fields of a report

    def answer(self, question: int, host: str = "h", **ends: int) -> None:
        self.ends |= {(host, stream): SpoolEnd(question, end) for stream, end in ends.items()}

    def answer_bridge(self, question: int, end: int) -> None:
        self.ends["h", "bridge/9:out"] = SpoolEnd(question, end)

    def look(self) -> tuple[EndsWanted, ...]:
        self.known, asked = look_on(self.known, [self.going], self.sight, self.now)
        return asked

    @property
    def going(self) -> Reconfiguring:
        return Reconfiguring(
            reconfiguration=Reconfiguration(
                id=7,
                phase=self.phase,
                since=100.0,
                begun=90.0,
                dataflows=("d",),
                jobs=frozenset({X}),
                awaiting=frozenset(),
                instances=frozenset(),
                changed=frozenset({Instance(4)}),
                watched=frozenset({Instance(4)}),
                outcome=self.outcome,
            ),
            plans={X: Plan(job="1", host="h", version=2)},
            streams=frozenset(),
            below=frozenset({X}),
            reached=self.reached,
            is_held=self.held,
        )

    @property
    def sight(self) -> Sight:
        return Sight(complete=True, jobs=self.jobs, hosts=self.hosts, ends=self.ends)

    def is_clear(self) -> bool:
        return self.known.get(7).is_clear

    def turns(self, now: float) -> list[TransitionEvent]:
        steps = reconfigure([self.going], self.sight, {}, now, self.known)
        return [step.event for step in steps if isinstance(step, Turn)]

    def all_past(self) -> None:
        """Everybody is past, and the ends of the sources are known."""
        self.report(X, {"p": 10, "q": 20})
        self.report(Y, {"p": 10, "q": 20})
        self.report(Z, {"bridge/9:out": 30})
        self.look()
        self.answer(1, p=10, q=20)
        self.look()
        self.answer_bridge(2, 30)


@pytest.fixture
def service() -> Service:
    return Service()


def test_all_that_is_reached_has_to_be_past(service: Service) -> None:
    """First the ends of the sources are asked for, then those of the bridges below; then everything is proven."""
    service.report(X, {"p": 11, "q": 20})
    service.report(Y, {"p": 10, "q": 21})
    service.report(Z, {"bridge/9:out": 30})
    assert (EndsWanted(host="h", number=1, streams=("p", "q")),) == service.look()
    assert () == service.look()
    service.answer(1, p=10, q=20)
    assert (EndsWanted(host="h", number=2, streams=("bridge/9:out",)),) == service.look()
    service.answer_bridge(2, 31)
    service.look()
    assert not service.is_clear()
    service.report(Z, {"bridge/9:out": 31})
    service.look()
    assert service.is_clear()


@pytest.mark.parametrize(
    ("job", "at"),
    [(Y, {"p": 9, "q": 20}), (Y, {"p": 10}), (Y, {}), (Z, {"bridge/9:out": 29}), (Z, {}), (X, {"p": 10, "q": 19})],
)
def test_a_job_beside_or_below_that_is_not_past_keeps_it_open(
    service: Service, job: JobId, at: Mapping[str, int]
) -> None:
    """However long that takes, and whatever lag it reports; a stream without a position is one with events."""
    service.all_past()
    service.report(job, at, measured=(Measured(streams=dict.fromkeys(at, StreamMeasured(lag_seconds=0.0))),))
    service.known = NO_CLEARANCES
    service.ends = {}
    for question in range(1, 9):
        service.now += 10.0
        service.look()
        service.answer(question, p=10, q=20)
        service.answer_bridge(question, 30)
    assert not service.is_clear()
    assert [] == service.turns(10_000.0)


def test_no_figure_means_no(service: Service) -> None:
    """A manager that has just begun has proven nothing, even if all positions that it hears of are high."""
    service.all_past()
    service.look()
    assert service.is_clear()
    assert [TransitionEvent.PROVEN] == service.turns(100.1 + PROVEN_AFTER)
    service.known = NO_CLEARANCES
    assert [] == service.turns(100.1 + PROVEN_AFTER)
    service.ends.clear()
    service.look()
    assert not service.is_clear()
    del service.jobs[str(Y)]
    service.answer(1, p=10, q=20)
    service.look()
    assert not service.is_clear()


def test_a_host_that_is_away_keeps_it_open(service: Service) -> None:
    """Its last report is of before the ends that were asked for; and nobody asks it in vain."""
    service.report(X, {"p": 10, "q": 20})
    service.report(Y, {"p": 3, "q": 4}, host="away")
    service.report(Z, {"bridge/9:out": 30})
    service.host("away", "r", alive=False)
    service.look()
    service.answer(1, p=10, q=20)
    service.now = 10_000.0
    assert () == service.look()
    assert not service.is_clear()


def test_a_question_is_repeated_until_all_ends_are_known(service: Service) -> None:
    """An answer may get lost; one to an older question does not count."""
    service.known = replace(NO_CLEARANCES, question=4)
    service.answer(4, p=1, q=1)
    service.report(X, {"p": 10, "q": 20})
    service.report(Y, {"p": 10, "q": 20})
    assert [5] == [each.number for each in service.look()]
    assert () == service.look()
    service.now += 6.0
    service.answer(5, p=10)
    assert [EndsWanted(host="h", number=6, streams=("q",))] == list(service.look())


def test_what_is_not_handed_on_may_still_come(service: Service) -> None:
    """The end of a bridge is asked for once all that the job above had emitted by then is in its spool."""
    service.report(X, {"p": 10, "q": 20})
    service.report(Y, {"p": 10, "q": 20}, handed_on=5)
    service.report(Z, {"bridge/9:out": 30})
    service.look()
    service.answer(1, p=10, q=20)
    assert () == service.look()
    service.report(Y, {"p": 15, "q": 25}, batch=8, handed_on=None)
    assert () == service.look()
    service.report(Y, {"p": 15, "q": 25}, batch=8, handed_on=6)
    assert (EndsWanted(host="h", number=2, streams=("bridge/9:out",)),) == service.look()


def test_a_restart_takes_nothing_back(service: Service) -> None:
    """A job that starts again reports an earlier batch for a moment; that it was past stays true."""
    service.all_past()
    service.report(Y, {"p": 8, "q": 19}, batch=3, handed_on=2, host="heir")
    service.host("heir")
    service.look()
    assert service.is_clear()


def test_another_reader_or_sender_has_to_be_past_too(service: Service) -> None:
    """If a task moves to another job, its streams count from there, and so does all that is below."""
    service.all_past()
    moved = JobId(4)
    service.reached = (
        ROW[0],
        ReachedJob(job=moved, version=1, raw=frozenset({"p", "q"})),
        replace(ROW[2], bridges=frozenset({SentStream("bridge/9:out", moved)})),
    )
    service.look()
    assert not service.is_clear()
    service.report(moved, {"p": 10, "q": 20})
    assert [3] == [each.number for each in service.look()]
    service.answer_bridge(3, 33)
    service.look()
    assert not service.is_clear()
    service.report(Z, {"bridge/9:out": 33})
    service.look()
    assert service.is_clear()


def test_a_job_that_reads_something_else_has_to_run_that_plan(service: Service) -> None:
    """Its last report may be of before it began to read what it has to be past."""
    service.reached = (replace(ROW[0], version=10),)
    service.report(X, {"p": 10, "q": 20})
    service.look()
    service.answer(1, p=10, q=20)
    service.look()
    assert not service.is_clear()
    service.reached = (replace(ROW[0], version=11),)
    service.report(X, {"p": 10, "q": 20}, in_effect=10)
    service.look()
    assert service.is_clear()


def test_nothing_is_concluded_while_others_change_what_is_read(service: Service) -> None:
    """A task that moves stops at its cut, and its old job reads on."""
    service.all_past()
    service.held = True
    service.look()
    assert not service.is_clear()
    service.held = False
    service.look()
    assert service.is_clear()


def test_hosts_that_share_no_files_have_ends_of_their_own(service: Service) -> None:
    """A position in a spool of one root says nothing of the same stream's spool in another."""
    service.host("north", "p", root="n")
    service.host("south", "p", root="s")
    service.reached = tuple(ReachedJob(job=job, version=1, raw=frozenset({"p"})) for job in (X, Y))
    service.report(X, {"p": 10}, host="north")
    service.report(Y, {"p": 10}, host="south")
    assert ["h", "north", "south"] == sorted(each.host for each in service.look())
    service.answer(1, "north", p=10)
    service.look()
    assert not service.is_clear()
    service.answer(1, "south", p=5)
    service.look()
    assert service.is_clear()


def test_without_sources_nothing_is_left(service: Service) -> None:
    """The dataflows of a reconfiguration may have been removed."""
    service.reached = ()
    assert () == service.look()
    assert service.is_clear()


@pytest.mark.parametrize(
    ("seconds", "is_past", "outcome", "expected"),
    [
        (5.0, False, "", [TransitionEvent.FAILED]),
        (5.0, True, "", [TransitionEvent.FAILED]),
        (500.0, False, "", [TransitionEvent.FAILED]),
        (500.0, True, "", []),
        (5.0, False, "kept", []),
    ],
)
def test_a_failing_task_is_blamed_on_the_change_for_a_while(
    service: Service,
    seconds: float,
    is_past: bool,  # noqa: FBT001 - drawn
    outcome: str,
    expected: list[TransitionEvent],
) -> None:
    """Until its own jobs are past, and not for as long as some job beside lags."""
    service.outcome = outcome
    service.look()
    service.answer(1, p=10, q=20)
    service.report(X, {"p": 10, "q": 20} if is_past else {}, failed={4: "no"})
    service.look()
    assert not service.is_clear()
    assert expected == service.turns(100.0 + seconds)


def test_what_is_undone_is_over_once_its_older_events_are_gone(service: Service) -> None:
    """It stays under way until then, so that others cover it."""
    service.phase = Phase.REVERTED
    service.report(X, {}, failed={4: "no"})
    service.look()
    assert [] == service.turns(500.0)
    service.all_past()
    service.look()
    service.now += 10.0
    service.look()
    assert [TransitionEvent.PROVEN] == service.turns(500.0)


def test_all_jobs_that_events_of_a_source_reach_are_found() -> None:
    """Those that read it, and all below over bridges, each after those that it reads; no others."""

    def plan(job: JobId, *streams: tuple[str, int]) -> Plan:
        return Plan(
            job=str(job),
            host="h",
            version=int(job),
            ingress=tuple(
                Ingress(
                    stream=stream,
                    instance=instance,
                    supply=Bridged() if stream.startswith("bridge/") else Subscribed(topic=stream, fields={}),
                )
                for stream, instance in streams
            ),
        )

    jobs = [JobId(number) for number in range(7)]
    plans = {
        jobs[1]: plan(jobs[1], ("bridge/12:out", 12), ("bridge/15:out", 15), ("bridge/99:out", 99)),
        jobs[2]: plan(jobs[2], ("p", 1)),
        jobs[3]: plan(jobs[3], ("p", 1), ("q", 2)),
        jobs[4]: plan(jobs[4], ("bridge/11:out", 11)),
        # The same stream, but as another source: it begins at the earliest events that are kept.
        jobs[5]: plan(jobs[5], ("p", 3)),
        jobs[6]: plan(jobs[6], ("q", 2)),
    }
    homes = {Instance(10 + number): Home(JobId(number), 0.0) for number in range(1, 7)}
    found = JobStreams(plans, homes).reached({1})
    assert {each.job: each for each in found} == {
        jobs[1]: ReachedJob(job=jobs[1], version=1, bridges=frozenset({SentStream("bridge/12:out", jobs[2])})),
        jobs[2]: ReachedJob(job=jobs[2], version=2, raw=frozenset({"p"})),
        jobs[3]: ReachedJob(job=jobs[3], version=3, raw=frozenset({"p"})),
        jobs[4]: ReachedJob(job=jobs[4], version=4, bridges=frozenset({SentStream("bridge/11:out", jobs[1])})),
    }
    order = [each.job for each in found]
    assert order.index(jobs[2]) < order.index(jobs[1]) < order.index(jobs[4])


MOMENT = 1_000.0
FLOW = Draining(dataflow="d-1", since=MOMENT, streams=frozenset({"source/1", "source/2"}), instances=frozenset({2, 3}))
CUT = "drain-d-1-0"


def job(name: str, **cuts: set[int]) -> JobSeen:
    passed = {cut.replace("_", "-"): frozenset(instances) for cut, instances in cuts.items()}
    return JobSeen(job=name, host="h", state="running", cuts=passed, seen=datetime.now(UTC))


def host(name: str = "h", *, alive: bool = True, **spools: str) -> HostSeen:
    states = {f"source/{stream[1:]}": state for stream, state in spools.items()}
    return HostSeen(host=name, alive=alive, spools=states, seen=datetime.now(UTC))


def test_each_host_is_asked_for_the_streams_that_it_supplies() -> None:
    """Streams of other running DAGs and of other hosts are left out, and so is a host that is away."""
    hosts = {
        "a": host("a", s1="open", s9="open"),
        "b": host("b", s1="elsewhere", s2="open"),
        "c": host("c", alive=False, s2="open"),
    }
    assert [
        Wish(host="a", wish=CutRequest(cut=CUT, streams=("source/1",))),
        Wish(host="b", wish=CutRequest(cut=CUT, streams=("source/2",))),
    ] == list(drain([FLOW], {}, hosts, {}, MOMENT))


def test_a_dataflow_has_drained_once_the_cut_has_passed_all_its_tasks() -> None:
    """All its jobs count, and every task in them."""
    some = {"1": job("1", drain_d_1_0={2, 7})}
    assert [] == list(drain([FLOW], some, {}, {CUT: MOMENT}, MOMENT))
    every = some | {"2": job("2", drain_d_1_0={3})}
    assert [Drained(dataflow="d-1")] == list(drain([FLOW], every, {"h": host(s1="open")}, {}, MOMENT))


def test_a_wish_is_repeated_after_a_while() -> None:
    """It is not repeated before."""
    hosts = {"h": host(s1="open")}
    assert [] == list(drain([FLOW], {}, hosts, {CUT: MOMENT}, MOMENT + REPEAT_WISH_AFTER / 2))
    assert 1 == len(list(drain([FLOW], {}, hosts, {CUT: MOMENT}, MOMENT + REPEAT_WISH_AFTER)))


def test_a_clock_that_is_set_back_delays_no_wish() -> None:
    """A wish at a time in the future is repeated at once."""
    assert 1 == len(list(drain([FLOW], {}, {"h": host(s1="open")}, {CUT: MOMENT + 3_600.0}, MOMENT)))


def test_a_failed_cut_is_replaced_by_another() -> None:
    """The next cut has a new name that every manager computes alike, and the states of the first are released."""
    later = MOMENT + NEXT_CUT_AFTER + 1
    jobs, hosts = {"1": job("1", drain_d_1_0={2})}, {"h": host(s1="open")}
    assert [
        Wish(host="h", wish=CutRequest(cut="drain-d-1-1", streams=("source/1",))),
        Wish(host="h", wish=CutRequest(cut=CUT, release=True)),
    ] == list(drain([FLOW], jobs, hosts, {}, later))
    assert "drain-d-1-1" == cut_of(FLOW, later)


def test_only_cuts_of_dataflows_that_drained_are_released() -> None:
    """Cuts that others took are left alone."""
    jobs = {"1": job("1", drain_d_9_0={2}, move_4={2})}
    assert [Wish(host="h", wish=CutRequest(cut="drain-d-9-0", release=True))] == list(
        drain([], jobs, {"h": host()}, {}, MOMENT)
    )
