"""The console's cookie: its token, its name, and the pages from which it is accepted."""

from urllib.parse import urlsplit

from fastapi import Request, Response

from manager.problem import ForeignPage

COOKIE = "braid-session"
SESSION_LIFE = 8 * 60 * 60
"""Seconds."""
CONSOLE_HEADER = "X-Braid-Console"
_READING = frozenset({"GET", "HEAD"})


def token_in(request: Request) -> str | None:
    """The session token of a request, if it has one."""
    return request.cookies.get(_name(request)) or None


def keep_token(request: Request, response: Response, token: str) -> None:
    """Set the cookie, so that no script can read it and no other site can use it."""
    response.set_cookie(
        _name(request),
        token,
        max_age=SESSION_LIFE,
        path="/",
        secure=_is_secure(request),
        httponly=True,
        samesite="strict",
    )


def forget_token(request: Request, response: Response) -> None:
    """Delete the cookie."""
    response.delete_cookie(_name(request), path="/", secure=_is_secure(request), httponly=True, samesite="strict")


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


def _name(request: Request) -> str:
    # With this prefix browsers accept the cookie only from this host, over TLS.
    return f"__Host-{COOKIE}" if _is_secure(request) else COOKIE


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"
