"""The OpenAPI description of routes: answers with examples, possible problems, and bodies."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import count
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from braid_client.answers.base import ProblemAnswer
from braid_client.request import IDEMPOTENCY_HEADER
from dags import Document
from manager.problem import (
    Changed,
    DatabaseAway,
    Forbidden,
    ForeignPage,
    InvalidRequest,
    ProviderAway,
    TooLarge,
    TooManyRequests,
    Trouble,
    Unauthenticated,
    Unexpected,
    UnsupportedMediaType,
)
from manager.rest.examples import TROUBLE_EXAMPLES, example_of
from manager.rest.problems import ONLY_LOOKS, PROBLEM_MEDIA_TYPE, REPLAYED_HEADER, problem

_bodies: dict[str, type[BaseModel]] = {}
"""The forms with which routes were declared, whose schemas FastAPI does not know; by name."""
_COMPONENTS = "#/components/schemas/"
_TEXT = {"schema": {"type": "string"}}
_SECONDS = {"schema": {"type": "integer", "minimum": 1}}
_HEADERS = {
    "X-Request-Id": {"description": "The id of the request in the service's log.", **_TEXT},
    "ETag": {"description": "The tag of the dataflow's document, for `If-Match`.", **_TEXT},
    "WWW-Authenticate": {"description": "How to authenticate.", **_TEXT},
    REPLAYED_HEADER: {
        "description": "`true` if the same was done before with the same `Idempotency-Key`, and is not done again.",
        **_TEXT,
    },
    "Retry-After": {"description": "Seconds to wait before the next attempt.", **_SECONDS},
}
"""The headers of answers, by name; answers refer to them."""
_EXAMPLE_PATH = "/v1/dataflows/d-5f0c9a1e77b2"
"""What problems are examples of."""


def headers(*names: str) -> dict[str, Any]:
    """The documentation of headers of an answer, by their names."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


REQUEST_ID = headers("X-Request-Id")

_OF_EVERYBODY = (Unauthenticated, TooManyRequests, InvalidRequest, Unexpected, DatabaseAway)
"""What every request may be answered for which something is looked up in the database."""
OF_EVERY_CALLER = (*_OF_EVERYBODY, Forbidden, ProviderAway)
"""What every request may be answered whose caller is looked up, by a key or a token."""


def documented(  # noqa: PLR0913 - each is a part of what callers read
    *troubles: type[Trouble],
    body: type[BaseModel] | None = None,
    status: int = 200,
    leads_to: Mapping[str, Iterable[str]] = {},
    later: type[BaseModel] | None = None,
    media: Mapping[str, str] = {},
    only_looks: bool = False,
    tagged: bool = False,
    by_token: bool = True,
) -> dict[str, Any]:
    """The documentation of a route of `/v1`, to declare it with: its answer, its problems, and its body.

    `later` is an answer with the status 202, where what was asked for waits. `leads_to` lists for each field of the
    answer the operations that have a parameter of the same name. `media` has an example of each form that the answer
    may have besides JSON. Callers who may change nothing may ask what `only_looks`, whatever its method. The answer
    is `tagged` if it has the tag of a document. No caller is looked up where it is not `by_token` that one is known.
    """
    well: dict[str, Any] = {"description": "OK", "headers": headers("X-Request-Id", *(["ETag"] if tagged else []))}
    if leads_to:
        well["links"] = _links(leads_to)
    if media:
        well["content"] = {kind: _TEXT | {"example": text} for kind, text in media.items()}
    answers: dict[int | str, dict[str, Any]] = {status: well}
    if later is not None:
        waits = "It waits for others, and begins by itself"
        answers[202] = {"description": waits, "model": later, "headers": REQUEST_ID}
    of_all = OF_EVERY_CALLER if by_token else _OF_EVERYBODY
    answers |= problems(*of_all, *troubles, *(() if body is None else (TooLarge, UnsupportedMediaType)))
    described: dict[str, Any] = {"status_code": status, "responses": answers}
    if body is not None:
        _bodies[body.__name__] = body
        content = {"schema": {"$ref": f"{_COMPONENTS}{body.__name__}-Input"}}
        described["openapi_extra"] = {"requestBody": {"required": True, "content": {"application/json": content}}}
    if only_looks:
        described.setdefault("openapi_extra", {})[ONLY_LOOKS] = True
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
        said["content"][PROBLEM_MEDIA_TYPE]["examples"][trouble.code] = {
            "$ref": f"#/components/examples/{trouble.code}"
        }
    return by_status


