"""Drains: which cuts are wished for, when a dataflow is removed, and which cuts are released."""

from datetime import UTC, datetime

from engine.plan_messages import CutRequest
from manager.kernel.older_events import NEXT_CUT_AFTER, REPEAT_WISH_AFTER, Drained, Wish, cut_of, drain
from manager.kernel.wanted import Draining
from manager.observations.reports import HostSeen, JobSeen

NOW = 1_000.0
FLOW = Draining(dataflow="d-1", since=NOW, streams=frozenset({"source/1", "source/2"}), instances=frozenset({2, 3}))
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
    ] == list(drain([FLOW], {}, hosts, {}, NOW))


def test_a_dataflow_has_drained_once_the_cut_has_passed_all_its_tasks() -> None:
    """All its jobs count, and every task in them."""
    some = {"1": job("1", drain_d_1_0={2, 7})}
    assert [] == list(drain([FLOW], some, {}, {CUT: NOW}, NOW))
    every = some | {"2": job("2", drain_d_1_0={3})}
    assert [Drained(dataflow="d-1")] == list(drain([FLOW], every, {"h": host(s1="open")}, {}, NOW))


def test_a_wish_is_repeated_after_a_while() -> None:
    """It is not repeated before."""
    hosts = {"h": host(s1="open")}
    assert [] == list(drain([FLOW], {}, hosts, {CUT: NOW}, NOW + REPEAT_WISH_AFTER / 2))
    assert 1 == len(list(drain([FLOW], {}, hosts, {CUT: NOW}, NOW + REPEAT_WISH_AFTER)))


def test_a_clock_that_is_set_back_delays_no_wish() -> None:
    """A wish at a time in the future is repeated at once."""
    assert 1 == len(list(drain([FLOW], {}, {"h": host(s1="open")}, {CUT: NOW + 3_600.0}, NOW)))


def test_a_failed_cut_is_replaced_by_another() -> None:
    """The next cut has a new name that every manager computes alike, and the states of the first are released."""
    later = NOW + NEXT_CUT_AFTER + 1
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
        drain([], jobs, {"h": host()}, {}, NOW)
    )
