"""Values written as texts, as CSV has them, read by the kinds of their fields."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from bridge.raw_events import CONVERTED, json_text, parsed
from dags import Kind

TRUE, FALSE = ("true", "True", "TRUE", "1"), ("false", "False", "FALSE", "0")
"""What is read as a boolean."""
_BOOLEANS = dict.fromkeys(TRUE, True) | dict.fromkeys(FALSE, False)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_LONGEST_NUMBER = 400
"""Characters of a number. MessageReading a whole one takes the square of its length."""


def _boolean(text: str) -> object:
    if (value := _BOOLEANS.get(text.strip())) is None:
        raise ValueError
    return value


def _number(text: str) -> int | float:
    text = text.strip()
    # Python takes the underscores of its own programs too.
    if len(text) > _LONGEST_NUMBER or "_" in text or not text.isascii():
        raise ValueError
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def _moment(text: str) -> object:
    text = text.strip()
    return CONVERTED[Kind.TIMESTAMP](_number(text) if _WHOLE.fullmatch(text) else text)


def _float(text: str) -> object:
    # Not by way of a whole number, so that -0 keeps its sign.
    _number(text)
    return CONVERTED[Kind.FLOAT](float(text))


FROM_TEXT: Mapping[Kind, Callable[[str], object]] = MappingProxyType(
    {
        Kind.BOOLEAN: _boolean,
        Kind.INTEGER: lambda text: CONVERTED[Kind.INTEGER](_number(text)),
        Kind.FLOAT: _float,
        Kind.STRING: lambda text: text,
        Kind.TIMESTAMP: _moment,
        Kind.JSON: lambda text: json_text(parsed(text.encode())),
    }
)
"""For each kind, what makes a text one of its values; it raises an error if the text is of another kind."""
_TO_JSON: Mapping[Kind, Callable[[str], Any]] = MappingProxyType(
    {
        Kind.BOOLEAN: _boolean,
        Kind.INTEGER: _number,
        Kind.FLOAT: _number,
        Kind.STRING: lambda text: text,
        Kind.TIMESTAMP: lambda text: _number(text) if _WHOLE.fullmatch(text.strip()) else text.strip(),
        Kind.JSON: lambda text: parsed(text.encode()),
    }
)
Kinds: TypeAlias = Mapping[str, Kind]
"""The kinds of fields by name."""
NO_KINDS: Kinds = MappingProxyType({})


def undeclared(name: str, text: str, kinds: Kinds) -> Any:
    """A value as it stands among the undeclared fields: of the kind that some readers expect, or else a text.

    >>> undeclared("t", "20.5", {"t": Kind.FLOAT}), undeclared("t", "20.5", {}), undeclared("t", "-", {"t": Kind.FLOAT})
    (20.5, '20.5', '-')
    """
    try:
        value = _TO_JSON[kinds.get(name, Kind.STRING)](text)
        FROM_TEXT[kinds.get(name, Kind.STRING)](text)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return text
    return value
