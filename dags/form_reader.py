"""Forms read from JSON: what does not fit becomes problems that name the place and the remedy."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from dags.json_text import parsed_object, unfit_values
from dags.problems import MOST_DOCUMENT_PROBLEMS, InvalidDocument, Problem, pointer
from dags.pydantic_errors import describe_error

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
        findings = [each for each in error.errors(include_url=False) if not _counts_bad_entries(each)]
        raise InvalidDocument([_problem(each, kind, value) for each in findings[:MOST_DOCUMENT_PROBLEMS]]) from None


def _problem(found: ErrorDetails, kind: type[BaseModel], value: Any) -> Problem:
    code, message, remedy = describe_error(found, _known(kind, found["loc"]))
    return Problem(pointer=pointer(*_place(found["loc"], value)), code=code, message=message, remedy=remedy)


def _counts_bad_entries(found: ErrorDetails) -> bool:
    """Whether a list is called too short only because all its entries are bad."""
    return found["type"] == "too_short" and bool(found["input"])


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
            found = [each.model_fields[part].annotation for each in _models(kind) if part in each.model_fields]
            kind = found[0] if found else kind
    return [field.alias or name for each in _models(kind) for name, field in each.model_fields.items()]


def _tagged(kind: Any, tag: str) -> Any:
    """The form of that tag among those that a place may have, or None."""
    if get_origin(kind) is Annotated and any(isinstance(each, Tag) and each.tag == tag for each in get_args(kind)[1:]):
        return get_args(kind)[0]
    return next((found for each in get_args(kind) if (found := _tagged(each, tag)) is not None), None)


def _models(kind: Any) -> list[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [model for each in get_args(kind) for model in _models(each)]
