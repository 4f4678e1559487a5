"""The route of metrics, for Prometheus."""

from typing import NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import Metric as Family
from prometheus_client import exposition
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from manager.metrics.catalogue import READY
from manager.metrics.request_counts import RequestCounts
from manager.problem import Forbidden
from manager.rest.dependencies import TheCaller, TheService
from manager.rest.openapi import OF_EVERY_CALLER, REQUEST_ID, problems

router = APIRouter(tags=["metrics"])
_OPENMETRICS = "application/openmetrics-text"
_TEXT = {"schema": {"type": "string"}}


class _Collected(NamedTuple):
    """Metric families as a `Collector`."""

    families: tuple[Family, ...]

    def collect(self) -> tuple[Family, ...]:
        """Return the families."""
        return self.families


Collector.register(_Collected)


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={
        200: {"content": {"text/plain": _TEXT, _OPENMETRICS: _TEXT}, "headers": REQUEST_ID},
        **problems(*OF_EVERY_CALLER, Forbidden),
    },
)
def metrics(request: Request, service: TheService, caller: TheCaller) -> PlainTextResponse:
    """Metrics for Prometheus, as text or OpenMetrics; operators only."""
    requests: RequestCounts = request.app.state.requests
    ready = GaugeMetricFamily(READY.name, READY.about, value=request.app.state.awaits() is None)
    collected = _Collected((*service.metrics.collect(caller), ready, *requests.families()))
    if _OPENMETRICS in request.headers.get("accept", ""):
        text = openmetrics.generate_latest(collected)  # type: ignore[no-untyped-call]  # this module has no types
        return PlainTextResponse(text, media_type=openmetrics.CONTENT_TYPE_LATEST)
    return PlainTextResponse(exposition.generate_latest(collected), media_type=exposition.CONTENT_TYPE_PLAIN_0_0_4)
