"""The route of a dataflow's history."""

from typing import Annotated

from fastapi import APIRouter, Query

from braid_client.answers.series import HistoryAnswer, HistoryRange
from manager.problem import NotFound
from manager.rest.dependencies import Text, TheCaller, TheDataflow, TheService
from manager.rest.openapi import documented
from manager.savings.routes import time_in

router = APIRouter(prefix="/v1", tags=["dataflows"])


@router.get("/dataflows/{id}/series", **documented(NotFound))
def dataflow_history(
    service: TheService,
    caller: TheCaller,
    dataflow: TheDataflow,
    reach: Annotated[HistoryRange, Query(alias="range", description="How far back it reaches.")] = HistoryRange.HOUR,
    since: Annotated[
        Text | None,
        Query(
            description="The time since when, in place of `range`, such as 2026-03-01T12:00:00Z.",
            json_schema_extra={"format": "date-time"},
        ),
    ] = None,
) -> HistoryAnswer:
    """Show what a dataflow did over time: events, latency, what waits, dead letters and cores, in up to 500 steps."""
    return service.histories.history(caller, dataflow, reach=reach, since=time_in("since", since))
