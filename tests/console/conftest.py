"""Fixtures: the console in a real browser, over the real service without hosts."""

import asyncio
from asyncio.events import _set_running_loop
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)

from braid_client.answers.tenants import KeyForm, TenantForm
from manager.kernel.live_events import LiveEvents
from manager.rest.app import make_app
from manager.service import Service, service_of
from manager.use_case import Tools
from tests import needs
from tests.manager.managers import Seen
from tests.manager.rest.real_service import in_folder, real_service
from tests.manager.rest.socket_server import serving
from tests.manager.rest.town import Town, town

PATIENCE = 10_000.0
"""The milliseconds that a test waits for an expectation."""
_OF_THE_API = "Failed to load resource"
_OF_PROGRAMS = ("/v1/", "/sign-in")
_LOOP: list[asyncio.AbstractEventLoop] = []
"""The browser's event loop. While it counts as running, no other loop could run in its thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleService:
    """A service with a console; made by `console_service`, for all tests of a module."""

    url: str
    town: Town
    seen: Seen
    """The status of hosts and jobs; a test fills it in."""
    events: LiveEvents
    """The live events."""

    @property
    def service(self) -> Service:
        return self.town.service

    @property
    def tools(self) -> Tools:
        return self.town.tools

    @property
    def app(self) -> FastAPI:
        return self.town.app

    def equip(self, **tools: Any) -> None:
        """Have the console served by a service with other tools; `service` stays."""
        self.app.state.service = service_of(replace(self.tools, **tools))

    @property
    def keys(self) -> dict[str, str]:
        """API keys of the operator and of the tenants ann, bob, city and poor."""
        return self.town.keys

    @property
    def places(self) -> dict[str, str]:
        """The ids of dataflows, by their role in the town."""
        return self.town.places


class _Watch:
    """Records what a page must not do: errors, warnings, requests to other hosts."""

    def __init__(self, host: str, others: frozenset[str]) -> None:
        self.host = host
        self.others = others
        self.wrong: list[str] = []

    def over(self, page: Page) -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("request", self._asked)
        page.on("response", self._answered)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        # The browser logs each answer that is not a success, and each request that a test makes fail.
        if urlsplit(message.location["url"]).netloc in self.others:
            return
        if message.text.startswith(_OF_THE_API) and urlsplit(message.location["url"]).path.startswith(_OF_PROGRAMS):
            return
        self.wrong.append(f"{message.type}: {message.text} ({message.location['url']})")

    def _asked(self, request: Request) -> None:
        where = urlsplit(request.url)
        if where.netloc not in {self.host, *self.others} and where.scheme not in {"data", "blob"}:
            self.wrong.append(f"asked elsewhere: {request.url}")

    def _answered(self, response: Response) -> None:
        if response.status >= 500 and response.status != 503:
            self.wrong.append(f"answered {response.status}: {response.url}")


class PageFor(Protocol):
    """Opens pages; made by `page_for`."""

    def __call__(self, key: str | None, at: str = "#/", **options: Any) -> Page:
        """A page in a fresh context, signed in with a key if one is given, at a place in the console."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    executable = needs.chromium()
    with sync_playwright() as playwright:
        # Root cannot use its sandbox.
        made = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        expect.set_options(timeout=PATIENCE)
        loop = asyncio.get_running_loop()
        _set_running_loop(None)
        _LOOP.append(loop)
        yield made
        _LOOP.clear()
        _set_running_loop(loop)
        made.close()


@pytest.fixture(scope="module")
def console_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleService]:
    """The town of `tests.manager.rest.town`, with settable statuses and live events."""
    seen = Seen()
    with town(tmp_path_factory.mktemp("console"), seeing=seen) as made, console_over(made, seen) as served:
        yield served


@contextmanager
def console_over(made: Town, seen: Seen) -> Iterator[ConsoleService]:
    """The console of a town, with live events."""
    events = LiveEvents(last=0)
    app = make_app(made.service, events, lambda: None)
    whole = Town(service=made.service, tools=made.tools, app=app, keys=made.keys, places=made.places)
    with serving(app) as url:
        yield ConsoleService(url=url, town=whole, seen=seen, events=events)
        # Open streams would delay the end.
        events.close()


@contextmanager
def empty_town(folder: Path, seen: Seen) -> Iterator[Town]:
    """A service to which nobody has submitted anything, with the tenant ann."""
    with real_service(in_folder(folder), seeing=seen) as made:
        administration = made.service.administration
        operator = administration.caller(made.key)
        administration.admit(operator, TenantForm(name="ann"))
        keys = {"operator": made.key, "ann": administration.make_key(operator, KeyForm(tenant="ann")).key}
        app = make_app(made.service, LiveEvents(last=0), lambda: None)
        yield Town(service=made.service, tools=made.tools, app=app, keys=keys, places={})


@pytest.fixture
def page_for(browser: Browser, console_service: ConsoleService) -> Iterator[PageFor]:
    """Open pages of the town's console."""
    with pages_of(browser, console_service.url) as opened:
        yield opened


@contextmanager
def pages_of(browser: Browser, url: str, *others: str) -> Iterator[PageFor]:
    """Open pages of a console; the test fails if one has an error, or sends a request to another host than `others`."""
    (loop,) = _LOOP
    _set_running_loop(loop)
    contexts: list[BrowserContext] = []
    watches: list[_Watch] = []

    def opened(key: str | None, at: str = "#/", **options: Any) -> Page:
        settings = {"locale": "en-GB", "timezone_id": "UTC", "reduced_motion": "reduce", **options}
        context = browser.new_context(base_url=url, **settings)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        if key is not None:
            answer = context.request.post("/v1/session", data={"key": key})
            assert answer.ok, answer.text()
        page = context.new_page()
        watch = _Watch(urlsplit(url).netloc, frozenset(others))
        watch.over(page)
        watches.append(watch)
        page.goto(f"/{at}")
        return page

    yield opened
    for context in contexts:
        context.close()
    # Other suites run their own loops.
    _set_running_loop(None)
    assert [] == [wrong for watch in watches for wrong in watch.wrong]
