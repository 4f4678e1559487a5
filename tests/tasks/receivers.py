"""Receivers of webhooks on this machine, which answer as a test says."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Got(NamedTuple):
    """One request that a receiver got."""

    at: float
    method: str
    path: str
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes

    @property
    def event(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")


class Reply(NamedTuple):
    """What a receiver answers."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""


Answer = Callable[[Got, int], Reply]
"""Answers a request; the number says how often its key has come, from 1."""


def well(_got: Got, _times: int) -> Reply:
    return Reply()


@dataclass(kw_only=True)
class Receiving:
    """A receiver that runs."""

    answer: Answer = well
    port: int = 0
    got: list[Got] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?of=ann"

    @property
    def events(self) -> list[Any]:
        return [each.event for each in self.got]

    def take(self, got: Got) -> Reply:
        with self.lock:
            self.got.append(got)
            times = sum(each.key == got.key for each in self.got)
        return self.answer(got, times)


@contextmanager
def receiving(answer: Answer = well, tls: ssl.SSLContext | None = None) -> Iterator[Receiving]:
    """A receiver on a free port."""
    receiver = Receiving(answer=answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, more, text = receiver.take(Got(time.monotonic(), self.command, self.path, headers, body))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_PUT = _answer  # noqa: N815 - the names that the library calls

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Whoever gave up waiting is not there any more."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
