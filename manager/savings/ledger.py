"""The ledger: metered shares in the database, and what is answered of them for intervals and their steps.

A minute is written once, under the term of the leading manager, and added to its hour in the same transaction,
so a retry counts nothing twice. Only the leading manager writes.

Saved CPU: the one set of figures that every report shows of savings. Sharing saves work: a task that several
dataflows use runs once. Packing saves the rest of what separate jobs would take: batches, less what bridges and
paused tasks cost. So both add up to the difference from running alone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce
from itertools import zip_longest
from typing import TypeVar

from sqlalchemy import delete, select
from sqlmodel import Session

from manager.answers.savings import CpuAnswer, EstimateAnswer, PointAnswer, SavedAnswer, ShareAnswer, WholeAnswer
from manager.savings.counters import CPU_PARTS, SECOND
from manager.savings.settlement import CpuEstimate, Settlement, Share, Work
from manager.store.tables import Leadership, MeteredRow, MeteredTenantRow, table_of
from merge import work_saved


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCpu:
    """What sharing and packing saved; made by `saved_cpu`."""

    work_by_sharing: float | None
    """The part of the work that sharing saved, between 0 and 1; None where no work was shared."""
    by_sharing: int | None
    """That work in nanoseconds; measured."""
    by_packing: CpuEstimate
    """Nanoseconds; below 0 where the layout of jobs costs more than it saves."""


def saved_cpu(work: Work, difference: CpuEstimate) -> SavedCpu:
    """Divide the difference between running alone and what was measured.

    >>> saved_cpu(Work(done=6, alone=8), CpuEstimate(low=1, likely=5, high=9))
    SavedCpu(work_by_sharing=0.25, by_sharing=2, by_packing=CpuEstimate(low=-1, likely=3, high=7))
    >>> saved_cpu(Work(done=6, alone=6), CpuEstimate(low=1, likely=5, high=9))
    SavedCpu(work_by_sharing=None, by_sharing=None, by_packing=CpuEstimate(low=1, likely=5, high=9))
    """
    if work.alone <= work.done:
        return SavedCpu(work_by_sharing=None, by_sharing=None, by_packing=difference)
    shared = work.alone - work.done
    return SavedCpu(
        work_by_sharing=work_saved(work.done, work.alone),
        by_sharing=shared,
        by_packing=difference.less(shared),
    )


N = TypeVar("N", str, tuple[str, str])
MINUTE, HOUR = 60, 3_600
KEPT = 2 * HOUR
"""Seconds for which minutes are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """The settlement of one minute; made by the meter."""

    at: int
    settled: Settlement


def write(session: Session, leader: str, minutes: Iterable[Minute]) -> bool:
    """Write minutes, except those already written; returns false, and writes nothing, if `leader` does not lead."""
    leadership = session.get_one(Leadership, 1)
    if leadership.leader != leader:
        return False
    for minute in minutes:
        if session.get(MeteredRow, (MINUTE, minute.at, leadership.term)) is None:
            _add(session, MINUTE, minute.at, leadership.term, minute.settled)
            _add(session, HOUR, minute.at - minute.at % HOUR, 0, minute.settled)
            for rows in (MeteredRow, MeteredTenantRow):
                columns = table_of(rows).c
                session.execute(
                    delete(rows).where(columns.span == MINUTE, columns.at < minute.at - KEPT),
                    execution_options={"synchronize_session": False},
                )
    return True


def _add(session: Session, span: int, at: int, term: int, settled: Settlement) -> None:
    row = session.get(MeteredRow, (span, at, term))
    added = (_EMPTY if row is None else _whole(row)).plus(settled)
    session.merge(
        MeteredRow(
            span=span,
            at=at,
            term=term,
            seconds=added.seconds,
            cpu=dict(added.cpu),
            overhead=added.overhead,
            launched=_list(added.launched),
            packed=_list(added.packed),
            work=added.work.done,
            work_alone=added.work.alone,
        )
    )
    of = table_of(MeteredTenantRow).c
    here = select(MeteredTenantRow).where(of.span == span, of.at == at, of.term == term)
    rows = {each.tenant: each for each in session.scalars(here)}
    shares: dict[str, dict[str, list[int]]] = {tenant: dict(known.dataflows) for tenant, known in rows.items()}
    changed = set[str]()
    for dataflow, share in settled.shares.items():
        dataflows = shares.setdefault(share.tenant, {})
        dataflows[dataflow] = _sum([dataflows.get(dataflow, _NOTHING), _values(share)])
        changed.add(share.tenant)
    for tenant in sorted(changed):
        known = rows.get(tenant)
        if known is None:
            known = MeteredTenantRow(span=span, at=at, term=term, tenant=tenant, took=[], dataflows={})
            session.add(known)
        known.dataflows, known.took = shares[tenant], _sum(shares[tenant].values())
    session.flush()


