"""The shape of dataflows: acyclic, from sources to sinks, with a stream at every port."""

import json
import random
from typing import Any

import pytest

from dags import Problem
from dags.canonical import DraftDocument, check_shape, find_types, join_streams
from dags.document import read
from tests.catalogue import CATALOGUE, SOURCES
from tests.dags.refusal import canonicalise, codes, problem, problems
from tests.notation import document, draft


def cycle(pointer: str, names: str) -> Problem:
    return problem(pointer, "cycle", f"the streams form a cycle: {names}", "remove one of its streams")


def unreached(i: int, name: str) -> Problem:
    message = f"no source reaches the task '{name}'"
    return problem(f"/tasks/{i}", "unreached-task", message, "connect it to a source, or remove it")


def fruitless(i: int, name: str) -> Problem:
    message = f"the task '{name}' reaches no sink"
    return problem(f"/tasks/{i}", "fruitless-task", message, "connect it to a sink, or remove it")


def unfed(i: int, port: str, name: str) -> Problem:
    message = f"no stream enters port '{port}' of the task '{name}'"
    return problem(f"/tasks/{i}", "unfed-port", message, "add one; an input port needs a stream unless it is optional")


NO_SOURCE = problem("/tasks", "no-source", "the dataflow has no source", "add a task of a source type")
NO_SINK = problem("/tasks", "no-sink", "the dataflow has no sink", "add a task of a sink type")


def test_a_cycle_is_named_along_its_streams() -> None:
    """At one of its tasks, with each task after its predecessor."""
    [found] = problems(document("s:source > a:map > b:scale > c:echo > k:sink c > a"))
    around = {("a", "b", "c"): 1, ("b", "c", "a"): 2, ("c", "a", "b"): 3}
    assert found in [cycle(f"/tasks/{i}", ", ".join(f"'{name}'" for name in names)) for names, i in around.items()]


def test_a_cycle_names_only_its_own_tasks() -> None:
    """Tasks before and after it are not named."""
    [found] = problems(document("s:source > x:map > a:map > b:map > y:map > k:sink b > a"))
    assert found in (cycle("/tasks/2", "'a', 'b'"), cycle("/tasks/3", "'b', 'a'"))


def test_of_several_cycles_one_is_named() -> None:
    """The others are found when it is removed."""
    [found] = problems(document("s:source > a:map > b:map > c:map > d:map > k:sink b > a d > c"))
    assert "cycle" == found.code


def test_of_a_long_cycle_the_first_tasks_are_named() -> None:
    """With the number of all tasks."""
    names = [f"t{i}" for i in range(12)]
    written = document("s:source > t0:map > k:sink")
    written["tasks"] += [{"id": name, "type": "map"} for name in names[1:]]
    written["streams"] += [{"from": a, "to": b} for a, b in zip(names, [*names[1:], "t0"], strict=True)]
    [found] = problems(written)
    listed = found.message.removeprefix("the streams form a cycle: ").split(", ")
    first = names.index(listed[0].strip("'"))
    following = [f"'{names[(first + i) % 12]}'" for i in range(10)]
    assert [*following, "… (12 in all)"] == listed
    assert ("/tasks/1" if first == 0 else f"/tasks/{first + 2}") == found.pointer


def test_a_cycle_and_dead_ends_are_reported_together() -> None:
    """A cycle that no source reaches is also unreached."""
    found = problems(document("s:source > k:sink a:map > b:map > a"))
    assert sorted([unreached(2, "a"), unreached(3, "b"), fruitless(2, "a"), fruitless(3, "b")], key=str) == sorted(
        (problem for problem in found if problem.code != "cycle"), key=str
    )
    assert 5 == len(found)


def test_a_dataflow_needs_a_source() -> None:
    """Without one, the tasks are not also reported as unreached."""
    assert [NO_SOURCE] == problems(document("a:map > k:sink"))


def test_a_dataflow_needs_a_sink() -> None:
    """Without one, the tasks are not also reported as fruitless."""
    assert [NO_SINK] == problems(document("s:source > a:map"))


