"""Reporting: which minutes or hours an interval is, and what was metered in them as it is answered."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from manager.answers import CpuAnswer, EstimateAnswer, ShareAnswer, WholeAnswer
from manager.savings.counter_growth import CPU_PARTS, SECOND
from manager.savings.ledger import HOUR, KEPT, MINUTE, Took, Whole
from manager.savings.settlement import Estimate, Work
from merge import work_saved

_NANOSECONDS_PER_HOUR = HOUR * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The minutes or hours that begin in it are added up; made by `interval`."""

    span: int
    """Seconds of one of them."""
    since: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountScale:
    """How amounts are told: over which time, and at which price."""

    seconds: float
    price_per_core_hour: float | None = None

    def cpu(self, nanoseconds: int) -> CpuAnswer:
        """CPU that was taken."""
        return CpuAnswer(cpu_ns=nanoseconds, cores=self._cores(nanoseconds), price=self._price(nanoseconds))

    def estimate(self, estimate: Estimate) -> EstimateAnswer:
        """CPU that would have been taken."""
        return EstimateAnswer(
            low=self._cores(estimate.low),
            likely=self._cores(estimate.likely),
            high=self._cores(estimate.high),
            price=self._price(estimate.likely),
        )

    def _cores(self, nanoseconds: int) -> float:
        return round(nanoseconds / SECOND / self.seconds, 6) if self.seconds else 0.0

    def _price(self, nanoseconds: int) -> float | None:
        if self.price_per_core_hour is None:
            return None
        return round(nanoseconds / _NANOSECONDS_PER_HOUR * self.price_per_core_hour, 6)


def interval(since: datetime | None, until: datetime | None, now: float) -> Interval:
    """The interval from one time to another; the last hour where neither is given.

    By minutes where these are kept yet, else by whole hours; its bounds are moved apart to theirs.
    """
    end = min(until.timestamp(), now) if until is not None else now
    begin = max(since.timestamp(), 0.0) if since is not None else end - HOUR
    span = MINUTE if begin >= now - KEPT + MINUTE else HOUR
    return Interval(span=span, since=math.floor(begin / span) * span, until=math.ceil(end / span) * span)


def whole_answer(whole: Whole, shown: Iterable[Took], told: AmountScale) -> WholeAnswer:
    """What everything took; `shown` are the shares that stand beside it."""
    measured = sum(whole.cpu.values())
    return WholeAnswer(
        measured=told.cpu(measured),
        parts={part: told.cpu(whole.cpu[part]) if part in whole.cpu else None for part in CPU_PARTS},
        overhead=told.cpu(whole.overhead),
        others=told.cpu(measured - whole.overhead - sum(each.cpu for each in shown)),
        alone_launched=told.estimate(whole.launched),
        alone_packed=told.estimate(whole.packed),
        saving_by_sharing=told.estimate(_beyond(whole.packed, _exactly(measured))),
        saving_by_packing=told.estimate(_beyond(whole.launched, whole.packed)),
        work_saved=_work_saved(whole.work),
    )


def shares(took: Mapping[str, Took], told: AmountScale) -> tuple[ShareAnswer, ...]:
    """The shares of tenants."""
    return tuple(_share(tenant, None, each, told) for tenant, each in took.items())


def dataflow_shares(tenant: str, took: Mapping[str, Took], told: AmountScale) -> tuple[ShareAnswer, ...]:
    """The shares of dataflows of a tenant."""
    return tuple(_share(tenant, dataflow, each, told) for dataflow, each in took.items())


def moment(seconds: int) -> datetime:
    """A bound of an interval."""
    return datetime.fromtimestamp(seconds, UTC)


def _share(tenant: str, dataflow: str | None, took: Took, told: AmountScale) -> ShareAnswer:
    return ShareAnswer(
        tenant=tenant,
        dataflow=dataflow,
        share=told.cpu(took.cpu),
        alone=told.estimate(took.alone),
        saving=told.estimate(took.saving),
        work_saved=_work_saved(took.work),
    )


def _work_saved(work: Work) -> float | None:
    saved = work_saved(work.done, work.alone)
    return None if saved is None else round(saved, 6)


def _exactly(nanoseconds: int) -> Estimate:
    return Estimate(low=nanoseconds, likely=nanoseconds, high=nanoseconds)


def _beyond(more: Estimate, less: Estimate) -> Estimate:
    """What one takes beyond the other; they hang on the same prices, so they are off to the same side."""
    likely = more.likely - less.likely
    bounds = (more.low - less.low, likely, more.high - less.high)
    return Estimate(low=min(bounds), likely=likely, high=max(bounds))
