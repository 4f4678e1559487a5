"""The placements by example: which job runs what a dataflow starts, and what a tenant learns before."""

from datetime import UTC, datetime, timedelta

import pytest

from merge import (
    Assignment,
    Bridge,
    Explanation,
    Home,
    Instance,
    JobId,
    RunningGraph,
    explain,
    explained,
    merge,
    unmerge,
)
from merge.merger import Reuse
from merge.placement.strategies import STRATEGIES
from tests.merge.floor import NOW, Floor
from tests.notation import flow

ONE, TWO, THREE, FOUR = (JobId(number) for number in range(1, 5))
IDLE = 0.0


def homes(job: JobId, *instances: int, busy: float = IDLE) -> tuple[tuple[Instance, Home], ...]:
    return tuple((Instance(instance), Home(job, busy)) for instance in instances)


def test_strategies() -> None:
    """There are three ways to place."""
    assert ["launch", "graft", "pack", "plan"] == list(STRATEGIES)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_first_dataflow_opens_a_job(strategy: str) -> None:
    """Where nothing runs, every placement opens one job for the whole dataflow."""
    placed = Floor(strategy=strategy).submit("s:source > a:map > k:sink", "x")
    assert Assignment(base=0, opens=((ONE, "host"),), places=homes(ONE, 1, 2, 3)) == placed


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nothing_starts(strategy: str) -> None:
    """A dataflow that already runs whole needs no job, and the assignment is empty."""
    floor = Floor(strategy=strategy)
    floor.submit("s:source > a:map > k:sink", "x")
    assert Assignment(base=1) == floor.submit("s:source > a:map > k:sink", "y")


def test_launch_opens_a_job_for_each_residue() -> None:
    """The residue becomes a new job, joined to the old one by a bridge."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > a:map > k:sink", "x")
    placed = floor.submit("s:source > a:map > b:window > l:sink", "y")
    expected = Assignment(
        base=1,
        opens=((TWO, "host"),),
        places=homes(TWO, 4, 5),
        crossings=((Bridge(Instance(2), "out", TWO), 1),),
    )
    assert expected == placed


def test_launch_opens_one_job_for_disjoint_parts() -> None:
    """All that one submission starts is one job, even where nothing joins its parts."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > k:sink t:source{'source': 'traffic'} > l:sink", "x")
    assert {1: [1, 2, 3, 4]} == floor.layout()


def test_launch_past_capacity() -> None:
    """A residue that is too busy for one job is cut in topological order, the parts joined by bridges."""
    floor = Floor(strategy="launch")
    placed = floor.submit("s:source > a:lab:three > b:lab:one > c:lab:one > d:lab:three > k:sink", "x")
    expected = Assignment(
        base=0,
        opens=((ONE, "host"), (TWO, "host")),
        places=(
            *homes(ONE, 1),
            *homes(ONE, 2, busy=3 / 8),
            *homes(ONE, 3, busy=1 / 8),
            *homes(TWO, 4, busy=1 / 8),
            *homes(TWO, 5, busy=3 / 8),
            *homes(TWO, 6),
        ),
        crossings=((Bridge(Instance(3), "out", TWO), 1),),
    )
    assert expected == placed


def test_graft_joins_the_job_that_runs_its_inputs() -> None:
    """The residue joins its inputs' job: no new job, no bridge."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > a:map > k:sink", "x")
    placed = floor.submit("s:source > a:map > b:window > l:sink", "y")
    assert Assignment(base=1, places=homes(ONE, 4, 5)) == placed


def test_graft_places_each_part_for_itself() -> None:
    """Disjoint parts of a residue each join their own inputs' job."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > k:sink", "x")
    floor.submit("t:source{'source': 'traffic'} > k:sink", "y")
    placed = floor.submit("s:source > a:map > k:sink t:source{'source': 'traffic'} > b:window > l:sink", "z")
    assert () == placed.opens
    assert (ONE, ONE, TWO, TWO) == tuple(floor.job("z", task) for task in "akbl")


