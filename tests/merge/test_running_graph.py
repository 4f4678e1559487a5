"""The running graph by example: what changes say and do, its DAGs, the order of tasks, and their users."""

from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Input, Key
from merge import (
    Change,
    DagId,
    DataflowExists,
    Instance,
    NoSuchDataflow,
    RunningDags,
    RunningGraph,
    RunningTask,
    SignatureCollision,
    StaleChange,
    merge,
    unmerge,
)
from merge.running_graph import FEW, Users, with_user, without_user
from merge.tasks import downwards
from tests.catalogue import CATALOGUE
from tests.merge.floor import NOW
from tests.notation import flow

X = "s:source > a:map > k:sink"
Y = "s:source > a:map > b:window > l:sink"
TRAFFIC = "t:source{'source': 'traffic'}"


def ran(*dataflows: str) -> RunningGraph:
    """The running graph of these, named x, y, z in their order."""
    running = RunningGraph()
    for name, text in zip("xyz", dataflows, strict=False):
        running.advance(merge(running, flow(text, name), NOW))
    return running


def test_begins_empty() -> None:
    """At first nothing runs, at version 0, and the first instance will be number 1."""
    running = RunningGraph()
    assert (0, {}, {}, {}, {}, 1) == (
        running.version,
        running.tasks,
        running.index,
        running.users,
        running.dataflows,
        running.next_instance,
    )


def test_a_snapshot_stays_as_it_is() -> None:
    """Whatever comes and goes afterwards, it is the graph of its moment, and so are decisions by it."""
    running, same = ran(X, Y), ran(X, Y)
    snapshot = running.snapshot()
    running.advance(unmerge(running, "x"))
    running.advance(merge(running, flow(f"{TRAFFIC} > k:sink", "z"), NOW))
    assert same == snapshot != running
    assert merge(same, flow(X, "w"), NOW) == merge(snapshot, flow(X, "w"), NOW)


def test_merge_says_what_starts() -> None:
    """A first dataflow starts every task, each after its parents, numbered in that order."""
    dataflow = flow(X, "x")
    change = merge(RunningGraph(), dataflow, NOW)
    assert (0, (1, 2, 3), (), 4) == (change.base, change.residue, change.reuses, change.next_instance)
    assert [task.key for task in dataflow.tasks] == [task.key for task in change.starts]
    assert [task.text for task in dataflow.tasks] == [task.text for task in change.starts]
    assert ["source", "map", "sink"] == [task.type.name for task in change.starts]
    assert [[], [1], [2]] == [[edge.parent for edge in task.inputs] for task in change.starts]
    assert {NOW} == {task.since for task in change.starts}
    assert (None, (), ()) == (change.removed, change.releases, change.stops)


def test_merge_keeps_what_was_submitted() -> None:
    """The submitted dataflow knows its tenant and name, where its tasks run, its sinks, and its parts' sources."""
    submitted = merge(ran(X), flow(f"{Y} {TRAFFIC} > m:sink", "y", "bob"), NOW).submitted
    assert submitted is not None
    assert ("y", "bob", "flow") == (submitted.id, submitted.tenant, submitted.name)
    t, m, b, k = (submitted.places[task] for task in ("t", "m", "b", "l"))
    assert {"a": 2, "b": b, "l": k, "m": m, "s": 1, "t": t} == submitted.places
    assert {t, m, b, k} == {4, 5, 6, 7}
    assert (("l", "m"), {(1,), (t,)}) == (submitted.sinks, set(submitted.parts))


def test_change_residue() -> None:
    """The residue is what starts: the instances that no running task can supply."""
    running = ran(X)
    change = merge(running, flow(Y, "y"), NOW)
    assert ((4, 5), (1, 2)) == (change.residue, change.reuses)
    assert () == unmerge(running, "x").residue


def test_residue_of_a_change_that_only_reuses() -> None:
    """A dataflow that runs whole starts nothing."""
    assert () == merge(ran(X), flow(X, "y"), NOW).residue


def test_submit_a_dataflow_twice() -> None:
    """An id that is taken is refused, whatever the dataflow, with what to do about it."""
    with pytest.raises(DataflowExists) as refused:
        merge(ran(X), flow(Y, "x"), NOW)
    message = "a dataflow with the id 'x' is already submitted; remove it first, or use another id"
    assert (message, "x") == (str(refused.value), refused.value.dataflow)


