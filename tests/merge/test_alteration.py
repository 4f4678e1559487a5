"""Alterations by example: which tasks keep their instances, which are forked, and what runs afterwards."""

from datetime import timedelta

import pytest

from dags import Scope
from merge import Instance, StaleChange
from merge.reconfiguration.alteration import (
    Alteration,
    Edit,
    Fork,
    alter,
    alteration,
    altered,
    changed_ids,
    histories,
    is_changed,
    joined,
)
from tests.graphs import streams_of
from tests.merge.alterations import edit
from tests.merge.floor import NOW, Floor
from tests.notation import flow

LINE = "s:source > a:map > b:window > k:sink"
LATER = NOW + timedelta(hours=1)


def floor(*dataflows: str, line: str = LINE) -> Floor:
    """Dataflows that run as one, in jobs of their own."""
    made = Floor(strategy="launch")
    for dataflow in dataflows:
        made.submit(line, dataflow)
    return made


def altering(floor: Floor, *edits: Edit, first: Instance | None = None) -> Alteration:
    return alteration(floor.running, edits, LATER, first=first)


def alters(by: Alteration) -> dict[int, tuple[str, str]]:
    """The type and the config of each task that keeps its instance."""
    return {task.instance: (task.type.name, str(task.config)) for task in by.alters}


def forks(by: Alteration) -> dict[int, tuple[str, int | None, list[int]]]:
    """For each new instance its type, the one whose state it takes, and what feeds it."""
    return {
        fork.task.instance: (fork.task.type.name, fork.origin, [edge.parent for edge in fork.task.inputs])
        for fork in by.forks
    }


def test_who_alone_uses_a_task_keeps_it() -> None:
    """The task and all below it keep instance and age, and get scopes of their own."""
    here = floor("x")
    by = altering(here, edit(here, "x", LINE, "s:source > a:map{'add': 1} > b:window > k:sink"))
    assert {2: ("map", "{'add': 1}"), 3: ("window", "{'size': 3}"), 4: ("sink", "{}")} == alters(by)
    assert [Scope("r", "2"), Scope("r", "3"), Scope("r", "4")] == [task.key.scope for task in by.alters]
    assert {NOW} == {task.since for task in by.alters}
    assert ((), (), 5, 1) == (by.forks, by.stops, by.next_instance, by.base)
    assert (frozenset(), frozenset(), frozenset()) == (by.rewired, by.removed, by.unfit | by.apart)
    assert [("x", "x.2", {"s": 1, "a": 2, "b": 3, "k": 4})] == [(old.id, new.id, new.places) for old, new in by.swaps]


def test_who_shares_a_task_gets_a_fork() -> None:
    """The others keep theirs; the forks take up its state and that of all own tasks below, and its age."""
    here = floor("x", "y")
    by = altering(here, edit(here, "y", LINE, "s:source > a:map > b:window{'size': 5} > k:sink"))
    assert {5: ("window", 3, [2]), 6: ("sink", 4, [5])} == forks(by)
    assert ((), (), 7) == (by.alters, by.stops, by.next_instance)
    assert [Scope("r", "3"), Scope("r", "4")] == [fork.task.key.scope for fork in by.forks]
    assert {NOW} == {fork.task.since for fork in by.forks}
    assert {"s": 1, "a": 2, "b": 5, "k": 6} == by.swaps[0][1].places


def test_some_of_those_who_share_a_task_get_one_fork() -> None:
    """Dataflows that are edited alike stay together, apart from one that is not."""
    here, after = floor("x", "y", "z"), "s:source > a:map > b:window{'size': 5} > k:sink"
    by = altering(here, edit(here, "x", LINE, after), edit(here, "y", LINE, after))
    assert {5: ("window", 3, [2]), 6: ("sink", 4, [5])} == forks(by)
    assert {"x.2": 5, "y.2": 5} == {new.id: new.places["b"] for _, new in by.swaps}


def test_all_who_share_a_task_may_agree() -> None:
    """Then it keeps its instance."""
    here, after = floor("x", "y", "z"), "s:source > a:map > b:window{'size': 5} > k:sink"
    by = altering(here, *(edit(here, name, LINE, after) for name in "xyz"))
    assert {3: ("window", "{'size': 5}"), 4: ("sink", "{}")} == alters(by)
    assert () == by.forks


