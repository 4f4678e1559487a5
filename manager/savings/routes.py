"""Routes of savings, in sum and over time, and of bills, as JSON and as CSV."""

import re
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from braid_client.answers.base import TenantName
from braid_client.answers.savings import BillAnswer, SavingsAnswer, SeriesAnswer, as_csv
from dags.problems import pointer, quoted
from manager.problem import FieldError, InvalidRequest, NotFound
from manager.rest.dependencies import OnlyOfDataflow, Text, TheCaller, TheService
from manager.rest.examples import example
from manager.rest.openapi import documented
from manager.savings.ledger import LONGEST_STEP, MINUTE

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


@router.get("/reports/savings", **documented(NotFound))
def savings(  # noqa: PLR0913, PLR0917 - each is a parameter of the query
    service: TheService,
    caller: TheCaller,
    since: Since = None,
    until: Until = None,
    tenant: Annotated[TenantName | None, Query(description="Only this tenant, with its dataflows.")] = None,
    dataflow: OnlyOfDataflow = None,
) -> SavingsAnswer:
    """Report what sharing saved and who pays for what. The default interval is the last hour."""
    return service.savings.report(
        caller, since=time_in("from", since), until=time_in("to", until), tenant=tenant, dataflow=dataflow
    )


@router.get("/reports/savings/series", **documented(NotFound))
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
    message, remedy = f"{quoted(text)} is no time with a zone", "write it as 2026-03-01T12:00:00Z"
    error = FieldError(pointer=pointer("query", parameter), code="no-time", message=message, remedy=remedy)
    raise InvalidRequest([error])


CSV_MEDIA_TYPE = "text/csv"


bills_router = APIRouter(prefix="/v1", tags=["reports"])


# The response model describes the JSON; the CSV is described beside it.
@bills_router.get(
    "/reports/bills",
    response_model=BillAnswer,
    **documented(NotFound, media={CSV_MEDIA_TYPE: as_csv(example(BillAnswer))}),
)
def bill(  # noqa: PLR0913, PLR0917 - each is a parameter of the query
    request: Request,
    service: TheService,
    caller: TheCaller,
    since: Annotated[
        Text | None,
        Query(
            alias="from",
            description="Start of the bill, rounded down to the hour. Default: the beginning of the month of its end.",
            json_schema_extra=_FORMAT,
        ),
    ] = None,
    until: Annotated[
        Text | None,
        Query(
            alias="to",
            description="End of the bill, rounded down to the hour. Default: the end of the current hour.",
            json_schema_extra=_FORMAT,
        ),
    ] = None,
    tenant: Annotated[TenantName | None, Query(description="Only this tenant.")] = None,
    form: Annotated[
        Literal["json", "csv"] | None,
        Query(alias="format", description="The format. Default: what the header `Accept` asks for, else JSON."),
    ] = None,
) -> Response | BillAnswer:
    """Bill some hours: what each tenant and each dataflow costs. The default is this month so far."""
    answer = service.bills.bill(caller, since=time_in("from", since), until=time_in("to", until), tenant=tenant)
    if form == "json" or (form is None and not _wants_csv(request.headers.get("accept", ""))):
        return answer
    name = f"braid-bill-{answer.since:%Y-%m-%dT%H}-{answer.until:%Y-%m-%dT%H}.csv"
    return Response(
        as_csv(answer),
        media_type=CSV_MEDIA_TYPE,
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Vary": "Accept"},
    )


def _wants_csv(accept: str) -> bool:
    """True if a header `Accept` prefers CSV to JSON.

    >>> [_wants_csv(accept) for accept in ("text/csv", "text/csv, */*;q=0.1", "application/json, text/csv", "*/*", "")]
    [True, True, False, False, False]
    """
    kinds = [kind.partition(";")[0].strip().lower() for kind in accept.split(",")]
    return CSV_MEDIA_TYPE in kinds and "application/json" not in kinds
