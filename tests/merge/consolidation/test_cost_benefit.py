"""Isolation, regions, and what moving is worth, by example and with exact numbers."""

import pytest

from merge import (
    Bridge,
    Costs,
    Host,
    Instance,
    JobId,
    NoHost,
    Region,
    consolidate,
    disruption,
    gain,
    isolate,
    regions,
    worth,
)
from merge.consolidation.cost_benefit import Disruption, Gain
from merge.consolidation.isolation import overloaded
from tests.merge.floor import HOST, Floor


def scattered() -> Floor:
    """Three jobs in a chain, with two paused tasks."""
    floor = Floor(strategy="launch", pace=2.0, batch=0.25, bridge=0.0625, paused=0.03125, work={"window": 0.25})
    floor.start, floor.interruption, floor.moving = 6.625, 1.5, 2.0**-20
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    floor.submit("s:source > a:map > b:window > c:count > m:sink", "z")
    floor.strategy = "graft"
    floor.submit("s:source > a:map > d:echo > n:sink", "v")
    floor.remove("v")
    return floor


def test_gain_of_a_consolidation() -> None:
    """All jobs but one, all bridges and paused tasks; the work of the tasks stays."""
    floor = scattered()
    costs, before, running = floor.costs(), floor.jobs, floor.running
    expected = Gain(
        cores_before=3 * 0.125 + 2 * 0.0625 + 2 * 0.03125 + 0.25,
        cores_after=0.125 + 0.25,
        hops_before=2,
        hops_after=0,
    )
    found = gain(running, before, floor.consolidate(), costs)
    assert expected == found
    assert 2 * 0.125 + 2 * 0.0625 + 2 * 0.03125 == found.cores


def test_gain_of_bringing_idle_jobs_together_is_small() -> None:
    """A job that has nothing to do does few batches, and the one that follows on several does as many as they did."""
    floor = scattered()
    costs, before, running = floor.costs(), floor.jobs, floor.running
    rates = {JobId(1): 0.125, JobId(2): 0.0625, JobId(3): 0.0}
    target = floor.consolidate()
    found = gain(running, before, target, costs, rates)
    assert 2 * 0.0625 + 2 * 0.03125 == found.cores
    assert 0.1875 * 0.25 + 0.25 == found.cores_after
    # One that answers plans at once may for a moment do more than its pace allows.
    assert gain(running, before, target, costs) == gain(running, before, target, costs, {JobId(1): 9.0})


def test_disruption_of_a_consolidation() -> None:
    """What moves waits as long as the interruption takes; state counts as far as it is known, of what moves only."""
    floor = scattered()
    costs, before = floor.costs(), floor.jobs
    found = disruption(before, floor.consolidate(), costs, {Instance(4): 3 * 2**20, Instance(99): 2**30})
    expected = Disruption(jobs=1, starting=6.625, tasks=7, interruption=1.5, waiting=0.375, state=3 * 2**20, moving=3.0)
    assert expected == found
    assert 10.0 == found.cpu


def test_nothing_is_disrupted_where_nothing_moves() -> None:
    """Nor gained; and that is not worth anything."""
    floor = Floor(start=8.0, interruption=1.5, batch=0.25)
    floor.submit("s:source > k:sink", "x")
    costs, before = floor.costs(), floor.jobs
    target = floor.consolidate()
    assert 0.0 == disruption(before, target, costs).cpu == disruption(before, target, costs).interruption
    assert 0.0 == gain(floor.running, before, target, costs).cores
    assert not worth(gain(floor.running, before, target, costs), disruption(before, target, costs), 3_600.0).kept


@pytest.mark.parametrize(("horizon", "kept"), [(16.0, False), (16.25, True)])
def test_worth_is_to_save_more_than_is_spent_before_the_horizon(horizon: float, kept: bool) -> None:  # noqa: FBT001 - a case
    """As much is not enough."""
    floor = scattered()
    costs, before = floor.costs(), floor.jobs
    target = floor.consolidate()
    gained = gain(floor.running, before, target, costs)
    found = worth(gained, disruption(before, target, costs), horizon)
    assert (kept, 0.4375 * horizon, 7.0) == (found.kept, found.saved, found.spent)


