"""Bad modules and pipelines: every problem has a code, names its place, and says what to do."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import InvalidDocument, Problem
from engine import installed_catalogue
from planning.pipelines.module import read_module
from planning.pipelines.reader import read_pipeline
from tests.catalogue import CATALOGUE
from tests.planning.pipelines.open_places import pipeline_document, refusal, surroundings

MODULE: dict[str, Any] = {
    "name": "clean",
    "version": 1,
    "shape": "one-to-one",
    "installed": {"type": "map"},
    "variables": {"clean": [True]},
    "ensure": {"clean": True},
}
CODE = {"source": "def process(event): return event", "input": {"a": "T"}, "types": {"T": ["float"]}}
PIPELINE = "s:source > p:point > k:sink"


@pytest.mark.parametrize(
    ("change", "place", "code"),
    [
        ({"ensure": {"claen": True}}, "/ensure/claen", "unknown-variable"),
        ({"ensure": {"clean": "yes"}}, "/ensure/clean", "outside-domain"),
        ({"ensure": {"clean": {"is": True}}}, "/ensure/clean", "malformed-constraint"),
        ({"ensure": {"clean": 1.5}}, "/ensure/clean", "malformed-constraint"),
        ({"require": {"any": []}}, "/require/any", "malformed-constraint"),
        ({"require": {"not": [True]}}, "/require/not", "malformed-constraint"),
        ({"require": {"clean": {"same": "dirty"}}}, "/require/clean/dirty", "unknown-variable"),
        ({"require": {"clean": {"in": [True, "x"]}}}, "/require/clean/in/1", "outside-domain"),
        ({"variables": {"clean": []}}, "/variables/clean", "too-short"),
        ({"variables": {"clean": [True], "any": [1]}}, "/variables/any", "wrong-value"),
        ({"variables": {"clean": [True, True]}}, "/variables/clean", "wrong-value"),
        ({"shape": "round"}, "/shape", "wrong-value"),
        ({"name": "no spaces"}, "/name", "wrong-value"),
        ({"version": 0}, "/version", "wrong-value"),
        ({"version": 2**31}, "/version", "wrong-value"),
        ({"cost": -1.0}, "/cost", "wrong-value"),
        ({"cost": 1e16}, "/cost", "wrong-value"),
        ({"quality": 1e16}, "/quality", "wrong-value"),
        ({"cost": float("inf")}, "/cost", "not-finite"),
        ({"quality": float("nan")}, "/quality", "not-finite"),
        ({"colour": "red"}, "/colour", "unknown-field"),
        ({"installed": {"type": "mapp"}}, "/installed/type", "unknown-type"),
        ({"installed": {"type": "code"}}, "/installed/type", "wrong-value"),
        ({"installed": None, "code": {**CODE, "source": "é" * 33_000}}, "/code/source", "too-long"),
        ({"installed": None}, "", "no-implementation"),
        ({"code": CODE}, "", "two-implementations"),
        ({"installed": None, "code": {**CODE, "types": {"T": ["T"]}}}, "/code/types/T", "recursive-type-variable"),
        ({"installed": None, "code": {**CODE, "types": {"T": []}}}, "/code/types/T", "too-short"),
        ({"installed": None, "code": {**CODE, "types": {"T": ["flaot"]}}}, "/code/types/T", "unknown-kind"),
        ({"installed": None, "code": {**CODE, "input": {"a": "U"}}}, "/code/input/a", "unknown-kind"),
        ({"installed": None, "code": CODE, "shape": "join"}, "/shape", "wrong-shape"),
    ],
)
def test_bad_modules_are_refused(change: dict[str, Any], place: str, code: str) -> None:
    """With the place and a remedy."""
    with pytest.raises(InvalidDocument) as refused:
        read_module(json.dumps({**MODULE, **change}), CATALOGUE)
    assert (place, code) in {(each.pointer, each.code) for each in refused.value.problems}
    assert all(each.remedy for each in refused.value.problems)


@pytest.mark.parametrize(
    ("change", "place", "code"),
    [
        ({"installed": {"type": "range_filter", "config": {"mn": 1}}}, "/installed/config/mn", "unknown-field"),
        ({"installed": {"type": "range_filter", "config": {"min": "1"}}}, "/installed/config/min", "wrong-type"),
        ({"code": {"source": "x", "per": "batch"}}, "/code", "wrong-value"),
        ({"code": {"source": "x", "entry": "def"}}, "/code", "wrong-value"),
        ({"code": {"source": "x", "per": "batch", "state": {}}}, "/code/per", "wrong-value"),
        ({"code": {"source": "x", "state": {"by": ["a"]}}}, "/code", "wrong-value"),
        ({"code": {"source": "x", "state": {"migrate": "def"}}}, "/code", "wrong-value"),
        ({"code": {"source": "x", "state": {"most_keys": 10**9}}}, "/code/state/most_keys", "wrong-value"),
        ({"code": {"source": "x", "state": {}, "connects": ["a.org:1"]}}, "/code/connects", "connects-with-state"),
        ({"code": {"source": "x", "output": {"rest": False}}}, "/code/output", "wrong-value"),
        (
            {"code": {"source": "x", "output": {"fields": {"a": "float"}, "drop": ["a"]}}},
            "/code/output",
            "wrong-value",
        ),
    ],
)
def test_a_config_that_cannot_run_is_refused(change: dict[str, Any], place: str, code: str) -> None:
    """By the type of the library that would run it, at its place in the form, so that no point is given it in vain."""
    with pytest.raises(InvalidDocument) as refused:
        read_module(json.dumps({"name": "clean", "version": 1, "shape": "filter", **change}), installed_catalogue())
    assert [(place, code)] == [(each.pointer, each.code) for each in refused.value.problems]


@pytest.mark.parametrize(
    "change",
    [
        {"installed": {"type": "range_filter"}},
        {"installed": {"type": "range_filter", "config": {"max": 1}}},
        {"code": {**CODE, "output": {"fields": {"a": "T"}}}},
    ],
)
def test_what_a_config_leaves_open_is_no_problem(change: dict[str, Any]) -> None:
    """The point gives it; a type variable is any of its kinds."""
    assert (
        "clean@1"
        == read_module(
            json.dumps({"name": "clean", "version": 1, "shape": "filter", **change}), installed_catalogue()
        ).name
    )


@pytest.mark.parametrize(
    ("text", "change", "place", "code"),
    [
        ("s:source > p:point{'modules': ['cleen']} > k:sink", {}, "/tasks/1/point/modules/0", "unknown-module"),
        ("s:source > p:point{'shape': 'pair-to-one'} > k:sink", {}, "/tasks/1/point", "no-module"),
        ("s:source > p:point{'same': 'q'} > k:sink", {}, "/tasks/1/point/same", "unknown-task"),
        ("s:source > p:point{'same': 'p'} > k:sink", {}, "/tasks/1/point/same", "unknown-task"),
        ("s:source > p:point{'same': 's'} > k:sink", {}, "/tasks/1/point/same", "unknown-task"),
        ("s:source > p:point{'shap': 'join'} > k:sink", {}, "/tasks/1/point/shap", "unknown-field"),
        (
            "s:source > p:point{'require': {'unti': 'kelvin'}} > k:sink",
            {},
            "/tasks/1/point/require/unti",
            "unknown-variable",
        ),
        ("s:source > g:gap{'most': 0} > k:sink", {}, "/tasks/1/gap/most", "wrong-value"),
        ("s:source > g:gap{'most': 2, 'shape': 'join'} > k:sink", {}, "/tasks/1/gap", "wrong-gap"),
        (PIPELINE, {"goals": [{"at": "x", "holds": {}}]}, "/goals/0/at", "unknown-task"),
        (PIPELINE, {"goals": [{"since": "x"}]}, "/goals/0/since", "unknown-task"),
        (PIPELINE, {"goals": [{"holds": {"unit": "furlong"}}]}, "/goals/0/holds/unit", "outside-domain"),
        (PIPELINE, {"goals": [{"fields": {"a": "flaot"}}]}, "/goals/0/fields/a", "unknown-kind"),
        (PIPELINE, {"goals": [{"at": "k", "holds": {"clean": True}}]}, "/goals/0/at", "wrong-value"),
        (PIPELINE, {"goals": [{"since": "k", "fields": {"value": "float"}}]}, "/goals/0/since", "wrong-value"),
        (PIPELINE, {"given": {"x": {}}}, "/given/x", "unknown-task"),
        (PIPELINE, {"given": {"p": {"clean": True}}}, "/given/p", "wrong-value"),
        (PIPELINE, {"given": {"k": {"clean": True}}}, "/given/k", "wrong-value"),
        (PIPELINE, {"given": {"s": {"unit": "furlong"}}}, "/given/s/unit", "outside-domain"),
        (PIPELINE, {"meets": {"x": "either"}}, "/meets/x", "unknown-task"),
        (PIPELINE, {"meets": {"k": "neither"}}, "/meets/k", "wrong-value"),
        (PIPELINE, {"prefer": ["luck"]}, "/prefer/0", "wrong-value"),
        ("s:source > p:point > q:point > p", {}, "/tasks/1", "cycle"),
        ("s:source > p:mapp > k:sink", {}, "/tasks/1/type", "unknown-type"),
    ],
)
def test_bad_pipelines_are_refused(text: str, change: dict[str, Any], place: str, code: str) -> None:
    """With the place and a remedy."""
    found = refusal(text, **change)
    assert (place, code) in {(each.pointer, each.code) for each in found}
    assert all(each.remedy for each in found)


def test_a_remedy_shows_a_kind_as_it_is_written() -> None:
    """And not as the member of an enumeration that it is in the code."""
    (problem,) = refusal(PIPELINE, goals=[{"fields": {"a": "flaot"}}])
    assert "did you mean 'float'?" == problem.remedy


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["all", "any", "not", "in", "same", "unit", "clean", "point", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.sampled_from([*MODULE, "code", "require", "cost"]), JSON)
def test_any_module_is_read_or_refused(key: str, value: Any) -> None:
    """No text ends in a traceback."""
    _hold(lambda: read_module(json.dumps({**MODULE, key: value}), CATALOGUE))


@given(st.sampled_from(["tasks", "streams", "variables", "given", "goals", "meets", "prefer", "name"]), JSON)
def test_any_pipeline_is_read_or_refused(key: str, value: Any) -> None:
    """No text ends in a traceback."""
    document = pipeline_document(PIPELINE)
    _hold(lambda: read_pipeline(json.dumps({**document, key: value}), surroundings()))
    tasks = [*document["tasks"], value]
    _hold(lambda: read_pipeline(json.dumps({**document, "tasks": tasks}), surroundings()))


@given(st.sampled_from(["require", "ensure"]), JSON)
def test_any_constraint_of_a_point_is_read_or_refused(key: str, value: Any) -> None:
    """No text ends in a traceback."""
    document = pipeline_document(PIPELINE)
    document["tasks"][1]["point"][key] = value
    _hold(lambda: read_pipeline(json.dumps(document), surroundings()))


def _hold(reading: Callable[[], object]) -> None:
    problems: tuple[Problem, ...] = ()
    try:
        reading()
    except InvalidDocument as refused:
        problems = refused.problems
    assert all(each.code and each.remedy for each in problems)
