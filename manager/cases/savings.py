"""Savings: what sharing saves, and who pays for what."""

import time
from datetime import datetime

from sqlalchemy import select
from sqlmodel import Session

from dags import Problem
from manager.answers import SavingsAnswer, SeriesAnswer
from manager.cases.base import Base, Caller
from manager.problem import InvalidRequest, NotFound
from manager.savings import ledger
from manager.savings.intervals import AmountScale, Interval, dataflow_shares, interval, moment, shares, whole_answer
from manager.savings.steps import MOST_POINTS, points, steps
from manager.store.tables import DataflowRow, TenantRow, table_of


class Savings(Base):
    """Savings and shares; any manager has them, because all of it is in the database."""

    def report(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
        dataflow: str | None = None,
    ) -> SavingsAnswer:
        """The savings in an interval, by default the last hour; a tenant gets its own only."""
        wanted = interval(since, until, time.time())
        refuse_empty(wanted)
        with self._store.read() as session:
            if dataflow is None:
                whose = whose_numbers(session, caller, tenant)
            else:
                whose = _owner(session, dataflow, _asked_for(caller, tenant))
            return self._savings_answer(session, caller, wanted, whose, dataflow)

    def series(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: int | None = None,
        tenant: str | None = None,
    ) -> SeriesAnswer:
        """The savings in each step of an interval, by default of the last hour; a tenant gets its own."""
        wanted = steps(since, until, step, time.time())
        refuse_empty(wanted.interval)
        if wanted.count > MOST_POINTS:
            raise InvalidRequest([_TOO_MANY])
        span = wanted.interval
        where = (span.span, span.since, span.until)
        with self._store.read() as session:
            whose = whose_numbers(session, caller, tenant)
            wholes = ledger.whole_series(session, *where)
            took = [] if whose is None else ledger.tenant_series(session, *where, whose)
        return SeriesAnswer(
            since=moment(span.since),
            until=moment(span.until),
            step=wanted.step,
            tenant=whose,
            points=points(
                wanted,
                wholes,
                took if whose is not None else None,
                whole_too=caller.is_operator,
                price_per_core_hour=self._tools.pricing.per_core_hour,
            ),
        )

    def _savings_answer(
        self, session: Session, caller: Caller, wanted: Interval, whose: str | None, dataflow: str | None
    ) -> SavingsAnswer:
        where = (wanted.span, wanted.since, wanted.until)
        whole, tenants = ledger.whole(session, *where), ledger.of_tenants(session, *where)
        scale = AmountScale(seconds=whole.seconds, price_per_core_hour=self._tools.pricing.per_core_hour)
        shown = tenants if whose is None else {name: took for name, took in tenants.items() if name == whose}
        own = {} if whose is None else ledger.of_dataflows(session, *where, whose)
        if dataflow is not None:
            own = {name: took for name, took in own.items() if name == dataflow}
        return SavingsAnswer(
            since=moment(wanted.since),
            until=moment(wanted.until),
            metered_seconds=round(whole.seconds, 3),
            tenants=len(tenants),
            whole=whole_answer(whole, shown.values(), scale) if caller.is_operator else None,
            shares=shares(shown, scale),
            dataflows=() if whose is None else dataflow_shares(whose, own, scale),
            price_per_core_hour=self._tools.pricing.per_core_hour,
            currency=self._tools.pricing.currency,
        )


_EMPTY = Problem(
    pointer="/query/to",
    code="empty-interval",
    message="the interval ends before it begins, or begins in the future",
    remedy="let `to` be later than `from`, and `from` be in the past",
)
_TOO_MANY = Problem(
    pointer="/query/step",
    code="too-many-points",
    message=f"the interval falls into more than {MOST_POINTS} steps",
    remedy="ask for longer steps, or for a shorter interval",
)


def refuse_empty(wanted: Interval) -> None:
    """Refuse an interval that has no time in it."""
    if wanted.since >= wanted.until:
        raise InvalidRequest([_EMPTY])


def whose_numbers(session: Session, caller: Caller, tenant: str | None) -> str | None:
    """Whose numbers are wanted; None for everybody's. Refused where there is no such tenant for the caller."""
    whose = _asked_for(caller, tenant)
    if tenant is not None and session.get(TenantRow, tenant) is None:
        raise NotFound("tenant", tenant)
    return whose


def _asked_for(caller: Caller, tenant: str | None) -> str | None:
    if caller.tenant is not None and tenant not in {None, caller.tenant}:
        raise NotFound("tenant", tenant or "")
    return caller.tenant or tenant


def _owner(session: Session, dataflow: str, tenant: str | None) -> str:
    """Whose a dataflow is, which may be removed; refused where it is not that tenant's."""
    of = table_of(DataflowRow).c
    owner = session.scalar(select(of.tenant).where(of.id == dataflow))
    if owner is None or tenant not in {None, owner}:
        raise NotFound("dataflow", dataflow)
    return str(owner)
