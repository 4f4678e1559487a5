"""The console's cookie: what it holds, what it is called, and from which pages it is taken."""

from urllib.parse import urlsplit

from fastapi import Request, Response

from manager.problem import ForeignPage

COOKIE = "braid-session"
SESSION_LIFE = 8 * 60 * 60
"""Seconds for which a session lasts."""
CONSOLE_HEADER = "X-Braid-Console"
_READING = frozenset({"GET", "HEAD"})


def token_in(request: Request) -> str | None:
    """The token of the session that a request came with, if it came with one."""
    return request.cookies.get(_name(request)) or None


def keep_token(request: Request, response: Response, token: str) -> None:
    """Have the browser keep a token; no script reads it, and no page from elsewhere has it sent."""
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
    """Have the browser forget the token."""
    response.delete_cookie(_name(request), path="/", secure=_is_secure(request), httponly=True, samesite="strict")


def refuse_foreign_change(request: Request) -> None:
    """Refuse a request that would change something by a cookie, unless the console itself sent it."""
    if request.method in _READING:
        return
    # Another page could send this header only if this service let it by CORS, which it never does.
    if request.headers.get(CONSOLE_HEADER) != "1":
        raise ForeignPage(f"the request came with a cookie and without the header {CONSOLE_HEADER}: 1")
    refuse_foreign_page(request)


def refuse_foreign_page(request: Request) -> None:
    """Refuse a request that a browser says another site's page sent."""
    # What the browser found itself counts before what is compared here: something between may change the host.
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
    # With this prefix a browser takes the cookie from this host alone, and over TLS alone.
    return f"__Host-{COOKIE}" if _is_secure(request) else COOKIE


def _is_secure(request: Request) -> bool:
    return request.url.scheme == "https"
