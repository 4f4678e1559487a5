"""Third-party task types: an exception or a wrong result is one problem of the task, never a traceback."""

from collections.abc import Callable
from typing import Any

import pytest

from dags import Kind, NamesSource, Problem, Read, Schema, State, TaskType, Unsuitable
from dags.canonical.tasks import ask
from tests.catalogue import NoConfig
from tests.dags.refusal import FreeConfig, catalogue_with, problem, problems
from tests.notation import document

REMEDY = "report it to the provider of the type"


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def raising(error: BaseException) -> Callable[..., Any]:
    """A hook that raises."""

    def hook(*_: Any) -> Any:
        raise error

    return hook


def answering(answer: Any) -> Callable[..., Any]:
    """A hook that answers the same whatever it is asked."""
    return lambda *_: answer


def hook_problems(**hooks: Any) -> list[Problem]:
    """The problems of a document with a task of a type with these hooks."""
    odd = TaskType(**{"name": "odd", "config": NoConfig, **hooks})
    return problems(document("s:source > o:odd > a:map > k:sink"), catalogue=catalogue_with(odd))


def failed(what: str, task: int = 1) -> list[Problem]:
    message = f"the task type 'odd' failed on this task: {what}"
    return [problem(f"/tasks/{task}", "task-type-failed", message, REMEDY)]


@pytest.mark.parametrize("hook", ["output_schema", "reads", "normalise"])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("field"), "KeyError: 'field'"),
        (ValueError(), "ValueError: "),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (Speechless(), "Speechless: no reason given"),
        (ValueError("half \ud800"), "ValueError: half \\ud800"),
    ],
)
def test_a_hook_that_raises_is_one_problem_of_its_task(hook: str, error: Exception, said: str) -> None:
    """With the error's type and message, as far as they are printable."""
    found = hook_problems(**{hook: raising(error)})
    assert failed(said) == found
    str(found[0]).encode()


def test_key_fields_that_raise_are_one_problem_of_their_task() -> None:
    """If state is kept per key."""
    assert failed("KeyError: 'x'") == hook_problems(state=State.KEY, key_fields=raising(KeyError("x")))


def test_fields_to_emit_once_by_that_raise_are_one_problem_of_their_task() -> None:
    """If a type declares them."""
    assert failed("KeyError: 'x'") == hook_problems(state=State.STREAM, unique_by=raising(KeyError("x")))


@pytest.mark.parametrize(("at", "place"), [("", "/tasks/1"), ("by/0", "/tasks/1/config/by/0")])
def test_an_unsuitable_config_is_a_problem_at_its_place(at: str, place: str) -> None:
    """In the type's own words, as a problem that the tenant can fix."""
    found = hook_problems(output_schema=raising(Unsuitable("a is no b", "give it a b", at)))
    assert [problem(place, "wrong-kind-upstream", "a is no b", "give it a b")] == found


def test_an_interrupt_is_not_caught() -> None:
    """It stops the check."""
    with pytest.raises(KeyboardInterrupt):
        hook_problems(reads=raising(KeyboardInterrupt()))


@pytest.mark.parametrize(
    ("answer", "listed"),
    [({}, "none"), ({"out": Schema.of(), "more": Schema.of()}, "'out', 'more'"), ({"even": Schema.of()}, "'even'")],
)
def test_schemas_for_other_ports_are_one_problem(answer: Any, listed: str) -> None:
    """The problem names them."""
    message = f"the task type 'odd' returned schemas for {listed}, not for its ports"
    assert [problem("/tasks/1", "task-type-failed", message, REMEDY)] == hook_problems(output_schema=answering(answer))


@pytest.mark.parametrize("answer", [None, 5, "out", ["out"], {"out": None}, {"out": {"a": "float"}}, {"out": Schema}])
def test_a_wrong_output_schema_is_one_problem(answer: Any) -> None:
    """Of the task whose type returned it, and of no other."""
    [found] = hook_problems(output_schema=answering(answer))
    assert ("/tasks/1", "task-type-failed", REMEDY) == (found.pointer, found.code, found.remedy)


