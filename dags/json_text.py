"""JSON texts from outside: parsed, searched for what Braid cannot keep, and read as forms.

What does not fit becomes problems that name the place and the remedy, in the terms of JSON; pydantic's own words for
errors are translated here, for documents and configs alike. JSON can express values that Braid cannot keep, such as an
integer that loses digits or half a character. `unfit_values` finds them.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from dags.problems import MOST_DOCUMENT_PROBLEMS, InvalidDocument, Problem, listed, problem_at, quoted, suggestion

LONGEST_KEY = 1_000
"""The longest key of an object at any level, since each problem below a key repeats it in its pointer."""
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
    return InvalidDocument([problem_at(code, message, remedy, *place)])


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
            parse_int=lambda digits: int(digits) if len(digits) <= _MOST_DIGITS else _TOO_LARGE,
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
        yield _unfit(path, "nested-too-deeply", message, "flatten the config")
        return
    if isinstance(value, dict):
        yield from _unfit_keys(value, path)
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        # No call for each scalar: a document may have a hundred thousand.
        kind = type(item)
        if kind is str:
            if not item.isascii() and _has_lone_surrogate(item):
                yield _unfit((*path, key), "lone-surrogate", "the text contains half a character", _WHOLE_CHARACTERS)
        elif (kind is dict or kind is list or kind is _Repeated) and (type(key) is int or len(key) <= LONGEST_KEY):
            yield from unfit_values(item, (*path, key), depth + 1)
        elif kind is int or kind is float or kind is _Vanished:
            yield from _unfit_number(item, (*path, key))


def _unfit_keys(value: dict[str, Any], path: Path) -> Iterator[tuple[Path, Problem]]:
    for key in value.repeated_keys if isinstance(value, _Repeated) else ():
        message = f"the key {quoted(key)} appears twice in one object"
        yield _unfit(path, "repeated-key", message, "keep one of the two")
    for key in value:
        if not key.isascii() and _has_lone_surrogate(key):
            yield _unfit((*path, key), "lone-surrogate", "the key contains half a character", _WHOLE_CHARACTERS)
        if len(key) > LONGEST_KEY:
            yield _unfit((*path, key), "too-long", f"the key is longer than {LONGEST_KEY:,} characters", "shorten it")


def _unfit_number(value: float, path: Path) -> Iterator[tuple[Path, Problem]]:
    if isinstance(value, _Vanished):
        message = "the number is too close to 0: as a float it would be 0"
        yield _unfit(path, "number-too-small", message, "write 0, or a number that a float can hold")
    elif not math.isfinite(value):
        yield _unfit(path, "not-finite", "the number is NaN, infinite or too large", "give a finite number")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        message = "the integer is beyond ±2^53, where JSON numbers lose digits"
        yield _unfit(path, "integer-too-large", message, _IN_FEWER_DIGITS)


_IN_FEWER_DIGITS = (
    "use a smaller one for an integer field, one with an exponent and no more digits than a float keeps for a float "
    "field, and a string for a text field"
)
_WHOLE_CHARACTERS = "write both halves of each surrogate pair"


def _unfit(path: Path, code: str, message: str, remedy: str) -> tuple[Path, Problem]:
    return path, problem_at(code, message, remedy, *path)


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


# The JSON type that was expected, by pydantic's name of the error.
_TYPES = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "float_type": "a number",
    "int_type": "an integer",
    "list_type": "an array",
    "model_type": "an object",
    "string_type": "a string",
    "tuple_type": "an array",
}

# Code, message and remedy of the errors that need nothing but their context.
_LIMITS = {
    "string_pattern_mismatch": (
        "wrong-value",
        "the text contains characters that are not allowed here",
        "use a text that matches {pattern}",
    ),
    "string_too_long": ("too-long", "the text is longer than {max_length} characters", "shorten it"),
    "string_too_short": ("too-short", "the text must have a length of at least {min_length}", "make it longer"),
    "too_short": ("too-short", "the array must have a length of at least {min_length}", "add entries"),
}


def describe_error(detail: ErrorDetails, known_fields: Sequence[str]) -> tuple[str, str, str]:
    """The code, message and remedy for an error in an object that may have the known fields."""
    kind = detail["type"]
    place = str(detail["loc"][-1]) if detail["loc"] else ""
    if kind == "missing":
        return "missing-field", f"the field {quoted(place)} is missing", "add it"
    if kind == "extra_forbidden":
        otherwise = f"remove it; the known fields are {listed(known_fields)}" if known_fields else "remove it"
        return "unknown-field", f"unknown field {quoted(place)}", suggestion(place, known_fields, otherwise)
    if kind in _TYPES:
        return "wrong-type", f"the value should be {_TYPES[kind]}", f"give {_TYPES[kind]}"
    if kind in _LIMITS:
        code, message, remedy = _LIMITS[kind]
        return code, message.format(**detail["ctx"]), remedy.format(**detail["ctx"])
    reason = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ").removeprefix("Input ")
    prefix = "is not valid: " if kind in {"value_error", "assertion_error"} else ""
    message = f"the value {prefix}{reason[0].lower()}{reason[1:]}" if reason else "the value is not allowed here"
    return "wrong-value", message, "change it"


def place_in_config(detail: ErrorDetails, config: Any) -> tuple[list[str | int], Any]:
    """The place of an error in a config, and the value there.

    Pydantic's paths also name the alternatives of a union, a level that the config does not have.
    """
    place: list[str | int] = []
    for token in detail["loc"]:
        if (isinstance(config, dict) and token in config) or (
            isinstance(config, list) and isinstance(token, int) and token < len(config)
        ):
            config = config[token]  # type: ignore[index]
            place.append(token)
        elif token == detail["loc"][-1] and detail["type"] == "missing":
            place.append(token)
    return place, config


F = TypeVar("F", bound=BaseModel)
_TAG = re.compile(r"\(\w+\)|\[key\]")
"""What pydantic adds to a path that is no place in the document: which of several forms an entry has, or a key."""


def read_form(raw: bytes | str, kind: type[F]) -> F:
    """The form in a JSON text. Raises `InvalidDocument`.

    Where a place may have one of several forms, their tags are written in parentheses, such as `(point)`.
    """
    value = parsed_object(raw)
    if unfit := [problem for _, problem in islice(unfit_values(value), MOST_DOCUMENT_PROBLEMS)]:
        raise InvalidDocument(unfit)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        # A list is also called too short if it only has bad entries.
        findings = [
            detail for detail in error.errors(include_url=False) if detail["type"] != "too_short" or not detail["input"]
        ]
        problems = (
            problem_at(*describe_error(detail, _known(kind, detail["loc"])), *_place(detail["loc"], value))
            for detail in findings[:MOST_DOCUMENT_PROBLEMS]
        )
        raise InvalidDocument(problems) from None


def _place(path: Sequence[str | int], value: Any) -> list[str | int]:
    """The path in the document: without what pydantic adds to it."""
    place: list[str | int] = []
    for part in path:
        is_key = isinstance(value, dict) and part in value
        if not is_key and isinstance(part, str) and (not isinstance(value, dict) or _TAG.fullmatch(part)):
            continue
        place.append(part)
        is_there = is_key or (isinstance(value, list) and isinstance(part, int) and part < len(value))
        value = value[part] if is_there else None
    return place


def _known(kind: Any, path: Sequence[str | int]) -> list[str]:
    """The fields that the object around a place may have."""
    for part in path[:-1]:
        if isinstance(part, str):
            kind = _tagged(kind, part) or kind
            annotations = [model.model_fields[part].annotation for model in _models(kind) if part in model.model_fields]
            kind = annotations[0] if annotations else kind
    return [field.alias or name for model in _models(kind) for name, field in model.model_fields.items()]


def _tagged(kind: Any, tag: str) -> Any:
    """The form of that tag among those that a place may have, or None."""
    if get_origin(kind) is Annotated and any(
        isinstance(argument, Tag) and argument.tag == tag for argument in get_args(kind)[1:]
    ):
        return get_args(kind)[0]
    return next((form for argument in get_args(kind) if (form := _tagged(argument, tag)) is not None), None)


def _models(kind: Any) -> list[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [model for argument in get_args(kind) for model in _models(argument)]
