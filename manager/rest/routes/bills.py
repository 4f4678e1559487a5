"""The route of bills, as JSON and as CSV."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from manager.answers import BillAnswer, TenantName
from manager.answers.bill_csv import as_csv
from manager.problem import NotFound
from manager.rest.dependencies import Text, TheCaller, TheService
from manager.rest.openapi import documented
from manager.rest.openapi_examples import reports
from manager.rest.routes.savings import time_in

CSV_MEDIA_TYPE = "text/csv"
_TIME = {"format": "date-time"}


def _documented() -> dict[str, Any]:
    described = documented(reports.BILL, NotFound)
    answer = described["responses"][200]
    answer["content"][CSV_MEDIA_TYPE] = {"schema": {"type": "string"}, "example": as_csv(reports.BILL)}
    return described


router = APIRouter(prefix="/v1", tags=["reports"])


# The response model describes the JSON; the CSV is described beside it.
@router.get("/reports/bills", response_model=BillAnswer, **_documented())
def bill(  # noqa: PLR0913, PLR0917 - each is a parameter of the query
    request: Request,
    service: TheService,
    caller: TheCaller,
    since: Annotated[
        Text | None,
        Query(
            alias="from",
            description="Start of the bill, rounded down to the hour. Default: the beginning of the month of its end.",
            json_schema_extra=_TIME,
        ),
    ] = None,
    until: Annotated[
        Text | None,
        Query(
            alias="to",
            description="End of the bill, rounded down to the hour. Default: the end of the current hour.",
            json_schema_extra=_TIME,
        ),
    ] = None,
    tenant: Annotated[TenantName | None, Query(description="Only this tenant.")] = None,
    form: Annotated[
        Literal["json", "csv"] | None,
        Query(alias="format", description="The format. Default: what the header `Accept` asks for, else JSON."),
    ] = None,
) -> Response | BillAnswer:
    """Bill some hours: what each tenant and each dataflow costs. The default is this month so far."""
    found = service.bills.bill(caller, since=time_in("from", since), until=time_in("to", until), tenant=tenant)
    if form == "json" or (form is None and not _wants_csv(request.headers.get("accept", ""))):
        return found
    name = f"braid-bill-{found.since:%Y-%m-%dT%H}-{found.until:%Y-%m-%dT%H}.csv"
    return Response(
        as_csv(found),
        media_type=CSV_MEDIA_TYPE,
        headers={"Content-Disposition": f'attachment; filename="{name}"', "Vary": "Accept"},
    )


def _wants_csv(accept: str) -> bool:
    """True if a header `Accept` prefers CSV to JSON.

    >>> [_wants_csv(each) for each in ("text/csv", "text/csv, */*;q=0.1", "application/json, text/csv", "*/*", "")]
    [True, True, False, False, False]
    """
    kinds = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    return CSV_MEDIA_TYPE in kinds and "application/json" not in kinds