def test_graft_opens_a_job_for_a_disjoint_dataflow() -> None:
    """What has no inputs that run gets a job of its own."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > k:sink", "x")
    placed = floor.submit("t:source{'source': 'traffic'} > k:sink", "y")
    assert Assignment(base=1, opens=((TWO, "host"),), places=homes(TWO, 3, 4)) == placed


def test_graft_fills_a_job_to_its_capacity() -> None:
    """A job takes what makes its batches exactly half the pace long."""
    floor = Floor(strategy="graft", pace=2.0, batch=0.25, work={"window": 0.25, "count": 0.125})
    floor.submit("s:source > b:window > k:sink", "x")
    placed = floor.submit("s:source > c:count > l:sink", "y")
    assert Assignment(base=1, places=(*homes(ONE, 4, busy=0.125), *homes(ONE, 5))) == placed
    assert 0.375 == floor.jobs.jobs[ONE].busy


def test_graft_past_capacity() -> None:
    """A part that its inputs' job has no room for gets a new job whole, and bridges."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > b:lab:three > k:sink", "x")
    placed = floor.submit("s:source > c:lab:one > d:lab:one > l:sink s > e:map > m:sink", "y")
    bridge = Bridge(Instance(1), "out", TWO)
    assert (((TWO, "host"),), ((bridge, 1),)) == (placed.opens, placed.crossings)
    assert (TWO, TWO, TWO, ONE, ONE) == tuple(floor.job("y", task) for task in "cdlem")


def test_graft_inputs_in_several_jobs() -> None:
    """A part whose inputs live in several jobs gets a new job and a bridge from each."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > k:sink", "x")
    floor.submit("t:source{'source': 'traffic'} > k:sink", "y")
    placed = floor.submit("s:source > j:join.left t:source{'source': 'traffic'} > j.right j > k:sink", "z")
    expected = Assignment(
        base=2,
        opens=((THREE, "host"),),
        places=homes(THREE, 5, 6),
        crossings=((Bridge(Instance(1), "out", THREE), 1), (Bridge(Instance(3), "out", THREE), 1)),
    )
    assert expected == placed


def test_pack_joins_the_job_that_runs_its_inputs() -> None:
    """What shares tasks stays together, although another job is fuller."""
    floor = Floor()
    floor.submit("s:source > a:lab:two > k:sink", "x")
    floor.submit("t:source{'source': 'traffic'} > a:lab:three > k:sink", "y")
    assert {1: [1, 2, 3], 2: [4, 5, 6]} == floor.layout()
    assert Assignment(base=2, places=homes(ONE, 7, 8)) == floor.submit("s:source > b:map > l:sink", "z")


def test_pack_lets_disjoint_dataflows_share_the_fullest_job() -> None:
    """A disjoint dataflow joins the fullest job that has room for it, up to capacity."""
    floor = Floor()
    floor.submit("s:source > a:lab:two > k:sink", "x")
    floor.submit("t:source{'source': 'traffic'} > a:lab:three > k:sink", "y")
    placed = floor.submit("p:source{'source': 'power'} > a:lab:one > k:sink", "z")
    assert Assignment(base=2, places=(*homes(TWO, 7), *homes(TWO, 8, busy=1 / 8), *homes(TWO, 9))) == placed
    floor.submit("d:source{'source': 'diary'} > a:lab:one > k:sink", "w")
    assert {1: [1, 2, 3, 10, 11, 12], 2: [4, 5, 6, 7, 8, 9]} == floor.layout()


def test_pack_prefers_the_older_of_equally_full_jobs() -> None:
    """Among jobs equally full the one with the lowest number takes a dataflow."""
    floor = Floor(strategy="graft")
    for name in ("weather", "traffic", "power"):
        floor.submit(f"s:source{{'source': '{name}'}} > k:sink", name)
    floor.strategy = "pack"
    floor.submit("d:source{'source': 'diary'} > k:sink", "z")
    assert ONE == floor.job("z", "d")


def test_pack_past_capacity() -> None:
    """A disjoint dataflow that no job has room for gets its own."""
    floor = Floor()
    floor.submit("s:source > a:lab:three > k:sink", "x")
    placed = floor.submit("t:source{'source': 'traffic'} > a:lab:two > k:sink", "y")
    assert ((TWO, "host"),) == placed.opens


def test_pack_parts_of_one_submission_share_a_job_that_it_opens() -> None:
    """A job that was opened for one part of a residue takes further parts too, up to its capacity."""
    floor = Floor()
    text = "s:source > a:lab:two > k:sink t:source{'source': 'traffic'} > b:lab:two > l:sink"
    floor.submit(f"{text} p:source{{'source': 'power'}} > c:lab:two > m:sink", "x")
    assert {ONE: "host", TWO: "host"} == {job.id: job.host for job in floor.jobs.jobs.values()}
    assert [1 / 2, 1 / 4] == [floor.jobs.jobs[job].busy for job in (ONE, TWO)]
    assert {} == dict(floor.jobs.bridges)


def test_pack_joins_the_job_that_most_of_its_inputs_come_from() -> None:
    """With inputs in several jobs, the one from which most streams enter takes the part; the rest is bridged."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > k:sink", "x")
    floor.submit("t:source{'source': 'traffic'} > p:split.in..even > k:sink p.odd > k", "y")
    floor.strategy = "pack"
    placed = floor.submit(
        "s:source > j:join.left t:source{'source': 'traffic'} > p:split.in..even > j.right p.odd > j.right j > k:sink",
        "z",
    )
    assert ((), TWO) == (placed.opens, floor.job("z", "j"))
    assert {Bridge(Instance(1), "out", TWO): 1} == dict(floor.jobs.bridges)


