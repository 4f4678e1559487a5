"""The server: REST in a thread of its own, on a socket that sends at once."""

import logging
import socket
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import uvicorn
from fastapi import FastAPI

from engine.log_lines import named

SWITCH_SECONDS = 0.0005
"""Seconds after which a thread that computes lets others go on. Python's 5 ms add up in a short request, which waits
for that after each of its looks into the database."""
GRACE = 5
"""Seconds that running requests have to finish when the server stops."""
log = logging.getLogger("braid.manager")


class CannotServe(RuntimeError):
    """The service cannot start; the message says why, and what to do."""


class Server:
    """Serves REST in a thread of its own while the context lasts."""

    def __init__(self, url: str, app: FastAPI, ended: Callable[[], None], *, listen: str, port: int) -> None:
        """`ended` is called when the server ends by itself."""
        self._url = url
        self._ended = ended
        self._socket = listening(listen, port)
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=GRACE)
        )
        self._thread = threading.Thread(target=self._run, name="serves REST", daemon=True)

    def __enter__(self) -> Self:
        sys.setswitchinterval(SWITCH_SECONDS)
        self._thread.start()
        log.info("serves at %s", self._url, extra=named("serves", url=self._url))
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except Exception:
            log.exception("REST ended")
        finally:
            self._socket.close()
            self._ended()


def listening(host: str, port: int) -> socket.socket:
    """A listening socket that sends without delay."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=2_048)
    except OSError as error:
        raise CannotServe(
            f"REST cannot be served on {host}, port {port}: {error.strerror}; stop what listens there, or choose "
            "another --listen or --port"
        ) from error
    # Accepted sockets inherit this. An answer is sent in two parts, and the second would wait up to 40 ms for the
    # acknowledgement of the first. asyncio sets the option only on sockets that name their protocol.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found