def test_worth_says_both() -> None:
    """In a sentence for the operation's record."""
    floor = scattered()
    costs, before = floor.costs(), floor.jobs
    target = floor.consolidate()
    found = worth(gain(floor.running, before, target, costs), disruption(before, target, costs), 3_600.0)
    assert found.says == (
        "It is worth it: 0.812 cores become 0.375 and 2 bridges in a row become 0, which saves 1575.0 CPU seconds in"
        " 3600 s. Jobs to start: 1, tasks to move: 7, which costs 7.0 CPU seconds and interrupts these for 1.5 s."
    )
    spent = disruption(before, target, costs)
    assert worth(gain(floor.running, before, target, costs), spent, 1.0).says.startswith("It is not worth it: 0.812 ")


ONE, TWO, THREE = JobId(1), JobId(2), JobId(3)
WORK = {"lab:one": 1 / 8, "lab:two": 2 / 8, "lab:five": 6 / 8, "lab:six": 6 / 8}


def outgrown(*texts: str, hosts: tuple[Host, ...] = (HOST,)) -> Floor:
    """A floor with one job, whose tasks have become dearer since they were placed there."""
    floor = Floor(work={}, hosts=hosts)
    for number, text in enumerate(texts):
        floor.submit(text, str(number))
    floor.work = WORK
    assert [ONE] == list(floor.jobs.jobs)
    return floor


def test_a_whole_running_dag_moves_where_that_is_enough() -> None:
    """It needs no bridge; its tasks are noted as busy as was measured, and the rest of its job stays as it is."""
    texts = [f"s!:source > a:lab:{work} > k:sink" for work in ("one", "five", "two")]
    floor = outgrown(*texts)
    target = floor.isolate({1: 1.3125})
    assert target is not None
    assert (((TWO, "host"),), (), ()) == (target.opens, target.stops, target.crossings)
    assert {1: [1, 2, 3, 7, 8, 9], 2: [4, 5, 6]} == floor.layout()
    assert [0.0, pytest.approx(6 / 8 * 1.3125 / 1.125), 0.0] == [home.busy for _, home in target.places]


def test_of_one_running_dag_a_piece_moves_with_one_bridge() -> None:
    """The task that is too much goes with what it alone feeds, as far as the new job bears that."""
    floor = outgrown("s:source > a:lab:one > b:lab:five > c:map > d:map > k:sink b > d")
    target = floor.isolate({1: 1.0})
    assert target is not None
    assert {1: [1, 2], 2: [3, 4, 5, 6]} == floor.layout()
    assert ((Bridge(Instance(2), "out", TWO), 1),) == target.crossings


def test_no_bridge_is_sent_where_only_sources_are_shared() -> None:
    """What reads a source beside others moves alone: both jobs read the raw stream."""
    floor = outgrown("s:source > a:lab:two > k:sink", "s:source > a:lab:five > k:sink")
    floor.isolate({1: 1.0})
    assert {1: [1, 2, 3], 2: [4, 5]} == floor.layout()
    assert {Bridge(Instance(1), "out", TWO): 1} == dict(floor.jobs.bridges)


def test_a_chain_is_cut_into_as_many_jobs_as_it_needs() -> None:
    """Where no one new job can take enough of it."""
    floor = outgrown("s:source > a:lab:two > b:lab:two > c:lab:two > d:lab:two > k:sink")
    floor.isolate({1: 1.0})
    assert {1: [4, 5, 6], 2: [1, 2, 3]} == floor.layout()
    floor = outgrown("s:source > a:lab:five > b:lab:two > c:lab:two > d:lab:one > k:sink")
    floor.isolate({1: 1.4})
    assert {1: [4, 5, 6], 2: [1, 2], 3: [3]} == floor.layout()


