"""The middleware around all requests: gives each an id, counts and logs it, and hides the details of failures.

Everything that is logged for a request carries its id. A caller may choose the id, so that both logs match.
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
"""An id that a caller may choose: it is returned in a header, and logged."""
_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
"""An id of a dataflow or a job that is safe to log; a request may name anything."""
_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing; browsers and monitoring send them all the time."""
_FAILED = 500
_log = logging.getLogger(__name__)


class RequestLog:
    """The middleware."""

    def __init__(self, app: ASGIApp, counts: RequestCounts) -> None:
        self._app = app
        self._counts = counts

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
                self._report(scope, message["status"], time.monotonic() - came)
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request
                # Answers are for one caller alone, and may hold secrets; the console's files override this.
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            await self._app(scope, receive, mark_and_send)
        except ClientDisconnect:
            _log.debug("request %s: the client went away", request)
        except Exception:
            # Without query and headers, which may hold secrets.
            _log.exception("request %s: %s %r failed", request, scope["method"], scope["path"])
            if begun:
                raise
            await answer(Unexpected(request))(scope, receive, mark_and_send)

    def _report(self, scope: Scope, status: int, seconds: float) -> None:
        """Count and log an answer when it begins."""
        method, route = scope["method"], getattr(scope.get("route"), "path_format", None)
        self._counts.count(method, route, status, seconds)
        for kind, parameter in (("dataflow", "/v1/dataflows/{id}"), ("job", "/v1/jobs/{job}")):
            if route is not None and route.startswith(parameter):
                name = scope["path_params"][parameter.rpartition("{")[2].rstrip("}")]
                note(**({kind: name} if _NAME.fullmatch(name) else {}))
        fields = named("request", method=method, route=route, status=status, seconds=round(seconds, 6))
        # Not the path: it may be anything if there is no route.
        level = logging.DEBUG if method in _LOOKS and status < _FAILED else logging.INFO
        _log.log(level, "%s %s is answered with %d after %.3f s", method, route, status, seconds, extra=fields)


def _id(scope: Scope) -> str:
    """The id that the caller chose, else a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)
