"""The config that a module fixes, checked by its task type before it is published.

What an installed type needs besides may come from the point. So a field that is missing is no problem here, nor is what
several fields have to do with each other. The config of code is complete.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from dags import AnyTaskType, Problem
from dags.problems import pointer, quoted
from dags.pydantic_errors import describe_error


def installed_problems(config: Mapping[str, Any], kind: AnyTaskType) -> Iterator[Problem]:
    """What is wrong with a part of a config, in the form of its module."""
    for found in _found(config, kind):
        is_open = not found["loc"] or (found["type"] == "missing" and len(found["loc"]) == 1)
        if not is_open:
            yield _problem(found, kind, ["installed", "config", *_place(found["loc"], config)])


def code_problems(config: Mapping[str, Any], kind: AnyTaskType) -> Iterator[Problem]:
    """What is wrong with the config of code, in the form of its module."""
    for found in _found(config, kind):
        place = list(_place(found["loc"], config))
        # The form has the fields that it needs one level higher.
        yield _problem(found, kind, ["code", *(place[:1] + place[2:] if place[:2] == ["input", "in"] else place)])


def _found(config: Mapping[str, Any], kind: AnyTaskType) -> list[ErrorDetails]:
    try:
        kind.config.model_validate_json(json.dumps(config))
    except ValidationError as error:
        return error.errors(include_url=False, include_input=False)
    except Exception as error:  # noqa: BLE001 - third parties may raise anything
        message = f"the task type {quoted(kind.name)} failed: {type(error).__name__}"
        return [{"type": "value_error", "loc": ("",), "msg": message, "input": None}]
    return []


def _place(location: Sequence[str | int], config: Any) -> Iterator[str | int]:
    """The path in the config: without the alternatives that pydantic also names."""
    for token in location:
        try:
            config = config[token]
        except (KeyError, IndexError, TypeError):
            if token != location[-1] or not isinstance(config, Mapping):
                continue
        yield token


def _problem(found: ErrorDetails, kind: AnyTaskType, place: Sequence[str | int]) -> Problem:
    known = [field.alias or name for name, field in kind.config.model_fields.items()] if len(found["loc"]) == 1 else []
    code, message, remedy = describe_error(found, known)
    return Problem(pointer=pointer(*place), code=code, message=message, remedy=remedy)
