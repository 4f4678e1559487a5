"""Bodies of requests: bounded, and read only once the caller is known.

Documents and modules are passed on as bytes, because `dags` and `planning` parse them; forms are parsed here.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from dags.json_text import MOST_DOCUMENT_BYTES
from dags.problems import pointer
from dags.pydantic_errors import describe_error
from engine.code.wheel_file import MOST_WHEEL_BYTES
from manager.event_flow import request_body
from manager.problem import FieldError, InvalidRequest, TooLarge, UnsupportedMediaType
from manager.rest.dependencies import TheCaller

F = TypeVar("F", bound=BaseModel)
_JSON, _LINES = "application/json", "application/x-ndjson"
OCTETS = "application/octet-stream"
MOST_FORM_BYTES = 1024 * 1024
MOST_OPEN_BYTES = 4 * 1024
"""Most bytes of a body from an unknown caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEvents:
    """The events of a request, not yet parsed."""

    body: bytes
    as_lines: bool
    """One event on each line; else a JSON array."""


async def events(request: Request, caller: TheCaller) -> SentEvents:  # noqa: ARG001 - the body is read only for a known caller
    """Read the events in a body: JSON lines or an array."""
    body = await _read(request, request_body.MOST_REQUEST_BYTES, (_LINES, _JSON))
    return SentEvents(body=body, as_lines=_kind(request) == _LINES)


async def document(request: Request, caller: TheCaller) -> bytes:  # noqa: ARG001 - the body is read only for a known caller
    """Read the bytes of a document."""
    return await _read(request, MOST_DOCUMENT_BYTES)


async def module(request: Request, caller: TheCaller) -> bytes:  # noqa: ARG001 - the body is read only for a known caller
    """Read the bytes of a module."""
    return await _read(request, MOST_FORM_BYTES)


async def wheel(request: Request, caller: TheCaller) -> bytes:  # noqa: ARG001 - the body is read only for a known caller
    """Read the bytes of a wheel."""
    return await _read(request, MOST_WHEEL_BYTES, (OCTETS,))


def form(model: type[F]) -> Callable[[Request, TheCaller], Awaitable[F]]:
    """Make the dependency that parses a form."""

    async def parsed(request: Request, caller: TheCaller) -> F:  # noqa: ARG001 - as above
        return await _parse(request, model, MOST_FORM_BYTES)

    return parsed


def open_form(model: type[F]) -> Callable[[Request], Awaitable[F]]:
    """Make the dependency that parses a form of a caller that may be unknown; its body must be short."""

    async def parsed(request: Request) -> F:
        return await _parse(request, model, MOST_OPEN_BYTES)

    return parsed


async def _parse(request: Request, model: type[F], most: int) -> F:
    raw = await _read(request, most)
    try:
        return model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise InvalidRequest(_problem(each, raw, model) for each in found) from None


async def _read(request: Request, most: int, kinds: Sequence[str] = (_JSON,)) -> bytes:
    _check_headers(request, kinds)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > most:
        raise TooLarge(most)
    whole = bytearray()
    async for part in request.stream():
        whole += part
        if len(whole) > most:
            raise TooLarge(most)
    return bytes(whole)


def _check_headers(request: Request, kinds: Sequence[str]) -> None:
    if _kind(request) not in kinds:
        raise UnsupportedMediaType("Content-Type", request.headers.get("content-type", ""), kinds)
    coding = request.headers.get("content-encoding", "identity")
    if coding.strip().lower() != "identity":
        raise UnsupportedMediaType("Content-Encoding", coding, kinds)


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _problem(found: ErrorDetails, raw: bytes, model: type[BaseModel]) -> FieldError:
    if found["type"] == "json_invalid":
        return FieldError(
            pointer="",
            code="not-json",
            message=f"the body is not JSON: {found['ctx']['error']}",
            remedy="send one JSON object",
        )
    known = tuple(field.alias or name for name, field in model.model_fields.items()) if len(found["loc"]) == 1 else ()
    code, message, remedy = describe_error(found, known)
    return FieldError(pointer=pointer(*_place(found["loc"], from_json(raw))), code=code, message=message, remedy=remedy)


def _place(location: tuple[str | int, ...], value: Any) -> list[str | int]:
    """The path of an error in the body, from the location that pydantic gives.

    Pydantic also names the form that it tried, and marks keys.


    >>> _place(("connection", "topic", "topic"), {"connection": {"kind": "topic"}})
    ['connection', 'topic']
    >>> _place(("schema", "a", "[key]"), {"schema": {"a": 1}})
    ['schema', 'a']
    """
    place: list[str | int] = []
    entered = False
    for token in location:
        if token == "[key]":  # noqa: S105 - pydantic's mark of a key, not a password
            break
        if entered and isinstance(value, dict) and value.get("kind") == token:
            entered = False
            continue
        place.append(token)
        entered = True
        try:
            value = value[token]
        except (KeyError, IndexError, TypeError):
            value = None
    return place