@pytest.mark.parametrize("ask", [unmerge, RunningGraph.dataflow, RunningGraph.produced, RunningGraph.dags_of])
def test_dataflow_that_is_not_there(ask: object) -> None:
    """A dataflow that is not submitted can neither be removed nor looked up, and the answer says how to find it."""
    assert callable(ask)
    with pytest.raises(NoSuchDataflow) as refused:
        ask(ran(X), "y")
    message = "no dataflow with the id 'y' is submitted; list the submitted ones to find its id"
    assert (message, "y") == (str(refused.value), refused.value.dataflow)


def test_colliding_signatures() -> None:
    """A task with a known signature and another text is never shared; the refusal says so."""
    running = ran(X)
    forged = flow(Y, "y")
    tasks = (replace(forged.tasks[0], text=b"another"), *forged.tasks[1:])
    with pytest.raises(SignatureCollision) as refused:
        merge(running, replace(forged, tasks=tasks), NOW)
    key = forged.tasks[0].key
    message = (
        f"the signature {key.signature.hex()} already stands for another task; "
        "submit with a changed config and report this"
    )
    assert (message, key) == (str(refused.value), refused.value.key)


def test_unmerge_says_what_stops() -> None:
    """A removal stops what nobody else needs, each before its parents, and leaves the rest to others."""
    change = unmerge(ran(X, Y), "x")
    assert (2, [3], (2, 1)) == (change.base, [task.instance for task in change.stops], change.releases)
    assert ((), (), None, 6) == (change.starts, change.reuses, change.submitted, change.next_instance)
    assert change.removed is not None
    assert "x" == change.removed.id
    alone = unmerge(ran(Y), "x")
    assert ([4, 3, 2, 1], ()) == ([task.instance for task in alone.stops], alone.releases)


def test_stale_change() -> None:
    """A change computed from another version is refused and leaves no trace."""
    change = merge(RunningGraph(), flow(Y, "y"), NOW)
    running = ran(X)
    with pytest.raises(StaleChange) as refused:
        RunningGraph.advance(running, change)
    assert "the change was computed from version 0 and this is version 1; compute it anew" == str(refused.value)
    assert ran(X) == running


def test_advance() -> None:
    """Advancing by a change starts and stops what it says, and the users of every task concerned follow."""
    running = ran(X, Y)
    assert (2, 6) == (running.version, running.next_instance)
    assert [1, 2, 3, 4, 5] == sorted(running.tasks)
    assert {task.key: instance for instance, task in running.tasks.items()} == running.index
    assert {1: ("x", "y"), 2: ("x", "y"), 3: ("x",), 4: ("y",), 5: ("y",)} == running.users
    assert ["x", "y"] == list(running.dataflows)
    running.advance(unmerge(running, "x"))
    assert {1: ("y",), 2: ("y",), 4: ("y",), 5: ("y",)} == running.users
    assert ([1, 2, 4, 5], ["y"], 3) == (sorted(running.tasks), list(running.dataflows), running.version)
    assert {task.key: instance for instance, task in running.tasks.items()} == running.index


def test_needed_again_is_a_new_instance() -> None:
    """A task that nobody needed for a while starts anew, with an id of its own."""
    running = ran(X, Y)
    running.advance(unmerge(running, "y"))
    later = datetime.fromisoformat("2024-03-02T08:00:00+00:00")
    change = merge(running, flow(Y, "y"), later)
    assert ((6, 7), (1, 2)) == (change.residue, change.reuses)
    assert {later} == {task.since for task in change.starts}


def test_produced() -> None:
    """Each sink of a dataflow, equivalent ones included, is produced by some instance."""
    running = ran(X, "s:source > k:sink s > a:map > l:sink a > m:sink")
    (k,) = set(running.tasks) - {1, 2, 3}
    assert {"k": k, "l": 3, "m": 3} == running.produced("y")


def test_serves() -> None:
    """A task serves every dataflow that was found to need it."""
    running = ran(X, Y)
    assert [{"x", "y"}, {"x"}, {"y"}] == [running.serves(Instance(number)) for number in (1, 3, 5)]