def test_a_dataflow_may_lack_both_ends() -> None:
    """Both are reported."""
    assert [NO_SOURCE, NO_SINK] == problems(document("a:map > b:map"))


def test_missing_ends_are_reported_with_wrong_streams() -> None:
    """The types of tasks do not depend on the streams."""
    written = document("s:source > a:map")
    written["streams"].append({"from": "a", "to": "x"})
    assert [("/tasks", "no-sink"), ("/streams/1/to", "unknown-task")] == codes(written)


def test_tasks_that_lead_nowhere_are_reported() -> None:
    """Those that no source reaches, those that reach no sink, and those that do neither, one by one."""
    assert [
        unreached(2, "a"),
        unreached(3, "b"),
        fruitless(4, "c"),
        fruitless(5, "d"),
        unreached(6, "e"),
        fruitless(6, "e"),
    ] == problems(document("s:source > k:sink a:map > b:map > k s > c:map > d:map e:map"))


def test_a_source_and_a_sink_alone_lead_nowhere() -> None:
    """A source without readers, and a sink without input."""
    assert [fruitless(2, "t"), unreached(3, "l")] == problems(document("s:source > k:sink t:source l:sink"))


def test_every_input_port_needs_a_stream() -> None:
    """Each port without one is reported, unless the task has no stream at all."""
    assert [unfed(1, "right", "j")] == problems(document("s:source > j:join.left > k:sink"))
    assert [unfed(1, "left", "j")] == problems(document("s:source > j:join.right > k:sink"))
    assert [unreached(2, "j")] == problems(document("s:source > k:sink j:join > k"))


def test_a_port_may_be_fed_by_many_streams_and_an_output_left_unread() -> None:
    """Streams interleave. An output port needs no reader."""
    flow = canonicalise(document("s:source > a:map > k:sink s > k s > p:split..even > k"))
    assert 3 == len(flow.tasks[flow.places["k"]].inputs)


def test_parts_that_are_not_connected_are_one_dataflow() -> None:
    """Each has its own sources and sinks."""
    flow = canonicalise(document("s:source > k:sink t:source{'source': 'traffic'} > l:file"))
    assert ("k", "l") == flow.sinks
    assert 2 == len(flow.parts)


def test_a_stream_that_cannot_be_joined_hides_dead_ends() -> None:
    """They may be caused by a misspelling."""
    written = document("s:source > k:sink a:map > b:map > k")
    written["streams"].append({"from": "s", "to": "a", "to_port": "inn"})
    assert [("/streams/3/to_port", "unknown-port")] == codes(written)


def test_tasks_are_ordered_after_their_parents() -> None:
    """In whatever order the document has them."""
    written = document("s:source > p:split..even > j:join.left > c:map > k:sink p.odd > d:map > j.right s > k")
    chance = random.Random(7)
    for _ in range(20):
        chance.shuffle(written["tasks"])
        chance.shuffle(written["streams"])
        checked = check_shape(join_streams(find_types(_drafted(written))))
        place = {task: i for i, task in enumerate(checked.order)}
        assert sorted(place) == list(range(len(written["tasks"])))
        assert all(place[wire.origin] < place[wire.to] for wire in checked.wires)


@pytest.mark.parametrize("text", ["s:source > k:sink", "s:source > a:map > b:map > k:sink s > b a > k"])
def test_a_sound_shape_has_no_problems(text: str) -> None:
    """Several paths between two tasks are allowed."""
    assert () == check_shape(join_streams(find_types(draft(text)))).problems


def test_in_a_cycle_there_is_no_order() -> None:
    """No schemas are derived."""
    assert () == check_shape(join_streams(find_types(draft("s:source > a:map > b:map > a b > k:sink")))).order


def _drafted(written: dict[str, Any]) -> DraftDocument:
    return DraftDocument(
        dataflow="f", tenant="ann", reading=read(json.dumps(written)), catalogue=CATALOGUE, sources=SOURCES
    )
