"""The app: the routers of all families, and what is the same for every request."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

from manager.metrics.asked import Asked
from manager.rest import (
    administration,
    bills,
    console,
    dataflows,
    dead_letters,
    defragmenting,
    metrics,
    operations,
    overview,
    running,
    savings,
    secrets,
    sending,
    session,
    sources,
    tailing,
    watching,
)
from manager.rest import events as live
from manager.rest import open as without_key
from manager.rest.asking import only_known_parameters
from manager.rest.described import describe, parameters
from manager.rest.events import Events, Feed
from manager.rest.problems import answer_troubles
from manager.rest.requests import Requests
from manager.service import Service

ROUTERS = tuple(
    family.router
    for family in (
        overview,
        dataflows,
        sources,
        sending,
        administration,
        secrets,
        running,
        defragmenting,
        operations,
        savings,
        bills,
        dead_letters,
        live,
        metrics,
        watching,
        tailing,
        session,
        without_key,
        console,
    )
)
"""All of them, a family each."""


def make_app(service: Service, events: Events, awaits: Callable[[], str | None]) -> FastAPI:
    """The app over a service; `awaits` says what a manager that is not ready waits for, and None once it is."""
    app = _routed()
    app.state.service = service
    app.state.feed = Feed(events)
    app.state.awaits = awaits
    app.state.parameters = _parameters()
    answer_troubles(app, ROUTERS)
    app.state.asked = Asked()
    app.add_middleware(Requests, asked=app.state.asked)
    return app


def _routed() -> FastAPI:
    app = FastAPI(
        title="Braid",
        summary="Runs the streaming dataflows of many tenants as few Spark jobs.",
        version=version("braid"),
        # They load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation,
    )
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(only_known_parameters)])
    describe(app)
    return app


# The same for every app, and as slow to make as all that OpenAPI says.
@cache
def _parameters() -> Mapping[tuple[str, str], frozenset[str]]:
    return parameters(_routed())


def _operation(route: APIRoute) -> str:
    return route.name
