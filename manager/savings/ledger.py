"""The ledger: metered shares in the database, by minute for two hours and by hour for good.

A minute is written once, under the term of the leading manager, and added to its hour in the same transaction, so a
retry counts nothing twice. Only the leading manager writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import zip_longest
from typing import TypeVar

from sqlalchemy import delete, select
from sqlmodel import Session

from manager.savings.cpu_estimate import CpuEstimate
from manager.savings.saved_cpu import SavedCpu, saved_cpu
from manager.savings.settlement import Settlement, Share, Work
from manager.store.tables import Leadership, MeteredRow, MeteredTenantRow, table_of

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
