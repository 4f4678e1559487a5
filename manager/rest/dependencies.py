"""Dependencies of routes: the service, the caller and its rate, paging, tags, and turns; `bodies` has those of bodies.

Rates: each tenant, and each address that sends keys that let nobody in, has an allowance that refills steadily and
holds a minute's worth. Nobody uses up another's, and a right key is taken from any address.

Turns: a large document takes up to seconds of CPU. So a tenant has one thread at work, however many documents it sends,
and others have theirs. What waits for its turn has no thread yet.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer
from pydantic import StringConstraints, WithJsonSchema

from braid_client.answers.base import TenantName
from braid_client.answers.tenants import Role
from braid_client.request import IDEMPOTENCY_HEADER
from dags.problems import listed, pointer, quoted, suggestion
from manager.documents.revisions import Tags
from manager.problem import (
    DatabaseAway,
    FieldError,
    Forbidden,
    ForeignPage,
    InvalidRequest,
    ProviderAway,
    TooManyRequests,
    Unauthenticated,
)
from manager.rest.problems import ONLY_LOOKS
from manager.service import Service
from manager.use_case import Caller, Paging

T = TypeVar("T")
COOKIE = "braid-session"
SESSION_LIFE = 8 * 60 * 60
"""The seconds that a session lasts."""
SIGN_IN_COOKIE = "braid-sign-in"
SIGN_IN_LIFE = 10 * 60
"""The seconds that a sign-in with the provider may take."""
CONSOLE_HEADER = "X-Braid-Console"
_READING = frozenset({"GET", "HEAD"})


def token_in(request: Request, name: str = COOKIE) -> str | None:
    """The session token of a request, or another that a cookie holds, if it has one."""
    whole, _ = _cookie(request, name)
    return request.cookies.get(whole) or None


def keep_token(
    request: Request, response: Response, token: str, name: str = COOKIE, seconds: int = SESSION_LIFE
) -> None:
    """Set the cookie, so that no script can read it and no other site can use it."""
    whole, secure = _cookie(request, name)
    response.set_cookie(whole, token, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict")


def forget_token(request: Request, response: Response, name: str = COOKIE) -> None:
    """Delete the cookie."""
    whole, secure = _cookie(request, name)
    response.delete_cookie(whole, path="/", secure=secure, httponly=True, samesite="strict")


def refuse_foreign_change(request: Request) -> None:
    """Refuse a change that comes with a cookie, unless the console sent it."""
    if request.method in _READING:
        return
    # Other pages could send this header only if CORS allowed it, which this service never does.
    if request.headers.get(CONSOLE_HEADER) != "1":
        raise ForeignPage(f"the request came with a cookie and without the header {CONSOLE_HEADER}: 1")
    refuse_foreign_page(request)


def refuse_foreign_page(request: Request) -> None:
    """Refuse a request that the browser says a page of another site sent."""
    # The browser's own judgement comes first, because a proxy may change the host that is compared below.
    if (site := request.headers.get("sec-fetch-site")) is not None:
        if site != "same-origin":
            raise ForeignPage("the browser says that a page from elsewhere sent the request")
        return
    origin = request.headers.get("origin")
    if origin is not None and _host(origin) != request.headers.get("host", "").lower():
        raise ForeignPage("a page from elsewhere sent the request")


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _cookie(request: Request, name: str) -> tuple[str, bool]:
    """The whole name of a cookie, and whether it is for TLS alone."""
    secure = request.url.scheme == "https"
    # With this prefix browsers accept the cookie only from this host, over TLS.
    return f"__Host-{name}" if secure else name, secure


RATE_SECONDS = 60.0
WRONG_KEYS_PER_MINUTE = 60
REFUSALS_PER_MINUTE = 10
"""Refusals of a caller that the journal notes; the log has all of them."""
MOST_ALLOWANCES = 10_000
"""Allowances that are kept; the one that was used longest ago is full again by then, or is given up."""


class RequestRates:
    """The allowances of all tenants and addresses. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._left: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        """What is left, and when that was, by kind and name."""

    def take(self, tenant: str, per_minute: int) -> None:
        """Count a tenant's request; `TooManyRequests` where it asks too often."""
        if (wait := self._wait(("tenant", tenant), per_minute)) is not None:
            why = f"tenant {tenant!r} may ask {per_minute:,} times a minute"
            raise TooManyRequests(
                f"{why}; ask less often" if wait else f"{why}; ask an operator for more", retry_after=wait or None
            )

    def count_wrong_key(self, address: str) -> None:
        """Count a key from an address that lets nobody in; `TooManyRequests` where there are too many."""
        if (wait := self._wait(("address", address), WRONG_KEYS_PER_MINUTE)) is not None:
            raise TooManyRequests(
                f"too many wrong keys came from {address}; correct the key that is sent there", retry_after=wait
            )

    def notes_refusal(self, caller: str) -> bool:
        """Whether a refusal of a caller is noted, because there were few of late."""
        return self._wait(("refusals", caller), REFUSALS_PER_MINUTE) is None

    def _wait(self, which: tuple[str, str], per_minute: int) -> float | None:
        """Take one; None if there is one, else the seconds until there is, which are 0 if there never will be."""
        if per_minute == 0:
            return 0.0
        now = self._clock()
        with self._lock:
            left, then = self._left.pop(which, (float(per_minute), now))
            left = min(float(per_minute), left + (now - then) * per_minute / RATE_SECONDS)
            self._left[which] = (left - 1.0 if left >= 1.0 else left, now)
            if len(self._left) > MOST_ALLOWANCES:
                self._left.popitem(last=False)
        return None if left >= 1.0 else (1.0 - left) * RATE_SECONDS / per_minute


