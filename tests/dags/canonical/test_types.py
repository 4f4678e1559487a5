"""The types that tasks name."""

import json
from typing import Any

from dags import AnyTaskType, Catalogue, Namespace, TaskType
from tests.catalogue import MapConfig, NoConfig
from tests.dags.refusal import canonicalise, catalogue_with, codes, problem, problems
from tests.notation import document


def test_an_unknown_type_suggests_a_similar_one() -> None:
    """At the task's type. The most similar one has the fewest different letters."""
    expected = [
        problem("/tasks/1/type", "unknown-type", "unknown task type 'coutn'", "did you mean 'count'?"),
        problem("/tasks/2/type", "unknown-type", "unknown task type 'skale'", "did you mean 'scale'?"),
    ]
    assert expected == problems(document("s:source > a:coutn > b:skale > k:sink"))


def test_an_unknown_type_lists_the_known_ones() -> None:
    """Namespaces have a star."""
    catalogue = Catalogue.of(
        [
            TaskType(name="source", config=NoConfig),
            TaskType(name="sink", config=NoConfig, outputs=()),
            Namespace("opmw:", lambda _: None),
        ]
    )
    remedy = "the known types are 'sink', 'source', 'opmw:*'"
    expected = [problem("/tasks/0/type", "unknown-type", "unknown task type 'xyz'", remedy)]
    assert expected == problems(document("a:xyz > k:sink"), catalogue=catalogue)


def test_a_name_that_its_namespace_does_not_know_is_unknown() -> None:
    """The most similar one may be the namespace itself."""
    expected = problem("/tasks/1/type", "unknown-type", "unknown task type 'lab:7'", "did you mean 'lab:*'?")
    assert [expected] == problems(document("s:source > a:lab:7 > k:sink"))


def test_a_namespace_gives_types_of_its_own() -> None:
    """They work like any other type."""
    flow = canonicalise(document("s:source > a:lab:still{'add': 1} > k:sink"))
    assert ("lab:still", {"add": 1}) == (flow.tasks[1].type.name, flow.tasks[1].config)


def test_a_misspelt_type_makes_no_dead_ends() -> None:
    """For a source, a sink or a task between them, nothing else is reported."""
    assert [("/tasks/0/type", "unknown-type")] == codes(document("s:sorce > a:map > k:sink"))
    assert [("/tasks/1/type", "unknown-type")] == codes(document("s:source > a:mapp > b:scale > k:sink"))
    assert [("/tasks/2/type", "unknown-type")] == codes(document("s:source > a:map > k:sinkk"))


def test_a_misspelt_type_takes_any_config_and_any_port() -> None:
    """These are unknown, so they are not checked."""
    written = document("s:source > a:mapp{'nonsense': 1} > k:sink")
    written["streams"][0]["to_port"] = "left"
    assert [("/tasks/1/type", "unknown-type")] == codes(written)


def test_each_name_is_looked_up_once() -> None:
    """For all tasks that name it, whether the namespace knows it or not."""
    asked: list[str] = []

    def resolve(name: str) -> AnyTaskType | None:
        asked.append(name)
        return TaskType(name=name, config=MapConfig) if name == "q:known" else None

    catalogue = catalogue_with(Namespace("q:", resolve))
    flow = canonicalise(document("s:source > a:q:known > b:q:known > c:q:known > k:sink"), catalogue=catalogue)
    assert ["q:known"] == asked
    assert flow.tasks[1].type is flow.tasks[3].type
    asked.clear()
    text = "s:source > a:q:other > b:q:other > c:q:known > k:sink"
    assert [("/tasks/1/type", "unknown-type"), ("/tasks/2/type", "unknown-type")] == codes(
        document(text), catalogue=catalogue
    )
    assert ["q:other", "q:known"] == asked


def test_a_namespace_that_raises_is_a_problem_of_each_of_its_tasks() -> None:
    """And of no other."""

    def resolve(name: str) -> AnyTaskType | None:
        raise LookupError(name)

    def failed(task: int) -> Any:
        return problem(
            f"/tasks/{task}",
            "task-type-failed",
            "the task type 'q:x' failed on this task: LookupError: q:x",
            "report it to the provider of the type",
        )

    written = document("s:source > a:q:x > b:q:x > c:map > k:sink")
    assert [failed(1), failed(2)] == problems(written, catalogue=catalogue_with(Namespace("q:", resolve)))


def test_a_namespace_that_gives_nonsense_is_a_problem_of_the_task() -> None:
    """Something that is not a task type, or a type of another name."""
    written = document("s:source > a:q:x > k:sink")
    for given, description in (("text", "str"), (TaskType(name="map", config=MapConfig), "'map'")):
        nonsense: Any = given
        catalogue = catalogue_with(Namespace("q:", {"q:x": nonsense}.get))
        expected = problem(
            "/tasks/1",
            "task-type-failed",
            "the task type 'q:x' failed on this task: TypeError: "
            f"the namespace 'q:' returned {description} instead of 'q:x'",
            "report it to the provider of the type",
        )
        assert [expected] == problems(written, catalogue=catalogue)


def test_types_are_found_by_their_exact_name() -> None:
    """Case and Unicode form matter."""
    catalogue = catalogue_with(TaskType(name="caf\u00e9", config=NoConfig))
    written = document("s:source > a:map > k:sink")
    written["tasks"][1]["type"] = "caf\u00e9"
    assert "caf\u00e9" == canonicalise(json.dumps(written), catalogue=catalogue).tasks[1].type.name
    written["tasks"][1]["type"] = "cafe\u0301"
    assert [("/tasks/1/type", "unknown-type")] == codes(written, catalogue=catalogue)
    written["tasks"][1]["type"] = "CAF\u00c9"
    assert [("/tasks/1/type", "unknown-type")] == codes(written, catalogue=catalogue)
