"""One request: its record, and how it is made of a path, a query and a body. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from braid_client.answers.base import Page

_CONNECT_PATIENCE = 5.0
_PAGE_SIZE = 100
Document = Mapping[str, Any] | bytes
"""A document: as data, or as the bytes of a JSON file."""
A = TypeVar("A", bound=BaseModel)
P = TypeVar("P", bound=BaseModel)
IDEMPOTENCY_HEADER = "Idempotency-Key"
Method = Literal["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Generic[A]):
    """A request; sent by a client."""

    method: Method
    path: str
    answer: type[A]
    """The type of its answer."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    patience: float = 30.0
    """The seconds that the service may take until it answers."""

    @property
    def timeout(self) -> httpx.Timeout:
        """The time limits of sending it."""
        return httpx.Timeout(self.patience, connect=_CONNECT_PATIENCE)

    @property
    def idempotent(self) -> bool:
        """Sending it twice does no more than sending it once."""
        return self.method == "GET" or IDEMPOTENCY_HEADER in self.headers or "producer" in self.query


def following(request: Request[Page[P]], cursor: str) -> Request[Page[P]]:
    """The request for the page that begins at a cursor."""
    return replace(request, query={**request.query, "after": cursor})


def path_to(*parts: str) -> str:
    """The path to a resource, each part escaped. In the name of a dataflow the service takes a colon for a slash.

    >>> path_to("machines", "north/1"), path_to("dataflows", "ann/hot and cold")
    ('/v1/machines/north%2F1', '/v1/dataflows/ann%3Ahot%20and%20cold')
    """
    written = (part.replace("/", ":") for part in parts) if parts[0] == "dataflows" else parts
    return "/v1/" + "/".join(quote(part, safe="") for part in written)


def request(
    method: Method,
    answer: type[A],
    *path: str | int,
    body: BaseModel | Document | None = None,
    headers: Mapping[str, str] | None = None,
    **query: str | int | datetime | None,
) -> Request[A]:
    """A request; of the query what is None is left out, and of a form what is left to the service's defaults."""
    return Request(
        method=method,
        path=path_to(*map(str, path)),
        answer=answer,
        query=_query(query),
        headers=headers or {},
        body=None if body is None else body_of(body),
    )


def get(answer: type[A], *path: str | int, **query: str | int | datetime | None) -> Request[A]:
    """A request that changes nothing."""
    return Request(method="GET", path=path_to(*map(str, path)), answer=answer, query=_query(query))


def page_of(answer: type[Page[P]], *path: str | int, **query: str | int | datetime | None) -> Request[Page[P]]:
    """A request for the first page of a list."""
    return get(answer, *path, **query, limit=_PAGE_SIZE)


def _query(query: Mapping[str, str | int | datetime | None]) -> dict[str, str]:
    return {name: _text(value) for name, value in query.items() if value is not None}


def _text(value: str | int | datetime) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime) else str(value)


def body_of(content: BaseModel | Document) -> bytes:
    """The body of a request; bytes are sent as they are."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, BaseModel):
        return content.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return json.dumps(content, ensure_ascii=False).encode()
