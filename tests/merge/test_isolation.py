"""Isolation by example: what moves out of an overloaded job, and where to."""

import pytest

from merge import Bridge, Costs, Host, Instance, JobId, NoHost, isolate
from merge.consolidation.isolation import overloaded
from tests.merge.floor import HOST, Floor

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
