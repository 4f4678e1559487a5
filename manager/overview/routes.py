"""Routes of the overview, the journal, task types and metrics; and those that need no API key."""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import Metric as Family
from prometheus_client import exposition
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from pydantic import BaseModel

from braid_client.answers.base import Page
from braid_client.answers.overview import (
    AuditAnswer,
    OperationAnswer,
    OperationKind,
    OverviewAnswer,
    TaskTypeAnswer,
)
from manager.problem import TROUBLES, InvalidRequest, NotFound, StateNotReady
from manager.rest.dependencies import Text, TheCaller, TheNumberedPage, ThePage, TheService
from manager.rest.metrics import READY, RequestCounts
from manager.rest.openapi import OF_EVERY_CALLER, REQUEST_ID, documented, problems
from manager.savings.routes import time_in

router = APIRouter(prefix="/v1", tags=["overview"])


@router.get("/overview", **documented(StateNotReady))
def overview(service: TheService, caller: TheCaller) -> OverviewAnswer:
    """Say whether all is well, and count dataflows, tasks and jobs. A tenant sees only its own."""
    return service.overview.counts(caller)


operations_router = APIRouter(prefix="/v1", tags=["operations"])


@operations_router.get("/operations", **documented())
def operations(
    service: TheService,
    caller: TheCaller,
    page: TheNumberedPage,
    kind: Annotated[OperationKind | None, Query(description="Only those of this kind.")] = None,
    subject: Annotated[Text | None, Query(description="Only those on this dataflow, source, tenant or key.")] = None,
) -> Page[OperationAnswer]:
    """List the journal of operations, newest first. A tenant sees only its own, and why its dataflows adapt."""
    return service.operations.page(caller, page, kind=kind, subject=subject)


@operations_router.get("/audit", **documented())
def audit(  # noqa: PLR0913, PLR0917 - each is a parameter of the query
    service: TheService,
    caller: TheCaller,
    page: TheNumberedPage,
    by: Annotated[Text | None, Query(description="Only of this API key, or this subject at the provider.")] = None,
    since: Annotated[
        Text | None,
        Query(
            description="Only from this time on, such as 2026-03-01T12:00:00Z.",
            json_schema_extra={"format": "date-time"},
        ),
    ] = None,
    until: Annotated[
        Text | None, Query(description="Only before this time.", json_schema_extra={"format": "date-time"})
    ] = None,
) -> Page[AuditAnswer]:
    """List who did what, and what was refused, newest first. A tenant sees only its own."""
    return service.audit.page(caller, page, by=by, since=time_in("since", since), until=time_in("until", until))


task_types_router = APIRouter(prefix="/v1", tags=["task types"])


@task_types_router.get("/task-types", **documented())
def task_types(
    service: TheService,
    _caller: TheCaller,
    page: ThePage,
    name: Annotated[
        Text | None,
        Query(description="Only the one of this name, which may be in a namespace."),
    ] = None,
) -> Page[TaskTypeAnswer]:
    """List the installed task types by name, each with the JSON Schema of its configs."""
    return service.task_types.page(page, name=name)


metrics_router = APIRouter(tags=["metrics"])
_OPENMETRICS = "application/openmetrics-text"
_TEXT = {"schema": {"type": "string"}}


class _Collected(NamedTuple):
    """Metric families as a `Collector`."""

    families: tuple[Family, ...]

    def collect(self) -> tuple[Family, ...]:
        """Return the families."""
        return self.families


Collector.register(_Collected)


@metrics_router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={
        200: {"content": {"text/plain": _TEXT, _OPENMETRICS: _TEXT}, "headers": REQUEST_ID},
        **problems(*OF_EVERY_CALLER, StateNotReady),
    },
)
def metrics(request: Request, service: TheService, caller: TheCaller) -> PlainTextResponse:
    """Metrics for Prometheus, as text or OpenMetrics: of everything for operators, of its dataflows for a tenant."""
    requests: RequestCounts = request.app.state.requests
    ready = GaugeMetricFamily(READY.name, READY.about, value=request.app.state.awaits() is None)
    beside = (ready, *requests.families()) if caller.is_operator else ()
    collected = _Collected((*service.metrics.collect(caller), *beside))
    if _OPENMETRICS in request.headers.get("accept", ""):
        text = openmetrics.generate_latest(collected)  # type: ignore[no-untyped-call]  # this module has no types
        return PlainTextResponse(text, media_type=openmetrics.CONTENT_TYPE_LATEST)
    return PlainTextResponse(exposition.generate_latest(collected), media_type=exposition.CONTENT_TYPE_PLAIN_0_0_4)


health_router = APIRouter(tags=["open"])
_BY_CODE = {trouble.code: trouble for trouble in TROUBLES}


class Alive(BaseModel):
    """The process answers."""

    alive: Literal[True] = True


class Ready(BaseModel):
    """This manager leads, and runs what was committed."""

    ready: Literal[True] = True


@health_router.get("/healthz", responses=problems(InvalidRequest))
async def healthz() -> Alive:
    """Answer as long as the process lives, ready or not."""
    return Alive()


# Not async: it may block.
@health_router.get("/readyz", responses=problems(InvalidRequest, StateNotReady))
def readyz(request: Request) -> Ready:
    """Answer 200 once the manager leads and runs what was committed."""
    awaits: Callable[[], str | None] = request.app.state.awaits
    if (why := awaits()) is not None:
        raise StateNotReady(why)
    return Ready()


@health_router.get("/problems/{code}", response_class=PlainTextResponse, responses=problems(NotFound, InvalidRequest))
async def about(code: Annotated[Text, Path(description="The last part of a problem's type.")]) -> PlainTextResponse:
    """Explain a problem, and what to do about it."""
    if (trouble := _BY_CODE.get(code)) is None:
        raise NotFound("problem", code)
    return PlainTextResponse(f"{trouble.title} ({trouble.status})\n\n{trouble.about}\n")
