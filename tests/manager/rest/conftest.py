"""The app over a fake service, and clients of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import httpx
import pytest
from fastapi import FastAPI

from manager.kernel.live_events import LiveEvents
from manager.rest.app import make_app
from manager.rest.dependencies import RATE_SECONDS, RequestRates
from tests.manager.rest.fake_service import FakeService
from tests.manager.rest.socket_server import Switch, serving

Asking = Callable[[str | None], httpx.Client]


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def events() -> LiveEvents:
    return LiveEvents(last=0)


@pytest.fixture
def app(service: FakeService, events: LiveEvents) -> FastAPI:
    app = make_app(service.use_cases, events, lambda: None if service.leads else "another manager leads; ask that one")
    # A minute passes from each request to the next, so that tests may send as many as they like.
    app.state.rates = RequestRates(map(float, count(step=int(RATE_SECONDS))).__next__)
    return app


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[Switch, str]]:
    """A server whose app each test sets, and its URL."""
    switch = Switch()
    with serving(switch) as url:
        yield switch, url


@pytest.fixture
def ask(served: tuple[Switch, str], app: FastAPI, events: LiveEvents) -> Iterator[Asking]:
    """Clients that hold a key, or none."""
    switch, url = served
    switch.app = app
    with ExitStack() as stack:
        stack.callback(events.close)

        def client(key: str | None) -> httpx.Client:
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            return stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=20.0, trust_env=False))

        yield client


@pytest.fixture
def ann(ask: Asking, service: FakeService) -> httpx.Client:
    return ask(service.ann)


@pytest.fixture
def bob(ask: Asking, service: FakeService) -> httpx.Client:
    return ask(service.bob)


@pytest.fixture
def operator(ask: Asking, service: FakeService) -> httpx.Client:
    return ask(service.operator)