def test_edits_that_differ_fork() -> None:
    """Each dataflow gets the fork it asks for, and what one leaves as it is stays."""
    here = floor("x", "y", "z")
    edits = (
        edit(here, name, LINE, f"s:source > a:map{{'add': {at}}} > b:window > k:sink") for at, name in enumerate("xyz")
    )
    by = altering(here, *edits)
    assert {
        5: ("map", 2, [1]),
        6: ("window", 3, [5]),
        7: ("sink", 4, [6]),
        8: ("map", 2, [1]),
        9: ("window", 3, [8]),
        10: ("sink", 4, [9]),
    } == forks(by)
    assert () == by.alters
    assert {"s": 1, "a": 2, "b": 3, "k": 4} == by.swaps[0][1].places


def test_an_inserted_task_has_no_origin() -> None:
    """It begins now; what it feeds keeps its instance, is rewired, and has the new task as its parent."""
    here = floor("x")
    by = altering(here, edit(here, "x", LINE, "s:source > a:map > m:scale > b:window > k:sink"))
    assert {5: ("scale", None, [2])} == forks(by)
    assert [5] == [task.instance for task in by.inserted]
    assert [(LATER, Scope("r", "+m"))] == [(task.since, task.key.scope) for task in by.inserted]
    assert {3: [5], 4: [3]} == {task.instance: [edge.parent for edge in task.inputs] for task in by.alters}
    assert {3} == by.rewired


def test_forks_have_the_instances_reserved_for_them() -> None:
    """Those begin at the first one, and the next instance of all is none of them."""
    here = floor("x", "y")
    after = "s:source > a:map > m:scale > b:window > k:sink"
    by = altering(here, edit(here, "y", LINE, after), first=Instance(50))
    assert {50: ("scale", None, [2]), 51: ("window", 3, [50]), 52: ("sink", 4, [51])} == forks(by)
    assert {51} == by.rewired
    assert 53 == by.next_instance
    assert 5 == altering(here, edit(here, "y", LINE, LINE), first=Instance(2)).next_instance


def test_a_task_that_is_taken_out() -> None:
    """It stops if nobody else uses it, and what it fed is rewired."""
    after = "s:source > b:window > k:sink"
    here = floor("x")
    by = altering(here, edit(here, "x", LINE, after))
    assert [2] == [task.instance for task in by.stops]
    assert [{2}, {3}] == [set(by.removed), set(by.rewired)]
    here = floor("x", "y")
    by = altering(here, edit(here, "x", LINE, after))
    assert () == by.stops
    assert [{2}, {5}] == [set(by.removed), set(by.rewired)]


def test_another_source_is_a_start() -> None:
    """A source keeps nothing, so the other is new, shared like any, and all below it is forked; the old ones stop."""
    here = floor("x")
    after = "s:source{'source': 'traffic'} > a:map > b:window > k:sink"
    by = altering(here, edit(here, "x", LINE, after))
    assert {
        5: ("source", None, []),
        6: ("map", 2, [5]),
        7: ("window", 3, [6]),
        8: ("sink", 4, [7]),
    } == forks(by)
    assert [4, 3, 2, 1] == [task.instance for task in by.stops]
    assert ((), {5: 2}) == (by.inserted, dict(by.running_dags.of_source))
    assert (None, LATER) == (by.forks[0].task.key.scope, by.forks[0].task.since)
    # Where it runs already, it is that.
    here.submit("s:source{'source': 'traffic'} > k:sink", "y")
    by = altering(here, edit(here, "x", LINE, after))
    assert 5 == by.swaps[0][1].places["s"]
    assert {7: ("map", 2, [5]), 8: ("window", 3, [7]), 9: ("sink", 4, [8])} == forks(by)


def test_what_is_said_of_tasks_holds_of_instances() -> None:
    """States are unfit where one dataflow says so, and tasks switch apart only if all dataflows that use them do."""
    here, after = floor("x", "y"), "s:source > a:map{'add': 1} > b:window > k:sink"
    by = altering(
        here,
        edit(here, "x", LINE, after, unfit=["b"], apart=["a", "b"]),
        edit(here, "y", LINE, after, apart=["b", "k"]),
    )
    assert [{3}, {3}] == [set(by.unfit), set(by.apart)]


