"""Projections checked against a scalar interpreter, and lists taken apart as they were put together."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dags import Catalogue, Dataflow, InvalidDocument, Kind, Schema, Source, canonicalise
from engine.implementations.projection import project, unnest
from engine.tasks import TYPES
from engine.tasks.expressions import Node, read, written
from engine.tasks.projection import PROJECT, ProjectConfig
from engine.trial import At, Parked, try_out
from tests.notation import document
from tests.tasks.agreeing import agrees, few
from tests.tasks.expressions import EVENTS, FIELDS, NUMBERS, SCHEMA, TEXTS, TRUTHS, computed, names_of

KINDS = st.sampled_from(
    [(Kind.FLOAT, st.floats(-5, 5)), (Kind.STRING, st.text(max_size=3)), (Kind.BOOLEAN, st.booleans())]
)
LISTS = Schema.of(line=Kind.INTEGER, items=Kind.JSON)


@few
@given(
    keep=st.sets(st.sampled_from(sorted(FIELDS)), max_size=3),
    expressions=st.lists(NUMBERS | TEXTS | TRUTHS, min_size=1, max_size=3),
    events=EVENTS,
)
def test_computed_fields_join_those_that_are_kept(
    keep: set[str], expressions: list[Node], events: list[dict[str, Any]]
) -> None:
    """Each is what the expression is for the event, and no other field leaves."""
    parts = {f"new {at}": each for at, each in enumerate(expressions)}
    values = [computed(each, event) for each in parts.values() for event in events]
    assume(all(math.isfinite(each) and abs(each) < 2**63 for each in values if isinstance(each, int | float)))

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            kept = {name: event[name] for name in keep}
            yield "out", {**kept, **{name: computed(each, event) for name, each in parts.items()}}

    config = {"fields": sorted(keep), "computed": {name: written(each) for name, each in parts.items()}}
    needs = any("a" in names_of(each) for each in expressions)
    agrees(project, config, events, reference, SCHEMA, poisonous=[{"a": math.inf}] if needs else [], exact=True)


@few
@given(expressions=st.lists(NUMBERS | TEXTS | TRUTHS, min_size=1, max_size=3))
def test_expressions_of_fields_are_parsed_once(expressions: list[Node]) -> None:
    """The canonical config keeps what its own texts were parsed to, and its canonical texts are parsed to the same."""
    sent = ProjectConfig(computed={f"new {at}": written(each) for at, each in enumerate(expressions)})
    assert PROJECT.normalise is not None
    canonical = PROJECT.normalise(sent)
    assert canonical.parsed is sent.parsed
    assert ProjectConfig(fields=canonical.fields, computed=canonical.computed) == canonical
    assert {name: read(text) for name, text in canonical.computed.items()} == canonical.parsed


def checked(kind: str, config: dict[str, Any]) -> Dataflow:
    """A document in which a task of this type stands between a source and a sink."""
    form = document(f"s:source > t:{kind} > k:output")
    form["tasks"][0]["config"] = {"source": "city"}
    form["tasks"][1]["config"] = config
    sources = {"city": Source(name="city", owner="ann", schema=SCHEMA)}
    return canonicalise(json.dumps(form), dataflow="d", tenant="ann", catalogue=Catalogue.of(TYPES), sources=sources)


@pytest.mark.parametrize(
    ("config", "place", "message"),
    [
        ({}, "", "its events would have no fields; keep or compute some"),
        ({"fields": ["a"], "computed": {"a": "b"}}, "", "the field 'a' is both kept and computed; choose one"),
        ({"computed": {"x": "c + 1"}}, "/computed/x", "the events that reach port 'in' have no field 'c'"),
        ({"computed": {"x": "f + 1"}}, "/computed/x", "f is of kind boolean, which '+' cannot take"),
        ({"fields": ["z"]}, "/fields/0", "the events that reach port 'in' have no field 'z'"),
    ],
)
def test_a_projection_that_fits_nothing_is_refused(config: dict[str, Any], place: str, message: str) -> None:
    """At the field or expression that is at fault."""
    with pytest.raises(InvalidDocument) as refused:
        checked("project", config)
    (problem,) = refused.value.problems
    assert ("/tasks/1/config" + place, True) == (problem.pointer, problem.message.endswith(message))


def test_projections_that_mean_the_same_are_one() -> None:
    """Whatever the order of fields, and the spaces and brackets of expressions."""
    one = checked("project", {"fields": ["a", "b"], "computed": {"more": "a+1 >2"}})
    other = checked("project", {"fields": ["b", "a", "b"], "computed": {"more": "((a + 1) > 2)"}})
    assert one.tasks == other.tasks


def test_a_result_that_is_no_number_is_parked() -> None:
    """Beyond the largest float, and beyond the largest integer."""
    with pytest.raises(Parked, match="the field 'x' is inf"):
        try_out(project, {"computed": {"x": "a * 1e300"}}, [{"a": 1e300}])
    with pytest.raises(Parked, match="the field 'x' cannot be computed"):
        try_out(project, {"computed": {"x": "a * 1000"}}, [{"a": 2**62}])


@few
@given(kind=KINDS, data=st.data())
def test_lists_are_taken_apart(kind: tuple[Kind, st.SearchStrategy[Any]], data: st.DataObject) -> None:
    """An event for each item, in order, with what is kept; what is no list of the kind is parked alone."""
    name, items = kind
    drawn = data.draw(st.lists(st.lists(st.none() | items, max_size=4), max_size=6))
    events = [{"line": at, "items": each} for at, each in enumerate(drawn)]

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            yield from (("out", {"line": event["line"], "items": item}) for item in event["items"])

    config = {"field": "items", "kind": name.value, "keep": ["line"]}
    poisonous: list[dict[str, Any]] = [
        {"line": 1},
        {"line": 1, "items": {"no": "list"}},
        {"line": 1, "items": [["nested"]]},
    ]
    agrees(unnest, config, events, reference, LISTS, poisonous=poisonous, exact=True)


@few
@given(values=st.lists(st.none() | st.integers(-9, 9), min_size=3, max_size=12), window=st.integers(1, 3))
def test_taking_apart_reverses_putting_together(values: list[int | None], window: int) -> None:
    """What `accumulate` collected leaves `unnest` as it came, but for a window that is not full."""
    events = [{"v": value} for value in values]
    schema = Schema.of(v=Kind.INTEGER)
    collected = try_out("accumulate", {"fields": ["v"], "window": window}, events, schema)["out"]
    found = try_out(unnest, {"field": "v", "kind": "integer"}, collected, Schema.of(v=Kind.JSON))["out"]
    assert events[: len(values) // window * window] == found
