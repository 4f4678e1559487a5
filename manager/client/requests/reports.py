"""The requests for reports and the journal."""

from datetime import datetime

from manager.answers import BillAnswer, OperationAnswer, OperationKind, Page, SavingsAnswer, SeriesAnswer
from manager.client.requests.request import Request, given, list_request


def savings(
    *,
    since: datetime | None,
    until: datetime | None,
    tenant: str | None,
    dataflow: str | None,
) -> Request[SavingsAnswer]:
    """The savings of an interval."""
    query = given(**_times(since, until), tenant=tenant, dataflow=dataflow)
    return Request(path="/v1/reports/savings", answer=SavingsAnswer, query=query)


def savings_series(
    *,
    since: datetime | None,
    until: datetime | None,
    step: int | None,
    tenant: str | None,
) -> Request[SeriesAnswer]:
    """The savings of each step of an interval."""
    query = given(**_times(since, until), step=None if step is None else str(step), tenant=tenant)
    return Request(path="/v1/reports/savings/series", answer=SeriesAnswer, query=query)


def bill(*, since: datetime | None, until: datetime | None, tenant: str | None) -> Request[BillAnswer]:
    """The costs of each tenant and dataflow in an interval of whole hours."""
    query = given(**_times(since, until), tenant=tenant)
    return Request(path="/v1/reports/bills", answer=BillAnswer, query=query)


def operations(*, kind: OperationKind | None, subject: str | None) -> Request[Page[OperationAnswer]]:
    """The journal."""
    return list_request("/v1/operations", Page[OperationAnswer], given(kind=kind, subject=subject))


def _times(since: datetime | None, until: datetime | None) -> dict[str, str | None]:
    return {name: None if at is None else at.isoformat() for name, at in (("from", since), ("to", until))}
