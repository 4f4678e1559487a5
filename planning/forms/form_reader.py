"""Forms read from JSON: what does not fit becomes problems that name the place and the remedy."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dags import InvalidDocument, Problem
from dags.json_text import parsed_object, unfit_values
from dags.problems import MOST_DOCUMENT_PROBLEMS, pointer
from dags.pydantic_errors import describe_error

F = TypeVar("F", bound=BaseModel)
_TAGS = frozenset({"task", "point", "gap"})
_TAG_AT = 2
"""Where pydantic names which form an entry has: after `tasks` and its position."""


def read_form(raw: bytes | str, kind: type[F]) -> F:
    """The form in a JSON text. Raises `InvalidDocument`."""
    value = parsed_object(raw)
    if unfit := [problem for _, problem in islice(unfit_values(value), MOST_DOCUMENT_PROBLEMS)]:
        raise InvalidDocument(unfit)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        findings = error.errors(include_url=False, include_input=False)
        raise InvalidDocument([_problem(each, kind) for each in findings[:MOST_DOCUMENT_PROBLEMS]]) from None


def _problem(found: ErrorDetails, kind: type[BaseModel]) -> Problem:
    code, message, remedy = describe_error(found, _known(kind, found["loc"]))
    return Problem(pointer=pointer(*_place(found["loc"])), code=code, message=message, remedy=remedy)


def _place(path: Sequence[str | int]) -> list[str | int]:
    """The path in the document: without the alternatives that pydantic also names."""
    return [
        part
        for at, part in enumerate(path)
        if part != "[key]" and not (at == _TAG_AT and path[0] == "tasks" and part in _TAGS)
    ]


def _known(kind: Any, path: Sequence[str | int]) -> list[str]:
    """The fields that the object around a place may have."""
    for part in path[:-1]:
        if isinstance(part, str):
            found = [each.model_fields[part].annotation for each in _models(kind) if part in each.model_fields]
            kind = found[0] if found else kind
    return [field.alias or name for each in _models(kind) for name, field in each.model_fields.items()]


def _models(kind: Any) -> list[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [model for each in get_args(kind) for model in _models(each)]
