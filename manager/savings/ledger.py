"""The ledger: metered shares in the database, and what is answered of them for intervals and their steps.

A minute is written once, under the term of the leading manager, and added to its hour in the same transaction,
so a retry counts nothing twice. Only the leading manager writes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import reduce
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Column, ColumnElement, delete, select
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlmodel import Session

from braid_client.answers.savings import CpuAnswer, EstimateAnswer, PointAnswer, SavedAnswer, ShareAnswer, WholeAnswer
from manager.savings.counters import CPU_PARTS, SECOND
from manager.savings.settlement import CpuEstimate, MeteredShare, SavedCpu, Settlement, Whole, Work
from manager.store.tables import Leadership, MeteredRow, MeteredTenantRow, table_of
from manager.use_case import moment

N = TypeVar("N", str, tuple[str, str])
MINUTE, HOUR = 60, 3_600
KEPT = 2 * HOUR
"""Seconds for which minutes are kept."""
Columns = ReadOnlyColumnCollection[str, Column[Any]]
_WHOLES: Columns = table_of(MeteredRow).c
_SHARES: Columns = table_of(MeteredTenantRow).c


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
            for rows, columns in ((MeteredRow, _WHOLES), (MeteredTenantRow, _SHARES)):
                old = delete(rows).where(columns.span == MINUTE, columns.at < minute.at - KEPT)
                session.execute(old, execution_options={"synchronize_session": False})
    return True


def _add(session: Session, span: int, at: int, term: int, settled: Settlement) -> None:
    row = session.get(MeteredRow, (span, at, term))
    added = (Whole() if row is None else _whole(row)).plus(settled)
    work = {"work": added.work.done, "work_alone": added.work.alone}
    session.merge(MeteredRow(span=span, at=at, term=term, **asdict(added) | work))
    here = select(MeteredTenantRow).where(_SHARES.span == span, _SHARES.at == at, _SHARES.term == term)
    rows = {share_row.tenant: share_row for share_row in session.scalars(here)}
    changed: dict[str, dict[str, list[int]]] = {}
    for dataflow, share in settled.shares.items():
        known = rows.get(share.tenant)
        dataflows = changed.setdefault(share.tenant, {} if known is None else dict(known.dataflows))
        dataflows[dataflow] = _sum(
            [dataflows.get(dataflow, _NOTHING), [share.cpu, *share.alone, *share.saving, *share.work]]
        )
    for tenant, dataflows in sorted(changed.items()):
        took = _sum(dataflows.values())
        session.merge(MeteredTenantRow(span=span, at=at, term=term, tenant=tenant, took=took, dataflows=dataflows))
    session.flush()


def _sum(rows: Iterable[Sequence[int]]) -> list[int]:
    # Rows without metered work are shorter.
    return [sum(values) for values in zip_longest(*rows, fillvalue=0)]


_NOTHING = (0,) * 9


NO_SHARE = MeteredShare()
"""The share of a tenant or dataflow that took nothing."""


def whole(session: Session, span: int, since: int, until: int) -> Whole:
    """Add up the totals of the minutes or hours that begin in an interval."""
    return reduce(Whole.plus, (one for _, one in whole_series(session, span, since, until)), Whole())


def of_tenants(session: Session, span: int, since: int, until: int) -> dict[str, MeteredShare]:
    """Return the shares of all tenants that have any."""
    wanted = select(_SHARES.tenant, _SHARES.took).where(*_within(_SHARES, span, since, until))
    return _added((tenant, took) for tenant, took in session.execute(wanted))


def of_dataflows(session: Session, span: int, since: int, until: int, tenant: str) -> dict[str, MeteredShare]:
    """Return the shares of a tenant's dataflows, including removed ones."""
    wanted = select(_SHARES.dataflows).where(*_within(_SHARES, span, since, until), _SHARES.tenant == tenant)
    return _added(took for dataflows in session.scalars(wanted) for took in dataflows.items())


def of_everybody(session: Session, span: int, since: int, until: int) -> dict[tuple[str, str], MeteredShare]:
    """Return the shares of all dataflows of all tenants, including removed ones."""
    wanted = select(_SHARES.tenant, _SHARES.dataflows).where(*_within(_SHARES, span, since, until))
    rows = session.execute(wanted, execution_options={"yield_per": 500})
    return _added(((tenant, dataflow), took) for tenant, dataflows in rows for dataflow, took in dataflows.items())