def test_running_dags_follow_the_sources() -> None:
    """What an edit reads instead joins its running DAG, and what nobody joins any more falls apart."""
    line = "s:source > j:join.left t:source{'source': 'traffic'} > j.right j > k:sink"
    here = floor("x", line=line)
    here.submit("t:source{'source': 'traffic'} > k:sink", "y")
    here.submit("p:source{'source': 'power'} > k:sink", "z")
    assert {1: 1, 2: 1, 6: 2} == dict(here.running.running_dags.of_source)
    after = "s:source > j:join.left t:source{'source': 'power'} > j.right j > k:sink"
    by = altering(here, edit(here, "x", line, after))
    # Weather is instance 2, and power 6.
    assert {1: 3, 2: 1, 6: 1} == dict(by.running_dags.of_source)


def test_a_source_that_two_edits_leave_goes_once() -> None:
    """It leaves the running DAGs with the last dataflow that read it."""
    here = floor("x", "y")
    edits = [
        edit(here, name, LINE, f"s:source{{'source': '{source}'}} > a:map > b:window > k:sink")
        for name, source in (("x", "traffic"), ("y", "power"))
    ]
    by = altering(here, *edits)
    assert [4, 3, 2, 1] == [task.instance for task in by.stops]
    assert {5, 9} == set(by.running_dags.of_source)


def test_the_running_graph_after_a_reconfiguration() -> None:
    """Edited dataflows have their next ids; tasks are found by their new keys and have their new users."""
    here = floor("x", "y", "z")
    by = altering(here, edit(here, "y", LINE, "s:source > a:map > b:window{'size': 5} > k:sink"))
    before = (dict(here.running.tasks), dict(here.running.index), dict(here.running.users), here.running.version)
    after = altered(here.running, by)
    assert before == (here.running.tasks, here.running.index, here.running.users, here.running.version)
    both, old, new = ("x", "z", "y.2"), ("x", "z"), ("y.2",)
    assert {1: both, 2: both, 3: old, 4: old, 5: new, 6: new} == after.users
    assert {"x", "z", "y.2"} == after.dataflows.keys()
    assert {task.key: instance for instance, task in after.tasks.items()} == after.index
    assert (4, 7) == (after.version, after.next_instance)
    assert {(1, 2), (2, 3), (3, 4), (2, 5), (5, 6)} == set(streams_of(after).edges())
    assert by.running_dags is after.running_dags


def test_stopped_tasks_are_gone() -> None:
    """Neither their keys nor their users stay."""
    here = floor("x")
    after = altered(here.running, altering(here, edit(here, "x", LINE, "s:source > b:window > k:sink")))
    assert {1, 3, 4} == after.tasks.keys() == after.users.keys() == set(after.index.values())
    assert {1: ("x.2",), 3: ("x.2",), 4: ("x.2",)} == after.users


def test_popular_tasks_keep_their_many_users() -> None:
    """The running graph beside the one that is shares no set of users with it."""
    names = [f"x{number}" for number in range(12)]
    here = floor(*names)
    by = altering(here, edit(here, "x3", LINE, "s:source > a:map > b:window{'size': 5} > k:sink"))
    after = altered(here.running, by)
    assert {*names} == set(here.running.users[Instance(3)])
    assert {*names} - {"x3"} == set(after.users[Instance(3)])
    assert {*names, "x3.2"} - {"x3"} == set(after.users[Instance(1)])


def test_a_stale_reconfiguration_is_refused() -> None:
    """It was made for another version of the running graph."""
    here = floor("x")
    by = altering(here, edit(here, "x", LINE, "s:source > a:map{'add': 1} > b:window > k:sink"))
    here.submit(LINE, "y")
    with pytest.raises(StaleChange, match="from version 1 and this is version 2"):
        alter(here.running, by)


def test_what_counts_as_changed() -> None:
    """The type, its version and the config do; new and equal tasks don't."""
    here = floor("x")
    tasks = {task: here.running.tasks[place] for task, place in here.running.dataflow("x").places.items()}
    after = flow("s:source > a:map{'add': 1} > b:count > m:scale > k:sink")
    assert {"a", "b"} == changed_ids(tasks, after)
    assert not is_changed(tasks["b"], tasks["b"])


def test_histories_are_those_of_instances() -> None:
    """Tasks that run as one get one scope, new ones their own, and sources none."""
    line = "s:source > a:map > k:sink s > b:map > l:sink"
    here = floor("x", line=line)
    tasks = {task: here.running.tasks[place] for task, place in here.running.dataflow("x").places.items()}
    shared = str(here.instance("x", "a"))
    assert {"a": Scope("r", shared), "b": Scope("r", shared), "new": Scope("r", "+new")} == histories(
        tasks, ["s", "a", "b", "new"], "r"
    )


