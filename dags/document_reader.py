"""From bytes to a document: malformed, oversized or unfit text becomes problems, never a traceback.

What can be read is kept although other parts cannot, so that the passes find the problems of the rest in the same go.
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
"""After so many values that cannot be kept, the rest of the document is not looked at."""

_TASK_NESTING = 3  # document, list of tasks, task
_TOO_LARGE = LARGEST_INTEGER * 2
"""Stands for any integer beyond the largest."""
_MOST_DIGITS = 20  # more than any number within the limits needs; int() takes quadratic time in them

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What could be read of a document; made by `read`. Entries that could not be are None, in their places."""

    name: str
    tasks: tuple[TaskForm | None, ...]
    streams: tuple[StreamForm | None, ...]
    unreadable_ids: frozenset[str]
    """Ids of the tasks that could not be read, so that streams to them are no second problem."""
    problems: tuple[Problem, ...]


class _Vanished(float):
    """A number that is not 0, but would be as a float; the walk reports it at its place."""


class _Repeated(dict[str, Any]):
    """A JSON object in which keys stand twice; the walk reports it at its place."""

    keys_again: tuple[str, ...] = ()


def read(raw: bytes | str) -> Reading:
    """Read a document's text. Only where nothing at all can be made of it is `InvalidDocument` raised here."""
    value = _parse(_decode(raw))
    if not isinstance(value, dict):
        raise _refuse("not-an-object", "the document is not a JSON object", "write { … } around its fields")
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
        # Without what is told already: at a key with half a character, pydantic would look no further.
        document = Document.model_validate({key: item for key, item in value.items() if (key,) not in spoilt})
    except ValidationError as error:
        findings = [found for found in error.errors(include_url=False, include_input=False) if _is_own(found, value)]
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


def _is_own(found: ErrorDetails, value: dict[str, Any]) -> bool:
    """Whether a finding says something new: a list all of whose entries are bad also counts as empty."""
    return not (found["type"] == "too_short" and value[str(found["loc"][0])])


def _salvage(value: dict[str, Any], spoilt: set[Path], problems: list[Problem]) -> Reading:
    """What can be read of a document that has problems."""

    def entries(part: str) -> list[Any]:
        # One entry that cannot be read stands for a list that cannot, so that nothing counts as missing from it.
        items = value.get(part)
        return items if isinstance(items, list) else [None]

    # Without a list of tasks, streams have nothing to be held against.
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
        # A lone surrogate has no UTF-8 form; the walk reports it with its place.
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
            "the document nests objects and arrays too deeply to be read",
            f"keep every config within {MOST_NESTING} levels",
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    repeated = _Repeated(made)
    seen: set[str] = set()
    again = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
    repeated.keys_again = tuple(dict.fromkeys(again))
    return repeated


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else _TOO_LARGE


def _number(text: str) -> int | float:
    """Numbers that are equal are read as one: 5.0 as 5, -0.0 as 0; a float field turns them back into floats.

    From 2^53 on not every whole number has a float, and one that lost a digit would be read as another one.
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
    """Every value that JSON can write but Braid cannot keep: what it is and where."""
    if depth > MOST_NESTING + _TASK_NESTING:
        yield _found(path, "nested-too-deeply", f"nested deeper than {MOST_NESTING} levels", "flatten the config")
        return
    if isinstance(value, dict):
        yield from _unfit_keys(value, path)
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        # Scalars are told apart without a call each: a document has a hundred thousand of them.
        kind = type(item)
        if kind is str:
            if not item.isascii() and _has_lone_surrogate(item):
                yield _found((*path, key), "lone-surrogate", "the text holds half a character", _WHOLE_CHARACTERS)
        elif (kind is dict or kind is list or kind is _Repeated) and (type(key) is int or len(key) <= LONGEST_KEY):
            yield from _unfit(item, (*path, key), depth + 1)
        elif kind is int or kind is float or kind is _Vanished:
            yield from _unfit_number(item, (*path, key))


def _unfit_keys(value: dict[str, Any], path: Path) -> Iterator[tuple[Path, Problem]]:
    for key in value.keys_again if isinstance(value, _Repeated) else ():
        message = f"the key {quoted(key)} stands twice in one object"
        yield _found(path, "repeated-key", message, "keep one of the two")
    for key in value:
        if not key.isascii() and _has_lone_surrogate(key):
            yield _found((*path, key), "lone-surrogate", "the key holds half a character", _WHOLE_CHARACTERS)
        if len(key) > LONGEST_KEY:
            yield _found((*path, key), "too-long", f"the key is longer than {LONGEST_KEY:,} characters", "shorten it")


def _unfit_number(value: float, path: Path) -> Iterator[tuple[Path, Problem]]:
    if isinstance(value, _Vanished):
        message = "the number is so close to 0 that a float would make it 0"
        yield _found(path, "number-too-small", message, "write 0, or a number that a float can hold")
    elif not math.isfinite(value):
        yield _found(path, "not-finite", "the number is NaN, infinite or too large", "give a finite number")
    elif isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        message = "the integer is beyond ±2^53, where JSON numbers lose digits"
        yield _found(path, "integer-too-large", message, _IN_FEWER_DIGITS)


_IN_FEWER_DIGITS = (
    "give an integer field a smaller one, a float field one with an exponent and no more digits than a float keeps, "
    "and a text field a string"
)
_WHOLE_CHARACTERS = "write each surrogate pair whole"


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
    """One of pydantic's findings about the document's form, in our words."""
    path = found["loc"]
    if path == ("version",) and found["type"] != "missing":
        code, message, remedy = "unknown-version", "the version is not one that is known", "write 1"
    else:
        form: type[BaseModel] = Document if len(path) == 1 else _FORMS[str(path[0])]
        known = [field.alias or name for name, field in form.model_fields.items()]
        code, message, remedy = describe_error(found, known)
    return Problem(pointer=pointer(*path), code=code, message=message, remedy=remedy)