def test_pack_counts_a_stream_once_however_many_read_it() -> None:
    """A stream that several tasks of a part read needs one bridge, and so counts once."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > k:sink", "x")
    floor.submit("t:source{'source': 'traffic'} > k:sink", "y")
    floor.strategy = "pack"
    floor.submit(
        "s:source > j:join.left t:source{'source': 'traffic'} > j.right t > a:map > j.right j > k:sink a > k", "z"
    )
    assert ONE == floor.job("z", "j")
    assert {Bridge(Instance(3), "out", ONE): 2} == dict(floor.jobs.bridges)


def test_pack_keeps_the_graph_of_jobs_acyclic() -> None:
    """A part with inputs in two bridged jobs joins the one downstream; the other would close a cycle."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    floor.strategy = "pack"
    floor.submit("s:source > a:map > j:join.left s > j.left a > b:window > j.right j > k:sink", "z")
    assert (TWO, TWO) == (floor.job("z", "j"), floor.job("z", "k"))
    assert {Bridge(Instance(1), "out", TWO): 1, Bridge(Instance(2), "out", TWO): 2} == dict(floor.jobs.bridges)


def test_pack_follows_bridges_all_the_way() -> None:
    """A job far upstream of an input closes a cycle as well; where none is left, a new job is opened."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    floor.submit("s:source > a:map > b:window > c:lab:four > m:sink", "z")
    floor.strategy = "pack"
    placed = floor.submit("s:source > a:map > b:window > c:lab:four > d:lab:one > n:sink", "w")
    assert ((FOUR, "host"),) == placed.opens
    assert {1: [1, 2, 3], 2: [4, 5], 3: [6, 7], 4: [8, 9]} == floor.layout()


def test_pack_sees_the_bridges_of_the_same_placement() -> None:
    """A part of a residue may not close a cycle with bridges that an earlier part of it needs."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > k:sink", "x")
    floor.submit("t:source{'source': 'traffic'} > p:split.in..even > k:sink p.odd > k", "y")
    floor.strategy = "pack"
    first = "s:source > i:join.left t:source{'source': 'traffic'} > i.right i > k:sink"
    second = "t > p:split.in..even > j:join.right p.odd > j.right s > j.left j > l:sink"
    placed = floor.submit(f"{first} {second}", "z")
    assert ((), ONE, ONE) == (placed.opens, floor.job("z", "i"), floor.job("z", "j"))


def test_pack_remembers_all_bridges_of_the_same_placement() -> None:
    """Nor with those of a part before the last, here one that joined a job before another opened one."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > a:lab:one > k:sink", "x")
    y = "t:source{'source': 'traffic'} > p:split.in..even > q:lab:one"
    floor.submit(f"{y} > k:sink p.odd > l:sink", "y")
    floor.strategy = "pack"
    first = "s:source > i:join.left t > i.right i > k:sink"
    second = "p.odd > h:lab:four > l:sink"
    third = "q > j:join.right p.even > j.right s > j.left j > m:sink"
    floor.submit(f"{y} {first} {second} {third}", "z")
    assert [ONE, THREE, ONE] == [floor.job("z", task) for task in "ihj"]


def test_pack_joins_a_job_that_the_same_placement_opened() -> None:
    """Parts that their inputs' job has no room for share a new one."""
    floor = Floor()
    floor.submit("s:source > a:lab:three > k:sink", "x")
    placed = floor.submit("s:source > b:lab:two{'add': 1} > k:sink s > c:lab:two > l:sink", "y")
    assert ((TWO, "host"),) == placed.opens
    assert ((Bridge(Instance(1), "out", TWO), 2),) == placed.crossings


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_task_beyond_any_capacity(strategy: str) -> None:
    """A task that alone exceeds the capacity gets a job to itself, and nothing joins it."""
    floor = Floor(strategy=strategy)
    floor.submit("s:source > a:lab:five > b:map > k:sink", "x")
    assert {1: [1], 2: [2], 3: [3, 4]} == floor.layout()
    assert {Bridge(Instance(1), "out", TWO): 1, Bridge(Instance(2), "out", THREE): 1} == dict(floor.jobs.bridges)
    assert 5 / 8 == floor.jobs.jobs[TWO].busy
    floor.submit("s:source > a:lab:five > l:file", "y")
    assert TWO != floor.job("y", "l")


