"""Routes of reports: what sharing saves, now and over time, and who pays for what."""

import re
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from dags.problems import pointer, quoted
from manager.answers import SavingsAnswer, SeriesAnswer, TenantName
from manager.problem import FieldError, InvalidRequest, NotFound
from manager.rest.dependencies import Text, TheCaller, TheService
from manager.rest.openapi import told
from manager.rest.openapi_examples import reports
from manager.savings.ledger import MINUTE
from manager.savings.steps import LONGEST_STEP

_FORMAT = {"format": "date-time"}
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
"""As RFC 3339 has it: with a zone, so that everybody means the same."""

Since = Annotated[
    Text | None,
    Query(
        alias="from",
        description="When the interval begins, such as 2026-03-01T12:00:00Z; an hour before its end if not given.",
        json_schema_extra=_FORMAT,
    ),
]
Until = Annotated[
    Text | None, Query(alias="to", description="When it ends; now if not given.", json_schema_extra=_FORMAT)
]
router = APIRouter(prefix="/v1", tags=["reports"])


@router.get("/reports/savings", **told(reports.SAVINGS, NotFound))
def savings(  # noqa: PLR0913, PLR0917 - each is a parameter, which callers name
    service: TheService,
    caller: TheCaller,
    since: Since = None,
    until: Until = None,
    tenant: Annotated[TenantName | None, Query(description="Of this tenant, with its dataflows.")] = None,
    dataflow: Annotated[Text | None, Query(description="Of this dataflow, which may be removed.")] = None,
) -> SavingsAnswer:
    """Say what sharing saved and who pays for what, over the last hour if no interval is given."""
    return service.savings.report(
        caller, since=time_in("from", since), until=time_in("to", until), tenant=tenant, dataflow=dataflow
    )


@router.get("/reports/savings/series", **told(reports.SERIES, NotFound))
def savings_series(  # noqa: PLR0913, PLR0917 - as above
    service: TheService,
    caller: TheCaller,
    since: Since = None,
    until: Until = None,
    step: Annotated[
        int | None,
        Query(ge=MINUTE, le=LONGEST_STEP, description="Seconds of a step; what makes a readable chart if not given."),
    ] = None,
    tenant: Annotated[TenantName | None, Query(description="Also the share of this tenant.")] = None,
) -> SeriesAnswer:
    """Say in steps what was measured and what separate execution would have taken; a tenant is told its own share."""
    return service.savings.series(
        caller, since=time_in("from", since), until=time_in("to", until), step=step, tenant=tenant
    )


def time_in(parameter: str, text: str | None) -> datetime | None:
    """The time that a parameter of the query says."""
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
