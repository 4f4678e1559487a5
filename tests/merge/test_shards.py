"""Work, shards and paces by example: what tasks need, who gets shards, and which jobs may beat slower."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags.dataflow import evenly
from dags.vocabulary import Basis
from merge import (
    ASSUMED_BUSY,
    Conditions,
    Costs,
    Host,
    Instance,
    JobId,
    Jobs,
    MeasuredCosts,
    Regime,
    RunningGraph,
    Submit,
    decide,
    isolate,
    rescaled,
)
from merge.paces import LONGEST_PACE, repaced
from merge.shards import DividedWork, WholePart, as_measured, divided_work
from merge.work import EVENT_SECONDS, LEAST_BUSY, TaskEstimate, estimated, placed_busy
from tests.merge.floor import Floor
from tests.notation import flow
from tests.strategies import START

ONE, TWO, THREE = JobId(1), JobId(2), JobId(3)
LARGE = Host(name="host", cores=8.0)
WORK = {"lab:one": 1 / 8, "lab:five": 5 / 8, "lab:ten": 10 / 8, "window": 1 / 8, "count": 6 / 8, "map": 1 / 8}


def floor(*texts: str, strategy: str = "pack", hosts: tuple[Host, ...] = (LARGE,)) -> Floor:
    """A floor with many cores, and each dataflow placed by what it takes."""
    made = Floor(work=WORK, hosts=hosts, strategy=strategy)
    for number, text in enumerate(texts):
        made.submit(text, str(number))
    return made


def outgrown(*texts: str, hosts: tuple[Host, ...] = (LARGE,)) -> Floor:
    """One job, whose tasks have become dearer since they were placed there."""
    made = Floor(work={}, hosts=hosts)
    for number, text in enumerate(texts):
        made.submit(text, str(number))
    made.work = WORK
    assert [ONE] == list(made.jobs.jobs)
    return made


def work(text: str) -> DividedWork:
    """The work of one dataflow."""
    made = Floor(work=WORK)
    made.submit(text, "0")
    return divided_work(made.running.tasks.values(), made.running.tasks, made.costs().busy)


def shards(made: Floor) -> dict[int, int]:
    return {job: made.jobs.jobs[job].shards for job in sorted(made.jobs.jobs)}


def test_what_keeps_nothing_is_spread() -> None:
    """So is what counts by a key that comes with the events."""
    assert DividedWork(spread=11 / 8, busiest=10 / 8) == work("s:source > a:lab:one > b:lab:ten > k:sink")
    assert DividedWork(spread=6 / 8, keyed=6 / 8, busiest=6 / 8) == work("s:source > a:count > k:sink")


def test_a_state_for_the_whole_stream_keeps_all_in_one_place() -> None:
    """And a key behind a task that may have changed it does, and two counts that are by different keys."""
    for text, busy, busiest in (
        ("s:source > a:lab:five > w:window > k:sink", 6 / 8, 5 / 8),
        ("s:source > a:map > b:count > k:sink", 7 / 8, 6 / 8),
        ("s:source > a:count > k:sink s > b:count{'by': 'value'} > k", 12 / 8, 6 / 8),
    ):
        assert (WholePart(work(text).whole[0].instances, busy, busiest),) == work(text).whole


def test_parts_that_share_no_stream_are_divided_each_for_itself() -> None:
    """Those that read the same stream are one, even if each has a source of its own."""
    made = Floor(work=WORK)
    made.submit("s:source{'source': 'weather'} > a:lab:five > k:sink", "0")
    made.submit("s:source{'source': 'traffic'} > w:window > k:sink", "1")
    apart = divided_work(made.running.tasks.values(), made.running.tasks, made.costs().busy)
    assert (5 / 8, [1 / 8]) == (apart.spread, [part.busy for part in apart.whole])
    made.submit("s!:source{'source': 'weather'} > v!:window{'size': 9} > k:sink", "2")
    together = divided_work(made.running.tasks.values(), made.running.tasks, made.costs().busy)
    assert (0.0, [6 / 8, 1 / 8]) == (together.spread, [part.busy for part in together.whole])


def test_a_dataflow_that_is_too_much_for_one_core_gets_a_job_with_shards() -> None:
    """On a host with one core it is cut into jobs as before."""
    text = "s:source > a:lab:one > b:lab:ten > c:lab:one > k:sink"
    assert {1: 3} == shards(floor(text))
    assert {1: [1, 2, 3, 4, 5]} == floor(text).layout()
    assert {1: 1, 2: 1, 3: 1} == shards(floor(text, hosts=(Host(name="host", cores=1.0),)))


def test_the_cores_of_a_machine_are_there_for_each_of_its_hosts() -> None:
    """A job on one of several may take all of them, though each alone has only one."""
    parts = tuple(Host(name=name, cores=1.0, machine="m") for name in "abcd")
    text = "s:source > a:lab:one > b:lab:ten > c:lab:one > k:sink"
    assert {1: 3} == shards(floor(text, hosts=parts))


def test_what_cannot_be_divided_is_cut_as_before() -> None:
    """A window needs all events in one place, so what feeds it is not split for it."""
    made = floor("s:source > a:lab:five > w:window > k:sink")
    assert {1: [1], 2: [2], 3: [3, 4]} == made.layout()
    # Alone, the task that is too much for one core keeps nothing.
    assert {1: 1, 2: 2, 3: 1} == shards(made)


def test_a_host_with_enough_cores_comes_first_for_what_needs_them() -> None:
    """Even if another has more to spare of fewer."""
    hosts = (Host(name="few", cores=1.5), Host(name="many", cores=4.0))
    made = floor("s!:source > a:lab:ten > k:sink", hosts=hosts)
    assert ("many", 3) == (made.jobs.jobs[ONE].host, made.jobs.jobs[ONE].shards)


def test_a_graft_joins_a_job_with_shards_if_these_have_room() -> None:
    """One that would undo the division gets a job of its own, with a bridge."""
    heavy = "s:source > a:lab:ten > k:sink"
    made = floor(heavy, "s:source > a:lab:ten > b:lab:one{'add': 2} > k:sink")
    assert ({1: [1, 2, 3, 4, 5]}, {1: 3}) == (made.layout(), shards(made))
    made.submit("s:source > a:lab:ten > w:window > k:sink", "3")
    assert ({1: [1, 2, 3, 4, 5], 2: [6, 7]}, {1: 3, 2: 1}) == (made.layout(), shards(made))


def test_an_overloaded_job_is_split_before_anything_is_isolated() -> None:
    """It gets the shards that it needs, and its tasks are noted as busy as was measured."""
    made = outgrown("s:source > a:lab:ten > k:sink", "s:source > b:lab:one > k:sink")
    measured = {ONE: 1.5}
    assert isolate(made.running, made.jobs, made.hosts, made.costs(), measured) is None
    (change,) = rescaled(made.running, made.jobs, made.hosts, made.costs(), measured)
    # As much dearer as its batches take longer than its tasks account for.
    assert (ONE, 3) == (change.job, change.shards)
    assert (
        "its tasks take 1.50 cores, so a batch takes 1.50 s of its 1 s with 1 shard and 0.50 s with 3 shards"
        == change.why
    )
    made.jobs = made.jobs.apply(change.assignment(made.jobs))
    assert (3, 11 / 8) == (made.jobs.jobs[ONE].shards, made.jobs.jobs[ONE].busy)
    assert () == rescaled(made.running, made.jobs, made.hosts, made.costs(), {ONE: 0.5})


def test_all_work_is_as_much_dearer_as_its_batches_take_longer() -> None:
    """Also what is kept in one place; where batches are quicker than expected, or work is little, it stays as it is."""
    part = WholePart(frozenset({1}), 4 / 8, 2 / 8)
    given = DividedWork(spread=2 / 8, keyed=1 / 8, busiest=3 / 8, whole=(part,))
    costs = Costs(pace=2.0, batch=1 / 8, busy={})
    dearer = as_measured(given, costs, 1 / 8 + 2 * 2 * given.fullest(1), 1)
    assert (
        replace(given, spread=4 / 8, keyed=2 / 8, busiest=6 / 8, whole=(WholePart(frozenset({1}), 8 / 8, 4 / 8),))
        == dearer
    )
    assert given == as_measured(given, costs, 0.5, 1)
    little = replace(given, spread=0.0, whole=())
    assert little == as_measured(little, costs, 5.0, 1)


def test_what_shards_do_not_help_is_isolated() -> None:
    """Of a part that cannot be divided a piece moves, as on one core."""
    made = outgrown("s:source > a:lab:five > b:count > k:sink")
    assert () == rescaled(made.running, made.jobs, made.hosts, made.costs(), {ONE: 1.5})
    assert made.isolate({1: 1.5}) is not None


def test_a_job_that_has_little_to_do_loses_shards() -> None:
    """One whose batches were not measured keeps them, and so does one that catches up."""
    made = floor("s:source > a:lab:ten > k:sink")
    made.work = {"lab:ten": 1 / 8}
    given = made.running, made.jobs, made.hosts, made.costs()
    assert [(ONE, 1)] == [(each.job, each.shards) for each in rescaled(*given, {ONE: 0.1})]
    assert () == rescaled(*given, {})
    assert () == rescaled(*given, {ONE: 0.1}, apart={ONE})


def test_a_job_that_all_cores_are_not_enough_for_leaves_one_to_the_others() -> None:
    """Alone on its host it takes them all; what would fit may take them all beside others, because it leaves time."""
    heavy = "s!:source > a:lab:ten > k:sink"
    for texts, cores, expected in (
        ((heavy,), 2.0, 2),
        ((heavy, "s!:source > b:lab:one > k:sink"), 2.0, None),
        ((heavy, "s!:source > b:lab:one > k:sink"), 3.0, 3),
    ):
        made = Floor(work={}, strategy="launch")
        for number, text in enumerate(texts):
            made.submit(text, str(number))
        made.work = WORK
        found = rescaled(made.running, made.jobs, (Host(name="host", cores=cores),), made.costs(), {ONE: 1.25})
        assert [expected] * bool(expected) == [each.shards for each in found]


def test_a_job_gives_up_the_shards_that_its_host_has_no_cores_for() -> None:
    """Workers have left the cluster: more tasks than cores would only wait for each other."""
    made = floor("s:source > a:lab:ten > k:sink")
    (change,) = rescaled(made.running, made.jobs, (Host(name="host", cores=2.0),), made.costs(), {ONE: 0.7})
    assert 2 == change.shards


def test_those_with_most_to_do_come_first() -> None:
    """What gives shards up comes after what needs them."""
    made = floor("s!:source > a:lab:ten > k:sink", "s!:source > a:lab:one > k:sink", strategy="launch")
    made.work = {"lab:ten": 1 / 16, "lab:one": 3.0}
    changes = rescaled(made.running, made.jobs, made.hosts, made.costs(), {ONE: 0.1, TWO: 3.0})
    assert [(TWO, 6), (ONE, 1)] == [(each.job, each.shards) for each in changes]


def test_consolidation_keeps_a_job_with_shards() -> None:
    """And joins what was cut for want of cores once a host has them."""
    text = "s:source > a:lab:one > b:lab:ten > c:lab:one > k:sink"
    made = floor(text)
    made.consolidate()
    assert ({1: [1, 2, 3, 4, 5]}, {1: 3}) == (made.layout(), shards(made))
    cut = floor(text, hosts=(Host(name="host", cores=1.0),))
    cut.hosts = (LARGE,)
    cut.consolidate()
    assert [[1, 2, 3, 4, 5]] == list(cut.layout().values())
    assert [3] == list(shards(cut).values())


def test_whole_parts_go_where_the_engine_puts_them() -> None:
    """Two whose first tasks fall on the same shard are not relieved by a second one."""
    costs = Costs(pace=1.0, batch=0.0, busy={})
    same = DividedWork(whole=(WholePart(frozenset({2, 3}), 0.4, 0.4), WholePart(frozenset({4}), 0.4, 0.4)))
    other = DividedWork(whole=(WholePart(frozenset({2, 3}), 0.4, 0.4), WholePart(frozenset({5}), 0.4, 0.4)))
    assert [0.8, 0.4] == [each.fullest(2) for each in (same, other)]
    assert not costs.fits(0.8)


def test_instances_are_noted_in_order() -> None:
    """So that the same measurements always make the same step."""
    made = outgrown("s:source > a:lab:ten > k:sink")
    (change,) = rescaled(made.running, made.jobs, made.hosts, made.costs(), {ONE: 1.3})
    assert [Instance(1), Instance(2), Instance(3)] == [each for each, _ in change.assignment(made.jobs).places]


def test_groups_are_assigned_by_their_events() -> None:
    """A hot group is left with a shard of its own, and its job gets no more shards than that leaves of use."""
    made = floor("s:source > a:count > k:sink")
    assert {1: 2} == shards(made)
    loads = [1.0] * 128
    loads[4] = 127.0
    given = made.running, made.jobs, made.hosts, made.costs(), {ONE: 0.4}
    (change,) = rescaled(*given, groups={ONE: loads})
    assert "the fullest of its 2 shards has 75% of the events that are divided by key, and 5" in change.why
    made.jobs = made.jobs.apply(change.assignment(made.jobs))
    job = made.jobs.jobs[ONE]
    assert (2, change.groups) == (job.shards, job.groups)
    # Some that have nothing to do with the hot one have left its shard.
    assert {0} == {before for before, after in zip(evenly(2), job.groups, strict=True) if before != after}
    assert 0 == job.groups[4]
    assert () == rescaled(made.running, made.jobs, made.hosts, made.costs(), {ONE: 0.4}, groups={ONE: loads})


def test_each_job_is_looked_at() -> None:
    """One that fits and one that is gone leave another to be helped; one that is apart is not."""
    made = Floor(work={}, hosts=(LARGE,), strategy="launch")
    made.submit("s:source > a:map > k:sink", "x")
    made.submit("s:source > a:count > k:sink", "y")
    made.work = WORK
    given = made.running, made.jobs, made.hosts, made.costs(), {JobId(0): 0.75, ONE: 0.1, TWO: 0.75}
    assert [TWO] == [change.job for change in rescaled(*given)]
    assert () == rescaled(*given, apart={TWO})


def test_no_shards_are_added_for_one_hot_group() -> None:
    """With all of its events under one key a job has no use for more, and gives them up."""
    made = outgrown("s:source > a:count > k:sink")
    hot = [0.0] * 128
    hot[3] = 1.0
    given = made.running, made.jobs, made.hosts, made.costs(), {ONE: 0.75}
    assert [2] == [each.shards for each in rescaled(*given)]
    assert () == rescaled(*given, groups={ONE: hot})


def paced_floor(*texts: str, strategy: str = "pack") -> Floor:
    made = Floor(strategy=strategy, batch=0.125)
    for number, text in enumerate(texts):
        made.submit(text, str(number))
    return made


def paces(made: Floor, latencies: dict[str, float], present: dict[JobId, float] | None = None) -> dict[int, float]:
    """The jobs that change, each with its new pace."""
    found = repaced(made.running, made.jobs, latencies, made.costs(), present or {})
    return {each.job: each.pace for each in found}


def test_a_job_whose_only_reader_allows_it_beats_slower() -> None:
    """An event may wait one and a half paces for its batch, and that has to stay within what is allowed."""
    made = paced_floor("s:source > a:map > k:sink")
    assert {ONE: 5.0} == paces(made, {"0": 10.0})
    assert {ONE: 3.0} == paces(made, {"0": 5.0})
    assert {} == paces(made, {"0": 2.0})


def test_a_task_that_was_not_measured_counts_as_idle() -> None:
    """So its job beats as slowly as its readers allow."""
    made = paced_floor("s:source > a:map > k:sink")
    costs = replace(made.costs(), busy={})
    assert [5.0] == [change.pace for change in repaced(made.running, made.jobs, {"0": 10.0}, costs, {})]


def test_a_pace_says_why() -> None:
    """It names the reader that allows least, and what is saved; or that one allows no more than usual."""
    made = paced_floor("s:source > a:map > k:sink", "s:source > a:map > l:file")
    (slower,) = repaced(made.running, made.jobs, {"0": 10.0, "1": 30.0}, made.costs(), {})
    assert (
        "all its readers allow it, 0 the least: 10 s for this job, so batches begin every 5 s, which saves 0.100 cores"
    ) == slower.why
    (usual,) = repaced(made.running, made.jobs, {"0": 10.0}, made.costs(), {ONE: 5.0})
    assert (1.0, "a reader allows no more than the usual 1 s between batches") == (usual.pace, usual.why)
    # Twice the usual pace is the first step, and no less is a pace.
    assert {ONE: 2.0} == paces(made, {"0": 3.2, "1": 9.0})
    assert {} == paces(made, {"0": 3.1, "1": 9.0})


def test_a_reader_without_a_bound_keeps_the_usual_pace() -> None:
    """Even where it shares no task: the job is one."""
    made = paced_floor("s:source > a:map > k:sink", "s:source > b:count > k:sink")
    assert [ONE] == list(made.jobs.jobs)
    assert {} == paces(made, {"0": 10.0})
    assert {ONE: 5.0} == paces(made, {"0": 10.0, "1": 30.0})


def test_who_only_reads_the_same_source_elsewhere_is_no_reader() -> None:
    """Each job reads the spool of a source for itself."""
    made = paced_floor("s:source > a:map > k:sink", "s:source > b:count > k:sink", strategy="launch")
    assert [ONE, TWO] == sorted(made.jobs.jobs)
    assert {ONE: 5.0} == paces(made, {"0": 10.0})


def test_a_row_of_jobs_shares_what_its_dataflow_allows() -> None:
    """Events wait in each of them."""
    made = paced_floor("s:source > a:map > k:sink", "s:source > a:map > b:count > k:sink", strategy="launch")
    assert [ONE, TWO] == sorted(made.jobs.jobs)
    assert {ONE: 5.0, TWO: 5.0} == paces(made, {"0": 30.0, "1": 20.0})


def test_a_slowed_job_is_quick_again_once_a_reader_demands_it() -> None:
    """And a job that has the right pace is left alone."""
    made = paced_floor("s:source > a:map > k:sink")
    assert {ONE: 1.0} == paces(made, {}, {ONE: 5.0})
    assert {} == paces(made, {"0": 10.0}, {ONE: 5.0})


def test_a_busy_job_beats_less_slowly() -> None:
    """Its batches take longer the more events they hold."""
    assert {ONE: 5.0} == paces(paced_floor("s:source > a:map > k:sink"), {"0": 8.0})
    assert {ONE: 3.0} == paces(paced_floor("s:source > a:lab:two > k:sink"), {"0": 8.0})
    assert {ONE: LONGEST_PACE} == paces(paced_floor("s:source > a:map > k:sink"), {"0": 1e6})


CHAIN = flow("s:source > a:map > b:count > k:sink")
AT = CHAIN.places
HOST = Host(name="h", cores=8.0)


def estimates(measured: MeasuredCosts, **runs: int) -> dict[str, TaskEstimate]:
    """The estimate of each task of the chain, of which some run as these instances."""
    instances: list[Instance | None] = [None] * len(CHAIN.tasks)
    for task, instance in runs.items():
        instances[AT[task]] = Instance(instance)
    found = estimated(CHAIN, instances, measured)
    return {task: found[AT[task]] for task in AT}


def test_a_task_that_runs_is_measured_where_it_runs() -> None:
    """Whatever others of its type cost, and however few of its sources' events come to it."""
    measured = MeasuredCosts(busy={2: 0.05}, by_type={"map": 9.0}, rates={"weather": 100.0})
    found = estimates(measured, a=2)["a"]
    assert (0.05, Basis.MEASURED) == (found.busy, found.basis)


