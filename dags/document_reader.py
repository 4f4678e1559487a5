"""Read a document from bytes. Malformed, oversized or unfit text becomes problems, never a traceback.

Readable parts are kept even if other parts are not, so that the passes find their problems in the same run.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dags.document import LONGEST_KEY, MOST_DOCUMENT_STREAMS, MOST_TASKS, Document, StreamForm, TaskForm
from dags.problems import MOST_DOCUMENT_PROBLEMS, InvalidDocument, Problem, pointer, quoted
from dags.pydantic_errors import describe_error

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The readable parts of a document; made by `read`. An unreadable entry is None."""

    name: str
    tasks: tuple[TaskForm | None, ...]
    streams: tuple[StreamForm | None, ...]
    unreadable_ids: frozenset[str]
    """Ids of unreadable tasks, so that streams to them are no second problem."""
    problems: tuple[Problem, ...]


class _Vanished(float):
    """A number other than 0 that is 0 as a float. `_unfit` reports it."""


class _Repeated(dict[str, Any]):
    """A JSON object with repeated keys. `_unfit` reports it."""

    repeated_keys: tuple[str, ...] = ()


def read(raw: bytes | str) -> Reading:
    """Read a document's text. Raises `InvalidDocument` only if no part is readable."""
    value = _parse(_decode(raw))
    if not isinstance(value, dict):
        raise _refuse("not-an-object", "the document is not a JSON object", "put its fields in { … }")
    for part, most in (("tasks", MOST_TASKS), ("streams", MOST_DOCUMENT_STREAMS)):
        if isinstance(items := value.get(part), list) and len(items) > most:
            raise _refuse(
                f"too-many-{part}",
                f"the document has {len(items):,} {part}; {most:,} are allowed",
                "split it into several dataflows; they share what they have in common",
            )
    problems: list[Problem] = []
    spoilt: set[Path] = set()
    for path, problem in _unfit(value, (), 1):
        problems.append(problem)
        spoilt.add(path[:2])
        if len(problems) == MOST_UNFIT:
            raise InvalidDocument(problems)
    try:
        # Without the parts already reported: pydantic stops at a key with half a character.
        document = Document.model_validate({key: item for key, item in value.items() if (key,) not in spoilt})
    except ValidationError as error:
        findings = [found for found in error.errors(include_url=False, include_input=False) if _is_new(found, value)]
        new = (found for found in findings if found["loc"][:2] not in spoilt)
        problems += [_form_problem(found) for found in islice(new, MOST_DOCUMENT_PROBLEMS)]
        spoilt |= {found["loc"][:2] for found in findings}
        return _salvage(value, spoilt, problems)
    if problems:
        return _salvage(value, spoilt, problems)
    return Reading(
        name=document.name,
        tasks=document.tasks,
        streams=document.streams,
        unreadable_ids=frozenset(),
        problems=(),
    )


def _is_new(found: ErrorDetails, value: dict[str, Any]) -> bool:
    """False for a list that counts as empty because all its entries are bad."""
    return not (found["type"] == "too_short" and value[str(found["loc"][0])])


def _salvage(value: dict[str, Any], spoilt: set[Path], problems: list[Problem]) -> Reading:
    """Keep the readable parts of a document that has problems."""

    def entries(part: str) -> list[Any]:
        # One unreadable entry stands for an unreadable list, so that nothing counts as missing from it.
        items = value.get(part)
        return items if isinstance(items, list) else [None]

    # Without a list of tasks, streams cannot be checked.
    if not isinstance(value.get("tasks"), list):
        value = {**value, "streams": None}
    spoilt = {*spoilt, *((part, 0) for part in _FORMS if not isinstance(value.get(part), list))}
    return Reading(
        name=str(value.get("name")),
        tasks=tuple(
            None if ("tasks", i) in spoilt else TaskForm.model_validate(item) for i, item in enumerate(entries("tasks"))
        ),
        streams=tuple(
            None if ("streams", i) in spoilt else StreamForm.model_validate(item)
            for i, item in enumerate(entries("streams"))
        ),
        unreadable_ids=frozenset(
            item["id"]
            for i, item in enumerate(entries("tasks"))
            if ("tasks", i) in spoilt and isinstance(item, dict) and isinstance(item.get("id"), str)
        ),
        problems=tuple(problems),
    )


def _refuse(code: str, message: str, remedy: str) -> InvalidDocument:
    return InvalidDocument([Problem(pointer="", code=code, message=message, remedy=remedy)])


def _decode(raw: bytes | str) -> str:
    too_large = _refuse(
        "document-too-large",
        f"the document is larger than {MOST_DOCUMENT_BYTES:,} bytes",
        "split it into several dataflows; they share what they have in common",
    )
    if len(raw) > MOST_DOCUMENT_BYTES:
        raise too_large
    if isinstance(raw, str):
        # A lone surrogate has no UTF-8 form. `_unfit` reports it with its place.
        if len(raw.encode("utf-8", "surrogatepass")) > MOST_DOCUMENT_BYTES:
            raise too_large
        return raw
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(
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
        raise _refuse(
            "malformed-json",
            f"the document is not JSON: line {error.lineno}, column {error.colno}: {error.msg}",
            "correct the text there",
        ) from None
    except RecursionError:
        raise _refuse(
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


def _unfit(value: dict[str, Any] | list[Any], path: Path, depth: int) -> Iterator[tuple[Path, Problem]]:
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
            yield from _unfit(item, (*path, key), depth + 1)
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


_FORMS: dict[str, type[BaseModel]] = {"tasks": TaskForm, "streams": StreamForm}


def _form_problem(found: ErrorDetails) -> Problem:
    """The problem for one of pydantic's errors in the document's form."""
    path = found["loc"]
    if path == ("version",) and found["type"] != "missing":
        code, message, remedy = "unknown-version", "the version is unknown", "use 1"
    else:
        form: type[BaseModel] = Document if len(path) == 1 else _FORMS[str(path[0])]
        known = [field.alias or name for name, field in form.model_fields.items()]
        code, message, remedy = describe_error(found, known)
    return Problem(pointer=pointer(*path), code=code, message=message, remedy=remedy)
