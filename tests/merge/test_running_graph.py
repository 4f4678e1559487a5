"""The running graph by example: what changes say, what they do, and what it answers."""

from dataclasses import replace
from datetime import datetime

import pytest

from merge import (
    Change,
    DataflowExists,
    Instance,
    NoSuchDataflow,
    RunningGraph,
    SignatureCollision,
    StaleChange,
    merge,
    unmerge,
)
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