def test_running_dags_join_and_split() -> None:
    """A dataflow over two sources joins their running DAGs, which its removal splits again."""
    running = ran(X, f"{TRAFFIC} > k:sink")
    assert [1, 1, 1, 2, 2] == [running.dag_of(Instance(number)) for number in range(1, 6)]
    change = merge(running, flow(f"s:source > j:join.left {TRAFFIC} > j.right j > k:sink", "z"), NOW)
    running.advance(change)
    assert {2} == {running.dag_of(instance) for instance in running.tasks}
    assert [frozenset({2})] * 3 == [running.dags_of(name) for name in "xyz"]
    removal = unmerge(running, "z")
    running.advance(removal)
    assert [3, 3, 3, 2, 2] == [running.dag_of(Instance(number)) for number in range(1, 6)]


def test_dags_of_a_dataflow_in_parts() -> None:
    """A dataflow is in one running DAG for each of its connected parts."""
    assert {1, 2} == ran(f"{X} {TRAFFIC} > l:sink").dags_of("x")


def test_config_of_a_running_task() -> None:
    """A running task knows its canonical config, defaults filled in."""
    assert {"add": 0} == ran(X).tasks[Instance(2)].config


def test_change_is_the_same_for_the_same_graph() -> None:
    """Merging computes and does nothing: asked twice it says the same."""
    running = ran(X)
    first, second = (merge(running, flow(Y, "y"), NOW) for _ in range(2))
    assert isinstance(first, Change)
    assert (first.starts, first.submitted, first.running_dags.next_dag) == (
        second.starts,
        second.submitted,
        second.running_dags.next_dag,
    )
    assert ran(X) == running


Parts = tuple[tuple[int, ...], ...]


def joined(dags: RunningDags, *parts: tuple[int, ...]) -> tuple[RunningDags, set[tuple[DagId, DagId]]]:
    """The running DAGs with these parts, and each that became part of another, with that one first."""
    after = dags.join([tuple(map(Instance, part)) for part in parts])
    return after, {(after.of_source[source], dag) for source, dag in dags.of_source.items()} - _unchanged(dags)


def made(*parts: tuple[int, ...]) -> RunningDags:
    """Running DAGs after the parts came one by one."""
    dags = RunningDags()
    for part in parts:
        dags, _ = joined(dags, part)
    return dags


def left(
    dags: RunningDags, *parts: tuple[int, ...], stopped: tuple[int, ...] = ()
) -> tuple[RunningDags, set[tuple[DagId, DagId]]]:
    """The running DAGs without these parts, and each that fell off another, with that one first."""
    after = dags.leave([tuple(map(Instance, part)) for part in parts], frozenset(map(Instance, stopped)))
    return after, {(dags.of_source[source], dag) for source, dag in after.of_source.items()} - _unchanged(dags)


def _unchanged(dags: RunningDags) -> set[tuple[DagId, DagId]]:
    return {(dag, dag) for dag in dags.of_source.values()}


def links(dags: RunningDags) -> dict[int, dict[int, int]]:
    return {source: dict(around.items()) for source, around in dags.links.items()}


def test_none() -> None:
    """At first there is no running DAG, and the first will be number 1."""
    dags = RunningDags()
    assert ({}, {}, 1) == (dict(dags.of_source), links(dags), dags.next_dag)


def test_each_part_begins_a_running_dag() -> None:
    """The sources of a new part belong to one new running DAG and are linked to a path; nothing is joined by it."""
    dags, found = joined(RunningDags(), (1, 2, 4), (3,))
    assert {1: 1, 2: 1, 3: 2, 4: 1} == dict(dags.of_source)
    assert {1: {2: 1}, 2: {1: 1, 4: 1}, 4: {2: 1}} == links(dags)
    assert (3, set()) == (dags.next_dag, found)


def test_new_sources_go_with_the_known_one() -> None:
    """A part with a source that runs already makes the others members of its running DAG."""
    dags, found = joined(made((1, 2), (3,)), (3, 4, 5))
    assert {1: 1, 2: 1, 3: 2, 4: 2, 5: 2} == dict(dags.of_source)
    assert (3, set()) == (dags.next_dag, found)


