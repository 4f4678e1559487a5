"""Configs checked against the schema of their type, and exceptions of third-party types as problems."""

from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, field_validator, model_validator

from dags import Config, Kind, NamesSource, Problem, Read, Schema, Secret, State, TaskType, Unsuitable
from dags.canonical.tasks import ask
from dags.problems import MOST_DOCUMENT_PROBLEMS
from tests.catalogue import AnyOrderConfig, MapConfig, NoConfig
from tests.dags.refusal import FreeConfig, canonicalise, catalogue_with, codes, problem, problems
from tests.notation import document


class Inner(Config):
    low: float = 0.0
    high: float


class ManyConfig(Config):
    flag: bool = False
    whole: Annotated[int, Field(ge=0, le=9)] = 0
    number: float = 0.0
    text: Annotated[str, Field(min_length=2, max_length=3, pattern="^[a-z]*$")] = "ab"
    choice: Literal["red", "green"] = "red"
    names: Annotated[tuple[str, ...], Field(min_length=1)] = ("a",)
    pair: tuple[float, float] = (0.0, 1.0)
    table: dict[str, list[int]] = Field(default_factory=dict)
    inner: Inner = Inner(high=1.0)
    several: int | tuple[int, ...] = 0
    three: Annotated[tuple[int, ...], Field(min_length=3)] = (1, 2, 3)
    alias: str = Field(default="", alias="from")
    anything: Any = None


class CheckedConfig(Config):
    x: int = 0

    @field_validator("x")
    @classmethod
    def _checked(cls, x: int) -> int:
        if x == 1:
            raise ValueError("One is taken already")
        if x == 2:
            raise ValueError
        if x == 3:
            raise AssertionError("Three is too many")
        if x == 4:
            raise AssertionError
        if x == 5:
            raise KeyError("five")
        return x

    @model_validator(mode="after")
    def _together(self) -> "CheckedConfig":
        if self.x == 6:
            raise ValueError("never 6")
        return self


MANY = catalogue_with(TaskType(name="many", config=ManyConfig), TaskType(name="checked", config=CheckedConfig))
BREAKS = "change it"


def config_problems(config: dict[str, Any], kind: str = "many") -> list[Problem]:
    """The problems of a config."""
    written = document(f"s:source > m:{kind} > k:sink")
    written["tasks"][1]["config"] = config
    return problems(written, catalogue=MANY)


def wrong(place: str, code: str, message: str, remedy: str) -> list[Problem]:
    return [problem(f"/tasks/1/config{place}", code, message, remedy)]


@pytest.mark.parametrize(
    ("config", "place", "wanted"),
    [
        ({"flag": 1}, "/flag", "true or false"),
        ({"flag": None}, "/flag", "true or false"),
        ({"flag": "true"}, "/flag", "true or false"),
        ({"whole": "1"}, "/whole", "an integer"),
        ({"whole": True}, "/whole", "an integer"),
        ({"whole": 1.5}, "/whole", "an integer"),
        ({"number": "1"}, "/number", "a number"),
        ({"number": False}, "/number", "a number"),
        ({"text": 5}, "/text", "a string"),
        ({"names": "abc"}, "/names", "an array"),
        ({"names": {}}, "/names", "an array"),
        ({"names": ["a", 5]}, "/names/1", "a string"),
        ({"names": [5]}, "/names/0", "a string"),
        ({"three": [1, "x", 3]}, "/three/1", "an integer"),
        ({"pair": [0, None]}, "/pair/1", "a number"),
        ({"table": []}, "/table", "an object"),
        ({"table": {"a/b": 1}}, "/table/a~1b", "an array"),
        ({"table": {"a": [0, "1"]}}, "/table/a/1", "an integer"),
        ({"inner": 5}, "/inner", "an object"),
        ({"inner": {"high": "1"}}, "/inner/high", "a number"),
        ({"from": 5}, "/from", "a string"),
    ],
)
def test_a_value_of_the_wrong_type_is_a_problem_at_its_place(config: dict[str, Any], place: str, wanted: str) -> None:
    """Nothing is converted. The message names the expected JSON type."""
    assert wrong(place, "wrong-type", f"the value should be {wanted}", f"give {wanted}") == config_problems(config)