def test_equal_tasks_that_differ_now_part() -> None:
    """Of two tasks of one dataflow that ran as one neither keeps the instance."""
    line = "s:source > a:map > k:sink s > b:map > l:sink"
    here = floor("x", line=line)
    by = altering(here, edit(here, "x", line, "s:source > a:map > k:sink s > b:map{'add': 1} > l:sink"))
    assert {4: ("map", 2, [1]), 5: ("sink", 3, [4])} == forks(by)
    assert [] == list(by.alters)


def test_a_task_may_change_its_type() -> None:
    """It keeps instance and age all the same."""
    here = floor("x")
    by = altering(here, edit(here, "x", LINE, "s:source > a:map > b:count > k:sink"))
    assert {3: ("count", "{'by': 'place'}"), 4: ("sink", "{}")} == alters(by)


def test_what_has_its_inputs_as_before_is_not_rewired() -> None:
    """Neither a task that is fed twice by one that changes, nor any of a dataflow that is left as it is."""
    line = "s:source > a:map > j:join.left a > j.right j > k:sink"
    here = floor("x", line=line)
    by = altering(here, edit(here, "x", line, line.replace("a:map", "a:map{'add': 1}")))
    assert {2, 3, 4} == alters(by).keys()
    assert set() == by.rewired
    assert set() == altering(here, edit(here, "x", line, line)).rewired


STATELESS = "s:source > a:map > b:scale > k:sink"


def scopes(edits: tuple[Edit, ...]) -> list[dict[str, str | None]]:
    return [
        {task: (scope := by.tasks[place].key.scope) and scope.task for task, place in by.places.items()}
        for by in (each.by for each in edits)
    ]


def test_tasks_without_state_are_joined() -> None:
    """They keep the keys they would have if they were just submitted, so later ones share them."""
    here = floor("x", line=STATELESS)
    asked = edit(here, "x", STATELESS, "s:source > a:map{'add': 1} > b:scale > k:sink")
    assert [{"s": None, "a": "2", "b": "3", "k": "4"}] == scopes((asked,))
    assert [{"s": None, "a": None, "b": None, "k": "4"}] == scopes(
        joined(here.running, here.jobs, [asked], [{"a", "b"}])
    )
    assert [{"s": None, "a": "2", "b": "3", "k": "4"}] == scopes(joined(here.running, here.jobs, [asked], [{"b"}]))
    assert [{"s": None, "a": None, "b": "3", "k": "4"}] == scopes(joined(here.running, here.jobs, [asked], [{"a"}]))


def test_a_task_joins_an_equal_one_of_its_job() -> None:
    """From the switch on the dataflow uses that one, unless it runs in another job or changes as well."""
    after = "s:source > a:map{'add': 1} > b:scale > k:sink"
    here = Floor(strategy="pack")
    here.submit(STATELESS, "x")
    here.submit(after, "y")
    asked = joined(here.running, here.jobs, [edit(here, "x", STATELESS, after)], [{"a", "b"}])
    assert [{"s": None, "a": None, "b": None, "k": "4"}] == scopes(asked)
    by = altering(here, *asked)
    assert {"s": 1, "a": 5, "b": 6, "k": 8} == by.swaps[0][1].places
    assert [Fork] == [type(fork) for fork in by.forks]
    away = Floor(strategy="launch")
    away.submit(STATELESS, "x")
    away.submit(after, "y")
    asked = joined(away.running, away.jobs, [edit(away, "x", STATELESS, after)], [{"a", "b"}])
    assert [{"s": None, "a": "2", "b": "3", "k": "4"}] == scopes(asked)


def test_a_task_takes_no_place_that_another_leaves() -> None:
    """What an equal task had that itself changes stays its own: two that swap configs keep their scopes."""
    after = "s:source > a:map{'add': 1} > b:scale > k:sink"
    here = Floor(strategy="pack")
    here.submit(STATELESS, "x")
    here.submit(after, "y")
    edits = [edit(here, "x", STATELESS, after), edit(here, "y", after, STATELESS)]
    for given in scopes(joined(here.running, here.jobs, edits, [{"a", "b"}, {"a", "b"}])):
        assert None not in {given["a"], given["b"]}
