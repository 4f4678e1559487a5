"""The ledger: what was metered, kept by minutes for two hours and by hours for good.

A minute is written once under the term of whoever led, and added to its hour in the same transaction: nothing counts
twice, whatever is tried again. Only who leads writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import zip_longest
from typing import TypeVar

from sqlalchemy import delete, select
from sqlmodel import Session

from manager.savings.settlement import Estimate, Settled, Share, Work
from manager.store.tables import Leadership, MeteredRow, MeteredTenantRow, table_of

N = TypeVar("N", str, tuple[str, str])
MINUTE, HOUR = 60, 3_600
KEPT = 2 * HOUR
"""Seconds for which minutes are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """What one minute cost whom; made by whoever meters, and written down by `write`."""

    at: int
    settled: Settled


def write(session: Session, leader: str, minutes: Iterable[Minute]) -> bool:
    """Write minutes down, if this is who leads; says whether it is. What was written before is not written again."""
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


def _add(session: Session, span: int, at: int, term: int, settled: Settled) -> None:
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
    # What was written before work was metered is shorter.
    return [sum(values) for values in zip_longest(*each, fillvalue=0)]


_NOTHING = (0,) * 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What everything took in an interval, in nanoseconds, as `Settled` has it; made by `whole`."""

    seconds: float = 0.0
    """For how much of it somebody metered."""
    cpu: Mapping[str, int] = field(default_factory=dict)
    overhead: int = 0
    launched: Estimate = field(default_factory=Estimate)
    packed: Estimate = field(default_factory=Estimate)
    work: Work = field(default_factory=Work)

    def plus(self, more: "Settled | Whole") -> "Whole":
        """This, and more of it."""
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
class Took:
    """A share, and what it stands against; in nanoseconds."""

    cpu: int
    alone: Estimate
    saving: Estimate
    work: Work = field(default_factory=Work)

    def plus(self, more: "Took") -> "Took":
        """This, and more of it."""
        return Took(
            cpu=self.cpu + more.cpu,
            alone=self.alone.plus(more.alone),
            saving=self.saving.plus(more.saving),
            work=self.work.plus(more.work),
        )


TOOK_NOTHING = Took(cpu=0, alone=Estimate(), saving=Estimate())
"""Of who took nothing."""


def whole(session: Session, span: int, since: int, until: int) -> Whole:
    """What everything took in the minutes or hours that begin in an interval."""
    of = table_of(MeteredRow).c
    rows = session.scalars(select(MeteredRow).where(of.span == span, of.at >= since, of.at < until))
    return reduce(Whole.plus, map(_whole, rows), _EMPTY)


def of_tenants(session: Session, span: int, since: int, until: int) -> dict[str, Took]:
    """The shares of all tenants that had any."""
    of = table_of(MeteredTenantRow).c
    wanted = select(of.tenant, of.took).where(of.span == span, of.at >= since, of.at < until)
    return _added((tenant, took) for tenant, took in session.execute(wanted))


def of_dataflows(session: Session, span: int, since: int, until: int, tenant: str) -> dict[str, Took]:
    """The shares of a tenant's dataflows, removed ones among them."""
    of = table_of(MeteredTenantRow).c
    wanted = select(of.dataflows).where(of.span == span, of.at >= since, of.at < until, of.tenant == tenant)
    return _added(each for dataflows in session.scalars(wanted) for each in dataflows.items())


def of_everybody(session: Session, span: int, since: int, until: int) -> dict[tuple[str, str], Took]:
    """The shares of all dataflows of all tenants, removed ones among them."""
    of = table_of(MeteredTenantRow).c
    wanted = select(of.tenant, of.dataflows).where(of.span == span, of.at >= since, of.at < until)
    rows = session.execute(wanted, execution_options={"yield_per": 500})
    return _added(((tenant, dataflow), took) for tenant, dataflows in rows for dataflow, took in dataflows.items())


def wholes(session: Session, span: int, since: int, until: int) -> list[tuple[int, Whole]]:
    """What everything took in each minute or hour that begins in an interval, with when it began."""
    of = table_of(MeteredRow).c
    wanted = select(MeteredRow).where(of.span == span, of.at >= since, of.at < until).order_by(of.at)
    return [(row.at, _whole(row)) for row in session.scalars(wanted)]


def of_tenant_by_time(session: Session, span: int, since: int, until: int, tenant: str) -> list[tuple[int, Took]]:
    """A tenant's share in each minute or hour, with when it began."""
    of = table_of(MeteredTenantRow).c
    wanted = select(of.at, of.took).where(of.span == span, of.at >= since, of.at < until, of.tenant == tenant)
    return [(at, _took(took)) for at, took in session.execute(wanted.order_by(of.at))]


def goes_on(session: Session, at: int) -> bool:
    """Whether something was metered at or after a time: then nothing more comes to what was before it."""
    of = table_of(MeteredRow).c
    return session.scalar(select(of.at).where(of.span == HOUR, of.at >= at).limit(1)) is not None


def _added(rows: Iterable[tuple[N, list[int]]]) -> dict[N, Took]:
    found: dict[N, list[int]] = {}
    for name, took in rows:
        found[name] = _sum([found.get(name, _NOTHING), took])
    return {name: _took(found[name]) for name in sorted(found)}


def _took(values: list[int]) -> Took:
    done, alone = values[7:9] or (0, 0)
    return Took(
        cpu=values[0],
        alone=_estimate(values[1:4]),
        saving=_estimate(values[4:7]),
        work=Work(done=done, alone=alone),
    )


def _values(share: Share) -> list[int]:
    """As `_took` reads them."""
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


def _estimate(values: list[int]) -> Estimate:
    low, likely, high = values
    return Estimate(low=low, likely=likely, high=high)


def _list(estimate: Estimate) -> list[int]:
    return [estimate.low, estimate.likely, estimate.high]
