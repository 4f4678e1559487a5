"""Examples of reports: savings, in sum and in steps, and a bill."""

from datetime import UTC, datetime
from decimal import Decimal

from manager.answers import (
    BillAmount,
    BillAnswer,
    BillLine,
    BillWhole,
    CpuAnswer,
    EstimateAnswer,
    PointAnswer,
    SavedAnswer,
    SavingsAnswer,
    SeriesAnswer,
    ShareAnswer,
    WholeAnswer,
)
from manager.rest.openapi_examples import resources

_THEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
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


def _cpu(cores: float) -> CpuAnswer:
    """For an hour."""
    return CpuAnswer(cpu_ns=round(cores * 3_600) * 10**9, cores=cores, price=round(cores * 0.05, 6))


def _estimate(low: float, likely: float, high: float) -> EstimateAnswer:
    return EstimateAnswer(low=low, likely=likely, high=high, price=round(likely * 0.05, 6))


_SAVED = SavedAnswer(work_by_sharing=0.375, cores_by_sharing=_cpu(0.02), cores_by_packing=_estimate(0.02, 0.04, 0.06))
SAVINGS = SavingsAnswer(
    since=_THEN,
    until=_THEN.replace(hour=13),
    metered_seconds=3_600.0,
    tenants=2,
    whole=WholeAnswer(
        measured=_cpu(0.3),
        parts={"driver": _cpu(0.08), "jvm": _cpu(0.1), "worker": _cpu(0.1), "broker": _cpu(0.02)},
        overhead=_cpu(0.14),
        others=_cpu(0.1),
        alone_launched=_estimate(0.75, 0.9, 1.05),
        alone_packed=_estimate(0.38, 0.4, 0.42),
        saved=SavedAnswer(work_by_sharing=0.5, cores_by_sharing=_cpu(0.1), cores_by_packing=_estimate(0.35, 0.5, 0.65)),
    ),
    shares=(
        ShareAnswer(
            tenant="ann",
            share=_cpu(0.06),
            alone=_estimate(0.1, 0.12, 0.14),
            saved=_SAVED,
        ),
    ),
    dataflows=(
        ShareAnswer(
            tenant="ann",
            dataflow=resources.DATAFLOW.id,
            share=_cpu(0.06),
            alone=_estimate(0.1, 0.12, 0.14),
            saved=_SAVED,
        ),
    ),
    price_per_core_hour=0.05,
    currency="EUR",
)
_SHARE, _WHOLE = SAVINGS.shares[0], SAVINGS.whole
SERIES = SeriesAnswer(
    since=SAVINGS.since,
    until=SAVINGS.until,
    step=3_600,
    tenant="ann",
    points=(
        PointAnswer(
            at=SAVINGS.since,
            metered_seconds=3_600.0,
            measured=None if _WHOLE is None else _WHOLE.measured,
            alone_launched=None if _WHOLE is None else _WHOLE.alone_launched,
            alone_packed=None if _WHOLE is None else _WHOLE.alone_packed,
            share=_SHARE.share,
            alone=_SHARE.alone,
        ),
    ),
)
