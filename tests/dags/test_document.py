"""The form of documents: fields, types, lengths, the effect of broken entries, and the JSON Schema."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types of its own

from dags import Document, InvalidDocument, Problem
from dags.document import MOST_DOCUMENT_STREAMS, MOST_TASKS, read
from tests.dags.refusal import canonicalise, codes, problem, problems
from tests.notation import document

TWO = "s:source > k:sink"
THREE = "s:source > a:map > k:sink"
CONTROLS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))]


def with_task(position: int, **changes: Any) -> dict[str, Any]:
    """A document one of whose tasks is changed."""
    written = document(THREE)
    written["tasks"][position] |= changes
    return written


def with_id(name: str) -> dict[str, Any]:
    """A document one of whose tasks has this id, and its streams too."""
    return {
        **document(TWO),
        "tasks": [{"id": name, "type": "source", "config": {"source": "weather"}}, {"id": "out", "type": "sink"}],
        "streams": [{"from": name, "to": "out"}],
    }


def missing(pointer: str, field: str) -> Problem:
    return problem(pointer, "missing-field", f"the field '{field}' is missing", "add it")


def wrong_type(pointer: str, wanted: str) -> Problem:
    return problem(pointer, "wrong-type", f"the value should be {wanted}", f"give {wanted}")


def too_long(pointer: str, most: int) -> Problem:
    return problem(pointer, "too-long", f"the text is longer than {most} characters", "shorten it")


def too_short(pointer: str) -> Problem:
    return problem(pointer, "too-short", "the text must have a length of at least 1", "make it longer")


def test_the_smallest_document_is_accepted() -> None:
    """The form in the paper: no ports, and no unnecessary configs."""
    written = {
        "version": 1,
        "name": "n",
        "tasks": [{"id": "s", "type": "source", "config": {"source": "weather"}}, {"id": "k", "type": "sink"}],
        "streams": [{"from": "s", "to": "k"}],
    }
    flow = canonicalise(written)
    assert ("flow", "ann", "n", {"k": 1, "s": 0}, ("k",)) == (flow.id, flow.tenant, flow.name, flow.places, flow.sinks)


def test_everything_that_may_be_left_out_may_be_given() -> None:
    """Default values of ports, configs and `fresh` change nothing. A port may also be null."""
    written = document(TWO)
    written["tasks"][0]["fresh"] = False
    written["tasks"][1] |= {"config": {}, "fresh": False}
    written["streams"][0] |= {"from_port": "out", "to_port": "in"}
    assert canonicalise(document(TWO)) == canonicalise(written)
    written["streams"][0] |= {"from_port": None, "to_port": None}
    assert canonicalise(document(TWO)) == canonicalise(written)


def test_an_empty_object_lacks_every_field_and_nothing_else() -> None:
    """Missing fields come in the order of the form, without consequential problems."""
    assert [
        missing("/version", "version"),
        missing("/name", "name"),
        missing("/tasks", "tasks"),
        missing("/streams", "streams"),
    ] == problems({})


@pytest.mark.parametrize("version", [0, 2, -1, 10**6, 1.5, True, False, None, "1", [1], {}])
def test_other_versions_are_refused(version: Any) -> None:
    """Only the number 1 is a version."""
    expected = problem("/version", "unknown-version", "the version is unknown", "use 1")
    assert [expected] == problems({**document(TWO), "version": version})


def test_the_version_may_be_written_as_any_number_that_is_1() -> None:
    """JSON has one kind of number, so 1.0 is 1."""
    assert canonicalise(document(TWO)) == canonicalise({**document(TWO), "version": 1.0})


@pytest.mark.parametrize("part", ["tasks", "streams"])
@pytest.mark.parametrize("value", [None, "text", 5, True, {}, {"0": {}}])
def test_a_list_of_the_wrong_type_is_the_only_problem(part: str, value: Any) -> None:
    """Its entries cause no further problems."""
    assert [wrong_type(f"/{part}", "an array")] == problems({**document(TWO), part: value})


@pytest.mark.parametrize("part", ["tasks", "streams"])
def test_a_list_that_is_missing_is_the_only_problem(part: str) -> None:
    """A document without tasks or streams has no dead ends and no unknown ids."""
    written = document(TWO)
    del written[part]
    assert [missing(f"/{part}", part)] == problems(written)


def test_a_document_without_tasks_is_too_short() -> None:
    """An empty list of tasks does not also lack sources and sinks."""
    expected = problem("/tasks", "too-short", "the array must have a length of at least 1", "add entries")
    assert [expected] == problems({**document(TWO), "tasks": [], "streams": []})


@pytest.mark.parametrize(("part", "most"), [("tasks", MOST_TASKS), ("streams", MOST_DOCUMENT_STREAMS)])
def test_too_many_entries_are_refused_unread(part: str, most: int) -> None:
    """One entry more than allowed, of any content."""
    expected = problem(
        f"/{part}",
        f"too-many-{part}",
        f"the document has {most + 1:,} {part}; {most:,} are allowed",
        "split it into several dataflows; they share what they have in common",
    )
    assert [expected] == problems({**document(TWO), part: [None] * (most + 1)})
    assert expected not in problems({**document(TWO), part: [None] * most})


def test_limits_are_as_documented() -> None:
    """Ten thousand tasks, fifty thousand streams."""
    assert (10_000, 50_000) == (MOST_TASKS, MOST_DOCUMENT_STREAMS)


def test_each_entry_that_is_not_an_object_is_a_problem() -> None:
    """A list with only broken entries does not count as empty."""
    written = {**document(TWO), "tasks": [None, 5], "streams": ["s > k", []]}
    assert [
        wrong_type("/tasks/0", "an object"),
        wrong_type("/tasks/1", "an object"),
        wrong_type("/streams/0", "an object"),
        wrong_type("/streams/1", "an object"),
    ] == problems(written)


def test_each_bad_field_of_an_entry_is_a_problem() -> None:
    """Missing, unknown and mistyped fields of tasks and streams, at the place of the field."""
    written = document(THREE)
    written["tasks"][1] = {"idd": "a", "type": 5, "config": [], "fresh": 1}
    written["streams"][0] = {"form": "s", "to": None, "from_port": 0, "to_port": ["in"]}
    assert [
        wrong_type("/tasks/1/config", "an object"),
        wrong_type("/tasks/1/fresh", "true or false"),
        missing("/tasks/1/id", "id"),
        problem("/tasks/1/idd", "unknown-field", "unknown field 'idd'", "did you mean 'id'?"),
        wrong_type("/tasks/1/type", "a string"),
        problem("/streams/0/form", "unknown-field", "unknown field 'form'", "did you mean 'from'?"),
        missing("/streams/0/from", "from"),
        wrong_type("/streams/0/from_port", "a string"),
        wrong_type("/streams/0/to", "a string"),
        wrong_type("/streams/0/to_port", "a string"),
        # What follows is about a stream that can be read: its task's id is missing, so nobody has it.
        problem("/streams/1/from", "unknown-task", "no task has the id 'a'", "correct the id, or add the task"),
    ] == problems(written)


def test_an_unknown_field_lists_the_known_ones() -> None:
    """If no known name is similar."""
    written = document(TWO)
    written["zzz"] = 1
    written["tasks"][0]["zzz"] = 1
    written["streams"][0]["zzz"] = 1
    unknown = "unknown field 'zzz'"
    assert [
        problem(
            "/tasks/0/zzz",
            "unknown-field",
            unknown,
            "remove it; the known fields are 'id', 'type', 'config', 'module', 'tags', 'fresh'",
        ),
        problem(
            "/streams/0/zzz",
            "unknown-field",
            unknown,
            "remove it; the known fields are 'from', 'from_port', 'to', 'to_port'",
        ),
        problem(
            "/zzz", "unknown-field", unknown, "remove it; the known fields are 'version', 'name', 'tasks', 'streams'"
        ),
    ] == problems(written)


def test_an_unknown_field_of_any_name_has_its_pointer() -> None:
    """Empty names, names with characters that pointers escape, and long numbers."""
    digits = "9" * 5_000
    written = {**document(TWO), "": 1, "a/b~c": 1, digits: 1, "7": 1}
    assert ["/", "/7", f"/{digits}", "/a~1b~0c"] == [problem.pointer for problem in problems(written)]


@pytest.mark.parametrize(("name", "length"), [("a", 128), ("é", 128), ("😀", 128), ("a", 1)])
def test_ids_up_to_their_limit_are_accepted(name: str, length: int) -> None:
    """Characters count, not bytes."""
    assert {name * length, "out"} == set(canonicalise(with_id(name * length)).places)


def test_names_that_are_too_long_or_empty_are_refused() -> None:
    """Ids, types, names and ports have a maximum length in characters. The maximum itself is allowed."""
    assert [too_long("/name", 200)] == problems({**document(TWO), "name": "é" * 201})
    assert "é" * 200 == canonicalise({**document(TWO), "name": "é" * 200}).name
    assert [too_short("/name")] == problems({**document(TWO), "name": ""})
    assert [too_long("/tasks/0/id", 128), too_long("/streams/0/from", 128)] == problems(with_id("i" * 129))
    assert [too_short("/tasks/0/id")] == problems(with_id(""))
    assert [too_long("/tasks/1/type", 200)] == problems(with_task(1, type="t" * 201))
    assert [("/tasks/1/type", "unknown-type")] == codes(with_task(1, type="t" * 200))
    assert [too_short("/tasks/1/type")] == problems(with_task(1, type=""))
    for port in ("from_port", "to_port"):
        written = document(TWO)
        written["streams"][0][port] = "p" * 201
        assert [too_long(f"/streams/0/{port}", 200)] == problems(written)
        written["streams"][0][port] = "p" * 200
        assert [(f"/streams/0/{port}", "unknown-port")] == codes(written)
        written["streams"][0][port] = ""
        assert [too_short(f"/streams/0/{port}")] == problems(written)
    written = document(TWO)
    written["streams"][0] = {"from": "f" * 128, "to": "t" * 129}
    assert [too_long("/streams/0/to", 128)] == problems(written)
    written["streams"][0] = {"from": "s", "to": "t" * 128}
    assert [("/streams/0/to", "unknown-task")] == codes(written)
    written["streams"][0] = {"from": "s", "to": ""}
    assert [("/streams/0/to", "unknown-task")] == codes(written)


@pytest.mark.parametrize("character", ["/", "+", "#", *CONTROLS])
def test_ids_contain_no_special_characters_of_topics(character: str) -> None:
    """Nor control characters, because an id names a topic."""
    expected = problem(
        "/tasks/0/id",
        "wrong-value",
        "the text contains characters that are not allowed here",
        r"use a text that matches ^[^/+#\x00-\x1f\x7f-\x9f]+$",
    )
    for name in (character, f"{character}a", f"a{character}"):
        assert [expected] == problems(with_id(name))


@pytest.mark.parametrize("character", ["\n", "\x00", "\x1f", "\x7f", "\x9f"])
def test_the_name_contains_no_control_characters(character: str) -> None:
    """A name is one line for people."""
    expected = problem(
        "/name",
        "wrong-value",
        "the text contains characters that are not allowed here",
        r"use a text that matches ^[^\x00-\x1f\x7f-\x9f]+$",
    )
    assert [expected] == problems({**document(TWO), "name": f"a{character}"})


@pytest.mark.parametrize("name", [" ", "~", "$share", "é", "\u00a0", "日本", "a b", "'", '"', "\\", "constructor"])
def test_other_characters_are_fine_in_ids_and_names(name: str) -> None:
    """Everything printable, in any script."""
    assert {name, "out"} == set(canonicalise(with_id(name)).places)
    assert name == canonicalise({**document(TWO), "name": name}).name


def test_streams_to_a_broken_task_are_no_second_problem() -> None:
    """The id of the task is known even if the rest is unreadable, and no task counts as a dead end."""
    written = document("s:source > a:map > b:map > k:sink")
    written["tasks"][1]["fresh"] = None
    assert [wrong_type("/tasks/1/fresh", "true or false")] == problems(written)
    written["tasks"][1] = {"id": "a", "type": "map", "config": {"add": float("inf")}}
    assert [("/tasks/1/config/add", "not-finite")] == codes(written)


def test_broken_entries_and_problems_of_meaning_come_together_in_order() -> None:
    """The form of one task, the type of another, a config, a stream and the name, in one run."""
    written = document("s:source > a:mapp > b:map{'ad': 1} > c:map > d:scale > k:sink")
    written["name"] = 5
    written["tasks"][4]["fresh"] = "no"
    written["streams"][0]["to"] = "x"
    written["streams"].append({"from": "s"})
    written["streams"].append({"from": "c", "to": "c"})
    assert [
        ("/name", "wrong-type"),
        ("/tasks/1/type", "unknown-type"),
        ("/tasks/2/config/ad", "unknown-field"),
        ("/tasks/4/fresh", "wrong-type"),
        ("/streams/0/to", "unknown-task"),
        ("/streams/5/to", "missing-field"),
        ("/streams/6", "self-loop"),
    ] == codes(written)


def test_problems_of_entries_are_in_numerical_order() -> None:
    """The tenth entry comes after the second."""
    written = {**document(TWO), "tasks": [0] * 12, "streams": [0] * 12}
    expected = [f"/{part}/{i}" for part in ("tasks", "streams") for i in range(12)]
    assert expected == [problem.pointer for problem in problems(written)]


def test_checks_of_the_form_stop_after_a_thousand_problems() -> None:
    """The first thousand are reported."""
    written = {**document(TWO), "tasks": [0] * 1_500, "streams": []}
    assert [f"/tasks/{i}" for i in range(1_000)] == [problem.pointer for problem in problems(written)]


VALIDATOR = Draft202012Validator(Document.model_json_schema())
SHORTEST = document("s:source > k:sink")


def task(**fields: Any) -> dict[str, Any]:
    return {**SHORTEST, "tasks": [{"id": "s", "type": "source", **fields}, SHORTEST["tasks"][1]]}


def stream(**fields: Any) -> dict[str, Any]:
    return {**SHORTEST, "streams": [{"from": "s", "to": "k", **fields}]}


def without(written: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in written.items() if name != field}


WELL_FORMED: dict[str, dict[str, Any]] = {
    "plain": SHORTEST,
    "ports": document("s:source > p:split..even > j:join.left > k:sink p.odd > j.right"),
    "fresh": document("s:source > a!:map{'add': 1} > k:sink"),
    "null ports": stream(from_port=None, to_port=None),
    "free config": task(config={"": [None, {"a": [1.5, "é"]}]}),
    "no config": task(),
    "version as a float": {**SHORTEST, "version": 1.0},
    "longest id": task(id="é" * 128),
    "longest type": task(type="t" * 200),
    "longest name": {**SHORTEST, "name": "😀" * 200},
    "longest port": stream(to_port="p" * 64),
    "id of a stream may be empty": stream(to=""),
    "no streams": {**SHORTEST, "streams": []},
}
MALFORMED: dict[str, Any] = {
    "not an object": [],
    "empty": {},
    **{f"no {field}": without(SHORTEST, field) for field in SHORTEST},
    **{f"{field} null": {**SHORTEST, field: None} for field in SHORTEST},
    "version 2": {**SHORTEST, "version": 2},
    "version true": {**SHORTEST, "version": True},
    "version as a text": {**SHORTEST, "version": "1"},
    "unknown field": {**SHORTEST, "extra": 1},
    "empty name": {**SHORTEST, "name": ""},
    "long name": {**SHORTEST, "name": "n" * 201},
    "control character in the name": {**SHORTEST, "name": "a\tb"},
    "no task": {**SHORTEST, "tasks": []},
    "too many tasks": {**SHORTEST, "tasks": SHORTEST["tasks"] * (MOST_TASKS // 2 + 1)},
    "task no object": {**SHORTEST, "tasks": ["s"]},
    "tasks no list": {**SHORTEST, "tasks": {"s": {"type": "source"}}},
    "task without id": {**SHORTEST, "tasks": [{"type": "source"}]},
    "task without type": {**SHORTEST, "tasks": [{"id": "s"}]},
    "unknown field of a task": task(extra=1),
    "empty id": task(id=""),
    "long id": task(id="i" * 129),
    "slash in an id": task(id="a/b"),
    "plus in an id": task(id="+"),
    "hash in an id": task(id="#"),
    "control character in an id": task(id="a\x85b"),
    "number as an id": task(id=5),
    "empty type": task(type=""),
    "long type": task(type="t" * 201),
    "config no object": task(config=[]),
    "config null": task(config=None),
    "fresh as a number": task(fresh=1),
    "fresh null": task(fresh=None),
    "stream no object": {**SHORTEST, "streams": [["s", "k"]]},
    "stream without from": {**SHORTEST, "streams": [{"to": "k"}]},
    "stream without to": {**SHORTEST, "streams": [{"from": "s"}]},
    "unknown field of a stream": stream(extra=1),
    "null end": stream(to=None),
    "long end": stream(to="t" * 129),
    "empty port": stream(from_port=""),
    "long port": stream(from_port="p" * 201),
    "number as a port": stream(to_port=0),
}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_the_reader_accepts_what_the_schema_accepts(name: str) -> None:
    """Without a problem of form."""
    assert [] == list(VALIDATOR.iter_errors(WELL_FORMED[name]))
    assert () == read(json.dumps(WELL_FORMED[name])).problems


@pytest.mark.parametrize("name", MALFORMED)
def test_the_reader_refuses_what_the_schema_refuses(name: str) -> None:
    """With a problem of form."""
    assert not VALIDATOR.is_valid(MALFORMED[name])
    try:
        found = read(json.dumps(MALFORMED[name])).problems
    except InvalidDocument as refused:
        found = refused.problems
    assert found


def test_the_schema_is_valid() -> None:
    """By the rules of JSON Schema itself."""
    Draft202012Validator.check_schema(Document.model_json_schema())
