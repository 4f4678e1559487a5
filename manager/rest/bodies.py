"""The bodies of requests, as dependencies of routes.

They are bounded, and read only once the caller is known. Documents and modules are passed on as bytes, because `dags`
and `planning` parse them; forms are parsed here.
"""

import json
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from dags.json_text import MOST_DOCUMENT_BYTES, describe_error
from dags.message_formats import MEDIA_TYPES
from dags.problems import pointer
from engine.code.wheel_file import MOST_WHEEL_BYTES
from manager.problem import (
    FieldError,
    InvalidRequest,
    TooLarge,
    UnsupportedMediaType,
    invalid,
)
from manager.rest.dependencies import TheCaller

F = TypeVar("F", bound=BaseModel)
_JSON = "application/json"
KINDS_OF_EVENTS = ("application/x-ndjson", _JSON, *(kind for kind in MEDIA_TYPES if kind != _JSON))
_GZIP = 16 + zlib.MAX_WBITS
OCTETS = "application/octet-stream"
MOST_FORM_BYTES = 1024 * 1024
_MOST_EVENT_BYTES = 1_000_000
MOST_OPEN_BYTES = 4 * 1024
"""Most bytes of a body from an unknown caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentEvents:
    """The events of a request, not yet parsed."""

    body: bytes
    media_type: str
    """The content type, without parameters."""


def body(most: int, *kinds: str, unzips: bool = False) -> Callable[[Request, TheCaller], Awaitable[bytes]]:
    """Make the dependency that reads the bytes of a body of one of these kinds, JSON by default."""

    async def read(request: Request, caller: TheCaller) -> bytes:  # noqa: ARG001 - it is read only for a known caller
        return await _read(request, most, kinds or (_JSON,), unzips=unzips)

    return read


document = body(MOST_DOCUMENT_BYTES)
module = body(MOST_FORM_BYTES)
wheel = body(MOST_WHEEL_BYTES, OCTETS)


async def events(
    request: Request, sent: Annotated[bytes, Depends(body(_MOST_EVENT_BYTES, *KINDS_OF_EVENTS, unzips=True))]
) -> SentEvents:
    """The events in a body: JSON lines, an array, or messages in the format of a source."""
    return SentEvents(body=sent, media_type=_kind(request))


async def signed_events(request: Request) -> bytes:
    """The body of a request with events, byte by byte as it was signed."""
    return await _received(request, _MOST_EVENT_BYTES)


def opened_events(request: Request, signed: bytes) -> SentEvents:
    """The events in a signed body, which may be compressed."""
    kind = _checked_kind(request, KINDS_OF_EVENTS)
    is_zipped = _is_zipped(request, KINDS_OF_EVENTS, unzips=True)
    return SentEvents(body=_unzipped(signed, _MOST_EVENT_BYTES) if is_zipped else signed, media_type=kind)


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
        return _validated(raw, model)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)
        raise InvalidRequest(_problem(detail, raw, model) for detail in wrong) from None


def _validated(raw: bytes, model: type[F]) -> F:
    """The form in a body. An integer may be written as 7.0, which is one by JSON Schema."""
    try:
        return model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        body: Any = from_json(raw) if error.errors()[0]["type"] != "json_invalid" else None
        whole = [detail for detail in error.errors() if detail["type"] == "int_type" and _is_whole(detail["input"])]
        if not whole:
            raise
        for detail in whole:
            *above, last = _place(detail["loc"], body)
            place = body
            for token in above:
                place = place[token]
            place[last] = int(detail["input"])
    return model.model_validate_json(json.dumps(body), strict=True)


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


async def _read(request: Request, most: int, kinds: Sequence[str] = (_JSON,), *, unzips: bool = False) -> bytes:
    _checked_kind(request, kinds)
    is_zipped = _is_zipped(request, kinds, unzips=unzips)
    sent = await _received(request, most)
    return _unzipped(sent, most) if is_zipped else sent


def _is_zipped(request: Request, kinds: Sequence[str], *, unzips: bool) -> bool:
    """Whether the body is compressed; refused if it is in a way that is not read."""
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity" and not (unzips and coding == "gzip"):
        raise UnsupportedMediaType("Content-Encoding", coding, kinds)
    return coding != "identity"


async def _received(request: Request, most: int) -> bytes:
    """The body as it was sent."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > most:
        raise TooLarge(most)
    whole = bytearray()
    async for part in request.stream():
        whole += part
        if len(whole) > most:
            raise TooLarge(most)
    return bytes(whole)


def _unzipped(sent: bytes, most: int) -> bytes:
    unzipping = zlib.decompressobj(_GZIP)
    try:
        # No more than one byte beyond the limit, whatever it grows to.
        whole = unzipping.decompress(sent, most + 1)
    except zlib.error as error:
        raise _not_gzip(str(error)) from None
    if len(whole) > most:
        raise TooLarge(most)
    if not unzipping.eof or unzipping.unused_data:
        raise _not_gzip("it ends too early, or something follows it")
    return whole


def _checked_kind(request: Request, kinds: Sequence[str]) -> str:
    if (kind := _kind(request)) not in kinds:
        raise UnsupportedMediaType("Content-Type", request.headers.get("content-type", ""), kinds)
    return kind


def _not_gzip(why: str) -> InvalidRequest:
    remedy = "compress it with gzip, or send it without Content-Encoding"
    return invalid("", "not-gzip", f"the body is not a gzip file: {why}", remedy)


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _problem(detail: ErrorDetails, raw: bytes, model: type[BaseModel]) -> FieldError:
    if detail["type"] == "json_invalid":
        message = f"the body is not JSON: {detail['ctx']['error']}"
        return FieldError(pointer="", code="not-json", message=message, remedy="send one JSON object")
    known = tuple(field.alias or name for name, field in model.model_fields.items()) if len(detail["loc"]) == 1 else ()
    code, message, remedy = describe_error(detail, known)
    return FieldError(
        pointer=pointer(*_place(detail["loc"], from_json(raw))), code=code, message=message, remedy=remedy
    )


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
