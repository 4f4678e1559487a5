"""Routes of savings, in sum and over time."""

import re
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from dags.problems import pointer, quoted
from manager.answers import SavingsAnswer, SeriesAnswer, TenantName
from manager.problem import FieldError, InvalidRequest, NotFound
from manager.rest.dependencies import Text, TheCaller, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import reports
from manager.savings.ledger import MINUTE
from manager.savings.steps import LONGEST_STEP

_FORMAT = {"format": "date-time"}
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
"""RFC 3339, always with a time zone."""

Since = Annotated[
    Text | None,
    Query(
        alias="from",
        description="Start of the interval, such as 2026-03-01T12:00:00Z. Default: an hour before the end.",
        json_schema_extra=_FORMAT,
    ),
]
Until = Annotated[
    Text | None, Query(alias="to", description="End of the interval. Default: now.", json_schema_extra=_FORMAT)
]
router = APIRouter(prefix="/v1", tags=["reports"])


@router.get("/reports/savings", **documented(reports.SAVINGS, NotFound))
def savings(  # noqa: PLR0913, PLR0917 - each is a parameter of the query
    service: TheService,
    caller: TheCaller,
    since: Since = None,
    until: Until = None,
    tenant: Annotated[TenantName | None, Query(description="Only this tenant, with its dataflows.")] = None,
    dataflow: Annotated[Text | None, Query(description="Only this dataflow. It may be removed.")] = None,
) -> SavingsAnswer:
    """Report what sharing saved and who pays for what. The default interval is the last hour."""
    return service.savings.report(
        caller, since=time_in("from", since), until=time_in("to", until), tenant=tenant, dataflow=dataflow
    )


@router.get("/reports/savings/series", **documented(reports.SERIES, NotFound))
def savings_series(  # noqa: PLR0913, PLR0917 - as above
    service: TheService,
    caller: TheCaller,
    since: Since = None,
    until: Until = None,
    step: Annotated[
        int | None,
        Query(
            ge=MINUTE,
            le=LONGEST_STEP,
            description="Length of a step in seconds. Default: one that makes a readable chart.",
        ),
    ] = None,
    tenant: Annotated[TenantName | None, Query(description="Add the share of this tenant.")] = None,
) -> SeriesAnswer:
    """Report savings over time: in each step what was measured, and what separate execution would have taken."""
    return service.savings.series(
        caller, since=time_in("from", since), until=time_in("to", until), step=step, tenant=tenant
    )


def time_in(parameter: str, text: str | None) -> datetime | None:
    """Parse the time in a parameter of the query."""
    if text is None:
        return None
    try:
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text.upper())
    except ValueError:
        # Such as the 30th of February.
        pass
    raise InvalidRequest(
        [
            FieldError(
                pointer=pointer("query", parameter),
                code="no-time",
                message=f"{quoted(text)} is no time with a zone",
                remedy="write it as 2026-03-01T12:00:00Z",
            )
        ]
    )
