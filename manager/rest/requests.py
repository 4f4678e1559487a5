"""What is done for every request: it gets an id, and what goes wrong unforeseen is logged under it and told without."""

import logging
import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from manager.problem import Unexpected
from manager.rest.problems import answer

_log = logging.getLogger(__name__)


class Requests:
    """Around the whole app."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = secrets.token_hex(8)
        begun = False

        async def mark_and_send(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request
                # Answers hold what is one caller's alone, some of them secrets.
                headers["Cache-Control"] = "no-store"
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
