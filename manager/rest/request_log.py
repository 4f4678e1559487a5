"""What is done for every request: it gets an id, it is counted and logged, and what goes wrong is told without details.

Whatever is logged for a request names its id. A caller may send one, so that its log and this one's fit together.
"""

import logging
import re
import secrets
import time

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.log_lines import about, named, note
from manager.metrics.request_counts import RequestCounts
from manager.problem import Unexpected
from manager.rest.problem_responses import answer

_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""What a caller's own id may be: it comes back in a header, and stands in the log."""
_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
"""What may be the id of a dataflow or a job; anything may be asked for."""
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing; browsers and whoever watches ask all the time."""
_FAILED = 500
_log = logging.getLogger(__name__)


class RequestLog:
    """Around the whole app."""

    def __init__(self, app: ASGIApp, asked: RequestCounts) -> None:
        self._app = app
        self._asked = asked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _id(scope)
        with about(request=request):
            await self._serve(request, scope, receive, send)

    async def _serve(self, request: str, scope: Scope, receive: Receive, send: Send) -> None:
        came, begun = time.monotonic(), False

        async def mark_and_send(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self._tell(scope, message["status"], time.monotonic() - came)
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request
                # Answers hold what is one caller's alone, some of them secrets; the console's files say otherwise.
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            await self._app(scope, receive, mark_and_send)
        except ClientDisconnect:
            _log.debug("request %s: the client went away", request)
        except Exception:
            # No query and no headers: they may hold what nobody else may read.
            _log.exception("request %s: %s %r failed", request, scope["method"], scope["path"])
            if begun:
                raise
            await answer(Unexpected(request))(scope, receive, mark_and_send)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        """An answer begins: count it, and log it."""
        method, route = scope["method"], getattr(scope.get("route"), "path_format", None)
        self._asked.count(method, route, status, seconds)
        for what, parameter in (("dataflow", "/v1/dataflows/{id}"), ("job", "/v1/jobs/{job}")):
            if route is not None and route.startswith(parameter):
                name = scope["path_params"][parameter.rpartition("{")[2].rstrip("}")]
                note(**({what: name} if _NAME.fullmatch(name) else {}))
        told = named("request", method=method, route=route, status=status, seconds=round(seconds, 6))
        # Not the path: where it leads nowhere it may be anything.
        level = logging.DEBUG if method in _LOOKS and status < _FAILED else logging.INFO
        _log.log(level, "%s %s is answered with %d after %.3f s", method, route, status, seconds, extra=told)


def _id(scope: Scope) -> str:
    """The id that the caller gave, else a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)