def test_the_type_stands_in_for_a_task_that_would_start() -> None:
    """The cost of an event to its type, times the events of its source that come to it."""
    measured = MeasuredCosts(
        by_type={"map": 0.001, "count": 0.002}, rates={"weather": 100.0}, selectivity={2: Fraction(1, 4)}
    )
    found = estimates(measured, a=2)
    assert pytest.approx(0.1) == found["a"].busy
    assert pytest.approx(0.05) == found["b"].busy
    assert {Basis.TYPE} == {found["a"].basis, found["b"].basis}


def test_what_was_not_measured_is_assumed() -> None:
    """An event costs something to a type that never ran; of an unknown source not even the rate is known."""
    known = estimates(MeasuredCosts(rates={"weather": 100.0}))["b"]
    unknown = estimates(MeasuredCosts(rates={"traffic": 100.0}))["b"]
    assert (EVENT_SECONDS * 100.0, Basis.ASSUMED, True) == (known.busy, known.basis, known.known)
    assert (ASSUMED_BUSY, Basis.ASSUMED, False) == (unknown.busy, unknown.basis, unknown.known)


def test_events_that_meet_add_up() -> None:
    """An unknown source sends one event, so that a task where streams meet counts more than those above it."""
    meets = flow("s:source > a:map > k:sink s > b:map{'add': 1} > k t:source{'source': 'traffic'} > b")
    found = estimated(meets, [None] * len(meets.tasks), MeasuredCosts())
    assert {"a": 1.0, "b": 2.0, "k": 3.0} == {
        task: found[meets.places[task]].busy / ASSUMED_BUSY for task in ("a", "b", "k")
    }


