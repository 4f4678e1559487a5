"""Jobs, assignments, and what a removal releases, by example."""

from dataclasses import replace

import pytest

from merge import (
    Assignment,
    Bridge,
    Costs,
    Home,
    Host,
    Instance,
    Job,
    JobId,
    Jobs,
    RunningGraph,
    StaleChange,
    release,
)
from merge.jobs import crossings, parents
from tests.merge.floor import Floor

A, B, C = Instance(1), Instance(2), Instance(3)
ONE, TWO, THREE = JobId(1), JobId(2), JobId(3)
BASE = Jobs().apply(
    Assignment(
        base=0,
        opens=((ONE, "host"), (TWO, "other")),
        places=((A, Home(ONE, 0.25)), (B, Home(ONE, 0.5)), (C, Home(TWO, 0.125))),
        crossings=((Bridge(B, "out", TWO), 2),),
    )
)


def these(*instances: int) -> frozenset[Instance]:
    return frozenset(map(Instance, instances))


def test_jobs_that_were_written_down_are_the_same() -> None:
    """All that is derived from them is derived again: who sends and gets bridges, who feeds whom, and loads."""
    again = Jobs.of(BASE.jobs.values(), BASE.homes, BASE.bridges, BASE.next_job)
    assert replace(BASE, version=0) == replace(again, version=0)
    assert {B: {Bridge(B, "out", TWO)}} == {parent: set(those) for parent, those in again.leaving.items()}
    assert {TWO: {Bridge(B, "out", TWO)}} == {job: set(those) for job, those in again.entering.items()}
    assert {TWO: {ONE}} == {job: set(those) for job, those in again.feeding.items() if those}
    assert {ONE: 0.75, TWO: 0.125} == again.loads


def test_costs_fit_up_to_half_the_pace() -> None:
    """A predicted batch time of exactly half the pace is within capacity, anything more is not."""
    costs = Costs(pace=2.0, batch=0.5, busy={})
    assert [True, True, False] == [costs.fits(busy) for busy in (0.0, 0.25, 0.2500001)]


def test_costs_no_room_for_any_batch() -> None:
    """Where a batch alone takes more than half the pace, not even an idle job fits."""
    assert not Costs(pace=1.0, batch=0.75, busy={}).fits(0.0)


def test_costs_cores_of_a_job() -> None:
    """A job takes what its tasks work and, for each pace, a batch."""
    assert 0.75 == Costs(pace=2.0, batch=0.5, busy={}).cores(0.5)


def test_costs_bridges_and_paused_tasks_are_free_unless_said() -> None:
    """Without calibration, bridges and paused tasks cost nothing."""
    costs = Costs(pace=1.0, batch=0.0, busy={})
    assert (0.0, 0.0) == (costs.bridge, costs.paused)


def test_host_offers_no_tags_unless_said() -> None:
    """A host advertises no tags by default."""
    assert frozenset() == Host(name="host", cores=1.0).tags


def test_jobs_begin_empty() -> None:
    """The first jobs are none, at version 0, and the first to open is number 1."""
    jobs = Jobs()
    assert (0, {}, {}, {}, 1) == (jobs.version, dict(jobs.jobs), dict(jobs.homes), dict(jobs.bridges), jobs.next_job)


def test_apply_opens_jobs_and_places_instances() -> None:
    """Opened jobs get the instances placed in them, with the sum of their work, and the next job's number moves on."""
    assert {
        ONE: Job(id=ONE, host="host", active=frozenset({A, B}), busy=0.75),
        TWO: Job(id=TWO, host="other", active=frozenset({C}), busy=0.125),
    } == dict(BASE.jobs)
    assert {A: Home(ONE, 0.25), B: Home(ONE, 0.5), C: Home(TWO, 0.125)} == dict(BASE.homes)
    assert {Bridge(B, "out", TWO): 2} == dict(BASE.bridges)
    assert (1, THREE) == (BASE.version, BASE.next_job)


def test_apply_leaves_the_jobs_before_as_they_were() -> None:
    """Applying an assignment gives other jobs and changes none."""
    before = (dict(BASE.jobs), dict(BASE.homes), dict(BASE.bridges), BASE.version, BASE.next_job)
    BASE.apply(Assignment(base=1, pauses=(C,), stops=(TWO,), crossings=((Bridge(B, "out", TWO), -2),)))
    assert before == (dict(BASE.jobs), dict(BASE.homes), dict(BASE.bridges), BASE.version, BASE.next_job)


