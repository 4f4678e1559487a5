"""JSON texts from outside: parsed, and searched for what JSON can express but Braid cannot keep."""

import json
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, TypeAlias

from dags.problems import InvalidDocument, Problem, pointer, quoted

LONGEST_KEY = 1_000
"""Of an object, at every level. Each problem below a key repeats the key in its pointer."""
MOST_DOCUMENT_BYTES = 4 * 1024 * 1024
MOST_NESTING = 16
"""Levels of objects and arrays inside one config."""
LARGEST_INTEGER = 2**53
MOST_UNFIT = 1_000
"""Reading stops after this many unfit values."""

_TASK_NESTING = 3  # document, list of tasks, task
_TOO_LARGE = LARGEST_INTEGER * 2
"""Stands for any integer above the largest."""
_MOST_DIGITS = 20  # more than any allowed number needs; int() takes quadratic time in them

Path: TypeAlias = tuple[str | int, ...]


class _Vanished(float):
    """A number other than 0 that is 0 as a float. `unfit_values` reports it."""


class _Repeated(dict[str, Any]):
    """A JSON object with repeated keys. `unfit_values` reports it."""

    repeated_keys: tuple[str, ...] = ()


def parsed_object(raw: bytes | str) -> dict[str, Any]:
    """The JSON object of a text. Raises `InvalidDocument` if it has none."""
    value = _parse(_decode(raw))
    if not isinstance(value, dict):
        raise refusal("not-an-object", "the document is not a JSON object", "put its fields in { … }")
    return value


def object_naming(raw: bytes, names: Iterable[str]) -> dict[str, Any]:
    """The JSON object of a text that has some of these strings in it; else, and of one that cannot be read, nothing.

    Most documents have none of them, and are not parsed for that.

    >>> object_naming(b'{"policy": 1}', ["policy"]), object_naming(b'{"name": 1}', ["policy"])
    ({'policy': 1}, {})
    """
    if not any(f'"{name}"'.encode() in raw for name in names):
        return {}
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def refusal(code: str, message: str, remedy: str, *place: str) -> InvalidDocument:
    """The refusal of a whole document for one reason, at a place in it."""
    return InvalidDocument([Problem(pointer=pointer(*place), code=code, message=message, remedy=remedy)])


def _decode(raw: bytes | str) -> str:
    too_large = refusal(
        "document-too-large",
        f"the document is larger than {MOST_DOCUMENT_BYTES:,} bytes",
        "split it into several dataflows; they share what they have in common",
    )
    if len(raw) > MOST_DOCUMENT_BYTES:
        raise too_large
    if isinstance(raw, str):
        # A lone surrogate has no UTF-8 form. `unfit_values` reports it with its place.
        if len(raw.encode("utf-8", "surrogatepass")) > MOST_DOCUMENT_BYTES:
            raise too_large
        return raw
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refusal(
            "not-utf-8", f"byte {error.start} of the document is not UTF-8", "send the document as UTF-8"
        ) from None


def _parse(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=float,
        )
    except json.JSONDecodeError as error:
        raise refusal(
            "malformed-json",
            f"the document is not JSON: line {error.lineno}, column {error.colno}: {error.msg}",
            "correct the text there",
        ) from None
    except RecursionError:
        raise refusal(
            "nested-too-deeply",
            "the document nests objects and arrays too deeply",
            f"nest at most {MOST_NESTING} levels in a config",
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    repeated = _Repeated(made)
    seen: set[str] = set()
    again = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
    repeated.repeated_keys = tuple(dict.fromkeys(again))
    return repeated


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else _TOO_LARGE


def _number(text: str) -> int | float:
    """Read equal numbers as one: 5.0 as 5, -0.0 as 0. A float field turns them back into floats.

    From 2^53 on, not every whole number has a float, and one that loses a digit becomes another number.
    """
    value = float(text)
    if not value:
        return _Vanished() if text.lower().partition("e")[0].strip("-0.") else 0
    if not value.is_integer():
        return value
    if abs(value) >= LARGEST_INTEGER and Decimal(text) != Decimal(repr(value)):
        return _TOO_LARGE
    return int(value) if abs(value) <= LARGEST_INTEGER else value


def unfit_values(value: dict[str, Any] | list[Any], path: Path = (), depth: int = 1) -> Iterator[tuple[Path, Problem]]:
    """Find every value that JSON can express but Braid cannot keep, with its path."""
    if depth > MOST_NESTING + _TASK_NESTING:
        message = f"the config is nested deeper than {MOST_NESTING} levels"
        yield _found(path, "nested-too-deeply", message, "flatten the config")
        return
    if isinstance(value, dict):
        yield from _unfit_keys(value, path)
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        # No call for each scalar: a document may have a hundred thousand.
        kind = type(item)
        if kind is str:
            if not item.isascii() and _has_lone_surrogate(item):
                yield _found((*path, key), "lone-surrogate", "the text contains half a character", _WHOLE_CHARACTERS)
        elif (kind is dict or kind is list or kind is _Repeated) and (type(key) is int or len(key) <= LONGEST_KEY):
            yield from unfit_values(item, (*path, key), depth + 1)
        elif kind is int or kind is float or kind is _Vanished:
            yield from _unfit_number(item, (*path, key))


def _unfit_keys(value: dict[str, Any], path: Path) -> Iterator[tuple[Path, Problem]]:
    for key in value.repeated_keys if isinstance(value, _Repeated) else ():
        message = f"the key {quoted(key)} appears twice in one object"
        yield _found(path, "repeated-key", message, "keep one of the two")
    for key in value:
        if not key.isascii() and _has_lone_surrogate(key):
            yield _found((*path, key), "lone-surrogate", "the key contains half a character", _WHOLE_CHARACTERS)
        if len(key) > LONGEST_KEY:
            yield _found((*path, key), "too-long", f"the key is longer than {LONGEST_KEY:,} characters", "shorten it")


def _unfit_number(value: float, path: Path) -> Iterator[tuple[Path, Problem]]:
    if isinstance(value, _Vanished):
        message = "the number is too close to 0: as a float it would be 0"
        yield _found(path, "number-too-small", message, "write 0, or a number that a float can hold")
    elif not math.isfinite(value):
        yield _found(path, "not-finite", "the number is NaN, infinite or too large", "give a finite number")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        message = "the integer is beyond ±2^53, where JSON numbers lose digits"
        yield _found(path, "integer-too-large", message, _IN_FEWER_DIGITS)


_IN_FEWER_DIGITS = (
    "use a smaller one for an integer field, one with an exponent and no more digits than a float keeps for a float "
    "field, and a string for a text field"
)
_WHOLE_CHARACTERS = "write both halves of each surrogate pair"


def _found(path: Path, code: str, message: str, remedy: str) -> tuple[Path, Problem]:
    return path, Problem(pointer=pointer(*path), code=code, message=message, remedy=remedy)


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
