"""Problem+json for all troubles, and the middleware that counts and logs requests and hides the details of failures.

Everything that is logged for a request carries its id. A caller may choose the id, so that both logs match.
"""

import logging
import math
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic_core import ErrorDetails
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from braid_client.answers.base import FieldProblem, ProblemAnswer
from bridge.traces import OpenSpan, is_tracing, span
from dags.json_text import describe_error
from dags.problems import pointer
from engine.log_lines import about, log_context, named, note
from manager.problem import (
    Changed,
    FieldError,
    Forbidden,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    Trouble,
    Unauthenticated,
    Unexpected,
)
from manager.rest.metrics import RequestCounts
from manager.store.requester import requested_from, requester

PROBLEM_MEDIA_TYPE = "application/problem+json"
ONLY_LOOKS = "x-only-looks"
"""The mark of a route that changes nothing, though its method is none that reads."""
REPLAYED_HEADER = "Idempotency-Replayed"
"""The header of an answer that is one to an earlier request with the same idempotency key, which the log notes, too."""


def problem(trouble: Trouble, path: str) -> ProblemAnswer:
    """The body that describes a trouble with what was asked for at a path."""
    return ProblemAnswer(
        type=f"/problems/{trouble.code}",
        title=trouble.title,
        status=trouble.status,
        detail=trouble.detail,
        instance=quote(path),
        errors=tuple(FieldProblem.model_validate(error, from_attributes=True) for error in trouble.errors),
    )


def etag(tag: str) -> str:
    """A tag as headers have it."""
    return f'"{tag}"'


def answer(trouble: Trouble, path: str) -> Response:
    """The response to a trouble with what was asked for at a path."""
    headers: dict[str, str] = {}
    if trouble.retry_after is not None:
        # The header has whole seconds, rounded up: an earlier attempt would be in vain.
        headers["Retry-After"] = str(max(1, math.ceil(trouble.retry_after)))
    if isinstance(trouble, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="braid"'
    if isinstance(trouble, Changed):
        headers["ETag"] = etag(trouble.tag)
    if isinstance(trouble, MethodNotAllowed):
        headers["Allow"] = ", ".join(trouble.allowed)
    # A message may quote half a surrogate pair, which cannot be encoded.
    content = problem(trouble, path).model_dump(mode="python")
    return JSONResponse(_encodable(content), status_code=trouble.status, headers=headers, media_type=PROBLEM_MEDIA_TYPE)


def answer_troubles(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Make an app answer every refusal as a problem; the routers tell which methods there are."""
    every = tuple(routers)

    async def refuse(request: Request, error: Exception) -> Response:
        asked = requester()
        if isinstance(error, Forbidden) and asked.caller and request.app.state.rates.notes_refusal(asked.caller):
            note_refusal = request.app.state.service.audit.note_refusal
            path = request.scope["path"]
            await run_in_threadpool(note_refusal, asked, path, f"{request.method}: {error.detail}")
        return answer(_trouble(error, request, every), request.scope["path"])

    for kind in (Trouble, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, refuse)


def _trouble(error: Exception, request: Request, routers: Iterable[APIRouter]) -> Trouble:
    match error:
        case Trouble():
            return error
        case RequestValidationError():
            return InvalidRequest(map(_field_error, error.errors()))
        case HTTPException(status_code=405) if allowed := set(_methods(routers, request)):
            return MethodNotAllowed(request.method, allowed)
        case HTTPException(status_code=404):
            return NotFound("path", request.url.path)
        case HTTPException():
            message, remedy = str(error.detail), "send it as the API describes"
            return InvalidRequest([FieldError(pointer="", code="not-http", message=message, remedy=remedy)])
    raise error


def _methods(routers: Iterable[APIRouter], request: Request) -> Iterator[str]:
    """The methods of all routes at a path. Starlette names only those of the first match.

    Where a route has the path in full, those with a parameter in place of a word of it do not count.
    """
    matching = [
        route
        for router in routers
        for route in router.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
    ]
    written = [route for route in matching if route.path_format == request.scope["path"]]
    for route in written or matching:
        yield from route.methods or ()


def _field_error(detail: ErrorDetails) -> FieldError:
    code, message, remedy = describe_error(detail, ())
    return FieldError(pointer=pointer(*detail["loc"]), code=code, message=message, remedy=remedy)


def _encodable(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case dict():
            return {key: _encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
        case _:
            return value


_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""An id that a caller may choose: it is returned in a header, and logged."""
_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
"""An id of a dataflow or a job that is safe to log; a request may name anything."""
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing; browsers and monitoring send them all the time."""
_FAILED = 500
_log = logging.getLogger(__name__)


class RequestLog:
    """The middleware that gives each request an id, counts and logs it, and hides the details of its failure."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, parent = _id(scope), _header(scope, b"traceparent").decode("latin-1")
        # Else the looks of open pages would be most of what is traced.
        is_traced = is_tracing() and (parent or scope["method"] not in _LOOKS)
        seen = {"http.request.method": scope["method"], "braid.request": request}
        with (
            about(request=request),
            requested_from(scope["client"][0] if scope.get("client") else ""),
            span(scope["method"], seen, parent=parent, kind="server")
            if is_traced
            else nullcontext(OpenSpan()) as traced,
        ):
            await self._serve(request, scope, receive, send, traced)

    async def _serve(self, request: str, scope: Scope, receive: Receive, send: Send, traced: OpenSpan) -> None:
        came, begun = time.monotonic(), False

        async def mark_and_send(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._report(scope, message["status"], time.monotonic() - came, traced)
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request
                # Answers are for one caller alone, and may hold secrets; the console's files override this.
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Content-Type-Options"] = "nosniff"
                if log_context().get("repeated"):
                    headers[REPLAYED_HEADER] = "true"
            await send(message)

        try:
            await self._app(scope, receive, mark_and_send)
        except ClientDisconnect:
            _log.debug("request %s: the client went away", request)
        except Exception:
            # Without query and headers, which may hold secrets.
            _log.exception("request %s: %s %r failed", request, scope["method"], scope["path"])
            if begun:
                raise
            await answer(Unexpected(request), scope["path"])(scope, receive, mark_and_send)

    def _report(self, scope: Scope, status: int, seconds: float, traced: OpenSpan) -> None:
        """Count and log an answer when it begins."""
        method, route = scope["method"], getattr(scope.get("route"), "path_format", None)
        self._counts.count(method, route, status, seconds)
        traced.note(
            {"http.response.status_code": status, "http.route": route or ""},
            name=f"{method} {route}" if route else None,
            error=str(status) if status >= _FAILED else "",
        )
        for kind, parameter in (("dataflow", "/v1/dataflows/{id}"), ("job", "/v1/jobs/{job}")):
            if route is not None and route.startswith(parameter):
                name = scope["path_params"][parameter.rpartition("{")[2].rstrip("}")]
                note(**({kind: name} if _NAME.fullmatch(name) else {}))
        fields = named("request", method=method, route=route, status=status, seconds=round(seconds, 6))
        # Not the path: it may be anything if there is no route.
        level = logging.DEBUG if method in _LOOKS and status < _FAILED else logging.INFO
        _log.log(level, "%s %s is answered with %d after %.3f s", method, route, status, seconds, extra=fields)


def _id(scope: Scope) -> str:
    """The id that the caller chose, else a new one."""
    given = _header(scope, b"x-request-id")
    return given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)


def _header(scope: Scope, name: bytes) -> bytes:
    return next((value for given, value in scope["headers"] if given == name), b"")