def test_where_only_some_sources_are_known_a_task_counts_once() -> None:
    """The events of a known source and one for each unknown one would not add up to anything."""
    meets = flow("s:source > a:map > k:sink s > b:map{'add': 1} > k t:source{'source': 'traffic'} > b")
    found = estimated(meets, [None] * len(meets.tasks), MeasuredCosts(rates={"weather": 100.0}))
    assert [ASSUMED_BUSY, ASSUMED_BUSY] == [found[meets.places[task]].busy for task in ("b", "k")]
    assert (Basis.ASSUMED, False) == (found[meets.places["k"]].basis, found[meets.places["k"]].known)


@pytest.mark.parametrize(
    ("busy", "basis", "known", "placed"),
    [
        (0.25, Basis.MEASURED, True, 0.25),
        (0.25, Basis.MEASURED, False, 0.25),
        (0.1, Basis.TYPE, True, round(0.1 * 2**20) / 2**20),
        (1e-9, Basis.TYPE, True, LEAST_BUSY),
        (3 * ASSUMED_BUSY, Basis.ASSUMED, False, ASSUMED_BUSY),
    ],
)
def test_placement_counts_in_exact_parts(busy: float, basis: Basis, *, known: bool, placed: float) -> None:
    """Sums of them are the same in any order; a task counts for something in any case."""
    assert placed == placed_busy(TaskEstimate(busy=busy, basis=basis, known=known))