@pytest.mark.parametrize("answer", [None, {"a": "float"}, Schema])
def test_a_value_that_is_not_a_schema_is_a_problem(answer: Any) -> None:
    """Before the next task uses it."""
    expected = failed("TypeError: output_schema returned something other than a schema")
    assert expected == hook_problems(output_schema=answering({"out": answer}))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        5,
        ("value",),
        (Read(at="", field="value", port="nowhere"),),
        (Read(at="", field=[]),),  # type: ignore[arg-type]
        (Read(at="", field=5),),  # type: ignore[arg-type]
        (Read(at=5, field="x"),),  # type: ignore[arg-type]
        (Read(at="", field="value", kinds=5),),  # type: ignore[arg-type]
    ],
)
def test_wrong_reads_are_one_problem(answer: Any) -> None:
    """Not a list of reads, or impossible reads."""
    for state in State:
        [found] = hook_problems(reads=answering(answer), state=state)
        assert ("/tasks/1", "task-type-failed", REMEDY) == (found.pointer, found.code, found.remedy)


@pytest.mark.parametrize("answer", [None, 5, (5,), ([],)])
def test_wrong_key_fields_are_one_problem(answer: Any) -> None:
    """Not a tuple of names."""
    [found] = hook_problems(state=State.KEY, key_fields=answering(answer))
    assert ("/tasks/1", "task-type-failed", REMEDY) == (found.pointer, found.code, found.remedy)


@pytest.mark.parametrize("answer", [5, (5,), ([],)])
def test_wrong_fields_to_emit_once_by_are_one_problem(answer: Any) -> None:
    """Not a tuple of names."""
    [found] = hook_problems(state=State.STREAM, unique_by=answering(answer))
    assert ("/tasks/1", "task-type-failed", REMEDY) == (found.pointer, found.code, found.remedy)


def test_fields_to_emit_once_by_have_to_arrive() -> None:
    """At every input port."""
    [found] = hook_problems(state=State.STREAM, unique_by=answering(("odd",)))
    assert "/tasks/1" == found.pointer
    assert "no field 'odd'" in found.message


def test_fields_that_are_one_text_are_not_taken_letter_by_letter() -> None:
    """The comma of a tuple is easily forgotten."""
    said = "TypeError: key_fields returned a text, not a tuple of field names"
    assert failed(said) == hook_problems(state=State.KEY, key_fields=answering("place"))
    said = "TypeError: unique_by returned a text, not a tuple of field names"
    assert failed(said) == hook_problems(state=State.STREAM, unique_by=answering("place"))


def test_each_task_of_a_failing_type_is_a_problem_and_others_are_checked() -> None:
    """A failure on one task does not affect the rest of the document."""
    odd = TaskType(name="odd", config=NoConfig, reads=raising(KeyError("x")))
    text = "s:source > o:odd > k:sink s > p:odd > k s > c:count{'by': 'x'} > k"
    found = problems(document(text), catalogue=catalogue_with(odd))
    assert [("/tasks/1", "task-type-failed"), ("/tasks/3", "task-type-failed")] == [
        (problem.pointer, problem.code) for problem in found[:2]
    ]
    assert ["/tasks/4"] == [problem.pointer for problem in found[2:]]


def test_a_source_type_that_loses_its_source_is_one_problem() -> None:
    """A source task is never signed without its source."""
    odd = TaskType(name="odd", config=NamesSource, inputs=(), normalise=answering(NoConfig()))
    text = "s:odd{'source': 'diary'} > a:map > k:sink"
    said = "TypeError: normalise returned NoConfig, not NamesSource"
    assert failed(said, 0) == problems(document(text), catalogue=catalogue_with(odd))


@pytest.mark.parametrize("value", [2**53 + 1, "\ud800", {1: [10**30]}, object()])
def test_a_config_that_cannot_be_written_is_one_problem(value: Any) -> None:
    """No document can contain it, so only the type itself can have made it."""
    [found] = hook_problems(config=FreeConfig, normalise=answering(FreeConfig(value=value)))
    assert ("/tasks/1", "task-type-failed", REMEDY) == (found.pointer, found.code, found.remedy)


def test_the_result_of_a_hook_is_returned() -> None:
    """The hook gets its arguments."""
    assert Schema.of(a=Kind.FLOAT) == ask(0, "t", Schema.of, {"a": Kind.FLOAT})
    assert [3, 1] == ask(0, "t", sorted, [1, 3], reverse=True)
    assert failed("ZeroDivisionError: division by zero", 7) == [ask(7, "odd", lambda: 1 / 0)]