def whole_series(session: Session, span: int, since: int, until: int) -> list[tuple[int, Whole]]:
    """Return the totals of each minute or hour that begins in an interval, with its beginning."""
    wanted = select(MeteredRow).where(*_within(_WHOLES, span, since, until)).order_by(_WHOLES.at)
    return [(row.at, _whole(row)) for row in session.scalars(wanted)]


def tenant_series(session: Session, span: int, since: int, until: int, tenant: str) -> list[tuple[int, MeteredShare]]:
    """Return a tenant's share in each minute or hour that begins in an interval, with its beginning."""
    wanted = select(_SHARES.at, _SHARES.took).where(*_within(_SHARES, span, since, until), _SHARES.tenant == tenant)
    return [(at, _took(took)) for at, took in session.execute(wanted.order_by(_SHARES.at))]


def metered_since(session: Session, at: int) -> bool:
    """Return true if something was metered at or after a time, so that everything before it is final."""
    wanted = select(_WHOLES.at).where(_WHOLES.span == HOUR, _WHOLES.at >= at)
    return session.scalar(wanted.limit(1)) is not None


def _within(columns: Columns, span: int, since: int, until: int) -> tuple[ColumnElement[bool], ...]:
    return columns.span == span, columns.at >= since, columns.at < until


def _added(rows: Iterable[tuple[N, list[int]]]) -> dict[N, MeteredShare]:
    sums: dict[N, list[int]] = {}
    for name, took in rows:
        sums[name] = _sum([sums.get(name, _NOTHING), took])
    return {name: _took(sums[name]) for name in sorted(sums)}


def _took(values: list[int]) -> MeteredShare:
    """A share from its values as rows have them; those without metered work are shorter."""
    return MeteredShare(
        cpu=values[0], alone=CpuEstimate(*values[1:4]), saving=CpuEstimate(*values[4:7]), work=Work(*values[7:9])
    )


def _whole(row: MeteredRow) -> Whole:
    return Whole(
        seconds=row.seconds,
        cpu=row.cpu,
        overhead=row.overhead,
        launched=CpuEstimate(*row.launched),
        packed=CpuEstimate(*row.packed),
        work=Work(done=row.work, alone=row.work_alone),
    )


_NANOSECONDS_PER_HOUR = HOUR * SECOND


class Interval(NamedTuple):
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
        others=scale.cpu(whole.measured - whole.overhead - sum(share.cpu for share in shown)),
        alone_launched=scale.estimate(whole.launched),
        alone_packed=scale.estimate(whole.packed),
        saved=scale.saved(whole.saved),
    )


def share_answers(
    shares: Mapping[str, MeteredShare], scale: AmountScale, *, tenant: str | None = None
) -> tuple[ShareAnswer, ...]:
    """Return the answers for the shares of tenants, or of the dataflows of one."""
    return tuple(
        ShareAnswer(
            tenant=tenant or name,
            dataflow=name if tenant else None,
            share=scale.cpu(share.cpu),
            alone=scale.estimate(share.alone),
            saved=scale.saved(share.saved),
        )
        for name, share in shares.items()
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


def steps(since: datetime | None, until: datetime | None, step: int | None, now: float) -> Steps:
    """Return the steps from one time to another; by default, those of the last hour.

    They begin at multiples of their length, and are at least an hour if minutes are no longer kept.
    """
    within = interval(since, until, now)
    if step is None:
        length = within.until - within.since
        step = next((usual for usual in _STEPS if length <= usual * _USUAL_POINTS), LONGEST_STEP)
    step = _up(step, within.span)
    if step % HOUR and within.since // step * step < now - KEPT + MINUTE:
        step = _up(step, HOUR)
    span, since_step = MINUTE if step % HOUR else HOUR, within.since // step * step
    return Steps(interval=Interval(span, since_step, _up(within.until, step)), step=step)


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

    return tuple(map(point, range(wanted.interval.since, wanted.interval.until, wanted.step)))


def _by_step(wanted: Steps, metered: Iterable[tuple[int, M]]) -> dict[int, M]:
    sums: dict[int, M] = {}
    for at, more in metered:
        begin = at - at % wanted.step
        sums[begin] = sums[begin].plus(more) if begin in sums else more
    return sums


def _up(seconds: int, unit: int) -> int:
    return math.ceil(seconds / unit) * unit