def test_an_integer_field_takes_no_large_float() -> None:
    """A float field does. The problem of the integer field is the limit, not the type."""
    message = "the integer is beyond ±2^53, where JSON numbers lose digits"
    found = config_problems({"whole": 1e16, "number": 1e16})
    assert wrong("/whole", "integer-too-large", message, "use a smaller one") == found


@pytest.mark.parametrize(
    ("config", "place", "code", "message", "remedy"),
    [
        ({"whole": 10}, "/whole", "wrong-value", "the value should be less than or equal to 9", BREAKS),
        ({"choice": "blue"}, "/choice", "wrong-value", "the value should be 'red' or 'green'", BREAKS),
        ({"text": "a"}, "/text", "too-short", "the text must have a length of at least 2", "make it longer"),
        ({"text": "abcd"}, "/text", "too-long", "the text is longer than 3 characters", "shorten it"),
        (
            {"text": "AB"},
            "/text",
            "wrong-value",
            "the text contains characters that are not allowed here",
            "use a text that matches ^[a-z]*$",
        ),
        ({"three": [1, 2]}, "/three", "too-short", "the array must have a length of at least 3", "add entries"),
        ({"names": []}, "/names", "too-short", "the array must have a length of at least 1", "add entries"),
        ({"pair": [1]}, "/pair/1", "missing-field", "the field '1' is missing", "add it"),
        ({"inner": {}}, "/inner/high", "missing-field", "the field 'high' is missing", "add it"),
        ({"inner": {"high": 1, "hihg": 1}}, "/inner/hihg", "unknown-field", "unknown field 'hihg'", "remove it"),
        ({"wohle": 1}, "/wohle", "unknown-field", "unknown field 'wohle'", "did you mean 'whole'?"),
        ({"form": ""}, "/form", "unknown-field", "unknown field 'form'", "did you mean 'from'?"),
    ],
)
def test_a_value_that_breaks_a_rule_names_the_rule(
    config: dict[str, Any], place: str, code: str, message: str, remedy: str
) -> None:
    """Bounds, choices, lengths, patterns, and missing or unknown fields."""
    assert wrong(place, code, message, remedy) == config_problems(config)


def test_an_unknown_field_lists_the_fields_of_the_config() -> None:
    """By the names that documents use, which may be aliases."""
    known = "'flag', 'whole', 'number', 'text', 'choice', 'names', 'pair', 'table', 'inner', 'several', … (13 in all)"
    expected = wrong("/zzz", "unknown-field", "unknown field 'zzz'", f"remove it; the known fields are {known}")
    assert expected == config_problems({"zzz": 1})


def test_problems_of_alternatives_have_the_same_place() -> None:
    """The pointer leads into the document, which has no level for alternatives."""
    assert [
        *wrong("/several", "wrong-type", "the value should be an integer", "give an integer"),
        *wrong("/several/1", "wrong-type", "the value should be an integer", "give an integer"),
    ] == config_problems({"several": [1, "x"]})


def test_all_problems_of_all_configs_are_reported() -> None:
    """In the order of the tasks and their keys."""
    written = document(
        "s:source{'sorce': 'weather'} > a:map{'add': 'x', 'ad': 1} > b:window{'size': 0} > k:sink{'x': 1}"
    )
    assert [
        problem("/tasks/0/config/sorce", "unknown-field", "unknown field 'sorce'", "did you mean 'source'?"),
        problem("/tasks/0/config/source", "missing-field", "the field 'source' is missing", "add it"),
        problem("/tasks/1/config/ad", "unknown-field", "unknown field 'ad'", "did you mean 'add'?"),
        problem("/tasks/1/config/add", "wrong-type", "the value should be an integer", "give an integer"),
        problem("/tasks/2/config/size", "wrong-value", "the value should be greater than or equal to 1", BREAKS),
        problem("/tasks/3/config/x", "unknown-field", "unknown field 'x'", "remove it"),
    ] == problems(written)