HOUR = datetime(2024, 3, 1, 7, tzinfo=UTC)
BASE = "s:source > a:map > b:window > k:sink"


def ran(text: str = BASE, dataflow: str = "x", tenant: str = "bob") -> RunningGraph:
    running = RunningGraph()
    running.advance(merge(running, flow(text, dataflow, tenant), NOW + timedelta(seconds=17, microseconds=5)))
    return running


def test_where_nothing_runs() -> None:
    """Everything would start, the document's tasks sorted by id."""
    expected = Explanation(reuses=(), starts=("a", "b", "k", "s"), collapses=(), distinct=4, residue=4)
    assert expected == explain(RunningGraph(), flow(BASE), NOW)


def test_reuse_of_running_tasks() -> None:
    """A reused task with state says the hour since when it runs, one without says nothing."""
    expected = Explanation(
        reuses=(Reuse(task="a", since=None), Reuse(task="b", since=HOUR), Reuse(task="s", since=None)),
        starts=("c", "l"),
        collapses=(),
        distinct=5,
        residue=2,
    )
    later = NOW + timedelta(days=1)
    assert expected == explain(ran(), flow("s:source > a:map > b:window > c:echo > l:sink"), later)


@pytest.mark.parametrize("kind", ["window", "count"])
def test_state_of_either_kind_has_a_history(kind: str) -> None:
    """Whether state is kept per stream or per key, its beginning is named."""
    text = f"s:source > b:{kind} > k:sink"
    assert Reuse(task="b", since=HOUR) in explain(ran(text), flow(text), NOW).reuses


def test_collapses() -> None:
    """Equivalent tasks of the document are grouped, whether they are reused or start, and count once."""
    text = "s:source > a:map > k:sink s > b:map > l:sink s > c:echo > m:sink s > d:echo > n:sink s > e:count > o:sink"
    expected = Explanation(
        reuses=(Reuse(task="a", since=None), Reuse(task="b", since=None), Reuse(task="s", since=None)),
        starts=("c", "d", "e", "k", "l", "m", "n", "o"),
        collapses=(("a", "b"), ("c", "d"), ("k", "l"), ("m", "n")),
        distinct=7,
        residue=5,
    )
    assert expected == explain(ran(), flow(text), NOW)


def test_fresh_tasks_start() -> None:
    """A fresh task and all that follows it would start although the like of them runs."""
    found = explain(ran(), flow("s:source > a!:map > b:window > k:sink"), NOW)
    assert ((Reuse(task="s", since=None),), ("a", "b", "k")) == (found.reuses, found.starts)


def test_explain_is_the_explanation_of_the_merge() -> None:
    """Explaining a dataflow explains the change that merging it makes, and submits nothing."""
    running, dataflow = ran(), flow(BASE, "y")
    assert explained(running, merge(running, dataflow, NOW)) == explain(running, dataflow, NOW)
    assert ["x"] == list(running.dataflows)


def test_removal_is_not_explained() -> None:
    """Only a submission's change has an explanation."""
    running = ran()
    with pytest.raises(ValueError, match=r"^the change submits nothing; explain one that merge made$"):
        explained(running, unmerge(running, "x"))


def crossing(strategy: str) -> Floor:
    """Two jobs, and a dataflow with a busy way from each into a join, placed by a strategy."""
    floor = Floor(strategy="launch", batch=0.05)
    floor.submit("s:source > a:lab:one > b:map > k:sink", "x")
    floor.submit("t:source{'source': 'traffic'} > c:window > d:window > k:sink", "y")
    floor.strategy = strategy
    floor.submit(
        "s:source > a:lab:one > e:lab:one > j:join.left t:source{'source': 'traffic'} > c:window > f:lab:three > "
        "j.right j > k:sink",
        "z",
    )
    return floor


def test_a_plan_saves_jobs_that_packing_opens() -> None:
    """Packing has the whole residue join one job or none; a plan has each way join the job that it comes from."""
    assert {1: [1, 2, 3, 4], 2: [5, 6, 7, 8], 3: [9], 4: [10, 11, 12]} == crossing("pack").layout()
    planned = crossing("plan")
    assert {1: [1, 2, 3, 4, 9, 11, 12], 2: [5, 6, 7, 8, 10]} == planned.layout()
    assert [Bridge(Instance(10), "out", ONE)] == list(planned.jobs.bridges)
