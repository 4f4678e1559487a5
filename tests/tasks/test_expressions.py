"""Expressions and projections checked against a scalar interpreter."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dags import Catalogue, Dataflow, InvalidDocument, Kind, Schema, Source, canonicalise
from engine.implementations.projection import project, unnest, where
from engine.tasks import TYPES
from engine.tasks.expressions import Node, read, written
from engine.tasks.filters import WHERE, WhereConfig
from engine.tasks.projection import PROJECT, ProjectConfig
from engine.trial import At, Parked, try_out
from tests.notation import document
from tests.tasks.agreeing import agrees, few
from tests.tasks.expressions import EVENTS, FIELDS, NUMBERS, SCHEMA, TEXTS, TRUTHS, computed, names_of


@few
@given(expression=TRUTHS, events=EVENTS)
def test_true_events_pass(expression: Node, events: list[dict[str, Any]]) -> None:
    """False and null ones do not. The expression survives being written and read."""
    text = written(expression)
    again = read(text)
    assert again == read(written(again))

    def reference(seen: Iterator[dict[str, Any]]) -> Iterator[At]:
        for event in seen:
            if computed(expression, event) is True:
                yield "out", event

    poisonous = [{"a": math.inf}] if any(name == "a" for name in names_of(again)) else []
    agrees(where, {"expression": text}, events, reference, SCHEMA, poisonous=poisonous, exact=True)


@few
@given(expression=TRUTHS)
def test_an_expression_is_parsed_once(expression: Node) -> None:
    """The canonical config keeps what its own text was parsed to, and its canonical text is parsed to the same."""
    sent = WhereConfig(expression=written(expression))
    assert WHERE.normalise is not None
    canonical = WHERE.normalise(sent)
    assert canonical.parsed is sent.parsed
    assert WhereConfig(expression=canonical.expression) == canonical
    assert read(canonical.expression) == canonical.parsed


def refused(expression: str) -> tuple[str, str, str, str]:
    """The one problem of a document with this expression."""
    form = document("s:source > t:where > k:output")
    form["tasks"][0]["config"] = {"source": "city"}
    form["tasks"][1]["config"] = {"expression": expression}
    sources = {"city": Source(name="city", owner="ann", schema=SCHEMA)}
    with pytest.raises(InvalidDocument) as found:
        canonicalise(json.dumps(form), dataflow="d", tenant="ann", catalogue=Catalogue.of(TYPES), sources=sources)
    (problem,) = found.value.problems
    return problem.pointer, problem.code, problem.message, problem.remedy


@pytest.mark.parametrize(
    ("expression", "code", "message", "remedy"),
    [
        ("c > 1", "unknown-field-upstream", "have no field 'c'", "they have"),
        (
            'a > "is"',
            "wrong-kind-upstream",
            "'>' cannot compare a of kind float and \"is\" of kind string",
            "the same kind",
        ),
        ("a + b", "wrong-kind-upstream", "the expression is of kind float", "make it true or false"),
        ("not a", "wrong-kind-upstream", "a is of kind float, which 'not' cannot take", "an operand of kind boolean"),
        ("f < true", "wrong-kind-upstream", "'<' cannot compare f of kind boolean", "the same kind"),
        ("j = 'x'", "wrong-kind-upstream", "'=' cannot compare j of kind json", "the same kind"),
        ("-f = 1", "wrong-kind-upstream", "f is of kind boolean, which 'minus' cannot take", "float or integer"),
        ("\"at noon\" > 'noon'", "wrong-kind-upstream", "'noon' is not a time", "ISO 8601"),
        ("a in (1, 'x')", "wrong-kind-upstream", "'in' cannot compare a of kind float", "the same kind"),
    ],
)
def test_an_expression_that_does_not_suit_its_events_is_refused(
    expression: str, code: str, message: str, remedy: str
) -> None:
    """When it is submitted, at its place, with a remedy."""
    place, found, reported, advice = refused(expression)
    assert ("/tasks/1/config/expression", code) == (place, found)
    assert message in reported
    assert remedy in advice


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "the expression ends too early"),
        ("a >", "the expression ends too early"),
        ("a >> 1", "the expression has an error at character 4: '> 1'"),
        ("a = 'x", "the expression has an error at character 5"),
        ("a = 1 and or f", "the expression has an error at character 11"),
        ("a in (b)", "the list after 'in' may contain only"),
        ("a > 1e999", "the number 1e999 is too large"),
        ("b > 9223372036854775808", "the number 9223372036854775808 is too large"),
        ("not " * 60 + "f", "the expression has more than 500 parts"),
        ("not " * 5_000 + "f", "the expression has more than 500 parts"),
        (" and ".join(["f"] * 600), "the expression has more than 500 parts"),
        ("__import__('os')", "the expression has an error at character 11"),
    ],
)
def test_a_text_that_is_not_an_expression_is_refused(expression: str, message: str) -> None:
    """With the place of the error."""
    place, code, reported, _ = refused(expression)
    assert ("/tasks/1/config", "wrong-value") == (place, code)
    assert message in reported


def test_expressions_that_read_as_the_same_are_shared() -> None:
    """With any spaces, and words in any case."""
    found = {
        written(read(text))
        for text in ("a>1 AND (b <> 2 and f)", "((a > 1)) and b != 2 And f", "a > 1 and b != 2 and f")
    }
    assert {"(a > 1) and (b != 2) and f"} == found


def test_integers_that_grow_too_large_park_their_event() -> None:
    """The reason contains the values."""
    events = [{"b": 2**62}]
    with pytest.raises(Parked, match=r"the expression cannot be computed for \{'b': 4611686018427387904\}: overflow"):
        try_out(where, {"expression": "b * 4 > 0"}, events)


@pytest.mark.parametrize(
    "expression",
    [
        "a = 1 or " * 400_000 + "a = 1",
        "(" * 40_000 + "a = 1" + ")" * 40_000,
        "a in (" + ", ".join(["1"] * 10_000) + ")",
        "not " * 60 + "a = 1",
        "a = '" + "x" * 60_000 + "'",
    ],
)
def test_expressions_have_bounds(expression: str) -> None:
    """In characters, parts and levels; so none takes long to read, or for an event. There are no patterns in them."""
    with pytest.raises(ValueError, match="simplify it"):
        read(expression)


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
