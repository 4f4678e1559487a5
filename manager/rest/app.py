"""The app: all routers, and what all requests have in common."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

from manager.metrics.request_counts import RequestCounts
from manager.rest import console_files
from manager.rest.dependencies import only_known_parameters
from manager.rest.openapi import describe, parameters
from manager.rest.problem_responses import answer_troubles
from manager.rest.request_log import RequestLog
from manager.rest.request_rates import RequestRates
from manager.rest.routes import (
    adaptations,
    administration,
    bills,
    dataflows,
    dead_letters,
    defragmentation,
    health,
    jobs,
    metrics,
    modules,
    operations,
    overview,
    reconfigurations,
    savings,
    sessions,
    source_events,
    sources,
    task_types,
    tenant_secrets,
    wheels,
)
from manager.rest.streams import live_events, output_samples, output_stream
from manager.rest.streams.live_events import EventBuffer, EventFeed
from manager.rest.turns import DocumentTurns
from manager.service import Service

ROUTERS = tuple(
    family.router
    for family in (
        overview,
        dataflows,
        adaptations,
        reconfigurations,
        sources,
        source_events,
        task_types,
        modules,
        wheels,
        administration,
        tenant_secrets,
        jobs,
        defragmentation,
        operations,
        savings,
        bills,
        dead_letters,
        live_events,
        metrics,
        output_samples,
        output_stream,
        sessions,
        health,
        console_files,
    )
)
"""All routers."""


def make_app(service: Service, events: EventBuffer, awaits: Callable[[], str | None]) -> FastAPI:
    """Make the app over a service; `awaits` returns what the manager waits for, and None once it is ready."""
    app = _routed()
    app.state.service = service
    app.state.feed = EventFeed(events)
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
        # They load scripts from other sites.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_operation,
    )
    for router in ROUTERS:
        app.include_router(router, dependencies=[Depends(only_known_parameters)])
    describe(app)
    return app


# The same for every app, and slow to make.
@cache
def _parameters() -> Mapping[tuple[str, str], frozenset[str]]:
    return parameters(_routed())


def _operation(route: APIRoute) -> str:
    return route.name