def test_new_source_before_known_ones() -> None:
    """A new source that is named first gets a running DAG, which the known one's then absorbs or is absorbed by."""
    dags, _ = joined(made((1, 2)), (0, 1))
    assert ({0: 1, 1: 1, 2: 1}, 3) == (dict(dags.of_source), dags.next_dag)


def test_links_are_counted() -> None:
    """Each part counts, in both directions, also where nothing is joined by it."""
    dags = made((1, 2), (1, 2), (2, 3))
    assert {1: {2: 2}, 2: {1: 2, 3: 1}, 3: {2: 1}} == links(dags)


@pytest.mark.parametrize(
    ("parts", "link", "expected", "kept"),
    [
        (((1, 2), (3,)), (2, 3), (1, 2), 1),
        (((1,), (2, 3)), (1, 2), (2, 1), 2),
        (((1, 2, 3), (4, 5)), (1, 4), (1, 2), 1),
    ],
)
def test_larger_running_dag_keeps_its_id(
    parts: Parts, link: tuple[int, ...], expected: tuple[int, int], kept: int
) -> None:
    """Where two running DAGs join, the larger keeps its id, whichever is older; every source of the other takes it."""
    dags, found = joined(made(*parts), link)
    assert {expected} == found
    assert {kept} == set(dags.of_source.values())


def test_several_running_dags_join_at_once() -> None:
    """A part across three running DAGs joins them two by two."""
    dags, found = joined(made((1,), (2,), (3,)), (1, 2, 3))
    assert {(2, 1), (2, 3)} == found
    assert {1: 2, 2: 2, 3: 2} == dict(dags.of_source)
    assert 4 == dags.next_dag


def test_joining_leaves_what_was_before() -> None:
    """The running DAGs before a join or a removal stay as they were."""
    before = made((1, 2), (3,))
    joined(before, (2, 3))
    left(before, (1, 2))
    assert ({1: 1, 2: 1, 3: 2}, {1: {2: 1}, 2: {1: 1}}, 3) == (dict(before.of_source), links(before), before.next_dag)


def test_last_link_splits() -> None:
    """Only when a link's count falls to zero does a running DAG fall apart; the parted side gets a new id."""
    once, none = left(made((1, 2), (1, 2)), (1, 2))
    assert ({1: {2: 1}, 2: {1: 1}}, set()) == (links(once), none)
    twice, split = left(once, (1, 2))
    assert {(1, 2)} == split
    assert ({1: 2, 2: 1}, {}, 3) == (dict(twice.of_source), links(twice), twice.next_dag)


def test_smaller_side_gets_the_new_id() -> None:
    """The larger side of a split keeps the id."""
    dags, split = left(made((1, 2), (2, 3), (3, 4)), (3, 4))
    assert ({(1, 2)}, {1: 1, 2: 1, 3: 1, 4: 2}) == (split, dict(dags.of_source))
    dags, split = left(made((1, 2), (2, 3), (3, 4)), (1, 2))
    assert ({(1, 2)}, {1: 2, 2: 1, 3: 1, 4: 1}) == (split, dict(dags.of_source))


def test_another_way_round_holds_together() -> None:
    """A link may fall to zero while the sources stay connected through others."""
    dags, split = left(made((1, 2), (2, 3), (1, 3)), (1, 2))
    assert (set(), {1: 1, 2: 1, 3: 1}) == (split, dict(dags.of_source))
    assert {1: {3: 1}, 3: {2: 1, 1: 1}, 2: {3: 1}} == links(dags)


def test_stopped_source_goes() -> None:
    """A stopped source leaves its running DAG, which that alone does not split."""
    dags, split = left(made((1, 2)), (1, 2), stopped=(2,))
    assert (set(), {1: 1}, {}, 2) == (split, dict(dags.of_source), links(dags), dags.next_dag)


def test_every_source_stops() -> None:
    """Nothing is left of a running DAG whose sources all stop, and its id is not used again."""
    dags, split = left(made((1, 2), (3,)), (1, 2), stopped=(1, 2))
    assert (set(), {3: 2}, {}, 3) == (split, dict(dags.of_source), links(dags), dags.next_dag)


def test_sources_joined_through_a_stopped_one_fall_apart() -> None:
    """What only a stopped source held together splits."""
    dags, split = left(made((1, 2, 3)), (1, 2, 3), stopped=(2,))
    assert ({(1, 2)}, {1: 2, 3: 1}, {}) == (split, dict(dags.of_source), links(dags))