@pytest.mark.parametrize(
    ("x", "place", "message"),
    [
        (1, "/x", "the value is not valid: one is taken already"),
        (2, "/x", "the value is not allowed here"),
        (3, "/x", "the value is not valid: three is too many"),
        (4, "/x", "the value is not allowed here"),
        (6, "", "the value is not valid: never 6"),
    ],
)
def test_the_message_of_a_validator_is_reported(x: int, place: str, message: str) -> None:
    """Errors and assertions of a type's own checks, with or without a message."""
    assert wrong(place, "wrong-value", message, BREAKS) == config_problems({"x": x}, "checked")


def test_a_validator_that_fails_is_the_types_own_problem() -> None:
    """Any other exception is not the tenant's fault."""
    assert [
        problem(
            "/tasks/1",
            "task-type-failed",
            "the task type 'checked' failed on this task: KeyError: 'five'",
            "report it to the provider of the type",
        )
    ] == config_problems({"x": 5}, "checked")


def test_defaults_are_filled_in() -> None:
    """The canonical config is complete, with the names that documents use."""
    written = document("s:source > m:many > k:sink")
    assert {
        "anything": None,
        "choice": "red",
        "flag": False,
        "from": "",
        "inner": {"high": 1, "low": 0},
        "names": ["a"],
        "number": 0,
        "pair": [0, 1],
        "several": 0,
        "table": {},
        "three": [1, 2, 3],
        "text": "ab",
        "whole": 0,
    } == canonicalise(written, catalogue=MANY).tasks[1].config


def test_a_canonical_config_is_one_line_of_sorted_json() -> None:
    """RFC 8785: no blanks, keys by UTF-16 code units, numbers as in ECMAScript, text unescaped."""
    written = document("s:source > m:many > k:sink")
    table = {"b": [], "a": [1], "\ufb33": [], "\U0001f600": [], "\u20ac": []}
    written["tasks"][1]["config"] = {"table": table, "number": 1e21, "anything": [0.1, 1e-7, 1e20, "\u00e9\n"]}
    text = canonicalise(written, catalogue=MANY).tasks[1].text.decode()
    assert '"anything":[0.1,1e-7,100000000000000000000,"\u00e9\\n"]' in text
    assert '"number":1e+21' in text
    assert '"table":{"a":[1],"b":[],"\u20ac":[],"\U0001f600":[],"\ufb33":[]}' in text


def test_a_canonical_config_contains_json_values() -> None:
    """Dates and choices are written as in documents."""

    class Colour(Enum):
        RED = "red"

    class OtherConfig(Config):
        day: date = date(2024, 2, 29)
        colour: Colour = Colour.RED

    catalogue = catalogue_with(TaskType(name="other", config=OtherConfig))
    written = document("s:source > o:other > k:sink")
    expected = {"day": "2024-02-29", "colour": "red"}
    assert expected == canonicalise(written, catalogue=catalogue).tasks[1].config
    written["tasks"][1]["config"] = expected
    assert expected == canonicalise(written, catalogue=catalogue).tasks[1].config


def test_a_type_normalises_its_configs() -> None:
    """Configs that mean the same become the same."""
    flow = canonicalise(document("s:source > a:anyorder{'names': ['b', 'a']} > k:sink"))
    assert {"names": ["a", "b"]} == flow.tasks[1].config


@pytest.mark.parametrize("nonsense", [None, {}, "text", MapConfig()])
def test_a_normalise_that_gives_nonsense_is_the_types_own_problem(nonsense: Any) -> None:
    """It returns something other than a config of the type."""
    catalogue = catalogue_with(TaskType(name="odd", config=NoConfig, normalise=lambda _: nonsense))
    given = type(nonsense).__name__
    assert [
        problem(
            "/tasks/1",
            "task-type-failed",
            f"the task type 'odd' failed on this task: TypeError: normalise returned {given}, not NoConfig",
            "report it to the provider of the type",
        )
    ] == problems(document("s:source > o:odd > k:sink"), catalogue=catalogue)