@pytest.mark.parametrize(("rate", "jobs"), [(None, 1), (1.0, 1), (400.0, 2), (1_000.0, 4)])
def test_what_starts_is_placed_by_what_was_measured(rate: float | None, jobs: int) -> None:
    """The faster the source, the fewer of the same tasks one job takes; a count costs a thousandth of a second."""
    text = "s:source > a:count{'by': 'place'} > k:sink s > b:count{'by': 'value'} > k"
    measured = MeasuredCosts(by_type={"count": 0.001}, rates={} if rate is None else {"weather": rate})
    conditions = Conditions(now=START, hosts=(HOST,), measured=measured)
    step = decide(RunningGraph(), Jobs(), Submit(dataflow=flow(text)), conditions)
    assert jobs == len(step.opens)


SCATTERED = Regime(dataflows=20.0, work=0.2, shared=0.15, jobs=20.0, bridges=10.0, pace=10.0, batch=0.06, bridge=0.001)
"""A batch costs 60 ms and holds 100 ms of work, of which sharing saves a quarter."""


def test_each_saves_what_it_is_for() -> None:
    """Sharing work, less its bridges; packing the batches of all jobs but one; defragmenting those and the bridges."""
    found = SCATTERED.saves
    assert 0.1 == pytest.approx(SCATTERED.per_batch)
    assert 0.05 - 0.01 == pytest.approx(found.sharing)
    assert 19 * 0.006 == pytest.approx(found.packing)
    assert 19 * 0.006 + 0.01 == pytest.approx(found.defragmenting)
    assert "defragmenting" == found.most
    assert 0.05 - 0.01 + 3 * 0.006 == pytest.approx(replace(SCATTERED, jobs=17.0, spared=3.0).saves.sharing)


