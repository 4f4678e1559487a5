"""Bills, and savings over time."""

import time
from datetime import datetime

from sqlalchemy import select
from sqlmodel import Session

from dags import Problem
from manager.answers import BillAnswer, SeriesAnswer
from manager.cases.base import Caller
from manager.cases.savings import Savings, refuse_empty, whose_numbers
from manager.problem import InvalidRequest
from manager.savings import ledger
from manager.savings.bill import Bill
from manager.savings.bill_amounts import LONGEST_BILL, period
from manager.savings.intervals import moment
from manager.savings.steps import MOST_POINTS, points, steps
from manager.store.tables import DataflowRow, table_of

_AT_ONCE = 500
"""Of so many dataflows the names are read at once."""


class Bills(Savings):
    """What tenants are billed, and what was saved over time. Any manager tells it."""

    def bill(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        tenant: str | None = None,
    ) -> BillAnswer:
        """The bill of some hours; of this month so far if none are given. A tenant gets its own."""
        wanted = period(since, until, time.time())
        refuse_empty(wanted)
        if wanted.until - wanted.since > LONGEST_BILL:
            raise InvalidRequest([_TOO_LONG])
        with self._store.read() as session:
            whose = whose_numbers(session, caller, tenant)
            where = (wanted.span, wanted.since, wanted.until)
            # First, so that nothing comes between it and what is read.
            complete = ledger.metered_since(session, wanted.until)
            whole, everybody = ledger.whole(session, *where), ledger.of_everybody(session, *where)
            shown = {line: took for line, took in everybody.items() if whose in {None, line[0]}}
            names = _names(session, [dataflow for _, dataflow in shown])
        billed = Bill(
            whole=whole, everybody=everybody, shown=shown, names=names, price_per_core_hour=self.pricing.per_core_hour
        )
        return BillAnswer(
            since=moment(wanted.since),
            until=moment(wanted.until),
            complete=complete,
            metered_seconds=round(whole.seconds, 3),
            tenants=billed.tenants(),
            dataflows=billed.dataflows(),
            whole=billed.totals() if caller.is_operator else None,
            price_per_core_hour=self.pricing.exactly,
            currency=self.pricing.currency,
        )

    def savings_series(
        self,
        caller: Caller,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        step: int | None = None,
        tenant: str | None = None,
    ) -> SeriesAnswer:
        """What was saved in each step of an interval; of the last hour if none is given. A tenant learns its own."""
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
                price_per_core_hour=self.pricing.per_core_hour,
            ),
        )


_TOO_LONG = Problem(
    pointer="/query/from",
    code="interval-too-long",
    message="a bill is of three months at most",
    remedy="ask for each month by itself; bills of one after the other add up",
)
_TOO_MANY = Problem(
    pointer="/query/step",
    code="too-many-points",
    message=f"the interval falls into more than {MOST_POINTS} steps",
    remedy="ask for longer steps, or for a shorter interval",
)


def _names(session: Session, dataflows: list[str]) -> dict[str, str]:
    of = table_of(DataflowRow).c
    found: dict[str, str] = {}
    for begin in range(0, len(dataflows), _AT_ONCE):
        some = select(of.id, of.name).where(of.id.in_(dataflows[begin : begin + _AT_ONCE]))
        found.update((dataflow, name) for dataflow, name in session.execute(some))
    return found
