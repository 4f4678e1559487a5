"""Routes of sessions: the console trades an API key for a cookie, so that browsers do not keep the key."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from manager.answers import SessionAnswer, SessionEnded, SessionForm
from manager.problem import ForeignPage, TooLarge, UnsupportedMediaType
from manager.rest.bodies import open_form
from manager.rest.dependencies import TheCaller, TheService, let_in
from manager.rest.openapi import documented
from manager.rest.openapi_examples import resources
from manager.rest.session_cookie import SESSION_LIFE, forget_token, keep_token, refuse_foreign_page, token_in

router = APIRouter(prefix="/v1", tags=["session"])


async def _own_page(request: Request) -> None:
    refuse_foreign_page(request)


# No lock-out: nobody guesses a key of 256 random bits, and it could be used to keep others out. Right keys are taken
# from every address.
@router.post(
    "/session",
    dependencies=[Depends(_own_page)],
    **documented(resources.SESSION_ANSWER, ForeignPage, TooLarge, UnsupportedMediaType, body=SessionForm, status=201),
)
def begin_session(
    service: TheService,
    request: Request,
    response: Response,
    sent: Annotated[SessionForm, Depends(open_form(SessionForm))],
) -> SessionAnswer:
    """Sign in to the console: trade an API key for a cookie that is valid for eight hours."""
    caller = let_in(request, partial(service.administration.caller, sent.key))
    token, caller = service.sessions.begin(caller, SESSION_LIFE)
    keep_token(request, response, token)
    return SessionAnswer(kind=caller.role, tenant=caller.tenant, until=caller.until)


@router.get("/session", **documented(resources.SESSION_ANSWER))
def session(caller: TheCaller) -> SessionAnswer:
    """Show the caller: its role, its tenant, and the end of its session if it has one."""
    return SessionAnswer(kind=caller.role, tenant=caller.tenant, until=caller.until)


@router.delete("/session", **documented(resources.SESSION_ENDED))
def end_session(service: TheService, caller: TheCaller, request: Request, response: Response) -> SessionEnded:
    """Sign out of the console. A caller with an API key has no session to end."""
    token = token_in(request)
    if caller.until is None or token is None:
        return SessionEnded(ended=False)
    service.sessions.end(token)
    forget_token(request, response)
    return SessionEnded(ended=True)