MOST_ITEMS = 500
"""Most items of a page."""

# No control characters: PostgreSQL refuses NUL in any text.
Text = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Cursor = Annotated[str, StringConstraints(max_length=300, pattern=r"^[^\x00-\x1f\x7f]*$")]
_Key = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,200}$")]

_bearer = HTTPBearer(
    scheme_name="API key",
    description="An API key, `braid_<id>_<secret>`, or a token of the provider of OpenID Connect.",
    auto_error=False,
)
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
    caller = let_in(request, look_up)
    extra = request.scope["route"].openapi_extra or {}
    if caller.role is Role.READ_ONLY and request.method not in _READING and not extra.get(ONLY_LOOKS):
        raise Forbidden("this caller may look and change nothing; send a key that may change this")
    return caller


def let_in(request: Request, look_up: Callable[[], Caller]) -> Caller:
    """The caller, whose request is counted; `TooManyRequests` where it, or wrong keys of its address, come too fast."""
    return counted(request, looked_up(request, look_up))


def looked_up(request: Request, look_up: Callable[[], T]) -> T:
    """What is looked up; what nobody is let in by counts as a wrong key of the address."""
    rates: RequestRates = request.app.state.rates
    try:
        return look_up()
    except Unauthenticated:
        if request.client is not None:
            rates.count_wrong_key(request.client.host)
        raise


def counted(request: Request, caller: Caller) -> Caller:
    """The caller, whose request is counted; `TooManyRequests` where its requests come too fast."""
    rates: RequestRates = request.app.state.rates
    if caller.tenant is not None and caller.requests_per_minute is not None:
        rates.take(caller.tenant, caller.requests_per_minute)
    return caller


async def _still_let_in(look_up: _CallerLookup) -> Callable[[], bool]:
    def is_let_in() -> bool:
        try:
            look_up()
        except (Unauthenticated, Forbidden):
            return False
        except (DatabaseAway, ProviderAway):
            # Nobody knows until the database, or the provider, is back.
            pass
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


# What is no number is refused by its list, which says what to do.
_NumberedCursor = Annotated[
    str, StringConstraints(max_length=300), WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,18}$"})
]


async def _numbered_paging(
    after: Annotated[_NumberedCursor | None, Query(description="The `next` of the previous page.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Most items of the page.")] = 100,
) -> Paging:
    return Paging(after=after, limit=limit)