def test_apply_moves_an_instance_that_has_a_home() -> None:
    """Placing an instance elsewhere takes it and its work out of the job it was in, and counts its work as said now."""
    moved = BASE.apply(Assignment(base=1, places=((A, Home(TWO, 0.0625)),)))
    assert {
        ONE: Job(id=ONE, host="host", active=frozenset({B}), busy=0.5),
        TWO: Job(id=TWO, host="other", active=frozenset({A, C}), busy=0.1875),
    } == dict(moved.jobs)
    assert Home(TWO, 0.0625) == moved.homes[A]


def test_apply_places_an_instance_where_it_is() -> None:
    """Placing an instance in its own job only renews how busy it is."""
    renewed = BASE.apply(Assignment(base=1, places=((A, Home(ONE, 0.375)),)))
    assert Job(id=ONE, host="host", active=frozenset({A, B}), busy=0.875) == renewed.jobs[ONE]


def test_apply_pauses_an_instance_in_its_job() -> None:
    """A paused instance stays in its job's plan, works no more, and has no home."""
    paused = BASE.apply(Assignment(base=1, pauses=(B,)))
    expected = Job(id=ONE, host="host", active=frozenset({A}), paused=frozenset({B}), busy=0.25)
    assert expected == paused.jobs[ONE]
    assert {A, C} == set(paused.homes)


def test_apply_leaves_an_empty_job_idle() -> None:
    """A job whose last task pauses is not busy at all, whatever rounding left of the sums."""
    homes = tuple((Instance(number), Home(ONE, busy)) for number, busy in enumerate((0.1, 0.2, 0.3), 1))
    full = Jobs().apply(Assignment(base=0, opens=((ONE, "host"),), places=homes))
    assert 0.0 == full.apply(Assignment(base=1, pauses=(Instance(3), Instance(1), Instance(2)))).jobs[ONE].busy


def test_apply_stops_a_job_with_what_is_paused_in_it() -> None:
    """A stopped job is gone, and so is every instance paused in it; its number is not used again."""
    stopped = BASE.apply(Assignment(base=1, pauses=(C,), stops=(TWO,)))
    assert [ONE] == list(stopped.jobs)
    assert {A, B} == set(stopped.homes)
    assert THREE == stopped.next_job


def test_apply_knows_which_jobs_feed_a_job() -> None:
    """The jobs that feed another are those where its bridges begin, also once an instance moved or a bridge went."""
    moved = BASE.apply(Assignment(base=1, opens=((THREE, "host"),), places=((B, Home(THREE, 0.5)),)))
    cut = moved.apply(Assignment(base=2, crossings=((Bridge(B, "out", TWO), -2),)))
    assert [{TWO: {ONE}}, {TWO: {THREE}}, {}] == [dict(jobs.feeding) for jobs in (BASE, moved, cut)]


def test_apply_counts_the_streams_of_a_bridge() -> None:
    """A bridge is there as long as some stream needs it."""
    fewer = BASE.apply(Assignment(base=1, crossings=((Bridge(B, "out", TWO), -1),)))
    more = fewer.apply(Assignment(base=2, crossings=((Bridge(B, "out", TWO), 3), (Bridge(A, "out", TWO), 1))))
    none = more.apply(Assignment(base=3, crossings=((Bridge(B, "out", TWO), -4),)))
    assert [
        {Bridge(B, "out", TWO): 1},
        {Bridge(B, "out", TWO): 4, Bridge(A, "out", TWO): 1},
        {Bridge(A, "out", TWO): 1},
    ] == [dict(jobs.bridges) for jobs in (fewer, more, none)]


def test_apply_refuses_a_stale_assignment() -> None:
    """An assignment computed from other jobs than these is refused, and says which."""
    with pytest.raises(StaleChange) as refused:
        BASE.apply(Assignment(base=0))
    assert "the change was computed from version 0 and this is version 1; compute it anew" == str(refused.value)
    assert (0, 1) == (refused.value.base, refused.value.version)


