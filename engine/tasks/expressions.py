"""Boolean expressions over the fields of an event: their syntax, and the kinds of their parts.

    temperature > 30 and (room in ('a', 'b') or not checked) and "at noon" is not null

Comparisons are `= != <> < <= > >=`, arithmetic is `+ - * /`. Texts are in single quotes, and names that are not plain
words in double quotes; inside, the quote is doubled. A time is compared with an ISO 8601 text.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from dags import NUMBER, Kind, Schema, Unsuitable

if TYPE_CHECKING:
    from lark import Lark, Token

_LONGEST = 50_000  # characters: parsing takes time for each, before the parts are known
_MOST_PARTS = 500
_DEEPEST = 50
_INTRICATE = f"the expression has more than {_MOST_PARTS} parts or {_DEEPEST} levels; simplify it"
_LARGEST = 2**63 - 1
_GRAMMAR = r"""
    ?start: either
    ?either: both ("or"i both)*
    ?both: negated ("and"i negated)*
    ?negated: test | "not"i negated -> opposite
    ?test: sum
        | sum COMPARISON sum -> compared
        | sum "in"i "(" sum ("," sum)* ")" -> among
        | sum "not"i "in"i "(" sum ("," sum)* ")" -> not_among
        | sum "is"i "null"i -> missing
        | sum "is"i "not"i "null"i -> present
    ?sum: product | sum (PLUS | MINUS) product -> calculated
    ?product: signed | product (TIMES | OVER) signed -> calculated
    ?signed: atom | MINUS signed -> minus
    ?atom: NUMBER -> number | TEXT -> text | "true"i -> true | "false"i -> false
        | NAME -> name | QUOTED -> quoted | "(" either ")"
    COMPARISON: "=" | "!=" | "<>" | "<=" | ">=" | "<" | ">"
    PLUS: "+"
    MINUS: "-"
    TIMES: "*"
    OVER: "/"
    NUMBER: /[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?/i
    TEXT: /'([^']|'')*'/
    QUOTED: /"([^"]|"")*"/
    NAME: /(?!(and|or|not|in|is|null|true|false)\b)[a-z_][a-z0-9_]*/i
    %ignore /[ \t\r\n]+/
"""
_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})


@dataclass(frozen=True, slots=True)
class Value:
    """A literal value. A text that is compared with a time becomes a time."""

    value: bool | int | float | str | datetime


@dataclass(frozen=True, slots=True)
class Name:
    """A field."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operator and its operands."""

    operator: str
    operands: "tuple[Node, ...]"


Node: TypeAlias = Value | Name | Call


def read(text: str) -> Node:
    """Parse an expression. Raises ValueError with the place of an error.

    >>> read("a >= 1")
    Call(operator='>=', operands=(Name(name='a'), Value(value=1)))
    """
    # Imported here, so that only documents with an expression load it.
    from lark.exceptions import UnexpectedInput, UnexpectedToken  # noqa: PLC0415 - see above

    if len(text) > _LONGEST:
        raise ValueError(f"the expression has {len(text):,} characters, and may have {_LONGEST:,}; simplify it")
    try:
        # Typed for trees alone; the visitor makes nodes of them.
        node: Node = _parser().parse(text)  # type: ignore[assignment]
        parts, depth = _size(node)
    except UnexpectedInput as error:
        if isinstance(error, UnexpectedToken) and error.token.type == "$END":
            raise ValueError("the expression ends too early; complete it") from None
        at = error.column
        raise ValueError(f"the expression has an error at character {at}: {text[at - 1 : at + 19]!r}") from None
    except RecursionError:
        raise ValueError(_INTRICATE) from None
    if depth > _DEEPEST or parts > _MOST_PARTS:
        raise ValueError(_INTRICATE)
    return node


def _size(node: Node) -> tuple[int, int]:
    if not isinstance(node, Call):
        return 1, 1
    parts, depths = zip(*map(_size, node.operands), strict=True)
    return 1 + sum(parts), 1 + max(depths)


@cache
def _parser() -> "Lark":
    """The parser, which makes nodes instead of a tree."""
    from lark import Lark, Transformer, v_args  # noqa: PLC0415 - see `read`

    def call(operator: str) -> Callable[..., Call]:
        return lambda *operands: Call(operator, operands)

    def calculated(left: Node, operator: "Token", right: Node) -> Call:
        return Call({"<>": "!="}.get(str(operator), str(operator)), (left, right))

    def minus(_sign: "Token", operand: Node) -> Node:
        if isinstance(operand, Value) and type(operand.value) in {int, float}:
            return Value(-operand.value)  # type: ignore[operator] # it is one of these
        return Call("minus", (operand,))

    def joined(operator: str) -> Callable[..., Node]:
        def join(*operands: Node) -> Node:
            flat: list[Node] = []
            for operand in operands:
                flat += operand.operands if isinstance(operand, Call) and operand.operator == operator else (operand,)
            return Call(operator, tuple(flat))

        return join

    steps: dict[str, Callable[..., Node]] = {
        "either": joined("or"),
        "both": joined("and"),
        "opposite": call("not"),
        "among": _among,
        "not_among": lambda *operands: Call("not", (_among(*operands),)),
        "missing": call("is null"),
        "present": lambda operand: Call("not", (Call("is null", (operand,)),)),
        "compared": calculated,
        "calculated": calculated,
        "minus": minus,
        "number": _number,
        "text": lambda token: Value(str(token)[1:-1].replace("''", "'")),
        "true": lambda: Value(True),  # noqa: FBT003 - it is the value
        "false": lambda: Value(False),  # noqa: FBT003 - it is the value
        "name": lambda token: Name(str(token)),
        "quoted": lambda token: Name(str(token)[1:-1].replace('""', '"')),
    }
    methods = {name: staticmethod(step) for name, step in steps.items()}
    nodes: Transformer[Token, Node] = v_args(inline=True)(type("_Nodes", (Transformer,), methods))()
    return Lark(_GRAMMAR, parser="lalr", transformer=nodes)