def test_many_small_running_dags_part() -> None:
    """The busiest go together, until what stays has room."""
    floor = outgrown(*(f"s!:source > a:lab:{work} > k:sink" for work in ("two", "one", "two", "one", "two")))
    floor.isolate({1: 1.0})
    assert {1: [4, 5, 6, 10, 11, 12, 13, 14, 15], 2: [1, 2, 3, 7, 8, 9]} == floor.layout()


def test_raw_streams_are_read_twice_rather_than_another_sent() -> None:
    """Two sources are shared where one bridge would do as well: that would have to be sent over."""
    floor = outgrown(
        "s:source > j:map > h:lab:five > k:sink t:source{'source': 'traffic'} > j",
        "s:source > x:lab:two > l:sink",
        "t:source{'source': 'traffic'} > y:lab:two > m:sink",
    )
    floor.isolate({1: 1.25})
    alone = sorted(floor.instance("0", task) for task in "jhk")
    assert alone == floor.layout()[2]


def test_the_new_job_goes_where_most_cores_are_left() -> None:
    """The rest of the old job counts on its host, as busy as it is now."""
    hosts = (Host(name="a", cores=1.0), Host(name="b", cores=0.9))
    floor = outgrown("s!:source > a:lab:two > k:sink", "s!:source > a:lab:five > k:sink", hosts=hosts)
    assert "a" == floor.jobs.jobs[ONE].host
    floor.isolate({1: 1.0})
    assert "b" == floor.jobs.jobs[TWO].host


def test_two_tasks_that_are_each_too_much_part_from_each_other() -> None:
    """A job is not left with a source alone, and where no piece and no part would help, what comes first moves."""
    floor = outgrown("s:source > a:lab:five > b:lab:five > k:sink")
    floor.isolate({1: 1.5})
    assert {1: [4], 2: [1, 2], 3: [3]} == floor.layout()
    floor = outgrown("s:source > a:lab:five > k:sink", "s:source > b:lab:six > l:sink")
    floor.isolate({1: 1.5})
    assert {1: [5], 2: [1, 2, 3], 3: [4]} == floor.layout()


@pytest.mark.parametrize("seconds", [0.8, 0.1])
def test_a_job_that_its_pace_bears_is_left_alone(seconds: float) -> None:
    """Whatever was predicted: what is measured decides."""
    floor = outgrown("s!:source > a:lab:two > k:sink", "s!:source > a:lab:five > k:sink")
    assert None is floor.isolate({1: seconds})


def test_a_job_whose_tasks_do_not_account_for_its_batches_is_left_alone() -> None:
    """Its host has too much to do, and has as much to do wherever its tasks run there."""
    floor = outgrown("s!:source > a:lab:one > k:sink", "s!:source > a:lab:two > k:sink")
    assert None is floor.isolate({1: 5.0})


def test_what_nothing_helps_is_left_alone() -> None:
    """A task with idle company, and batches that take too long when they are empty."""
    assert None is outgrown("s:source > a:lab:five > k:sink").isolate({1: 1.0})
    empty = Floor(batch=0.9)
    empty.submit("s:source > a:map > k:sink", "x")
    assert None is empty.isolate({1: 0.9})


def test_the_worst_job_that_can_be_helped_comes_first() -> None:
    """One at a time; what was measured of jobs that are gone is passed over."""
    floor = Floor(strategy="launch", work={})
    for dataflow in ("1", "2"):
        floor.submit("s!:source > a:lab:two > b:lab:two > k:sink", dataflow)
    floor.submit("s!:source > a:lab:five > k:sink", "3")
    floor.work = {"lab:two": 3 / 8, "lab:five": 6 / 8, "lab:six": 6 / 8}
    measured = {ONE: 0.9, TWO: 0.95, THREE: 2.0, JobId(9): 3.0}
    assert (TWO, ONE) == overloaded(floor.running, floor.jobs, floor.costs(), measured)
    floor.isolate({1: 0.9, 2: 0.95, 3: 2.0, 9: 3.0})
    assert {1: [1, 2, 3, 4], 2: [7, 8], 3: [9, 10, 11], 4: [5, 6]} == floor.layout()
    assert None is isolate(floor.running, floor.jobs, floor.hosts, floor.costs(), measured, apart={ONE})