def test_streams_between_jobs() -> None:
    """The graph of jobs has every job, and an edge wherever a bridge leads."""
    graph = BASE.apply(Assignment(base=1, opens=((THREE, "host"),))).streams_between()
    assert ({ONE, TWO, THREE}, [(ONE, TWO)]) == (set(graph.nodes), list(graph.edges))


def test_parents_and_crossings() -> None:
    """Crossings count, for each stream into another job, by how many of the tasks' inputs it is read."""
    floor = Floor()
    floor.submit("s:source > p:split.in..even > j:join.left p.odd > j.right j > k:sink p.even > l:sink", "x")
    split, join = (floor.instance("x", task) for task in "pj")
    tasks = [floor.running.tasks[instance] for instance in sorted(floor.running.tasks)]
    places = dict.fromkeys(floor.running.tasks, ONE) | {join: TWO, floor.instance("x", "l"): TWO}
    assert [split, split] == list(parents(floor.running.tasks[join]))
    expected = ((Bridge(split, "even", TWO), 2), (Bridge(split, "odd", TWO), 1), (Bridge(join, "out", ONE), 1))
    assert expected == crossings(tasks, places)
    assert tuple((bridge, -count) for bridge, count in expected) == crossings(tasks, places, -1)


def test_release_pauses_what_nobody_needs() -> None:
    """A removal pauses its stops, sinks first, in jobs that go on for others."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:file", "y")
    assert Assignment(base=2, pauses=(Instance(5), Instance(4))) == floor.remove("y")
    assert Job(id=ONE, host="host", active=these(1, 2, 3), paused=these(4, 5)) == floor.jobs.jobs[ONE]


def test_release_stops_a_job_that_nobody_needs() -> None:
    """A job left without active tasks stops, paused ones or not, and its bridges close."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink a > c:count > m:sink", "y")
    assert {Bridge(Instance(2), "out", TWO): 2} == dict(floor.jobs.bridges)
    released = floor.remove("y")
    assert ((7, 6, 5, 4), (TWO,)) == (released.pauses, released.stops)
    assert ((Bridge(Instance(2), "out", TWO), -2),) == released.crossings
    assert ({1: [1, 2, 3]}, {}) == (floor.layout(), dict(floor.jobs.bridges))


def test_release_keeps_a_bridge_that_another_consumer_needs() -> None:
    """A bridge with two consumers in a job stays open when one of them goes."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    floor.strategy = "pack"
    floor.submit("s:source > a:map > b:window > d:echo > m:sink a > d", "z")
    assert (TWO, {Bridge(Instance(2), "out", TWO): 2}) == (floor.job("z", "d"), dict(floor.jobs.bridges))
    assert ((Bridge(Instance(2), "out", TWO), -1),) == floor.remove("z").crossings
    assert {Bridge(Instance(2), "out", TWO): 1} == dict(floor.jobs.bridges)


def test_release_of_nothing() -> None:
    """A removal that stops nothing leaves the jobs as they are."""
    assert Assignment(base=1) == release((), BASE)


def test_needed_again_is_a_new_instance_beside_the_paused_one() -> None:
    """What was paused stays so; needed again, its task starts anew in the same job."""
    floor = Floor(strategy="graft")
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    floor.remove("y")
    again = floor.submit("s:source > a:map > b:window > l:sink", "y")
    assert ((6, Home(ONE, 0.0)), (7, Home(ONE, 0.0))) == again.places
    expected = Job(id=ONE, host="host", active=these(1, 2, 3, 6, 7), paused=these(4, 5))
    assert expected == floor.jobs.jobs[ONE]


def test_nothing_runs_and_nothing_is_placed_at_the_end() -> None:
    """Once every dataflow is removed no job, home or bridge is left."""
    floor = Floor(strategy="launch")
    floor.submit("s:source > a:map > k:sink", "x")
    floor.submit("s:source > a:map > b:window > l:sink", "y")
    floor.remove("x")
    assert {1: [1, 2], 2: [4, 5]} == floor.layout()
    floor.remove("y")
    assert ({}, {}, {}) == (dict(floor.jobs.jobs), dict(floor.jobs.homes), dict(floor.jobs.bridges))
    assert RunningGraph().tasks == floor.running.tasks
