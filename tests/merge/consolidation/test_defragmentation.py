"""Fragmentation and consolidation by example, with exact numbers and targets."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from merge import Assignment, Bridge, Fragmentation, Home, Host, Instance, Job, JobId, Jobs, NoHost
from tests.merge.floor import HOST, Floor

ONE, TWO, THREE, FOUR, FIVE = (JobId(number) for number in range(1, 6))
GPU = Host(name="gpu", cores=1.0, tags=frozenset({"gpu"}))


def alone(floor: Floor, *works: str) -> None:
    """Submit dataflows that share nothing, one for each work, named by their places."""
    for place, work in enumerate(works, 1):
        floor.submit(f"s!:source > a:lab:{work} > k:sink", f"{place}")


def together(*jobs: list[str]) -> Floor:
    """A floor on which dataflows that share nothing run together in these jobs, each by its work."""
    floor = Floor(strategy="launch")
    alone(floor, *(work for works in jobs for work in works))
    homes: dict[Instance, Home] = {}
    made: list[Job] = []
    for number, works in enumerate(jobs, 1):
        active = [Instance(len(homes) + place) for place in range(1, 3 * len(works) + 1)]
        made.append(Job(id=JobId(number), host="host", active=frozenset(active), busy=0.0))
        homes |= {instance: Home(JobId(number), 0.0) for instance in active}
    floor.jobs = Jobs.of(made, homes, {}, JobId(len(jobs) + 1))
    return floor


def packed_anew(floor: Floor) -> set[frozenset[Instance]]:
    """The jobs that those dataflows would come to, the busiest first, each in the first job that has room."""
    packed: list[tuple[float, frozenset[Instance]]] = []
    busy, room = floor.costs().busy, 0.5 - floor.batch
    sizes = [(busy[Instance(first + 1)], first) for first in range(1, len(floor.running.tasks), 3)]
    for work, first in sorted(sizes, key=lambda size: (-size[0], size[1])):
        instances = frozenset(Instance(first + place) for place in range(3))
        for place, (taken, group) in enumerate(packed):
            if taken + work <= room:
                packed[place] = (taken + work, group | instances)
                break
        else:
            packed.append((work, instances))
    return {group for _, group in packed}


def sevenths() -> Floor:
    """A floor on which a job takes seven of the units that the tasks work."""
    return Floor(batch=1 / 16, work={"lab:two": 2 / 16, "lab:three": 3 / 16})


def test_consolidate_brings_a_running_dag_together() -> None:
    """What is scattered over bridged jobs moves to one new job; the old ones stop, and so do the bridges."""
    floor = Floor(strategy="launch", work={"window": 1 / 8})
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    expected = Assignment(
        base=2,
        opens=((THREE, "host"),),
        places=tuple((Instance(number), Home(THREE, 1 / 8 if number == 4 else 0.0)) for number in range(1, 6)),
        stops=(ONE, TWO),
        crossings=((Bridge(Instance(2), "out", TWO), -1),),
    )
    assert expected == floor.consolidate()
    assert ({3: [1, 2, 3, 4, 5]}, {}) == (floor.layout(), dict(floor.jobs.bridges))
    assert 1 / 8 == floor.jobs.jobs[THREE].busy


def test_consolidate_of_nothing() -> None:
    """Where nothing runs there is nothing to do."""
    assert Assignment(base=0) == Floor().consolidate()


def test_consolidate_leaves_consolidated_jobs_alone() -> None:
    """Jobs that are as they should be stay, and the assignment is empty."""
    floor = Floor()
    alone(floor, "three", "three", "one", "one")
    assert Assignment(base=4) == floor.consolidate()


def test_consolidate_packs_the_busiest_first() -> None:
    """Running DAGs go, busiest first and the older of equals first, each to the first job that has room for it."""
    floor = Floor(strategy="launch")
    alone(floor, "one", "two", "three", "two", "one")
    target = floor.consolidate()
    assert (((6, "host"), (7, "host")), (ONE, TWO, THREE, FOUR)) == (target.opens, target.stops)
    assert [6, 7, 6, 7, 5] == [floor.job(str(place), "a") for place in range(1, 6)]


def test_consolidate_fills_jobs_to_their_capacity() -> None:
    """A job is filled until its batches take half the pace, and no further."""
    floor = sevenths()
    floor.strategy = "launch"
    alone(floor, "three", "two", "two", "two")
    floor.consolidate()
    assert [FIVE, FIVE, FIVE, FOUR] == [floor.job(str(place), "a") for place in range(1, 5)]


def test_consolidate_lets_settled_jobs_be() -> None:
    """A job that holds exactly what it should goes on while others are packed together."""
    floor = Floor(strategy="launch")
    alone(floor, "two", "four", "two")
    target = floor.consolidate()
    assert (((FOUR, "host"),), (ONE, THREE)) == (target.opens, target.stops)
    assert {2: [4, 5, 6], 4: [1, 2, 3, 7, 8, 9]} == floor.layout()


def test_consolidate_drops_paused_tasks() -> None:
    """A job with paused tasks is replaced by one without them."""
    floor = Floor()
    floor.submit("s:source > k:sink", "x")
    floor.submit("s:source > a:map > l:sink", "y")
    floor.remove("y")
    target = floor.consolidate()
    assert (((TWO, "host"),), (ONE,)) == (target.opens, target.stops)
    assert [Job(id=TWO, host="host", active=frozenset({Instance(1), Instance(2)}))] == list(floor.jobs.jobs.values())


def test_consolidate_cuts_a_running_dag_that_no_job_can_hold() -> None:
    """It becomes a chain of jobs in topological order, and small running DAGs fill what room they leave."""
    floor = Floor(strategy="launch")
    alone(floor, "one")
    for last in ("k:sink", "b:lab:three > k:sink", "b:lab:three > c:lab:two > k:sink"):
        floor.submit(f"s:source > a:lab:three > {last}", last)
    assert {1: [1, 2, 3], 2: [4, 5, 6], 3: [7, 8], 4: [9, 10]} == floor.layout()
    target = floor.consolidate()
    assert (((FIVE, "host"),), (ONE, TWO)) == (target.opens, target.stops)
    assert {3: [7, 8], 4: [9, 10], 5: [1, 2, 3, 4, 5, 6]} == floor.layout()
    assert () == target.crossings
    assert {Bridge(Instance(5), "out", THREE): 1, Bridge(Instance(7), "out", FOUR): 1} == dict(floor.jobs.bridges)
    assert [(FIVE, THREE), (THREE, FOUR)] == sorted(floor.jobs.streams_between().edges, reverse=True)


def test_consolidate_renews_the_bridges_of_a_cut_running_dag() -> None:
    """Bridges that end in a job that stops are closed, those of its successor opened with as many streams."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > a:lab:four > k:sink", "x")
    floor.submit("s:source > a:lab:four > l:file", "y")
    floor.submit("s:source > a:lab:four > b:lab:one > c:echo > m:sink a > c", "z")
    floor.submit("s:source > a:lab:four > b:lab:one > n:file", "w")
    target = floor.consolidate()
    assert ((FIVE, "host"), (JobId(6), "host")) == target.opens
    expected = (
        (Bridge(Instance(2), "out", TWO), -1),
        (Bridge(Instance(2), "out", THREE), -2),
        (Bridge(Instance(2), "out", JobId(6)), 2),
        (Bridge(Instance(5), "out", FOUR), -1),
    )
    assert expected == target.crossings
    assert {Bridge(Instance(2), "out", JobId(6)): 2} == dict(floor.jobs.bridges)


