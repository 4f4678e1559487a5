"""Random expressions over the fields of events, and what they are by a scalar interpreter."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from dags import Kind, Schema
from engine.tasks.expressions import Call, Name, Node, Value

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


def names_of(node: Node) -> list[str]:
    if isinstance(node, Name):
        return [node.name]
    return [name for each in node.operands for name in names_of(each)] if isinstance(node, Call) else []
