"""Intervals of whole minutes or hours, and the answers for the shares that were metered in them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from manager.answers import CpuAnswer, EstimateAnswer, SavedAnswer, ShareAnswer, WholeAnswer
from manager.savings.counter_growth import CPU_PARTS, SECOND
from manager.savings.cpu_estimate import CpuEstimate
from manager.savings.ledger import HOUR, KEPT, MINUTE, MeteredShare, Whole
from manager.savings.saved_cpu import SavedCpu

_NANOSECONDS_PER_HOUR = HOUR * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The minutes or hours that begin between two times; made by `interval`."""

    span: int
    """Seconds of a minute or an hour."""
    since: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountScale:
    """Converts CPU to answers, given the metered time and the price."""

    seconds: float
    price_per_core_hour: float | None = None

    def cpu(self, nanoseconds: int) -> CpuAnswer:
        """Return the answer for measured CPU."""
        return CpuAnswer(cpu_ns=nanoseconds, cores=self._cores(nanoseconds), price=self._price(nanoseconds))

    def estimate(self, estimate: CpuEstimate) -> EstimateAnswer:
        """Return the answer for estimated CPU."""
        return EstimateAnswer(
            low=self._cores(estimate.low),
            likely=self._cores(estimate.likely),
            high=self._cores(estimate.high),
            price=self._price(estimate.likely),
        )

    def saved(self, saved: SavedCpu) -> SavedAnswer:
        """Return the answer for what was saved."""
        work, cpu = saved.work_by_sharing, saved.by_sharing
        return SavedAnswer(
            work_by_sharing=None if work is None else round(work, 6),
            cores_by_sharing=None if cpu is None else self.cpu(cpu),
            cores_by_packing=self.estimate(saved.by_packing),
        )

    def _cores(self, nanoseconds: int) -> float:
        return _rounded(nanoseconds / SECOND / self.seconds) if self.seconds else 0.0

    def _price(self, nanoseconds: int) -> float | None:
        if self.price_per_core_hour is None:
            return None
        return _rounded(nanoseconds / _NANOSECONDS_PER_HOUR * self.price_per_core_hour)


def interval(since: datetime | None, until: datetime | None, now: float) -> Interval:
    """Return the interval from one time to another; by default, the last hour.

    It is in minutes if these are still kept, otherwise in hours. Its bounds are rounded outwards.
    """
    end = min(until.timestamp(), now) if until is not None else now
    begin = max(since.timestamp(), 0.0) if since is not None else end - HOUR
    span = MINUTE if begin >= now - KEPT + MINUTE else HOUR
    return Interval(span=span, since=math.floor(begin / span) * span, until=math.ceil(end / span) * span)


def whole_answer(whole: Whole, shown: Iterable[MeteredShare], scale: AmountScale) -> WholeAnswer:
    """Return the answer for the measured whole; `shown` are the shares listed in the same answer."""
    return WholeAnswer(
        measured=scale.cpu(whole.measured),
        parts={part: scale.cpu(whole.cpu[part]) if part in whole.cpu else None for part in CPU_PARTS},
        overhead=scale.cpu(whole.overhead),
        others=scale.cpu(whole.measured - whole.overhead - sum(each.cpu for each in shown)),
        alone_launched=scale.estimate(whole.launched),
        alone_packed=scale.estimate(whole.packed),
        saved=scale.saved(whole.saved),
    )


def shares(found: Mapping[str, MeteredShare], scale: AmountScale) -> tuple[ShareAnswer, ...]:
    """Return the answers for the shares of tenants."""
    return tuple(_share(tenant, None, each, scale) for tenant, each in found.items())


def dataflow_shares(tenant: str, found: Mapping[str, MeteredShare], scale: AmountScale) -> tuple[ShareAnswer, ...]:
    """Return the answers for the shares of a tenant's dataflows."""
    return tuple(_share(tenant, dataflow, each, scale) for dataflow, each in found.items())


def moment(seconds: int) -> datetime:
    """Return seconds since 1970 as a time."""
    return datetime.fromtimestamp(seconds, UTC)


def _share(tenant: str, dataflow: str | None, share: MeteredShare, scale: AmountScale) -> ShareAnswer:
    return ShareAnswer(
        tenant=tenant,
        dataflow=dataflow,
        share=scale.cpu(share.cpu),
        alone=scale.estimate(share.alone),
        saved=scale.saved(share.saved),
    )


def _rounded(value: float) -> float:
    # Not -0.0.
    return round(value, 6) + 0.0