def test_a_normalise_that_raises_is_the_types_own_problem() -> None:
    """A config that it cannot construct is not the document's fault."""

    def broken(_config: AnyOrderConfig) -> AnyOrderConfig:
        return AnyOrderConfig(names=5)  # type: ignore[arg-type]

    catalogue = catalogue_with(TaskType(name="odd", config=AnyOrderConfig, normalise=broken))
    [found] = problems(document("s:source > o:odd > k:sink"), catalogue=catalogue)
    assert ("/tasks/1", "task-type-failed") == (found.pointer, found.code)
    assert found.message.startswith("the task type 'odd' failed on this task: ValidationError: 1 validation error for")


def test_too_many_problems_of_one_config_become_one() -> None:
    """More than a thousand are counted, not listed."""
    place, code = "/tasks/1/config", "too-many-problems"
    message = "the config breaks the schema of 'many' in 1,001 places"
    assert [problem(place, code, message, "compare it with the schema of the type")] == config_problems(
        {"table": {"": [None] * 1_001}}
    )
    found = config_problems({"table": {"": [None] * 1_000}})
    assert [f"{place}/table//{i}" for i in range(1_000)] == [problem.pointer for problem in found]


def test_checks_of_configs_stop_after_a_thousand_problems() -> None:
    """Other checks of the document continue."""
    streams = [{"from": "x", "to": "k"}]
    tasks = [{"id": f"m{i}", "type": "many", "config": {"names": [0] * 400}} for i in range(4)]
    tasks += [{"id": "k", "type": "sink", "config": {"extra": 1}}]
    found = codes({"version": 1, "name": "n", "tasks": tasks, "streams": streams}, catalogue=MANY)
    expected = [(f"/tasks/{task}/config/names/{i}", "wrong-type") for task in range(3) for i in range(400)]
    assert [("/tasks", "no-source"), *expected, ("/streams/0/from", "unknown-task")] == found
    assert MOST_DOCUMENT_PROBLEMS == 1_000


def test_configs_are_strict_frozen_and_complete() -> None:
    """A config cannot be changed, and accepts no NaN, even from the type itself."""
    with pytest.raises(ValidationError, match="frozen"):
        MapConfig().add = 1  # type: ignore[misc]
    with pytest.raises(ValidationError, match="finite"):
        ManyConfig(number=float("nan"))
    with pytest.raises(ValidationError, match="Extra inputs"):
        MapConfig(ad=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "annotation",
    [set[str], frozenset[str], frozenset, dict[str, set[int]], tuple[frozenset[str], ...], set[int] | None],
)
def test_a_config_has_no_sets(annotation: Any) -> None:
    """Their order, and so the signatures, would change from run to run."""
    message = "the config field 'many' is a set; its order changes from run to run, and so would the signature"
    with pytest.raises(TypeError, match=message):
        type("SetConfig", (Config,), {"__annotations__": {"fine": int, "many": annotation}, "__module__": __name__})


def test_a_secret_may_stand_anywhere_in_a_config() -> None:
    """In lists and objects it has its owner as well."""

    class LoginsConfig(Config):
        logins: dict[str, tuple[Secret, ...]]

    written = document("s:source > l:logins > k:sink")
    written["tasks"][1]["config"] = {"logins": {"a": [{"secret": "x"}, {"secret": "y"}]}}
    flow = canonicalise(written, tenant="bob", catalogue=catalogue_with(TaskType(name="logins", config=LoginsConfig)))
    expected = [{"owner": "bob", "secret": "x"}, {"owner": "bob", "secret": "y"}]
    assert {"logins": {"a": expected}} == flow.tasks[1].config


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
