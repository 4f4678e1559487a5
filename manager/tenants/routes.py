"""Routes of tenants: quotas, API keys, broker credentials, secrets, and sessions of the console.

The console trades an API key for a cookie, so that browsers do not keep the key.
"""

import secrets as randomness
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from braid_client.answers.base import Page, SecretName
from braid_client.answers.tenants import (
    BrokerCredentials,
    BrokerLogin,
    ConsoleLink,
    KeyAnswer,
    KeyForm,
    NewKeyAnswer,
    PublishingForm,
    Quota,
    SecretAnswer,
    SecretForm,
    SessionAnswer,
    SessionEnded,
    SessionForm,
    SignInBegun,
    SignInForm,
    SignInOffer,
    TenantAnswer,
    TenantForm,
)
from manager.problem import Conflict, Forbidden, ForeignPage, NotFound, Unauthenticated
from manager.provider import SignIn
from manager.rest.bodies import form, open_form
from manager.rest.dependencies import (
    SESSION_LIFE,
    SIGN_IN_COOKIE,
    SIGN_IN_LIFE,
    ById,
    ForTenant,
    NamedTenant,
    TheCaller,
    ThePage,
    TheService,
    counted,
    forget_token,
    keep_token,
    let_in,
    looked_up,
    refuse_foreign_page,
    token_in,
)
from manager.rest.openapi import documented
from manager.use_case import Caller, moment

router = APIRouter(prefix="/v1", tags=["administration"])


@router.post("/tenants", **documented(Conflict, Forbidden, body=TenantForm, status=201))
def admit(
    service: TheService, caller: TheCaller, sent: Annotated[TenantForm, Depends(form(TenantForm))]
) -> TenantAnswer:
    """Admit a tenant; operators only."""
    return service.administration.admit(caller, sent)


@router.get("/tenants", **documented())
def tenants(service: TheService, caller: TheCaller, page: ThePage) -> Page[TenantAnswer]:
    """List tenants. A tenant sees only itself."""
    return service.administration.tenants(caller, page)


@router.put("/tenants/{tenant}/quota", **documented(Forbidden, NotFound, body=Quota))
def set_quota(
    service: TheService, caller: TheCaller, tenant: NamedTenant, sent: Annotated[Quota, Depends(form(Quota))]
) -> TenantAnswer:
    """Set a tenant's quota; operators only."""
    return service.administration.set_quota(caller, tenant, sent)


@router.put("/tenants/{tenant}/publishing", **documented(Forbidden, NotFound, body=PublishingForm))
def set_publishing(
    service: TheService,
    caller: TheCaller,
    tenant: NamedTenant,
    sent: Annotated[PublishingForm, Depends(form(PublishingForm))],
) -> TenantAnswer:
    """Set whether a tenant may publish modules that are code; operators only. What it has published stays."""
    return service.administration.set_publishing(caller, tenant, sent)


@router.post("/tenants/{tenant}/credentials", **documented(NotFound, status=201))
def make_credentials(service: TheService, caller: TheCaller, tenant: NamedTenant) -> BrokerCredentials:
    """Make new broker credentials for a tenant. They are shown only once, and replace those it had."""
    return service.administration.make_credentials(caller, tenant)


@router.get("/tenants/{tenant}/credentials", **documented(NotFound))
def broker_login(service: TheService, caller: TheCaller, tenant: NamedTenant) -> BrokerLogin:
    """Show where and as whom a tenant connects to the broker, and what it may read and write. The password is not."""
    return service.administration.broker_login(caller, tenant)


@router.post(
    "/keys",
    **documented(Forbidden, NotFound, body=KeyForm, status=201, leads_to={"id": ("revoke_key",)}),
)
def make_key(service: TheService, caller: TheCaller, sent: Annotated[KeyForm, Depends(form(KeyForm))]) -> NewKeyAnswer:
    """Make an API key: an operator for anyone, a tenant for itself. It is shown only once."""
    return service.administration.make_key(caller, sent)


@router.get("/keys", **documented())
def keys(service: TheService, caller: TheCaller, page: ThePage) -> Page[KeyAnswer]:
    """List API keys without their secrets. A tenant sees only its own."""
    return service.administration.keys(caller, page)


@router.delete("/keys/{id}", **documented(Conflict, NotFound))
def revoke_key(service: TheService, caller: TheCaller, key: ById) -> KeyAnswer:
    """Revoke an API key."""
    return service.administration.revoke_key(caller, key)


sessions_router = APIRouter(prefix="/v1", tags=["session"])


async def _own_page(request: Request) -> None:
    refuse_foreign_page(request)