def describe(app: FastAPI) -> None:
    """Add the schemas of bodies to the description of an app, since FastAPI does not parse bodies itself."""
    generate = app.openapi
    app.openapi = cache(lambda: _completed(generate()))  # type: ignore[method-assign]  # as FastAPI documents it


def parameters(app: FastAPI) -> dict[tuple[str, str], frozenset[str]]:
    """The query parameters of each route, by method and path."""
    schema = app.openapi()
    return {
        (method.upper(), path): frozenset(
            parameter["name"]
            for parameter in (resolved(schema, reference) for reference in operation.get("parameters", ()))
            if parameter["in"] == "query"
        )
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
    }


def resolved(schema: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part of a description, or what it refers to if it is a reference."""
    if "$ref" not in part:
        return part
    _, _, kind, name = part["$ref"].split("/")
    referred: Mapping[str, Any] = schema["components"][kind][name]
    return referred


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    _, problem_schemas = models_json_schema([(ProblemAnswer, "serialization")], ref_template=_COMPONENTS + "{model}")
    schemas.update(problem_schemas["$defs"])
    _, bodies = models_json_schema(
        [(model, "validation") for model in _bodies.values()], ref_template=_COMPONENTS + "{model}-Input"
    )
    for name, body in bodies["$defs"].items():
        schemas[f"{name}-Input"] = _with_documents(_without(body, "uniqueItems"))
    for part in list(schemas.values()):
        _complete(part, schemas)
    # Pydantic makes titles of names, which say nothing more.
    components["schemas"] = _without(schemas, "title")
    components["headers"] = _HEADERS
    components["examples"] = {
        trouble.code: {"summary": trouble.title, "value": problem(example, _EXAMPLE_PATH).model_dump(mode="json")}
        for trouble, example in TROUBLE_EXAMPLES.items()
    }
    schema["security"] = [{name: []} for name in components["securitySchemes"]]
    for method, operation in _operations(schema):
        operation["summary"], described = _first_sentence(operation.pop("description", operation["summary"]))
        if described:
            operation["description"] = described
        _add_examples(operation)
        if any(parameter["name"] == IDEMPOTENCY_HEADER for parameter in operation.get("parameters", ())):
            _add_replay(operation["responses"])
        for parameter in operation.get("parameters", ()):
            parameter["schema"] = _without(_without_null(parameter["schema"]), "title")
        operation.pop(ONLY_LOOKS, None)
        if method != "get" and operation.get("security"):
            _add_foreign_page(operation["responses"])
        # Said once for all that take a key or a session.
        if (ways := operation.pop("security", [])) != schema["security"]:
            operation["security"] = ways
        _share(operation, components)
    return schema


def _operations(schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All operations, each with its method."""
    for operations in schema["paths"].values():
        yield from operations.items()


def _first_sentence(text: str) -> tuple[str, str]:
    r"""A description as its first sentence, without the stop, and the rest.

    >>> _first_sentence("Show it.\n\nIt lasts."), _first_sentence("Show v1.2")
    (('Show it', 'It lasts.'), ('Show v1.2', ''))
    """
    first, _, rest = f"{text}\n".replace(".\n", ". ", 1).partition(". ")
    return " ".join(first.split()), rest.strip()


def _share(operation: dict[str, Any], components: dict[str, Any]) -> None:
    """Have an operation refer to its problems and parameters, which stand once for all that have the same."""
    for status, said in operation["responses"].items():
        if codes := said.get("content", {}).get(PROBLEM_MEDIA_TYPE, {}).get("examples"):
            operation["responses"][status] = _reference(components, "responses", ".".join(codes), said)
    if parameters := operation.get("parameters"):
        operation["parameters"] = [
            _reference(components, "parameters", parameter["name"], parameter) for parameter in parameters
        ]


def _reference(components: dict[str, Any], kind: str, name: str, part: dict[str, Any]) -> dict[str, Any]:
    """The reference to a part among the components, where it is put if none is the same."""
    there: dict[str, Any] = components.setdefault(kind, {})
    names = (name if number == 1 else f"{name}.{number}" for number in count(1))
    name = next(free for free in names if there.setdefault(free, part) == part)
    return {"$ref": f"#/components/{kind}/{name}"}


def _add_examples(operation: dict[str, Any]) -> None:
    """Add an example to the body of the request, and to each answer, if it is JSON with one."""
    for status, said in {"": operation.get("requestBody", {}), **operation["responses"]}.items():
        content = said.get("content", {}).get("application/json", {})
        schema = content.get("schema", {}).get("$ref", "").removeprefix(_COMPONENTS).removesuffix("-Input")
        if (example := example_of(schema, operation["operationId"], status)) is not None:
            content["example"] = example


def _add_replay(responses: dict[str, Any]) -> None:
    """Document that an answer may be one to an earlier request."""
    for status, said in responses.items():
        if status.startswith("2"):
            said["headers"] = said["headers"] | headers(REPLAYED_HEADER)


def _add_foreign_page(responses: dict[str, Any]) -> None:
    """Document that a cookie changes something only if the console sent it."""
    (said,) = problems(ForeignPage).values()
    there = responses.setdefault(str(ForeignPage.status), said)
    if there is not said:
        there["description"] += f", or: {ForeignPage.title}"
        there["content"][PROBLEM_MEDIA_TYPE]["examples"] |= said["content"][PROBLEM_MEDIA_TYPE]["examples"]


def _without(schema: Any, name: str) -> Any:
    """Drop a keyword whose value is plain; a property of that name has a schema, and stays."""
    if isinstance(schema, dict):
        kept = ((key, value) for key, value in schema.items() if key != name or isinstance(value, dict))
        return {key: _without(value, name) for key, value in kept}
    return [_without(item, name) for item in schema] if isinstance(schema, list) else schema


def _complete(schema: Any, schemas: dict[str, Any]) -> None:
    """Say what forms leave out: their kind is required, though each has a default for it, and keys match a pattern."""
    if isinstance(schema, dict):
        kind = schema.get("discriminator", {})
        for reference in kind.get("mapping", {}).values():
            form = schemas[reference.removeprefix(_COMPONENTS)]
            form["required"] = list(dict.fromkeys([*form.get("required", ()), kind["propertyName"]]))
        if isinstance(schema.get("patternProperties"), dict):
            schema.setdefault("additionalProperties", False)
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _complete(part, schemas)


def _with_documents(schema: Any) -> Any:
    """Have documents within forms refer to the schema of documents."""
    if isinstance(schema, dict):
        if schema.get("format") == "document":
            return {"$ref": f"{_COMPONENTS}{Document.__name__}-Input"}
        return {key: _with_documents(value) for key, value in schema.items()}
    return [_with_documents(item) for item in schema] if isinstance(schema, list) else schema


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
    more = ["ETag"] if trouble is Changed else []
    more += ["WWW-Authenticate"] if trouble is Unauthenticated else []
    more += ["Retry-After"] if TROUBLE_EXAMPLES[trouble].retry_after is not None else []
    return headers("X-Request-Id", *more)