def _sum(each: Iterable[Sequence[int]]) -> list[int]:
    # Rows without metered work are shorter.
    return [sum(values) for values in zip_longest(*each, fillvalue=0)]


_NOTHING = (0,) * 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The totals of an interval in nanoseconds, as in `Settlement`; made by `whole`."""

    seconds: float = 0.0
    """The part of the interval that was metered."""
    cpu: Mapping[str, int] = field(default_factory=dict)
    overhead: int = 0
    launched: CpuEstimate = field(default_factory=CpuEstimate)
    packed: CpuEstimate = field(default_factory=CpuEstimate)
    work: Work = field(default_factory=Work)

    @property
    def measured(self) -> int:
        """The CPU of all parts."""
        return sum(self.cpu.values())

    @property
    def saved(self) -> SavedCpu:
        """What sharing and packing saved, against a job for each dataflow."""
        return saved_cpu(self.work, self.launched.less(self.measured))

    def plus(self, more: "Settlement | Whole") -> "Whole":
        """Add more to it."""
        parts = {*self.cpu, *more.cpu}
        return Whole(
            seconds=self.seconds + more.seconds,
            cpu={part: self.cpu.get(part, 0) + more.cpu.get(part, 0) for part in sorted(parts)},
            overhead=self.overhead + more.overhead,
            launched=self.launched.plus(more.launched),
            packed=self.packed.plus(more.packed),
            work=self.work.plus(more.work),
        )


_EMPTY = Whole()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeteredShare:
    """A share and its stand-alone estimate, in nanoseconds, added up over an interval."""

    cpu: int
    alone: CpuEstimate
    saving: CpuEstimate
    work: Work = field(default_factory=Work)

    @property
    def saved(self) -> SavedCpu:
        """What sharing and packing saved, against a job of its own."""
        return saved_cpu(self.work, self.saving)

    def plus(self, more: "MeteredShare") -> "MeteredShare":
        """Add more to it."""
        return MeteredShare(
            cpu=self.cpu + more.cpu,
            alone=self.alone.plus(more.alone),
            saving=self.saving.plus(more.saving),
            work=self.work.plus(more.work),
        )


NO_SHARE = MeteredShare(cpu=0, alone=CpuEstimate(), saving=CpuEstimate())
"""The share of a tenant or dataflow that took nothing."""


def whole(session: Session, span: int, since: int, until: int) -> Whole:
    """Add up the totals of the minutes or hours that begin in an interval."""
    of = table_of(MeteredRow).c
    rows = session.scalars(select(MeteredRow).where(of.span == span, of.at >= since, of.at < until))
    return reduce(Whole.plus, map(_whole, rows), _EMPTY)


def of_tenants(session: Session, span: int, since: int, until: int) -> dict[str, MeteredShare]:
    """Return the shares of all tenants that have any."""
    of = table_of(MeteredTenantRow).c
    wanted = select(of.tenant, of.took).where(of.span == span, of.at >= since, of.at < until)
    return _added((tenant, took) for tenant, took in session.execute(wanted))


def of_dataflows(session: Session, span: int, since: int, until: int, tenant: str) -> dict[str, MeteredShare]:
    """Return the shares of a tenant's dataflows, including removed ones."""
    of = table_of(MeteredTenantRow).c
    wanted = select(of.dataflows).where(of.span == span, of.at >= since, of.at < until, of.tenant == tenant)
    return _added(each for dataflows in session.scalars(wanted) for each in dataflows.items())


def of_everybody(session: Session, span: int, since: int, until: int) -> dict[tuple[str, str], MeteredShare]:
    """Return the shares of all dataflows of all tenants, including removed ones."""
    of = table_of(MeteredTenantRow).c
    wanted = select(of.tenant, of.dataflows).where(of.span == span, of.at >= since, of.at < until)
    rows = session.execute(wanted, execution_options={"yield_per": 500})
    return _added(((tenant, dataflow), took) for tenant, dataflows in rows for dataflow, took in dataflows.items())


def whole_series(session: Session, span: int, since: int, until: int) -> list[tuple[int, Whole]]:
    """Return the totals of each minute or hour that begins in an interval, with its beginning."""
    of = table_of(MeteredRow).c
    wanted = select(MeteredRow).where(of.span == span, of.at >= since, of.at < until).order_by(of.at)
    return [(row.at, _whole(row)) for row in session.scalars(wanted)]


def tenant_series(session: Session, span: int, since: int, until: int, tenant: str) -> list[tuple[int, MeteredShare]]:
    """Return a tenant's share in each minute or hour that begins in an interval, with its beginning."""
    of = table_of(MeteredTenantRow).c
    wanted = select(of.at, of.took).where(of.span == span, of.at >= since, of.at < until, of.tenant == tenant)
    return [(at, _took(took)) for at, took in session.execute(wanted.order_by(of.at))]


