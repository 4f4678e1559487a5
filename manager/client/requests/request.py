"""The request record, and the parts that requests are made of: paths, queries, bodies."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel

from manager.answers import Page

Document = Mapping[str, Any] | bytes
"""A document: as data, or as the bytes of a JSON file."""
A = TypeVar("A", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)
IDEMPOTENCY_HEADER = "Idempotency-Key"
_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[A]):
    """A request; made by the modules beside this one, sent by a client."""

    method: Literal["GET", "POST", "PUT", "DELETE"] = "GET"
    path: str
    answer: type[A]
    """The type of its answer."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None

    @property
    def idempotent(self) -> bool:
        """Sending it twice does no more than sending it once."""
        return self.method == "GET" or IDEMPOTENCY_HEADER in self.headers or "producer" in self.query


def list_request(path: str, answer: type[Page[P]], query: Mapping[str, str] | None = None) -> Request[Page[P]]:
    """The request for the first page of a list."""
    return Request(path=path, answer=answer, query={**(query or {}), "limit": str(_PAGE_SIZE)})


def following(request: Request[Page[P]], cursor: str) -> Request[Page[P]]:
    """The request for the page that begins at a cursor."""
    return replace(request, query={**request.query, "after": cursor})


def path_to(*parts: str) -> str:
    """The path to a resource, each part escaped.

    >>> path_to("sources", "a/b")
    '/v1/sources/a%2Fb'
    """
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def given(**query: str | None) -> dict[str, str]:
    """The parameters of a query that are not None."""
    return {name: value for name, value in query.items() if value is not None}


def document_body(document: Document) -> bytes:
    """The body that carries a document; bytes are sent as they are."""
    return document if isinstance(document, bytes) else json.dumps(document, ensure_ascii=False).encode()


def form_body(form: BaseModel | bytes) -> bytes:
    """The body that carries a form, without the fields that are left to the service's defaults."""
    return form if isinstance(form, bytes) else form.model_dump_json(by_alias=True, exclude_unset=True).encode()
