"""Dependencies of routes: the service, the caller, paging, and names that are safe to pass on."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

from fastapi import Depends, Header, Path, Query, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer
from pydantic import StringConstraints

from dags.problems import listed, pointer, quoted, suggestion
from manager.answers import TenantName
from manager.cases.base import Caller, Paging
from manager.problem import DatabaseAway, FieldError, InvalidRequest, Unauthenticated
from manager.rest.request_rates import RequestRates
from manager.rest.session_cookie import COOKIE, refuse_foreign_change, token_in
from manager.service import Service

MOST_ITEMS = 500
"""Most items of a page."""

# No control characters: PostgreSQL refuses NUL in any text.
Text = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Cursor = Annotated[str, StringConstraints(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Key = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")]

_bearer = HTTPBearer(scheme_name="API key", description="An API key, `braid_<id>_<secret>`.", auto_error=False)
_session = APIKeyCookie(
    name=COOKIE,
    scheme_name="Session",
    description="The console's cookie; over TLS its name begins with `__Host-`. Requests that change something also "
    "need the header `X-Braid-Console: 1`.",
    auto_error=False,
)


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]


async def _caller_lookup(
    request: Request,
    service: TheService,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    _cookie: Annotated[str | None, Depends(_session)],
) -> Callable[[], Caller]:
    """Return the lookup of the caller: by the key that was sent, else by the session of the cookie."""
    if credentials is not None:
        return partial(service.administration.caller, credentials.credentials)
    if (token := token_in(request)) is None:
        raise Unauthenticated
    refuse_foreign_change(request)
    return partial(service.sessions.caller, token)


_CallerLookup = Annotated[Callable[[], Caller], Depends(_caller_lookup)]


# Not async: looking up a key blocks.
def _caller(request: Request, look_up: _CallerLookup) -> Caller:
    return let_in(request, look_up)


def let_in(request: Request, look_up: Callable[[], Caller]) -> Caller:
    """The caller, whose request is counted; `TooManyRequests` where it, or wrong keys of its address, come too fast."""
    rates: RequestRates = request.app.state.rates
    try:
        caller = look_up()
    except Unauthenticated:
        if request.client is not None:
            rates.count_wrong_key(request.client.host)
        raise
    if caller.tenant is not None and caller.requests_per_minute is not None:
        rates.take(caller.tenant, caller.requests_per_minute)
    return caller


async def _still_let_in(look_up: _CallerLookup) -> Callable[[], bool]:
    def is_let_in() -> bool:
        try:
            look_up()
        except Unauthenticated:
            return False
        except DatabaseAway:
            # Nobody knows until the database is back.
            return True
        return True

    return is_let_in


StillLetIn = Annotated[Callable[[], bool], Depends(_still_let_in)]
"""True while the caller's key or session is valid, which a stream may outlast. It blocks."""


async def only_known_parameters(request: Request) -> None:
    """Refuse unknown parameters of the query: a misspelt filter would list everything."""
    known: Mapping[tuple[str, str], frozenset[str]] = request.app.state.parameters
    names = known.get((request.method, request.scope["route"].path_format), frozenset())
    if unknown := [name for name in dict.fromkeys(request.query_params) if name not in names]:
        otherwise = f"leave it out; known are {listed(sorted(names))}"
        raise InvalidRequest(
            FieldError(
                pointer=pointer("query", name),
                code="unknown-parameter",
                message=f"unknown parameter {quoted(name)}",
                remedy=suggestion(name, names, otherwise),
            )
            for name in unknown
        )


TheCaller = Annotated[Caller, Depends(_caller)]


async def _paging(
    after: Annotated[_Cursor | None, Query(description="The `next` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items of the page.")] = 100,
) -> Paging:
    return Paging(after=after, limit=limit)


ThePage = Annotated[Paging, Depends(_paging)]
Named = Annotated[Text, Path(description="Its name, as lists show it.")]
TheId = Annotated[Text, Path(description="Its id, as lists show it.")]
TheNumber = Annotated[Text, Path(description="Its number, as lists show it.")]
NamedTenant = Annotated[TenantName, Path(description="The tenant.")]
ForTenant = Annotated[TenantName | None, Query(description="The tenant to act for. Only operators need it.")]
IdempotencyKey = Annotated[
    _Key | None,
    Header(
        alias="Idempotency-Key",
        description="Any text of your choice. Sending the same again with the same key does it only once.",
    ),
]
