"""The app: all routers, what all requests have in common, the console's files, and the server."""

import gc
import gzip
import hashlib
import json
import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from pydantic import BaseModel

from bridge.embedded.certificate import ServedCertificate, UnusableCertificate
from bridge.embedded.relay import CERTIFICATE_LOOK_EVERY
from dags import Document
from engine.log_lines import named
from manager.adaptation import routes as adaptation
from manager.background import ManagerWatch, RegularLooks
from manager.dataflows import routes as dataflows
from manager.jobs import routes as jobs
from manager.kernel.live_events import LiveEvents
from manager.moves import routes as moves
from manager.outputs import routes as outputs
from manager.overview import routes as overview
from manager.pipelines import routes as pipelines
from manager.problem import NotFound
from manager.reconfigurations import routes as reconfigurations
from manager.rest import streams
from manager.rest.dependencies import DocumentTurns, RequestRates, only_known_parameters
from manager.rest.metrics import RequestCounts
from manager.rest.openapi import describe, parameters
from manager.rest.problems import RequestLog, answer_troubles
from manager.savings import routes as savings
from manager.series import routes as series
from manager.service import Service
from manager.sources import routes as sources
from manager.tenants import routes as tenants
from manager.trials import routes as trials

_SCHEMAS: Mapping[str, type[BaseModel]] = {"dataflow.schema.json": Document, "source.schema.json": sources.SOURCE_FORM}
"""The forms whose JSON Schemas the console has, by their names there."""
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing from other origins, and no inline code."""
_NO_MARKUP = "; require-trusted-types-for 'script'; trusted-types 'none'"
"""Besides, no text as markup; Swagger UI makes markup of descriptions, which are the service's own."""
_HEADERS = {
    # Browsers revalidate each time, so that all files are of one release.
    "Cache-Control": "no-cache",
    "Content-Security-Policy": _POLICY + _NO_MARKUP,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    # For browsers that do not know frame-ancestors.
    "X-Frame-Options": "DENY",
}

_CONSOLE = Path(__file__).parents[1] / "console"
_DOCS = "docs.html"
console_router = APIRouter(include_in_schema=False)


@console_router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """The console's one page."""
    return _sent(request, "index.html")


@console_router.api_route("/docs", methods=["GET", "HEAD"])
async def docs(request: Request) -> Response:
    """The page of the API."""
    return _sent(request, _DOCS)


@console_router.api_route("/console/{name:path}", methods=["GET", "HEAD"])
async def file(request: Request, name: str) -> Response:
    """Another file of the console."""
    return _sent(request, name)


def _sent(request: Request, name: str) -> Response:
    # Looked up in a fixed set, so that no name leads out of the folder.
    if (encodings := _files().get(name)) is None:
        raise NotFound("path", request.url.path)
    accepted = request.headers.get("accept-encoding", "").lower().replace(" ", "").split(",")
    encoding = "gzip" if "gzip" in accepted else "identity"
    content, tag = encodings[encoding]
    headers = _HEADERS | {"ETag": tag, "Vary": "Accept-Encoding"}
    if name == _DOCS:
        headers["Content-Security-Policy"] = _POLICY
    known = {sent.strip().removeprefix("W/") for sent in request.headers.get("if-none-match", "").split(",")}
    if tag in known:
        return Response(status_code=304, headers=headers)
    if encoding == "gzip":
        headers["Content-Encoding"] = encoding
    return Response(content, media_type=_TYPES.get(Path(name).suffix, "application/schema+json"), headers=headers)


class _EncodedFile(NamedTuple):
    """The bytes of a file in one encoding, and their tag."""

    content: bytes
    tag: str


@cache
def _files() -> Mapping[str, Mapping[str, _EncodedFile]]:
    """The console's files, by their paths in its folder and by encoding."""
    paths = (path for path in _CONSOLE.rglob("*") if path.suffix in _TYPES)
    schemas = {name: json.dumps(form.model_json_schema()).encode() for name, form in _SCHEMAS.items()}
    files = {path.relative_to(_CONSOLE).as_posix(): path.read_bytes() for path in paths} | schemas
    return {
        name: {"identity": _encoded(content), "gzip": _encoded(gzip.compress(content, mtime=0))}
        for name, content in files.items()
    }