def test_a_job_whose_root_no_host_has_is_left_alone() -> None:
    """What shares no files with it cannot take its tasks; one that does can."""
    floor = outgrown("s:source > a:lab:two{'add': 1} > k:sink", "t:source{'source': 'traffic'} > a:lab:five > k:sink")
    away, other = Host(name="host", cores=1.0, root="r", away=True), Host(name="other", cores=1.0, root="q")
    floor.hosts = (away, other)
    assert floor.isolate({1: 1.0}) is None
    floor.hosts = (away, other, Host(name="near", cores=1.0, root="r"))
    found = floor.isolate({1: 1.0})
    assert found is not None
    assert ((TWO, "near"),) == found.opens


def test_what_no_host_offers_is_said() -> None:
    """Where the only host that offers a tag is gone, isolation refuses like placement does."""
    gpu = Host(name="gpu", cores=1.0, tags=frozenset({"gpu"}))
    floor = outgrown("s!:source > a:gpu > k:sink", "s!:source > a:lab:one > k:sink", hosts=(gpu,))
    floor.work = {"gpu": 6 / 8, "lab:one": 1 / 8}
    floor.hosts = (HOST,)
    with pytest.raises(NoHost, match="needs gpu"):
        floor.isolate({1: 1.0})


def test_a_job_shall_hold_what_it_has_room_for() -> None:
    """And a task for which none has room, with idle company, or with as much as the pace bears."""
    costs = Costs(pace=2.0, batch=0.25, busy={})
    held = [(0.0, 0.0), (0.375, 0.25), (0.5, 0.5), (0.625, 0.5), (5.0, 5.0)]
    apart = [(0.5, 0.25), (0.75, 0.5), (5.125, 5.0)]
    assert [True] * 5 + [False] * 3 == [costs.holds(*works) for works in (*held, *apart)]


WEATHER = "s!:source > a:map > k:sink"
TRAFFIC = "s!:source{'source': 'traffic'} > c:map > m:sink"


def regions_of(floor: Floor, most: int) -> list[Region]:
    return list(regions(floor.running, floor.jobs, floor.hosts, floor.costs(), most=most))


def test_what_reads_one_source_is_one_body() -> None:
    """Also where no task is shared: its raw stream is cut for all of them."""
    floor = Floor(strategy="launch")
    for name, text in (("x", WEATHER), ("y", TRAFFIC), ("z", WEATHER)):
        floor.submit(text, name)
    found = {frozenset(region.running.tasks) for region in regions_of(floor, 1)}
    assert {frozenset(map(Instance, (1, 2, 3, 7, 8, 9))), frozenset(map(Instance, (4, 5, 6)))} == found


def test_regions_are_no_larger_than_they_may_be() -> None:
    """As many jobs are emptied together as that allows."""
    floor = Floor(strategy="launch")
    for name, text in (("x", WEATHER), ("y", TRAFFIC)):
        floor.submit(text, name)
    assert [3, 3] == [len(region.running.tasks) for region in regions_of(floor, 5)]
    assert [6] == [len(region.running.tasks) for region in regions_of(floor, 6)]


def test_all_of_a_region_leaves_a_job_that_runs_something_else_as_well() -> None:
    """That one goes on with it; else streams of both might lead in a circle between jobs."""
    floor = Floor(bridge=1 / 8)
    floor.submit("s!:source > a:lab:four > b:lab:four > k:sink", "x")
    floor.submit(TRAFFIC, "y")
    assert {1: [1, 2, 5, 6, 7], 2: [3, 4]} == floor.layout()
    region = next(each for each in regions_of(floor, 1) if Instance(1) in each.running.tasks)
    assert {JobId(1)} == region.shared
    target = consolidate(region.running, region.jobs, region.hosts, floor.costs(), shared=region.shared)
    assert () == target.stops
    floor.jobs = floor.jobs.apply(target)
    assert {1: [5, 6, 7], 2: [3, 4], 3: [1, 2]} == floor.layout()