def test_sources_joined_through_a_stopped_one_and_otherwise() -> None:
    """What others hold together as well does not split when the source between stops."""
    dags, split = left(made((1, 3), (1, 2, 3)), (1, 2, 3), stopped=(2,))
    assert (set(), {1: 1, 3: 1}, {1: {3: 1}, 3: {1: 1}}) == (split, dict(dags.of_source), links(dags))


def test_one_removal_splits_several_times() -> None:
    """A part that held three sides together names each split, and each side gets an id of its own."""
    dags, split = left(made((1, 2, 3)), (1, 2, 3))
    assert {(1, 2), (1, 3)} == split
    assert ({1: 2, 2: 3, 3: 1}, 4) == (dict(dags.of_source), dags.next_dag)


def test_each_part_of_a_removal_counts() -> None:
    """All parts of a removed dataflow take their links back."""
    dags, split = left(made((1, 2), (3, 4)), (1, 2), (3, 4))
    assert {(1, 3), (2, 4)} == split
    assert ({1: 3, 2: 1, 3: 4, 4: 2}, {}) == (dict(dags.of_source), links(dags))


MAP = CATALOGUE.find("map")


def task(instance: int, parents: list[int]) -> RunningTask:
    assert MAP is not None
    return RunningTask(
        instance=Instance(instance),
        key=Key(b"%d" % instance, None),
        text=b"",
        type=MAP,
        inputs=tuple(Input("in", parent, "out") for parent in parents),
        since=datetime(2026, 3, 1, tzinfo=UTC),
    )


@given(st.lists(st.lists(st.integers(0, 20), max_size=3), max_size=8), st.integers(0, 2**32))
def test_every_task_comes_after_its_parents(wanted: list[list[int]], seed: int) -> None:
    """However they are numbered; parents that are not among them do not matter, and the given order neither."""
    draw = Random(seed)
    numbers = draw.sample(range(100), len(wanted))
    parents = [[numbers[each % at] if at and each % 3 else 1_000 for each in those] for at, those in enumerate(wanted)]
    tasks = [task(number, above) for number, above in zip(numbers, parents, strict=True)]
    found = downwards(draw.sample(tasks, len(tasks)))
    assert sorted(numbers) == sorted(each.instance for each in found)
    seen: set[int] = {1_000}
    for each in found:
        assert {edge.parent for edge in each.inputs} <= seen
        seen.add(each.instance)
    assert found == downwards(tasks)


def test_numbers_that_are_an_order_are_kept() -> None:
    """Tasks that nothing was inserted between come by their numbers."""
    tasks = [task(1, []), task(2, [1]), task(3, []), task(4, [3, 1])]
    assert tasks == list(downwards(reversed(tasks)))


NAMES = tuple("abcdefghijkl")


def test_few_users_are_a_tuple() -> None:
    """Up to eight users stand in a tuple, in the order in which they came."""
    users: Users = ()
    for name in NAMES[:8]:
        users = with_user(users, name)
    assert (8, NAMES[:8]) == (FEW, users)


def test_the_ninth_user_makes_a_set() -> None:
    """With more than eight users they are a set, and the tuple before is as it was."""
    few = NAMES[:8]
    assert set(NAMES[:9]) == with_user(few, "i")
    assert NAMES[:8] == few


def test_many_users_are_changed_in_place() -> None:
    """A set takes one more and gives one up without being copied."""
    many: Users = set(NAMES[:10])
    assert with_user(many, "k") is many
    assert without_user(many, "a") is many
    assert set(NAMES[1:11]) == many


def test_few_are_left_of_many() -> None:
    """Once eight are left of a set they are a tuple again, sorted, because a set has no order."""
    many: Users = set(NAMES[:10])
    nine = without_user(many, "j")
    assert set(NAMES[:9]) == nine
    assert ("a", "b", "c", "d", "e", "f", "g", "i") == without_user(nine, "h")


def test_without_the_last_user() -> None:
    """A task that only one dataflow used has no users without it."""
    assert () == without_user(("a",), "a")


def test_without_one_of_few_users() -> None:
    """The others stay in their order."""
    assert ("c", "b") == without_user(("c", "a", "b"), "a")