ThePage = Annotated[Paging, Depends(_paging)]
TheNumberedPage = Annotated[Paging, Depends(_numbered_paging)]
"""The part of a list that is in the order of numbers."""
_OF_WHOM = " Operators write `TENANT:NAME` where several tenants have the name. Write a colon for a slash."
Named = Annotated[Text, Path(description="Its name, as lists show it.")]
TheId = Annotated[Text, Path(description="Its id, as lists show it.")]
ById = Annotated[Text, Path(alias="id", description="Its id, as lists show it.")]


def _dataflow(
    service: TheService,
    caller: TheCaller,
    named: Annotated[Text, Path(alias="id", description=f"Its id or its name.{_OF_WHOM}")],
) -> str:
    return service.dataflows.id_of(caller, named)


def _only_of_dataflow(
    service: TheService,
    caller: TheCaller,
    named: Annotated[
        Text | None,
        Query(alias="dataflow", description=f"Only of this dataflow, by id or name; a removed one by id.{_OF_WHOM}"),
    ] = None,
) -> str | None:
    return None if named is None else service.dataflows.id_of(caller, named)


def _dataflow_asked_for(
    service: TheService,
    caller: TheCaller,
    named: Annotated[
        Text, Query(alias="dataflow", description=f"The dataflow, by id or name; a removed one by id.{_OF_WHOM}")
    ],
) -> str:
    return service.dataflows.id_of(caller, named)


TheDataflow = Annotated[str, Depends(_dataflow)]
"""The id of the dataflow in the path."""
OnlyOfDataflow = Annotated[str | None, Depends(_only_of_dataflow)]
"""The id of the dataflow that a list is narrowed to. A removed one has to be named by its id."""
DataflowAskedFor = Annotated[str, Depends(_dataflow_asked_for)]
"""The id of the dataflow in the query. A removed one has to be named by its id."""
TheNumber = Annotated[Text, Path(description="Its number, as lists show it.")]
NamedTenant = Annotated[TenantName, Path(description="The tenant.")]
DryRun = Annotated[bool, Query(description="Only preview it; nothing changes.")]
ForTenant = Annotated[TenantName | None, Query(description="The tenant to act for. Only operators need it.")]
IdempotencyKey = Annotated[
    _Key | None,
    Header(
        alias=IDEMPOTENCY_HEADER,
        description="Any text of your choice. Sending the same again with the same key does it only once.",
    ),
]


async def _tags(
    if_match: Annotated[
        str | None,
        Header(
            alias="If-Match",
            description="The `ETag` of the document that the change was made for; it is refused if there is another.",
        ),
    ] = None,
) -> Tags | None:
    if if_match is None or if_match == "*":
        return None
    # What is written after `W/` never matches, as RFC 9110 says.
    return frozenset(tag.strip().strip('"') for tag in if_match.split(",") if not tag.strip().startswith("W/"))


IfMatch = Annotated[Tags | None, Depends(_tags)]
"""The tags of documents of which the dataflow must have one; None if it may have any."""

MOST_WAITING_DOCUMENTS = 32
"""Documents of a tenant that may wait; each takes up to 4 MB of memory."""


@dataclass(slots=True)
class _Line:
    """Those who wait for one lock, which lets them in as they came."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class DocumentTurns:
    """The lines of all tenants; used on the event loop alone."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it; `TooManyRequests` where too many of the owner's wait already."""
        line = self._lines.setdefault(owner, _Line())
        if line.length > MOST_WAITING_DOCUMENTS:
            raise TooManyRequests(
                f"{MOST_WAITING_DOCUMENTS} documents of {owner!r} wait already; send the next once one is answered",
                retry_after=1.0,
            )
        line.length += 1
        try:
            async with line.lock:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[owner]


def in_turn(read: Callable[..., Awaitable[Any]]) -> Any:
    """Make the dependency that reads a body, and has its caller's turn until the route has returned."""

    async def turn(request: Request, caller: TheCaller, sent: Annotated[Any, Depends(read)]) -> AsyncIterator[Any]:
        turns: DocumentTurns = request.app.state.turns
        # Only once the body is there, so that nobody waits for a slow connection.
        async with turns.turn(caller.tenant or caller.id):
            yield sent

    return Depends(turn, scope="function")
