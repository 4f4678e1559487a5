"""Task types that others wrote: whatever they raise or answer is one problem of the task, never a traceback."""

from collections.abc import Callable
from typing import Any

import pytest

from dags import Kind, NamesSource, Problem, Read, Schema, State, TaskType, Unsuitable
from dags.canonical.hooks import ask
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


def told(**hooks: Any) -> list[Problem]:
    """What a document is told that has a task of a type with these hooks."""
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
    """With the error's name and words, as far as it has any that can be written."""
    found = told(**{hook: raising(error)})
    assert failed(said) == found
    str(found[0]).encode()


def test_key_fields_that_raise_are_one_problem_of_their_task() -> None:
    """Where state is kept per key."""
    assert failed("KeyError: 'x'") == told(state=State.KEY, key_fields=raising(KeyError("x")))


@pytest.mark.parametrize(("at", "place"), [("", "/tasks/1"), ("by/0", "/tasks/1/config/by/0")])
def test_what_a_type_finds_unsuitable_is_told_at_its_place(at: str, place: str) -> None:
    """In the type's own words, and as what the tenant can mend."""
    found = told(output_schema=raising(Unsuitable("a is no b", "give it a b", at)))
    assert [problem(place, "wrong-kind-upstream", "a is no b", "give it a b")] == found


def test_what_is_no_error_is_not_caught() -> None:
    """An interrupt stops the check."""
    with pytest.raises(KeyboardInterrupt):
        told(reads=raising(KeyboardInterrupt()))


@pytest.mark.parametrize(
    ("answer", "listed"),
    [({}, "none"), ({"out": Schema.of(), "more": Schema.of()}, "'out', 'more'"), ({"even": Schema.of()}, "'even'")],
)
def test_schemas_for_other_ports_are_one_problem(answer: Any, listed: str) -> None:
    """They are named."""
    message = f"the task type 'odd' returned schemas for {listed}, not for its ports"
    assert [problem("/tasks/1", "task-type-failed", message, REMEDY)] == told(output_schema=answering(answer))


@pytest.mark.parametrize("answer", [None, 5, "out", ["out"], {"out": None}, {"out": {"a": "float"}}, {"out": Schema}])
def test_an_output_schema_that_is_none_is_one_problem(answer: Any) -> None:
    """Of the task whose type answered, and of no other."""
    [found] = told(output_schema=answering(answer))
    assert ("/tasks/1", "task-type-failed", REMEDY) == (found.pointer, found.code, found.remedy)


@pytest.mark.parametrize("answer", [None, {"a": "float"}, Schema])
def test_what_should_be_a_schema_and_is_none_is_told(answer: Any) -> None:
    """Not left to the next task to find out."""
    expected = failed("TypeError: output_schema returned something other than a schema")
    assert expected == told(output_schema=answering({"out": answer}))


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
def test_reads_that_are_none_are_one_problem(answer: Any) -> None:
    """Not a list of reads, or reads of what cannot be."""
    for state in State:
        [found] = told(reads=answering(answer), state=state)
        assert ("/tasks/1", "task-type-failed", REMEDY) == (found.pointer, found.code, found.remedy)


@pytest.mark.parametrize("answer", [None, 5, (5,), ([],)])
def test_key_fields_that_are_none_are_one_problem(answer: Any) -> None:
    """Not a tuple of names."""
    [found] = told(state=State.KEY, key_fields=answering(answer))
    assert ("/tasks/1", "task-type-failed", REMEDY) == (found.pointer, found.code, found.remedy)


def test_key_fields_that_are_one_text_are_not_taken_letter_by_letter() -> None:
    """The comma that makes a tuple is easily forgotten."""
    said = "TypeError: key_fields returned a text, not a tuple of field names"
    assert failed(said) == told(state=State.KEY, key_fields=answering("place"))


def test_each_task_of_a_failing_type_is_told_and_the_others_are_checked() -> None:
    """Failing on one task says nothing about the rest of the document."""
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
    """What no document can hold, and only the type itself can have made."""
    [found] = told(config=FreeConfig, normalise=answering(FreeConfig(value=value)))
    assert ("/tasks/1", "task-type-failed", REMEDY) == (found.pointer, found.code, found.remedy)


def test_an_answer_is_handed_on() -> None:
    """With the arguments that the hook was to have."""
    assert Schema.of(a=Kind.FLOAT) == ask(0, "t", Schema.of, {"a": Kind.FLOAT})
    assert [3, 1] == ask(0, "t", sorted, [1, 3], reverse=True)
    assert failed("ZeroDivisionError: division by zero", 7) == [ask(7, "odd", lambda: 1 / 0)]
