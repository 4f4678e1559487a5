"""The shape of dataflows, and the streams at the ports of their tasks."""

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


def unknown_task(pointer: str, name: str) -> Problem:
    return problem(pointer, "unknown-task", f"no task has the id {name}", "correct the id, or add the task")


def repeated_stream(i: int, first: int) -> Problem:
    message = f"the stream repeats stream {first}: it connects the same tasks and ports"
    return problem(f"/streams/{i}", "repeated-stream", message, "remove one of the two")


def repeated_id(i: int, name: str, first: int) -> Problem:
    message = f"the id '{name}' is already that of task {first}"
    return problem(f"/tasks/{i}/id", "repeated-id", message, "give each task its own id")


def self_loop(i: int, name: str) -> Problem:
    message = f"the stream leads from '{name}' to itself"
    return problem(f"/streams/{i}", "self-loop", message, "remove it; a dataflow has no cycles")


def linked(text: str, *streams: dict[str, Any]) -> dict[str, Any]:
    """The document of a line, with other streams."""
    return {**document(text), "streams": list(streams)}


def test_unknown_ids_are_reported_at_each_end() -> None:
    """Long ids are shortened, and unprintable ones escaped."""
    long = "x" * 100
    written = document("s:source > k:sink")
    written["streams"] += [{"from": "x", "to": "y"}, {"from": long, "to": "k"}, {"from": "s", "to": "a\nb"}]
    assert [
        unknown_task("/streams/1/from", "'x'"),
        unknown_task("/streams/1/to", "'y'"),
        unknown_task("/streams/2/from", f"'{'x' * 59}…'"),
        unknown_task("/streams/3/to", r"'a\nb'"),
    ] == problems(written)


def test_an_unknown_id_makes_no_dead_ends() -> None:
    """The intended task is unknown."""
    assert [unknown_task("/streams/1/to", "'kk'")] == problems(
        linked("s:source > a:map > k:sink", {"from": "s", "to": "a"}, {"from": "a", "to": "kk"})
    )


def test_ids_are_compared_as_they_are_written() -> None:
    """Composed and decomposed letters, capitals and blanks differ."""
    written = linked(
        "s:source a:map b:map k:sink",
        *({"from": "s", "to": name} for name in ("\u00e9", "e\u0301")),
        *({"from": name, "to": "k"} for name in ("\u00e9", "e\u0301")),
    )
    written["tasks"][1]["id"], written["tasks"][2]["id"] = "\u00e9", "e\u0301"
    assert {"\u00e9", "e\u0301", "s", "k"} == set(canonicalise(written).places)
    written["streams"][0]["to"] = "\u00c9"
    written["streams"][1]["to"] = "e\u0301 "
    assert [("/streams/0/to", "unknown-task"), ("/streams/1/to", "unknown-task")] == codes(written)


def test_a_source_takes_no_stream_and_a_sink_gives_none() -> None:
    """At the wrong end of the stream, with or without a named port."""
    written = document("s:source > a:map > k:sink")
    written["streams"] += [
        {"from": "a", "to": "s"},
        {"from": "k", "to": "a", "from_port": "out"},
        {"from": "k", "to": "s", "to_port": "in"},
    ]
    remedy = "remove the stream, or change the task's type"
    source = "the task 's' is a source; sources have no input"
    sink = "the task 'k' is a sink; sinks have no output"
    assert [
        problem("/streams/2/to", "source-with-inputs", source, remedy),
        problem("/streams/3/from", "sink-with-outputs", sink, remedy),
        problem("/streams/4/from", "sink-with-outputs", sink, remedy),
        problem("/streams/4/to", "source-with-inputs", source, remedy),
    ] == problems(written)


def test_a_port_may_be_left_out_only_if_it_is_the_only_one() -> None:
    """If a task has several, they are listed."""
    written = linked(
        "s:source p:split j:join k:sink",
        {"from": "s", "to": "p"},
        {"from": "p", "to": "j"},
        {"from": "j", "to": "k"},
    )

    def missing_port(name: str, field: str, ports: str) -> Problem:
        side = "output" if field == "from_port" else "input"
        message = f"the task '{name}' has several {side} ports, and the stream names none"
        return problem("/streams/1", "missing-port", message, f"add '{field}', one of {ports}")

    from_split = missing_port("p", "from_port", "'even', 'odd'")
    to_join = missing_port("j", "to_port", "'left', 'right'")
    assert [from_split, to_join] == problems(written)
    written["streams"][1] |= {"from_port": None, "to_port": "left"}
    assert [from_split] == problems(written)


