"""Examples for OpenAPI of reports that tell money and time: the bill of the city, and its savings in steps."""

from datetime import UTC, datetime
from decimal import Decimal

from manager.answers import (
    BillAmount,
    BillAnswer,
    BillLine,
    BillWhole,
    PointAnswer,
    SeriesAnswer,
)
from manager.rest.openapi_examples import resources

_BEGIN, _END = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)


def _paid(hours: str, amount: str) -> BillAmount:
    core_hours = Decimal(hours)
    return BillAmount(cpu_ns=int(core_hours * 3_600 * 10**9), core_hours=core_hours, amount=Decimal(amount))


_LINE = BillLine(tenant="ann", pays=_paid("44.640000", "2.232000"), most=_paid("89.280000", "4.464000"))
BILL = BillAnswer(
    since=_BEGIN,
    until=_END,
    complete=True,
    metered_seconds=2_678_400.0,
    tenants=(_LINE,),
    dataflows=(_LINE.model_copy(update={"dataflow": resources.SUBMIT_ANSWER.id, "name": "averages"}),),
    whole=BillWhole(
        measured=_paid("223.200000", "11.160000"),
        others=_paid("74.400000", "3.720000"),
        overhead=_paid("104.160000", "5.208000"),
    ),
    price_per_core_hour=Decimal("0.05"),
    currency="EUR",
)
_SHARE, _WHOLE = resources.SAVINGS.shares[0], resources.SAVINGS.whole
SERIES = SeriesAnswer(
    since=resources.SAVINGS.since,
    until=resources.SAVINGS.until,
    step=3_600,
    tenant="ann",
    points=(
        PointAnswer(
            at=resources.SAVINGS.since,
            metered_seconds=3_600.0,
            measured=None if _WHOLE is None else _WHOLE.measured,
            alone_launched=None if _WHOLE is None else _WHOLE.alone_launched,
            alone_packed=None if _WHOLE is None else _WHOLE.alone_packed,
            share=_SHARE.share,
            alone=_SHARE.alone,
        ),
    ),
)