# No lock-out: nobody guesses a key of 256 random bits, and it could be used to keep others out. Right keys are taken
# from every address.
@sessions_router.post(
    "/session",
    dependencies=[Depends(_own_page)],
    **documented(ForeignPage, body=SessionForm, status=201, by_token=False),
)
def begin_session(
    service: TheService,
    request: Request,
    response: Response,
    sent: Annotated[SessionForm, Depends(open_form(SessionForm))],
) -> SessionAnswer:
    """Sign in to the console: trade an API key, or a link, for a cookie that is valid for eight hours."""
    by_link = partial(service.sessions.follow, sent.link or "")
    caller = let_in(request, by_link if sent.key is None else partial(service.administration.holder, sent.key))
    token, caller = service.sessions.begin(caller, SESSION_LIFE)
    keep_token(request, response, token)
    return _answer(caller)


def _answer(caller: Caller) -> SessionAnswer:
    name = "" if caller.person is None else caller.person.name
    return SessionAnswer(kind=caller.role, tenant=caller.tenant, until=caller.until, name=name)


@sessions_router.post("/session/link", **documented(status=201, only_looks=True))
def make_console_link(service: TheService, caller: TheCaller) -> ConsoleLink:
    """Make a link that signs in to the console as the caller, once and within a minute."""
    token, until = service.sessions.link(caller)
    return ConsoleLink(path=f"/#link={token}", until=moment(until))


@sessions_router.get("/session", **documented())
def session(caller: TheCaller) -> SessionAnswer:
    """Show the caller: its role, its tenant, and the end of its session if it has one."""
    return _answer(caller)


@sessions_router.delete("/session", **documented(only_looks=True))
def end_session(service: TheService, caller: TheCaller, request: Request, response: Response) -> SessionEnded:
    """Sign out of the console. A caller with an API key has no session to end."""
    token = token_in(request)
    if caller.until is None or token is None:
        return SessionEnded(ended=False)
    service.sessions.end(caller, token)
    forget_token(request, response)
    return SessionEnded(ended=True)


# Not part of the API: the steps of the console's page.
sign_in_router = APIRouter(prefix="/sign-in", include_in_schema=False)


async def _page(request: Request) -> str:
    """The console's page, as the browser that sends the request has it."""
    refuse_foreign_page(request)
    if (origin := request.headers.get("origin")) is None:
        raise ForeignPage("the request names no origin")
    return f"{origin}/"


_Page = Annotated[str, Depends(_page)]


@sign_in_router.get("")
def offer_sign_in(service: TheService) -> SignInOffer:
    """Show with which provider people may sign in."""
    return SignInOffer(provider=service.sessions.offered)


@sign_in_router.post("")
def begin_sign_in(service: TheService, page: _Page, request: Request, response: Response) -> SignInBegun:
    """Begin to sign in with the provider."""
    begun = SignIn.new()
    url = service.sessions.provider.begin(begun, page)
    keep_token(request, response, begun.text, SIGN_IN_COOKIE, SIGN_IN_LIFE)
    return SignInBegun(url=url)


@sign_in_router.post("/code")
def end_sign_in(
    service: TheService,
    page: _Page,
    request: Request,
    response: Response,
    sent: Annotated[SignInForm, Depends(open_form(SignInForm))],
) -> SessionAnswer:
    """Trade the code with which the provider sent the browser back for a session."""
    begun = SignIn.parse(token_in(request, SIGN_IN_COOKIE) or "")
    if begun is None or not randomness.compare_digest(begun.state.encode(), sent.state.encode()):
        raise Unauthenticated("this sign-in did not begin in this browser, or too long ago; sign in again")
    forget_token(request, response, SIGN_IN_COOKIE)
    look_up = partial(service.sessions.sign_in, begun, sent.code, page, SESSION_LIFE)
    token, caller = looked_up(request, look_up)
    keep_token(request, response, token)
    return _answer(counted(request, caller))


secrets_router = APIRouter(prefix="/v1", tags=["secrets"])
_Named = Annotated[SecretName, Path(description="Its name in documents.")]


@secrets_router.put("/secrets/{name}", **documented(NotFound, body=SecretForm))
def put_secret(
    service: TheService,
    caller: TheCaller,
    name: _Named,
    sent: Annotated[SecretForm, Depends(form(SecretForm))],
    tenant: ForTenant = None,
) -> SecretAnswer:
    """Store a secret. Tasks that name it get it with their next batch."""
    return service.secrets.put(caller, name, sent, tenant=tenant)


@secrets_router.get("/secrets", **documented(NotFound))
def secrets(service: TheService, caller: TheCaller, page: ThePage, tenant: ForTenant = None) -> Page[SecretAnswer]:
    """List the names of secrets. Their values are never shown."""
    return service.secrets.page(caller, page, tenant=tenant)


@secrets_router.delete("/secrets/{name}", **documented(NotFound))
def remove_secret(service: TheService, caller: TheCaller, name: _Named, tenant: ForTenant = None) -> SecretAnswer:
    """Delete a secret. Tasks that name it fail."""
    return service.secrets.remove(caller, name, tenant=tenant)