def test_an_unknown_port_suggests_a_similar_one_or_lists_all() -> None:
    """Only ports of that side count, and names are exact."""
    written = linked(
        "s:source p:split j:join k:sink",
        {"from": "s", "from_port": "even", "to": "p", "to_port": "out"},
        {"from": "p", "from_port": "evn", "to": "j", "to_port": "Left"},
        {"from": "p", "from_port": "odd", "to": "j", "to_port": "zzz"},
        {"from": "j", "to": "k"},
    )

    def unknown_port(place: str, message: str, remedy: str) -> Problem:
        return problem(f"/streams/{place}", "unknown-port", message, remedy)

    assert [
        unknown_port("0/from_port", "the task 's' of type 'source' has no output port 'even'", "it has 'out'"),
        unknown_port("0/to_port", "the task 'p' of type 'split' has no input port 'out'", "it has 'in'"),
        unknown_port("1/from_port", "the task 'p' of type 'split' has no output port 'evn'", "did you mean 'even'?"),
        unknown_port("1/to_port", "the task 'j' of type 'join' has no input port 'Left'", "did you mean 'left'?"),
        unknown_port("2/to_port", "the task 'j' of type 'join' has no input port 'zzz'", "it has 'left', 'right'"),
    ] == problems(written)


def test_a_stream_back_to_its_own_task_is_a_self_loop() -> None:
    """Reported once, and not as a cycle, with any ports."""
    assert [self_loop(2, "a")] == problems(document("s:source > a:map > k:sink a > a"))
    written = document("s:source > p:split..even > j:join.left > k:sink p.odd > j.right j > j.left")
    assert [self_loop(4, "j")] == problems(written)


def test_a_repeated_stream_is_reported_with_the_first() -> None:
    """For each repetition, without further problems."""
    written = document("s:source > a:map > k:sink")
    written["streams"] += [{"from": "a", "to": "k"}, {"from": "a", "to": "k"}, {"from": "s", "to": "a"}]
    assert [repeated_stream(2, 1), repeated_stream(3, 1), repeated_stream(4, 0)] == problems(written)


def test_a_default_port_repeats_the_same_port_by_name() -> None:
    """The end of the stream counts, not its notation."""
    written = document("s:source > k:sink")
    written["streams"] += [
        {"from": "s", "to": "k", "to_port": "in"},
        {"from": "s", "from_port": "out", "to": "k"},
        {"from": "s", "from_port": "out", "to": "k", "to_port": None},
    ]
    assert [repeated_stream(1, 0), repeated_stream(2, 0), repeated_stream(3, 0)] == problems(written)


def test_streams_between_other_ports_of_the_same_tasks_are_no_repetition() -> None:
    """Two tasks may be connected by all their ports."""
    flow = canonicalise(
        document("s:source > p:split p.even > j:join.left p.even > j.right p.odd > j.left p.odd > j.right j > k:sink")
    )
    join = flow.tasks[flow.places["j"]]
    assert [("left", "even"), ("left", "odd"), ("right", "even"), ("right", "odd")] == [
        (given.port, given.parent_port) for given in join.inputs
    ]


def test_a_repeated_stream_hides_no_dead_end() -> None:
    """Both are reported at once."""
    written = document("s:source > k:sink s > a:map")
    written["streams"].append({"from": "s", "to": "k"})
    assert [("/tasks/2", "fruitless-task"), ("/streams/2", "repeated-stream")] == codes(written)


def test_a_repeated_id_is_reported_at_every_task_but_the_first() -> None:
    """With the index of the first task."""
    written = document("s:source > a:map > k:sink")
    written["tasks"] += [{"id": "a", "type": "scale"}, {"id": "a", "type": "map"}, {"id": "k", "type": "sink"}]
    assert [repeated_id(3, "a", 1), repeated_id(4, "a", 1), repeated_id(5, "k", 2)] == problems(written)


def test_streams_to_a_repeated_id_are_no_second_problem() -> None:
    """An apparent repetition, loop or cycle may be none, since the intended task is unknown."""
    written = linked(
        "s:source a:map b:map k:sink",
        {"from": "s", "to": "a"},
        {"from": "s", "to": "a"},
        {"from": "a", "to": "a"},
        {"from": "a", "to": "b"},
        {"from": "b", "to": "a", "to_port": "left"},
        {"from": "a", "to": "k"},
        {"from": "a", "to": "x"},
    )
    written["tasks"].append({"id": "a", "type": "join"})
    assert [repeated_id(4, "a", 1), unknown_task("/streams/6/to", "'x'")] == problems(written)


def test_streams_are_joined_in_the_order_of_the_document() -> None:
    """By the positions of their tasks, with both ports named."""
    wires = join_streams(find_types(draft("s:source > p:split..even > j:join.left > k:sink p.odd > j.right"))).wires
    assert [(0, "out", 1, "in"), (1, "even", 2, "left"), (2, "out", 3, "in"), (1, "odd", 2, "right")] == [*wires]