def test_consolidate_moves_nothing_where_packing_needs_more_jobs() -> None:
    """Packing by the rule would take three jobs; the two that are there stay."""
    floor = sevenths()
    alone(floor, "three", "two", "two", "three", "two", "two")
    assert 2 == len(floor.jobs.jobs)
    assert Assignment(base=6) == floor.consolidate()


def test_consolidate_replaces_only_the_job_with_paused_tasks() -> None:
    """Where the jobs hold together what they should, only what is paused calls for a new job."""
    floor = sevenths()
    alone(floor, "three", "two", "two", "three", "two", "two")
    floor.submit("s!:source > k:sink", "idle")
    assert ONE == floor.job("idle", "k")
    floor.remove("idle")
    target = floor.consolidate()
    assert (((THREE, "host"),), (ONE,)) == (target.opens, target.stops)
    assert {2: list(range(10, 19)), 3: list(range(1, 10))} == floor.layout()


def test_consolidate_keeps_running_dags_whole() -> None:
    """A running DAG is brought together even where that takes a job more."""
    floor = Floor()
    floor.submit("s!:source > a:lab:three > k:sink", "x")
    floor.submit("s:source > a:lab:one > k:sink", "y")
    floor.submit("s!:source > a:lab:three > k:sink", "z")
    floor.submit("s:source > a:lab:one > b:lab:one > l:sink", "w")
    assert {1: [1, 2, 3, 4, 5, 6], 2: [7, 8, 9, 10, 11]} == floor.layout()
    before = floor.fragmentation()
    assert (2, 2, 1) == (before.jobs, before.fewest, before.bridges)
    assert 0.0 == before.cores
    floor.consolidate()
    assert {3: [1, 2, 3], 4: [7, 8, 9], 5: [4, 5, 6, 10, 11]} == floor.layout()
    assert {} == dict(floor.jobs.bridges)