def _encoded(content: bytes) -> _EncodedFile:
    return _EncodedFile(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


_WITH_ROUTERS = (
    *(overview, dataflows, trials, adaptation, reconfigurations, sources, pipelines),
    *(tenants, jobs, moves, savings, series, outputs, streams),
)
ROUTERS = (
    *(router for module in _WITH_ROUTERS for router in vars(module).values() if isinstance(router, APIRouter)),
    console_router,
)
"""All routers, in the order of their modules."""


def make_app(service: Service, events: LiveEvents, awaits: Callable[[], str | None]) -> FastAPI:
    """Make the app over a service; `awaits` returns what the manager waits for, and None once it is ready."""
    app = _routed()
    app.state.service = service
    app.state.feed = streams.EventFeed(events)
    app.state.awaits = awaits
    app.state.parameters = _parameters()
    answer_troubles(app, ROUTERS)
    app.state.rates = RequestRates()
    app.state.turns = DocumentTurns()
    app.state.requests = RequestCounts()
    app.add_middleware(RequestLog, counts=app.state.requests)
    return app


def _routed() -> FastAPI:
    app = FastAPI(
        title="Braid",
        summary="Runs the streaming dataflows of many tenants as few Spark jobs.",
        version=version("braid"),
        # Those load scripts from other sites; the console has a page of its own.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    for router in ROUTERS:
        # Providers send browsers back to the page with parameters of their own.
        checks = [] if router is console_router else [Depends(only_known_parameters)]
        app.include_router(router, dependencies=checks)
    describe(app)
    return app


# The same for every app, and slow to make.
@cache
def _parameters() -> Mapping[tuple[str, str], frozenset[str]]:
    return parameters(_routed())


SWITCH_SECONDS = 0.0001
"""Seconds after which a thread that computes lets others go on. Python's 5 ms add up in a short request, which waits
for that after each of its looks into the database."""
COLLECTION_THRESHOLDS = (5_000, 5, 200)
"""How much is new before the garbage collector looks through the youngest objects, the younger ones, and all of them,
as of `gc.set_threshold`; nothing else runs meanwhile. With Python's values it looks through all of a large document
again and again while that is read, up to 50 ms at a time. The committer's own collections find what is left."""
GRACE = 5
"""Seconds that running requests have to finish when the server stops."""
log = logging.getLogger("braid.manager")


class CannotServe(RuntimeError):
    """The service cannot start; the message says why, and what to do."""


class Server:
    """Serves REST in a thread of its own while the context lasts."""

    def __init__(  # noqa: PLR0913 - each is a part of where and what is served
        self,
        url: str,
        app: FastAPI,
        ended: Callable[[], None],
        *,
        listen: str,
        port: int,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        """`ended` is called when the server ends by itself; `tls` are the files of a certificate and its key."""
        self._url = url
        self._ended = ended
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=GRACE)
        self._looks: RegularLooks | None = None
        if tls is not None:
            try:
                certificate = ServedCertificate(*tls)
            except UnusableCertificate as error:
                raise CannotServe(str(error)) from None
            config.load()
            config.ssl = certificate.context
            look = ManagerWatch(partial(_look, certificate), "the certificate stays as it is")
            self._looks = RegularLooks(look, every=CERTIFICATE_LOOK_EVERY)
        self._socket = listening(listen, port)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="serves REST", daemon=True)

    def __enter__(self) -> Self:
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.set_threshold(*COLLECTION_THRESHOLDS)
        self._thread.start()
        if self._looks is not None:
            self._looks.start()
        log.info("serves at %s", self._url, extra=named("serves", url=self._url))
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._looks is not None:
            self._looks.stop()
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


def _look(certificate: ServedCertificate) -> None:
    try:
        if certificate.look():
            log.info("serves with the new certificate", extra=named("certificate"))
    except UnusableCertificate as error:
        log.error("%s; the one before stays in force", error)  # noqa: TRY400 - it says where and what to do


def listening(host: str, port: int) -> socket.socket:
    """A listening socket that sends without delay."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, port), family=family, backlog=2_048)
    except OSError as error:
        raise CannotServe(
            f"REST cannot be served on {host}, port {port}: {error.strerror}; stop what listens there, or choose "
            "another --listen or --port"
        ) from error
    # Accepted sockets inherit this. An answer is sent in two parts, and the second would wait up to 40 ms for the
    # acknowledgement of the first. asyncio sets the option only on sockets that name their protocol.
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server