def metered_since(session: Session, at: int) -> bool:
    """Return true if something was metered at or after a time, so that everything before it is final."""
    of = table_of(MeteredRow).c
    return session.scalar(select(of.at).where(of.span == HOUR, of.at >= at).limit(1)) is not None


def _added(rows: Iterable[tuple[N, list[int]]]) -> dict[N, MeteredShare]:
    found: dict[N, list[int]] = {}
    for name, took in rows:
        found[name] = _sum([found.get(name, _NOTHING), took])
    return {name: _took(found[name]) for name in sorted(found)}


def _took(values: list[int]) -> MeteredShare:
    done, alone = values[7:9] or (0, 0)
    return MeteredShare(
        cpu=values[0],
        alone=_estimate(values[1:4]),
        saving=_estimate(values[4:7]),
        work=Work(done=done, alone=alone),
    )


def _values(share: Share) -> list[int]:
    """Return the values of a share in the order that `_took` reads."""
    return [share.cpu, *_list(share.alone), *_list(share.saving), share.work.done, share.work.alone]


def _whole(row: MeteredRow) -> Whole:
    return Whole(
        seconds=row.seconds,
        cpu=row.cpu,
        overhead=row.overhead,
        launched=_estimate(row.launched),
        packed=_estimate(row.packed),
        work=Work(done=row.work, alone=row.work_alone),
    )


def _estimate(values: list[int]) -> CpuEstimate:
    low, likely, high = values
    return CpuEstimate(low=low, likely=likely, high=high)


def _list(estimate: CpuEstimate) -> list[int]:
    return [estimate.low, estimate.likely, estimate.high]


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


M = TypeVar("M", MeteredShare, Whole)

MOST_POINTS = 500
_USUAL_POINTS = 126
_STEPS = (MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, 24 * HOUR)
"""The default steps: the first that makes no more than the usual number of points."""
LONGEST_STEP = _STEPS[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of equal length; made by `steps`."""

    interval: Interval
    """The interval, extended to whole steps."""
    step: int
    """Seconds of a step."""

    @property
    def count(self) -> int:
        """The number of steps."""
        return (self.interval.until - self.interval.since) // self.step

    def begins(self) -> range:
        """Return the beginning of each step."""
        return range(self.interval.since, self.interval.until, self.step)

    def of(self, at: int) -> int:
        """Return the beginning of the step that contains a time."""
        return at - at % self.step


def steps(since: datetime | None, until: datetime | None, step: int | None, now: float) -> Steps:
    """Return the steps from one time to another; by default, those of the last hour.

    They begin at multiples of their length, and are at least an hour if minutes are no longer kept.
    """
    within = interval(since, until, now)
    if step is None:
        length = within.until - within.since
        step = next((each for each in _STEPS if length <= each * _USUAL_POINTS), LONGEST_STEP)
    step = _up(step, within.span)
    if step % HOUR and within.since // step * step < now - KEPT + MINUTE:
        step = _up(step, HOUR)
    bounds = replace(
        within,
        span=MINUTE if step % HOUR else HOUR,
        since=within.since // step * step,
        until=_up(within.until, step),
    )
    return Steps(interval=bounds, step=step)


def points(
    wanted: Steps,
    whole_series: Iterable[tuple[int, Whole]],
    took: Iterable[tuple[int, MeteredShare]] | None,
    *,
    whole_too: bool,
    price_per_core_hour: float | None,
) -> tuple[PointAnswer, ...]:
    """Return the answer for each step; `took` is a tenant's share, None if no tenant's is wanted."""
    everything = _by_step(wanted, whole_series)
    own = None if took is None else _by_step(wanted, took)

    def point(begin: int) -> PointAnswer:
        whole = everything.get(begin)
        if whole is None:
            return PointAnswer(at=moment(begin), metered_seconds=0.0)
        scale = AmountScale(seconds=whole.seconds, price_per_core_hour=price_per_core_hour)
        share = None if own is None else own.get(begin, NO_SHARE)
        return PointAnswer(
            at=moment(begin),
            metered_seconds=round(whole.seconds, 3),
            measured=scale.cpu(whole.measured) if whole_too else None,
            alone_launched=scale.estimate(whole.launched) if whole_too else None,
            alone_packed=scale.estimate(whole.packed) if whole_too else None,
            share=None if share is None else scale.cpu(share.cpu),
            alone=None if share is None else scale.estimate(share.alone),
        )

    return tuple(map(point, wanted.begins()))


def _by_step(wanted: Steps, metered: Iterable[tuple[int, M]]) -> dict[int, M]:
    found: dict[int, M] = {}
    for at, more in metered:
        begin = wanted.of(at)
        found[begin] = found[begin].plus(more) if begin in found else more
    return found


def _up(seconds: int, unit: int) -> int:
    return math.ceil(seconds / unit) * unit