def test_consolidate_goes_by_what_tasks_cost_now() -> None:
    """Jobs that have outgrown their capacity are packed anew, and their tasks' work is noted as it is now."""
    floor = Floor()
    alone(floor, "two", "two")
    floor.work = {"lab:two": 3 / 8}
    floor.consolidate()
    assert {2: [1, 2, 3], 3: [4, 5, 6]} == floor.layout()
    assert [3 / 8, 3 / 8] == [job.busy for job in floor.jobs.jobs.values()]


def test_consolidate_leaves_a_task_beyond_any_capacity_with_its_company() -> None:
    """As long as its pace bears them together: one job alone could not help it, and would cost bridges."""
    floor = Floor()
    alone(floor, "five")
    assert {1: [1], 2: [2], 3: [3]} == floor.layout()
    floor.consolidate()
    assert {4: [1, 2, 3]} == floor.layout()
    assert Assignment(base=2) == floor.consolidate()


def test_consolidate_gives_a_task_beyond_any_capacity_no_company_that_is_too_much() -> None:
    """What only feeds it, and takes nothing, stays with it."""
    floor = Floor(work={"lab:one": 1 / 8, "lab:five": 6 / 8})
    floor.submit("s:source > a:lab:five > b:lab:one > k:sink", "x")
    floor.consolidate()
    assert {3: [3, 4], 4: [1, 2]} == floor.layout()


def test_consolidate_cuts_what_comes_after_a_task_beyond_any_capacity() -> None:
    """Each of the further jobs is within its own."""
    floor = Floor(work={"lab:one": 1 / 8, "lab:two": 2 / 8, "lab:five": 6 / 8})
    floor.submit("s:source > a:lab:five > b:lab:two > c:lab:two > d:lab:one > k:sink", "x")
    floor.consolidate()
    assert [[1, 2], [3, 4], [5, 6]] == sorted(floor.layout().values())


def test_consolidate_leaves_a_host_that_went_away() -> None:
    """A job whose host is not there any more moves to one that is."""
    floor = Floor()
    floor.submit("s:source > k:sink", "x")
    floor.hosts = (GPU,)
    target = floor.consolidate()
    assert (((TWO, "gpu"),), (ONE,)) == (target.opens, target.stops)


def test_consolidate_leaves_a_host_that_lost_a_tag() -> None:
    """A job whose host does not offer its tags any more moves to one that does."""
    floor = Floor(hosts=(Host(name="host", cores=1.75, tags=frozenset({"gpu"})), GPU))
    floor.submit("s:source > a:gpu > k:sink", "x")
    floor.hosts = (HOST, GPU)
    assert ((TWO, "gpu"),) == floor.consolidate().opens


def test_consolidate_refuses_what_no_host_can_run() -> None:
    """Where a tag is not offered by any host any more, the target says what is missing."""
    floor = Floor(hosts=(GPU,))
    floor.submit("s:source > a:gpu > k:sink", "x")
    floor.hosts = (HOST,)
    with pytest.raises(NoHost, match=r"^no host can run a task of type 'gpu': it needs gpu; add a host"):
        floor.consolidate()
    assert {1: [1, 2, 3]} == floor.layout()


