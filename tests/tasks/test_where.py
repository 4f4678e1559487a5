"""Expressions checked against a scalar interpreter, and the problems of unsuitable ones."""

import json
import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dags import Catalogue, InvalidDocument, Kind, Schema, Source, canonicalise
from engine.implementations.where import where
from engine.tasks import TYPES
from engine.tasks.expressions import Call, Name, Node, Value, read, written
from engine.trial import At, Parked, try_out
from tests.notation import document
from tests.tasks.agreeing import agrees, few

FIELDS = {
    "a": Kind.FLOAT,
    "b": Kind.INTEGER,
    "is": Kind.STRING,
    "at noon": Kind.TIMESTAMP,
    "f": Kind.BOOLEAN,
    "j": Kind.JSON,
}
SCHEMA = Schema.of(FIELDS)
MOMENTS = st.sampled_from([datetime(2026, 5, day, tzinfo=UTC) for day in (1, 2, 3)])
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.none() | st.floats(-3, 3).map(lambda value: round(value * 2) / 2),
            "b": st.none() | st.integers(-3, 3),
            "is": st.none() | st.sampled_from(["", "x", "it's"]),
            "at noon": st.none() | MOMENTS,
            "f": st.none() | st.booleans(),
            "j": st.none() | st.just("{}"),
        }
    ),
    max_size=8,
)
LEAVES: list[Node] = [Name("a"), Name("b"), Value(0), Value(2), Value(-1), Value(0.5), Value(1e16)]
NUMBERS: st.SearchStrategy[Node] = st.deferred(
    lambda: (
        st.sampled_from(LEAVES)
        | st.builds(lambda op, x, y: Call(op, (x, y)), st.sampled_from("+-*/"), NUMBERS, NUMBERS)
        | st.builds(lambda x: Call("minus", (x,)), st.sampled_from([Name("a"), Name("b")]))
    )
)
TEXTS: st.SearchStrategy[Node] = st.sampled_from([Name("is"), Value("x"), Value("it's"), Value("")])
INSTANTS: st.SearchStrategy[Node] = st.sampled_from(
    [Name("at noon"), Value("2026-05-02T00:00:00Z"), Value("2026-05-03")]
)
COMPARISONS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])


def _compared(operands: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.builds(lambda op, x, y: Call(op, (x, y)), COMPARISONS, operands, operands)


YES = Value(value=True)
PLAIN: list[Node] = [Name("f"), YES, Value(value=False)]
FLAGS: list[Node] = [Name("f"), YES]
TRUTHS: st.SearchStrategy[Node] = st.deferred(
    lambda: (
        st.sampled_from(PLAIN)
        | _compared(NUMBERS)
        | _compared(TEXTS)
        | st.builds(lambda op, y: Call(op, (Name("at noon"), y)), COMPARISONS, INSTANTS)
        | st.builds(lambda y: Call("=", (Name("f"), y)), st.sampled_from(FLAGS))
        | st.builds(lambda x: Call("in", (x, Value("x"), Value(""))), st.just(Name("is")))
        | st.builds(lambda x: Call("in", (x, Value(1), Value(0.5))), NUMBERS)
        | st.builds(lambda name: Call("is null", (Name(name),)), st.sampled_from(sorted(FIELDS)))
        | st.builds(lambda x: Call("not", (x,)), TRUTHS)
        | st.builds(
            lambda op, x: Call(op, tuple(x)), st.sampled_from(["and", "or"]), st.lists(TRUTHS, min_size=2, max_size=3)
        )
    )
)


def computed(node: Node, event: dict[str, Any]) -> Any:
    """Three-valued logic, spelt out; a text beside a moment is one."""
    if isinstance(node, Value):
        return node.value
    if isinstance(node, Name):
        return event[node.name]
    values = [computed(each, event) for each in node.operands]
    if node.operator == "is null":
        return values[0] is None
    if node.operator in {"and", "or"}:
        decides = node.operator == "or"
        return decides if decides in values else None if None in values else not decides
    if any(isinstance(value, datetime) for value in values):
        values = [datetime.fromisoformat(v) if isinstance(v, str) else v for v in values]
        values = [v.replace(tzinfo=UTC) if v is not None and v.tzinfo is None else v for v in values]
    return None if None in values else OPERATORS[node.operator](*values)


OPERATORS: dict[str, Callable[..., Any]] = {
    "not": lambda x: not x,
    "minus": lambda x: -x,
    "in": lambda x, *ys: x in ys,
    "=": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: None if y == 0 else x / y,
}


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


def names_of(node: Node) -> list[str]:
    if isinstance(node, Name):
        return [node.name]
    return [name for each in node.operands for name in names_of(each)] if isinstance(node, Call) else []


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