def test_sharing_counts_most_beyond_the_crossover_and_packing_before_it() -> None:
    """With little work in a batch sharing costs more than it saves."""
    over = SCATTERED.crossover
    assert over is not None
    before, after = (SCATTERED.at(times * over).saves for times in (0.99, 1.01))
    assert before.packing > before.sharing
    assert after.sharing > after.packing
    assert SCATTERED.at(0.001).saves.sharing < 0.0


def test_full_jobs_cannot_be_packed() -> None:
    """A job may be busy for half its pace, so that much work needs many of them."""
    assert 0.0 == SCATTERED.at(8.0).saves.packing
    assert SCATTERED.at(0.1).saves.packing > SCATTERED.at(1.0).saves.packing > 0.0


def test_where_nothing_is_shared_sharing_never_comes_to_count() -> None:
    """And where nothing runs nothing saves anything."""
    assert None is replace(SCATTERED, shared=SCATTERED.work).crossover
    nothing = replace(SCATTERED, dataflows=0.0, work=0.0, shared=0.0, jobs=0.0, bridges=0.0)
    assert "" == nothing.saves.most
    assert (0.0, 0.0, None) == (nothing.per_batch, nothing.at(1.0).work, nothing.crossover)


@given(
    dataflows=st.integers(1, 1_000),
    kept=st.floats(0.0, 1.0),
    jobs=st.integers(1, 1_000),
    bridges=st.integers(0, 1_000),
    one=st.floats(1e-4, 5.0),
    other=st.floats(1e-4, 5.0),
)
def test_what_sharing_is_ahead_grows_with_the_work(  # noqa: PLR0913 - what a regime is made of
    *, dataflows: int, kept: float, jobs: int, bridges: int, one: float, other: float
) -> None:
    """So there is at most one crossover."""
    regime = replace(
        SCATTERED, dataflows=dataflows, work=1.0, shared=kept, jobs=jobs, spared=dataflows - jobs, bridges=bridges
    )
    less, more = sorted((one, other))
    assert regime.at(less).ahead <= regime.at(more).ahead + 1e-9