def test_consolidate_lets_plain_tasks_share_a_job_with_tagged_ones() -> None:
    """Running DAGs share a job wherever one host offers the tags of both, also where the first needs none."""
    floor = Floor(strategy="launch", hosts=(HOST, GPU))
    floor.submit("s!:source > a:lab:two > k:sink", "x")
    floor.submit("s!:source > a:gpu > k:sink", "y")
    assert ((THREE, "gpu"),) == floor.consolidate().opens


def test_consolidate_keeps_apart_what_no_host_offers_together() -> None:
    """Running DAGs whose tags no one host offers get jobs on different hosts."""
    fpga = Host(name="fpga", cores=1.0, tags=frozenset({"fpga"}))
    floor = Floor(strategy="launch", hosts=(HOST, GPU, fpga))
    for place, kind in enumerate(("fpga", "gpu", "fpga", "gpu")):
        floor.submit(f"s!:source > a:{kind} > k:sink", str(place))
    assert ((FIVE, "fpga"), (JobId(6), "gpu")) == floor.consolidate().opens


def test_consolidate_gathers_the_tags_of_a_job() -> None:
    """What a job's first running DAG needs counts for the third, whatever the second needs."""
    fpga = Host(name="fpga", cores=1.0, tags=frozenset({"fpga"}))
    floor = Floor(strategy="launch", hosts=(HOST, GPU, fpga), work={"gpu": 2 / 8, "map": 1 / 8})
    for kind in ("gpu", "map", "fpga"):
        floor.submit(f"s!:source > a:{kind} > k:sink", kind)
    assert ((FOUR, "gpu"),) == floor.consolidate().opens
    assert [FOUR, FOUR, THREE] == [floor.job(kind, "a") for kind in ("gpu", "map", "fpga")]


def test_consolidate_takes_the_older_of_equally_busy_running_dags_first() -> None:
    """A running DAG is as old as its oldest task, however much of it is new."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > k:sink", "x")
    alone(floor, "two", "two")
    floor.submit("s:source > a:lab:two > l:sink", "y")
    floor.remove("x")
    floor.consolidate()
    assert [FOUR, FOUR, THREE] == [floor.job(name, "a") for name in ("y", "1", "2")]


def test_consolidate_chooses_hosts_by_the_jobs_that_stay() -> None:
    """New jobs go where most cores are to spare beside the jobs that stay; those that stop take none."""
    floor = Floor(strategy="launch", hosts=(Host(name="a", cores=1.0), Host(name="b", cores=0.9)))
    alone(floor, "four", "two", "three", "two", "one")
    assert ["a", "b", "b", "a", "b"] == [floor.jobs.jobs[JobId(number)].host for number in range(1, 6)]
    assert ((JobId(6), "b"), (JobId(7), "a")) == floor.consolidate().opens


def test_consolidate_merges_whole_jobs_where_that_does_as_well() -> None:
    """Packing anew would take two jobs too and move everything; to merge two with each other lets the third be."""
    floor = together(["two", "one"], ["three"], ["one"])
    target = floor.consolidate()
    assert (((FOUR, "host"),), (ONE, THREE)) == (target.opens, target.stops)
    assert {2: [7, 8, 9], 4: [1, 2, 3, 4, 5, 6, 10, 11, 12]} == floor.layout()


def test_consolidate_merges_whole_jobs_where_packing_anew_would_not_help() -> None:
    """Packing by the rule would come to three jobs, as many as there are; two of them fit into one."""
    floor = together(["three", "two", "two"], ["three"], ["two", "two"])
    floor.batch = 1 / 16
    floor.work = {"lab:two": 2 / 16, "lab:three": 3 / 16}
    assert 3 == len(packed_anew(floor))
    floor.consolidate()
    assert {1: list(range(1, 10)), 4: list(range(10, 19))} == floor.layout()


@given(jobs=st.lists(st.lists(st.sampled_from(("one", "two", "three", "four")), min_size=1, max_size=3), max_size=6))
@example(jobs=[["two"], ["one", "one"], ["two"]])
def test_consolidate_moves_no_more_than_packing_anew_would(jobs: list[list[str]]) -> None:
    """Where it comes to as many jobs as that; and it never comes to more."""
    floor = together(*jobs)
    before = {job.active for job in floor.jobs.jobs.values()}
    packed = packed_anew(floor)
    target = floor.consolidate()
    assert len(floor.jobs.jobs) <= len(packed)
    if len(floor.jobs.jobs) == len(packed):
        assert len(target.places) <= sum(len(group) for group in packed if group not in before)


def test_consolidate_leaves_jobs_that_are_apart_alone() -> None:
    """Nothing comes into them and nothing leaves, though they have room, or paused tasks."""
    floor = together(["one"], ["one"], ["one"])
    floor.remove("3")
    floor.submit("s!:source > a:lab:one > k:sink", "4")
    assert Assignment(base=floor.jobs.version) == floor.consolidate(ONE, TWO)
    target = floor.consolidate(TWO)
    assert TWO not in target.stops
    assert [4, 5, 6] == floor.layout()[2]


def test_consolidate_leaves_what_bridges_join_to_a_job_that_is_apart() -> None:
    """A running DAG is left out as a whole, however many jobs it is in."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    alone(floor, "one", "one")
    assert (THREE, FOUR) == floor.consolidate(TWO).stops
    assert {1: [1, 2, 3], 2: [4, 5], 5: [6, 7, 8, 9, 10, 11]} == floor.layout()


