"""Expressions checked against a scalar interpreter, and the problems of unsuitable ones."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from dags import Catalogue, InvalidDocument, Source, canonicalise
from engine.implementations.projection import where
from engine.tasks import TYPES
from engine.tasks.expressions import Node, read, written
from engine.tasks.filters import WHERE, WhereConfig
from engine.trial import At, Parked, try_out
from tests.notation import document
from tests.tasks.agreeing import agrees, few
from tests.tasks.expressions import EVENTS, SCHEMA, TRUTHS, computed, names_of


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
