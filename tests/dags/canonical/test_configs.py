"""Configs checked against the schema of their type."""

from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, field_validator, model_validator

from dags import Config, Problem, Secret, TaskType
from dags.problems import MOST_DOCUMENT_PROBLEMS
from tests.catalogue import AnyOrderConfig, MapConfig, NoConfig
from tests.dags.refusal import canonicalise, catalogue_with, codes, problem, problems
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
