"""Problem+json: the responses to troubles, also to those that FastAPI finds."""

import math
from collections.abc import Iterable, Iterator

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.routing import Match

from dags.problems import pointer
from dags.pydantic_errors import describe_error
from manager.answers import FieldProblem, ProblemAnswer
from manager.problem import FieldError, InvalidRequest, MethodNotAllowed, NotFound, Trouble, Unauthenticated

PROBLEM_MEDIA_TYPE = "application/problem+json"
_NOT_FOUND = 404
_METHOD_NOT_ALLOWED = 405


def problem(trouble: Trouble) -> ProblemAnswer:
    """The body that describes a trouble."""
    return ProblemAnswer(
        type=f"/problems/{trouble.code}",
        title=trouble.title,
        status=trouble.status,
        detail=trouble.detail,
        errors=tuple(
            FieldProblem(pointer=error.pointer, code=error.code, message=error.message, remedy=error.remedy)
            for error in trouble.errors
        ),
    )


def answer(trouble: Trouble) -> Response:
    """The response to a trouble."""
    headers: dict[str, str] = {}
    if trouble.retry_after is not None:
        # The header has whole seconds, rounded up: an earlier attempt would be in vain.
        headers["Retry-After"] = str(max(1, math.ceil(trouble.retry_after)))
    if isinstance(trouble, Unauthenticated):
        headers["WWW-Authenticate"] = 'Bearer realm="braid"'
    if isinstance(trouble, MethodNotAllowed):
        headers["Allow"] = ", ".join(trouble.allowed)
    # A message may quote half a surrogate pair, which cannot be encoded.
    content = problem(trouble).model_dump(mode="python")
    return JSONResponse(_encodable(content), status_code=trouble.status, headers=headers, media_type=PROBLEM_MEDIA_TYPE)


def answer_troubles(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Make an app answer every refusal as a problem; the routers tell which methods there are."""
    every = tuple(routers)

    async def trouble(_request: Request, error: Exception) -> Response:
        if not isinstance(error, Trouble):
            raise error
        return answer(error)

    async def invalid(_request: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            raise error
        return answer(InvalidRequest(_field_error(found) for found in error.errors()))

    async def refused(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        allowed = set(_methods(every, request))
        if error.status_code == _METHOD_NOT_ALLOWED and allowed:
            return answer(MethodNotAllowed(request.method, allowed))
        if error.status_code == _NOT_FOUND:
            return answer(NotFound("path", request.url.path))
        whole = FieldError(
            pointer="", code="not-http", message=str(error.detail), remedy="send it as the API describes"
        )
        return answer(InvalidRequest([whole]))

    app.add_exception_handler(Trouble, trouble)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)


def _methods(routers: Iterable[APIRouter], request: Request) -> Iterator[str]:
    """The methods of all routes at a path. Starlette names only those of the first match."""
    for router in routers:
        for route in router.routes:
            if route.matches(request.scope)[0] is not Match.NONE:
                yield from getattr(route, "methods", None) or ()


def _field_error(found: ErrorDetails) -> FieldError:
    code, message, remedy = describe_error(found, ())
    return FieldError(pointer=pointer(*found["loc"]), code=code, message=message, remedy=remedy)


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
