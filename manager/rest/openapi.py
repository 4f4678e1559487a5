"""The OpenAPI description of routes: answers with examples, possible problems, and bodies."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from braid_client.answers.base import ProblemAnswer
from manager.problem import (
    DatabaseAway,
    ForeignPage,
    InvalidRequest,
    TooLarge,
    TooManyRequests,
    Trouble,
    Unauthenticated,
    Unexpected,
    UnsupportedMediaType,
)
from manager.rest.examples import TROUBLE_EXAMPLES, example_of
from manager.rest.problems import PROBLEM_MEDIA_TYPE, problem

_bodies: dict[str, type[BaseModel]] = {}
"""The forms with which routes were declared, whose schemas FastAPI does not know; by name."""
_COMPONENTS = "#/components/schemas/"
_TEXT = {"schema": {"type": "string"}}
_SECONDS = {"schema": {"type": "integer", "minimum": 1}}
REQUEST_ID = {"X-Request-Id": {"description": "The id of the request in the service's log.", **_TEXT}}


OF_EVERY_CALLER = (Unauthenticated, TooManyRequests, InvalidRequest, Unexpected, DatabaseAway)
"""What every request may be answered whose key is looked up in the database."""


def documented(
    *troubles: type[Trouble],
    body: type[BaseModel] | None = None,
    status: int = 200,
    leads_to: Mapping[str, Iterable[str]] = {},
    later: type[BaseModel] | None = None,
    media: Mapping[str, str] = {},
) -> dict[str, Any]:
    """The documentation of a route of `/v1`, to declare it with: its answer, its problems, and its body.

    `later` is an answer with the status 202, where what was asked for waits. `leads_to` lists for each field of the
    answer the operations that have a parameter of the same name. `media` has an example of each form that the answer
    may have besides JSON.
    """
    well: dict[str, Any] = {"headers": REQUEST_ID}
    if leads_to:
        well["links"] = _links(leads_to)
    if media:
        well["content"] = {kind: _TEXT | {"example": text} for kind, text in media.items()}
    answers: dict[int | str, dict[str, Any]] = {status: well}
    if later is not None:
        waits = "It waits for others, and begins by itself"
        answers[202] = {"description": waits, "model": later, "headers": REQUEST_ID}
    answers |= problems(*OF_EVERY_CALLER, *troubles, *(() if body is None else (TooLarge, UnsupportedMediaType)))
    described: dict[str, Any] = {"status_code": status, "responses": answers}
    if body is not None:
        _bodies[body.__name__] = body
        content = {"schema": {"$ref": f"{_COMPONENTS}{body.__name__}-Input"}}
        described["openapi_extra"] = {"requestBody": {"required": True, "content": {"application/json": content}}}
    return described


def streamed(media_type: str, what: str, example: str, *troubles: type[Trouble]) -> dict[str, Any]:
    """The documentation of a route that answers with a stream."""
    answer = {"description": what, "content": {media_type: _TEXT | {"example": example}}}
    return {
        "response_class": StreamingResponse,
        "responses": {200: answer, **problems(*OF_EVERY_CALLER, *troubles)},
    }


def problems(*troubles: type[Trouble]) -> dict[int | str, dict[str, Any]]:
    """Document the problems that a route may answer with, by status."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for trouble in sorted(troubles, key=lambda trouble: (trouble.status, trouble.code)):
        said = by_status.setdefault(
            trouble.status,
            {
                "description": trouble.title,
                "headers": _headers(trouble),
                "content": {
                    PROBLEM_MEDIA_TYPE: {"schema": {"$ref": f"{_COMPONENTS}{ProblemAnswer.__name__}"}, "examples": {}}
                },
            },
        )
        if trouble.title not in said["description"]:
            said["description"] += f", or: {trouble.title}"
        example = problem(TROUBLE_EXAMPLES[trouble]).model_dump(mode="json")
        said["content"][PROBLEM_MEDIA_TYPE]["examples"][trouble.code] = {"summary": trouble.title, "value": example}
    return by_status


def describe(app: FastAPI) -> None:
    """Add the schemas of bodies to the description of an app, since FastAPI does not parse bodies itself."""
    generate = app.openapi
    app.openapi = cache(lambda: _completed(generate()))  # type: ignore[method-assign]  # as FastAPI documents it


def parameters(app: FastAPI) -> dict[tuple[str, str], frozenset[str]]:
    """The query parameters of each route, by method and path."""
    return {
        (method.upper(), path): frozenset(
            parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"
        )
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
    }


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    _, problem_schemas = models_json_schema([(ProblemAnswer, "serialization")], ref_template=_COMPONENTS + "{model}")
    components.update(problem_schemas["$defs"])
    _, bodies = models_json_schema(
        [(model, "validation") for model in _bodies.values()], ref_template=_COMPONENTS + "{model}-Input"
    )
    for name, body in bodies["$defs"].items():
        components[f"{name}-Input"] = _without_uniqueness(body)
    for operations in schema["paths"].values():
        for method, operation in operations.items():
            _add_examples(operation)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
            if method != "get" and operation.get("security"):
                _add_foreign_page(operation["responses"])
    return schema


def _add_examples(operation: dict[str, Any]) -> None:
    """Add an example to the body of the request, and to each answer, if it is JSON with one."""
    for status, said in {"": operation.get("requestBody", {}), **operation["responses"]}.items():
        content = said.get("content", {}).get("application/json", {})
        schema = content.get("schema", {}).get("$ref", "").removeprefix(_COMPONENTS).removesuffix("-Input")
        if (example := example_of(schema, operation["operationId"], status)) is not None:
            content["example"] = example


def _add_foreign_page(responses: dict[str, Any]) -> None:
    """Document that a cookie changes something only if the console sent it."""
    (said,) = problems(ForeignPage).values()
    there = responses.setdefault(str(ForeignPage.status), said)
    if there is not said:
        there["description"] += f", or: {ForeignPage.title}"
        there["content"][PROBLEM_MEDIA_TYPE]["examples"] |= said["content"][PROBLEM_MEDIA_TYPE]["examples"]


def _without_uniqueness(schema: Any) -> Any:
    """Drop `uniqueItems`: sets may be sent with repeated items."""
    if isinstance(schema, dict):
        return {key: _without_uniqueness(value) for key, value in schema.items() if key != "uniqueItems"}
    return [_without_uniqueness(item) for item in schema] if isinstance(schema, list) else schema


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop null from the schema of an optional parameter: in a query `null` is just a word."""
    either = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return rest | either[0] if len(either) == 1 else schema


def _links(leads_to: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    return {
        operation: {"operationId": operation, "parameters": {field: f"$response.body#/{field}"}}
        for field, operations in leads_to.items()
        for operation in operations
    }


def _headers(trouble: type[Trouble]) -> dict[str, Any]:
    headers: dict[str, Any] = dict(REQUEST_ID)
    if trouble is Unauthenticated:
        headers["WWW-Authenticate"] = {"description": "How to authenticate.", **_TEXT}
    if TROUBLE_EXAMPLES[trouble].retry_after is not None:
        headers["Retry-After"] = {"description": "Seconds to wait before the next attempt.", **_SECONDS}
    return headers