def test_fragmentation_of_scattered_jobs() -> None:
    """Jobs beyond the fewest, bridges, paused tasks, the longest row of bridges, and what they cost."""
    floor = Floor(strategy="launch", pace=2.0, batch=0.25, bridge=0.0625, paused=0.03125)
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    floor.submit("s:source > a:map > b:window > c:count > m:sink a > c", "z")
    floor.submit("s!:source > k:sink", "w")
    floor.strategy = "graft"
    floor.submit("s:source > a:map > d:echo > n:sink", "v")
    floor.remove("v")
    expected = Fragmentation(
        jobs=4,
        fewest=1,
        bridges=3,
        paused=2,
        hops=2,
        cores=3 * 0.125 + 3 * 0.0625 + 2 * 0.03125,
        latency=4.0,
    )
    assert expected == floor.fragmentation()


def test_fragmentation_counts_no_bridges_from_sources() -> None:
    """Each job reads a raw stream from its spool, which takes no bridge and no time."""
    floor = Floor(strategy="launch", bridge=1.0)
    floor.submit("s:source > k:sink", "x")
    floor.submit("s:source > a:map > k:sink", "y")
    assert {Bridge(Instance(1), "out", TWO): 1} == dict(floor.jobs.bridges)
    found = floor.fragmentation()
    assert (2, 1, 0, 0, 0.0) == (found.jobs, found.fewest, found.bridges, found.hops, found.cores)


def test_fragmentation_of_consolidated_jobs() -> None:
    """Consolidated jobs are the fewest, without bridges or paused tasks, and cost nothing."""
    floor = Floor(strategy="launch", pace=2.0, batch=0.25, bridge=0.0625, paused=0.03125)
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    floor.consolidate()
    expected = Fragmentation(jobs=1, fewest=1, bridges=0, paused=0, hops=0, cores=0.0, latency=0.0)
    assert expected == floor.fragmentation()


def test_fragmentation_of_nothing() -> None:
    """Where nothing runs nothing is fragmented."""
    expected = Fragmentation(jobs=0, fewest=0, bridges=0, paused=0, hops=0, cores=0.0, latency=0.0)
    assert expected == Floor(batch=0.25, bridge=1.0, paused=1.0).fragmentation()


def test_fragmentation_counts_bridges_in_a_row_along_streams() -> None:
    """A bridge into a job and one out of it are in a row only where a stream goes through both."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:lab:one > l:sink", "y")
    floor.strategy = "pack"
    floor.submit("s:source{'source': 'traffic'} > c:map > m:sink", "z")
    assert TWO == floor.job("z", "c")
    floor.strategy = "launch"
    floor.submit("s:source{'source': 'traffic'} > c:map > d:window > n:sink", "w")
    found = floor.fragmentation()
    assert (3, 2, 1, 1.0) == (found.jobs, found.bridges, found.hops, found.latency)