def _among(operand: Node, *values: Node) -> Call:
    if not all(isinstance(value, Value) for value in values):
        raise ValueError("the list after 'in' may contain only numbers and texts; compare fields with '=' and 'or'")
    return Call("in", (operand, *values))


def _number(token: str) -> Value:
    value = int(token) if token.isdecimal() else float(token)
    if (isinstance(value, int) and value > _LARGEST) or not math.isfinite(value):
        raise ValueError(f"the number {str(token)[:40]} is too large; use a smaller one")
    return Value(value)


def names(node: Node) -> Iterator[str]:
    """Every field that an expression names, with repetitions."""
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, Call):
        for operand in node.operands:
            yield from names(operand)


def written(node: Node) -> str:
    """The canonical text of an expression.

    >>> written(read("a>1 AND  not b<>'x'"))
    "(a > 1) and (not (b != 'x'))"
    """
    if isinstance(node, Name):
        plain = node.name.isidentifier() and node.name.isascii() and node.name.lower() not in _KEYWORDS
        return node.name if plain else '"{}"'.format(node.name.replace('"', '""'))
    if isinstance(node, Value):
        return _literal(node.value)
    operands = [f"({written(operand)})" if isinstance(operand, Call) else written(operand) for operand in node.operands]
    if node.operator == "is null":
        return f"{operands[0]} is null"
    if node.operator == "in":
        return f"{operands[0]} in ({', '.join(operands[1:])})"
    if len(operands) == 1:
        return f"{'-' if node.operator == 'minus' else 'not '}{operands[0]}"
    return f" {node.operator} ".join(operands)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'{}'".format(value.replace("'", "''")) if isinstance(value, str) else repr(value)


def suited(node: Node, schema: Schema) -> Node:
    """The expression for events of a schema: texts that are compared with times become times.

    Raises `Unsuitable` if an operator cannot take its operands, or the result is not true or false.
    """
    checked, kind = typed(node, schema)
    if kind is not Kind.BOOLEAN:
        raise _unsuitable(f"the expression is of kind {kind}", "make it true or false, for example by a comparison")
    return checked


def typed(node: Node, schema: Schema) -> tuple[Node, Kind]:
    """The expression for events of a schema, with the kind of the result, whatever it is."""
    if isinstance(node, Value):
        return node, KINDS_OF_VALUES[type(node.value)]
    if isinstance(node, Name):
        return node, schema.fields[node.name]
    operands = [typed(operand, schema) for operand in node.operands]
    if node.operator in {"=", "!=", "<", "<=", ">", ">=", "in"}:
        return _compared(node, operands), Kind.BOOLEAN
    kinds = {kind for _, kind in operands}
    wanted = _TAKES.get(node.operator, frozenset(Kind))
    for operand, kind in operands:
        if kind not in wanted:
            raise _unsuitable(
                f"{written(operand)} is of kind {kind}, which {node.operator!r} cannot take",
                f"use an operand of kind {' or '.join(sorted(wanted))}",
            )
    made = Call(node.operator, tuple(operand for operand, _ in operands))
    if node.operator in _CALCULATES:
        return made, Kind.INTEGER if kinds == {Kind.INTEGER} and node.operator != "/" else Kind.FLOAT
    return made, Kind.BOOLEAN


def _unsuitable(message: str, remedy: str) -> Unsuitable:
    return Unsuitable(message, remedy, at="expression")


def _compared(node: Call, typed: list[tuple[Node, Kind]]) -> Call:
    kinds = [kind for _, kind in typed]
    if Kind.TIMESTAMP in kinds:
        typed = [_moment(operand, kind) for operand, kind in typed]
        kinds = [kind for _, kind in typed]
    ordered = node.operator in {"<", "<=", ">", ">="}
    first = kinds[0]
    same = all(kind is first or {kind, first} <= NUMBER for kind in kinds)
    if not same or first is Kind.JSON or (ordered and first is Kind.BOOLEAN):
        operands = " and ".join(f"{written(operand)} of kind {kind}" for operand, kind in typed[:2])
        raise _unsuitable(f"{node.operator!r} cannot compare {operands}", "compare values of the same kind")
    return Call(node.operator, tuple(operand for operand, _ in typed))


def _moment(operand: Node, kind: Kind) -> tuple[Node, Kind]:
    if not isinstance(operand, Value) or not isinstance(operand.value, str):
        return operand, kind
    try:
        moment = datetime.fromisoformat(operand.value)
    except ValueError:
        raise _unsuitable(
            f"{written(operand)} is not a time", "write it as ISO 8601, such as '2026-05-01T12:00Z'"
        ) from None
    return Value(moment if moment.tzinfo else moment.replace(tzinfo=UTC)), Kind.TIMESTAMP


KINDS_OF_VALUES: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.INTEGER,
    float: Kind.FLOAT,
    str: Kind.STRING,
    datetime: Kind.TIMESTAMP,
}
"""The kinds of Python's values. A boolean is an integer too, so its type comes first."""
_CALCULATES = frozenset({"+", "-", "*", "/", "minus"})
_TAKES = {
    **dict.fromkeys(_CALCULATES, NUMBER),
    **dict.fromkeys(("and", "or", "not"), frozenset({Kind.BOOLEAN})),
}
